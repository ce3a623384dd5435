//! Answers that wait until their stream is durable up to a position.
//!
//! Invariant: positions in a queue never fall, so releasing looks at the front only.

use crate::Master;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Peer, Position, Status, StreamId, Version};
use ramhold_log::Remembered;
use ramhold_wire::data::{IncrementReply, encode_version};
use ramhold_wire::{Header, frame};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) enum Answer {
    /// To every mutation, and to refusals by the rules.
    Outcome(Remembered),
    /// A whole frame.
    Frame(Vec<u8>),
}

#[derive(Debug)]
struct Waiting {
    position: Position,
    to: ConnId,
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

    /// Of the frames that wait.
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

    pub fn remember_removal(&mut self, position: Position, key: (u32, u64)) {
        self.removes.push_back((position, key));
    }
}

pub(crate) fn send(effects: &mut Effects, to: ConnId, request: &Header, answer: &Answer) {
    match answer {
        Answer::Outcome(Remembered { status, version, number }) => {
            effects.send_with(Peer::Conn(to), |out| {
                frame::write(out, &request.answer(*status), |out| match *number {
                    Some(bits) => IncrementReply { version: *version, bits }.encode(out),
                    None => encode_version(out, *version),
                });
            });
        }
        Answer::Frame(bytes) => effects.send_with(Peer::Conn(to), |out| out.extend_from_slice(bytes)),
    }
}

impl Answer {
    /// One that has no number.
    pub fn of(status: Status, version: Version) -> Answer {
        Answer::Outcome(Remembered { status, version, number: None })
    }
}

impl Master {
    /// Sends an answer once the stream is durable up to `position`; at once if it is.
    pub(crate) fn answer_when_durable(
        &mut self,
        stream: StreamId,
        position: Position,
        to: ConnId,
        request: &Header,
        answer: Answer,
        effects: &mut Effects,
    ) {
        if position <= self.durable(stream) || planted(Defect::AnsweredEarly) {
            return send(effects, to, request, &answer);
        }
        let parked = self.parked.entry(stream).or_default();
        let position = parked.queue.back().map_or(position, |last| position.max(last.position));
        if let Answer::Frame(bytes) = &answer {
            parked.bytes += bytes.len();
        }
        parked.queue.push_back(Waiting { position, to, header: *request, answer });
    }

    pub(crate) fn release_parked(&mut self, effects: &mut Effects) {
        for (stream, parked) in &mut self.parked {
            if parked.queue.is_empty() && parked.removes.is_empty() {
                continue;
            }
            let durable = self.replicator.durable(*stream);
            while parked.queue.front().is_some_and(|w| w.position <= durable) {
                let waiting = parked.queue.pop_front().expect("looked at above");
                if let Answer::Frame(bytes) = &waiting.answer {
                    parked.bytes -= bytes.len();
                }
                send(effects, waiting.to, &waiting.header, &waiting.answer);
            }
            while parked.removes.front().is_some_and(|(position, _)| *position <= durable) {
                parked.removes.pop_front();
            }
        }
    }
}
