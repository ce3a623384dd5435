//! The places of servers in a topology, and who is near whom.
//!
//! Two servers are *near* if they share an edge switch: in a grid if their labels differ on one level alone, with zones
//! if they are in one rack. Everything else follows from this one relation: `ring(P, R) = near(R) \ (near(P) + P)` are
//! the backups of which a recovery server R reads, one hop away, what it recovers of P.
//!
//! Places without a server, and servers that come and go, are ordinary: a network is made from the servers that are up.
//!
//! Invariant: near is symmetric, and nobody is near itself.
//!
//! Not here: digits and routes (grid). Catalogue: H1. Source: RAMCUBE 2.2, 3.2.

use crate::domain::{Rack, label, rack, zone};
use crate::grid::{Grid, GridLabel};
use ramhold_base::ServerId;
use ramhold_wire::membership::{Label, LabelRefusal, Link, PlaceFault, ServerEntry};
use ramhold_wire::neighbours::WATCHED_MAX;
use ramhold_wire::topology::Topology;
use ramhold_wire::{Neighbouring, ReplicaPlacement, View};
use std::collections::BTreeMap;

/// A path from one server to another, over a switch of the last server that no other path of the list uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// The level of the switch by which the path reaches its end.
    pub level: usize,
    pub labels: Vec<GridLabel>,
}

/// Whether a server with these labels has a place in a topology.
pub fn check_labels(topology: &Topology, labels: &[Label]) -> Result<(), LabelRefusal> {
    let Some(name) = topology.label_name() else { return Ok(()) };
    let refusal =
        |fault, detail| LabelRefusal { topology: topology.clone(), label: name.into(), fault, detail };
    let grid = Grid::of(topology);
    let Some(value) = labels.iter().find(|l| l.name == name).map(|l| l.value.as_str()) else {
        let example = grid.as_ref().and_then(|grid| Some(grid.name(&grid.labels().next()?)));
        let detail = format!("{name}={}", example.as_deref().unwrap_or("a"));
        return Err(refusal(PlaceFault::Missing, detail));
    };
    match grid.map(|grid| grid.label(value)) {
        Some(Err(fault)) => Err(refusal(PlaceFault::NoPlace, format!("'{value}': {fault}"))),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Whether the labels of a server let replicas be placed so: a strict ring does not spread over zones and racks. Servers of
/// one host never have two replicas of a segment, in any placement.
pub fn check_domain(
    topology: &Topology,
    placement: ReplicaPlacement,
    labels: &[Label],
) -> Result<(), LabelRefusal> {
    let is_strict = placement.neighbouring().is_some_and(|(by, _)| by == Neighbouring::StrictRing);
    let Some(label) = labels.iter().find(|label| is_strict && ["zone", "rack"].contains(&&*label.name))
    else {
        return Ok(());
    };
    Err(LabelRefusal {
        topology: topology.clone(),
        label: label.name.clone(),
        fault: PlaceFault::Domain,
        detail: format!("{}={}", label.name, label.value),
    })
}

/// Whether the links of a server are named after levels, where the topology is a grid.
pub fn check_links(topology: &Topology, links: &[Link]) -> Result<(), LabelRefusal> {
    let (Some(grid), Some(name)) = (Grid::of(topology), topology.label_name()) else { return Ok(()) };
    let is_level = |link: &&Link| (0..grid.level_count()).any(|level| link.name == level.to_string());
    let Some(wrong) = links.iter().find(|link| !is_level(link)) else { return Ok(()) };
    let detail = format!(
        "'{}' is none of 0 to {}; give --link 0={} for the address behind its switch of level 0",
        wrong.name.escape_debug(),
        grid.level_count() - 1,
        wrong.address.0
    );
    Err(LabelRefusal { topology: topology.clone(), label: name.into(), fault: PlaceFault::NoLevel, detail })
}

/// Whether two servers would stand at one place of the topology.
pub fn share_place(topology: &Topology, one: &[Label], other: &[Label]) -> bool {
    let (Some(grid), Some(name)) = (Grid::of(topology), topology.label_name()) else { return false };
    let place = |labels: &[Label]| {
        labels.iter().find(|l| l.name == name).and_then(|label| grid.label(&label.value).ok())
    };
    place(one).is_some_and(|place_of_one| place(other) == Some(place_of_one))
}

/// Whether another server is *far* from this one: in a grid more than one hop away, else in another zone. None: one of
/// them has neither a place nor a zone.
pub fn is_far(view: &View, other: ServerId) -> Option<bool> {
    let (own, other) = (view.list.entry(view.me)?, view.list.entry(other)?);
    match (Grid::of(&view.topology), view.topology.label_name()) {
        (Some(grid), Some(name)) => {
            let place = |entry| label(entry, name).and_then(|text| grid.label(text).ok());
            Some(place(own)?.levels_apart(&place(other)?).count() > 1)
        }
        _ => Some(zone(own)? != zone(other)?),
    }
}

/// The links by which this server reaches another one, the best first: in a grid all of its levels, beginning with those
/// on which the two labels differ; else the networks that both are on. None while one of the two has no links.
pub fn path_order(view: &View, other: ServerId) -> Vec<&Link> {
    let (Some(own), Some(other)) = (view.list.entry(view.me), view.list.entry(other)) else {
        return Vec::new();
    };
    let is_mine = |link: &&Link| own.links().iter().any(|mine| mine.name == link.name);
    let mut links: Vec<&Link> = other.links().iter().filter(is_mine).collect();
    let place = |entry: &ServerEntry| {
        let grid = Grid::of(&view.topology)?;
        grid.label(label(entry, view.topology.label_name()?)?).ok()
    };
    match (place(own), place(other)) {
        (Some(here), Some(there)) => {
            let apart: Vec<String> = here.levels_apart(&there).map(|level| level.to_string()).collect();
            // By the level on which they share a switch; with a switch of the wrong level every message makes a detour.
            links.sort_by_key(|link| (!apart.contains(&link.name), link.name.clone()));
        }
        _ => links.sort_by_key(|link| own.links().iter().position(|mine| mine.name == link.name)),
    }
    links
}

/// The servers of a cluster at their places.
#[derive(Clone, Debug)]
pub struct Network<'a> {
    grid: Option<Grid>,
    /// The label of each server in a grid, and the server at each label.
    labels: BTreeMap<ServerId, GridLabel>,
    at: BTreeMap<GridLabel, ServerId>,
    /// The rack of each server, with zones.
    racks: BTreeMap<ServerId, Rack<'a>>,
    in_rack: BTreeMap<Rack<'a>, Vec<ServerId>>,
    links: BTreeMap<ServerId, &'a [Link]>,
}

impl<'a> Network<'a> {
    /// Servers without a place are near nobody.
    pub fn new(topology: &Topology, servers: impl Iterator<Item = &'a ServerEntry>) -> Network<'a> {
        let grid = Grid::of(topology);
        let mut network = Network {
            grid,
            labels: BTreeMap::new(),
            at: BTreeMap::new(),
            racks: BTreeMap::new(),
            in_rack: BTreeMap::new(),
            links: BTreeMap::new(),
        };
        for server in servers {
            if !server.links().is_empty() {
                network.links.insert(server.id, server.links());
            }
            match (&network.grid, topology.label_name()) {
                (Some(grid), Some(name)) => {
                    if let Some(place) = label(server, name).and_then(|text| grid.label(text).ok()) {
                        network.labels.insert(server.id, place.clone());
                        network.at.insert(place, server.id);
                    }
                }
                (None, Some(_)) => {
                    if let Some(rack) = rack(server) {
                        network.racks.insert(server.id, rack);
                        network.in_rack.entry(rack).or_default().push(server.id);
                    }
                }
                _ => {}
            }
        }
        network
    }

    pub fn grid(&self) -> Option<&Grid> {
        self.grid.as_ref()
    }

    /// The server's label in a grid.
    pub fn label(&self, server: ServerId) -> Option<&GridLabel> {
        self.labels.get(&server)
    }

    pub fn server_at(&self, label: &GridLabel) -> Option<ServerId> {
        self.at.get(label).copied()
    }

    /// The servers that share an edge switch with this one: in a grid in the order of level and digit.
    pub fn near(&self, server: ServerId) -> Vec<ServerId> {
        if let (Some(grid), Some(label)) = (&self.grid, self.labels.get(&server)) {
            return grid.near(label).filter_map(|near| self.server_at(&near)).collect();
        }
        let Some(rack) = self.racks.get(&server) else { return Vec::new() };
        self.in_rack[rack].iter().filter(|id| **id != server).copied().collect()
    }

    /// The servers that are near a recoverer, and neither near the master nor the master itself.
    pub fn ring(&self, master: ServerId, recoverer: ServerId) -> Vec<ServerId> {
        let near_master = self.near(master);
        let mut ring = self.near(recoverer);
        ring.retain(|server| *server != master && !near_master.contains(server));
        ring
    }

    /// The paths between two servers of a grid, one for each level, that share neither a switch nor a server between.
    pub fn paths(&self, from: ServerId, to: ServerId) -> Vec<Path> {
        let Some(grid) = &self.grid else { return Vec::new() };
        let (Some(from), Some(to)) = (self.labels.get(&from), self.labels.get(&to)) else {
            return Vec::new();
        };
        (0..grid.level_count()).map(|level| Path { level, labels: grid.route(from, to, level, 1) }).collect()
    }

    /// The neighbours that a server pings: those near it, and of more than `WATCHED_MAX` those that follow it by id.
    pub fn watched(&self, server: ServerId) -> Vec<ServerId> {
        let mut near = self.near(server);
        if near.len() > WATCHED_MAX {
            near.sort_unstable();
            let next = near.partition_point(|id| *id < server);
            near.rotate_left(next);
            near.truncate(WATCHED_MAX);
        }
        near
    }

    /// The links over which a server pings a neighbour, as addresses of the neighbour: in a grid that of the level on
    /// which they share a switch, if both have it; else all that both have, in the order of the server's own. Empty: they
    /// share none.
    pub fn shared_links(&self, server: ServerId, neighbour: ServerId) -> Vec<&'a Link> {
        let links = |id: ServerId| self.links.get(&id).copied().unwrap_or_default();
        let named = |name: &str| links(neighbour).iter().find(|link| link.name == name);
        let mut shared: Vec<&Link> = links(server).iter().filter_map(|own| named(&own.name)).collect();
        if let Some(level) = self.shared_level(server, neighbour).map(|level| level.to_string())
            && let Some(at) = shared.iter().position(|link| link.name == level)
        {
            shared = vec![shared[at]];
        }
        shared
    }

    /// The place of a server in a grid, as text.
    pub fn place_name(&self, server: ServerId) -> Option<String> {
        Some(self.grid.as_ref()?.name(self.labels.get(&server)?))
    }

    /// Where a server comes in the order of places: in a grid by its label, else by its rack.
    pub(crate) fn place_order(&self, server: ServerId) -> (Vec<u16>, Option<Rack<'a>>) {
        let digits =
            |label: &GridLabel| (0..label.level_count()).rev().map(|level| label.digit(level)).collect();
        (self.labels.get(&server).map(digits).unwrap_or_default(), self.racks.get(&server).copied())
    }

    /// The name of a server's rack, as in `racks`.
    pub fn rack_of(&self, server: ServerId) -> Option<String> {
        match (&self.grid, self.labels.get(&server)) {
            (Some(grid), Some(label)) => Some(grid.switch_name(&grid.switch(label, 0))),
            _ => self.racks.get(&server).map(|rack| rack_name(*rack)),
        }
    }

    /// The level of the edge switch that two servers of a grid share.
    pub fn shared_level(&self, one: ServerId, other: ServerId) -> Option<usize> {
        self.labels.get(&one)?.shared_level(self.labels.get(&other)?)
    }

    /// The name of the edge switch that two servers share.
    pub fn switch_between(&self, one: ServerId, other: ServerId) -> Option<String> {
        match (&self.grid, self.racks.get(&one)) {
            (Some(grid), _) => {
                let level = self.shared_level(one, other)?;
                Some(grid.switch_name(&grid.switch(self.labels.get(&one)?, level)))
            }
            (None, Some(rack)) => (self.racks.get(&other)? == rack).then(|| rack_name(*rack)),
            (None, None) => None,
        }
    }

    /// The racks and their servers: in a grid those on one switch of level 0.
    pub fn racks(&self) -> BTreeMap<String, Vec<ServerId>> {
        let mut racks: BTreeMap<String, Vec<ServerId>> = BTreeMap::new();
        if let Some(grid) = &self.grid {
            for (server, label) in &self.labels {
                racks.entry(grid.switch_name(&grid.switch(label, 0))).or_default().push(*server);
            }
        }
        racks.extend(self.in_rack.iter().map(|(rack, servers)| (rack_name(*rack), servers.clone())));
        racks
    }
}

fn rack_name(rack: Rack<'_>) -> String {
    match rack.zone {
        Some(zone) => format!("{zone}/{}", rack.name),
        None => rack.name.to_owned(),
    }
}
