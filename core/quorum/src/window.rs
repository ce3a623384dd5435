//! A sending window: how many questions of one class a session may have under way at one brick.
//!
//! The window grows by one per round of answers while it is the limit, and is halved when a brick does not keep up: additive
//! increase, multiplicative decrease, as in TCP. So a slow brick is asked less, and the others carry its share, although
//! nobody tells anybody how fast a brick is.
//!
//! Invariants:
//! - a question goes out only while fewer are under way than the window's whole part;
//! - `WINDOW_LEAST <= size <= WINDOW_MOST`;
//! - the losses of one round cut the window once.
//!
//! Not here: what counts as a loss, and which brick is asked (core/client). Source: DSTORE04 5. Protocol:
//! docs/protocols/quorum.md, rule 38. Catalogue: I5.

/// The size of a window at first. A session that has only begun does not flood a brick, and one that asks one question at
/// a time never notices.
const WINDOW_FIRST: u64 = 4;
/// The least size: a brick that answers nothing is asked one question per timeout.
const WINDOW_LEAST: u64 = 1;
/// The most that one session asks of one brick at a time, for each class.
pub const WINDOW_MOST: u64 = 256;

/// A size is a number of such parts, so that decisions need no floats.
const ONE: u64 = 1 << 24;

/// The classes of questions: each has a window of its own in a session, and a queue of its own at a brick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// The newest value of a key.
    Get,
    /// A value to be stored, by a put or a repair.
    Put,
    /// The newest stamp of a key.
    Stamp,
}

impl Class {
    pub const ALL: [Class; 3] = [Class::Get, Class::Put, Class::Stamp];

    /// The class's place in `ALL`.
    pub fn index(self) -> usize {
        match self {
            Class::Get => 0,
            Class::Put => 1,
            Class::Stamp => 2,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Class::Get => "get",
            Class::Put => "put",
            Class::Stamp => "ts",
        }
    }
}

/// A question that is under way. It ends by exactly one of `succeeded`, `lost` and `ended`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sending {
    /// Counts the questions of the window.
    number: u64,
    /// The question filled the window.
    is_last: bool,
}

#[derive(Clone, Debug)]
pub struct Window {
    size: u64,
    under_way: u64,
    /// The number of the last question.
    sent: u64,
    /// The number of the last question before the last cut. Losses up to this one belong to that cut.
    cut: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window { size: WINDOW_FIRST * ONE, under_way: 0, sent: 0, cut: 0 }
    }
}

impl Window {
    /// Whether a question may go out.
    pub fn is_open(&self) -> bool {
        self.under_way < self.size / ONE
    }

    /// A question goes out.
    pub fn send(&mut self) -> Sending {
        assert!(self.is_open(), "a question waits until the window is open");
        self.under_way += 1;
        self.sent += 1;
        Sending { number: self.sent, is_last: !self.is_open() }
    }

    /// The answer has come in time. The window grows if it was the limit.
    pub fn succeeded(&mut self, sending: Sending) {
        self.ended(sending);
        if sending.is_last {
            self.size = (self.size + ONE * ONE / self.size).min(WINDOW_MOST * ONE);
        }
    }

    /// No answer came in time, or the brick refused because too much waits there. The window is halved, unless it was cut
    /// since the question went out.
    pub fn lost(&mut self, sending: Sending) {
        self.ended(sending);
        if sending.number > self.cut {
            self.size = (self.size / 2).max(WINDOW_LEAST * ONE);
            self.cut = self.sent;
        }
    }

    /// The question is over, and says nothing of the brick's load.
    pub fn ended(&mut self, _: Sending) {
        self.under_way = self.under_way.checked_sub(1).expect("a question ends once");
    }

    /// The brick has begun another life: it is cold, and gets its share as it answers.
    pub fn restarted(&mut self) {
        self.size = WINDOW_LEAST * ONE;
        self.cut = self.sent;
    }

    /// How full the window is; `FULL` is a whole window. Less is better.
    pub fn utilisation(&self) -> u64 {
        self.under_way * FULL * ONE / self.size
    }
}

/// The utilisation of a window whose size is the number of its questions under way.
pub const FULL: u64 = 1 << 16;

// Products stay within 64 bits.
const _: () = assert!(WINDOW_MOST * 2 < u64::MAX / FULL / ONE);
const _: () = assert!(WINDOW_LEAST >= 1 && WINDOW_FIRST <= WINDOW_MOST);

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(window: &mut Window) -> Vec<Sending> {
        std::iter::from_fn(|| window.is_open().then(|| window.send())).collect()
    }

    /// A full window is answered, and only the last answer is one that can let it grow.
    fn answer_all(window: &mut Window) {
        let sent = fill(window);
        let (last, others) = sent.split_last().expect("a window has room for one");
        window.succeeded(*last);
        others.iter().for_each(|it| window.ended(*it));
    }

    fn lose_one(window: &mut Window) {
        let sent = fill(window);
        window.lost(sent[0]);
        sent[1..].iter().for_each(|it| window.ended(*it));
    }

    fn rounded(window: &Window) -> f64 {
        (window.size as f64 / ONE as f64 * 10_000.0).round() / 10_000.0
    }

    // I5: a full window answered, twelve rounds, a whole window lost, one loss, six losses, a restart.
    #[test]
    fn a_window_follows_the_golden_trace() {
        let mut window = Window::default();
        let mut trace = Vec::new();
        let sent = fill(&mut window);
        assert_eq!(sent.len(), 4);
        sent.into_iter().for_each(|it| window.succeeded(it));
        trace.push(rounded(&window));
        (0..12).for_each(|_| answer_all(&mut window));
        trace.push(rounded(&window));
        fill(&mut window).into_iter().for_each(|it| window.lost(it));
        trace.push(rounded(&window));
        lose_one(&mut window);
        trace.push(rounded(&window));
        (0..6).for_each(|_| lose_one(&mut window));
        trace.push(rounded(&window));
        window.restarted();
        trace.push(rounded(&window));
        assert_eq!(trace, [4.25, 6.5191, 3.2595, 1.6298, 1.0, 1.0]);
        assert_eq!(window.under_way, 0);
    }

    // I5
    #[test]
    fn a_window_stays_within_its_bounds_and_full_ones_let_nothing_out() {
        let mut window = Window::default();
        (0..40_000).for_each(|_| answer_all(&mut window));
        assert_eq!(window.size, WINDOW_MOST * ONE);
        assert_eq!(fill(&mut window).len() as u64, WINDOW_MOST);
        assert_eq!(window.utilisation(), FULL);
        let mut window = Window::default();
        window.restarted();
        let sent = fill(&mut window);
        assert_eq!(sent.len(), 1);
        window.lost(sent[0]);
        assert_eq!(fill(&mut window).len(), 1, "one question per timeout is always possible");
    }

    // I5
    #[test]
    fn losses_of_questions_from_before_a_cut_or_a_restart_cut_nothing() {
        let mut window = Window::default();
        let before = fill(&mut window);
        window.lost(before[0]);
        let after = window.size;
        window.lost(before[3]);
        assert_eq!(window.size, after);
        let mut window = Window::default();
        let before = fill(&mut window);
        window.restarted();
        window.succeeded(before[3]);
        window.succeeded(before[2]);
        let grown = window.size;
        window.lost(before[1]);
        assert_eq!(window.size, grown);
    }

    // I5
    #[test]
    fn the_emptier_of_two_windows_is_the_one_with_more_room_for_its_size() {
        let (mut wide, mut narrow) = (Window::default(), Window::default());
        assert_eq!(wide.utilisation(), narrow.utilisation());
        narrow.restarted();
        wide.send();
        wide.send();
        narrow.send();
        assert!(wide.utilisation() < narrow.utilisation());
        assert_eq!(wide.utilisation(), FULL / 2);
    }
}
