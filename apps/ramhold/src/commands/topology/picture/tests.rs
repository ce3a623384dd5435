//! Pictures of small networks, by the words and marks in them.

use super::*;
use ramhold_client::{ServerEntry, ServerId, ServerState};
use ramhold_placement::Network;
use ramhold_wire::control::Address;
use ramhold_wire::membership::Label;
use ramhold_wire::outage::{Outage, OutageKind, StandingOutage};

/// A server with these labels; ids count from 1.
fn server(index: usize, labels: &[(&str, &str)]) -> ServerEntry {
    let label = |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
    ServerEntry {
        id: ServerId(index as u64 + 1),
        address: Address(std::net::SocketAddr::from(([10, 0, 0, 1], 7401))),
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

fn cube(places: &[&str]) -> Vec<ServerEntry> {
    places.iter().enumerate().map(|(index, place)| server(index, &[("bcube", place)])).collect()
}

const NINE: [&str; 9] = ["00", "01", "02", "10", "11", "12", "20", "21", "22"];

fn drawn(
    topology: &str,
    servers: &[ServerEntry],
    outages: &[Outage],
    marked: Option<u64>,
) -> Result<String, String> {
    let topology = topology.parse().unwrap();
    let up = servers.iter().filter(|server| server.state == ServerState::Up);
    let outages: Vec<StandingOutage> =
        outages.iter().map(|outage| StandingOutage { outage: outage.clone(), millis: 7_000 }).collect();
    draw(&Scene {
        topology: &topology,
        servers,
        network: &Network::new(&topology, up),
        outages: &outages,
        marked: marked.map(ServerId),
    })
}

fn outage(what: OutageKind, switch: &str, servers: &[u64]) -> Outage {
    Outage {
        what,
        switch: switch.into(),
        link: None,
        servers: servers.iter().copied().map(ServerId).collect(),
    }
}

/// The crosses of things that are down.
fn crosses(svg: &str) -> usize {
    svg.matches("stroke-width=\"2.5\"").count()
}

// H1
#[test]
fn every_server_and_switch_of_a_grid_is_drawn_once() {
    let svg = drawn("bcube:3,1", &cube(&NINE), &[], None).unwrap();
    for (index, place) in NINE.iter().enumerate() {
        assert_eq!(svg.matches(&format!(">{place}  s{}<", index + 1)).count(), 1, "{place}");
    }
    for switch in ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"] {
        assert_eq!(svg.matches(&format!(">&lt;{switch}&gt;</text>")).count(), 1, "{switch}");
    }
    assert_eq!(crosses(&svg), 0);
    // A link from each server to two switches, and a line along each switch.
    assert_eq!(svg.matches("<line").count(), 2 * 9 + 6);
    assert!(svg.contains("bcube:3,1: 9 servers up"));
    let cubes = drawn("bcube:3,2", &[], &[], None).unwrap();
    assert_eq!(cubes.matches(">no server</text>").count(), 27 + 1, "and one in the legend");
    assert_eq!(
        cubes.matches("<line").count(),
        27 * 3 + 18,
        "further levels have no line along their servers"
    );
    assert_eq!(cubes.matches(">&lt;2,").count(), 9);
}

// H1, H4
#[test]
fn what_is_down_is_drawn_as_down_and_told_in_words() {
    let servers = cube(&NINE);
    let with = |outage| drawn("bcube:3,1", &servers, &[outage], None).unwrap();
    let link = with(outage(OutageKind::Link, "<0,1>", &[5]));
    assert_eq!(crosses(&link), 1);
    assert!(link.contains("link down: s5 on switch &lt;0,1&gt;, for 7 s"), "{link}");
    // The switch, and the links of its three servers.
    assert_eq!(crosses(&with(outage(OutageKind::Switch, "<1,2>", &[]))), 4);
    assert_eq!(crosses(&with(outage(OutageKind::Path, "<0,1>", &[4, 5]))), 1);
    let mut dead = cube(&NINE);
    dead[4].state = ServerState::Crashed;
    let svg = drawn("bcube:3,1", &dead, &[], None).unwrap();
    assert!(svg.contains(">11  s5<") && svg.contains(": 8 servers up"));
    assert_eq!((crosses(&svg), svg.matches(">down</text>").count()), (1, 2));
    // A server that is up at the place of a dead one is the one that is drawn.
    dead.push(server(9, &[("bcube", "11")]));
    let svg = drawn("bcube:3,1", &dead, &[], None).unwrap();
    assert!(svg.contains(">11  s10<") && !svg.contains(">11  s5<"));
}

// H2
#[test]
fn rings_are_told_in_the_boxes_of_their_servers() {
    let svg = drawn("bcube:3,1", &cube(&NINE), &[], Some(1)).unwrap();
    assert!(svg.contains("the rings of 00"));
    assert_eq!(svg.matches(">recovers</text>").count(), 4);
    for feeds in ["feeds 01 10", "feeds 02 10", "feeds 01 20", "feeds 02 20"] {
        assert_eq!(svg.matches(&format!(">{feeds}</text>")).count(), 1, "{feeds}");
    }
    let mut holes = cube(&NINE);
    holes[1].state = ServerState::Crashed;
    let svg = drawn("bcube:3,1", &holes, &[], Some(1)).unwrap();
    assert!(svg.contains(">feeds 10</text>"), "nobody feeds a dead neighbour");
}

// H1
#[test]
fn racks_stand_in_their_zones() {
    let servers = [
        server(0, &[("zone", "a"), ("rack", "r1")]),
        server(1, &[("zone", "a"), ("rack", "r1")]),
        server(2, &[("zone", "a<b"), ("rack", "r1")]),
        server(3, &[("zone", "c")]),
    ];
    let down = [outage(OutageKind::Rack, "a/r1", &[1, 2])];
    let svg = drawn("zones", &servers, &down, None).unwrap();
    for words in [">zone a<", ">a/r1<", ">zone a&lt;b<", ">a&lt;b/r1<", ">zone c<", ">no rack<", ">s4<"] {
        assert_eq!(svg.matches(words).count(), 1, "{words} in {svg}");
    }
    assert_eq!(crosses(&svg), 3, "the switch and two links");
    let near = drawn("zones", &servers, &[], Some(1)).unwrap();
    assert!(near.contains("who is near s1") && !near.contains("recovers"), "a rack has no rings");
    assert_eq!(near.matches(">near</text>").count(), 1);
}

// H1
#[test]
fn a_picture_without_content_is_refused_in_words() {
    let refused = |topology, servers: &[ServerEntry]| drawn(topology, servers, &[], None).unwrap_err();
    assert!(refused("flat", &cube(&NINE)).contains("the topology is flat, so no switches are known; give"));
    assert!(refused("zones", &[]).contains("no server is known; start one"));
    assert!(refused("bcube:17,1", &[]).contains("289 servers"));
}
