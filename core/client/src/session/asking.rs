//! Operations on quorum tables in the life of a session: when they begin, wait, begin anew, and end.
//!
//! A brick that contradicts the description of its table makes the session describe the table again, while the
//! operation goes on with the bricks that it knows: their answers count within one epoch. When a newer description
//! comes, the operation begins anew at the bricks that it names.
//!
//! Not here: the questions and their answers (`quorum`).

use super::Session;
use super::running::{AttemptId, Purpose, State, Wanted};
use crate::operation::{Operation, OperationId, Place};
use crate::outcome::Outcome;
use crate::quorum::{AGAIN, Next, Progress};
use ramhold_base::{Effects, Instant, Lost, Peer, RpcId, Status, TableId};
use ramhold_wire::data::RejectRules;
use ramhold_wire::{Header, frame};
use std::net::SocketAddr;
use std::time::Duration;

/// A table is not described again sooner, while bricks contradict its description. It bounds the coordinator's load
/// when a brick is down for long.
const DESCRIBED_FOR: Duration = Duration::from_secs(1);
/// The same, when a tablet's epoch has risen: the description that comes is surely another one, unless it is that of a
/// brick that lags.
const CHANGED_FOR: Duration = Duration::from_millis(100);

impl Session {
    /// Begins an operation at the bricks of its key, or begins it anew.
    pub(super) fn ask_bricks(&mut self, now: Instant, id: OperationId) {
        let running = self.running.get_mut(&id).expect("it runs");
        let bricks = match running.operation.place() {
            Place::OwnerOf { table, target } => self.cache.bricks.of(table, target).cloned(),
            Place::Coordinator | Place::Address(_) => None,
        };
        let bricks = bricks.expect("the operation was routed to bricks");
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
        let Progress { operation: id, next, wake, is_contradicted, has_changed } = progress;
        let Some((table, target, bricks)) = self.quorum.of(id) else { return };
        let epoch = bricks.epoch;
        if let Next::Elsewhere(_) = next {
            self.cache.bricks.doubt(table, target, epoch);
        }
        match next {
            Next::Wait => {
                if let Some(wake) = wake {
                    self.change(id, State::Asking, wake);
                }
            }
            Next::Read => {
                self.change(id, State::Asking, Instant::FAR);
                self.read_keys(now, id, table);
            }
            Next::End(outcome) => self.end(now, id, outcome),
            Next::Elsewhere(trouble) | Next::Anew(trouble) => self.set_back(now, id, trouble),
        }
        if is_contradicted {
            let described = self.cache.bricks.described(table).unwrap_or(now);
            let kept = if has_changed { CHANGED_FOR } else { DESCRIBED_FOR };
            self.fetch(now, Wanted::Tablets(table), described + kept);
        }
    }

    /// Reads keys for a page, about which its bricks differ. Each read is an operation of its own, within the time of the
    /// page.
    fn read_keys(&mut self, now: Instant, page: OperationId, table: TableId) {
        let Some(deadline) = self.running.get(&page).map(|running| running.deadline) else { return };
        while let Some(key) = self.quorum.next_read(page) {
            let operation = Operation::Read { table, key, rules: RejectRules::default() };
            let read = self.enter(now, operation, Purpose::Part(page), deadline, now);
            self.part_count += 1;
            self.quorum.read_began(page, read);
            self.ready.push_back(read);
        }
    }

    /// A read for a page has ended.
    pub(super) fn on_part_ended(
        &mut self,
        now: Instant,
        page: OperationId,
        id: OperationId,
        outcome: Outcome,
    ) {
        self.part_count -= 1;
        if let Some(progress) = self.quorum.on_read(now, page, id, outcome) {
            self.progress(now, progress);
        }
    }

    pub(super) fn send_asks(&mut self, now: Instant, effects: &mut Effects) {
        for post in self.quorum.take_posts() {
            self.attempt_last += 1;
            let rpc = RpcId(self.rpc_base.wrapping_add(AttemptId(self.attempt_last).0));
            self.quorum.sent(now, rpc, &post);
            let request = Header::request(post.question.opcode(), rpc);
            let header = Header { cluster: self.cluster, target: post.brick, ..request };
            effects.send_with(Peer::Addr(post.addr), |out| {
                frame::write(out, &header, |out| post.question.encode(out));
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

    /// Operations that waited to ask bricks for the time begin when it is known.
    pub(super) fn start_greeted(&mut self, now: Instant) {
        while let Some(progress) = self.quorum.start_greeted(now) {
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
            let Some((table, target, known)) = self.quorum.of(id) else { continue };
            let has_changed = self.cache.bricks.of(table, target).is_some_and(|bricks| {
                let is_same = bricks.places == known.places && bricks.last == known.last;
                bricks.epoch > known.epoch || (bricks.epoch == known.epoch && !is_same)
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
