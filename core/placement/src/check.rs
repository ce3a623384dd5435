//! Problems of some servers with a topology and a placement: for an operator who asks before using them.
//!
//! Pure: the same rules as those by which servers are taken in and backups are chosen.
//!
//! Not here: memory and devices, and what is down just now (status). Catalogue: H1, H3.

use crate::domain::{Domain, domain, label, zone};
use crate::head_room::{HeadRoom, buffers_for, log_segments_for};
use crate::neighbourhoods::{check_neighbourhoods, neighbourhoods};
use crate::topology::Network;
use crate::{check_domain, check_labels, check_links, share_place};
use ramhold_base::ServerId;
use ramhold_base::limits::SEGMENT_BYTES;
use ramhold_wire::membership::{LabelRefusal, ServerEntry};
use ramhold_wire::topology::Topology;
use ramhold_wire::{Neighbouring, ReplicaPlacement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Something that stands in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The server would be refused.
    NoPlace { server: ServerId, why: LabelRefusal },
    /// Two servers would stand at one place.
    OnePlace { servers: [ServerId; 2] },
    /// Writes of this server, which has fewest, would wait: too few other hosts.
    TooFewHosts { server: ServerId, others: usize, replicas: u8 },
    /// Writes of some server would wait while this zone is away.
    ZoneNeeded { zone: String, server: ServerId, others: usize, replicas: u8 },
    /// `zone-local` needs a replica elsewhere.
    OneReplica,
    /// `zone-local` without zones does nothing.
    NoZones,
    /// `zone-local` finds no other host in the server's zone: its primaries go elsewhere.
    AloneInZone { server: ServerId, zone: String },
    /// Servers of one host have labels of two zones.
    HostInZones { host: String, zones: Vec<String> },
    /// The topology has no neighbourhoods of the kind that the placement asks for.
    NoNeighbourhoods { why: String },
    /// The data that this server would keep with that neighbour has no backup one hop from it, and is kept elsewhere.
    NoFeeders { server: ServerId, neighbour: ServerId },
    /// Strict rings with so many feeders, fewer than replicas: some replicas go elsewhere.
    SmallRings { rings: Vec<[ServerId; 2]>, feeders: usize, replicas: u8 },
    /// This server has no neighbourhood at all: what it has is scattered.
    Alone { server: ServerId },
    /// These servers employ fewer neighbourhoods than they have: there is no room for more heads.
    FewHeads { servers: Vec<ServerId>, employed: usize, wanted: usize, replicas: u8, of_buffers: bool },
    /// Some servers are not on this network: the others do not reach them there.
    LinkOfSome { link: String, without: Vec<ServerId> },
}

impl Problem {
    /// Whether something would wait or be refused, and not only be less than it could be.
    pub fn is_grave(&self) -> bool {
        matches!(
            self,
            Problem::NoPlace { .. }
                | Problem::OnePlace { .. }
                | Problem::TooFewHosts { .. }
                | Problem::OneReplica
                | Problem::NoZones
                | Problem::NoNeighbourhoods { .. }
        )
    }

    /// The remedy, for people.
    pub fn remedy(&self) -> String {
        match self {
            Problem::NoPlace { .. } => "start the server with labels and links that fit".into(),
            Problem::OnePlace { .. } => "give one of them another place".into(),
            Problem::TooFewHosts { .. } => "start servers on more hosts, or use fewer replicas".into(),
            Problem::ZoneNeeded { .. } => {
                "start servers on more hosts of other zones, or use fewer replicas".into()
            }
            Problem::OneReplica => "use two replicas or more".into(),
            Problem::NoZones => "start the servers with --label zone=...".into(),
            Problem::AloneInZone { zone, .. } => format!("start a server on another host of zone '{zone}'"),
            Problem::HostInZones { .. } => "give the servers of a host one zone".into(),
            Problem::NoNeighbourhoods { .. } => "use a topology that has them, or another placement".into(),
            Problem::SmallRings { .. } => "use fewer replicas, a larger topology, or multiring".into(),
            Problem::NoFeeders { .. } | Problem::Alone { .. } => {
                "start servers at places that share a switch with it".into()
            }
            Problem::FewHeads { wanted, replicas, of_buffers, .. } => {
                let wanted = u32::try_from(*wanted).unwrap_or(u32::MAX);
                let mebibytes = |segments: u32| (u64::from(segments) * u64::from(SEGMENT_BYTES)) >> 20;
                match of_buffers {
                    // Each place of the buffer file is a little larger than a segment.
                    true => {
                        let buffers = buffers_for(wanted, *replicas);
                        format!(
                            "start all servers with --buffers {}MiB, which are {buffers} buffers, or more",
                            mebibytes(buffers + 1)
                        )
                    }
                    false => format!(
                        "start the servers with more --memory: a log of {} MiB or more",
                        mebibytes(log_segments_for(wanted))
                    ),
                }
            }
            Problem::LinkOfSome { link, .. } => format!("give them --link {link}=ADDRESS"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoPlace { server, why } => write!(f, "{server} would be refused: {why}"),
            Problem::OnePlace { servers: [one, other] } => write!(f, "{one} and {other} have the same place"),
            Problem::TooFewHosts { server, others, replicas } => {
                write!(f, "writes of {server} would wait: {replicas} replicas, and {others} other hosts")
            }
            Problem::ZoneNeeded { zone, server, others, replicas } => write!(
                f,
                "with zone '{zone}' away, writes of {server} would wait: {replicas} replicas, and {others} other hosts"
            ),
            Problem::OneReplica => {
                f.write_str("zone-local needs a replica in another zone beside the one in its own")
            }
            Problem::NoZones => f.write_str("zone-local does nothing: no server has a zone"),
            Problem::AloneInZone { server, zone } => {
                write!(f, "{server} has no other host in zone '{zone}': its recovery would read across zones")
            }
            Problem::HostInZones { host, zones } => {
                write!(f, "host '{host}' has servers in zones {}", zones.join(", "))
            }
            Problem::NoNeighbourhoods { why } => f.write_str(why),
            Problem::NoFeeders { server, neighbour } => {
                write!(
                    f,
                    "{server} keeps nothing with {neighbour}: nobody is one hop from {neighbour} and two from {server}"
                )
            }
            Problem::SmallRings { rings, feeders, replicas } => {
                let named = rings.iter().take(RINGS_NAMED).map(|[one, other]| format!("{one}-{other}"));
                let named = named.collect::<Vec<_>>().join(" ");
                let more = rings.len().saturating_sub(RINGS_NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                write!(
                    f,
                    "rings have {feeders} of {replicas} replicas, and the others go elsewhere: {named}{more}"
                )
            }
            Problem::Alone { server } => write!(f, "{server} has no neighbourhood: its data is scattered"),
            Problem::FewHeads { servers, employed, wanted, replicas, of_buffers } => {
                let why = match of_buffers {
                    true => format!("with {replicas} replicas, backups have too few buffers for more heads"),
                    false => "their logs have too little memory for more heads".to_owned(),
                };
                write!(f, "{} can employ {employed} of {wanted} neighbourhoods: {why}", listed(servers))
            }
            Problem::LinkOfSome { link, without } => {
                write!(f, "link '{link}' is missing at {}", listed(without))
            }
        }
    }
}

fn listed(servers: &[ServerId]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The rings that one line names.
const RINGS_NAMED: usize = 12;

/// The problems of these servers, the grave ones first. `rooms`: what is known of the servers' rooms for heads.
pub fn check(
    servers: &[&ServerEntry],
    topology: &Topology,
    placement: ReplicaPlacement,
    replicas: u8,
    rooms: &BTreeMap<ServerId, HeadRoom>,
) -> Vec<Problem> {
    let mut problems = places(servers, topology, placement);
    problems.extend(hosts(servers, replicas));
    if placement == ReplicaPlacement::ZoneLocal {
        problems.extend(zone_local(servers, replicas));
    }
    if let Some((by, most)) = placement.neighbouring() {
        problems.extend(neighbouring(servers, topology, placement, (by, replicas)));
        let network = Network::new(topology, servers.iter().copied());
        problems.extend(few_heads(servers, (&network, by, usize::from(most)), replicas, rooms));
    }
    problems.extend(hosts_in_zones(servers));
    problems.extend(links(servers));
    problems.sort_by_key(|problem| !problem.is_grave());
    problems
}

fn places(servers: &[&ServerEntry], topology: &Topology, placement: ReplicaPlacement) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let checked = check_labels(topology, &server.labels)
            .and_then(|()| check_links(topology, server.links()))
            .and_then(|()| check_domain(topology, placement, &server.labels));
        if let Err(why) = checked {
            problems.push(Problem::NoPlace { server: server.id, why });
        }
        let same = servers[..index].iter().find(|o| share_place(topology, &o.labels, &server.labels));
        problems.extend(same.map(|other| Problem::OnePlace { servers: [other.id, server.id] }));
    }
    problems
}

/// The number of failure domains with a backup beside a server's own, without those of a zone.
fn others(servers: &[&ServerEntry], of: &ServerEntry, away: Option<&str>) -> usize {
    let there = servers.iter().filter(|e| e.backup && (away.is_none() || zone(e) != away));
    let domains: BTreeSet<Domain<'_>> = there.map(|e| domain(e)).filter(|d| *d != domain(of)).collect();
    domains.len()
}

fn hosts(servers: &[&ServerEntry], replicas: u8) -> Vec<Problem> {
    let lacks = |others: usize| others < usize::from(replicas);
    let masters = || servers.iter().filter(|server| server.master);
    let least = |away: Option<&str>| {
        let left = masters().filter(|server| away.is_none() || zone(server) != away);
        let least = left.map(|server| (others(servers, server, away), server.id)).min();
        least.filter(|(others, _)| lacks(*others))
    };
    if let Some((others, server)) = least(None) {
        return vec![Problem::TooFewHosts { server, others, replicas }];
    }
    let mut problems = Vec::new();
    let zones: BTreeSet<&str> = servers.iter().filter_map(|server| zone(server)).collect();
    for away in zones.iter().copied().filter(|_| zones.len() > 1) {
        if let Some((others, server)) = least(Some(away)) {
            problems.push(Problem::ZoneNeeded { zone: away.to_owned(), server, others, replicas });
        }
    }
    problems
}

fn zone_local(servers: &[&ServerEntry], replicas: u8) -> Vec<Problem> {
    let mut problems = Vec::new();
    if replicas < 2 {
        problems.push(Problem::OneReplica);
    }
    if servers.iter().all(|server| zone(server).is_none()) {
        problems.push(Problem::NoZones);
        return problems;
    }
    for server in servers.iter().filter(|server| server.master) {
        let Some(own) = zone(server) else { continue };
        let near = servers.iter().any(|e| e.backup && zone(e) == Some(own) && domain(e) != domain(server));
        if !near {
            problems.push(Problem::AloneInZone { server: server.id, zone: own.to_owned() });
        }
    }
    problems
}

fn neighbouring(
    servers: &[&ServerEntry],
    topology: &Topology,
    placement: ReplicaPlacement,
    (by, replicas): (Neighbouring, u8),
) -> Vec<Problem> {
    if let Err(why) = check_neighbourhoods(topology, placement) {
        return vec![Problem::NoNeighbourhoods { why }];
    }
    let network = Network::new(topology, servers.iter().copied());
    let mut problems = Vec::new();
    let mut small: BTreeMap<usize, Vec<[ServerId; 2]>> = BTreeMap::new();
    for server in servers.iter().filter(|server| server.master).map(|server| server.id) {
        if neighbourhoods(&network, by, server, 1).is_empty() {
            problems.push(Problem::Alone { server });
            continue;
        }
        for neighbour in network.near(server).into_iter().filter(|_| by.is_ring()) {
            let feeders = network.ring(server, neighbour).len();
            if feeders == 0 {
                problems.push(Problem::NoFeeders { server, neighbour });
            } else if by == Neighbouring::StrictRing && feeders < usize::from(replicas) {
                small.entry(feeders).or_default().push([server, neighbour]);
            }
        }
    }
    let small = small.into_iter().map(|(feeders, rings)| Problem::SmallRings { rings, feeders, replicas });
    problems.extend(small);
    problems
}

/// Masters whose buffers, or whose log, are not room for all their neighbourhoods; those of one kind together.
fn few_heads(
    servers: &[&ServerEntry],
    (network, by, most): (&Network<'_>, Neighbouring, usize),
    replicas: u8,
    rooms: &BTreeMap<ServerId, HeadRoom>,
) -> Vec<Problem> {
    let mut few: BTreeMap<(usize, usize, bool), Vec<ServerId>> = BTreeMap::new();
    for server in servers.iter().filter(|server| server.master).map(|server| server.id) {
        let Some(room) = rooms.get(&server) else { continue };
        let wanted = neighbourhoods(network, by, server, most).len();
        let employed = wanted.min(room.neighbourhoods_max(replicas));
        if employed < wanted {
            few.entry((employed, wanted, room.is_bound_by_buffers(replicas))).or_default().push(server);
        }
    }
    let problem = |((employed, wanted, of_buffers), servers)| Problem::FewHeads {
        servers,
        employed,
        wanted,
        replicas,
        of_buffers,
    };
    few.into_iter().map(problem).collect()
}

fn hosts_in_zones(servers: &[&ServerEntry]) -> Vec<Problem> {
    let mut zones: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for server in servers {
        if let (Some(host), Some(zone)) = (label(server, "host"), zone(server)) {
            zones.entry(host).or_default().insert(zone);
        }
    }
    let several = zones.into_iter().filter(|(_, zones)| zones.len() > 1);
    let problem = |(host, zones): (&str, BTreeSet<&str>)| Problem::HostInZones {
        host: host.to_owned(),
        zones: zones.into_iter().map(|zone| format!("'{zone}'")).collect(),
    };
    several.map(problem).collect()
}

fn links(servers: &[&ServerEntry]) -> Vec<Problem> {
    let names: BTreeSet<&str> =
        servers.iter().flat_map(|server| server.links()).map(|link| link.name.as_str()).collect();
    let without = |name: &str| {
        let lacks = servers.iter().filter(|server| !server.links().iter().any(|link| link.name == name));
        lacks.map(|server| server.id).collect::<Vec<ServerId>>()
    };
    let missing = names.into_iter().map(|name| (name, without(name))).filter(|(_, w)| !w.is_empty());
    missing.map(|(name, without)| Problem::LinkOfSome { link: name.to_owned(), without }).collect()
}
