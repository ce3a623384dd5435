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

use crate::cluster::COORDINATOR;
use crate::waiting::Failure;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Member(usize),
    Clients,
}

pub struct Network {
    switch: Namespace,
    members: Vec<Namespace>,
}

impl Network {
    /// Makes the network for this number of members, and moves this thread into the clients' namespace.
    pub fn create(member_count: usize) -> Result<Network, Failure> {
        assert!(member_count < 200, "an address for everybody");
        let switch = Namespace::create("switch")?;
        switch.run("ip", &["link", "add", "bridge", "type", "bridge"])?;
        switch.run("ip", &["link", "set", "bridge", "up"])?;
        let clients = Namespace::create("clients")?;
        switch.join(&clients, End::Clients)?;
        let mut members = Vec::new();
        for member in 0..member_count {
            let namespace = Namespace::create(&format!("member-{member}"))?;
            switch.join(&namespace, End::Member(member))?;
            members.push(namespace);
        }
        switch.rules(
            "add table bridge cuts; add chain bridge cuts cut { type filter hook forward priority 0; }",
        )?;
        clients.enter()?;
        Ok(Network { switch, members })
    }

    pub fn address(member: usize) -> SocketAddr {
        SocketAddr::from((ip_address(End::Member(member)), PORT))
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
                        "add rule bridge counts count iifname {from} oifname {to} counter name crossed; "
                    );
                }
            }
        }
        self.switch.rules(&rules)
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

/// The bridge's end of a cable.
fn port_name(end: End) -> String {
    match end {
        End::Clients => "clients".to_owned(),
        End::Member(COORDINATOR) => "coordinator".to_owned(),
        End::Member(member) => format!("server-{member}"),
    }
}

fn ip_address(end: End) -> Ipv4Addr {
    let last = match end {
        End::Clients => CLIENTS_ADDRESS,
        End::Member(member) => FIRST_ADDRESS + u8::try_from(member).expect("few members"),
    };
    Ipv4Addr::new(10, 231, 0, last)
}

struct Namespace {
    file: File,
    name: String,
}

impl Namespace {
    /// `name` is for errors only.
    fn create(name: &str) -> Result<Namespace, Failure> {
        let about = |what: String| Failure(format!("unshare --net: {what}"));
        // A process must be inside until the namespace's file is open here.
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-c", "echo inside && read end"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| about(error.to_string()))?;
        let mut told = String::new();
        let stdout = child.stdout.take().expect("it was asked for");
        BufReader::new(stdout).read_line(&mut told).map_err(|error| about(error.to_string()))?;
        let path = format!("/proc/{}/ns/net", child.id());
        let file = File::open(&path).map_err(|error| about(format!("{path}: {error}")));
        // Ends the shell's input, and so the shell.
        let output = child.wait_with_output().map_err(|error| about(error.to_string()))?;
        if told.is_empty() {
            return Err(about(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let namespace = Namespace { file: file?, name: name.to_owned() };
        namespace.run("ip", &["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Lays a cable from this namespace, the switch, to another.
    fn join(&self, other: &Namespace, end: End) -> Result<(), Failure> {
        let port = port_name(end);
        let file = format!("/proc/{}/fd/{}", std::process::id(), other.file.as_raw_fd());
        self.run("ip", &["link", "add", &port, "type", "veth", "peer", "name", "cable"])?;
        self.run("ip", &["link", "set", "cable", "netns", &file])?;
        self.run("ip", &["link", "set", &port, "master", "bridge", "up"])?;
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

    fn enter(&self) -> Result<(), Failure> {
        enter(&self.file, &self.name)
    }

    /// Moves this thread there, does something, and comes back.
    fn within<T>(&self, what: impl FnOnce() -> T) -> Result<T, Failure> {
        let here = "/proc/thread-self/ns/net";
        let home = File::open(here).map_err(|error| Failure(format!("{here}: {error}")))?;
        self.enter()?;
        let done = what();
        enter(&home, here)?;
        Ok(done)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        self.within(|| run(program, arguments, None))?
    }

    fn rules(&self, rules: &str) -> Result<(), Failure> {
        self.within(|| run("nft", &["-f", "-"], Some(rules)))?
    }
}

fn enter(namespace: &File, name: &str) -> Result<(), Failure> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| Failure(format!("cannot enter the network namespace {name}: {error}")))
}

fn run(program: &str, arguments: &[&str], input: Option<&str>) -> Result<(), Failure> {
    output(program, arguments, input).map(drop)
}

/// The output of a program.
fn output(program: &str, arguments: &[&str], input: Option<&str>) -> Result<String, Failure> {
    let about = |what: String| Failure(format!("{program} {}: {what}", arguments.join(" ")));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| about(error.to_string()))?;
    // It is dropped at once, which ends the child's input.
    let mut stdin = child.stdin.take().expect("it was asked for");
    if let Some(input) = input {
        stdin.write_all(input.as_bytes()).map_err(|error| about(error.to_string()))?;
    }
    drop(stdin);
    let output = child.wait_with_output().map_err(|error| about(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(about(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")))
}
