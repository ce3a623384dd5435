//! Reads of many keys in one operation (multi-reads).
//!
//! The keys are divided by the owners of their tablets, and each owner gets frames of them. Its answers are taken as they
//! stand: an object, or that there is none. Everything else that can happen to a key (no owner is known, a refusal, no
//! answer, a lost connection) makes it an operation of its own, a *single read*, with all the patience of one. So this is
//! a short way for the usual case, and knows nothing of retries.
//!
//! Not here: what is under way (`reads`), frames of operations of any kind (`packing`). Catalogue: A5, E1.

use super::Session;
use super::reads::{Frame, UnderWay};
use super::running::{AttemptId, Purpose};
use crate::keys::Keys;
use crate::operation::{Operation, OperationId, Target};
use crate::outcome::{Cause, Objects, Outcome, Reply};
use crate::tablets::{Owner, Route};
use crate::trouble::{Trouble, What, Who};
use ramhold_base::{Effects, Instant, Lost, Peer, RpcId, Status};
use ramhold_wire::data::{ReadReply, RejectRules};
use ramhold_wire::multi::{
    MULTI_BYTES_MAX, MULTI_COUNT_MAX, READ_ITEM_BYTES, decode_answers, encode_multi, encode_read_item,
};
use ramhold_wire::{Header, Opcode, frame};
use std::net::SocketAddr;
use std::time::Duration;

/// The keys that go to one owner.
struct Share {
    owner: Owner,
    places: Vec<u32>,
}

impl Session {
    /// Reads all these keys, and ends with `Reply::Objects` within `time`: each key has an end of its own.
    pub fn start_reads(
        &mut self,
        now: Instant,
        keys: Keys,
        time: Duration,
        effects: &mut Effects,
    ) -> OperationId {
        let id = self.next_operation();
        let count = keys.len();
        if count == 0 || !self.reads.has_room(count, keys.bytes()) {
            let (status, detail) = match count {
                0 => (Status::BadRequest, "a multi-read needs a key"),
                _ => (Status::TooMany, "too many keys of multi-reads of this session are under way already"),
            };
            self.outcomes.push_back((id, Outcome::refused(status, Cause::Unsent, detail.to_owned())));
            return id;
        }
        let shares = self.shares(&keys);
        let (started, deadline, objects) = (now, now + time, Objects::of(count));
        self.reads.begin(id, UnderWay { keys, started, deadline, objects, unsettled: count });
        for Share { owner, places } in shares.0 {
            self.send_reads(now, id, owner, places, effects);
        }
        self.read_singly(now, id, &shares.1, None);
        self.run_ready(now, effects);
        self.check_invariants();
        id
    }

    /// The places of the keys, by the owners that are known, and those without an owner.
    fn shares(&self, keys: &Keys) -> (Vec<Share>, Vec<u32>) {
        let (mut shares, mut others): (Vec<Share>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut last = 0;
        for place in 0..keys.len() as u32 {
            let Route::To { owner, .. } = self.cache.route(keys.table(), Target::Key(keys.at(place))) else {
                others.push(place);
                continue;
            };
            if shares.get(last).is_none_or(|share| share.owner != owner) {
                last = shares.iter().position(|share| share.owner == owner).unwrap_or_else(|| {
                    // As a rule there is one owner, or many.
                    let expected = if shares.is_empty() { keys.len() } else { 0 };
                    shares.push(Share { owner, places: Vec::with_capacity(expected) });
                    shares.len() - 1
                });
            }
            shares[last].places.push(place);
        }
        if self.cluster.is_none() {
            // Requests without a cluster's name are for nobody: the single reads find it out.
            others = (0..keys.len() as u32).collect();
            shares.clear();
        }
        (shares, others)
    }

    /// Sends frames with these keys.
    fn send_reads(
        &mut self,
        now: Instant,
        id: OperationId,
        owner: Owner,
        places: Vec<u32>,
        effects: &mut Effects,
    ) {
        let mut rest = places;
        while !rest.is_empty() {
            let keys = &self.reads.under_way[&id].keys;
            let mut bytes = 2;
            let fits = |place: &&u32| {
                bytes += READ_ITEM_BYTES + keys.at(**place).len();
                bytes <= MULTI_BYTES_MAX
            };
            let count = rest.iter().take(MULTI_COUNT_MAX).take_while(fits).count().max(1);
            let later = rest.split_off(count);
            if count == 1 {
                // It gains nothing from a frame of items.
                self.read_singly(now, id, &rest, None);
                rest = later;
                continue;
            }
            self.attempt_last += 1;
            let attempt = AttemptId(self.attempt_last);
            let header = Header {
                cluster: self.cluster,
                target: owner.server,
                shard: owner.shard,
                ..Header::request(Opcode::Multi, RpcId(self.rpc_base.wrapping_add(attempt.0)))
            };
            effects.send_with(Peer::Addr(owner.addr), |out| {
                frame::write(out, &header, |out| {
                    encode_multi(rest.len(), out, |out| {
                        rest.iter().for_each(|place| encode_read_item(keys.table(), keys.at(*place), out));
                    });
                });
            });
            let timeout = (now + self.config.attempt_timeout).min(self.reads.under_way[&id].deadline);
            self.reads.sent(attempt, Frame { of: id, owner, places: rest, timeout });
            rest = later;
        }
    }

    /// The answer to a frame of reads, or the refusal of the whole frame. `false`: no such frame waits.
    pub(super) fn on_reads_answered(
        &mut self,
        now: Instant,
        attempt: AttemptId,
        header: &Header,
        body: &[u8],
    ) -> bool {
        let Some(Frame { of, owner, mut places, .. }) = self.reads.take(attempt) else { return false };
        let multi = self.reads.under_way.get_mut(&of).expect("a frame belongs to a multi-read");
        if header.status() == Status::Ok {
            multi.objects.expect(body.len());
            for answer in decode_answers(body) {
                let Some(place) = places.get_mut(usize::from(answer.place)) else { break };
                // A place that was answered stands for no key any more.
                let is_settled = *place != ANSWERED
                    && match answer.status.and_then(Status::from_code) {
                        Some(Status::Ok) => ReadReply::decode(answer.body)
                            .map(|reply| multi.objects.put(*place, &reply, header.sender))
                            .is_ok(),
                        Some(Status::NotFound) => {
                            multi.objects.put_absent(*place, header.sender);
                            true
                        }
                        _ => false,
                    };
                if is_settled {
                    *place = ANSWERED;
                    multi.unsettled -= 1;
                }
            }
        }
        places.retain(|place| *place != ANSWERED);
        let what = match header.status() {
            Status::Ok => What::Unreadable,
            refused => What::Answered(refused),
        };
        self.read_singly(now, of, &places, Some(trouble(owner, what)));
        self.end_reads_if_settled(of);
        true
    }

    /// Frames to this address will not be answered.
    pub(super) fn on_reads_lost(&mut self, now: Instant, addr: SocketAddr, how: Lost) {
        let what = match how {
            Lost::Refused => What::RefusedConnection,
            Lost::Broken => What::BrokenConnection,
        };
        for Frame { of, owner, places, .. } in self.reads.take_to(addr) {
            self.read_singly(now, of, &places, Some(trouble(owner, what)));
        }
    }

    /// Frames have not been answered in time.
    pub(super) fn on_reads_silent(&mut self, now: Instant) {
        while let Some(Frame { of, owner, places, .. }) = self.reads.take_timed_out(now) {
            self.cache.doubt_address(owner.addr);
            self.read_singly(now, of, &places, Some(trouble(owner, What::Silent)));
        }
    }

    /// Makes the keys at these places operations of their own. `trouble`: why their frame has not told them.
    fn read_singly(&mut self, now: Instant, id: OperationId, places: &[u32], trouble: Option<Trouble>) {
        for place in places {
            let UnderWay { keys, started, deadline, .. } = &self.reads.under_way[&id];
            let (table, key) = (keys.table(), keys.at(*place).to_vec());
            let (started, deadline) = (*started, *deadline);
            let read = Operation::Read { table, key, rules: RejectRules::default() };
            let single = self.enter(now, read, Purpose::Part(id), deadline, now);
            let running = self.running.get_mut(&single).expect("it has just begun");
            (running.started, running.trouble) = (started, trouble);
            running.attempt_count = u32::from(trouble.is_some());
            running.heard = trouble.is_some_and(|it| matches!(it.what, What::Answered(_) | What::Unreadable));
            self.part_count += 1;
            self.ready.push_back(single);
            self.reads.single.insert(single, (id, *place));
        }
    }

    /// A part of another operation has ended. Returns the outcome if the part is none of a multi-read.
    pub(super) fn on_single_read_ended(&mut self, single: OperationId, outcome: Outcome) -> Option<Outcome> {
        let Some((id, place)) = self.reads.single.remove(&single) else { return Some(outcome) };
        self.part_count -= 1;
        let multi = self.reads.under_way.get_mut(&id).expect("a single read belongs to a multi-read");
        multi.objects.put_outcome(place, outcome);
        multi.unsettled -= 1;
        self.end_reads_if_settled(id);
        None
    }

    fn end_reads_if_settled(&mut self, id: OperationId) {
        if let Some(multi) = self.reads.take_settled(id) {
            self.outcomes.push_back((id, Outcome::Done(Reply::Objects(Box::new(multi.objects)))));
        }
    }

    /// Whether a multi-read of any size may be started now.
    pub fn has_room_for_reads(&self) -> bool {
        self.reads.has_room(Keys::COUNT_MAX, Keys::BYTES_MAX)
    }
}

fn trouble(owner: Owner, what: What) -> Trouble {
    Trouble { who: Who::Server(owner.server), addr: owner.addr, what }
}

/// Stands for a place of a frame that is answered.
const ANSWERED: u32 = u32::MAX;
const _: () = assert!(Keys::COUNT_MAX < ANSWERED as usize);
