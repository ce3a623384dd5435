//! Neighbourhoods against the worked example, the numbers of copysets, and in drawn networks.
//!
//! Catalogue: H2, H3. Source: RAMCUBE 3.2, 3.3.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use ramhold_base::{Rng, ServerId};
use ramhold_placement::{
    Grid, HeadRoom, Network, backups, check, further_backups, neighbourhoods, ring_successors, shares_of_gone,
};
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Label, ServerEntry, ServerState};
use ramhold_wire::topology::Topology;
use ramhold_wire::{Neighbouring, ReplicaPlacement};
use std::collections::{BTreeMap, BTreeSet};

/// A server; its id is the place of its label in the list, from 1 on.
fn server(index: usize, labels: &[(&str, String)]) -> ServerEntry {
    let label = |(name, value): &(&str, String)| Label { name: (*name).into(), value: value.clone() };
    ServerEntry {
        id: ServerId(index as u64 + 1),
        address: Address(std::net::SocketAddr::from(([127, 0, 0, 1], 7401))),
        labels: labels.iter().map(label).collect(),
        state: ServerState::Up,
        master: true,
        backup: true,
        read_speed: 1,
        directory: Default::default(),
        kept: false,
        replicates: false,
        replicates_only: None,
        redis_cluster_port: None,
        links: None,
    }
}

/// Servers at all places of a grid but these.
fn at_places(topology: &Topology, holes: &[&str]) -> Vec<ServerEntry> {
    let grid = Grid::of(topology).unwrap();
    let names = grid.labels().map(|label| grid.name(&label)).filter(|name| !holes.contains(&name.as_str()));
    let label = topology.label_name().unwrap();
    names.enumerate().map(|(index, name)| server(index, &[(label, name)])).collect()
}

fn named(network: &Network<'_>, servers: &[ServerId]) -> String {
    servers.iter().map(|server| network.place_name(*server).unwrap()).collect::<Vec<_>>().join(" ")
}

fn at(network: &Network<'_>, servers: &[ServerEntry], place: &str) -> ServerId {
    let found = servers.iter().find(|server| network.place_name(server.id).as_deref() == Some(place));
    found.unwrap().id
}

// H2
#[test]
fn the_neighbourhoods_of_a_master_are_its_rings() {
    let topology: Topology = "bcube:4,1".parse().unwrap();
    let servers = at_places(&topology, &[]);
    let network = Network::new(&topology, servers.iter());
    let master = at(&network, &servers, "00");
    let told = |most| {
        let all = neighbourhoods(&network, Neighbouring::MultiRing, master, most);
        all.iter().map(|n| format!("{}: {}", n.name, named(&network, &n.feeders))).collect::<Vec<_>>()
    };
    // In turns over the levels.
    let all =
        ["01: 11 21 31", "10: 11 12 13", "02: 12 22 32", "20: 21 22 23", "03: 13 23 33", "30: 31 32 33"];
    assert_eq!(told(64), all);
    assert_eq!(told(4), all[..4]);
    assert_eq!(
        named(&network, &backups(&network, Neighbouring::MultiRing, master)),
        "11 12 13 21 22 23 31 32 33"
    );
    // A place without a server makes two rings smaller.
    let servers = at_places(&topology, &["11"]);
    let network = Network::new(&topology, servers.iter());
    let sizes = neighbourhoods(&network, Neighbouring::MultiRing, at(&network, &servers, "00"), 64);
    let sizes: BTreeMap<String, usize> = sizes.into_iter().map(|n| (n.name, n.feeders.len())).collect();
    assert_eq!(sizes.into_values().collect::<Vec<_>>(), [2, 3, 3, 2, 3, 3]);
}

/// The sets of servers whose loss loses a segment, over all masters, recoverers and primaries.
fn copysets(replicas: usize, is_strict: bool) -> usize {
    let topology: Topology = "bcube:4,1".parse().unwrap();
    let servers = at_places(&topology, &[]);
    let network = Network::new(&topology, servers.iter());
    let mut sets = BTreeSet::new();
    for master in servers.iter().map(|server| server.id) {
        for neighbourhood in neighbourhoods(&network, Neighbouring::MultiRing, master, 64) {
            for primary in neighbourhood.feeders.iter().copied() {
                let further = match is_strict {
                    true => ring_successors(&neighbourhood.feeders, primary),
                    false => further_backups(&network, Neighbouring::MultiRing, master, primary),
                };
                let others = further.into_iter().take(replicas - 1);
                sets.insert([master, primary].into_iter().chain(others).collect::<BTreeSet<_>>());
            }
        }
    }
    sets.len()
}

// D4, H2: of 560 sets of three, and 1,820 of four.
#[test]
fn few_sets_of_servers_hold_all_copies_of_something() {
    assert_eq!([copysets(2, true), copysets(2, false)], [288, 104]);
    assert_eq!([copysets(3, true), copysets(3, false)], [96, 76]);
}

// H2, D3: no copy beside another in a rack, as long as there are racks.
#[test]
fn further_replicas_are_in_racks_of_their_own() {
    let topology: Topology = "bcube:4,1".parse().unwrap();
    let servers = at_places(&topology, &[]);
    let network = Network::new(&topology, servers.iter());
    for master in servers.iter().map(|server| server.id) {
        for primary in backups(&network, Neighbouring::MultiRing, master) {
            let further = further_backups(&network, Neighbouring::MultiRing, master, primary);
            let copies = [&[master, primary][..], &further[..2]].concat();
            let racks: BTreeSet<_> = copies.iter().map(|server| network.rack_of(*server)).collect();
            assert_eq!((racks.len(), further.len()), (4, 8));
        }
    }
}

// H2: shares of 3.1 of the design: 1/6 1/6 2/9 2/9 2/9.
#[test]
fn the_part_of_a_dead_recoverer_is_cut_as_its_feeders_feed_others() {
    let topology: Topology = "bcube:4,1".parse().unwrap();
    let servers = at_places(&topology, &[]);
    let network = Network::new(&topology, servers.iter());
    let mut left = neighbourhoods(&network, Neighbouring::MultiRing, at(&network, &servers, "00"), 64);
    let gone = left.remove(0);
    assert_eq!(gone.name, "01");
    let shares: BTreeMap<String, f64> = left
        .iter()
        .map(|n| n.name.clone())
        .zip(shares_of_gone(&gone, &left).into_iter().map(|share| (1.0 + share) / 6.0))
        .collect();
    for (name, share) in
        [("02", 1.0 / 6.0), ("03", 1.0 / 6.0), ("10", 2.0 / 9.0), ("20", 2.0 / 9.0), ("30", 2.0 / 9.0)]
    {
        assert!((shares[name] - share).abs() < 1e-9, "{name}: {}", shares[name]);
    }
}

// H3
#[test]
fn rack_local_neighbourhoods_are_the_other_racks() {
    let topology = Topology::Zones;
    let servers: Vec<ServerEntry> = (0..16)
        .map(|index| server(index, &[("zone", "z".into()), ("rack", format!("r{}", index / 4))]))
        .collect();
    let network = Network::new(&topology, servers.iter());
    let all = neighbourhoods(&network, Neighbouring::RackLocal, ServerId(1), 64);
    assert_eq!(all.len(), 3);
    for neighbourhood in &all {
        assert_eq!((neighbourhood.recoverers.len(), &neighbourhood.feeders), (4, &neighbourhood.recoverers));
        let primary = neighbourhood.feeders[0];
        let further = further_backups(&network, Neighbouring::RackLocal, ServerId(1), primary);
        let racks: BTreeSet<_> = further[..2].iter().map(|server| network.rack_of(*server)).collect();
        assert!(racks.len() == 2 && !racks.contains(&network.rack_of(primary)));
    }
    assert_eq!(neighbourhoods(&network, Neighbouring::MultiRing, ServerId(1), 64), [], "there are no levels");
}

// H2: whatever the shape, and whatever places are free.
#[test]
fn neighbourhoods_hold_what_they_promise_in_a_thousand_drawn_networks() {
    for seed in 0..1000 {
        let mut rng = Rng::new(seed);
        let radices: Vec<u16> = (0..rng.between(1, 3)).map(|_| rng.between(2, 5) as u16).collect();
        let topology = Topology::Grid(radices);
        let mut servers = at_places(&topology, &[]);
        rng.shuffle(&mut servers);
        servers.truncate(rng.between(1, servers.len() as u64) as usize);
        let network = Network::new(&topology, servers.iter());
        for master in servers.iter().map(|server| server.id) {
            let most = rng.between(1, 8) as usize;
            let all = neighbourhoods(&network, Neighbouring::MultiRing, master, 64);
            let employed = neighbourhoods(&network, Neighbouring::MultiRing, master, most);
            assert_eq!(employed, all[..most.min(all.len())], "seed {seed}");
            let near: BTreeSet<ServerId> = network.near(master).into_iter().collect();
            for neighbourhood in &all {
                assert!(!neighbourhood.feeders.is_empty() && near.contains(&neighbourhood.recoverers[0]));
                let is_far = |feeder: &ServerId| *feeder != master && !near.contains(feeder);
                assert!(neighbourhood.feeders.iter().all(is_far), "seed {seed}");
            }
            // A backup feeds as many recoverers as the two have neighbours in common.
            for backup in backups(&network, Neighbouring::MultiRing, master) {
                let common = network.near(backup).into_iter().filter(|id| near.contains(id)).count();
                let feeds = all.iter().filter(|n| n.feeders.contains(&backup)).count();
                assert_eq!(feeds, common, "seed {seed}");
            }
            for (index, gone) in all.iter().enumerate() {
                let left: Vec<_> = all
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != index)
                    .map(|(_, n)| n.clone())
                    .collect();
                let sum: f64 = shares_of_gone(gone, &left).iter().sum();
                assert!(left.is_empty() || (sum - 1.0).abs() < 1e-9, "seed {seed}: {sum}");
            }
        }
    }
}

// H2: buffers, or a small log, bound the neighbourhoods; the remedy is enough.
#[test]
fn a_check_tells_of_neighbourhoods_without_room_for_their_heads() {
    let topology: Topology = "bcube:3,1".parse().unwrap();
    let servers = at_places(&topology, &[]);
    let servers: Vec<&ServerEntry> = servers.iter().collect();
    let problems = |placement: &str, replicas, room: HeadRoom| {
        let rooms = servers.iter().map(|server| (server.id, room)).collect();
        let placement = placement.parse::<ReplicaPlacement>().unwrap();
        check(&servers, &topology, placement, replicas, &rooms)
    };
    let room = |buffers| HeadRoom::new(Some(buffers), 1000);
    let found = problems("multiring", 3, room(12));
    assert!(!found[0].is_grave());
    let told = found[0].to_string();
    assert!(
        told.starts_with("s1 s2 s3 s4 s5 s6 s7 s8 s9 can employ 2 of 4 neighbourhoods: with 3"),
        "{told}"
    );
    assert_eq!(found[0].remedy(), "start all servers with --buffers 136MiB, which are 16 buffers, or more");
    assert_eq!(problems("multiring", 3, room(15)).len(), 1);
    assert_eq!(problems("multiring", 3, room(16)), []);
    // As many as are asked for, and as there are with fewer replicas.
    assert_eq!(problems("multiring:2", 3, room(12)), []);
    assert_eq!(problems("multiring", 2, room(12)), []);
    assert_eq!(problems("rack-local", 3, room(12)), []);
    let found = problems("multiring", 3, HeadRoom::new(Some(32), 8));
    assert!(found[0].to_string().contains("employ 2 of 4 neighbourhoods: their logs"));
    assert!(found[0].remedy().contains("a log of 128 MiB"), "{}", found[0].remedy());
}

// H2: rings smaller than R are named, in one line, and racks are refused before anything starts.
#[test]
fn a_check_names_strict_rings_that_are_too_small() {
    let topology: Topology = "bcube:3,1".parse().unwrap();
    let servers = at_places(&topology, &[]);
    let problems = |servers: &[ServerEntry], placement: &str, replicas| {
        let servers: Vec<&ServerEntry> = servers.iter().collect();
        let found = check(&servers, &topology, placement.parse().unwrap(), replicas, &BTreeMap::new());
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(problems(&servers, "multiring-strict", 2), [""; 0]);
    assert_eq!(problems(&servers, "multiring", 3), [""; 0]);
    let found = problems(&servers, "multiring-strict", 3);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("rings have 2 of 3 replicas, and the others go elsewhere: s1-s2 s1-s3"),
        "{found:?}"
    );
    assert!(found[0].ends_with("and 24 more"), "nine servers have four neighbours each: {found:?}");
    let mut racked = servers.clone();
    racked[4].labels.push(Label { name: "rack".into(), value: "r1".into() });
    assert!(problems(&racked, "multiring-strict", 2)[0].contains("would be refused"));
    assert_eq!(problems(&racked, "multiring", 2).iter().filter(|p| p.contains("refused")).count(), 0);
}
