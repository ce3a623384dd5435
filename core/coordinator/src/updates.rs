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
//! Not here: what the updates do (`tables`, `division`, `losses`, `gone`, `accounts`), which leases are alive (`leases`).
//! Protocol: docs/protocols/exactly-once.md, 12 to 16. Catalogue: A3, G1.

use crate::desk::Desk;
use crate::leases::Leases;
use crate::progress::Progress;
use crate::records::{Key, UPDATE_COUNT_MAX, UpdateRecord, UpdateResult};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Level, Mark, Peer, Status, TableId};
use ramhold_wire::Header;
use ramhold_wire::accounts::AccountsChanged;
use ramhold_wire::control::Empty;
use ramhold_wire::quorum::{BrickReplaced, BrickScaled};
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

/// Carries an update out, unless its result is known, and answers when the table has come as far as the result says.
pub(crate) fn on_update(
    desk: &mut Desk,
    leases: &mut Leases,
    progress: &mut Progress,
    from: ConnId,
    header: &Header,
    carry_out: impl FnOnce(&mut Desk, &mut Progress) -> Result<UpdateResult, Status>,
) -> Result<(), Status> {
    if header.lease.is_none() || header.sequence.is_none() {
        return Err(Status::BadRequest);
    }
    let result = match recall(desk, leases, header)? {
        Recalled::Done(result) => {
            desk.outbox.mark(Mark::UpdateRecalled);
            result
        }
        Recalled::Dropped => return Ok(()),
        Recalled::First => {
            let result = carry_out(desk, progress).unwrap_or_else(UpdateResult::Refused);
            remember(desk, leases, header, result);
            result
        }
    };
    match unfinished(desk, progress, result) {
        Some(table) => progress.wait_for(table, from, header, result),
        None => answer_update(desk, from, header, result),
    }
    Ok(())
}

/// Whether nothing is known of an update, as far as this can be told before it is carried out; the update itself looks
/// again.
pub(crate) fn is_first(desk: &Desk, header: &Header) -> bool {
    let lease = desk.state.leases.get(&header.lease);
    lease.is_some_and(|lease| header.sequence >= lease.floor && lease.find(header.sequence).is_err())
}

fn recall(desk: &mut Desk, leases: &mut Leases, header: &Header) -> Result<Recalled, Status> {
    let record = desk.state.leases.get_mut(&header.lease).ok_or(Status::LeaseOver)?;
    if header.unacknowledged > record.floor {
        record.floor = header.unacknowledged;
        let before = record.updates.len();
        record.updates.retain(|update| update.sequence >= header.unacknowledged);
        leases.update_count -= before - record.updates.len();
        desk.outbox.touch(Key::Lease(header.lease));
    }
    if header.sequence < record.floor && !planted(Defect::UpdateFloorIgnored) {
        return Ok(Recalled::Dropped);
    }
    match record.find(header.sequence) {
        Ok(at) if !planted(Defect::UpdateRepeated) => Ok(Recalled::Done(record.updates[at].result)),
        Err(_)
            if record.updates.len() >= UPDATE_COUNT_MAX || leases.update_count >= UPDATE_COUNT_MAX_OF_ALL =>
        {
            leases.updates_dropped += 1;
            if leases.updates_dropped.is_power_of_two() {
                let text = format!(
                    "{} updates of clients were dropped: too many results wait to be acknowledged",
                    leases.updates_dropped
                );
                desk.outbox.report(Level::Warn, text);
            }
            Ok(Recalled::Dropped)
        }
        Ok(_) | Err(_) => Ok(Recalled::First),
    }
}

fn remember(desk: &mut Desk, leases: &mut Leases, header: &Header, result: UpdateResult) {
    let record = desk.state.leases.get_mut(&header.lease).expect("the lease lived when this update came");
    let update = UpdateRecord { sequence: header.sequence, result };
    match record.find(header.sequence) {
        Ok(at) => record.updates[at] = update,
        Err(at) => {
            record.updates.insert(at, update);
            leases.update_count += 1;
        }
    }
    if !planted(Defect::UpdateResultNotStored) {
        desk.outbox.touch(Key::Lease(header.lease));
    }
}

/// The table that has not yet come as far as a result says.
fn unfinished(desk: &Desk, progress: &Progress, result: UpdateResult) -> Option<TableId> {
    match result {
        UpdateResult::TableCreated(id) => {
            let is_untaken = match desk.state.tables.get(&id) {
                Some(table) => !table.dropping && table.tablets.iter().any(|t| !t.taken),
                None => progress.untaken.contains(&id),
            };
            is_untaken.then_some(id)
        }
        UpdateResult::TableDropped(id) => {
            let is_there = desk.state.tables.contains_key(&id) || progress.undropped.contains(&id);
            is_there.then_some(id)
        }
        UpdateResult::TableTruncated(old, new) => unfinished(desk, progress, UpdateResult::TableDropped(old))
            .or_else(|| unfinished(desk, progress, UpdateResult::TableCreated(new))),
        UpdateResult::TableDivided(id, division, _) => progress.is_being_told(id, division).then_some(id),
        UpdateResult::Refused(_)
        | UpdateResult::Lacking(_)
        | UpdateResult::LossAcknowledged
        | UpdateResult::TableAltered(_)
        | UpdateResult::ServerForgotten
        | UpdateResult::BrickReplaced(_)
        | UpdateResult::BrickKept(_)
        | UpdateResult::BrickScaled(_)
        | UpdateResult::BrickUnscaled(_)
        | UpdateResult::AccountsChanged(..)
        | UpdateResult::AccountsKept(_) => None,
    }
}

fn answer_update(desk: &mut Desk, to: ConnId, header: &Header, result: UpdateResult) {
    let to = Peer::Conn(to);
    match result {
        UpdateResult::Refused(status) => desk.outbox.reply(to, header, status),
        UpdateResult::Lacking(shortage) => {
            desk.outbox.refuse_with(to, header, Status::TooFewBackups, &shortage);
        }
        UpdateResult::TableCreated(table) => {
            desk.outbox.reply_with(to, header, &TableCreated { table });
        }
        UpdateResult::TableTruncated(_, table) => {
            desk.outbox.reply_with(to, header, &TableTruncated { table });
        }
        UpdateResult::TableDivided(_, _, tablets) => {
            desk.outbox.reply_with(to, header, &TableDivided { tablets });
        }
        UpdateResult::BrickReplaced(tablets) => {
            desk.outbox.reply_with(to, header, &BrickReplaced { tablets, obstacle: None });
        }
        UpdateResult::BrickKept(obstacle) => {
            let kept = BrickReplaced { tablets: 0, obstacle: Some(obstacle) };
            desk.outbox.reply_with(to, header, &kept);
        }
        UpdateResult::BrickScaled(before) => {
            desk.outbox.reply_with(to, header, &BrickScaled { before, obstacle: None });
        }
        UpdateResult::BrickUnscaled(obstacle) => {
            desk.outbox.reply_with(to, header, &BrickScaled { before: 0, obstacle: Some(obstacle) });
        }
        UpdateResult::AccountsChanged(version, count) => {
            desk.outbox.reply_with(to, header, &AccountsChanged { version, count, obstacle: None });
        }
        UpdateResult::AccountsKept(obstacle) => {
            let kept = AccountsChanged { version: 0, count: 0, obstacle: Some(obstacle) };
            desk.outbox.reply_with(to, header, &kept);
        }
        UpdateResult::TableDropped(_)
        | UpdateResult::LossAcknowledged
        | UpdateResult::TableAltered(_)
        | UpdateResult::ServerForgotten => {
            desk.outbox.reply_with(to, header, &Empty {});
        }
    }
}

/// Answers the clients that wait for a table which has come far enough by now.
pub(crate) fn answer_waiting(desk: &mut Desk, progress: &mut Progress) {
    let tables: Vec<TableId> = progress.waited_for().collect();
    for table in tables {
        for (conn, header, result) in progress.take_waiting(table) {
            match unfinished(desk, progress, result) {
                Some(table) => progress.wait_for(table, conn, &header, result),
                None => answer_update(desk, conn, &header, result),
            }
        }
    }
}
