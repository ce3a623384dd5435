//! Requests of this process itself, for clients that reached this server in another protocol.
//!
//! They are treated like other requests, but without sequences. An answer within a process comes for certain, so nobody
//! asks again, and no result has to be remembered. A request that cannot be carried out here and now is refused. The
//! asker then sends it over the network, and that path knows how to wait.
//!
//! Invariant: each request is answered once, at once or when its stream is durable.

use crate::master::Master;
use crate::multi::Asker;
use crate::service::Service;
use crate::tablets::Tablet;
use ramhold_base::{Effects, Instant, KeyHash, Position, Status, TableId};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::{Header, Opcode, Step, View};

impl Master {
    /// Treats a request of this process. The answer, now or later, is among those of [`Master::swap_local_answers`]
    /// under `ticket`. Appended entries go out after [`Master::finish_local`], when the turn is over.
    pub fn on_local(
        &mut self,
        now: Instant,
        request: &LocalRequest<'_>,
        ticket: u64,
        view: &View,
        effects: &mut Effects,
    ) {
        let step = &mut Step { now, view, effects };
        self.service.answers.multis.now = step.now;
        let from = Asker::Local(ticket);
        let header = |opcode: Opcode| Header { opcode: opcode.code(), ..Header::default() };
        match request {
            LocalRequest::Read(request) => {
                self.service.read(step, &header(Opcode::Read), request, from);
            }
            LocalRequest::Write(request) => {
                self.service.write(step, &header(Opcode::Write), request, from);
            }
            LocalRequest::Remove(request) => {
                self.service.remove(step, &header(Opcode::Remove), request, from);
            }
            LocalRequest::Commit(request) => {
                self.service.carry_out(step, &header(Opcode::Commit), request, from);
            }
            LocalRequest::Increment(request) => {
                self.service.increment(step, &header(Opcode::Increment), request, from);
            }
        }
        if let Some(table) = self.service.confirming.wanted.take() {
            self.service.confirming.ask(step, table, &mut self.service.calls);
        }
    }

    /// Notes that some requests are through: what they appended is replicated, and paid for, when the turn is over.
    /// `bytes`: the bytes of their bodies together.
    pub fn finish_local(&mut self, now: Instant, bytes: u64, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        self.service.put_off_after_read(step);
        self.service.expiry.plan(step.now, &self.service.shard.log, step.view);
        if bytes > 0 {
            self.service.put_off_after_mutation(step, bytes);
        }
    }

    /// Takes the answers out, in exchange for an empty list whose memory is used again.
    pub fn swap_local_answers(&mut self, answers: &mut LocalAnswers) {
        std::mem::swap(&mut self.service.answers.multis.local, answers);
    }

    /// The end of the log of a table's first tablet, for tests of what goes into the log.
    #[doc(hidden)]
    pub fn log_end(&self, table: TableId) -> Position {
        let tablet = self.service.tablets.of_hash(table, KeyHash(0));
        tablet.map(|tablet| self.service.shard.log.head_end(tablet.stream)).unwrap_or_default()
    }

    pub fn has_local_answers(&self) -> bool {
        !self.service.answers.multis.local.is_empty()
    }
}

impl Service {
    /// The checks that a mutation of this process passes. There is no sequence to recall, and no client lease.
    pub fn admit_local(
        &mut self,
        now: Instant,
        table: TableId,
        key: &[u8],
        from: Asker,
    ) -> Result<(Tablet, KeyHash), Status> {
        let (tablet, hash) = self.serving_to(table, key, from)?;
        if self.tablets.blocks(table, hash) {
            Err(Status::Retry)
        } else if self.shard.is_blocked(now, tablet.stream) {
            Err(Status::TooFewBackups)
        } else if self.answers.is_crowded(tablet.stream) {
            Err(Status::TooMany)
        } else if tablet.unreplicated && !self.answers.is_leased(now, &self.shard) {
            // Nothing else would show that this server does not own the tablet any more.
            Err(Status::NotLeased)
        } else {
            Ok((tablet, hash))
        }
    }
}
