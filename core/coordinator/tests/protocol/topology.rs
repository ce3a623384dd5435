//! The topology: who is given a place, and who is told of it. Catalogue: H1.

use crate::harness::*;
use ramhold_base::{ConnId, ServerId, Status};
use ramhold_wire::membership::{Enlist, Label, LabelRefusal, PlaceFault};
use ramhold_wire::topology::Topology;
use ramhold_wire::{Header, decode};
use std::time::Duration;

fn at(name: &str, value: &str) -> Vec<Label> {
    vec![Label { name: name.into(), value: value.into() }]
}

/// A cluster of BCube(4, 1) with servers at these places, on the ports from 1 on.
fn bcube(places: &[&str]) -> World {
    let mut world = World::new();
    world.config.topology = Some("bcube:4,1".parse().expect("a topology"));
    world.restart();
    for (port, place) in (1..).zip(places) {
        world.enlist_labelled(port, at("bcube", place));
    }
    world.run(Duration::from_millis(500));
    world
}

/// The answer to a server that enlists with these labels.
fn refused(world: &mut World, port: u16, labels: Vec<Label>) -> (Status, Option<LabelRefusal>) {
    let message =
        Enlist { labels, ..World::enlist_message(port, 4200 + u64::from(port), u64::from(port), None) };
    let rpc = world.push(ConnId(u64::from(port)), Header::default(), &message);
    world.settle();
    let (status, body) = world.answer_to(rpc).expect("an answer");
    (status, decode(body).ok())
}

#[test]
fn a_server_without_a_place_is_refused_and_told_why() {
    let mut world = bcube(&["00", "01"]);
    for (labels, fault, text) in [
        (vec![], PlaceFault::Missing, "this server has no label bcube; give --label bcube=00"),
        (at("zone", "a"), PlaceFault::Missing, "no label bcube"),
        (at("bcube", "14"), PlaceFault::NoPlace, "'14': digit 4 of level 0 must be below 4"),
        (at("bcube", "1"), PlaceFault::NoPlace, "'1': it has 1 digits, and the topology has 2 levels"),
        (at("bcube", "1x"), PlaceFault::NoPlace, "names no place"),
    ] {
        let (status, refusal) = refused(&mut world, 3, labels);
        let refusal = refusal.unwrap();
        assert_eq!((status, refusal.fault), (Status::LabelRefused, fault));
        assert!(refusal.to_string().contains(text), "{refusal}");
    }
    assert_eq!(world.state().all_up().count(), 2);
    world.enlist_labelled(3, at("bcube", "33"));
    assert_eq!(world.state().all_up().count(), 3);
}

#[test]
fn strict_rings_are_only_for_servers_that_fail_one_by_one() {
    let mut world = bcube(&["00"]);
    world.config.placement = "multiring-strict".parse().expect("a placement");
    world.restart();
    world.run(Duration::from_millis(500));
    let place = |value: &str| at("bcube", value).into_iter().next().expect("one label");
    let domain = |name: &str| Label { name: name.into(), value: "a".into() };
    for name in ["zone", "rack"] {
        let (status, refusal) = refused(&mut world, 3, vec![place("11"), domain(name)]);
        let refusal = refusal.unwrap();
        assert_eq!((status, refusal.fault), (Status::LabelRefused, PlaceFault::Domain));
        assert!(refusal.to_string().contains(&format!("start without --label {name}=a")), "{refusal}");
    }
    world.enlist_labelled(3, vec![place("11"), domain("host")]);
    assert_eq!(world.state().all_up().count(), 2);
}

#[test]
fn a_place_is_given_once_until_the_server_there_is_dead() {
    let mut world = bcube(&["00", "01", "10"]);
    let (status, refusal) = refused(&mut world, 4, at("bcube", "0.1"));
    let refusal = refusal.unwrap();
    assert_eq!((status, refusal.fault), (Status::LabelRefused, PlaceFault::Taken));
    assert!(refusal.to_string().starts_with("s2 at "), "{refusal}");
    world.run(Duration::from_secs(5));
    assert_eq!(world.state().all_up().count(), 3, "a suspicion alone kills nobody");

    // The same directory starts again at its place: its earlier life is over.
    world.enlist_labelled(2, at("bcube", "01"));
    world.kill(3);
    let (status, _) = refused(&mut world, 4, at("bcube", "10"));
    assert_eq!(status, Status::LabelRefused);
    world.run(Duration::from_secs(5));
    let (status, _) = refused(&mut world, 4, at("bcube", "10"));
    assert_eq!(status, Status::Ok, "the server there is dead by now");
}

#[test]
fn the_topology_is_stored_and_told_and_another_must_fit_all_servers() {
    let mut world = bcube(&["00", "01"]);
    world.enlist_labelled(3, [at("bcube", "10"), at("zone", "b")].concat());
    let given: Topology = "bcube:4,1".parse().expect("a topology");
    world.config.topology = None;
    world.restart();
    world.run(Duration::from_secs(1));
    assert_eq!(world.status().topology, given, "it is stored");
    assert_eq!(
        [1, 2, 3].map(|port| world.server_mut(port).topology.clone()),
        [(); 3].map(|()| given.clone())
    );

    for text in ["zones", "bcube:4,0", "grid:4,4"] {
        world.config.topology = Some(text.parse().unwrap());
        world.restart();
        let (code, reason) = world.exit.clone().expect("it ends");
        assert_eq!(code, 2, "{reason}");
        assert!(reason.contains(&format!("--topology {text} does not fit its servers: s1 at ")), "{reason}");
        assert!(reason.contains("leave --topology out to go on with bcube:4,1"), "{reason}");
    }
    let larger: Topology = "bcube:5,1".parse().unwrap();
    world.config.topology = Some(larger.clone());
    world.restart();
    world.run(Duration::from_secs(1));
    assert_eq!(world.exit, None);
    assert_eq!(world.server_mut(1).topology, larger);
    assert!(
        world.reports.iter().any(|text| text == "the topology is bcube:5,1 from now on; it was bcube:4,1")
    );
    assert_eq!(world.state().up(ServerId(1)).map(|s| s.entry.labels.len()), Some(1));
}
