//! Answers to requests: given at once, or parked until the stream is durable and the read lease holds.
//!
//! An answer that depends on an entry waits until that entry is durable. An answer that only the one owner of a tablet
//! may give also needs the read lease (docs/protocols/read-leases.md).
//!
//! Invariants:
//! - every request is answered once, unless it is dropped on purpose;
//! - the parked answers of one stream, and those that wait for the lease, are bounded in number and in bytes.
//!
//! Not here: what an answer says (`objects` and its neighbours), collecting the answers of one frame (`multi`), the
//! queue of one stream (`parked`).

use crate::MasterConfig;
use crate::calls::Context;
use crate::multi::{Asker, Multis};
use crate::parked::{Answer, Needs, Parked, Waiting};
use crate::read_lease::{ReadLease, Unleased};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Mark, Position, Status, StreamId};
use ramhold_shard::Shard;
use ramhold_wire::{Calls, Header, Step};
use std::collections::BTreeMap;

pub(crate) struct Answers {
    pub multis: Multis,
    pub parked: BTreeMap<StreamId, Parked>,
    pub read_lease: ReadLease,
    count_max: usize,
    bytes_max: usize,
    /// Reads that had to wait for the read lease, and reads that were refused for lack of it.
    pub lease_waits: u64,
    pub lease_refusals: u64,
}

impl Answers {
    pub fn new(config: &MasterConfig) -> Answers {
        Answers {
            multis: Multis::default(),
            parked: BTreeMap::new(),
            read_lease: ReadLease::new(config.read_lease),
            count_max: config.parked_count_max,
            bytes_max: config.parked_bytes_max,
            lease_waits: 0,
            lease_refusals: 0,
        }
    }

    /// Answers with a status alone.
    pub fn refuse(&mut self, to: Asker, header: &Header, status: Status, effects: &mut Effects) {
        self.multis.refuse(to, header, status, effects);
    }

    pub fn send(&mut self, to: Asker, header: &Header, answer: &Answer, effects: &mut Effects) {
        answer.send(&mut self.multis, to, header, effects);
    }

    /// Whether the answer has room for a value of `value_bytes`; see `Multis::check_room`.
    pub fn check_room(&self, to: Asker, value_bytes: usize) -> Result<(), Status> {
        self.multis.check_room(to, value_bytes, self.bytes_max)
    }

    /// The same for the answer to a frame that has been begun with so many bytes and is not counted yet.
    pub fn check_room_in(&self, begun_bytes: usize, value_bytes: usize) -> Result<(), Status> {
        self.multis.check_room_behind(begun_bytes, begun_bytes, value_bytes, self.bytes_max)
    }

    /// Whether as many answers wait for this stream as may.
    pub fn is_crowded(&self, stream: StreamId) -> bool {
        self.parked
            .get(&stream)
            .is_some_and(|parked| parked.len() >= self.count_max || parked.bytes() >= self.bytes_max)
    }

    /// Whether answers that need the lease may be given at `now`.
    pub fn is_leased(&mut self, now: Instant, shard: &Shard) -> bool {
        self.read_lease.holds(now, &shard.replicator)
    }

    /// Sends an answer once the stream is durable up to `position`. Sends it at once if it is already.
    pub fn answer_when_durable(
        &mut self,
        shard: &Shard,
        (stream, position): (StreamId, Position),
        to: Asker,
        request: &Header,
        answer: Answer,
        effects: &mut Effects,
    ) {
        if position <= shard.durable(stream) || planted(Defect::AnsweredEarly) {
            return self.send(to, request, &answer, effects);
        }
        self.park(stream, position, Needs::Durable, to, request, answer);
    }

    /// Sends the answer to a read once the stream is durable up to `position` and the read lease holds. In a blocked
    /// stream nothing becomes durable until there is a further server. There the read is refused instead, so that the
    /// asker hears of it and asks again.
    pub fn answer_read(
        &mut self,
        step: &mut Step<'_>,
        shard: &Shard,
        (stream, position): (StreamId, Position),
        to: Asker,
        request: &Header,
        answer: Answer,
    ) {
        if position <= shard.durable(stream) || planted(Defect::AnsweredEarly) {
            return self.answer_when_leased(step, shard, step.now, to, request, answer);
        }
        if shard.is_blocked(step.now, stream) {
            return self.refuse(to, request, Status::Retry, step.effects);
        }
        self.park(stream, position, Needs::DurableAndLease, to, request, answer);
    }

    /// Gives an answer as soon as the lease holds. The client has waited since `since`.
    pub fn answer_when_leased(
        &mut self,
        step: &mut Step<'_>,
        shard: &Shard,
        since: Instant,
        to: Asker,
        header: &Header,
        answer: Answer,
    ) {
        if self.is_leased(step.now, shard) {
            if since < step.now {
                self.multis.answered.waited(header.opcode, since, step.now);
            }
            return self.send(to, header, &answer, step.effects);
        }
        let unleased =
            Unleased { since, refuse_at: step.now + self.read_lease.patience(), to, header: *header, answer };
        if !self.read_lease.may_wait(&unleased, self.count_max, self.bytes_max) {
            return self.refuse(to, header, Status::TooMany, step.effects);
        }
        self.multis.waits(to, unleased.answer.bytes());
        self.read_lease.wait(unleased);
        self.lease_waits += 1;
        step.effects.mark(Mark::ReadWaited);
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
        self.multis.waits(to, answer.bytes());
        let since = self.multis.now;
        let waiting = Waiting { since, position, needs, to, header: *request, answer };
        self.parked.entry(stream).or_default().push(waiting);
    }

    /// Gives the answers whose streams are durable by now, and refuses the reads that wait for a blocked stream.
    pub fn release(&mut self, step: &mut Step<'_>, shard: &Shard) {
        self.multis.now = step.now;
        let mut reads = Vec::new();
        let waits_in_vain =
            |stream: &StreamId, parked: &Parked| parked.has_reads() && shard.is_blocked(step.now, *stream);
        let blocked: Vec<StreamId> = self
            .parked
            .iter()
            .filter(|(stream, parked)| waits_in_vain(stream, parked))
            .map(|(stream, _)| *stream)
            .collect();
        for (stream, parked) in &mut self.parked {
            if parked.is_empty() {
                continue;
            }
            let durable = shard.replicator.durable(*stream);
            while let Some(waiting) = parked.take_durable(durable) {
                match waiting.needs {
                    Needs::Durable => {
                        self.multis.answered.waited(waiting.header.opcode, waiting.since, step.now);
                        waiting.answer.send(&mut self.multis, waiting.to, &waiting.header, step.effects);
                    }
                    Needs::DurableAndLease => reads.push(waiting),
                }
            }
            parked.forget_removals(durable);
        }
        for read in reads {
            self.answer_when_leased(step, shard, read.since, read.to, &read.header, read.answer);
        }
        for stream in blocked {
            for read in self.parked.get_mut(&stream).map(Parked::take_reads).unwrap_or_default() {
                self.refuse(read.to, &read.header, Status::Retry, step.effects);
            }
        }
    }

    /// Keeps the lease while it is used, and answers the requests that wait for it.
    pub fn advance_read_lease(&mut self, step: &mut Step<'_>, shard: &mut Shard, calls: &mut Calls<Context>) {
        self.read_lease.keep_when_due(step, shard, calls);
        if self.read_lease.is_awaited() {
            self.release_unleased(step, shard);
        }
    }

    fn release_unleased(&mut self, step: &mut Step<'_>, shard: &Shard) {
        let is_leased = self.is_leased(step.now, shard);
        self.multis.now = step.now;
        while let Some(unleased) = self.read_lease.take_unleased(step.now, is_leased) {
            self.multis.answered.waited(unleased.header.opcode, unleased.since, step.now);
            if is_leased {
                unleased.answer.send(&mut self.multis, unleased.to, &unleased.header, step.effects);
            } else {
                self.lease_refusals += 1;
                step.effects.mark(Mark::ReadNotLeased);
                self.multis.answer(unleased.to, &unleased.header, Status::NotLeased, |_| {}, step.effects);
            }
        }
    }
}
