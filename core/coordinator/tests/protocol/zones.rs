//! The zones in which tables are at home, and in which dead servers are recovered. Catalogue: F4, H3.

use crate::harness::*;
use ramhold_base::{KeyHash, ServerId, Status, TableId};
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::membership::Label;
use ramhold_wire::recovery::{RoomReport, TabletStat};
use ramhold_wire::table::{TableAlter, TableCreate, TableOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The zone of the server on each port: three servers in a, four in b.
fn zone(port: u64) -> &'static str {
    if port <= 3 { "a" } else { "b" }
}

fn zones(placement: ReplicaPlacement) -> World {
    let mut world = World::new();
    world.config.placement = placement;
    world.config.partition_bytes_min = 1;
    world.config.segment_bytes = 1 << 10;
    world.restart();
    for port in 1..=7 {
        let label = Label { name: "zone".into(), value: zone(port).into() };
        world.enlist_labelled(port as u16, vec![label]);
    }
    world.run(Duration::from_millis(500));
    world
}

fn in_zone(zone: &str) -> TableOptions {
    TableOptions { zone: Some(zone.into()), ..buffered(2, 0) }
}

fn owners(world: &mut World, table: &str) -> BTreeSet<u64> {
    world.describe(table).tablets.iter().map(|tablet| tablet.owner.raw()).collect()
}

/// Server 1 has a heavy tablet of the table of this number, and its log is with the servers on these ports.
fn give_weight(world: &mut World, table: u32, bytes: u64, ports: &[u16]) {
    let (first, last) = (KeyHash(0), KeyHash(u64::MAX));
    let stat = TabletStat { table: TableId(table), first, last, bytes, records: 10 };
    for port in ports {
        let report = head_report(2, 1, 0, 500, &[1], &[stat]);
        world.server_mut(*port).replicas.entry(ServerId(1)).or_default().push(report);
    }
}

/// The servers that have recovered something of a dead one.
fn recoverers(world: &World) -> BTreeSet<u64> {
    let told = world.servers.values().filter(|server| !server.recovers.is_empty());
    told.map(|server| server.id.raw()).collect()
}

#[test]
fn with_zone_local_a_server_is_recovered_in_its_own_zone() {
    for (placement, expected) in
        [(ReplicaPlacement::ZoneLocal, vec![2, 3]), (ReplicaPlacement::Scatter, vec![2, 3, 4, 5, 6, 7])]
    {
        let mut world = zones(placement);
        world.create("users", buffered(2, 7));
        give_weight(&mut world, 1, 1 << 20, &[4, 5]);
        world.kill(1);
        world.run_until("it is recovered", |w| w.is_over(ServerId(1)));
        assert_eq!(recoverers(&world), expected.into_iter().collect(), "{placement}");
    }
}

#[test]
fn a_zone_without_room_or_without_masters_holds_nothing_up() {
    let mut world = zones(ReplicaPlacement::ZoneLocal);
    world.create("users", buffered(2, 7));
    give_weight(&mut world, 1, 1 << 20, &[4, 5]);
    for port in [2, 3] {
        world.server_mut(port).room = RoomReport { frames: 1 << 20, log_bytes: 1, lone_segments: 0 };
    }
    // Their rooms are told while the recovery of an empty server goes on.
    world.kill(7);
    world.run(Duration::from_secs(3));
    world.kill(1);
    world.run_until("it is recovered", |w| w.is_over(ServerId(1)));
    let outside = recoverers(&world);
    assert!(!outside.is_empty() && outside.is_disjoint(&[2, 3].into()), "{outside:?}");

    let mut world = zones(ReplicaPlacement::ZoneLocal);
    world.create("users", buffered(2, 7));
    give_weight(&mut world, 1, 1 << 20, &[4, 5]);
    for port in 1..=3 {
        world.give_head(ServerId(u64::from(port)), 2, &[4, 5]);
        world.kill(port);
    }
    world.run_until("all are recovered", |w| (1..=3).all(|id| w.is_over(ServerId(id))));
    assert!(owners(&mut world, "users").is_subset(&[4, 5, 6, 7].into()));
}

/// The number of partitions that each server was told to recover, by the last division.
fn partitions(world: &World) -> BTreeMap<u64, BTreeSet<(u64, u32)>> {
    let told = world.servers.values().map(|server| {
        let told = server.recovers.iter().map(|r| (r.crashed.raw(), r.partition));
        (server.id.raw(), told.collect())
    });
    told.filter(|(_, told): &(u64, BTreeSet<_>)| !told.is_empty()).collect()
}

// F7: the rooms of the zone's masters count once for all recoveries.
#[test]
fn two_servers_of_a_zone_that_its_last_master_cannot_take_go_elsewhere_too() {
    let mut world = zones(ReplicaPlacement::ZoneLocal);
    world.create("users", buffered(2, 7));
    let stats = |last: bool| {
        let at = if last { u64::MAX / 7 + 1 } else { 0 };
        TabletStat {
            table: TableId(1),
            first: KeyHash(at),
            last: KeyHash(at + 1),
            bytes: 1 << 20,
            records: 10,
        }
    };
    for (dead, last) in [(1, false), (2, true)] {
        for port in [4, 5] {
            let report = head_report(2, 1, 0, 500, &[1], &[stats(last)]);
            world.server_mut(port).replicas.entry(ServerId(dead)).or_default().push(report);
        }
    }
    // Room for one and a half of them, beside the eighth of a log that stays free.
    world.server_mut(3).room =
        RoomReport { frames: 1 << 20, log_bytes: (3 << 19) + (1 << 17), lone_segments: 0 };
    (3..=7).for_each(|port| world.server_mut(port).diligent = false);
    world.kill(7);
    world.run(Duration::from_secs(3));
    [1, 2].into_iter().for_each(|port| world.kill(port));
    world.run(Duration::from_secs(3));
    let told = partitions(&world);
    let bytes = |server: u64| told.get(&server).map_or(0, BTreeSet::len);
    assert_eq!(bytes(3), 1, "{told:?}");
    assert!((4..=6).map(bytes).sum::<usize>() >= 1, "{told:?}");
}

// F4: the last master of a zone does not take over all of it while others have nothing to do.
#[test]
fn a_home_with_few_masters_gives_partitions_away() {
    let mut world = World::new();
    world.config.placement = ReplicaPlacement::ZoneLocal;
    (world.config.partition_bytes_min, world.config.partition_bytes_max) = (1, 64 << 10);
    (world.config.segment_bytes, world.config.partitions_per_master) = (1 << 10, 1000);
    world.restart();
    for port in 1..=13 {
        let value = if port <= 2 { "a" } else { "b" };
        world.enlist_labelled(port, vec![Label { name: "zone".into(), value: value.into() }]);
    }
    world.run(Duration::from_millis(500));
    world.create("users", buffered(2, 13));
    give_weight(&mut world, 1, 64 << 20, &[4, 5]);
    (2..=13).for_each(|port| world.server_mut(port).diligent = false);
    world.kill(1);
    world.run(Duration::from_secs(4));
    let told = partitions(&world);
    let all: usize = told.values().map(BTreeSet::len).sum();
    let near = told[&2].len();
    // Eight times what each of the twelve would have.
    assert_eq!(near, (8 * all).div_ceil(12), "of {all}");
    assert!(all > near);
}

#[test]
fn a_table_of_a_zone_stays_there_while_the_zone_lives() {
    let mut world = zones(ReplicaPlacement::Scatter);
    world.create("near", in_zone("a"));
    world.create("far", buffered(2, 7));
    assert_eq!(owners(&mut world, "near"), [1, 2, 3].into(), "one tablet for each of its masters");
    assert_eq!(owners(&mut world, "far").len(), 7);
    world.give_head(ServerId(1), 2, &[4, 5]);
    world.kill(1);
    world.run_until("it is recovered", |w| w.is_over(ServerId(1)));
    assert_eq!(owners(&mut world, "near"), [2, 3].into());
    assert_eq!(world.describe("near").outside, Some(0));
    for port in [2, 3] {
        world.give_head(ServerId(u64::from(port)), 2, &[4, 5]);
        world.kill(port);
    }
    world.run_until("all are recovered", |w| (2..=3).all(|id| w.is_over(ServerId(id))));
    assert!(owners(&mut world, "near").is_subset(&[4, 5, 6, 7].into()));
    assert_eq!(world.describe("near").outside, Some(3), "and it says so");
}

#[test]
fn a_partition_has_tablets_of_one_home() {
    let mut world = zones(ReplicaPlacement::Scatter);
    world.config.partition_bytes_min = 1 << 30;
    world.restart();
    world.run(Duration::from_secs(2));
    for (name, options) in [("any", buffered(2, 7)), ("a", in_zone("a")), ("other", buffered(2, 7))] {
        world.create(name, options);
    }
    world.give_head(ServerId(1), 2, &[4, 5]);
    (2..=7).for_each(|port| world.server_mut(port).diligent = false);
    world.kill(1);
    world.run_until("it is divided", |w| w.servers.values().any(|s| !s.recovers.is_empty()));
    world.run(Duration::from_secs(1));
    let told: Vec<_> = world.servers.values().flat_map(|server| server.recovers.iter()).collect();
    let ranges = &told[0].ranges;
    let partition = |table: u32| ranges.iter().find(|r| r.table.raw() == table).map(|r| r.partition);
    assert_eq!(partition(1), partition(3), "they are light: {ranges:?}");
    assert_ne!(partition(1), partition(2), "{ranges:?}");
    let of_a = |recover: &&&_| Some(partition_of(recover)) == partition(2);
    let masters = world.servers.values().filter(|s| s.recovers.iter().any(|r| of_a(&&r)));
    assert!(masters.map(|s| s.id.raw()).all(|id| zone(id) == "a"));
}

fn partition_of(recover: &ramhold_wire::recovery::Recover) -> u32 {
    recover.partition
}

#[test]
fn a_zone_in_which_no_server_is_is_refused() {
    let mut world = zones(ReplicaPlacement::Scatter);
    let create = |zone: &str| TableCreate { name: "t".into(), options: in_zone(zone), left_open: None };
    assert_eq!(world.client(&create("c")), Some(Err(Status::UnknownZone)));
    let created = world.client_anew(&create("b")).expect("an answer").expect("a table");
    let alter = |zone: &str| TableAlter {
        table: created.table,
        durability: None,
        replicas: None,
        zone: Some(zone.into()),
    };
    assert_eq!(world.client_anew(&alter("x")), Some(Err(Status::UnknownZone)));
    assert_eq!(world.describe("t").options.zone.as_deref(), Some("b"), "nothing has changed");
    assert!(world.client_anew(&alter("a")).expect("an answer").is_ok());
    let table = world.describe("t");
    assert_eq!(
        (table.options.zone.as_deref(), table.outside),
        (Some("a"), Some(4)),
        "they stay where they are"
    );
    assert!(world.client_anew(&alter("")).expect("an answer").is_ok());
    assert_eq!(world.describe("t").options.zone, None);
    world.restart();
    world.run(Duration::from_secs(2));
    assert_eq!(world.describe("t").options.zone, None, "it is stored");
}
