//! Audits the state of a whole cluster at rest: owners, replicas, and the bytes on the backups must agree.
//!
//! A run waits until the cluster has settled (every segment on R backups, every recovery over, garbage
//! collected). Then all facts that two places know must agree. A cluster that does not settle in time is
//! itself a finding. The wait and the audit both look at a picture of each server, so that tests can falsify
//! a picture.
//!
//! Catalogue: J3, D6, D7, D9, B3.

use crate::cluster::bricks::BrickProcess;
use crate::cluster::process::Process;
use crate::cluster::session::ClusterSession;
use crate::scenario::Actor;
use crate::world::World;
use ramhold_backup::ReplicaState;
use ramhold_base::{ClusterTime, SegmentId, ServerId, StreamId, TableId};
use ramhold_coordinator::TableRecord;
use ramhold_log::SegmentInfo;
use ramhold_master::{Master, TabletSeen};
use ramhold_node::{Coordinator, Phase, ServerNode};
use ramhold_replication::ReplicaSeen;
use std::collections::{BTreeMap, BTreeSet};

type ClusterWorld = World<Actor<Process, ClusterSession>>;

/// One server, as its roles report themselves.
#[derive(Clone, Debug)]
pub struct ServerSeen {
    pub id: ServerId,
    pub phase: Phase,
    /// The number of servers in its copy of the list.
    pub listed: usize,
    pub master: Option<MasterSeen>,
    /// The replicas that its backup holds.
    pub held: Vec<ReplicaState>,
}

#[derive(Clone, Debug)]
pub struct MasterSeen {
    pub fully_replicated: bool,
    pub tablets: Vec<TabletSeen>,
    /// The number of replicas that the segments of each stream have.
    pub streams: BTreeMap<StreamId, u8>,
    pub segments: Vec<SegmentInfo>,
    /// Its replicas, as the master believes them to be.
    pub replicas: Vec<ReplicaSeen>,
    /// Closed segments with damage in memory. Damage in a head is not searched for: it is found when the head
    /// is read.
    pub damaged: Vec<SegmentId>,
}

/// The running servers of a world.
pub fn servers(world: &ClusterWorld) -> Vec<&ServerNode> {
    (0..world.node_count())
        .filter_map(|node| match world.machine(node) {
            Some(Actor::Process(process)) => process.server(),
            Some(Actor::Client(_)) | None => None,
        })
        .collect()
}

/// The running bricks of a world.
pub fn bricks(world: &ClusterWorld) -> Vec<&BrickProcess> {
    (0..world.node_count())
        .filter_map(|node| match world.machine(node) {
            Some(Actor::Process(process)) => process.brick(),
            Some(Actor::Client(_)) | None => None,
        })
        .collect()
}

/// The coordinator of a world; `None` while none is in charge.
pub fn in_charge(world: &ClusterWorld) -> Option<&Coordinator> {
    (0..world.node_count()).find_map(|node| match world.machine(node) {
        Some(Actor::Process(process)) => process.coordinator().filter(|c| c.is_active()),
        Some(Actor::Client(_)) | None => None,
    })
}

/// The longest time after an object's end for which it may still be counted, when nothing holds the count up.
const EXPIRED_MILLIS_MAX: u64 = 1000;
/// The greatest allowed error of a server's cluster time.
const TIME_MICROS_MAX: u64 = 1000;

/// Finds objects that are counted although their time to live has been over for a second, and servers whose
/// cluster time is off by more than a millisecond. // A12
pub fn overdue(world: &ClusterWorld) -> Option<String> {
    let process = |node: usize| match world.machine(node) {
        Some(Actor::Process(process)) => Some(process),
        Some(Actor::Client(_)) | None => None,
    };
    let nodes = || (0..world.node_count()).filter_map(|node| Some((world.local_now(node), process(node)?)));
    let (now, coordinator) =
        nodes().find_map(|(now, process)| Some((now, process.coordinator().filter(|c| c.is_active())?)))?;
    // Servers go on by their own clocks meanwhile. A server that has enlisted since is ahead of the others.
    if coordinator.clock().is_standing(now) {
        return Some("the coordinator's clock stands still".into());
    }
    let micros = coordinator.clock().micros(now);
    nodes().filter_map(|(now, process)| Some((now, process.server()?))).find_map(|(now, server)| {
        let (id, time) = (server.id(), server.view().time(now));
        // A server reports whole milliseconds.
        let off = (time.0 * 1000 + 500).abs_diff(micros);
        if off > TIME_MICROS_MAX + 500 {
            return Some(format!("the cluster time of {id} is off by {off} microseconds"));
        }
        let by = ClusterTime(time.0 - EXPIRED_MILLIS_MAX);
        let counted = server.master().map_or(0, |master| master.log().count_ended(by));
        (counted > 0).then(|| format!("{id} counts {counted} objects whose time is over"))
    })
}

/// A range of hashes, and its owner.
pub type Owned = (u64, u64, ServerId);

/// The tablets of all tables, as the coordinator has stored them.
pub fn stored(coordinator: &Coordinator) -> BTreeMap<TableId, Vec<Owned>> {
    let tablets = |table: &TableRecord| {
        table.whole_tablets().map(|t| (t.first.0, t.last.0, t.owner)).collect::<Vec<Owned>>()
    };
    coordinator.state().tables.values().map(|table| (table.id, tablets(table))).collect()
}

/// The work on its tables that the coordinator of a cluster has not finished.
pub fn changing(coordinator: &Coordinator) -> Option<String> {
    let mut tables = coordinator.state().tables.values();
    let changing = tables.find(|table| table.dropping || table.tablets.iter().any(|t| !t.taken));
    let changing = changing.map(|table| format!("{} is being made or dropped", table.id));
    let untold = coordinator.divisions_under_way();
    let moving = coordinator.reclassings_under_way();
    let changing =
        changing.or_else(|| (untold > 0).then(|| format!("{untold} owners have to divide tablets")));
    changing
        .or_else(|| (moving > 0).then(|| format!("{moving} owners have to move tablets to other streams")))
}

pub fn look(server: &ServerNode) -> ServerSeen {
    ServerSeen {
        id: server.id(),
        phase: server.phase(),
        listed: server.view().list.entries().count(),
        master: server.master().map(look_at_master),
        held: server.backup().replicas().collect(),
    }
}

fn look_at_master(master: &Master) -> MasterSeen {
    MasterSeen {
        fully_replicated: master.is_fully_replicated(),
        tablets: master.tablets_seen().collect(),
        streams: master.replicator().streams().map(|(id, class)| (id, class.replicas)).collect(),
        segments: master.log().segments().cloned().collect(),
        replicas: master.replicator().replicas().collect(),
        damaged: damaged(master, true),
    }
}

fn damaged(master: &Master, closed: bool) -> Vec<SegmentId> {
    let segments = master.log().segments().filter(|segment| segment.closed == closed);
    segments.map(|segment| segment.id).filter(|id| master.log().damage_in(*id).is_some()).collect()
}

/// The work that is still under way, or none when the cluster has settled.
pub fn unsettled(count: u8, servers: &[&ServerNode]) -> Option<String> {
    // Most of the time the cluster has not settled. A whole picture is made only when the first look finds
    // nothing.
    let waiting = |server: &&&ServerNode| {
        server.phase() != Phase::Serving || !server.master().is_some_and(Master::is_fully_replicated)
    };
    if let Some(server) = servers.iter().find(waiting) {
        return Some(format!("{} is {:?} or replicates", server.id(), server.phase()));
    }
    let unspread = |server: &&&ServerNode| {
        server.master().is_some_and(|master| {
            let mut streams = master.replicator().streams();
            streams.any(|(stream, _)| master.replicator().unspread_count(stream, server.view()) > 0)
        })
    };
    if let Some(server) = servers.iter().find(unspread) {
        return Some(format!("{} has segments whose copies are all in one zone", server.id()));
    }
    let seen: Vec<ServerSeen> = servers.iter().map(|server| look(server)).collect();
    under_way(count, &seen)
}

/// The same for a picture.
pub fn under_way(count: u8, servers: &[ServerSeen]) -> Option<String> {
    if servers.len() < usize::from(count) {
        return Some(format!("only {} servers run", servers.len()));
    }
    for server in servers {
        let id = server.id;
        if server.phase != Phase::Serving {
            return Some(format!("{id} is {:?}", server.phase));
        }
        if server.listed != servers.len() {
            return Some(format!("{id} knows {} servers: a recovery is not over", server.listed));
        }
        let Some(master) = &server.master else { return Some(format!("{id} has no master")) };
        // The coordinator's answer that makes the tablet serve is on its way, or was lost and is asked for
        // again.
        if let Some(tablet) = master.tablets.iter().find(|tablet| !tablet.serving) {
            return Some(format!("{id} does not serve yet from {:?} of {}", tablet.first, tablet.table));
        }
        if !master.fully_replicated {
            return Some(format!("{id} has segments with fewer than R replicas: {:?}", master.replicas));
        }
    }
    // A head that cleaning has rolled counts as replicated while its closing is on the way.
    for (server, master) in masters(servers) {
        let closes = |id: SegmentId| master.segments.iter().any(|s| s.id == id && s.closed);
        if let Some(seen) = master.replicas.iter().find(|seen| !seen.closed && closes(seen.segment)) {
            return Some(format!("{} of {} is being closed on {}", seen.segment, server.id, seen.backup));
        }
    }
    // A head is held before it is in the log: cleaning, or a move of a tablet to another neighbourhood, is under way.
    for (server, master) in masters(servers) {
        let is_there = |id: SegmentId| master.segments.iter().any(|segment| segment.id == id);
        if let Some(seen) = master.replicas.iter().find(|seen| !is_there(seen.segment)) {
            return Some(format!("{} of {} is held on {}", seen.segment, server.id, seen.backup));
        }
    }
    for (server, master) in masters(servers) {
        let mut counts: BTreeMap<(SegmentId, StreamId), u8> = BTreeMap::new();
        for seen in &master.replicas {
            *counts.entry((seen.segment, seen.stream)).or_default() += 1;
        }
        let is_more = |(at, count): &(&(SegmentId, StreamId), &u8)| {
            master.streams.get(&at.1).is_some_and(|wanted| *count > wanted)
        };
        if let Some(((segment, _), _)) = counts.iter().find(is_more) {
            return Some(format!("a replica of {segment} of {} moves", server.id));
        }
    }
    let mut wanted: BTreeSet<(ServerId, ServerId, u64)> = BTreeSet::new();
    for (server, master) in masters(servers) {
        wanted.extend(master.replicas.iter().map(|r| (r.backup, server.id, r.segment.raw())));
    }
    for server in servers {
        for held in &server.held {
            if !wanted.remove(&(server.id, held.log.server, held.segment.raw())) {
                return Some(format!("{} holds what nobody wants: {held:?}", server.id));
            }
        }
    }
    if let Some(missing) = wanted.first() {
        return Some(format!("nobody holds (backup, log, segment) {missing:?}"));
    }
    let damage = masters(servers).find_map(|(server, master)| Some((server.id, *master.damaged.first()?)));
    damage.map(|(server, segment)| format!("{segment} of {server} is damaged"))
}

fn masters(servers: &[ServerSeen]) -> impl Iterator<Item = (&ServerSeen, &MasterSeen)> {
    servers.iter().filter_map(|server| Some((server, server.master.as_ref()?)))
}

/// All disagreements, in words. `replicas`: the number for all streams, where all have the same. `tables`:
/// the tables as the coordinator has stored them.
pub fn audit(
    replicas: Option<u8>,
    tables: &BTreeMap<TableId, Vec<Owned>>,
    servers: &[&ServerNode],
) -> Vec<String> {
    for server in servers {
        // The checksum of a damaged head must not hold.
        if server.master().is_none_or(|master| damaged(master, false).is_empty()) {
            server.check_invariants();
        }
    }
    let seen: Vec<ServerSeen> = servers.iter().map(|server| look(server)).collect();
    disagreements(replicas, tables, &seen)
}

/// Finds servers that are gone but present, and data directories that are expected twice. // B1
pub fn gone_and_there(coordinator: &Coordinator) -> Vec<String> {
    let state = coordinator.state();
    let mut directories: BTreeSet<_> = state.all_up().map(|server| server.entry.directory).collect();
    let up = directories.len();
    let mut findings = Vec::new();
    for gone in state.gone.values().filter(|gone| !directories.insert(gone.directory)) {
        findings.push(format!(
            "{} is gone, but its {} is up or gone as another server",
            gone.server, gone.directory
        ));
    }
    let expected = state.expected_count();
    if expected != (up + state.gone.len()) as u64 {
        findings.push(format!("{expected} servers are expected; {up} are up, {} are gone", state.gone.len()));
    }
    findings
}

/// The same for a picture.
pub fn disagreements(
    replicas: Option<u8>,
    tables: &BTreeMap<TableId, Vec<Owned>>,
    servers: &[ServerSeen],
) -> Vec<String> {
    let mut findings = Vec::new();
    one_owner_for_every_hash(tables, servers, &mut findings);
    tablets_are_as_stored(tables, servers, &mut findings);
    replicas_are_what_masters_think(replicas, servers, &mut findings);
    findings
}

fn one_owner_for_every_hash(
    known: &BTreeMap<TableId, Vec<Owned>>,
    servers: &[ServerSeen],
    findings: &mut Vec<String>,
) {
    let mut tables: BTreeMap<TableId, Vec<Owned>> = known.keys().map(|table| (*table, Vec::new())).collect();
    for (server, master) in masters(servers) {
        for tablet in master.tablets.iter().filter(|t| t.serving) {
            if !known.contains_key(&tablet.table) {
                findings.push(format!("{} serves {}, which is no table", server.id, tablet.table));
            }
            let ranges = tables.entry(tablet.table).or_default();
            ranges.push((tablet.first.0, tablet.last.0, server.id));
        }
    }
    for (table, mut ranges) in tables {
        ranges.sort_unstable();
        let mut next = Some(0);
        for (first, last, owner) in ranges {
            if next != Some(first) {
                findings.push(format!("{table}: {owner} serves from {first:016x}, expected {next:016x?}"));
            }
            next = last.checked_add(1);
        }
        if next.is_some() {
            findings.push(format!("{table}: nobody serves the hashes from {next:016x?}"));
        }
    }
}

/// Every cut and join has reached the owners of the tablets. // A8
fn tablets_are_as_stored(
    stored: &BTreeMap<TableId, Vec<Owned>>,
    servers: &[ServerSeen],
    findings: &mut Vec<String>,
) {
    let mut served: BTreeSet<(TableId, Owned)> = BTreeSet::new();
    for (server, master) in masters(servers) {
        let tablets = master.tablets.iter().filter(|t| t.serving);
        served.extend(tablets.map(|t| (t.table, (t.first.0, t.last.0, server.id))));
    }
    let stored = stored.iter().flat_map(|(table, tablets)| tablets.iter().map(|tablet| (*table, *tablet)));
    let stored: BTreeSet<(TableId, Owned)> = stored.collect();
    for (table, (first, last, owner)) in stored.symmetric_difference(&served).take(20) {
        let what =
            if served.contains(&(*table, (*first, *last, *owner))) { "serves" } else { "does not serve" };
        findings.push(format!("{table}: {owner} {what} {first:016x}-{last:016x}, unlike what is stored"));
    }
}

fn replicas_are_what_masters_think(replicas: Option<u8>, servers: &[ServerSeen], findings: &mut Vec<String>) {
    let mut held: BTreeMap<(ServerId, ServerId, u64), ReplicaState> = BTreeMap::new();
    for server in servers {
        for replica in &server.held {
            let key = (server.id, replica.log.server, replica.segment.raw());
            if held.insert(key, *replica).is_some() {
                findings.push(format!("{} holds {} of {} twice", key.0, replica.segment, key.1));
            }
        }
    }
    for (server, master) in masters(servers) {
        let mut copies: BTreeMap<(u64, StreamId), BTreeSet<ServerId>> = BTreeMap::new();
        for wanted in &master.replicas {
            copies.entry((wanted.segment.raw(), wanted.stream)).or_default().insert(wanted.backup);
            let name = format!("{} of {} on {}", wanted.segment, server.id, wanted.backup);
            let Some(replica) = held.get(&(wanted.backup, server.id, wanted.segment.raw())) else {
                findings.push(format!("{name} is not held"));
                continue;
            };
            let Some(segment) = master.segments.iter().find(|s| s.id == wanted.segment) else {
                findings.push(format!("{name} is no segment of the log"));
                continue;
            };
            let certified = replica.certificate.map(|c| (c.length, c.crc));
            // Replicas of a compacted segment hold the segment as it was before, or as some compaction since
            // left it.
            let as_before =
                segment.is_compacted && certified.is_some_and(|(length, _)| length > segment.len_bytes);
            if wanted.closed && !as_before && certified != Some((segment.len_bytes, segment.crc)) {
                findings.push(format!(
                    "{name} is certified {certified:?}, the segment is {:?}",
                    (segment.len_bytes, segment.crc)
                ));
            }
            if replica.epoch != wanted.epoch
                || replica.closed != wanted.closed
                || replica.cut
                || replica.corrupt
            {
                findings.push(format!("{name}: the master thinks {wanted:?}, it is {replica:?}"));
            }
        }
        for ((segment, stream), backups) in copies {
            let count = backups.len() as u8;
            if master.streams.get(&stream) != Some(&count) || replicas.is_some_and(|least| count < least) {
                findings.push(format!("seg{segment} of {} has {count} replicas", server.id));
            }
            if backups.contains(&server.id) {
                findings.push(format!("seg{segment} of {} is on its own backup", server.id));
            }
        }
    }
}
