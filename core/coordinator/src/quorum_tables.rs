//! Clients' requests about quorum tables: create, truncate, drop, list, describe.
//!
//! A table is cut into as many tablets as there are disjoint sets of bricks, by halving the largest range of hashes. The
//! bricks of each are chosen among those that were heard lately. The record is stored with them before any brick is told,
//! and bricks take their parts when they ask. A quorum table is in a map of its own: nothing that concerns masters, their
//! logs and recoveries has to do with it. Names and ids are unique over both kinds.
//!
//! Not here: assignments of bricks (`assignment`), when a client is answered (`taking`, `updates`), which brick suits a
//! tablet best (placement). Protocol: docs/protocols/quorum.md. Catalogue: I1, A1.

use crate::assignment::{reassign, tablet_of, tablets_by_brick};
use crate::bricks::{BRICK_SILENCE, Bricks};
use crate::claims::check_table_name;
use crate::desk::Desk;
use crate::progress::Progress;
use crate::records::{QuorumTableRecord, QuorumTabletRecord, UpdateResult, is_durable, is_quorum};
use crate::state::State;
use crate::weight::{part, part_at_slots};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::limits::{BRICK_TABLET_COUNT_MAX, TABLE_COUNT_MAX, TABLET_COUNT_MAX};
use ramhold_base::{Instant, KeyHash, Level, ServerId, Status, TableId};
use ramhold_placement::{BrickCandidate, BrickChoice, zone_of};
use ramhold_wire::bricks::BRICK_WEIGHT;
use ramhold_wire::quorum::{BrickZone, QuorumOptions};
use ramhold_wire::shortage::{DomainLevel, Shortage};
use ramhold_wire::table::{
    TableCreate, TableDescription, TableDrop, TableOptions, TableSummary, TableTruncate,
};
use std::collections::{BTreeSet, VecDeque};

/// A coordinator that has just started does not know yet which bricks are there: a client that creates a quorum table
/// asks again, until all bricks are heard or have been silent.
pub(crate) fn is_too_early(now: Instant, desk: &Desk, bricks: &Bricks) -> bool {
    now < desk.started + BRICK_SILENCE && desk.state.bricks.keys().any(|brick| bricks.heard(*brick).is_none())
}

pub(crate) fn create_quorum_table(
    now: Instant,
    desk: &mut Desk,
    progress: &mut Progress,
    bricks: &mut Bricks,
    message: &TableCreate,
    quorum: QuorumOptions,
) -> Result<UpdateResult, Status> {
    check_table_name(&message.name)?;
    let options = checked(&message.options, &quorum)?;
    if desk.state.has_table_named(&message.name) {
        return Err(Status::TableExists);
    }
    if desk.state.table_count() >= TABLE_COUNT_MAX {
        return Err(Status::TooManyTables);
    }
    let mut choice = choice(now, &desk.state, bricks);
    let wanted = usize::from(quorum.bricks);
    if choice.domain_count() < wanted {
        return Ok(UpdateResult::Lacking(shortage(now, desk, bricks, quorum, choice.domain_count())));
    }
    let count = (choice.brick_count() / wanted).clamp(1, TABLET_COUNT_MAX as usize);
    let mut tablets = Vec::with_capacity(count);
    for (first, last) in halved(count, options.slots) {
        let bricks = choice.choose(wanted).expect("there are enough failure domains");
        tablets.push(QuorumTabletRecord::new(KeyHash(first), KeyHash(last), bricks));
    }
    if choice.tablets_max() > BRICK_TABLET_COUNT_MAX {
        return Err(Status::TooManyTables);
    }
    let seed = PlacementSeed(desk.rng.u64());
    let id = enter_table(desk, progress, bricks, (message.name.clone(), options, seed, tablets));
    Ok(UpdateResult::TableCreated(id))
}

/// The client is answered when no brick that is there has the table any more, also if it is being dropped already.
pub(crate) fn drop_quorum_table(
    desk: &mut Desk,
    progress: &mut Progress,
    bricks: &mut Bricks,
    message: &TableDrop,
) -> Result<UpdateResult, Status> {
    let id = message.table;
    if !desk.state.quorum_tables.get(&id).ok_or(Status::UnknownTable)?.dropping {
        begin_drop(desk, progress, bricks, id);
    }
    Ok(UpdateResult::TableDropped(id))
}

/// An empty table takes the place of this one, with the same tablets on the same bricks.
pub(crate) fn truncate_quorum_table(
    desk: &mut Desk,
    progress: &mut Progress,
    bricks: &mut Bricks,
    message: &TableTruncate,
) -> Result<UpdateResult, Status> {
    let old = message.table;
    let table = desk.state.quorum_tables.get(&old).filter(|table| !table.dropping);
    let table = table.ok_or(Status::UnknownTable)?;
    if desk.state.table_count() >= TABLE_COUNT_MAX {
        return Err(Status::TooManyTables);
    }
    let anew = |it: &QuorumTabletRecord| QuorumTabletRecord::new(it.first, it.last, it.bricks.clone());
    let tablets: Vec<QuorumTabletRecord> = table.tablets.iter().map(anew).collect();
    let made = (table.name.clone(), table.options.clone(), table.seed, tablets);
    begin_drop(desk, progress, bricks, old);
    let new = enter_table(desk, progress, bricks, made);
    Ok(UpdateResult::TableTruncated(old, new))
}

/// Reports of lost writes to a table that nobody has acknowledged.
fn losses_of(state: &State, table: TableId) -> u32 {
    let losses = state.losses.values().filter(|loss| loss.tables.contains(&table));
    u32::try_from(losses.count()).unwrap_or(u32::MAX)
}

pub(crate) fn summaries(state: &State) -> impl Iterator<Item = TableSummary> {
    let live = state.quorum_tables.values().filter(|table| !table.dropping);
    live.map(move |table| TableSummary {
        table: table.id,
        name: table.name.clone(),
        options: table.options.clone(),
        tablets: u32::try_from(table.tablets.len()).unwrap_or(u32::MAX),
        losses: losses_of(state, table.id),
    })
}

pub(crate) fn describe(state: &State, table: &QuorumTableRecord) -> TableDescription {
    TableDescription {
        table: table.id,
        name: table.name.clone(),
        options: table.options.clone(),
        seed: table.seed,
        tablets: Vec::new(),
        reclassing: 0,
        shortage: None,
        outside: None,
        quorum: Some(table.tablets.iter().map(|tablet| tablet_of(state, table, tablet)).collect()),
        zones: zones(state, table),
    }
}

/// The zones of a table's bricks, as far as they have any.
fn zones(state: &State, table: &QuorumTableRecord) -> Option<Vec<BrickZone>> {
    let bricks: BTreeSet<ServerId> = table.bricks().collect();
    let zone = |brick: ServerId| {
        let zone = zone_of(&state.bricks.get(&brick)?.labels)?.to_owned();
        Some(BrickZone { brick, zone })
    };
    let zones: Vec<BrickZone> = bricks.into_iter().filter_map(zone).collect();
    (!zones.is_empty()).then_some(zones)
}

/// The options of a new table, if a quorum table can have them.
fn checked(options: &TableOptions, quorum: &QuorumOptions) -> Result<TableOptions, Status> {
    let is_placed = options.zone.as_ref().is_some_and(|zone| !zone.is_empty());
    let is_sound = is_quorum(quorum) && is_durable(options.durability);
    if !is_sound || is_placed || options.replicas != 0 || options.tablets > TABLET_COUNT_MAX {
        return Err(Status::BadRequest);
    }
    Ok(TableOptions { zone: None, ..options.clone() })
}

/// The bricks that were heard lately, with their load.
fn choice(now: Instant, state: &State, bricks: &Bricks) -> BrickChoice {
    let tablets = tablets_by_brick(state);
    let heard =
        state.bricks.values().filter(|record| record.takes_tablets() && bricks.is_heard(now, record.id));
    BrickChoice::among(heard.map(|record| {
        let used_bytes = bricks.heard(record.id).map_or(0, |heard| heard.used_bytes);
        BrickCandidate {
            brick: record.id,
            labels: &record.labels,
            tablets: tablets.get(&record.id).copied().unwrap_or(0),
            weight: record.weight.unwrap_or(BRICK_WEIGHT),
            free_bytes: record.log_bytes.saturating_sub(used_bytes),
        }
    }))
}

fn shortage(now: Instant, desk: &Desk, bricks: &Bricks, quorum: QuorumOptions, up: usize) -> Shortage {
    let heard = desk.state.bricks.values().filter(|record| bricks.is_heard(now, record.id));
    Shortage {
        replicas: quorum.bricks,
        up: u32::try_from(up).unwrap_or(u32::MAX),
        level: DomainLevel::of_labels(heard.map(|record| record.labels.as_slice())),
        own_counts: true,
        bricks: true,
    }
}

/// All hashes in so many ranges, made by halving the largest one.
fn halved(count: usize, slots: bool) -> Vec<(u64, u64)> {
    let part = if slots { part_at_slots } else { part };
    // Those that were halved later are smaller, so the largest is always in front.
    let mut ranges = VecDeque::from([(0, u64::MAX)]);
    while ranges.len() < count {
        let (first, last) = ranges.pop_front().expect("there is always a range");
        ranges.extend([part(first, last, 0, 2), part(first, last, 1, 2)]);
    }
    let mut ranges = Vec::from(ranges);
    ranges.sort_unstable();
    ranges
}

fn enter_table(
    desk: &mut Desk,
    progress: &mut Progress,
    bricks: &mut Bricks,
    (name, options, seed, tablets): (String, TableOptions, PlacementSeed, Vec<QuorumTabletRecord>),
) -> TableId {
    let id = desk.state.meta.tables.next();
    desk.state.meta.tables = id;
    let text =
        format!("quorum table {id} '{}' is being created: {} tablets", name.escape_debug(), tablets.len());
    desk.outbox.report(Level::Info, text);
    let table = QuorumTableRecord { id, name, options, seed, dropping: false, tablets, version: 0 };
    desk.state.quorum_tables.insert(id, table);
    reassign(desk, id);
    progress.untaken.insert(id);
    bricks.wake_at = Instant::ZERO;
    id
}

fn begin_drop(desk: &mut Desk, progress: &mut Progress, bricks: &mut Bricks, id: TableId) {
    let Some(table) = desk.state.quorum_tables.get_mut(&id) else { return };
    table.dropping = true;
    let text = format!("quorum table {id} '{}' is being dropped", table.name.escape_debug());
    desk.outbox.report(Level::Info, text);
    reassign(desk, id);
    progress.untaken.remove(&id);
    progress.undropped.insert(id);
    desk.look_at_tablets();
    bricks.wake_at = Instant::ZERO;
}

#[cfg(test)]
mod tests {
    use super::*;

    // I1
    #[test]
    fn hashes_are_halved_into_ranges_of_two_sizes_at_most() {
        for slots in [false, true] {
            for count in [1, 2, 3, 5, 8, 100, 4096] {
                let ranges = halved(count, slots);
                assert_eq!(ranges.len(), count);
                assert_eq!((ranges[0].0, ranges[count - 1].1), (0, u64::MAX));
                assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{ranges:?}");
                let widths = ranges.iter().map(|(first, last)| last - first);
                let (least, most) = (widths.clone().min().unwrap(), widths.max().unwrap());
                assert!(least >= most / 2, "{count}: {least} and {most}");
                let at_slots = |(first, last): &(u64, u64)| first << 14 == 0 && last << 14 == u64::MAX << 14;
                assert!(!slots || ranges.iter().all(at_slots));
            }
        }
    }
}
