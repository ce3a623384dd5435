//! The questions that wait at a brick: for their turn, or until something is durable. One list for each class.
//!
//! A brick answers a question in the step in which it comes. Only when more questions come in one turn of the process than
//! `TURN_COUNT` do the rest wait in lists, and are served by shares: 32 gets, 14 puts and 10 questions for stamps in a
//! round. So a flood of one class does not keep the others waiting. A question that waits until something is durable
//! counts until its answer goes out. A class that has too many questions, or too many bytes, refuses what comes.
//!
//! Invariants:
//! - a list has something only while a round is due;
//! - no class exceeds its share of the bounds, but that one question is always taken.
//!
//! Not here: what a question means (`asking`). Source: DSTORE04 5. Protocol: docs/protocols/quorum.md, rule 40.
//! Catalogue: I5.

use crate::question::{Asker, Load};
use crate::statistics::BrickStatistics;
use ramhold_base::Instant;
use ramhold_quorum::Class;
use std::collections::VecDeque;

/// The shares of gets, puts and stamps: of a round, and of the bounds.
pub const SHARES: [usize; Class::ALL.len()] = [32, 14, 10];
/// Questions that are served at once in one turn of the process, and in one round.
pub(crate) const TURN_COUNT: usize = SHARES[0] + SHARES[1] + SHARES[2];
/// Rounds in one step: a millisecond of work, so that nothing else of the brick waits for longer.
const ROUNDS_MAX: usize = 4;
/// The most questions that wait, of all classes: full windows of some 56 sessions.
const COUNT_MAX: usize = TURN_COUNT * 1024;

// A single session cannot fill a list.
const _: () = assert!(COUNT_MAX / TURN_COUNT * SHARES[2] > ramhold_quorum::WINDOW_MOST as usize);

/// A question that waits for its turn: the body of its message.
pub struct Queued {
    pub asker: Asker,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Amount {
    count: usize,
    bytes: usize,
}

impl Amount {
    fn add(&mut self, load: Load) {
        self.count += 1;
        self.bytes += load.bytes as usize;
    }

    fn remove(&mut self, load: Load) {
        self.count -= 1;
        self.bytes -= load.bytes as usize;
    }
}

#[derive(Default)]
struct Queue {
    list: VecDeque<Queued>,
    listed: Amount,
    /// Questions that were judged, and whose answers wait until something is durable.
    waiting: Amount,
    max: Amount,
}

pub struct Queues {
    queues: [Queue; Class::ALL.len()],
    /// Questions that were served since the last round.
    served: usize,
    statistics: BrickStatistics,
}

impl Queues {
    /// `bytes_max` is for all classes together.
    pub fn new(bytes_max: usize) -> Queues {
        let queue = |share: usize| Queue {
            max: Amount { count: COUNT_MAX / TURN_COUNT * share, bytes: bytes_max / TURN_COUNT * share },
            ..Queue::default()
        };
        Queues { queues: SHARES.map(queue), served: 0, statistics: BrickStatistics::default() }
    }

    fn of(&mut self, class: Class) -> &mut Queue {
        &mut self.queues[class.index()]
    }

    /// Whether a question may wait here.
    pub fn admits(&self, load: Load) -> bool {
        let Queue { listed, waiting, max, .. } = &self.queues[load.class.index()];
        let (count, bytes) = (listed.count + waiting.count, listed.bytes + waiting.bytes);
        count == 0 || (count < max.count && bytes + load.bytes as usize <= max.bytes)
    }

    /// Whether a question may be served in this step: nothing waits for its turn, and the turn is not too long yet.
    pub fn takes_turn(&mut self) -> bool {
        let is_free = self.served < TURN_COUNT && self.queues.iter().all(|queue| queue.list.is_empty());
        self.served += usize::from(is_free);
        is_free
    }

    /// The question waits for its turn.
    pub fn push(&mut self, queued: Queued) {
        let queue = self.of(queued.asker.load.class);
        queue.listed.add(queued.asker.load);
        queue.list.push_back(queued);
    }

    /// Whether the next round is to begin as soon as what comes in this turn has come.
    pub fn is_due(&self) -> bool {
        self.served >= TURN_COUNT || self.queues.iter().any(|queue| !queue.list.is_empty())
    }

    /// Takes the questions of the next rounds, in the order in which they are served.
    pub fn take_rounds(&mut self) -> Vec<Queued> {
        self.served = 0;
        let mut taken = Vec::new();
        for _ in 0..ROUNDS_MAX {
            for (queue, share) in self.queues.iter_mut().zip(SHARES) {
                for _ in 0..share {
                    let Some(queued) = queue.list.pop_front() else { break };
                    queue.listed.remove(queued.asker.load);
                    taken.push(queued);
                }
            }
        }
        taken
    }

    /// A question is served now.
    pub fn served(&mut self, now: Instant, asker: Asker) {
        let delay = now.since(asker.came);
        self.statistics.of_mut(asker.load.class).queue_delay.add(delay);
    }

    /// The answer to a question that was judged waits until something is durable.
    pub fn waits(&mut self, load: Load) {
        self.of(load.class).waiting.add(load);
    }

    /// It waits no more.
    pub fn waited(&mut self, load: Load) {
        self.of(load.class).waiting.remove(load);
    }

    /// These are all that wait until something is durable. Registers that are gone have taken theirs along.
    pub fn recount<'a>(&mut self, waiting: impl Iterator<Item = &'a Asker>) {
        self.queues.iter_mut().for_each(|queue| queue.waiting = Amount::default());
        waiting.for_each(|asker| self.waits(asker.load));
    }

    pub fn answered(&mut self, now: Instant, asker: Asker) {
        let of_class = self.statistics.of_mut(asker.load.class);
        let time = now.since(asker.came);
        of_class.success += 1;
        of_class.latency.add(time);
        of_class.waited += time.as_nanos();
    }

    pub fn dropped(&mut self, class: Class) {
        self.statistics.of_mut(class).dropped += 1;
    }

    /// The bytes that wait, of all classes.
    pub fn bytes(&self) -> usize {
        self.queues.iter().map(|queue| queue.listed.bytes + queue.waiting.bytes).sum()
    }

    pub fn statistics(&self) -> BrickStatistics {
        let mut statistics = self.statistics;
        for class in Class::ALL {
            let queue = &self.queues[class.index()];
            statistics.of_mut(class).queue_length = (queue.listed.count + queue.waiting.count) as u64;
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = TURN_COUNT * 1000;

    fn asker(class: Class, bytes: u32) -> Asker {
        Asker { load: Load { class, bytes }, ..Asker::NOBODY }
    }

    fn push(queues: &mut Queues, class: Class, count: usize) {
        (0..count).for_each(|_| queues.push(Queued { asker: asker(class, 1), body: Vec::new() }));
    }

    fn counts(taken: &[Queued]) -> [usize; 3] {
        Class::ALL.map(|class| taken.iter().filter(|it| it.asker.load.class == class).count())
    }

    // I5
    #[test]
    fn a_backlog_is_served_by_shares_and_a_class_alone_takes_all() {
        let mut queues = Queues::new(BYTES_MAX);
        Class::ALL.iter().for_each(|class| push(&mut queues, *class, 200));
        assert_eq!(counts(&queues.take_rounds()), SHARES.map(|share| share * ROUNDS_MAX));
        assert_eq!(counts(&queues.take_rounds()), [200 - 128, 56, 40]);
        assert_eq!(counts(&queues.take_rounds()), [0, 56, 40]);
        while queues.is_due() {
            queues.take_rounds();
        }
        assert_eq!((queues.bytes(), queues.statistics()), (0, BrickStatistics::default()));
    }

    // I5
    #[test]
    fn a_turn_serves_what_comes_at_once_until_it_is_too_long() {
        let mut queues = Queues::new(BYTES_MAX);
        assert!((0..TURN_COUNT).all(|_| queues.takes_turn()));
        assert!(queues.is_due() && !queues.takes_turn());
        assert!(queues.take_rounds().is_empty());
        assert!(queues.takes_turn() && !queues.is_due());
        push(&mut queues, Class::Put, 1);
        assert!(!queues.takes_turn(), "nobody overtakes");
    }

    // I5
    #[test]
    fn each_class_is_bounded_by_number_and_by_bytes_and_takes_one_always() {
        let mut queues = Queues::new(BYTES_MAX);
        let large = Load { class: Class::Put, bytes: u32::MAX };
        assert!(queues.admits(large));
        queues.waits(Load { class: Class::Put, bytes: 13_999 });
        assert!(queues.admits(Load { class: Class::Put, bytes: 1 }));
        assert!(!queues.admits(Load { class: Class::Put, bytes: 2 }));
        assert!(queues.admits(Load { class: Class::Get, bytes: 2 }), "each class has its own");
        let small = Load { class: Class::Stamp, bytes: 0 };
        (0..10 * 1024).for_each(|_| queues.waits(small));
        assert!(!queues.admits(small));
        queues.waited(small);
        assert!(queues.admits(small));
        assert_eq!(queues.statistics().of(Class::Stamp).queue_length, 10 * 1024 - 1);
        queues.recount([asker(Class::Get, 5)].iter());
        assert_eq!(queues.bytes(), 5);
    }
}
