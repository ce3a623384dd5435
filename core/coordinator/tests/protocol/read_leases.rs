//! Read leases: what the coordinator grants, and what it waits for before others may answer.

use crate::harness::*;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::{Instant, ServerId, Status};
use ramhold_coordinator::Coordinator;
use ramhold_wire::Opcode;
use ramhold_wire::lease::ReadLease;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{TableDescribe, TableDrop, TableOptions, TabletState};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

/// Four servers, one tablet at server 1, whose head two others hold; they report this much of its lease.
fn held(lease_millis: u64) -> World {
    let mut world = World::cluster(4);
    world.create("users", buffered(2, 1));
    assert_eq!(world.describe("users").tablets[0].owner, ServerId(1));
    world.give_head(ServerId(1), 2, &[2, 3]);
    world.server_mut(3).lease_millis = lease_millis;
    // Whatever an earlier coordinator may have granted is over.
    world.run(READ_LEASE);
    world
}

/// When the crashed server's tablets serve elsewhere, and when the backups were asked.
fn served_at(world: &mut World) -> (Instant, Instant) {
    let mut fenced = None;
    for _ in 0..5000 {
        world.run(MILLI);
        if world.server_mut(3).fences > 0 {
            fenced.get_or_insert(world.now);
        }
        let describe = TableDescribe { name: "users".into(), table: Default::default() };
        // A new coordinator answers when all who hold its state have it, or are dead.
        let Some(answer) = world.client(&describe) else { continue };
        let tablets = answer.expect("a table").tablets;
        if tablets.iter().all(|t| t.state == TabletState::Serving && t.owner != ServerId(1)) {
            return (fenced.expect("backups are asked first"), world.now);
        }
    }
    panic!("never served\n{}", world.reports.join("\n"));
}

// F8: why-these-rules 4f.
#[test]
fn recovered_tablets_open_when_what_the_backups_granted_is_over() {
    for lease_millis in [0, 30, 240] {
        let mut world = held(lease_millis);
        world.kill(1);
        let (fenced, served) = served_at(&mut world);
        let waited = served.since(fenced).as_millis();
        let least = u128::from(lease_millis).saturating_sub(1);
        assert!((least..least + 30).contains(&waited), "{waited} ms for {lease_millis}");
    }
}

// F8
#[test]
fn recovered_tablets_open_when_what_the_coordinator_granted_is_over() {
    let mut world = held(0);
    assert_eq!(world.server(addr(1), &ReadLease {}), Some(Ok(Default::default())));
    let granted = world.now;
    world.kill(1);
    let (_, served) = served_at(&mut world);
    assert!(served >= granted + READ_LEASE, "{:?}", served.since(granted));
    assert!(served < granted + READ_LEASE + 30 * MILLI, "{:?}", served.since(granted));
}

// F8, D2: it granted until its device failed, and nobody else can tell anything.
#[test]
fn a_backup_whose_device_has_failed_counts_as_if_it_had_just_granted() {
    let mut world = World::cluster(3);
    world.create("users", buffered(1, 1));
    assert_eq!(world.describe("users").tablets[0].owner, ServerId(1));
    world.run(READ_LEASE);
    for port in [2, 3] {
        let backup = world.server_mut(port);
        (backup.has_failed, backup.lease_millis) = (true, 0);
        backup.deaf.insert(Opcode::Fence);
    }
    world.kill(1);
    world.enlist_again(1, Some(ServerId(1)));
    world.run(Duration::from_secs(3));
    assert_eq!(world.describe("users").tablets[0].state, TabletState::Recovering);
    // With their word it is clear that the log is lost.
    for port in [2, 3] {
        world.server_mut(port).deaf.clear();
        world.server_mut(port).fences = 0;
    }
    let (answered, served) = served_at(&mut world);
    assert!(served.since(answered) + MILLI >= READ_LEASE, "{:?}", served.since(answered));
    assert_eq!(world.status().losses.len(), 1);
}

// F8, G1: what its predecessor granted it does not know.
#[test]
fn a_new_coordinator_takes_it_that_everybody_was_granted_something() {
    let mut world = held(0);
    world.kill(1);
    world.restart();
    let begun = world.now;
    let (_, served) = served_at(&mut world);
    assert!(served >= begun + READ_LEASE, "{:?}", served.since(begun));
}

// G1, F8
#[test]
fn nothing_is_granted_before_the_store_has_confirmed_the_term() {
    let mut world = held(0);
    world.store_held = true;
    let first = world.post(addr(1), &ReadLease {});
    let second = world.post(addr(2), &ReadLease {});
    world.settle();
    assert!(world.answer_to(first).is_none() && world.answer_to(second).is_none());
    world.store_held = false;
    world.settle();
    assert_eq!(world.answer_to(first).map(|(status, _)| status), Some(Status::Ok));
    assert_eq!(world.answer_to(second).map(|(status, _)| status), Some(Status::Ok));
}

// G1, F8: a coordinator that stood still while another took over.
#[test]
fn a_deposed_coordinator_grants_nothing() {
    let mut world = held(0);
    let mut next = World::on(std::mem::take(&mut world.store), 99);
    next.run(Duration::from_secs(1));
    world.store = std::mem::take(&mut next.store);
    let asked = world.post(addr(1), &ReadLease {});
    world.settle();
    assert_eq!(world.answer_to(asked), None);
    assert_eq!(world.exit.as_ref().map(|(code, _)| *code), Some(3), "{:?}", world.exit);
    assert!(!Coordinator::is_active(&world.coordinator));
}

// F8
#[test]
fn a_server_that_is_declared_dead_while_the_store_is_asked_is_granted_nothing() {
    let mut world = held(0);
    world.store_held = true;
    let asked = world.post(addr(1), &ReadLease {});
    world.settle();
    world.kill(1);
    world.run(Duration::from_secs(3));
    world.store_held = false;
    world.run(Duration::from_secs(1));
    assert_eq!(world.answer_to(asked).map(|(status, _)| status), Some(Status::Fenced));
}

// A1, F6, F8
#[test]
fn a_drop_waits_for_a_dead_owner_until_its_lease_is_over_and_no_longer() {
    let mut world = held(200);
    let id = world.describe("users").table;
    world.kill(1);
    assert!(world.client(&TableDrop { table: id }).is_none());
    let mut fenced = None;
    for _ in 0..5000 {
        world.run(MILLI);
        if world.server_mut(3).fences > 0 {
            fenced.get_or_insert(world.now);
        }
        if world.state().tables.is_empty() {
            break;
        }
    }
    let waited = world.now.since(fenced.expect("backups are asked first")).as_millis();
    assert!((199..260).contains(&waited), "{waited} ms");
    world.run_until("gone", |w| w.is_over(ServerId(1)));
    assert_eq!(world.client(&TableDrop { table: id }), Some(Ok(Default::default())));
}

// D2, F8: the cache of a server that is cut off with the backups that grant it its lease.
#[test]
fn tables_without_replicas_move_only_when_a_head_of_the_dead_server_is_fenced() {
    let mut world = World::cluster(4);
    world.create("users", buffered(2, 1));
    assert_eq!(world.describe("users").tablets[0].owner, ServerId(1));
    let options = TableOptions {
        durability: Durability::None,
        replicas: 0,
        tablets: 4,
        slots: false,
        zone: None,
        quorum: None,
    };
    world.create("cache", options);
    world.run(READ_LEASE);
    world.kill(1);
    world.run(Duration::from_secs(5));
    let moved = |w: &mut World| {
        w.describe("cache").tablets.iter().all(|t| t.state == TabletState::Serving && t.owner != ServerId(1))
    };
    assert!(!moved(&mut world), "nobody who holds its head has been heard of");
    world.give_head(ServerId(1), 2, &[2, 3]);
    world.run(Duration::from_secs(5));
    assert!(moved(&mut world));
}

// F8, D9: backups that left the list are where a master that has not heard of it still writes.
#[test]
fn a_log_is_not_lost_while_its_master_may_not_have_heard_who_has_left() {
    let mut world = World::cluster(4);
    world.create("users", buffered(2, 1));
    assert_eq!(world.describe("users").tablets[0].owner, ServerId(1));
    world.server_mut(1).deaf.insert(Opcode::ServerListUpdate);
    for (port, id) in [(2, ServerId(2)), (3, ServerId(3))] {
        world.kill(port);
        world.run_until("gone", |w| w.is_over(id));
    }
    world.run(Duration::from_secs(100));
    world.kill(1);
    world.enlist_again(1, Some(ServerId(1)));
    world.run(Duration::from_secs(10));
    assert_eq!(world.state().losses.len(), 0, "they may come back, and may be what it goes on with");
    for port in [2, 3] {
        world.enlist_again(port, None);
    }
    world.run_until("nothing is left of it", |w| w.is_over(ServerId(1)));
    assert_eq!(world.state().losses.len(), 1);
}

// F8, F6: nobody needs what is missing.
#[test]
fn a_dead_server_without_tablets_is_removed_although_its_log_is_gone() {
    let mut world = World::cluster(3);
    let id = world.create("users", buffered(2, 1));
    assert_eq!(world.describe("users").tablets[0].owner, ServerId(1));
    assert_eq!(world.client(&TableDrop { table: id }), Some(Ok(Default::default())));
    world.run(Duration::from_secs(2));
    assert!(world.state().tables.is_empty());
    world.kill(1);
    world.run_until("gone", |w| w.is_over(ServerId(1)));
}
