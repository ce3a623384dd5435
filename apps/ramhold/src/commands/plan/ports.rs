//! Bytes on the ports of servers in a grid, and how far they go.
//!
//! A server has a port for each level. Bytes for another server take the path that servers take (docs/protocols/
//! topology.md, "Which path"): over the switch that both share, else by way of servers that pass them on. Every server
//! on the way receives and sends them, so they count on its ports, too. A path over the dead server is silent, so
//! another one is taken.
//!
//! Not here: which bytes (network), cross traffic of clients. Catalogue: H1, H3.

use ramhold_base::ServerId;
use ramhold_placement::{Grid, GridLabel, Network};

/// Bytes by how far they go.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Hops {
    /// Over one switch.
    pub near: f64,
    /// Over two switches or more: other servers pass them on.
    pub far: f64,
    /// On all links together: each byte as often as it crosses a switch.
    pub on_links: f64,
    /// To another rack: the servers on one switch of level 0.
    pub other_rack: f64,
}

impl Hops {
    pub fn add(&mut self, network: &Network<'_>, from: ServerId, to: ServerId, bytes: f64) {
        let (Some(one), Some(other)) = (network.label(from), network.label(to)) else { return };
        let hops = one.levels_apart(other).count();
        match hops {
            0 => return,
            1 => self.near += bytes,
            _ => self.far += bytes,
        }
        self.on_links += bytes * hops as f64;
        if one.rack() != other.rack() {
            self.other_rack += bytes;
        }
    }
}

/// The bytes on one port in one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    pub place: String,
    pub level: usize,
    pub is_sent: bool,
    pub bytes: f64,
}

pub struct Ports<'a> {
    grid: &'a Grid,
    /// The labels of the servers 1, 2, ...
    labels: Vec<&'a GridLabel>,
    dead: &'a GridLabel,
    /// By server and level: sent, received.
    bytes: Vec<[f64; 2]>,
    network: &'a Network<'a>,
}

impl<'a> Ports<'a> {
    /// `network`: with servers 1 to `count` at places of a grid, the dead one among them.
    pub fn new(network: &'a Network<'a>, count: usize, dead: ServerId) -> Ports<'a> {
        let grid = network.grid().expect("the network is a grid");
        let label = |id: u64| network.label(ServerId(id)).expect("each server has a place");
        let labels: Vec<&GridLabel> = (1..=count as u64).map(label).collect();
        let dead = label(dead.raw());
        let bytes = vec![[0.0; 2]; count * grid.level_count()];
        Ports { grid, labels, dead, bytes, network }
    }

    pub fn carry(&mut self, from: ServerId, to: ServerId, bytes: f64) {
        if from == to {
            return;
        }
        let label = |id: ServerId| self.labels[id.raw() as usize - 1];
        let path = path(self.grid, label(from), label(to), self.dead);
        for hop in path.windows(2) {
            let level = hop[0].shared_level(&hop[1]).expect("a hop crosses one switch");
            for (label, direction) in hop.iter().zip([0, 1]) {
                let server = self.network.server_at(label).expect("there is a server at each place");
                let port = (server.raw() as usize - 1) * self.grid.level_count() + level;
                self.bytes[port][direction] += bytes;
            }
        }
    }

    /// The port with the most bytes; the first of several.
    pub fn fullest(&self) -> Load {
        let mut fullest = Load { place: String::new(), level: 0, is_sent: true, bytes: 0.0 };
        for (port, directions) in self.bytes.iter().enumerate() {
            for (direction, bytes) in directions.iter().enumerate() {
                if *bytes > fullest.bytes * (1.0 + 1e-9) {
                    let (server, level) = (port / self.grid.level_count(), port % self.grid.level_count());
                    let place = self.grid.name(self.labels[server]);
                    fullest = Load { place, level, is_sent: direction == 0, bytes: *bytes };
                }
            }
        }
        fullest
    }
}

/// The first path that is not silent: those by levels on which the labels differ come first.
fn path(grid: &Grid, from: &GridLabel, to: &GridLabel, dead: &GridLabel) -> Vec<GridLabel> {
    let is_apart = |level: &usize| from.digit(*level) != to.digit(*level);
    let apart = (0..grid.level_count()).filter(is_apart);
    let rest = (0..grid.level_count()).filter(|level| !is_apart(level));
    let mut paths = apart.chain(rest).map(|level| grid.route(from, to, level, 1));
    paths.find(|path| !path.contains(dead)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::places::servers;
    use super::*;
    use ramhold_wire::topology::Topology;

    // H1
    #[test]
    fn bytes_are_on_the_ports_of_all_who_pass_them_on() {
        let topology: Topology = "bcube:3,1".parse().unwrap();
        let grid = Grid::of(&topology).unwrap();
        let all = servers(&topology, &grid);
        let network = Network::new(&topology, all.iter());
        let at = |name: &str| network.server_at(&grid.label(name).unwrap()).unwrap();
        let load = |place: &str, level, is_sent, bytes| Load { place: place.into(), level, is_sent, bytes };
        let mut ports = Ports::new(&network, 9, at("00"));
        ports.carry(at("11"), at("11"), 99.0);
        ports.carry(at("11"), at("12"), 2.0);
        assert_eq!(ports.fullest(), load("11", 0, true, 2.0), "over the switch that they share");
        // 01 and 10 share no switch. The path over 00, which enters 10 by its level 1, is not taken.
        ports.carry(at("01"), at("10"), 5.0);
        let on = |place: &str, level: usize| ports.bytes[(at(place).raw() as usize - 1) * 2 + level];
        assert_eq!(
            [on("01", 1), on("10", 0), on("00", 0), on("00", 1)],
            [[5.0, 0.0], [0.0, 5.0], [0.0; 2], [0.0; 2]]
        );
        assert_eq!(on("11", 1), [0.0, 5.0], "it is passed on here");
        assert_eq!(on("11", 0), [7.0, 0.0]);
        let mut hops = Hops::default();
        for (to, bytes) in [("00", 9.0), ("01", 1.0), ("10", 2.0), ("11", 4.0)] {
            hops.add(&network, at("00"), at(to), bytes);
        }
        assert_eq!(hops, Hops { near: 3.0, far: 4.0, on_links: 11.0, other_rack: 6.0 });
    }
}
