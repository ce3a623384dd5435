//! Whether the servers that are up can keep a given number of replicas of a table.
//!
//! Each master needs as many failure domains with a backup. Its own domain does not count unless that is allowed.
//! Tablets and recovered partitions go to any master, so the master that finds the fewest domains decides.
//!
//! Not here: which backup gets a replica (placement). Catalogue: A1, D3.

use crate::desk::Desk;
use ramhold_placement::{Domain, domain};
use ramhold_wire::membership::ServerEntry;
use ramhold_wire::shortage::{DomainLevel, Shortage};
use std::collections::BTreeSet;

/// The most warnings about tables in one status.
const WARNING_COUNT_MAX: usize = 16;

/// The shortage of failure domains for this many replicas; none if they suffice, or while no master is up that
/// could tell.
pub(crate) fn shortage(desk: &Desk, replicas: u8) -> Option<Shortage> {
    let up = places(desk).into_iter().min()?;
    let backups = desk.state.all_up().filter(|s| s.entry.backup).map(|s| &s.entry);
    (u32::from(replicas) > up).then(|| Shortage {
        replicas,
        up,
        level: DomainLevel::of(backups),
        own_counts: desk.config.allow_local_backup,
        bricks: false,
    })
}

/// The number of failure domains that could hold a replica, for each master that is up.
fn places(desk: &Desk) -> Vec<u32> {
    let backups = desk.state.all_up().filter(|s| s.entry.backup);
    let domains: BTreeSet<Domain<'_>> = backups.map(|s| domain(&s.entry)).collect();
    let is_own = |master: &ServerEntry| !desk.config.allow_local_backup && domains.contains(&domain(master));
    let masters = desk.state.all_up().filter(|s| s.entry.master);
    let places = masters.map(|s| domains.len() - usize::from(is_own(&s.entry)));
    places.map(|places| u32::try_from(places).unwrap_or(u32::MAX)).collect()
}

/// Warns of tables whose replicas the servers that are up cannot keep.
pub(crate) fn warn(desk: &Desk, warnings: &mut Vec<String>) {
    let tables = desk.state.tables.values().filter(|t| !t.dropping);
    let short = tables.filter_map(|table| Some((table, shortage(desk, table.options.replicas)?)));
    for (table, shortage) in short.take(WARNING_COUNT_MAX) {
        let (name, remedy) = (table.name.escape_debug(), shortage.remedy());
        let is_short = |places: u32| places < u32::from(table.options.replicas);
        let of_some = if places(desk).into_iter().all(is_short) { "" } else { " on some servers" };
        warnings.push(format!("writes to table '{name}' are blocked{of_some}: {shortage}; {remedy}"));
    }
}
