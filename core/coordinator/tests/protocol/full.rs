//! Devices that are full: those of servers, which are warned of, and that of the store, which is waited for.

use crate::harness::*;
use ramhold_base::{ConnId, Input, ServerId, Status};
use ramhold_wire::Header;
use ramhold_wire::membership::{Enlisted, MembershipVerify};
use ramhold_wire::status::{ClusterStatusRequest, DiskFull};
use std::time::Duration;

fn full() -> MembershipVerify {
    let full = DiskFull {
        since_millis: 30_000,
        free_bytes: 5 << 20,
        wanted_bytes: 128 << 20,
        frames_free: 2,
        directory: "/data/s2".into(),
    };
    MembershipVerify { full: Some(full), ..MembershipVerify::default() }
}

fn warnings(world: &World) -> Vec<String> {
    let warnings = world.coordinator.warnings(world.now);
    warnings.into_iter().filter(|warning| warning.starts_with("disk full")).collect()
}

// D3, J5
#[test]
fn a_full_disk_is_warned_of_until_its_server_says_otherwise_or_is_gone() {
    let mut world = World::cluster(3);
    assert_eq!(warnings(&world), Vec::<String>::new());
    world.server(addr(2), &full()).unwrap().unwrap();
    world.run(Duration::from_secs(4));
    let told = warnings(&world);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("s2: 5 of 128 MiB free in /data/s2 for 34 s, 2 frames left"), "{told:?}");
    world.server(addr(2), &MembershipVerify::default()).unwrap().unwrap();
    assert_eq!(warnings(&world), Vec::<String>::new());

    world.server(addr(2), &full()).unwrap().unwrap();
    world.enlist_again(2, Some(ServerId(2)));
    assert_eq!(warnings(&world), Vec::<String>::new(), "another life tells for itself");
}

/// A server that nobody has started asks to be taken in.
fn enlist_third(world: &mut World) -> Option<Result<Enlisted, Status>> {
    world.ask_as(ConnId(3), Header::default(), &World::enlist_message(3, 42, 3, None))
}

// G1
#[test]
fn a_store_without_room_is_asked_again_until_it_has_some() {
    let mut world = World::cluster(2);
    world.is_store_full = true;
    let (commits, meta) = (world.commits, world.store["meta"].0);
    assert!(enlist_third(&mut world).is_none(), "nothing leaves that is not stored");
    world.run(Duration::from_secs(60));
    assert_eq!(world.exit, None);
    assert!((50..=70).contains(&(world.commits - commits)), "{} tries", world.commits - commits);
    assert_eq!(world.store["meta"].0, meta, "nothing is stored");
    let told = world.reports.iter().filter(|line| line.contains("the store has no room: 0 of 2048 KiB"));
    assert_eq!(told.count(), 1, "{:?}", world.reports);
    let degraded = world.coordinator.seen(world.now).degraded.expect("it says so");
    assert!(degraded.contains("/c"), "{degraded}");

    let status = world.ask_as(CLIENT, Header::default(), &ClusterStatusRequest {});
    let warnings = status.expect("operators are told at once").unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("the store has no room")), "{warnings:?}");

    world.is_store_full = false;
    world.run(Duration::from_millis(1100));
    assert!(world.store["meta"].0 > meta, "what had waited is stored");
    assert_eq!(world.coordinator.seen(world.now).degraded, None);
    assert_eq!(world.reports.iter().filter(|line| line.contains("has room again")).count(), 1);
}

// G1
#[test]
fn a_coordinator_whose_store_is_full_starts_late_and_stops_at_once() {
    let mut world = World::cluster(2);
    world.is_store_full = true;
    world.restart();
    world.run(Duration::from_secs(10));
    assert!(!world.coordinator.is_active());
    assert_eq!(world.exit, None);
    world.is_store_full = false;
    world.run(Duration::from_secs(3));
    assert!(world.coordinator.is_active());

    world.is_store_full = true;
    assert!(enlist_third(&mut world).is_none());
    world.run(Duration::from_secs(3));
    world.step(Input::Stop);
    assert!(world.exit.as_ref().is_some_and(|(code, _)| *code == 0), "{:?}", world.exit);
}
