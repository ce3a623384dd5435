//! A private network of one run. Every member is in a network namespace of its own. A bridge joins them, and
//! they can be cut apart.
//!
//! ```text
//!   switch   the bridge, one port per member, and the rules that drop packets from one port to another
//!   clients  the namespace of all users of the cluster: the thread that made the network, and all it starts
//!   member   the coordinator or a server, alone with its end of a cable
//! ```
//!
//! The namespaces have no names. A namespace lives as long as a process is in it or holds its files open. So
//! none are left when this process and its children are gone, however they ended. A rule drops packets
//! silently, in one direction or both, ARP included. The addresses belong to no network outside.
//!
//! Making the network needs root, `unshare`, `ip` and `nft`. If one of them is missing, the error says which.

use crate::cube::Cube;
use crate::namespace::{COORDINATOR, End, Namespace, output, port_name};
use crate::waiting::Failure;
use ramhold_placement::Grid;
use ramhold_wire::topology::Topology;
use std::net::{Ipv4Addr, SocketAddr};

const SUBNET_BITS: u8 = 24;
const PORT: u16 = 7400;
/// Further networks, in which each member has an address.
pub const LINK_COUNT: u8 = 2;
/// The clients' end; members follow.
const CLIENTS_ADDRESS: u8 = 2;
const FIRST_ADDRESS: u8 = 10;

/// Traffic that can be lost between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub from: End,
    pub to: End,
}

pub struct Network {
    switch: Namespace,
    members: Vec<Namespace>,
    cube: Option<Cube>,
}

impl Network {
    /// Makes the network for this number of members, and moves this thread into the clients' namespace.
    pub fn create(member_count: usize) -> Result<Network, Failure> {
        assert!(member_count < 200, "an address for everybody");
        let switch = Namespace::create("switch")?;
        switch.run("ip", &["link", "add", "bridge", "type", "bridge"])?;
        switch.run("ip", &["link", "set", "bridge", "up"])?;
        let clients = Namespace::create("clients")?;
        join(&switch, &clients, End::Clients)?;
        let mut members = Vec::new();
        for member in 0..member_count {
            let namespace = Namespace::create(&format!("member-{member}"))?;
            join(&switch, &namespace, End::Member(member))?;
            members.push(namespace);
        }
        switch.rules(
            "add table bridge cuts; add chain bridge cuts cut { type filter hook forward priority 0; }",
        )?;
        clients.enter()?;
        Ok(Network { switch, members, cube: None })
    }

    /// Makes a network for a coordinator and servers at all places of a grid, and lays the cables of the grid.
    pub fn create_cube(topology: &Topology, megabits: Option<u32>) -> Result<Network, Failure> {
        let grid = Grid::of(topology).ok_or_else(|| Failure(format!("{topology} is no grid")))?;
        let servers = usize::try_from(grid.server_count()).unwrap_or(usize::MAX);
        let mut network = Network::create(servers + 1)?;
        network.cube = Some(Cube::lay(&network.switch, &network.members[1..], grid, megabits)?);
        Ok(network)
    }

    pub fn cube(&self) -> Option<&Cube> {
        self.cube.as_ref()
    }

    /// The bytes that each server has received so far on each level, from the first server on.
    pub fn received(&self) -> Result<Vec<Vec<u64>>, Failure> {
        self.cube.as_ref().map_or_else(|| Ok(Vec::new()), |cube| cube.received(&self.switch))
    }

    /// Takes the cable of a member on a level out, or puts it in again.
    pub fn plug_level(&self, member: usize, level: usize, is_in: bool) -> Result<(), Failure> {
        self.cube.iter().try_for_each(|cube| cube.plug(&self.switch, member, level, is_in))
    }

    /// Switches the switch of a member on a level off, or on again.
    pub fn power(&self, member: usize, level: usize, is_on: bool) -> Result<(), Failure> {
        self.cube.iter().try_for_each(|cube| cube.power(&self.switch, member, level, is_on))
    }

    /// From now on nothing of one member's addresses on these levels reaches the other one's, and the other way round.
    pub fn cut_paths(&self, between: (usize, usize), levels: &[usize]) -> Result<(), Failure> {
        self.cube.iter().try_for_each(|cube| cube.cut_paths(&self.switch, between, levels))
    }

    pub fn address(member: usize) -> SocketAddr {
        SocketAddr::from((ip_address(End::Member(member)), PORT))
    }

    /// The address of a server on a level of a grid.
    pub fn level_address(server: usize, level: usize) -> Ipv4Addr {
        crate::cube::address(server, level)
    }

    /// The address of a member in a further network, from 1 on.
    pub fn link(member: usize, network: u8) -> Ipv4Addr {
        let [a, b, _, last] = ip_address(End::Member(member)).octets();
        Ipv4Addr::new(a, b, network, last)
    }

    /// From now on nothing reaches these members' addresses in a further network.
    pub fn cut_links(&self, network: u8, members: &[usize]) -> Result<(), Failure> {
        let rule = |member: &usize| {
            let address = Network::link(*member, network);
            format!("add rule bridge cuts cut ip daddr {address} drop; ")
        };
        self.switch.rules(&members.iter().map(rule).collect::<String>())
    }

    /// Runs `start` in a member's namespace.
    pub fn within<T>(&self, member: usize, start: impl FnOnce() -> T) -> Result<T, Failure> {
        self.members[member].within(start)
    }

    /// From now on this traffic is lost, beside the traffic that is lost already.
    pub fn cut(&self, cuts: &[Cut]) -> Result<(), Failure> {
        let rule = |cut: &Cut| {
            let (from, to) = (port_name(cut.from), port_name(cut.to));
            format!("add rule bridge cuts cut iifname \"{from}\" oifname \"{to}\" drop; ")
        };
        self.switch.rules(&cuts.iter().map(rule).collect::<String>())
    }

    /// Takes the cable of a member out, or puts it in again.
    pub fn plug(&self, member: usize, is_in: bool) -> Result<(), Failure> {
        let state = if is_in { "up" } else { "down" };
        self.switch.run("ip", &["link", "set", &port_name(End::Member(member)), state])
    }

    /// Counts from now on what goes from a member of one of these groups to a member of another.
    pub fn count_between(&self, groups: &[Vec<usize>]) -> Result<(), Failure> {
        self.count(groups, "")
    }

    /// `what`: the packets that are counted; empty: all.
    fn count(&self, groups: &[Vec<usize>], what: &str) -> Result<(), Failure> {
        let ports = |group: &Vec<usize>| {
            let names: Vec<String> =
                group.iter().map(|member| format!("\"{}\"", port_name(End::Member(*member)))).collect();
            format!("{{ {} }}", names.join(", "))
        };
        let mut rules = "add table bridge counts; add counter bridge counts crossed; \
                         add chain bridge counts count { type filter hook forward priority 1; }; "
            .to_owned();
        for (index, from) in groups.iter().enumerate() {
            for (other, to) in groups.iter().enumerate() {
                if other != index {
                    let (from, to) = (ports(from), ports(to));
                    rules += &format!(
                        "add rule bridge counts count iifname {from} oifname {to} {what} counter name crossed; "
                    );
                }
            }
        }
        self.switch.rules(&rules)
    }

    /// Counts from now on what servers send each other over the first bridge, without the questions of ARP, which go to
    /// everybody.
    pub fn count_among_servers(&self) -> Result<(), Failure> {
        let groups: Vec<Vec<usize>> = (1..self.members.len()).map(|member| vec![member]).collect();
        self.count(&groups, "meta protocol ip")
    }

    /// The bytes that were counted so far, with the headers of IP and TCP.
    pub fn counted(&self) -> Result<u64, Failure> {
        let list = ["-j", "list", "counter", "bridge", "counts", "crossed"];
        let told = self.switch.within(|| output("nft", &list, None))??;
        let value: serde_json::Value = serde_json::from_str(&told)
            .map_err(|error| Failure(format!("nft {}: {error}", list.join(" "))))?;
        let entries = value["nftables"].as_array().into_iter().flatten();
        let mut bytes = entries.filter_map(|entry| entry["counter"]["bytes"].as_u64());
        bytes.next().ok_or_else(|| Failure(format!("nft tells no bytes: {told}")))
    }

    /// Ends all losses.
    pub fn heal(&self) -> Result<(), Failure> {
        for member in 0..self.members.len() {
            self.plug(member, true)?;
            if let Some(cube) = self.cube.as_ref().filter(|_| member != COORDINATOR) {
                for level in 0..cube.level_count() {
                    cube.plug(&self.switch, member, level, true)?;
                    cube.power(&self.switch, member, level, true)?;
                }
            }
        }
        self.switch.rules("flush chain bridge cuts cut")
    }
}

/// Whether a network can be made here, or the reason why not. It makes one, and leaves this thread where it
/// is.
pub fn is_network_possible() -> Result<(), Failure> {
    let tried = std::thread::spawn(|| Network::create(1).map(drop)).join();
    tried.unwrap_or_else(|_| Err(Failure("a network cannot be made".to_owned())))
}

/// Everything between a member and some others is lost, both ways.
pub fn between(member: usize, others: impl IntoIterator<Item = End>) -> Vec<Cut> {
    let member = End::Member(member);
    others
        .into_iter()
        .filter(|other| *other != member)
        .flat_map(|other| [Cut { from: member, to: other }, Cut { from: other, to: member }])
        .collect()
}

fn ip_address(end: End) -> Ipv4Addr {
    let last = match end {
        End::Clients => CLIENTS_ADDRESS,
        End::Member(member) => FIRST_ADDRESS + u8::try_from(member).expect("few members"),
    };
    Ipv4Addr::new(10, 231, 0, last)
}

/// Lays a cable from the first bridge to a namespace, and gives it its addresses.
fn join(switch: &Namespace, other: &Namespace, end: End) -> Result<(), Failure> {
    switch.lay(&port_name(end), other, "cable", "bridge")?;
    let address = format!("{}/{SUBNET_BITS}", ip_address(end));
    other.run("ip", &["address", "add", &address, "dev", "cable"])?;
    if let End::Member(member) = end {
        for network in 1..=LINK_COUNT {
            let link = format!("{}/{SUBNET_BITS}", Network::link(member, network));
            other.run("ip", &["address", "add", &link, "dev", "cable"])?;
        }
    }
    other.run("ip", &["link", "set", "cable", "up"])
}
