//! Neighbourhoods: the servers that recover a part of a master's data, and those whose devices feed them.
//!
//! A master keeps a part of its data in each of its neighbourhoods. When it dies, each neighbourhood recovers its part by
//! itself, over switches that its members share:
//! - *multiring* (grids): one for each server R near the master P. R recovers; `ring(P, R)`, one hop from R and two from
//!   P, feeds it.
//! - *rack-local* (racks): one for each other rack. Its servers recover, and feed each other.
//!
//! The primary of a segment is on a feeder. The other replicas are on the master's backups that follow it in the order of
//! places, in racks that hold no copy yet: so the sets of servers whose loss loses data stay few.
//!
//! Invariants:
//! - all servers compute the same neighbourhoods from the same list;
//! - no feeder is the master, or near it;
//! - a neighbourhood has a recoverer and a feeder; a place without a server makes rings smaller, not wrong.
//!
//! Not here: streams, and who uses this: nothing does yet (docs/protocols/neighbourhoods.md). Catalogue: H2, H3.
//! Source: RAMCUBE 3.2, 3.3.

use crate::topology::Network;
use ramhold_base::ServerId;
use std::collections::{BTreeMap, BTreeSet};

/// The most neighbourhoods that a master employs: each has a head in every class of streams.
pub const NEIGHBOURHOODS_MAX: usize = 64;

/// The two ways to make neighbourhoods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neighbouring {
    MultiRing,
    RackLocal,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbourhood {
    /// The place of the recoverer, or the rack: it names the neighbourhood for as long as the place has a server.
    pub name: String,
    /// The servers that recover its part of the master's data.
    pub recoverers: Vec<ServerId>,
    /// The servers that have the primaries.
    pub feeders: Vec<ServerId>,
}

/// The neighbourhoods of a master. `most`: it employs so many at most, in turns over the levels of a grid, so that each
/// level keeps its share.
pub fn neighbourhoods(
    network: &Network<'_>,
    neighbouring: Neighbouring,
    master: ServerId,
    most: usize,
) -> Vec<Neighbourhood> {
    let all = match neighbouring {
        Neighbouring::MultiRing => rings(network, master),
        Neighbouring::RackLocal => racks(network, master),
    };
    in_turns(all, most.min(NEIGHBOURHOODS_MAX))
}

/// One for each server near the master that is fed by anybody, by level.
fn rings(network: &Network<'_>, master: ServerId) -> BTreeMap<usize, Vec<Neighbourhood>> {
    let mut by_level: BTreeMap<usize, Vec<Neighbourhood>> = BTreeMap::new();
    for recoverer in network.near(master) {
        let feeders = network.ring(master, recoverer);
        let (Some(level), Some(name)) =
            (network.shared_level(master, recoverer), network.place_name(recoverer))
        else {
            continue;
        };
        if !feeders.is_empty() {
            let recoverers = vec![recoverer];
            by_level.entry(level).or_default().push(Neighbourhood { name, recoverers, feeders });
        }
    }
    by_level
}

/// One for each other rack.
fn racks(network: &Network<'_>, master: ServerId) -> BTreeMap<usize, Vec<Neighbourhood>> {
    let racks = network.racks().into_iter().filter(|(_, servers)| !servers.contains(&master));
    let neighbourhood = |(name, servers): (String, Vec<ServerId>)| Neighbourhood {
        name,
        recoverers: servers.clone(),
        feeders: servers,
    };
    BTreeMap::from([(0, racks.map(neighbourhood).collect())])
}

fn in_turns(mut by_level: BTreeMap<usize, Vec<Neighbourhood>>, most: usize) -> Vec<Neighbourhood> {
    by_level.values_mut().for_each(|level| level.reverse());
    let mut taken = Vec::new();
    while taken.len() < most && by_level.values().any(|level| !level.is_empty()) {
        for level in by_level.values_mut() {
            taken.extend(level.pop().filter(|_| taken.len() < most));
        }
    }
    taken
}

/// The backups of a master in all its neighbourhoods, each once, in the order of their places.
pub fn backups(network: &Network<'_>, neighbouring: Neighbouring, master: ServerId) -> Vec<ServerId> {
    let all = neighbourhoods_unbounded(network, neighbouring, master);
    let feeders: BTreeSet<ServerId> = all.into_iter().flat_map(|n| n.feeders).collect();
    let mut backups: Vec<ServerId> = feeders.into_iter().collect();
    backups.sort_by_key(|server| (network.place_order(*server), *server));
    backups
}

fn neighbourhoods_unbounded(
    network: &Network<'_>,
    neighbouring: Neighbouring,
    master: ServerId,
) -> Vec<Neighbourhood> {
    let all = match neighbouring {
        Neighbouring::MultiRing => rings(network, master),
        Neighbouring::RackLocal => racks(network, master),
    };
    all.into_values().flatten().collect()
}

/// The servers for the other replicas of a segment with this primary, the best first: the backups that follow the primary,
/// those in racks without a copy before all others.
pub fn further_backups(
    network: &Network<'_>,
    neighbouring: Neighbouring,
    master: ServerId,
    primary: ServerId,
) -> Vec<ServerId> {
    let mut following = backups(network, neighbouring, master);
    if let Some(at) = following.iter().position(|backup| *backup == primary) {
        following.rotate_left(at + 1);
        following.pop();
    }
    let mut used: BTreeSet<Option<String>> =
        [network.rack_of(primary), network.rack_of(master)].into_iter().collect();
    let (mut fresh, mut rest) = (Vec::new(), Vec::new());
    for backup in following {
        if used.insert(network.rack_of(backup)) { fresh.push(backup) } else { rest.push(backup) }
    }
    [fresh, rest].concat()
}

/// The servers for the other replicas as the paper has it: those that follow the primary on its ring.
pub fn ring_successors(feeders: &[ServerId], primary: ServerId) -> Vec<ServerId> {
    let mut ring = feeders.to_vec();
    if let Some(at) = ring.iter().position(|feeder| *feeder == primary) {
        ring.rotate_left(at + 1);
        ring.pop();
    }
    ring
}

/// How the part of a recoverer that is gone is cut among the others: to each, the share of the feeders that feed it, too.
/// Shares are of the gone one's part, in the order of `left`.
pub fn shares_of_gone(gone: &Neighbourhood, left: &[Neighbourhood]) -> Vec<f64> {
    let feeds = |feeder: &ServerId| left.iter().filter(|other| other.feeders.contains(feeder)).count();
    // Feeders that feed nobody else say nothing.
    let counted: Vec<(&ServerId, usize)> =
        gone.feeders.iter().map(|feeder| (feeder, feeds(feeder))).filter(|(_, feeds)| *feeds > 0).collect();
    let share = |other: &Neighbourhood| {
        let own = counted.iter().filter(|(feeder, _)| other.feeders.contains(feeder));
        own.map(|(_, feeds)| 1.0 / (*feeds as f64 * counted.len() as f64)).sum()
    };
    if counted.is_empty() {
        return vec![1.0 / left.len().max(1) as f64; left.len()];
    }
    left.iter().map(share).collect()
}
