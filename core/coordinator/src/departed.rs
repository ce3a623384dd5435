//! Servers that leave the list, and their directories, which may hold the only replicas of a segment for a while.
//!
//! Protocol: docs/protocols/membership.md. Catalogue: D8, F8.

use crate::desk::Desk;
use crate::links::Links;
use crate::records::{Departed, Key, RecoveryRecord};
use ramhold_base::{ClusterTime, DirectoryId, Instant, RecoveryId, ServerId};
use std::collections::BTreeSet;

/// After this time a live master that has heard that a server left the list has replaced its replicas on that server.
const DEPARTED_MILLIS: u64 = 60_000;
const DEPARTED_COUNT_MAX: usize = 1024;
/// The most recoveries that are over and still told of.
const HISTORY_COUNT_MAX: usize = 100;
/// A recovery that ended less than this ago is kept in any case: its masters may still repeat that they are done.
const HISTORY_MILLIS: u64 = 60_000;

/// All directories that may hold replicas of a server that dies now. A directory that has left the list still
/// counts for `DEPARTED_MILLIS`, and for as long as the dying server cannot be known to have heard of it: that
/// server may go on with the replicas there, and be granted a lease by them.
pub(crate) fn replica_directories(
    desk: &Desk,
    links: &Links,
    at: ClusterTime,
    dying: ServerId,
) -> Vec<DirectoryId> {
    let reached = links.get(dying).map_or(0, |link| link.reached);
    let listed = desk.state.servers.values().filter(|s| s.entry.backup).map(|s| s.entry.directory);
    let counts = |d: &&Departed| d.at.0 + DEPARTED_MILLIS > at.0 || d.version > reached;
    let departed = desk.state.meta.departed.iter().filter(counts);
    listed.chain(departed.map(|d| d.directory)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Nothing is left to recover of this server, so it leaves the list.
pub(crate) fn remove_server(now: Instant, desk: &mut Desk, links: &Links, id: ServerId) {
    let at = desk.time(now);
    let Some(server) = desk.state.servers.remove(&id) else { return };
    let (directory, address) = (server.entry.directory, Some(server.entry.address));
    let all_reached = links.all_reached();
    // The version of the list that this removal makes.
    let version = desk.state.meta.list_version + 1;
    let departed = &mut desk.state.meta.departed;
    let counts = |d: &Departed| d.at.0 + DEPARTED_MILLIS > at.0 || d.version > all_reached;
    departed.retain(|d| counts(d) && d.directory != directory);
    if server.entry.backup && !desk.state.servers.values().any(|s| s.entry.directory == directory) {
        departed.push(Departed { directory, at, version, server: id, address });
        let excess = departed.len().saturating_sub(DEPARTED_COUNT_MAX);
        departed.drain(..excess);
    }
    desk.list_removed(id);
    forget_old_recoveries(desk, at);
    desk.look_at_tablets();
}

fn forget_old_recoveries(desk: &mut Desk, now: ClusterTime) {
    let ended = |r: &RecoveryRecord| r.detected.0.saturating_add(r.done_millis.unwrap_or(0));
    let is_over = |r: &&RecoveryRecord| r.done && !desk.state.servers.contains_key(&r.crashed);
    let over: Vec<RecoveryId> = desk.state.recoveries.values().filter(is_over).map(|r| r.id).collect();
    let excess = over.len().saturating_sub(HISTORY_COUNT_MAX);
    for id in over.into_iter().take(excess) {
        if desk.state.recoveries.get(&id).is_some_and(|r| ended(r) + HISTORY_MILLIS < now.0) {
            desk.state.recoveries.remove(&id);
            desk.outbox.touch(Key::Recovery(id));
        }
    }
}
