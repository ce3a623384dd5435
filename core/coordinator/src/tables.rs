//! Clients' requests about tables: create, truncate, drop, list, describe.
//!
//! Options that the creator leaves open are settled when the table is made, and stored with it, because the default may
//! change later. A table is not made if the servers that are up cannot keep its replicas (`shortage`). A table is
//! stored with its tablets placed before any server is told to take one. The client is answered when all tablets are
//! taken. A dropped table is stored as dropping, which frees its name. Its record goes when no owner serves it any
//! more.
//!
//! Not here: tables that bricks hold (`quorum_tables`); cutting and joining tablets (`division`); telling masters (`tablets`); that each update has its effect
//! once, and its answer in time (`updates`).
//! Catalogue: A1, B3.

use crate::claims::check_table_name;
use crate::desk::Desk;
use crate::home::{check_zone, is_at, least_loaded, outside_count};
use crate::progress::Progress;
use crate::quorum_tables;
use crate::reclassing;
use crate::records::{Key, ServerRecord, TableRecord, TabletRecord, UpdateResult};
use crate::recoveries::Recoveries;
use crate::shortage;
use crate::streams::check_durability;
use crate::weight::{part, part_at_slots};
use ramhold_base::hash::{PlacementSeed, SLOT_COUNT};
use ramhold_base::limits::{TABLE_COUNT_MAX, TABLET_COUNT_MAX};
use ramhold_base::{
    DivisionId, KeyHash, Level, Mark, Peer, SegmentId, ServerId, ShardId, Status, StreamId, TableId, Version,
};
use ramhold_placement::{Network, neighbourhoods};
use ramhold_wire::Header;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{
    LeftOpen, TableCreate, TableDescribe, TableDescription, TableDrop, TableOptions, TableSummary,
    TableTruncate, Tables, TabletDescription, TabletState,
};
use std::collections::BTreeMap;

pub(crate) fn create_table(
    desk: &mut Desk,
    progress: &mut Progress,
    message: &TableCreate,
) -> Result<UpdateResult, Status> {
    check_create(message)?;
    if desk.state.has_table_named(&message.name) {
        return Err(Status::TableExists);
    }
    let options = settle(message, desk.config.default_replicas)?;
    check_zone(desk, options.zone.as_deref())?;
    if desk.state.table_count() >= TABLE_COUNT_MAX {
        return Err(Status::TooManyTables);
    }
    let mut masters = desk.state.tablets_by_master();
    if masters.is_empty() {
        // This refusal is final for its sequence: the client goes on under another one.
        return Err(Status::Retry);
    }
    if let Some(shortage) = shortage::shortage(desk, options.replicas) {
        return Ok(UpdateResult::Lacking(shortage));
    }
    let home = options.zone.as_deref();
    let count = match message.options.tablets {
        0 => {
            let there = desk.state.masters().filter(|server| is_at(home, server)).count();
            let spread = if there == 0 { masters.len() } else { there };
            // Each master has a part of the table in each of its neighbourhoods.
            let spread = spread * neighbourhoods_each(desk);
            u64::try_from(spread).unwrap_or(u64::MAX).min(u64::from(TABLET_COUNT_MAX))
        }
        count => u64::from(count),
    };
    let part = if options.slots { part_at_slots } else { part };
    let range = |index: u64| part(0, u64::MAX, index, count);
    let servers = &desk.state.servers;
    let tablets = (0..count).map(|i| untaken(range(i), least_loaded(&mut masters, servers, home))).collect();
    let seed = PlacementSeed(desk.rng.u64());
    Ok(UpdateResult::TableCreated(enter_table(desk, progress, message.name.clone(), options, seed, tablets)))
}

/// The masters that are looked at: the rings of many are much work, and mostly alike.
const NEIGHBOURHOODS_SAMPLE: usize = 16;

/// The most neighbourhoods that a master has, roughly; 1 where the placement has none.
pub(crate) fn neighbourhoods_each(desk: &Desk) -> usize {
    let Some((by, most)) = desk.config.placement.neighbouring() else { return 1 };
    let network = Network::new(&desk.state.meta.topology, desk.state.all_up().map(|record| &record.entry));
    let count =
        |master: &ServerRecord| neighbourhoods(&network, by, master.entry.id, usize::from(most)).len();
    desk.state.masters().take(NEIGHBOURHOODS_SAMPLE).map(count).max().unwrap_or(1).max(1)
}

fn enter_table(
    desk: &mut Desk,
    progress: &mut Progress,
    name: String,
    options: TableOptions,
    seed: PlacementSeed,
    tablets: Vec<TabletRecord>,
) -> TableId {
    let id = desk.state.meta.tables.next();
    desk.state.meta.tables = id;
    let text = format!("table {id} '{}' is being created: {} tablets", name.escape_debug(), tablets.len());
    desk.outbox.report(Level::Info, text);
    let division = DivisionId::NONE;
    let table = TableRecord { id, name, options, seed, dropping: false, tablets, division };
    desk.state.tables.insert(id, table);
    desk.outbox.touch(Key::Meta);
    desk.outbox.touch(Key::Table(id));
    progress.want_tablets(desk, id);
    id
}

/// The client is answered when no owner serves the table any more, also if the table is being dropped already.
pub(crate) fn drop_table(
    desk: &mut Desk,
    progress: &mut Progress,
    recoveries: &mut Recoveries,
    message: &TableDrop,
) -> Result<UpdateResult, Status> {
    let id = message.table;
    if !desk.state.tables.get(&id).ok_or(Status::UnknownTable)?.dropping {
        begin_drop(desk, progress, recoveries, id);
    }
    Ok(UpdateResult::TableDropped(id))
}

fn begin_drop(desk: &mut Desk, progress: &mut Progress, recoveries: &mut Recoveries, id: TableId) {
    let Some(table) = desk.state.tables.get_mut(&id) else { return };
    table.dropping = true;
    let text = format!("table {id} '{}' is being dropped", table.name.escape_debug());
    desk.outbox.report(Level::Info, text);
    desk.outbox.touch(Key::Table(id));
    progress.want_drop(desk, id);
    recoveries.leave_out(id);
}

/// An empty table takes the place of this one. Everything but the objects stays as it is.
pub(crate) fn truncate_table(
    desk: &mut Desk,
    progress: &mut Progress,
    recoveries: &mut Recoveries,
    message: &TableTruncate,
) -> Result<UpdateResult, Status> {
    let old = message.table;
    let table = desk.state.tables.get(&old).filter(|t| !t.dropping).ok_or(Status::UnknownTable)?;
    if desk.state.table_count() >= TABLE_COUNT_MAX {
        return Err(Status::TooManyTables);
    }
    let mut masters = desk.state.tablets_by_master();
    if masters.is_empty() {
        // This refusal is final for its sequence: the client goes on under another one.
        return Err(Status::Retry);
    }
    if let Some(shortage) = shortage::shortage(desk, table.options.replicas) {
        return Ok(UpdateResult::Lacking(shortage));
    }
    let home = table.options.zone.as_deref();
    let has_home = desk.state.masters().any(|server| is_at(home, server));
    let owner = |tablet: &TabletRecord, masters: &mut BTreeMap<ServerId, u32>| {
        let is_there = desk.state.up(tablet.owner).is_some_and(|owner| is_at(home, owner) || !has_home);
        let stays = masters.contains_key(&tablet.owner) && is_there;
        if stays { tablet.owner } else { least_loaded(masters, &desk.state.servers, home) }
    };
    let whole = table.whole_tablets();
    let tablets = whole.map(|t| untaken((t.first.0, t.last.0), owner(&t, &mut masters))).collect();
    let (name, options, seed) = (table.name.clone(), table.options.clone(), table.seed);
    begin_drop(desk, progress, recoveries, old);
    let new = enter_table(desk, progress, name, options, seed, tablets);
    desk.outbox.mark(Mark::TableTruncated);
    Ok(UpdateResult::TableTruncated(old, new))
}

pub(crate) fn answer_table_list(desk: &mut Desk, to: Peer, header: &Header) -> Result<(), Status> {
    let mut losses: BTreeMap<TableId, u32> = BTreeMap::new();
    for table in desk.state.losses.values().flat_map(|l| &l.tables) {
        *losses.entry(*table).or_default() += 1;
    }
    let live = desk.state.tables.values().filter(|t| !t.dropping);
    let summary = |t: &TableRecord| TableSummary {
        table: t.id,
        name: t.name.clone(),
        options: t.options.clone(),
        tablets: t.whole_tablets().count() as u32,
        losses: losses.get(&t.id).copied().unwrap_or(0),
    };
    let mut tables: Vec<TableSummary> = live.map(summary).collect();
    tables.extend(quorum_tables::summaries(&desk.state));
    tables.sort_by_key(|summary| summary.table);
    desk.outbox.reply_with(to, header, &Tables { tables });
    Ok(())
}

pub(crate) fn answer_table_describe(
    desk: &mut Desk,
    to: Peer,
    header: &Header,
    message: &TableDescribe,
) -> Result<(), Status> {
    let state = &desk.state;
    let (table, quorum_table) = if message.name.is_empty() {
        (state.tables.get(&message.table), state.quorum_tables.get(&message.table))
    } else {
        (state.table_named(&message.name), state.quorum_table_named(&message.name))
    };
    let description = match (table, quorum_table) {
        (Some(table), _) => describe_table(desk, table),
        (None, Some(table)) => quorum_tables::describe(state, table),
        (None, None) => return Err(Status::UnknownTable),
    };
    desk.outbox.reply_with(to, header, &description);
    Ok(())
}

fn describe_table(desk: &Desk, table: &TableRecord) -> TableDescription {
    TableDescription {
        table: table.id,
        name: table.name.clone(),
        options: table.options.clone(),
        seed: table.seed,
        tablets: table.whole_tablets().map(|t| describe(desk, table, &t)).collect(),
        reclassing: reclassing::reclassing_count(&desk.state, table),
        shortage: shortage::shortage(desk, table.options.replicas),
        outside: outside_count(desk, table),
        quorum: None,
        zones: None,
    }
}

/// Only a server that serves the tablet is named with an address: a tablet that is not yet taken may still move.
fn describe(desk: &Desk, table: &TableRecord, tablet: &TabletRecord) -> TabletDescription {
    let owner = desk.state.up(tablet.owner);
    let state = match owner {
        _ if table.dropping => TabletState::Dropping,
        _ if !tablet.taken => TabletState::Creating,
        Some(_) => TabletState::Serving,
        None => TabletState::Recovering,
    };
    let serves = state == TabletState::Serving;
    TabletDescription {
        first: tablet.first,
        last: tablet.last,
        state,
        owner: tablet.owner,
        shard: tablet.shard,
        address: owner.filter(|_| serves).map(|s| s.entry.address),
        stream: tablet.stream,
        first_segment: tablet.first_segment,
    }
}

/// A tablet that its owner has yet to take.
fn untaken((first, last): (u64, u64), owner: ServerId) -> TabletRecord {
    TabletRecord {
        first: KeyHash(first),
        last: KeyHash(last),
        owner,
        taken: false,
        shard: ShardId::NONE,
        stream: StreamId::NONE,
        first_segment: SegmentId::NONE,
        version_floor: Version::NONE,
        joined: false,
        earlier: None,
        older: Vec::new(),
    }
}

fn check_create(message: &TableCreate) -> Result<(), Status> {
    check_table_name(&message.name)?;
    if message.options.tablets > TABLET_COUNT_MAX {
        return Err(Status::BadRequest);
    }
    check_durability(message.options.durability, message.options.replicas)
}

/// The options of a new table: those that were given, and the cluster's default for those that were left open.
fn settle(message: &TableCreate, default_replicas: u8) -> Result<TableOptions, Status> {
    let mut said = message.options.clone();
    said.zone = said.zone.filter(|zone| !zone.is_empty());
    match (message.left_open, said.durability) {
        (None, _) | (Some(_), Durability::None) => Ok(said),
        (Some(LeftOpen::Durability), _) if default_replicas == 0 => {
            Ok(TableOptions { durability: Durability::None, replicas: 0, ..said })
        }
        (Some(LeftOpen::Replicas), _) if default_replicas == 0 => Err(Status::NotAllowed),
        (Some(_), _) => Ok(TableOptions { replicas: default_replicas, ..said }),
    }
}

// Each tablet of a table by slots has at least one slot.
const _: () = assert!(TABLET_COUNT_MAX <= SLOT_COUNT as u32);
