//! Which backup gets a replica of a segment.
//!
//! Randomisation with refinement (SOSP11 3.2): a backup is drawn at random. For a primary, which a recovery reads,
//! several are drawn, and the one is chosen that would be done soonest with its share of this log. By copysets only
//! those backups are candidates that keep the replicas of a segment within one copyset, as long as there are any. Among
//! the candidates, those count whose zone, and then whose rack, has the fewest copies of the segment, the master's own
//! in DRAM among them. With `zone-local` a primary stays in the master's own zone instead, where a recovery reads it, as
//! long as another replica is elsewhere. The choice is a pure function of a view and chance. It answers "none fits"
//! rather than wait.
//!
//! Invariants:
//! - no two replicas of a segment share a failure domain, and none shares the master's unless that is allowed, whatever
//!   the placement;
//! - with backups of two zones (racks) to choose from, the loss of any one zone (rack) leaves a copy.
//!
//! Not here: what happens to a replica afterwards (replication). Catalogue: D3, D4, C6, H3.

mod bricks;
mod check;
mod copysets;
mod domain;
mod grid;
mod head_room;
mod neighbourhoods;
mod topology;
mod traffic;
mod wiring;

pub use bricks::{BrickCandidate, BrickChoice};
pub use check::{Problem, check};
pub use copysets::{CopysetCache, Copysets};
pub use domain::{
    Domain, Rack, SpreadLevel, SpreadLevels, domain, domain_count, domain_of, rack, shortage, zone, zone_of,
};
pub use grid::{Grid, GridLabel, LabelFault, Switch};
pub use head_room::{FLUSH_BUFFERS, HeadRoom, buffers_for, log_segments_for};
pub use neighbourhoods::{
    Neighbourhood, NeighbourhoodCache, Neighbourhoods, backups, check_neighbourhoods, further_backups,
    neighbourhoods, recovers_in, ring_successors, shares_of_gone,
};
pub use topology::{Network, Path, check_domain, check_labels, check_links, is_far, path_order, share_place};

pub use traffic::{Distance, Traffic, distance};
pub use wiring::{EdgeSwitch, Pair, Wiring, pair};

use domain::crowding;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Rng, ServerId};
use ramhold_wire::membership::ServerEntry;
use ramhold_wire::{ReplicaPlacement, View};
use std::collections::BTreeMap;

/// Candidates drawn for a primary (SOSP11 3.2).
const CANDIDATE_COUNT: usize = 5;

/// The replica for which a backup is chosen.
#[derive(Debug)]
pub struct Wish<'a> {
    /// Backups that hold, or are to hold, other replicas of the segment.
    pub taken: &'a [ServerId],
    /// Backups that refused lately, or are distrusted for this segment.
    pub avoided: &'a [ServerId],
    pub primary: bool,
    /// The number of replicas of the segment.
    pub replicas: usize,
    /// The number of primaries of this log that each backup has.
    pub primaries: &'a BTreeMap<ServerId, u32>,
    /// Whether the master's own failure domain may be used (a cluster of one machine).
    pub local_allowed: bool,
    /// The master's neighbourhoods, and the one that the segment belongs to; none: it belongs to none.
    pub neighbourhood: Option<(&'a Neighbourhoods, &'a Neighbourhood)>,
    /// The copysets to stay within while that is possible; none: any backups together.
    pub copysets: Option<&'a Copysets>,
}

/// Chooses a backup, or none when none fits.
pub fn choose_backup(view: &View, wish: &Wish<'_>, rng: &mut Rng) -> Option<ServerId> {
    let mut closed: Vec<Domain<'_>> =
        wish.taken.iter().filter_map(|id| view.list.entry(*id)).map(domain).collect();
    if !wish.local_allowed {
        closed.extend(view.list.entry(view.me).map(domain));
    }
    let mut fitting: Vec<&ServerEntry> = view
        .list
        .up()
        .filter(|e| e.backup)
        .filter(|e| !wish.taken.contains(&e.id) && !wish.avoided.contains(&e.id))
        .filter(|e| !closed.contains(&domain(e)))
        .collect();
    if let Some(copysets) = wish.copysets {
        let within = within_copysets(&fitting, wish, copysets);
        // A replica outside is better than one too few.
        if !within.is_empty() {
            fitting = within;
        }
    }
    let is_near = (wish.primary && leaves_zone(view, wish)) || planted(Defect::AllNear);
    if view.placement == ReplicaPlacement::ZoneLocal && is_near {
        keep_near(view, &mut fitting);
    }
    let is_fed =
        |e: &&ServerEntry, own: &Neighbourhood| own.feeders.contains(&e.id) || planted(Defect::FedByAnybody);
    match wish.neighbourhood {
        Some((all, own)) if (wish.primary || all.is_strict()) && fitting.iter().any(|e| is_fed(e, own)) => {
            fitting.retain(|e| is_fed(e, own));
        }
        _ => spread(view, wish.taken, &mut fitting),
    }
    // Where copies spread as well, those are preferred that the neighbourhoods' order names.
    if let Some((all, own)) = wish.neighbourhood
        && let Some(chosen) = choose_further(all, own, wish, &fitting)
    {
        return Some(chosen);
    }
    if !wish.primary {
        return rng.pick(&fitting).map(|e| e.id);
    }
    // Drawing without replacement: a shuffled prefix.
    let drawn = fitting.len().min(CANDIDATE_COUNT);
    for i in 0..drawn {
        let other = i + rng.below((fitting.len() - i) as u64) as usize;
        fitting.swap(i, other);
    }
    fitting[..drawn].iter().min_by_key(|e| read_time(e, wish.primaries)).map(|e| e.id)
}

/// Whether a replica of the segment is outside the master's zone, or is still to be placed.
fn leaves_zone(view: &View, wish: &Wish<'_>) -> bool {
    let own = view.list.entry(view.me).and_then(zone);
    let is_outside = |id: &ServerId| view.list.entry(*id).is_some_and(|e| zone(e) != own);
    wish.taken.len() + 1 < wish.replicas || wish.taken.iter().any(is_outside)
}

/// Keeps the backups of the master's zone beside which one elsewhere can be chosen, if there are any.
fn keep_near(view: &View, fitting: &mut Vec<&ServerEntry>) {
    let own = view.list.entry(view.me).and_then(zone);
    let outside = || fitting.iter().filter(|e| zone(e) != own).map(|e| domain(e));
    // The servers of one host may have labels of two zones.
    let only = outside().next().filter(|first| outside().all(|other| other == *first));
    let is_near = |e: &&ServerEntry| zone(e) == own && Some(domain(e)) != only;
    if fitting.iter().any(is_near) {
        fitting.retain(is_near);
    }
}

/// The backup for another replica than the primary, if one of the master's backups fits.
fn choose_further(
    all: &Neighbourhoods,
    own: &Neighbourhood,
    wish: &Wish<'_>,
    fitting: &[&ServerEntry],
) -> Option<ServerId> {
    let primary = wish.taken.first().filter(|_| !wish.primary)?;
    let mut further = all.further(own, *primary, usize::MAX).into_iter();
    further.find(|backup| fitting.iter().any(|entry| entry.id == *backup))
}

/// Whether a replica is where a recovery should not have to read it: the primary of a segment, placed by `zone-local`,
/// outside its master's zone.
pub fn is_outside(view: &View, primary: ServerId) -> bool {
    let (own, primary) = (view.list.entry(view.me), view.list.entry(primary));
    let zones = own.zip(primary).map(|(own, primary)| (zone(own), zone(primary)));
    view.placement == ReplicaPlacement::ZoneLocal && zones.is_some_and(|(own, primary)| own != primary)
}

/// Keeps the backups whose zone, and then whose rack, has the fewest copies of the segment.
fn spread(view: &View, taken: &[ServerId], fitting: &mut Vec<&ServerEntry>) {
    if planted(Defect::SpreadIgnored) {
        return;
    }
    if !fitting.iter().any(|e| zone(e).is_some() || rack(e).is_some()) {
        return;
    }
    let copies: Vec<&ServerEntry> =
        taken.iter().chain([&view.me]).filter_map(|id| view.list.entry(*id)).collect();
    let crowded: Vec<[usize; 2]> = fitting.iter().map(|e| crowding(e, &copies)).collect();
    let least = crowded.iter().min().copied();
    let mut next = crowded.iter();
    fitting.retain(|_| next.next().copied() == least);
}

/// Backups that make the replicas of the segment a part of a copyset in which no server is avoided.
fn within_copysets<'a>(
    fitting: &[&'a ServerEntry],
    wish: &Wish<'_>,
    copysets: &Copysets,
) -> Vec<&'a ServerEntry> {
    let Some((first, rest)) = wish.taken.split_first() else {
        let is_in_one = |e: &&&ServerEntry| copysets.with(e.id, &[], wish.avoided).next().is_some();
        return fitting.iter().filter(is_in_one).copied().collect();
    };
    // There are few such sets, however large the cluster is.
    let sets: Vec<&Vec<ServerId>> = copysets.with(*first, rest, wish.avoided).collect();
    fitting.iter().filter(|e| sets.iter().any(|set| set.contains(&e.id))).copied().collect()
}

/// The expected time to read all primaries of this log there and one more, in any unit.
fn read_time(entry: &ServerEntry, primaries: &BTreeMap<ServerId, u32>) -> u64 {
    let count = u64::from(primaries.get(&entry.id).copied().unwrap_or(0)) + 1;
    count * 1_000_000 / u64::from(entry.read_speed.max(1))
}

#[cfg(test)]
mod tests;
