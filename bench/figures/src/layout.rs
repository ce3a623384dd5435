//! How the hosts of a simulated cluster are connected, and which servers stand where.
//!
//! Host 0 has the coordinator and the client that fills the cluster. The server that dies is on host 1: in a
//! BCube at the place of the lowest label, with racks in the first rack.
//!
//! Not here: the time that bytes need on their way (`fabric`). Protocol: docs/protocols/topology.md.
//! Catalogue: H1, H2, H3.

use ramhold_placement::{Grid, GridLabel};
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Label, Link};
use ramhold_wire::topology::Topology;
use std::net::SocketAddr;

/// The host of the server that dies.
pub const DEAD: usize = 1;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Layout {
    /// Each host has one port, on the one switch that all share.
    Star,
    /// Each host has one port, on the switch of its rack. All hosts of a rack together may send
    /// `oversubscription` times as much as the rack's uplink passes in each direction. The switches between
    /// racks pass everything.
    Racks { racks: usize, hosts: usize, oversubscription: f64 },
    /// BCube(radix, order). A host has one port for each level, and one on a network of first addresses.
    Cube { radix: u16, order: u16, crowd: Crowd },
}

/// The places of a BCube that have servers. The hosts of the other places pass bytes on, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crowd {
    Everywhere,
    /// The dead server's recovery servers, which are masters alone, and its backups, which are backups alone.
    Neighbourhood,
}

/// The servers of a neighbourhood, by host.
pub struct Neighbourhood {
    pub recoverers: Vec<usize>,
    pub backups: Vec<usize>,
}

impl Layout {
    pub fn topology(self) -> Option<Topology> {
        match self {
            Layout::Star => None,
            Layout::Racks { .. } => Some(Topology::Zones),
            Layout::Cube { radix, order, .. } => Some(Topology::Bcube { radix, order }),
        }
    }

    /// The grid of a BCube.
    pub fn grid(self) -> Option<Grid> {
        Grid::of(&self.topology()?)
    }

    /// The number of servers, with the one that dies. None: any number.
    pub fn servers(self) -> Option<usize> {
        match self {
            Layout::Star => None,
            Layout::Racks { racks, hosts, .. } => Some(racks * hosts),
            Layout::Cube { crowd: Crowd::Everywhere, .. } => {
                self.grid().map(|grid| grid.server_count() as usize)
            }
            Layout::Cube { crowd: Crowd::Neighbourhood, .. } => {
                self.neighbourhood().map(|n| 1 + n.recoverers.len() + n.backups.len())
            }
        }
    }

    /// The recovery servers and the backups of the dead server in a BCube.
    pub fn neighbourhood(self) -> Option<Neighbourhood> {
        let grid = self.grid()?;
        let places: Vec<GridLabel> = grid.labels().collect();
        let dead = place(&places, DEAD);
        let apart = |levels: usize| {
            let at =
                places.iter().enumerate().filter(|(_, label)| dead.levels_apart(label).count() == levels);
            at.map(|(index, _)| index + DEAD).collect()
        };
        Some(Neighbourhood { recoverers: apart(1), backups: apart(2) })
    }

    /// How many servers recover the dead one with neighbourhoods.
    pub fn recoverer_count(self) -> Option<usize> {
        match self {
            Layout::Star => None,
            Layout::Racks { racks, hosts, .. } => Some((racks - 1) * hosts),
            Layout::Cube { .. } => self.neighbourhood().map(|n| n.recoverers.len()),
        }
    }

    /// The labels that tell where a host stands.
    pub fn labels(self, host: usize) -> Vec<Label> {
        let label = |name: &str, value: String| Label { name: name.into(), value };
        match self {
            Layout::Star => Vec::new(),
            Layout::Racks { .. } => {
                let rack = self.rack(host).expect("the coordinator is no server");
                vec![label("zone", "z".into()), label("rack", format!("r{rack}"))]
            }
            Layout::Cube { .. } => {
                let grid = self.grid().expect("a BCube is a grid");
                let places: Vec<GridLabel> = grid.labels().collect();
                vec![label("bcube", grid.name(place(&places, host)))]
            }
        }
    }

    /// The rack of a host; none: the coordinator's host is connected to the switches between racks.
    pub fn rack(self, host: usize) -> Option<usize> {
        match self {
            Layout::Racks { hosts, .. } => host.checked_sub(DEAD).map(|index| index / hosts),
            Layout::Star | Layout::Cube { .. } => None,
        }
    }

    /// The further addresses of a host, one for each level.
    pub fn links(self, host: usize) -> Vec<Link> {
        let levels = self.grid().map_or(0, |grid| grid.level_count());
        let [_, _, high, low] = (host as u32).to_be_bytes();
        let address = |level: usize| SocketAddr::from(([11, level as u8, high, low], 7401));
        (0..levels).map(|level| Link { name: level.to_string(), address: Address(address(level)) }).collect()
    }
}

/// The place of a host.
pub fn place(places: &[GridLabel], host: usize) -> &GridLabel {
    &places[host - DEAD]
}

#[cfg(test)]
mod tests {
    use super::*;

    // H2
    #[test]
    fn a_neighbourhood_is_as_large_as_the_paper_says() {
        let cube = |radix, order| Layout::Cube { radix, order, crowd: Crowd::Neighbourhood };
        let count = |layout: Layout| {
            let around = layout.neighbourhood().expect("a BCube");
            (around.recoverers.len(), around.backups.len())
        };
        assert_eq!(count(cube(4, 1)), (6, 9));
        assert_eq!(count(cube(16, 2)), (45, 675));
        assert_eq!(cube(16, 2).servers(), Some(721));
    }
}
