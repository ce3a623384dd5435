//! Counts answers by the operation that was asked for, and measures how long the answers waited.
//!
//! Time in a step stands still, so an answer that is given in the step of its request takes no time here. Only the wait
//! for backups and for the read lease counts. The process that runs the steps measures how long they take.
//!
//! Invariant: an answer is counted once, when it is given. If it has waited, it is counted in `waits` in the same step.

use ramhold_base::{Instant, Latencies};
use ramhold_wire::Opcode;

/// The operations that clients ask for, in the order of their opcodes.
const OPERATIONS: [Opcode; 6] =
    [Opcode::Read, Opcode::Write, Opcode::Remove, Opcode::Increment, Opcode::Multi, Opcode::Scan];
const FIRST: u16 = OPERATIONS[0].code();

#[derive(Debug, Default)]
pub(crate) struct Answered {
    counts: [u64; OPERATIONS.len()],
    waits: [Latencies; OPERATIONS.len()],
}

impl Answered {
    pub fn count(&mut self, opcode: u16) {
        self.count_several(opcode, 1);
    }

    pub fn count_several(&mut self, opcode: u16, answers: u64) {
        if let Some(count) = self.counts.get_mut(place(opcode)) {
            *count += answers;
        }
    }

    /// An answer that `count` counts too has waited from `since` to `now`.
    pub fn waited(&mut self, opcode: u16, since: Instant, now: Instant) {
        if let Some(waits) = self.waits.get_mut(place(opcode)) {
            waits.count(now.since(since));
        }
    }

    /// All answers since the start, by operation.
    pub fn by_operation(&self) -> Vec<(Opcode, Latencies)> {
        let places = OPERATIONS.iter().zip(&self.counts).zip(&self.waits);
        let together = |((opcode, count), waits): ((&Opcode, &u64), &Latencies)| {
            let mut latencies = waits.clone();
            latencies.count_at_once(count - waits.total());
            (*opcode, latencies)
        };
        places.map(together).collect()
    }
}

fn place(opcode: u16) -> usize {
    usize::from(opcode.wrapping_sub(FIRST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn operations_stand_in_the_order_of_their_numbers() {
        for (index, opcode) in OPERATIONS.iter().enumerate() {
            assert_eq!(place(opcode.code()), index);
        }
    }

    #[test]
    fn answers_at_once_and_those_that_waited_are_told_together() {
        let mut answered = Answered::default();
        for _ in 0..3 {
            answered.count(Opcode::Write.code());
        }
        answered.waited(Opcode::Write.code(), Instant(1000), Instant(6000));
        answered.count(Opcode::Ping.code());
        let by_operation = answered.by_operation();
        let total: u64 = by_operation.iter().map(|(_, latencies)| latencies.total()).sum();
        assert_eq!(total, 3);
        assert_eq!((by_operation[1].0, by_operation[1].1.total()), (Opcode::Write, 3));
        assert_eq!(by_operation[1].1.sum_nanos(), Duration::from_micros(5).as_nanos() as u64);
    }
}
