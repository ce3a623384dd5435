//! Assignments of bricks: the tablets that each is to hold, and the bricks that share them with it.
//!
//! Assignments are not stored: they follow from the records of bricks and tables. Each change of a table takes a new
//! version, and every brick of the table is noted with that version. So a brick that has taken its version has taken all
//! that was ever changed for it. A dropped table is named until all its bricks have taken that, and a tablet that was given
//! up until the brick that had it has taken that.
//!
//! Not here: which bricks have taken it (`taking`), how they ask (`bricks`). Protocol: docs/protocols/quorum.md.
//! Catalogue: I1, I4.

use crate::desk::Desk;
use crate::records::{BrickRecord, Key, QuorumTableRecord, QuorumTabletRecord};
use crate::state::State;
use ramhold_base::{ServerId, TableId};
use ramhold_wire::bricks::{BrickAssignment, BrickTable, GivenUp};
use ramhold_wire::quorum::{BrickPlace, BrickTablet, Giving};
use std::collections::{BTreeMap, BTreeSet};

/// The highest version that a brick is believed to have been given: versions never run out.
const VERSION_BELIEVED_MAX: u64 = u64::MAX / 2;

/// Notes that a table has changed for all its bricks.
pub(crate) fn reassign(desk: &mut Desk, table: TableId) {
    let state = &mut desk.state;
    let Some(record) = state.quorum_tables.get_mut(&table) else { return };
    state.meta.assignments += 1;
    record.version = state.meta.assignments;
    let bricks: BTreeSet<ServerId> = record.concerned().collect();
    for id in bricks {
        // A brick that was forgotten is told nothing any more.
        let Some(brick) = state.bricks.get_mut(&id) else { continue };
        brick.assigned = record.version;
        desk.outbox.touch(Key::Brick(id));
    }
    desk.outbox.touch(Key::Meta);
    desk.outbox.touch(Key::QuorumTable(table));
}

/// A brick has taken a version that this state never gave it: the state is older than one that was lost. No version up to
/// that one is given out any more, and the brick is assigned everything under a newer one.
pub(crate) fn assign_anew(desk: &mut Desk, brick: ServerId, taken: u64) {
    let meta = &mut desk.state.meta;
    meta.assignments = meta.assignments.max(taken.min(VERSION_BELIEVED_MAX)) + 1;
    if let Some(record) = desk.state.bricks.get_mut(&brick) {
        record.assigned = meta.assignments;
        desk.outbox.touch(Key::Meta);
        desk.outbox.touch(Key::Brick(brick));
    }
    let has_it = |table: &&QuorumTableRecord| table.concerned().any(|other| other == brick);
    let tables: Vec<TableId> =
        desk.state.quorum_tables.values().filter(has_it).map(|table| table.id).collect();
    tables.into_iter().for_each(|table| reassign(desk, table));
}

pub(crate) fn assignment(state: &State, brick: &BrickRecord) -> BrickAssignment {
    let mut told = BrickAssignment { version: brick.assigned, ..BrickAssignment::default() };
    for table in state.quorum_tables.values() {
        let held: Vec<BrickTablet> =
            held(table, brick.id).map(|tablet| tablet_of(state, table, tablet)).collect();
        let left = table.tablets.iter().filter(|tablet| tablet.former.contains(&brick.id));
        let mut left = left.map(|tablet| {
            let QuorumTabletRecord { first, last, epoch, .. } = *tablet;
            GivenUp { table: table.id, first, last, epoch }
        });
        if table.dropping {
            if !held.is_empty() || left.next().is_some() || table.is_given_by(brick.id) {
                told.dropped.push(table.id);
            }
            continue;
        }
        told.given_up.extend(left);
        if !held.is_empty() {
            told.tables.push(BrickTable {
                table: table.id,
                name: table.name.clone(),
                seed: table.seed,
                slots: table.options.slots,
                durability: table.options.durability,
                quorum: table.quorum(),
            });
            told.tablets.extend(held);
        }
    }
    told
}

/// The bricks that share a tablet with this one.
pub(crate) fn siblings(state: &State, brick: ServerId) -> BTreeSet<ServerId> {
    let live = state.quorum_tables.values().filter(|table| !table.dropping);
    let shared = live.flat_map(|table| held(table, brick)).flat_map(|tablet| &tablet.bricks);
    shared.copied().filter(|other| *other != brick).collect()
}

/// The number of tablets that each brick is to hold.
pub(crate) fn tablets_by_brick(state: &State) -> BTreeMap<ServerId, u32> {
    let mut counts = BTreeMap::new();
    let live = state.quorum_tables.values().filter(|table| !table.dropping);
    for brick in live.flat_map(QuorumTableRecord::bricks) {
        *counts.entry(brick).or_default() += 1;
    }
    counts
}

/// A tablet with the present addresses of its bricks.
pub(crate) fn tablet_of(
    state: &State,
    table: &QuorumTableRecord,
    tablet: &QuorumTabletRecord,
) -> BrickTablet {
    BrickTablet {
        table: table.id,
        first: tablet.first,
        last: tablet.last,
        epoch: tablet.epoch,
        bricks: places(state, tablet.bricks.iter().copied()),
        joined: tablet.joined.clone(),
        giving: tablet.giving.and_then(|giving| {
            let old = places(state, std::iter::once(giving.old)).pop()?;
            Some(Giving { old, new: giving.new })
        }),
    }
}

/// Bricks at their present addresses.
pub(crate) fn places(state: &State, bricks: impl Iterator<Item = ServerId>) -> Vec<BrickPlace> {
    let place = |brick| Some(BrickPlace { brick, address: state.bricks.get(&brick)?.address });
    bricks.filter_map(place).collect()
}

fn held(table: &QuorumTableRecord, brick: ServerId) -> impl Iterator<Item = &QuorumTabletRecord> {
    table.tablets.iter().filter(move |tablet| tablet.bricks.contains(&brick))
}
