//! Answers that wait until their stream is durable up to a position.
//!
//! Invariant: positions in a queue never fall, so releasing looks at the front only. The exception is a stream that is
//! blocked: then all reads that wait for it are refused.

use crate::multi::{Asker, Multis};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Effects, Instant, Position, Status, Version};
use ramhold_log::Remembered;
use ramhold_wire::Header;
use ramhold_wire::data::{IncrementReply, encode_version};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) enum Answer {
    /// The answer to a mutation, or to a refusal by the rules.
    Outcome(Remembered),
    /// The answer to a read: what it found.
    Body(Vec<u8>),
}

impl Answer {
    /// Bytes of memory that the answer holds while it waits.
    pub fn bytes(&self) -> usize {
        match self {
            Answer::Outcome(_) => 0,
            Answer::Body(bytes) => bytes.len(),
        }
    }
}

/// The conditions of an answer: durability, and for an answer that only the one owner may tell also the read lease
/// (docs/protocols/read-leases.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    Durable,
    DurableAndLease,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub since: Instant,
    pub position: Position,
    pub needs: Needs,
    pub to: Asker,
    pub header: Header,
    pub answer: Answer,
}

/// The waiting answers of one stream.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    queue: VecDeque<Waiting>,
    /// How many of them are answers to reads.
    read_count: usize,
    bytes: usize,
    /// Removals that are not durable yet, by (table, hash): a miss on one of these keys waits.
    removes: VecDeque<Removed>,
}

/// A removal that is not durable yet.
#[derive(Debug)]
struct Removed {
    position: Position,
    key: (u32, u64),
    /// Set if the object was expired: the end of its time to live, and its position.
    over: Option<(ClusterTime, Position)>,
}

impl Parked {
    /// Adds an answer. Its position is raised to that of the answer before it.
    pub fn push(&mut self, waiting: Waiting) {
        let position = self.queue.back().map_or(waiting.position, |last| waiting.position.max(last.position));
        self.bytes += waiting.answer.bytes();
        self.read_count += usize::from(waiting.needs == Needs::DurableAndLease);
        self.queue.push_back(Waiting { position, ..waiting });
    }

    /// Takes the next answer whose position is durable.
    pub fn take_durable(&mut self, durable: Position) -> Option<Waiting> {
        let waiting = self.queue.pop_front_if(|waiting| waiting.position <= durable)?;
        self.bytes -= waiting.answer.bytes();
        self.read_count -= usize::from(waiting.needs == Needs::DurableAndLease);
        Some(waiting)
    }

    /// Forgets the removals that are durable.
    pub fn forget_removals(&mut self, durable: Position) {
        while self.removes.pop_front_if(|removed| removed.position <= durable).is_some() {}
    }

    /// Whether neither an answer nor a removal waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.removes.is_empty()
    }

    pub fn has_reads(&self) -> bool {
        self.read_count > 0
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of the values that wait to be told.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The position up to which the stream must be durable before anybody may hear that this key is absent, if its last
    /// removal is not durable. If the object's end of life is past for every server, the object must be durable but its
    /// removal need not be: no later owner would show the object.
    pub fn removal(&self, key: (u32, u64), past: Option<ClusterTime>) -> Option<Position> {
        if planted(Defect::MissEarly) {
            return None;
        }
        let removed = self.removes.iter().rev().find(|removed| removed.key == key)?;
        let over = removed.over.filter(|(end, _)| past.is_some_and(|past| *end <= past));
        Some(over.map_or(removed.position, |(_, object)| object))
    }

    /// The number of removals that are not durable yet.
    pub fn removal_count(&self) -> usize {
        self.removes.len()
    }

    /// Takes the answers to reads out of the queue: they wait no more.
    pub fn take_reads(&mut self) -> VecDeque<Waiting> {
        let queue = std::mem::take(&mut self.queue).into_iter();
        let (reads, others): (VecDeque<_>, _) = queue.partition(|w| w.needs == Needs::DurableAndLease);
        self.queue = others;
        self.read_count = 0;
        self.bytes -= reads.iter().map(|read| read.answer.bytes()).sum::<usize>();
        reads
    }

    pub fn remember_removal(&mut self, position: Position, key: (u32, u64)) {
        self.removes.push_back(Removed { position, key, over: None });
    }

    /// Notes that the last removal was of an expired object, which was at the position `object`.
    pub fn was_over(&mut self, end: ClusterTime, object: Position) {
        if let Some(removed) = self.removes.back_mut() {
            removed.over = Some((end, object));
        }
    }
}

impl Answer {
    /// An answer without a number.
    pub fn of(status: Status, version: Version) -> Answer {
        Answer::Outcome(Remembered { status, version, number: None })
    }

    pub fn send(&self, multis: &mut Multis, to: Asker, request: &Header, effects: &mut Effects) {
        match self {
            Answer::Outcome(Remembered { status, version, number }) => {
                let body = |out: &mut Vec<u8>| match *number {
                    Some(bits) => IncrementReply { version: *version, bits }.encode(out),
                    None => encode_version(out, *version),
                };
                multis.answer(to, request, *status, body, effects);
            }
            Answer::Body(bytes) => {
                multis.answer(to, request, Status::Ok, |out| out.extend_from_slice(bytes), effects);
            }
        }
    }
}
