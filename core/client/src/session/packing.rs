//! Puts the operations that go to one server in the same step into one frame (A5).
//!
//! An operation in a frame is treated as if it were alone: its number, its attempts, its retries. Only the
//! bytes travel together, and the answers come back together. The items of a frame have consecutive attempts,
//! and the frame's rpc id is that of the first one, so an answer's place in the frame names its attempt.
//! Reads and mutations go in separate frames, so that results that are there already do not wait for
//! replication.
//!
//! Not here: the meaning of an answer (`events`, `verdict`).

use super::Session;
use super::running::{Attempt, AttemptId, State};
use crate::operation::OperationId;
use crate::tablets::Owner;
use crate::trouble::Who;
use ramhold_base::{Effects, Instant, LeaseId, Peer, RpcId, Sequence, ServerId, ShardId, Status};
use ramhold_wire::multi::{
    ITEM_BYTES, MULTI_BYTES_MAX, MULTI_COUNT_MAX, decode_answers, encode_item, encode_multi,
};
use ramhold_wire::{Header, Opcode, frame};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// An operation that goes out at the end of the step.
#[derive(Clone, Copy)]
pub(super) struct Posted {
    id: OperationId,
    owner: Owner,
    /// The version of the description that names the owner.
    version: u64,
}

impl Session {
    /// Has an operation sent at the end of the step, together with others for the same server.
    pub(super) fn post(&mut self, id: OperationId, owner: Owner, version: u64) {
        self.change(id, State::Posted, Instant::FAR);
        self.number(id);
        self.posted.push(Posted { id, owner, version });
    }

    pub(super) fn send_posted(&mut self, now: Instant, effects: &mut Effects) {
        let mut posted = std::mem::take(&mut self.posted);
        if let [only] = posted[..] {
            self.send_alone(now, only, effects);
            posted.clear();
            self.posted = posted;
            return;
        }
        let mut servers: BTreeMap<(SocketAddr, ServerId, ShardId, bool), Vec<Posted>> = BTreeMap::new();
        for one in posted {
            if matches!(
                self.running[&one.id].operation.opcode(),
                Opcode::Scan | Opcode::Commit | Opcode::Count
            ) {
                // Its answer, or the operation itself, fills a frame; or the operation is seldom asked for.
                self.send_alone(now, one, effects);
                continue;
            }
            let Owner { addr, server, shard } = one.owner;
            let is_numbered = self.running[&one.id].number.is_some();
            servers.entry((addr, server, shard, is_numbered)).or_default().push(one);
        }
        for items in servers.into_values() {
            let mut rest = &items[..];
            while !rest.is_empty() {
                let (packed, behind) = rest.split_at(self.count_that_fits(rest));
                match packed {
                    [only] => self.send_alone(now, *only, effects),
                    items => self.send_packed(now, items, effects),
                }
                rest = behind;
            }
        }
    }

    fn send_alone(&mut self, now: Instant, posted: Posted, effects: &mut Effects) {
        let Posted { id, owner, version } = posted;
        self.send(now, id, owner.addr, Who::Server(owner.server), Some((owner, version)), effects);
    }

    /// How many of the first items one frame holds, at least one.
    fn count_that_fits(&self, items: &[Posted]) -> usize {
        let mut bytes = 2;
        let fits = |posted: &&Posted| {
            bytes += ITEM_BYTES + self.running[&posted.id].operation.body_bytes_max();
            bytes <= MULTI_BYTES_MAX
        };
        items.iter().take(MULTI_COUNT_MAX).take_while(fits).count().max(1)
    }

    fn send_packed(&mut self, now: Instant, items: &[Posted], effects: &mut Effects) {
        let first = AttemptId(self.attempt_last + 1);
        let Posted { owner, .. } = items[0];
        let mut is_numbered = false;
        for Posted { id, owner, version } in items.iter().copied() {
            self.attempt_last += 1;
            let attempt = Attempt {
                id: AttemptId(self.attempt_last),
                addr: owner.addr,
                who: Who::Server(owner.server),
                routed_by: version,
                packed: Some(first),
            };
            self.attempts.insert(attempt.id, id);
            let timeout = now + self.config.attempt_timeout;
            let running = self.running.change(id, State::Calling(attempt), timeout);
            running.attempt_count = running.attempt_count.saturating_add(1);
            is_numbered |= running.number.is_some();
        }
        let (lease, unacknowledged) =
            if is_numbered { self.lease.identity() } else { (LeaseId::NONE, Sequence::NONE) };
        let header = Header {
            cluster: self.cluster,
            target: owner.server,
            shard: owner.shard,
            lease,
            unacknowledged,
            ..Header::request(Opcode::Multi, RpcId(self.rpc_base.wrapping_add(first.0)))
        };
        effects.send_with(Peer::Addr(owner.addr), |out| {
            frame::write(out, &header, |out| {
                encode_multi(items.len(), out, |out| {
                    for posted in items {
                        let running = &self.running[&posted.id];
                        let sequence = running.number.map_or(Sequence::NONE, |(theirs, sequence)| {
                            assert!(theirs == lease, "a number of another lease has ended with it");
                            sequence
                        });
                        let repeated = running.number.is_some() && running.fate_unknown;
                        encode_item(running.operation.opcode(), repeated, sequence, out, |out| {
                            running.operation.encode(out);
                        });
                    }
                });
            });
        });
    }

    /// The answer to a frame of items, or the refusal of the whole frame.
    pub(super) fn on_answers(&mut self, now: Instant, first: AttemptId, header: &Header, body: &[u8]) {
        if header.status() != Status::Ok {
            for attempt in self.awaited_of(first) {
                self.on_answer(now, attempt, Some(first), header, body);
            }
            return;
        }
        // An answer that the lease is over ends everything under way under it. Read the frame's other answers
        // first.
        let is_over = |status: Option<u16>| status == Some(Status::LeaseOver.code());
        for over in [false, true] {
            for answer in decode_answers(body).filter(|answer| is_over(answer.status) == over) {
                let attempt = AttemptId(first.0.wrapping_add(u64::from(answer.place)));
                let Some(status) = answer.status else { continue };
                self.on_answer(now, attempt, Some(first), &Header { status, ..*header }, answer.body);
            }
        }
        // Items that the server has not answered, or not even named.
        for attempt in self.awaited_of(first) {
            self.on_no_answer(now, attempt);
        }
    }

    /// The items of a frame that are still awaited.
    fn awaited_of(&self, first: AttemptId) -> Vec<AttemptId> {
        let end = AttemptId(first.0.saturating_add(MULTI_COUNT_MAX as u64));
        let is_of = |id: &OperationId| match self.running[id].state {
            State::Calling(attempt) => attempt.packed == Some(first),
            State::Pausing | State::Posted | State::Awaiting(_) | State::Asking => false,
        };
        // The attempts of a frame follow each other, and those that have ended are no longer there. So the first one of another
        // frame comes behind all of this one.
        self.attempts.range(first..end).take_while(|(_, id)| is_of(id)).map(|(attempt, _)| *attempt).collect()
    }
}
