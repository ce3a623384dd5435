//! The ports that a frame passes on its way from one host to another.
//!
//! Every port passes one frame after the other, in one direction. A frame takes a port of its sender, a port
//! of its receiver, and what is between:
//! - *star*: nothing.
//! - *racks*: the uplink of the sender's rack and that of the receiver's, if these are two.
//! - *cube*: a port into and a port out of each host that passes it on. Plane 0 is the network of first
//!   addresses, plane `l + 1` is that of the addresses of level `l`. A message to an address of a level takes
//!   the way of `Grid::route`, so it enters its receiver by the switch of that level. Answers take the way of
//!   their question back.
//!
//! Switches begin to send a frame before all of it has come. Hosts pass it on packet by packet.
//!
//! Not here: the processor time of passing on, which kernels take beside the servers' cores; full queues in
//! switches. Source: RAMCUBE 2.2.

use crate::layout::{DEAD, Layout, place};
use ramhold_placement::{Grid, GridLabel};
use std::collections::BTreeMap;

/// The bytes that hosts pass on at once.
const PACKET_BYTES: f64 = 1500.0;

/// The step of a frame at a port before the next one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Onward {
    /// It goes to another port by a cable.
    Cable,
    /// A host passes it on.
    Relay { packet_bytes: f64 },
    /// A switch passes it on.
    Switch,
    /// It is there.
    End,
}

#[derive(Clone, Debug)]
pub struct Fabric {
    layout: Layout,
    grid: Option<Grid>,
    places: Vec<GridLabel>,
    hosts: usize,
    /// Bytes per second of each port.
    rates: Vec<f64>,
    /// The ports between two hosts, by caller, callee and plane.
    ways: BTreeMap<(usize, usize, usize), Vec<usize>>,
}

impl Fabric {
    /// `hosts`: at least as many as have servers. `rate`: bytes per second of each port of a host.
    pub fn new(layout: Layout, hosts: usize, rate: f64) -> Fabric {
        let grid = layout.grid();
        let places: Vec<GridLabel> = grid.iter().flat_map(|grid| grid.labels().collect::<Vec<_>>()).collect();
        let hosts = hosts.max(places.len() + DEAD);
        let mut fabric = Fabric { layout, grid, places, hosts, rates: Vec::new(), ways: BTreeMap::new() };
        fabric.rates = vec![rate; hosts * fabric.planes() * 2];
        if let Layout::Racks { racks, hosts, oversubscription } = layout {
            let uplink = rate * hosts as f64 / oversubscription;
            assert!(
                uplink >= rate,
                "an uplink is at least as fast as a port, or frames would be stored in it"
            );
            fabric.rates.extend(vec![uplink; racks * 2]);
        }
        fabric
    }

    /// Other traffic takes a share of each port that the rings of the dead server do not use.
    pub fn with_cross_traffic(mut self, share: f64) -> Fabric {
        for index in 0..self.places.len() {
            for level in 0..self.planes() - 1 {
                if !self.is_on_ring(index + DEAD, level) {
                    for is_in in [false, true] {
                        let port = self.port(index + DEAD, level + 1, is_in);
                        self.rates[port] *= 1.0 - share;
                    }
                }
            }
        }
        self
    }

    /// Whether what a recovery server reads passes this port: those between a backup and the two recovery
    /// servers that it feeds.
    fn is_on_ring(&self, host: usize, level: usize) -> bool {
        let apart: Vec<usize> = place(&self.places, DEAD).levels_apart(place(&self.places, host)).collect();
        match apart.len() {
            1 => !apart.contains(&level),
            2 => apart.contains(&level),
            _ => false,
        }
    }

    fn planes(&self) -> usize {
        1 + self.grid.as_ref().map_or(0, Grid::level_count)
    }

    fn port(&self, host: usize, plane: usize, is_in: bool) -> usize {
        (host * self.planes() + plane) * 2 + usize::from(is_in)
    }

    fn uplink(&self, rack: usize, is_in: bool) -> usize {
        self.hosts * self.planes() * 2 + rack * 2 + usize::from(is_in)
    }

    pub fn port_count(&self) -> usize {
        self.rates.len()
    }

    pub fn rate(&self, port: usize) -> f64 {
        self.rates[port]
    }

    pub fn is_uplink(&self, port: usize) -> bool {
        port >= self.hosts * self.planes() * 2
    }

    /// A port of a frame's way, and what comes after it. `caller`, `callee`: the hosts of the connection.
    pub fn step(
        &mut self,
        (caller, callee): (usize, usize),
        plane: usize,
        is_answer: bool,
        index: usize,
    ) -> (usize, Onward) {
        let key = (caller, callee, plane);
        if !self.ways.contains_key(&key) {
            let way = self.way(caller, callee, plane);
            self.ways.insert(key, way);
        }
        let way = &self.ways[&key];
        // The way back leaves by the ports by which the way there enters.
        let port = if is_answer { way[way.len() - 1 - index] ^ 1 } else { way[index] };
        let onward = match (index + 1 == way.len(), port % 2 == 1) {
            (true, _) => Onward::End,
            _ if self.is_uplink(port) => Onward::Switch,
            (false, false) => Onward::Cable,
            (false, true) => Onward::Relay { packet_bytes: PACKET_BYTES },
        };
        (port, onward)
    }

    fn way(&self, from: usize, to: usize, plane: usize) -> Vec<usize> {
        let (out, into) = (self.port(from, plane, false), self.port(to, plane, true));
        match &self.grid {
            Some(grid) if plane > 0 => {
                let (here, there) = (place(&self.places, from), place(&self.places, to));
                let route = grid.route(here, there, plane - 1, 1);
                route.windows(2).flat_map(|hop| self.hop(&hop[0], &hop[1])).collect()
            }
            _ => {
                let (here, there) = (self.layout.rack(from), self.layout.rack(to));
                let up = here.filter(|_| here != there).map(|rack| self.uplink(rack, false));
                let down = there.filter(|_| here != there).map(|rack| self.uplink(rack, true));
                [Some(out), up, down, Some(into)].into_iter().flatten().collect()
            }
        }
    }

    fn hop(&self, from: &GridLabel, to: &GridLabel) -> [usize; 2] {
        let plane = from.shared_level(to).expect("a hop is over one switch") + 1;
        let host = |label| DEAD + self.places.iter().position(|place| place == label).expect("a place");
        [self.port(host(from), plane, false), self.port(host(to), plane, true)]
    }

    /// A port, for people.
    pub fn name(&self, port: usize) -> String {
        let direction = if port % 2 == 1 { "into" } else { "out of" };
        if self.is_uplink(port) {
            return format!("uplink {direction} rack {}", (port / 2) - self.hosts * self.planes());
        }
        let (host, plane) = (port / 2 / self.planes(), port / 2 % self.planes());
        match (&self.grid, plane.checked_sub(1)) {
            (Some(grid), Some(level)) => {
                format!("{direction} {} on level {level}", grid.name(place(&self.places, host)))
            }
            _ => format!("{direction} host {host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Crowd;

    fn names(fabric: &mut Fabric, ends: (usize, usize), plane: usize, is_answer: bool) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let (port, onward) = fabric.step(ends, plane, is_answer, names.len());
            names.push(fabric.name(port));
            if onward == Onward::End {
                return names;
            }
        }
    }

    // H1
    #[test]
    fn what_two_servers_share_no_switch_for_is_passed_on_by_a_third() {
        let cube = Layout::Cube { radix: 4, order: 1, crowd: Crowd::Everywhere };
        let mut fabric = Fabric::new(cube, 17, 1e9);
        // Host 1 is at 00, host 2 at 01, host 6 at 11.
        assert_eq!(names(&mut fabric, (1, 2), 1, false), ["out of 00 on level 0", "into 01 on level 0"]);
        let there =
            ["out of 00 on level 1", "into 10 on level 1", "out of 10 on level 0", "into 11 on level 0"];
        assert_eq!(names(&mut fabric, (1, 6), 1, false), there);
        let back =
            ["out of 11 on level 0", "into 10 on level 0", "out of 10 on level 1", "into 00 on level 1"];
        assert_eq!(names(&mut fabric, (1, 6), 1, true), back);
        assert_eq!(names(&mut fabric, (1, 6), 0, false), ["out of host 1", "into host 6"]);
    }

    #[test]
    fn only_what_leaves_a_rack_takes_its_uplink() {
        let racks = Layout::Racks { racks: 2, hosts: 2, oversubscription: 2.0 };
        let mut fabric = Fabric::new(racks, 5, 1e9);
        assert_eq!(names(&mut fabric, (1, 2), 0, false), ["out of host 1", "into host 2"]);
        let across = ["out of host 2", "uplink out of rack 0", "uplink into rack 1", "into host 3"];
        assert_eq!(names(&mut fabric, (2, 3), 0, false), across);
        let told = ["out of host 0", "uplink into rack 1", "into host 4"];
        assert_eq!(names(&mut fabric, (0, 4), 0, false), told);
        let (uplink, _) = fabric.step((2, 3), 0, false, 1);
        assert_eq!((fabric.rate(uplink), fabric.is_uplink(uplink)), (1e9, true));
    }

    // H2
    #[test]
    fn cross_traffic_leaves_the_rings_alone() {
        let cube = Layout::Cube { radix: 4, order: 1, crowd: Crowd::Everywhere };
        let mut fabric = Fabric::new(cube, 17, 1e9).with_cross_traffic(0.75);
        // 11 feeds 01 over level 1 and 10 over level 0.
        for (ends, plane) in [((6, 2), 2), ((6, 5), 1)] {
            for index in 0..2 {
                let (port, _) = fabric.step(ends, plane, false, index);
                assert_eq!(fabric.rate(port), 1e9, "{}", fabric.name(port));
            }
        }
        // 01 and 02 share a switch with 00.
        let (port, _) = fabric.step((2, 3), 1, false, 0);
        assert_eq!(fabric.rate(port), 0.25e9);
    }
}
