//! Reports of neighbours, and the verdicts that follow. Catalogue: F1, H3, H4; A7, N4, N7, O3 of the fault list.

use crate::harness::*;
use ramhold_base::{KeyHash, ServerId, Status, TableId};
use ramhold_wire::membership::Label;
use ramhold_wire::neighbours::{NeighbourReach, NeighbourReport, SilentNeighbour};
use ramhold_wire::outage::OutageKind;
use ramhold_wire::recovery::TabletStat;
use ramhold_wire::topology::Topology;
use std::collections::BTreeMap;
use std::time::Duration;

use NeighbourReach::{Elsewhere, Lost, Unknown};

/// Racks of these sizes; servers are numbered from 1 on.
fn racks(sizes: &[u64]) -> World {
    let mut world = World::new();
    world.config.topology = Some(Topology::Zones);
    world.restart();
    let mut port = 0;
    for (rack, size) in sizes.iter().enumerate() {
        for _ in 0..*size {
            port += 1;
            let label = |name: &str, value: String| Label { name: name.into(), value };
            let host = label("host", format!("h{port}"));
            let labels = vec![label("zone", "a".into()), label("rack", format!("r{rack}")), host];
            world.enlist_labelled(port, labels);
        }
    }
    world.run(Duration::from_millis(500));
    world
}

/// A server, what it tells of which others, and whether it is cut off.
type Said<'a> = (u16, &'a [(u64, NeighbourReach)], bool);

/// Sends the next report of a server.
#[derive(Default)]
struct Teller {
    numbers: BTreeMap<u16, u64>,
}

impl Teller {
    fn tell(&mut self, world: &mut World, by: u16, silent: &[(u64, NeighbourReach)]) {
        self.tell_all(world, by, silent, false);
    }

    fn tell_all(&mut self, world: &mut World, by: u16, silent: &[(u64, NeighbourReach)], is_cut_off: bool) {
        let number = self.numbers.entry(by).or_default();
        *number += 1;
        let silent = silent.iter().map(|(server, reach)| SilentNeighbour {
            server: ServerId(*server),
            links: Vec::new(),
            reach: *reach,
        });
        let report = NeighbourReport { number: *number, silent: silent.collect(), is_cut_off };
        let answer = world.server(addr(by), &report).expect("an answer");
        assert_eq!(answer.is_ok(), world.state().is_up(ServerId(u64::from(by))), "{answer:?}");
    }

    /// Repeats the reports of these servers for a while.
    fn tell_for(&mut self, world: &mut World, millis: u64, reports: &[Said<'_>]) {
        for _ in 0..millis / 500 {
            for (by, silent, is_cut_off) in reports {
                self.tell_all(world, *by, silent, *is_cut_off);
            }
            world.run(Duration::from_millis(500));
        }
    }
}

fn silence(world: &mut World, port: u16) {
    world.server_mut(port).mood = Mood::Silent;
}

fn outages(world: &mut World) -> Vec<OutageKind> {
    world.status().outages.unwrap_or_default().iter().map(|standing| standing.outage.what).collect()
}

#[test]
fn two_neighbours_and_the_coordinator_convict_within_a_tenth_of_a_second() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    silence(&mut world, 4);
    teller.tell(&mut world, 1, &[(4, Unknown)]);
    world.run(Duration::from_millis(50));
    teller.tell(&mut world, 1, &[(4, Lost)]);
    world.run(Duration::from_millis(30));
    teller.tell(&mut world, 2, &[(4, Lost)]);
    assert!(world.state().is_up(ServerId(4)), "asked for 80 ms");
    world.run(Duration::from_millis(30));
    assert!(!world.state().is_up(ServerId(4)));
    let cause = world.reports.join("\n");
    assert!(cause.contains("its neighbours s1, s2 have lost every path to it"), "{cause}");
}

#[test]
fn one_neighbour_alone_does_not_shorten_the_verdict() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    silence(&mut world, 4);
    for _ in 0..9 {
        teller.tell(&mut world, 1, &[(4, Lost)]);
        world.run(Duration::from_millis(100));
    }
    assert!(world.state().is_up(ServerId(4)));
    world.run(Duration::from_millis(300));
    assert!(!world.state().is_up(ServerId(4)), "the verification's own time is over");
}

#[test]
fn a_neighbour_that_is_reached_elsewhere_is_not_accused() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    silence(&mut world, 4);
    for by in [1, 2, 3] {
        teller.tell(&mut world, by, &[(4, Elsewhere)]);
    }
    world.run(Duration::from_millis(900));
    assert!(world.state().is_up(ServerId(4)));
}

#[test]
fn an_answer_of_the_accused_answers_what_was_said_before() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    for by in [1, 2] {
        teller.tell(&mut world, by, &[(4, Lost)]);
    }
    world.run(Duration::from_millis(300));
    // It has answered the coordinator; now it stands still, and the same neighbours tell the same again.
    silence(&mut world, 4);
    for by in [1, 2] {
        teller.tell(&mut world, by, &[(4, Lost)]);
    }
    teller.tell(&mut world, 3, &[(4, Unknown)]);
    world.run(Duration::from_millis(500));
    assert!(world.state().is_up(ServerId(4)));
    // They have heard it meanwhile, and lose it anew.
    for by in [1, 2] {
        teller.tell(&mut world, by, &[]);
        teller.tell(&mut world, by, &[(4, Lost)]);
    }
    world.run(Duration::from_millis(110));
    assert!(!world.state().is_up(ServerId(4)));
}

#[test]
fn what_is_taken_back_and_what_the_dead_have_told_does_not_count() {
    let mut world = racks(&[5]);
    let mut teller = Teller::default();
    silence(&mut world, 5);
    teller.tell(&mut world, 1, &[(5, Lost)]);
    teller.tell(&mut world, 1, &[]);
    teller.tell(&mut world, 2, &[(5, Lost)]);
    world.run(Duration::from_millis(300));
    assert!(world.state().is_up(ServerId(5)), "one has taken it back");
    // The one that still accuses dies, and another one accuses.
    world.kill(2);
    world.step(ramhold_base::Input::Lost { addr: addr(2), how: ramhold_base::Lost::Broken });
    world.run(Duration::from_millis(150));
    assert!(!world.state().is_up(ServerId(2)));
    teller.tell(&mut world, 1, &[(5, Lost)]);
    world.run(Duration::from_millis(200));
    assert!(world.state().is_up(ServerId(5)), "one accuser is dead");
}

#[test]
fn who_answers_the_coordinator_and_none_of_its_neighbours_is_isolated() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    let lost: &[(u64, NeighbourReach)] = &[(4, Lost)];
    let alone: &[(u64, NeighbourReach)] = &[(1, Unknown), (2, Unknown), (3, Unknown)];
    let reports = [(1, lost, false), (2, lost, false), (3, lost, false), (4, alone, true)];
    teller.tell_for(&mut world, 2500, &reports);
    assert!(world.state().is_up(ServerId(4)), "not for 3 s");
    teller.tell_for(&mut world, 1000, &reports);
    assert!(!world.state().is_up(ServerId(4)));
    assert!(world.reports.join("\n").contains("isolated"));
    assert!([1, 2, 3].iter().all(|id| world.state().is_up(ServerId(*id))));
}

#[test]
fn who_is_heard_by_one_neighbour_is_not_isolated() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    let lost: &[(u64, NeighbourReach)] = &[(4, Lost)];
    // Server 3 tells of no silence.
    teller.tell_for(&mut world, 6000, &[(1, lost, false), (2, lost, false)]);
    assert!(world.state().is_up(ServerId(4)));
    // And reports that are not repeated are over.
    teller.tell(&mut world, 3, lost);
    world.run(Duration::from_secs(6));
    assert!(world.state().is_up(ServerId(4)));
}

#[test]
fn who_has_one_neighbour_left_is_not_isolated() {
    let mut world = racks(&[3]);
    let mut teller = Teller::default();
    world.kill(3);
    world.run(Duration::from_millis(600));
    assert!(!world.state().is_up(ServerId(3)));
    teller.tell_for(&mut world, 6000, &[(1, &[(2, Lost)], false)]);
    assert!(world.state().is_up(ServerId(2)), "there is one witness");
}

#[test]
fn those_who_are_cut_off_are_no_witnesses() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    let lost = [1, 2, 3, 4]
        .map(|own| [1, 2, 3, 4].into_iter().filter(|id| *id != own).map(|id| (id, Lost)).collect::<Vec<_>>());
    // The rack's switch is down, and everybody answers the coordinator.
    let reports =
        [(1, &lost[0][..], true), (2, &lost[1][..], true), (3, &lost[2][..], true), (4, &lost[3][..], true)];
    teller.tell_for(&mut world, 6000, &reports);
    assert_eq!(world.state().all_up().count(), 4);
    assert_eq!(world.state().recoveries.len(), 0);
}

#[test]
fn the_isolated_are_ended_one_at_a_time() {
    let mut world = racks(&[6]);
    let mut teller = Teller::default();
    world.create("users", buffered(2, 7));
    // Backups are not heard, so no recovery ends.
    let lost: &[(u64, NeighbourReach)] = &[(5, Lost), (6, Lost)];
    let reports = [(1, lost, false), (2, lost, false), (3, lost, false), (4, lost, false)];
    let alone: &[(u64, NeighbourReach)] = &[(1, Unknown), (2, Unknown)];
    let all = [&reports[..], &[(5, alone, true), (6, alone, true)]].concat();
    for port in 1..=6 {
        world.server_mut(port).deaf.insert(ramhold_wire::Opcode::Fence);
    }
    teller.tell_for(&mut world, 4000, &all);
    assert_eq!(world.state().all_up().count(), 5, "the recovery of the first one is not over");
    let (first, last) = (KeyHash(0), KeyHash(u64::MAX));
    let stat = TabletStat { table: TableId(1), first, last, bytes: 1 << 20, records: 10 };
    for port in [1, 2] {
        let report = head_report(2, 1, 0, 500, &[1], &[stat]);
        world.server_mut(port).replicas.entry(ServerId(5)).or_default().push(report);
    }
    for port in 1..=6 {
        world.server_mut(port).deaf.clear();
    }
    teller.tell_for(&mut world, 8000, &reports);
    assert_eq!(world.state().all_up().count(), 4);
}

#[test]
fn a_switch_that_is_down_is_one_event_and_no_recovery() {
    let mut world = racks(&[3, 3]);
    let mut teller = Teller::default();
    let elsewhere = |own: u64| {
        (1..=3).filter(|id| *id != own).map(|id| (id, Elsewhere)).collect::<Vec<(u64, NeighbourReach)>>()
    };
    let silences = [elsewhere(1), elsewhere(2), elsewhere(3)];
    let reports = [(1, &silences[0][..], false), (2, &silences[1][..], false), (3, &silences[2][..], false)];
    teller.tell_for(&mut world, 500, &reports);
    assert_eq!(outages(&mut world), [], "it may be over at once");
    teller.tell_for(&mut world, 5000, &reports);
    assert_eq!(outages(&mut world), [OutageKind::Switch]);
    for by in [1, 2, 3] {
        teller.tell(&mut world, by, &[]);
    }
    world.run(Duration::from_millis(500));
    assert_eq!(outages(&mut world), []);
    let events: Vec<&String> =
        world.reports.iter().filter(|text| text.contains("switch a/r0 down")).collect();
    assert_eq!(events.len(), 2, "its beginning and its end: {events:?}");
    assert_eq!(world.state().recoveries.len(), 0);
}

#[test]
fn the_silences_around_a_dead_server_are_no_outage() {
    let mut world = racks(&[4]);
    let mut teller = Teller::default();
    silence(&mut world, 4);
    for _ in 0..5 {
        for by in [1, 2, 3] {
            teller.tell(&mut world, by, &[(4, Unknown)]);
        }
        world.run(Duration::from_millis(300));
    }
    assert!(!world.state().is_up(ServerId(4)));
    assert!(!world.reports.iter().any(|text| text.contains("down:")), "{}", world.reports.join("\n"));
}

#[test]
fn reports_of_strangers_and_about_others_are_refused_or_left_out() {
    let mut world = racks(&[2, 2]);
    let lost = |server| SilentNeighbour { server: ServerId(server), links: Vec::new(), reach: Lost };
    let report = NeighbourReport { number: 1, silent: vec![lost(1)], is_cut_off: false };
    assert_eq!(world.client(&report), Some(Err(Status::NotAllowed)));
    let many = NeighbourReport { silent: vec![lost(2); 65], ..report.clone() };
    assert_eq!(world.server(addr(1), &many), Some(Err(Status::BadRequest)));
    let links = SilentNeighbour { links: vec!["x".repeat(65)], ..lost(2) };
    let long = NeighbourReport { silent: vec![links], ..report };
    assert_eq!(world.server(addr(1), &long), Some(Err(Status::BadRequest)));
    // Servers of the other rack are no neighbours.
    let mut teller = Teller::default();
    silence(&mut world, 1);
    for by in [3, 4] {
        teller.tell(&mut world, by, &[(1, Lost)]);
    }
    world.run(Duration::from_millis(500));
    assert!(world.state().is_up(ServerId(1)));
    // An earlier report that comes late changes nothing.
    let mut world = racks(&[4]);
    silence(&mut world, 4);
    for by in [1, 2] {
        for (number, silent) in [(7, vec![]), (6, vec![lost(4)])] {
            let report = NeighbourReport { number, silent, is_cut_off: false };
            world.server(addr(by), &report).unwrap().unwrap();
        }
    }
    world.run(Duration::from_millis(500));
    assert!(world.state().is_up(ServerId(4)));
}
