//! Descriptions of tables from bricks, while no coordinator answers.
//!
//! An operation that asks the coordinator for a table asks its configured addresses in turn. One of them may be a brick or
//! a server, which names bricks: then the operation asks these one after the other, before it goes back to its addresses.
//!
//! Not here: what is known of the table (`search`). Protocol: docs/protocols/quorum.md, rule 36. Catalogue: I1, I4.

use super::Session;
use super::running::{Attempt, Purpose, Running};
use crate::operation::{Operation, OperationId, Place};
use crate::outcome::{Cause, Outcome, Reply};
use crate::trouble::{Trouble, What, Who};
use ramhold_base::limits::BRICKS_TOLD_MAX;
use ramhold_base::{Instant, ServerId, Status};
use ramhold_wire::decode;
use ramhold_wire::table::{TableDescription, TableHint};
use std::net::SocketAddr;

impl Session {
    /// Bricks that may be asked for tables when the coordinator does not answer.
    pub fn know_bricks(&mut self, bricks: &[SocketAddr]) {
        self.bricks.clear();
        self.bricks.extend(bricks.iter().take(BRICKS_TOLD_MAX));
    }

    /// The words of a process that is no coordinator about the table that an operation asks for. `false`: nothing.
    pub(super) fn on_hint(
        &mut self,
        now: Instant,
        id: OperationId,
        attempt: Attempt,
        (status, body): (Status, &[u8]),
    ) -> bool {
        let running = self.running.get_mut(&id).expect("it was found running");
        let Operation::DescribeTable { which } = &running.operation else { return false };
        let hint = if status == Status::NotCoordinator { decode::<TableHint>(body).ok() } else { None };
        let Some(hint) = hint else { return false };
        let search = running.search.get_or_insert_default();
        search.take(which, attempt.addr, hint);
        // The session itself asks for tables that were there before.
        let is_in_vain = matches!(running.purpose, Purpose::Caller);
        match search.whole() {
            Some(table) => self.on_described(now, id, attempt, table),
            None if is_in_vain && search.is_in_vain(&self.config.coordinators) => {
                let detail =
                    format!("{}; only the coordinator knows tables that bricks do not hold", search.text());
                self.end(now, id, Outcome::refused(Status::NotCoordinator, Cause::Answered, detail));
            }
            None => {
                if attempt.who == Who::Coordinator {
                    self.leave_coordinator(attempt.addr);
                }
                let what = What::Answered(Status::NotCoordinator);
                self.set_back(now, id, Trouble { who: attempt.who, addr: attempt.addr, what });
            }
        }
        true
    }

    /// A table was described to an operation that asked for it.
    pub(super) fn on_described(
        &mut self,
        now: Instant,
        id: OperationId,
        attempt: Attempt,
        table: TableDescription,
    ) {
        if !self.cache.keep(now, &table) {
            return self.set_back(
                now,
                id,
                Trouble { who: attempt.who, addr: attempt.addr, what: What::Unreadable },
            );
        }
        if table.quorum.is_some() {
            self.on_bricks_described(now, table.table);
        }
        self.end(now, id, Outcome::Done(Reply::Table(table)));
    }

    /// A brick or a server is where a coordinator was looked for. If none of the addresses may be a coordinator's, nothing
    /// that needs one is waited for. Descriptions of tables are: bricks may give them.
    pub(super) fn note_stranger(&mut self, now: Instant, addr: SocketAddr, who: ServerId) {
        self.strangers.insert(addr);
        if !self.config.coordinators.iter().all(|addr| self.strangers.contains(addr)) {
            return;
        }
        let is_over = |running: &Running| {
            let is_of_caller = matches!(running.purpose, Purpose::Caller);
            let is_description = matches!(running.operation, Operation::DescribeTable { .. });
            is_of_caller && !is_description && matches!(running.operation.place(), Place::Coordinator)
        };
        let over = self.running.those(is_over);
        let detail = format!("{who} at {addr} is a brick or a server, and this needs the coordinator");
        for id in over {
            let outcome = Outcome::refused(Status::NotCoordinator, Cause::Answered, detail.clone());
            self.end_for_good(now, id, outcome);
        }
    }

    /// The next process to ask for the table that an operation wants, if any was named.
    pub(super) fn next_searched(&mut self, id: OperationId) -> Option<SocketAddr> {
        self.running.get_mut(&id)?.search.as_mut()?.take_next()
    }

    /// The coordinator has not answered an operation that asks for a table: bricks may.
    pub(super) fn search_instead(&mut self, id: OperationId, trouble: Trouble) {
        let running = self.running.get_mut(&id).expect("it runs");
        let asks = matches!(running.operation, Operation::DescribeTable { .. });
        if asks && trouble.who == Who::Coordinator && !self.bricks.is_empty() {
            let search = running.search.get_or_insert_default();
            search.name_all(self.bricks.iter().copied());
        }
    }
}
