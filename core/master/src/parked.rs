//! Answers that wait until their stream is durable up to a position.
//!
//! Invariant: positions in a queue never fall, so releasing looks at the front only.

use crate::Master;
use crate::multi::{Asker, Multis};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Position, Status, StreamId, Version};
use ramhold_log::Remembered;
use ramhold_wire::Header;
use ramhold_wire::data::{IncrementReply, encode_version};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) enum Answer {
    /// To every mutation, and to refusals by the rules.
    Outcome(Remembered),
    /// To a read: what it found.
    Body(Vec<u8>),
}

impl Answer {
    /// Of the memory that it holds while it waits.
    pub fn bytes(&self) -> usize {
        match self {
            Answer::Outcome(_) => 0,
            Answer::Body(bytes) => bytes.len(),
        }
    }
}

/// Whether an answer tells what only the one owner may tell (docs/protocols/read-leases.md).
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
    bytes: usize,
    /// Keys whose removal is not durable yet, by (table, hash): a miss on one of them waits.
    removes: VecDeque<(Position, (u32, u64))>,
}

impl Parked {
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Of the values that wait to be told.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the last undurable removal of this key ends, if there is one.
    pub fn removal(&self, key: (u32, u64)) -> Option<Position> {
        if planted(Defect::MissEarly) {
            return None;
        }
        self.removes.iter().rev().find(|(_, k)| *k == key).map(|(position, _)| *position)
    }

    /// Removals that are not durable yet.
    pub fn removal_count(&self) -> usize {
        self.removes.len()
    }

    pub fn remember_removal(&mut self, position: Position, key: (u32, u64)) {
        self.removes.push_back((position, key));
    }
}

impl Answer {
    /// One that has no number.
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
    /// Sends an answer once the stream is durable up to `position`; at once if it is.
    pub(crate) fn answer_when_durable(
        &mut self,
        stream: StreamId,
        position: Position,
        to: Asker,
        request: &Header,
        answer: Answer,
        effects: &mut Effects,
    ) {
        if position <= self.durable(stream) || planted(Defect::AnsweredEarly) {
            return self.send(to, request, &answer, effects);
        }
        self.park(stream, position, Needs::Durable, to, request, answer);
    }

    /// The same for what a read is answered, which needs the read lease too.
    pub(crate) fn answer_read(
        &mut self,
        now: Instant,
        stream: StreamId,
        position: Position,
        to: Asker,
        request: &Header,
        answer: Answer,
        effects: &mut Effects,
    ) {
        if position <= self.durable(stream) || planted(Defect::AnsweredEarly) {
            return self.answer_when_leased(now, now, to, request, answer, effects);
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
        parked.queue.push_back(Waiting {
            since: self.multis.now,
            position,
            needs,
            to,
            header: *request,
            answer,
        });
    }

    pub(crate) fn release_parked(&mut self, now: Instant, effects: &mut Effects) {
        self.multis.now = now;
        let mut reads = Vec::new();
        for (stream, parked) in &mut self.parked {
            if parked.queue.is_empty() && parked.removes.is_empty() {
                continue;
            }
            let durable = self.replicator.durable(*stream);
            while parked.queue.front().is_some_and(|w| w.position <= durable) {
                let waiting = parked.queue.pop_front().expect("looked at above");
                parked.bytes -= waiting.answer.bytes();
                match waiting.needs {
                    Needs::Durable => {
                        self.multis.answered.waited(waiting.header.opcode, waiting.since, now);
                        waiting.answer.send(&mut self.multis, waiting.to, &waiting.header, effects);
                    }
                    Needs::DurableAndLease => reads.push(waiting),
                }
            }
            while parked.removes.front().is_some_and(|(position, _)| *position <= durable) {
                parked.removes.pop_front();
            }
        }
        for read in reads {
            self.answer_when_leased(now, read.since, read.to, &read.header, read.answer, effects);
        }
    }
}
