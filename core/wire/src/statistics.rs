//! The operating statistics of a brick: 17 numbers, told with each report, by which bricks are compared.
//!
//! Two are of the process. The others are of its queues: of gets, puts and stamps each the length, what was done and
//! dropped since the report before, and moving averages of the delay in the queue and of the latency.
//!
//! All are whole numbers, so that every brick comes to the same verdict from the same reports.
//!
//! Invariant: the place and the name of a statistic never change.
//!
//! Not here: queues and the measuring (core/brick), the comparison (core/detector). Source: DSTORE04 7, Table II.
//! Protocol: docs/protocols/quorum.md, rules 49 and 64. Catalogue: I6.

use minicbor::{Decode, Encode};
use std::fmt;

/// How many statistics there are.
pub const STATISTIC_COUNT: usize = 17;

/// The queue of a brick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Queue {
    Get,
    Put,
    Stamp,
}

impl Queue {
    pub const ALL: [Queue; 3] = [Queue::Get, Queue::Put, Queue::Stamp];

    pub const fn name(self) -> &'static str {
        match self {
            Queue::Get => "get",
            Queue::Put => "put",
            Queue::Stamp => "stamp",
        }
    }
}

/// One statistic. Its name and its place never change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Statistic {
    /// The part of the time since the report before in which the process ran, of 1,000.
    Cpu,
    /// The part of its memory that is used, of 1,000.
    Memory,
    /// Questions that wait, in the mean since the report before, in parts of a thousand.
    QueueLength(Queue),
    /// Questions that were answered in half a second, in the mean since the report before.
    Success(Queue),
    /// Questions that were refused in half a second because the queue was full, in the mean since the report before.
    Dropped(Queue),
    /// Moving average of the time in the queue, in nanoseconds.
    QueueDelay(Queue),
    /// Moving average of the time until the answer, in nanoseconds.
    Latency(Queue),
}

impl Statistic {
    /// In the order of their places.
    pub const ALL: [Statistic; STATISTIC_COUNT] = {
        use Queue::{Get, Put, Stamp};
        use Statistic::{Cpu, Dropped, Latency, Memory, QueueDelay, QueueLength, Success};
        [
            Cpu,
            Memory,
            QueueLength(Get),
            QueueLength(Put),
            QueueLength(Stamp),
            Success(Get),
            Success(Put),
            Success(Stamp),
            Dropped(Get),
            Dropped(Put),
            Dropped(Stamp),
            QueueDelay(Get),
            QueueDelay(Put),
            QueueDelay(Stamp),
            Latency(Get),
            Latency(Put),
            Latency(Stamp),
        ]
    };

    /// Its place among the 17.
    pub const fn place(self) -> usize {
        match self {
            Statistic::Cpu => 0,
            Statistic::Memory => 1,
            Statistic::QueueLength(queue) => 2 + queue as usize,
            Statistic::Success(queue) => 5 + queue as usize,
            Statistic::Dropped(queue) => 8 + queue as usize,
            Statistic::QueueDelay(queue) => 11 + queue as usize,
            Statistic::Latency(queue) => 14 + queue as usize,
        }
    }

    pub const fn name(self) -> &'static str {
        const NAMES: [&str; STATISTIC_COUNT] = [
            "cpu",
            "memory",
            "queue_length_get",
            "queue_length_put",
            "queue_length_stamp",
            "success_get",
            "success_put",
            "success_stamp",
            "dropped_get",
            "dropped_put",
            "dropped_stamp",
            "queue_delay_get",
            "queue_delay_put",
            "queue_delay_stamp",
            "latency_get",
            "latency_put",
            "latency_stamp",
        ];
        NAMES[self.place()]
    }
}

/// The 17 statistics of one report, by their places. On the wire: an array of 17 whole numbers, 1 to 9 bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Statistics(#[n(0)] pub [u64; STATISTIC_COUNT]);

impl Statistics {
    pub fn of(&self, statistic: Statistic) -> u64 {
        self.0[statistic.place()]
    }

    pub fn set(&mut self, statistic: Statistic, value: u64) {
        self.0[statistic.place()] = value;
    }
}

/// Some of the statistics: a bit for each, by its place. Bits without a statistic count for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Flags(#[n(0)] pub u32);

impl Flags {
    pub fn of(statistics: &[Statistic]) -> Flags {
        Flags(statistics.iter().fold(0, |flags, statistic| flags | 1 << statistic.place()))
    }

    pub fn count(self) -> usize {
        self.all().count()
    }

    pub fn all(self) -> impl Iterator<Item = Statistic> {
        Statistic::ALL.into_iter().filter(move |statistic| self.0 & 1 << statistic.place() != 0)
    }
}

/// The names, those of one kind together: `cpu, latency get put`.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for statistic in self.all() {
            let name = statistic.name();
            let (kind, queue) = name.rsplit_once('_').unwrap_or((name, ""));
            match (kind == before, before.is_empty()) {
                (true, _) => write!(f, " {queue}")?,
                (false, true) => write!(f, "{}", [kind, queue].join(" ").trim_end())?,
                (false, false) => write!(f, ", {}", [kind, queue].join(" ").trim_end())?,
            }
            before = kind;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::encode_into;
    use crate::decode;
    use std::collections::BTreeSet;

    // I6
    #[test]
    fn there_are_seventeen_statistics_each_with_a_place_and_a_name_of_its_own() {
        let places: Vec<usize> = Statistic::ALL.iter().map(|statistic| statistic.place()).collect();
        assert!(places.into_iter().eq(0..STATISTIC_COUNT));
        let names: BTreeSet<&str> = Statistic::ALL.iter().map(|statistic| statistic.name()).collect();
        assert_eq!(names.len(), STATISTIC_COUNT);
        assert_eq!(Statistic::QueueDelay(Queue::Stamp).name(), "queue_delay_stamp");
        assert_eq!(Statistic::Success(Queue::Put).name(), "success_put");
        let mut statistics = Statistics::default();
        statistics.set(Statistic::Latency(Queue::Put), 7);
        assert_eq!(statistics.of(Statistic::Latency(Queue::Put)), 7);
        assert_eq!(statistics.0.iter().sum::<u64>(), 7);
    }

    // I6
    #[test]
    fn flags_are_named_and_counted_and_unknown_bits_are_none() {
        let flags = Flags::of(&[Statistic::Latency(Queue::Stamp), Statistic::Cpu]);
        assert_eq!((flags.0, flags.count()), (1 | 1 << 16, 2));
        assert_eq!(flags.to_string(), "cpu, latency stamp");
        let newer = Flags(flags.0 | 1 << 17 | 1 << 31);
        assert_eq!((newer.count(), newer.to_string()), (2, flags.to_string()));
        assert_eq!(Flags(u32::MAX).count(), STATISTIC_COUNT);
        assert_eq!(
            Flags(u32::MAX).to_string(),
            "cpu, memory, queue_length get put stamp, success get put stamp, dropped get put stamp, \
             queue_delay get put stamp, latency get put stamp"
        );
    }

    /// A brick that answers 5,000 questions a second, each within 100 microseconds.
    // I6
    #[test]
    fn a_report_is_small_on_the_wire() {
        let mut bytes = Vec::new();
        let usual = Statistics([
            700, 400, 3, 1, 0, 900, 800, 850, 0, 0, 0, 12_000, 9000, 8000, 95_000, 90_000, 70_000,
        ]);
        encode_into(&mut bytes, &usual);
        assert_eq!(bytes.len(), 46);
        assert_eq!(decode::<Statistics>(&bytes), Ok(usual));
        bytes.clear();
        encode_into(&mut bytes, &Statistics([u64::MAX; STATISTIC_COUNT]));
        assert_eq!(bytes.len(), 1 + 9 * STATISTIC_COUNT, "and never more than this");
        assert!(decode::<Statistics>(&bytes[..bytes.len() - 1]).is_err());
    }
}
