//! Data that a recovery cannot bring back, and how that loss is told.
//!
//! There are three kinds: the end of a stream that was in lost buffers only, tables that are kept in DRAM alone, and
//! bricks that an operator gives up though others may not have all that they had. Each loss is filed in the same commit as its consequences, and stays in the status until somebody has acknowledged it.
//!
//! Invariants: a loss is never silent; versions of what is lost are never handed out again.
//!
//! Protocol: docs/protocols/recovery.md, 3. Catalogue: D2. See consistency rule 8.

use crate::desk::Desk;
use crate::home::least_loaded;
use crate::prove::Proof;
use crate::records::{Key, TabletRecord, UpdateResult};
use ramhold_base::{ClusterTime, Instant, Level, RecoveryId, ServerId, Status, StreamId, TableId};
use ramhold_wire::membership::Durability;
use ramhold_wire::status::{LossAcknowledge, LossReport};
use std::collections::{BTreeMap, BTreeSet};

/// The operator has seen a report. A report that was acknowledged before stays so.
pub(crate) fn acknowledge_loss(desk: &mut Desk, message: &LossAcknowledge) -> Result<UpdateResult, Status> {
    if message.id == 0 || message.id > desk.state.meta.losses {
        return Err(Status::NotFound);
    }
    if desk.state.losses.remove(&message.id).is_some() {
        desk.outbox.touch(Key::Loss(message.id));
    }
    Ok(UpdateResult::LossAcknowledged)
}

/// Files one report for each stream whose end is lost. While no partition is live, these reports replace those that
/// were filed before; afterwards the new reports are added. `None`: the reports that were filed before stand.
pub(crate) fn file_losses(
    desk: &mut Desk,
    id: RecoveryId,
    crashed: ServerId,
    crash: ClusterTime,
    proof: &Proof,
) -> Option<Vec<u64>> {
    let record = desk.state.recoveries.get(&id)?;
    let mut filed = Vec::new();
    if !record.published.is_empty() {
        if proof.streams.iter().all(|stream| stream.loss.is_none()) {
            return None;
        }
        filed.clone_from(&record.losses);
    } else {
        for old in record.losses.clone() {
            desk.state.losses.remove(&old);
            desk.outbox.touch(Key::Loss(old));
        }
    }
    for stream in &proof.streams {
        let Some(loss) = &stream.loss else { continue };
        let here = |t: &TabletRecord| {
            let own = (t.owner, t.shard, t.stream);
            let earlier = t.earlier_positions().map(|e| (e.server, e.shard, e.stream));
            [own].into_iter().chain(earlier).any(|place| place == (crashed, stream.shard, stream.stream))
        };
        let tables =
            desk.state.tables.values().filter(|t| t.tablets.iter().any(here)).map(|t| t.id).collect();
        let report = LossReport {
            id: 0,
            crashed,
            stream: stream.stream,
            durability: stream.durability,
            tables,
            certified: loss.certified,
            crash,
            reason: loss.reason.clone(),
        };
        filed.push(file_loss(desk, report));
    }
    Some(filed)
}

/// Files what may be lost with a brick that an operator has given up. A report that says the same and was not
/// acknowledged yet stands.
pub(crate) fn file_brick_loss(
    desk: &mut Desk,
    brick: ServerId,
    crash: ClusterTime,
    (table, durability): (TableId, Durability),
    reason: String,
) {
    let (tables, stream) = (vec![table], StreamId::default());
    let is_same =
        |known: &LossReport| (known.crashed, &known.tables, &known.reason) == (brick, &tables, &reason);
    if !desk.state.losses.values().any(is_same) {
        let certified = ClusterTime::default();
        let report =
            LossReport { id: 0, crashed: brick, stream, durability, tables, certified, crash, reason };
        file_loss(desk, report);
    }
}

fn file_loss(desk: &mut Desk, report: LossReport) -> u64 {
    desk.state.meta.losses += 1;
    let id = desk.state.meta.losses;
    let text = format!(
        "loss report {id}: {} {} of {}, {} tables: {}",
        report.durability.name(),
        report.stream,
        report.crashed,
        report.tables.len(),
        report.reason
    );
    desk.outbox.report(Level::Error, text);
    desk.state.losses.insert(id, LossReport { id, ..report });
    desk.outbox.touch(Key::Meta);
    desk.outbox.touch(Key::Loss(id));
    id
}

/// Whether a table without replicas has a tablet of this dead server.
pub(crate) fn has_unreplicated(desk: &Desk, crashed: ServerId) -> bool {
    let of_caches =
        desk.state.tables.values().filter(|t| !t.dropping && t.options.durability == Durability::None);
    of_caches.flat_map(|t| &t.tablets).any(|t| t.owner == crashed && t.taken)
}

/// Gives tablets of `none` tables to other masters, empty, with versions above all that the dead server handed out.
/// Returns the tables of these tablets. None: there is no master yet.
pub(crate) fn retake_unreplicated(now: Instant, desk: &mut Desk, crashed: ServerId) -> Option<Vec<TableId>> {
    let lost = |t: &TabletRecord| t.owner == crashed && t.taken;
    let unreplicated = |d: Durability| d == Durability::None;
    let affected: Vec<TableId> = desk
        .state
        .tables
        .values()
        .filter(|t| !t.dropping && unreplicated(t.options.durability) && t.tablets.iter().any(lost))
        .map(|t| t.id)
        .collect();
    if affected.is_empty() {
        return Some(affected);
    }
    let mut masters = desk.state.tablets_by_master();
    if masters.is_empty() {
        return None;
    }
    let ceiling = desk.state.servers.get(&crashed).map(|s| s.ceiling).unwrap_or_default();
    let mut by_stream: BTreeMap<StreamId, Vec<TableId>> = BTreeMap::new();
    for id in &affected {
        let Some(table) = desk.state.tables.get_mut(id) else { continue };
        let home = table.options.zone.as_deref();
        let mut streams = BTreeSet::new();
        for tablet in table.tablets.iter_mut().filter(|t| lost(t)) {
            streams.insert(tablet.stream);
            tablet.taken = false;
            tablet.owner = least_loaded(&mut masters, &desk.state.servers, home);
            tablet.version_floor = tablet.version_floor.max(ceiling);
        }
        streams.iter().for_each(|s| by_stream.entry(*s).or_default().push(*id));
        desk.outbox.touch(Key::Table(*id));
    }
    let crash = desk.time(now);
    for (stream, tables) in by_stream {
        let reason = "the tables are kept in the master's memory alone; they are there again, empty".into();
        let certified = ClusterTime::default();
        let durability = Durability::None;
        file_loss(desk, LossReport { id: 0, crashed, stream, durability, tables, certified, crash, reason });
    }
    Some(affected)
}
