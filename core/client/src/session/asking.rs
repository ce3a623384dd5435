//! Operations on quorum tables in the life of a session: when they begin, wait, begin anew, and end.
//!
//! A brick that contradicts the description of its table makes the session describe the table again, while the
//! operation goes on with the bricks that it knows: their answers count within one epoch. When a newer description
//! comes, the operation begins anew at the bricks that it names.
//!
//! Not here: the questions and their answers (`quorum`).

use super::Session;
use super::running::{AttemptId, State, Wanted};
use crate::operation::{OperationId, Place, Target};
use crate::outcome::{Cause, Outcome};
use crate::quorum::{AGAIN, Next, Progress, encode};
use ramhold_base::{Effects, Instant, Lost, Peer, RpcId, Status, TableId};
use ramhold_wire::{Header, Opcode, frame};
use std::net::SocketAddr;
use std::time::Duration;

/// A table is not described again sooner, while bricks contradict its description. It bounds the coordinator's load
/// when a brick is down for long.
const DESCRIBED_FOR: Duration = Duration::from_secs(1);

impl Session {
    /// Begins an operation at the bricks of its key, or begins it anew.
    pub(super) fn ask_bricks(&mut self, now: Instant, id: OperationId) {
        let running = self.running.get_mut(&id).expect("it runs");
        let bricks = match running.operation.place() {
            Place::OwnerOf { table, target: Target::Key(key) } => self.cache.bricks.of(table, key).cloned(),
            Place::OwnerOf { target: Target::Hash(_), .. } | Place::Coordinator | Place::Address(_) => None,
        };
        let Some(bricks) = bricks else {
            let detail = "quorum tables can be neither scanned nor counted yet".to_owned();
            let outcome = Outcome::refused(Status::Unsupported, Cause::Unsent, detail);
            return self.end(now, id, outcome);
        };
        let operation = (id, &mut running.operation, self.cluster);
        if let Some(outcome) = self.quorum.enter(operation, &bricks, running.deadline) {
            return self.end(now, id, outcome);
        }
        running.attempt_count = running.attempt_count.saturating_add(1);
        self.change(id, State::Asking, now + AGAIN);
        let progress = self.quorum.begin(now, id, &bricks, &mut self.rng);
        self.progress(now, progress);
    }

    fn progress(&mut self, now: Instant, progress: Progress) {
        let Progress { operation: id, next, wake, is_contradicted } = progress;
        let Some((table, key, bricks)) = self.quorum.of(id) else { return };
        let epoch = bricks.epoch;
        if let Next::Elsewhere(_) = next {
            self.cache.bricks.doubt(table, key, epoch);
        }
        match next {
            Next::Wait => {
                if let Some(wake) = wake {
                    self.change(id, State::Asking, wake);
                }
            }
            Next::End(outcome) => self.end(now, id, outcome),
            Next::Elsewhere(trouble) | Next::Anew(trouble) => self.set_back(now, id, trouble),
        }
        if is_contradicted {
            let described = self.cache.bricks.described(table).unwrap_or(now);
            self.fetch(now, Wanted::Tablets(table), described + DESCRIBED_FOR);
        }
    }

    pub(super) fn send_asks(&mut self, now: Instant, effects: &mut Effects) {
        for post in self.quorum.take_posts() {
            self.attempt_last += 1;
            let rpc = RpcId(self.rpc_base.wrapping_add(AttemptId(self.attempt_last).0));
            self.quorum.sent(now, rpc, &post);
            let header =
                Header { cluster: self.cluster, target: post.brick, ..Header::request(Opcode::Ask, rpc) };
            effects.send_with(Peer::Addr(post.addr), |out| {
                frame::write(out, &header, |out| encode(post.table, &post.key, &post.ask, out));
            });
        }
    }

    pub(super) fn on_brick_answer(&mut self, now: Instant, header: &Header, body: &[u8]) {
        if let Some(progress) = self.quorum.on_answer(now, header, body) {
            if let Some(running) = self.running.get_mut(&progress.operation) {
                running.heard = true;
            }
            self.progress(now, progress);
        }
    }

    pub(super) fn on_brick_lost(&mut self, now: Instant, addr: SocketAddr, how: Lost) {
        for progress in self.quorum.on_lost(now, addr, how) {
            self.progress(now, progress);
        }
    }

    pub(super) fn on_asking_time(&mut self, now: Instant, id: OperationId) {
        // The machine asks for its next time, or ends.
        self.change(id, State::Asking, now + AGAIN);
        let progress = self.quorum.on_time(now, id);
        self.progress(now, progress);
    }

    /// A quorum table was described: operations whose bricks have changed begin anew.
    pub(super) fn on_bricks_described(&mut self, now: Instant, table: TableId) {
        for id in self.quorum.asking_about(table) {
            let Some((table, key, known)) = self.quorum.of(id) else { continue };
            let has_changed = self.cache.bricks.of(table, key).is_some_and(|bricks| {
                bricks.epoch > known.epoch || (bricks.epoch == known.epoch && bricks.places != known.places)
            });
            if has_changed {
                self.quorum.suspend(id);
                self.change(id, State::Pausing, now);
                self.ready.push_back(id);
            }
        }
        self.quorum.keep(&self.cache.bricks.all());
    }

    /// The operations that a failed description of their table ends, although they ask its bricks: the table is gone.
    pub(super) fn asking_about(&self, table: TableId, outcome: &Outcome) -> Vec<OperationId> {
        let is_gone = matches!(outcome, Outcome::Refused { status: Status::UnknownTable, .. });
        if is_gone { self.quorum.asking_about(table) } else { Vec::new() }
    }
}
