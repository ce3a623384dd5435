//! The state of a whole cluster at rest, held against itself: owners, replicas, and what lies on the backups.
//!
//! A run waits until the cluster has settled (every segment on R backups, every recovery over, garbage collected); then
//! everything that two places know must agree. What does not settle in time is itself a finding.
//!
//! Catalogue: J3, D6, D7, D9, B3.

use crate::cluster::{Cluster, Process};
use crate::scenario::Actor;
use crate::world::World;
use ramhold_backup::ReplicaState;
use ramhold_base::{SegmentId, ServerId};
use ramhold_node::{Phase, ServerNode};
use std::collections::{BTreeMap, BTreeSet};

type ClusterWorld = World<Actor<Process, crate::cluster::ClusterSession>>;

fn servers(world: &ClusterWorld) -> Vec<&ServerNode> {
    (0..world.node_count())
        .filter_map(|node| match world.machine(node) {
            Some(Actor::Process(process)) => match process.as_ref() {
                Process::Server(server) => Some(&server.node),
                Process::Coordinator(_) => None,
            },
            Some(Actor::Client(_)) | None => None,
        })
        .collect()
}

/// What is still under way, or none when the cluster has settled.
pub fn unsettled(cluster: &Cluster, world: &ClusterWorld) -> Option<String> {
    let servers = servers(world);
    if servers.len() < usize::from(cluster.servers) {
        return Some(format!("only {} servers run", servers.len()));
    }
    for server in &servers {
        let id = server.id();
        if server.phase() != Phase::Serving {
            return Some(format!("{id} is {:?}", server.phase()));
        }
        let listed = server.view().list.entries().count();
        if listed != servers.len() {
            return Some(format!("{id} knows {listed} servers: a recovery is not over"));
        }
        let Some(master) = server.master() else { return Some(format!("{id} has no master")) };
        if !master.is_fully_replicated() {
            let lacking = master.log().segments().filter(|s| !master.replicator().is_complete(s.id));
            let lacking: Vec<_> =
                lacking.map(|s| (s.id, master.replicator().replicas_of(s.id).collect::<Vec<_>>())).collect();
            return Some(format!("{id} has segments with fewer than R replicas: {lacking:?}"));
        }
    }
    // A head that cleaning has rolled counts as replicated while its closing is on the way.
    for server in &servers {
        let Some(master) = server.master() else { continue };
        let closes = |segment| master.log().segment(segment).is_some_and(|info| info.closed);
        if let Some(seen) = master.replicator().replicas().find(|seen| !seen.closed && closes(seen.segment)) {
            return Some(format!("{} of {} is being closed on {}", seen.segment, server.id(), seen.backup));
        }
    }
    let mut wanted: BTreeSet<(ServerId, ServerId, u64)> = BTreeSet::new();
    for server in &servers {
        for replica in server.master().into_iter().flat_map(|m| m.replicator().replicas()) {
            wanted.insert((replica.backup, server.id(), replica.segment.raw()));
        }
    }
    for server in &servers {
        for held in server.backup().replicas() {
            if !wanted.remove(&(server.id(), held.log.server, held.segment.raw())) {
                return Some(format!("{} holds what nobody wants: {held:?}", server.id()));
            }
        }
    }
    if let Some(missing) = wanted.first() {
        return Some(format!("nobody holds (backup, log, segment) {missing:?}"));
    }
    let damaged = servers.iter().find_map(|server| Some((server.id(), damaged(server, true)?)));
    damaged.map(|(server, segment)| format!("{segment} of {server} is damaged"))
}

/// A segment with damage in memory, closed or a head. Nobody looks for that in heads: it is found when it is read.
fn damaged(server: &ServerNode, closed: bool) -> Option<SegmentId> {
    let log = server.master()?.log();
    let mut segments = log.segments().filter(|segment| segment.closed == closed);
    segments.find(|segment| log.damage_in(segment.id).is_some()).map(|segment| segment.id)
}

/// Everything that does not agree, in words.
pub fn audit(cluster: &Cluster, world: &ClusterWorld) -> Vec<String> {
    let mut findings = Vec::new();
    let servers = servers(world);
    for server in &servers {
        // The checksum of a damaged head does not hold, as it must.
        if damaged(server, false).is_none() {
            server.check_invariants();
        }
    }
    one_owner_for_every_hash(&servers, &mut findings);
    replicas_are_what_masters_think(cluster, &servers, &mut findings);
    findings
}

fn one_owner_for_every_hash(servers: &[&ServerNode], findings: &mut Vec<String>) {
    let mut tables: BTreeMap<u32, Vec<(u64, u64, ServerId)>> = BTreeMap::new();
    for server in servers {
        for tablet in server.master().into_iter().flat_map(|m| m.tablets_seen()).filter(|t| t.serving) {
            let ranges = tables.entry(tablet.table.raw()).or_default();
            ranges.push((tablet.first.0, tablet.last.0, server.id()));
        }
    }
    for (table, mut ranges) in tables {
        ranges.sort_unstable();
        let mut next = Some(0);
        for (first, last, owner) in ranges {
            if next != Some(first) {
                findings
                    .push(format!("table {table}: {owner} serves from {first:016x}, expected {next:016x?}"));
            }
            next = last.checked_add(1);
        }
        if next.is_some() {
            findings.push(format!("table {table}: nobody serves the hashes from {next:016x?}"));
        }
    }
}

fn replicas_are_what_masters_think(cluster: &Cluster, servers: &[&ServerNode], findings: &mut Vec<String>) {
    let mut held: BTreeMap<(ServerId, ServerId, u64), ReplicaState> = BTreeMap::new();
    for server in servers {
        for replica in server.backup().replicas() {
            let key = (server.id(), replica.log.server, replica.segment.raw());
            if held.insert(key, replica).is_some() {
                findings.push(format!("{} holds {} of {} twice", key.0, replica.segment, key.1));
            }
        }
    }
    for server in servers {
        let Some(master) = server.master() else { continue };
        let mut copies: BTreeMap<u64, u8> = BTreeMap::new();
        for wanted in master.replicator().replicas() {
            *copies.entry(wanted.segment.raw()).or_default() += 1;
            let name = format!("{} of {} on {}", wanted.segment, server.id(), wanted.backup);
            let Some(replica) = held.get(&(wanted.backup, server.id(), wanted.segment.raw())) else {
                findings.push(format!("{name} is not held"));
                continue;
            };
            let Some(segment) = master.log().segment(wanted.segment) else {
                findings.push(format!("{name} is no segment of the log"));
                continue;
            };
            let certified = replica.certificate.map(|c| (c.length, c.crc));
            // Replicas of a segment that was compacted hold it as it was then, or as it was at some compaction since.
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
        for (segment, count) in copies {
            if count != cluster.replicas {
                findings.push(format!("seg{segment} of {} has {count} replicas", server.id()));
            }
        }
    }
}
