//! Answers that wait until their stream is durable up to a position.
//!
//! Invariant: positions in a queue never fall, so releasing looks at the front only. The exception is a stream that is
//! blocked: then all reads that wait for it are refused.

use crate::Master;
use crate::multi::{Asker, Multis};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Effects, Instant, Position, Status, StreamId, Version};
use ramhold_log::Remembered;
use ramhold_wire::data::{IncrementReply, encode_version};
use ramhold_wire::{Header, Step};
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
struct Waiting {
    since: Instant,
    position: Position,
    needs: Needs,
    to: Asker,
    header: Header,
    answer: Answer,
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
    fn take_reads(&mut self) -> VecDeque<Waiting> {
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

impl Master {
    /// Sends an answer once the stream is durable up to `position`. Sends it at once if it is already.
    pub(crate) fn answer_when_durable(
        &mut self,
        stream: StreamId,
        position: Position,
        to: Asker,
        request: &Header,
        answer: Answer,
        effects: &mut Effects,
    ) {
        if position <= self.shard.durable(stream) || planted(Defect::AnsweredEarly) {
            return self.send(to, request, &answer, effects);
        }
        self.park(stream, position, Needs::Durable, to, request, answer);
    }

    /// Sends the answer to a read once the stream is durable up to `position` and the read lease holds. In a blocked
    /// stream nothing becomes durable until there is a further server. There the read is refused instead, so that the
    /// asker hears of it and asks again.
    pub(crate) fn answer_read(
        &mut self,
        step: &mut Step<'_>,
        stream: StreamId,
        position: Position,
        to: Asker,
        request: &Header,
        answer: Answer,
    ) {
        if position <= self.shard.durable(stream) || planted(Defect::AnsweredEarly) {
            return self.answer_when_leased(step, step.now, to, request, answer);
        }
        if self.shard.is_blocked(step.now, stream) {
            return self.refuse(to, request, Status::Retry, step.effects);
        }
        self.park(stream, position, Needs::DurableAndLease, to, request, answer);
    }

    fn park(
        &mut self,
        stream: StreamId,
        position: Position,
        needs: Needs,
        to: Asker,
        request: &Header,
        answer: Answer,
    ) {
        self.multis.is_seen_to(to);
        let parked = self.parked.entry(stream).or_default();
        let position = parked.queue.back().map_or(position, |last| position.max(last.position));
        parked.bytes += answer.bytes();
        parked.read_count += usize::from(needs == Needs::DurableAndLease);
        parked.queue.push_back(Waiting {
            since: self.multis.now,
            position,
            needs,
            to,
            header: *request,
            answer,
        });
    }

    pub(crate) fn release_parked(&mut self, step: &mut Step<'_>) {
        self.multis.now = step.now;
        let mut reads = Vec::new();
        let waits_in_vain = |stream: &StreamId, parked: &Parked| {
            parked.read_count > 0 && self.shard.is_blocked(step.now, *stream)
        };
        let blocked: Vec<StreamId> = self
            .parked
            .iter()
            .filter(|(stream, parked)| waits_in_vain(stream, parked))
            .map(|(s, _)| *s)
            .collect();
        for (stream, parked) in &mut self.parked {
            if parked.queue.is_empty() && parked.removes.is_empty() {
                continue;
            }
            let durable = self.shard.replicator.durable(*stream);
            while parked.queue.front().is_some_and(|w| w.position <= durable) {
                let waiting = parked.queue.pop_front().expect("looked at above");
                parked.bytes -= waiting.answer.bytes();
                match waiting.needs {
                    Needs::Durable => {
                        self.multis.answered.waited(waiting.header.opcode, waiting.since, step.now);
                        waiting.answer.send(&mut self.multis, waiting.to, &waiting.header, step.effects);
                    }
                    Needs::DurableAndLease => {
                        parked.read_count -= 1;
                        reads.push(waiting);
                    }
                }
            }
            while parked.removes.front().is_some_and(|removed| removed.position <= durable) {
                parked.removes.pop_front();
            }
        }
        for read in reads {
            self.answer_when_leased(step, read.since, read.to, &read.header, read.answer);
        }
        for stream in blocked {
            for read in self.parked.get_mut(&stream).map(Parked::take_reads).unwrap_or_default() {
                self.refuse(read.to, &read.header, Status::Retry, step.effects);
            }
        }
    }
}
