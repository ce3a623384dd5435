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
//! Not here: streams, and what is in them (master). Protocol: docs/protocols/neighbourhoods.md. Catalogue: H2, H3.
//! Source: RAMCUBE 3.2, 3.3.

use crate::domain::label;
use crate::grid::Grid;
use crate::topology::Network;
use ramhold_base::ServerId;
use ramhold_base::planted::{Defect, planted};
use ramhold_wire::membership::ServerEntry;
use ramhold_wire::topology::Topology;
use ramhold_wire::{NEIGHBOURHOODS_MAX, Neighbouring, ReplicaPlacement, View};
use std::collections::{BTreeMap, BTreeSet};

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
    let all = by_level(network, neighbouring, master);
    in_turns(all, most.min(usize::from(NEIGHBOURHOODS_MAX)))
}

fn by_level(
    network: &Network<'_>,
    neighbouring: Neighbouring,
    master: ServerId,
) -> BTreeMap<usize, Vec<Neighbourhood>> {
    match neighbouring {
        Neighbouring::MultiRing | Neighbouring::StrictRing => rings(network, master),
        Neighbouring::RackLocal => racks(network, master),
    }
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
    feeders(network, &by_level(network, neighbouring, master))
}

/// The feeders of all neighbourhoods, each once, in the order of their places.
fn feeders(network: &Network<'_>, all: &BTreeMap<usize, Vec<Neighbourhood>>) -> Vec<ServerId> {
    let feeders = all.values().flatten().flat_map(|neighbourhood| neighbourhood.feeders.iter().copied());
    let feeders: BTreeSet<ServerId> = feeders.collect();
    let mut feeders: Vec<ServerId> = feeders.into_iter().collect();
    feeders.sort_by_cached_key(|server| (network.place_order(*server), *server));
    feeders
}

/// The servers for the other replicas of a segment with this primary, the best first: the backups that follow the primary,
/// those in racks without a copy before all others.
pub fn further_backups(
    network: &Network<'_>,
    neighbouring: Neighbouring,
    master: ServerId,
    primary: ServerId,
) -> Vec<ServerId> {
    Neighbourhoods::new(network, neighbouring, master, 0).diverse(primary, usize::MAX)
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

/// The neighbourhoods that a master employs now, and its backups.
#[derive(Debug)]
pub struct Neighbourhoods {
    is_strict: bool,
    all: Vec<Neighbourhood>,
    /// The rack of the master, and the backups in the order of their places with their racks, as numbers.
    rack: usize,
    order: Vec<(ServerId, usize)>,
}

impl Neighbourhoods {
    /// Those of a master, at most `most`, where all servers are masters and backups.
    pub fn new(
        network: &Network<'_>,
        neighbouring: Neighbouring,
        master: ServerId,
        most: usize,
    ) -> Neighbourhoods {
        let all = by_level(network, neighbouring, master);
        let order = feeders(network, &all);
        Neighbourhoods::with_order((network, neighbouring), master, in_turns(all, most), order)
    }

    fn with_order(
        (network, by): (&Network<'_>, Neighbouring),
        master: ServerId,
        all: Vec<Neighbourhood>,
        order: Vec<ServerId>,
    ) -> Neighbourhoods {
        let mut numbers: BTreeMap<Option<String>, usize> = BTreeMap::new();
        let mut number = |server: ServerId| {
            let next = numbers.len();
            *numbers.entry(network.rack_of(server)).or_insert(next)
        };
        let rack = number(master);
        let order = order.into_iter().map(|server| (server, number(server))).collect();
        Neighbourhoods { is_strict: by == Neighbouring::StrictRing, all, rack, order }
    }

    /// None: the placement has none. A server that is no backup feeds nobody, and one that is no master recovers nothing.
    fn of(view: &View) -> Option<Neighbourhoods> {
        let (by, most) = view.placement.neighbouring()?;
        let network = Network::new(&view.topology, view.list.up());
        let is =
            |server: &ServerId, role: fn(&ServerEntry) -> bool| view.list.entry(*server).is_some_and(role);
        let mut all = by_level(&network, by, view.me);
        for neighbourhoods in all.values_mut() {
            for neighbourhood in neighbourhoods.iter_mut() {
                neighbourhood.recoverers.retain(|server| is(server, |entry| entry.master));
                neighbourhood.feeders.retain(|server| is(server, |entry| entry.backup));
            }
            neighbourhoods.retain(|n| !n.recoverers.is_empty() && !n.feeders.is_empty());
        }
        let mut order = backups(&network, by, view.me);
        order.retain(|server| is(server, |entry| entry.backup));
        let all = in_turns(all, usize::from(most));
        Some(Neighbourhoods::with_order((&network, by), view.me, all, order))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Neighbourhood> {
        self.all.iter()
    }

    pub fn named(&self, name: &str) -> Option<&Neighbourhood> {
        self.all.iter().find(|neighbourhood| neighbourhood.name == name)
    }

    /// Whether all replicas of a segment belong on the feeders of its neighbourhood.
    pub fn is_strict(&self) -> bool {
        self.is_strict && !planted(Defect::StrictRingLeft)
    }

    /// The servers for the other replicas of a segment of a neighbourhood with this primary, the best first, at most
    /// `most`.
    pub fn further(&self, own: &Neighbourhood, primary: ServerId, most: usize) -> Vec<ServerId> {
        if self.is_strict() {
            let mut successors = ring_successors(&own.feeders, primary);
            successors.truncate(most);
            return successors;
        }
        self.diverse(primary, most)
    }

    /// The backups that follow the primary, those in racks without a copy before all others.
    fn diverse(&self, primary: ServerId, most: usize) -> Vec<ServerId> {
        let at = self.order.iter().position(|(backup, _)| *backup == primary);
        let next = at.map_or(0, |at| at + 1);
        let following = self.order[next..].iter().chain(&self.order[..at.unwrap_or_default()]);
        let mut used = vec![self.rack];
        if let Some(at) = at.filter(|_| !planted(Defect::FurtherBesidePrimary)) {
            used.push(self.order[at].1);
        }
        let (mut fresh, mut rest) = (Vec::new(), Vec::new());
        for (backup, rack) in following {
            if fresh.len() == most {
                break;
            }
            if used.contains(rack) {
                rest.push(*backup);
            } else {
                used.push(*rack);
                fresh.push(*backup);
            }
        }
        fresh.extend(rest.into_iter().take(most - fresh.len()));
        fresh
    }
}

/// The neighbourhoods of this server, worked out once for each list.
#[derive(Debug, Default)]
pub struct NeighbourhoodCache {
    of: Option<(u64, Topology, ReplicaPlacement, ServerId)>,
    now: Option<Neighbourhoods>,
}

impl NeighbourhoodCache {
    /// None: the placement has none.
    pub fn of(&mut self, view: &View) -> Option<&Neighbourhoods> {
        view.placement.neighbouring()?;
        let is_known = self.of.as_ref().is_some_and(|(version, topology, placement, me)| {
            (*version, topology, *placement, *me)
                == (view.list.version(), &view.topology, view.placement, view.me)
        });
        if !is_known {
            self.of = Some((view.list.version(), view.topology.clone(), view.placement, view.me));
            self.now = Neighbourhoods::of(view);
        }
        self.now.as_ref()
    }
}

/// The name of the neighbourhood in which a server recovers, as other servers name it. None: the placement has none, or
/// the server has no place.
pub fn recovers_in(topology: &Topology, placement: ReplicaPlacement, server: &ServerEntry) -> Option<String> {
    let (by, _) = placement.neighbouring()?;
    if by.is_ring() {
        let grid = Grid::of(topology)?;
        let place = grid.label(label(server, topology.label_name()?)?).ok()?;
        return Some(grid.name(&place));
    }
    Network::new(topology, std::iter::once(server)).rack_of(server.id)
}

/// Whether the topology has the neighbourhoods that the placement asks for.
pub fn check_neighbourhoods(topology: &Topology, placement: ReplicaPlacement) -> Result<(), String> {
    let levels = topology.radices().map_or(0, |radices| radices.len());
    match placement.neighbouring() {
        Some((by, _)) if by.is_ring() && levels < 2 => Err(format!(
            "--placement {placement} needs servers on switches of two levels, and the topology is {topology}; give \
             --topology bcube:N,K or grid:R0,R1,... with two levels or more"
        )),
        Some((Neighbouring::RackLocal, _)) if levels == 0 && *topology != Topology::Zones => Err(format!(
            "--placement {placement} needs racks, and the topology is {topology}; give --topology zones, and servers \
             --label rack=..."
        )),
        _ => Ok(()),
    }
}
