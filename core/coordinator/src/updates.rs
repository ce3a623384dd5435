//! Updates that clients ask for: each is carried out once under its sequence, and answered alike whenever it is
//! repeated.
//!
//! The result of an update is decided when the update is carried out. From the same commit on the result stands in the
//! record of its client's lease. The answer waits until the table has come as far as the result says. The store tells
//! that, so a repetition waits for the same end, also at the next coordinator.
//!
//! Invariants:
//! - no effect is in the store without its result, until the result is acknowledged or its lease is over;
//! - every refusal from here on is a result: a refusal that nobody remembers would prove nothing.
//!
//! Not here: what the updates do (`tables`, `division`, `losses`, `gone`), which leases are alive (`leases`).
//! Protocol: docs/protocols/exactly-once.md, 12 to 16. Catalogue: A3, G1.

use crate::machine::Coordinator;
use crate::records::{Key, UPDATE_COUNT_MAX, UpdateRecord, UpdateResult};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Level, Mark, Peer, Status, TableId};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::table::{TableCreated, TableDivided, TableTruncated};

/// The most results of all leases together; they bound the store and the memory.
const UPDATE_COUNT_MAX_OF_ALL: usize = 65_536;

/// The knowledge about a sequence.
enum Recalled {
    First,
    Done(UpdateResult),
    /// The sequence is below the floor, or there is no room to remember its result.
    Dropped,
}

impl Coordinator {
    /// Carries an update out, unless its result is known, and answers when the table has come as far as the result
    /// says.
    pub(crate) fn on_update(
        &mut self,
        from: ConnId,
        header: &Header,
        carry_out: impl FnOnce(&mut Coordinator) -> Result<UpdateResult, Status>,
    ) -> Result<(), Status> {
        if header.lease.is_none() || header.sequence.is_none() {
            return Err(Status::BadRequest);
        }
        let result = match self.recall(header)? {
            Recalled::Done(result) => {
                self.desk.outbox.mark(Mark::UpdateRecalled);
                result
            }
            Recalled::Dropped => return Ok(()),
            Recalled::First => {
                let result = carry_out(self).unwrap_or_else(UpdateResult::Refused);
                self.remember(header, result);
                result
            }
        };
        match self.unfinished(result) {
            Some(table) => self.progress.wait_for(table, from, header, result),
            None => self.answer_update(from, header, result),
        }
        Ok(())
    }

    fn recall(&mut self, header: &Header) -> Result<Recalled, Status> {
        let record = self.desk.state.leases.get_mut(&header.lease).ok_or(Status::LeaseOver)?;
        if header.unacknowledged > record.floor {
            record.floor = header.unacknowledged;
            let before = record.updates.len();
            record.updates.retain(|update| update.sequence >= header.unacknowledged);
            self.leases.update_count -= before - record.updates.len();
            self.desk.outbox.touch(Key::Lease(header.lease));
        }
        if header.sequence < record.floor && !planted(Defect::UpdateFloorIgnored) {
            return Ok(Recalled::Dropped);
        }
        match record.find(header.sequence) {
            Ok(at) if !planted(Defect::UpdateRepeated) => Ok(Recalled::Done(record.updates[at].result)),
            Err(_)
                if record.updates.len() >= UPDATE_COUNT_MAX
                    || self.leases.update_count >= UPDATE_COUNT_MAX_OF_ALL =>
            {
                self.leases.updates_dropped += 1;
                if self.leases.updates_dropped.is_power_of_two() {
                    let text = format!(
                        "{} updates of clients were dropped: too many results wait to be acknowledged",
                        self.leases.updates_dropped
                    );
                    self.desk.outbox.report(Level::Warn, text);
                }
                Ok(Recalled::Dropped)
            }
            Ok(_) | Err(_) => Ok(Recalled::First),
        }
    }

    fn remember(&mut self, header: &Header, result: UpdateResult) {
        let record =
            self.desk.state.leases.get_mut(&header.lease).expect("the lease lived when this update came");
        let update = UpdateRecord { sequence: header.sequence, result };
        match record.find(header.sequence) {
            Ok(at) => record.updates[at] = update,
            Err(at) => {
                record.updates.insert(at, update);
                self.leases.update_count += 1;
            }
        }
        if !planted(Defect::UpdateResultNotStored) {
            self.desk.outbox.touch(Key::Lease(header.lease));
        }
    }

    /// The table that has not yet come as far as a result says.
    fn unfinished(&self, result: UpdateResult) -> Option<TableId> {
        match result {
            UpdateResult::TableCreated(id) => {
                let table = self.desk.state.tables.get(&id)?;
                (!table.dropping && table.tablets.iter().any(|t| !t.taken)).then_some(id)
            }
            UpdateResult::TableDropped(id) => self.desk.state.tables.contains_key(&id).then_some(id),
            UpdateResult::TableTruncated(old, new) => self
                .unfinished(UpdateResult::TableDropped(old))
                .or_else(|| self.unfinished(UpdateResult::TableCreated(new))),
            UpdateResult::TableDivided(id, division, _) => self.is_being_told(id, division).then_some(id),
            UpdateResult::Refused(_)
            | UpdateResult::Lacking(_)
            | UpdateResult::LossAcknowledged
            | UpdateResult::TableAltered(_)
            | UpdateResult::ServerForgotten => None,
        }
    }

    fn answer_update(&mut self, to: ConnId, header: &Header, result: UpdateResult) {
        let to = Peer::Conn(to);
        match result {
            UpdateResult::Refused(status) => self.desk.outbox.reply(to, header, status),
            UpdateResult::Lacking(shortage) => {
                self.desk.outbox.refuse_with(to, header, Status::TooFewBackups, &shortage);
            }
            UpdateResult::TableCreated(table) => {
                self.desk.outbox.reply_with(to, header, &TableCreated { table });
            }
            UpdateResult::TableTruncated(_, table) => {
                self.desk.outbox.reply_with(to, header, &TableTruncated { table });
            }
            UpdateResult::TableDivided(_, _, tablets) => {
                self.desk.outbox.reply_with(to, header, &TableDivided { tablets });
            }
            UpdateResult::TableDropped(_)
            | UpdateResult::LossAcknowledged
            | UpdateResult::TableAltered(_)
            | UpdateResult::ServerForgotten => {
                self.desk.outbox.reply_with(to, header, &Empty {});
            }
        }
    }

    /// Answers the clients that wait for a table which has come far enough by now.
    pub(crate) fn answer_waiting(&mut self) {
        let tables: Vec<TableId> = self.progress.waited_for().collect();
        for table in tables {
            for (conn, header, result) in self.progress.take_waiting(table) {
                match self.unfinished(result) {
                    Some(table) => self.progress.wait_for(table, conn, &header, result),
                    None => self.answer_update(conn, &header, result),
                }
            }
        }
    }
}
