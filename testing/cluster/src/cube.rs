//! A BCube in network namespaces: beside the bridge to which all members are connected, one bridge for each edge switch.
//!
//! Server `i` is at place `i - 1`, in the order of labels. At each level it has an address, which others reach through its
//! switch of that level: every server has a route to each address of each other one, and passes on what is for others.
//! The first bridge is for the coordinator and for clients; it counts what servers send each other over it.
//!
//! Not here: the first bridge and its cuts (network). Source: RAMCUBE 2.2.

use crate::namespace::{End, Namespace, output, port_name};
use crate::waiting::Failure;
use ramhold_placement::{Grid, GridLabel};
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Bytes that a shaped port may send at once, and how long others wait in it.
const BURST: &str = "burst 64kb latency 50ms";

pub struct Cube {
    grid: Grid,
    places: Vec<GridLabel>,
}

impl Cube {
    /// Lays the cables between servers, by bridges in the namespace of the switches. `megabits`: the rate of both ends of every cable; none:
    /// as fast as it goes.
    pub(crate) fn lay(
        switch: &Namespace,
        servers: &[Namespace],
        grid: Grid,
        megabits: Option<u32>,
    ) -> Result<Cube, Failure> {
        let cube = Cube { places: grid.labels().collect(), grid };
        let mut bridges = String::new();
        for level in 0..cube.grid.level_count() {
            for place in cube.places.iter().filter(|place| place.digit(level) == 0) {
                let bridge = cube.bridge(place, level);
                let _ = writeln!(bridges, "link add {bridge} type bridge\nlink set {bridge} up");
            }
        }
        batch(switch, &bridges)?;
        for (index, place) in cube.places.iter().enumerate() {
            let member = &servers[index];
            for level in 0..cube.grid.level_count() {
                let (port, end) = (port(index + 1, level), format!("level{level}"));
                switch.lay(&port, member, &end, &cube.bridge(place, level))?;
                if let Some(rate) = megabits {
                    let shape = |dev: &str| format!("qdisc add dev {dev} root tbf rate {rate}mbit {BURST}");
                    switch.run("tc", &shape(&port).split(' ').collect::<Vec<_>>())?;
                    member.run("tc", &shape(&end).split(' ').collect::<Vec<_>>())?;
                }
            }
            batch(member, &cube.setup(index))?;
            member.within(|| {
                let set = |name: String, value: &str| {
                    let path = format!("/proc/sys/net/ipv4/{name}");
                    std::fs::write(&path, value).map_err(|error| Failure(format!("{path}: {error}")))
                };
                set("ip_forward".into(), "1")?;
                set("conf/all/rp_filter".into(), "0")?;
                set("conf/all/send_redirects".into(), "0")?;
                (0..cube.grid.level_count()).try_for_each(|level| {
                    set(format!("conf/level{level}/rp_filter"), "0")?;
                    set(format!("conf/level{level}/send_redirects"), "0")
                })
            })??;
        }
        Ok(cube)
    }

    /// Addresses and routes of one server, as commands of `ip`.
    fn setup(&self, index: usize) -> String {
        let mut commands = String::new();
        for level in 0..self.grid.level_count() {
            let _ = writeln!(commands, "addr add {}/32 dev level{level}", address(index + 1, level));
            let _ = writeln!(commands, "link set level{level} up");
        }
        let own = &self.places[index];
        for (other, place) in self.places.iter().enumerate().filter(|(other, _)| *other != index) {
            for level in 0..self.grid.level_count() {
                let route = self.grid.route(own, place, level, 1);
                let over = own.shared_level(&route[1]).expect("a hop is on one level");
                let target = address(other + 1, level);
                if route.len() == 2 {
                    let _ = writeln!(commands, "route add {target}/32 dev level{over}");
                } else {
                    let next =
                        self.places.iter().position(|place| *place == route[1]).expect("all are there");
                    let next = address(next + 1, over);
                    let _ = writeln!(commands, "route add {target}/32 via {next} dev level{over} onlink");
                }
            }
        }
        commands
    }

    /// The bytes that each member has received so far on each level, as its switches count them.
    pub(crate) fn received(&self, switch: &Namespace) -> Result<Vec<Vec<u64>>, Failure> {
        let path = "/proc/thread-self/net/dev";
        let read = || std::fs::read_to_string(path).map_err(|error| Failure(format!("{path}: {error}")));
        let told = switch.within(read)??;
        // A line: the device, then eight figures of what came from it, then the bytes that were sent to it.
        let sent = |device: &str| {
            let line = told.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'));
            line.and_then(|figures| figures.split_whitespace().nth(8)?.parse::<u64>().ok()).unwrap_or(0)
        };
        let of = |member: usize| (0..self.level_count()).map(|level| sent(&port(member, level))).collect();
        Ok((1..=self.places.len()).map(of).collect())
    }

    /// The members that share a switch with a member.
    pub fn near(&self, member: usize) -> Vec<usize> {
        let place = |label: GridLabel| self.places.iter().position(|place| *place == label);
        self.grid.near(&self.places[member - 1]).filter_map(place).map(|index| index + 1).collect()
    }

    /// The level of the switch that two members share.
    pub fn shared_level(&self, one: usize, other: usize) -> Option<usize> {
        self.places[one - 1].shared_level(&self.places[other - 1])
    }

    pub fn label(&self, member: usize) -> String {
        self.grid.name(&self.places[member - 1])
    }

    pub fn level_count(&self) -> usize {
        self.grid.level_count()
    }

    /// The name of the switch of a member, as in `<0,1>`.
    pub fn switch_name(&self, member: usize, level: usize) -> String {
        self.grid.switch_name(&self.grid.switch(&self.places[member - 1], level))
    }

    /// Takes the cable of a member on a level out, or puts it in again.
    pub(crate) fn plug(
        &self,
        switch: &Namespace,
        member: usize,
        level: usize,
        is_in: bool,
    ) -> Result<(), Failure> {
        set(switch, &port(member, level), is_in)
    }

    /// Switches the switch of a member on a level off, or on again.
    pub(crate) fn power(
        &self,
        switch: &Namespace,
        member: usize,
        level: usize,
        is_on: bool,
    ) -> Result<(), Failure> {
        set(switch, &self.bridge(&self.places[member - 1], level), is_on)
    }

    /// From now on nothing of one member's addresses on these levels reaches the other one's, and the other way round.
    pub(crate) fn cut_paths(
        &self,
        switch: &Namespace,
        (one, other): (usize, usize),
        levels: &[usize],
    ) -> Result<(), Failure> {
        let mut rules = String::new();
        for level in levels {
            for (from, to) in [(one, other), (other, one)] {
                let to = address(to, *level);
                // Whatever it is sent from: answers go to the address of the level on which the question left.
                for from_level in 0..self.level_count() {
                    let from = address(from, from_level);
                    let _ = write!(rules, "add rule bridge cuts cut ip saddr {from} ip daddr {to} drop; ");
                }
            }
        }
        switch.rules(&rules)
    }

    fn bridge(&self, place: &GridLabel, level: usize) -> String {
        let name = self.grid.switch_name(&self.grid.switch(place, level));
        format!("s{}", name.trim_matches(['<', '>']).replace(',', "-"))
    }
}

/// The address of a member on a level.
pub fn address(member: usize, level: usize) -> Ipv4Addr {
    let number = |n: usize| u8::try_from(n).expect("few members and levels");
    Ipv4Addr::new(10, 240 + number(level), 0, number(member))
}

/// The switch's end of a cable.
fn port(member: usize, level: usize) -> String {
    format!("{}-{level}", port_name(End::Member(member)))
}

fn set(switch: &Namespace, device: &str, is_on: bool) -> Result<(), Failure> {
    switch.run("ip", &["link", "set", device, if is_on { "up" } else { "down" }])
}

fn batch(namespace: &Namespace, commands: &str) -> Result<(), Failure> {
    namespace.within(|| output("ip", &["-batch", "-"], Some(commands)))?.map(drop)
}
