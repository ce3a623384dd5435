//! A stale get: the newest value of a single brick, whatever the others have.
//!
//! It needs one brick that answers, and so ends where a get finds no quorum. The value was written at the time of its
//! stamp, may have been overwritten since, and may never have been committed: a later get may return an older one. Nothing
//! is repaired.
//!
//! Not here: which bricks are asked first (core/client). Protocol: docs/protocols/quorum.md, rule 41. Catalogue: I1.

use crate::PATIENCE_GROWTH;
use crate::message::{Answer, Ask, BrickId, Out, Said};
use crate::under_way::Late;
use ramhold_base::{Instant, Stamp};
use std::time::Duration;

/// The end of a stale get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StaleGot<V> {
    /// The record of a brick, and its time. Without a value the key is absent there.
    Told {
        from: BrickId,
        stamp: Stamp,
        value: Option<V>,
        /// In microseconds.
        time: u64,
    },
    /// No brick answered.
    NoAnswer(Vec<BrickId>),
    WrongOwner,
}

#[derive(Clone, Debug)]
pub struct StaleGet {
    /// In the order in which they are asked.
    bricks: Vec<BrickId>,
    /// The number of bricks that were asked since the last round began.
    asked: usize,
    /// Bricks that do not hold the key.
    strangers: Vec<BrickId>,
    /// Since when the brick that was asked last has the question. None: it has refused.
    under_way: Option<Instant>,
    deadline: Instant,
    /// A brick that is silent for longer is left for the next one. The first patience, and the present one.
    patience: (Duration, Duration),
    wake_at: Instant,
    has_ended: bool,
}

/// The number of the only attempt.
const ATTEMPT: u32 = 1;

impl StaleGet {
    pub fn new(now: Instant, bricks: &[BrickId], (deadline, patience): (Instant, Duration)) -> StaleGet {
        StaleGet {
            bricks: bricks.to_vec(),
            asked: 0,
            strangers: Vec::new(),
            under_way: None,
            deadline,
            patience: (patience, patience),
            wake_at: now,
            has_ended: false,
        }
    }

    pub fn start<V>(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        self.ask_next(now, outs);
        self.wake(now, outs);
    }

    fn wake<V>(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        let (first, present) = self.patience;
        self.wake_at = now + present;
        self.patience.1 = (present * 2).min(first * PATIENCE_GROWTH);
        outs.push(Out::WakeAt(self.wake_at.min(self.deadline)));
    }

    /// Asks the next brick. When all were asked, none is until the round begins anew.
    fn ask_next<V>(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        if let Some(to) = self.bricks.get(self.asked) {
            self.asked += 1;
            self.under_way = Some(now);
            outs.push(Out::Send { to: *to, attempt: ATTEMPT, ask: Ask::Value });
        }
    }

    /// An answer. Returns the end.
    pub fn on_answer<V>(
        &mut self,
        now: Instant,
        attempt: u32,
        answer: Answer<V>,
        outs: &mut Vec<Out<V>>,
    ) -> Option<StaleGot<V>> {
        if self.has_ended || attempt != ATTEMPT || !self.bricks.contains(&answer.from) {
            return None;
        }
        let (from, time) = (answer.from, answer.clock);
        match answer.said {
            Said::Value(stamp, value) => {
                self.has_ended = true;
                Some(StaleGot::Told { from, stamp, value, time })
            }
            Said::WrongOwner => {
                if !self.strangers.contains(&from) {
                    self.strangers.push(from);
                    self.ask_next(now, outs);
                }
                self.has_ended = self.strangers.len() == self.bricks.len();
                self.has_ended.then_some(StaleGot::WrongOwner)
            }
            Said::Stamp(_) | Said::Applied | Said::Rejected(_) | Said::Unknown(_) => None,
        }
    }

    /// A brick refuses to answer, or its connection is gone: the next one is asked at once.
    pub fn on_silent<V>(&mut self, now: Instant, brick: BrickId, outs: &mut Vec<Out<V>>) {
        let is_last_asked = self.asked.checked_sub(1).is_some_and(|last| self.bricks[last] == brick);
        if !self.has_ended && is_last_asked {
            self.under_way = None;
            self.ask_next(now, outs);
        }
    }

    /// The brick that is late, if it is time to ask another one and it still has the question.
    pub fn late(&self, now: Instant) -> Option<Late> {
        let is_due = !self.has_ended && now >= self.wake_at && now < self.deadline;
        let (brick, since) = (self.bricks[self.asked.checked_sub(1)?], self.under_way?);
        (is_due && !self.strangers.contains(&brick)).then_some(Late { brick, since })
    }

    /// Waits on for the brick that is late, and asks no other one yet.
    pub fn wait_on<V>(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        self.wake(now, outs);
    }

    /// The time has come that was asked for. Returns the end.
    pub fn on_time<V>(&mut self, now: Instant, outs: &mut Vec<Out<V>>) -> Option<StaleGot<V>> {
        if self.has_ended || now < self.wake_at.min(self.deadline) {
            return None;
        }
        if now >= self.deadline {
            self.has_ended = true;
            return Some(StaleGot::NoAnswer(self.bricks.clone()));
        }
        if self.asked == self.bricks.len() {
            self.asked = 0;
        }
        self.ask_next(now, outs);
        self.wake(now, outs);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Life;

    const BRICKS: [BrickId; 3] = [BrickId(1), BrickId(2), BrickId(3)];
    const STAMP: Stamp = Stamp { time: 5, session: 2 };

    fn get() -> (StaleGet, Vec<Out<u8>>) {
        let within = (Instant(0) + Duration::from_secs(1), Duration::from_millis(20));
        let mut get = StaleGet::new(Instant(0), &BRICKS, within);
        let mut outs = Vec::new();
        get.start(Instant(0), &mut outs);
        (get, outs)
    }

    fn asked(outs: &mut Vec<Out<u8>>) -> Vec<u64> {
        let sent = outs.drain(..).filter_map(|out| match out {
            Out::Send { to, ask: Ask::Value, .. } => Some(to.0),
            Out::Send { .. } => panic!("only values are asked for"),
            Out::WakeAt(_) => None,
        });
        sent.collect()
    }

    fn answer(from: u64, said: Said<u8>) -> Answer<u8> {
        Answer { from: BrickId(from), life: Life(1), siblings: Vec::new(), epoch: 1, clock: 9, said }
    }

    // I1
    #[test]
    fn one_brick_is_asked_and_its_answer_is_told() {
        let (mut get, mut outs) = get();
        assert_eq!(asked(&mut outs), [1]);
        let told = get.on_answer(Instant(0), 1, answer(1, Said::Value(STAMP, Some(7))), &mut outs);
        let wanted = StaleGot::Told { from: BrickId(1), stamp: STAMP, value: Some(7), time: 9 };
        assert_eq!((told, asked(&mut outs)), (Some(wanted), vec![]));
        assert_eq!(
            get.on_answer(Instant(0), 1, answer(2, Said::Value(STAMP, None)), &mut outs),
            None,
            "it has ended"
        );
    }

    // I1
    #[test]
    fn a_silent_brick_is_left_after_its_patience_and_a_refusing_one_at_once() {
        let (mut get, mut outs) = get();
        asked(&mut outs);
        get.on_silent(Instant(0), BrickId(1), &mut outs);
        get.on_silent(Instant(0), BrickId(1), &mut outs);
        assert_eq!(asked(&mut outs), [2], "one refusal asks one brick");
        let mut now = Instant(0) + Duration::from_millis(20);
        assert_eq!(get.on_time(now, &mut outs), None);
        assert_eq!(asked(&mut outs), [3]);
        now = now + Duration::from_millis(40);
        assert_eq!(get.on_time(now, &mut outs), None);
        assert_eq!(asked(&mut outs), [1], "all were asked: the round begins anew");
        now = Instant(0) + Duration::from_secs(1);
        assert_eq!(get.on_time(now, &mut outs), Some(StaleGot::NoAnswer(BRICKS.to_vec())));
    }

    // I1
    #[test]
    fn only_all_bricks_together_say_that_the_key_is_elsewhere() {
        let (mut get, mut outs) = get();
        for (from, next) in [(1, vec![1, 2]), (2, vec![3])] {
            assert_eq!(get.on_answer(Instant(0), 1, answer(from, Said::WrongOwner), &mut outs), None);
            assert_eq!(asked(&mut outs), next);
        }
        let end = get.on_answer(Instant(0), 1, answer(3, Said::WrongOwner), &mut outs);
        assert_eq!(end, Some(StaleGot::WrongOwner));
    }
}
