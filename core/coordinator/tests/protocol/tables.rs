//! Creating, describing and dropping tables.

use crate::harness::*;
use ramhold_base::{ServerId, Status, TableId};
use ramhold_wire::Opcode;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::*;
use std::time::Duration;

// A1, B3
#[test]
fn a_table_is_answered_when_every_tablet_is_served() {
    let mut world = World::cluster(3);
    world.server_mut(2).deaf.insert(Opcode::TabletTake);
    let message = TableCreate { name: "users".into(), options: buffered(2, 0), left_open: None };
    assert!(world.client(&message).is_none());
    let states: Vec<TabletState> = world.describe("users").tablets.iter().map(|t| t.state).collect();
    assert_eq!(states.iter().filter(|s| **s == TabletState::Creating).count(), 1);
    world.server_mut(2).deaf.clear();
    world.run(Duration::from_secs(3));
    let created = world.client(&message).unwrap().unwrap();
    let description = world.describe("users");
    assert_eq!(description.table, created.table);
    assert_covered(&description);
    assert_eq!(description.tablets.len(), 3, "one per master");
    for tablet in &description.tablets {
        assert_eq!(tablet.state, TabletState::Serving);
        assert!(tablet.address.is_some());
        assert!(!tablet.first_segment.is_none());
    }
    assert_eq!(world.client_anew(&message), Some(Err(Status::TableExists)));
}

// B3
#[test]
fn tablets_of_a_table_by_slots_begin_at_slots_and_their_owners_know_it() {
    let mut world = World::cluster(3);
    for (name, tablets) in [("one each", 0), ("many", 4096), ("odd", 7)] {
        let options = TableOptions { slots: true, ..buffered(2, tablets) };
        let table = world.create(name, options);
        world.run(Duration::from_secs(3));
        let description = world.describe(name);
        assert!(description.placement().slots);
        assert_covered(&description);
        assert_eq!(description.tablets.len() as u32, if tablets == 0 { 3 } else { tablets });
        for tablet in &description.tablets {
            assert_eq!(tablet.first.0 << 14, 0);
            assert_eq!(tablet.last.0 << 14, u64::MAX << 14);
        }
        let takes = world.servers.values().flat_map(|server| &server.takes);
        let slots: Vec<bool> = takes.filter(|take| take.table == table).map(|take| take.slots).collect();
        assert_eq!(slots, vec![true; description.tablets.len()]);
    }
    let listed = world.client(&TableList {}).unwrap().unwrap().tables;
    assert!(listed.iter().all(|table| table.options.slots));
    world.restart();
    world.run(Duration::from_secs(3));
    assert!(world.describe("odd").options.slots, "the store keeps it");
}

// A1
#[test]
fn limits_of_tables_are_answers() {
    let mut world = World::new();
    let create =
        |name: &str, options: TableOptions| TableCreate { name: name.into(), options, left_open: None };
    let none = |replicas| TableOptions {
        durability: Durability::None,
        replicas,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    let synced = TableOptions {
        durability: Durability::Synced,
        replicas: 0,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    let cases = [
        (create("", buffered(3, 0)), Status::NameTooLong),
        (create(&"x".repeat(256), buffered(3, 0)), Status::NameTooLong),
        (create("t", synced), Status::BadRequest),
        (create("t", buffered(0, 0)), Status::BadRequest),
        (create("t", none(1)), Status::BadRequest),
        (create("t", buffered(8, 0)), Status::BadRequest),
        (create("t", buffered(3, 4097)), Status::BadRequest),
        (create("t", buffered(3, 0)), Status::Retry),
    ];
    for (message, status) in cases {
        assert_eq!(world.client(&message), Some(Err(status)), "{message:?}");
    }
    world.enlist(1);
    assert_eq!(world.client_anew(&create("t", buffered(3, 0))), Some(Err(Status::TooFewBackups)));
    world.enlist(2);
    world.run(Duration::from_secs(1));
    let id = world.create(&"x".repeat(255), buffered(1, 1));
    assert_eq!(id, TableId(1));
}

/// A cluster of three whose operator wants this many replicas by default.
fn cluster_with(default_replicas: u8) -> World {
    let mut world = World::cluster(3);
    world.config.default_replicas = default_replicas;
    world.restart();
    world.run(Duration::from_secs(3));
    world
}

/// A creation that leaves something open; the options say three replicas, for coordinators that do not know better.
fn leaving(left_open: LeftOpen, name: &str) -> TableCreate {
    TableCreate { name: name.into(), options: buffered(3, 0), left_open: Some(left_open) }
}

fn has(world: &mut World, name: &str) -> (Durability, u8) {
    let options = world.describe(name).options;
    (options.durability, options.replicas)
}

// A1, D2
#[test]
fn what_a_creator_leaves_open_is_the_clusters_default() {
    assert_eq!(World::new().config.default_replicas, 3);
    let mut world = cluster_with(2);
    for (name, left_open) in [("a", LeftOpen::Durability), ("b", LeftOpen::Replicas)] {
        assert!(world.client(&leaving(left_open, name)).unwrap().is_ok());
        assert_eq!(has(&mut world, name), (Durability::Buffered, 2));
        let table = world.describe(name).table;
        let taken: Vec<u8> = world
            .servers
            .values()
            .flat_map(|server| &server.takes)
            .filter(|take| take.table == table)
            .map(|take| take.replicas)
            .collect();
        assert!(!taken.is_empty());
        assert!(taken.iter().all(|replicas| *replicas == 2), "owners are told what was settled: {taken:?}");
    }
    world.create("said", buffered(1, 0));
    assert_eq!(has(&mut world, "said"), (Durability::Buffered, 1));
    let none = TableOptions {
        durability: Durability::None,
        replicas: 0,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    let cache = TableCreate { options: none, ..leaving(LeftOpen::Replicas, "cache") };
    assert!(world.client(&cache).unwrap().is_ok());
    assert_eq!(has(&mut world, "cache"), (Durability::None, 0));
    let synced = TableOptions { durability: Durability::Synced, ..buffered(3, 0) };
    let synced = TableCreate { options: synced, ..leaving(LeftOpen::Replicas, "synced") };
    assert!(world.client(&synced).unwrap().is_ok());
    assert_eq!(has(&mut world, "synced"), (Durability::Synced, 2));
}

// A1, D2, G1
#[test]
fn another_default_is_for_new_tables() {
    let mut world = cluster_with(2);
    let old = leaving(LeftOpen::Replicas, "old");
    let made = world.client(&old).unwrap().unwrap();
    world.config.default_replicas = 0;
    world.restart();
    world.run(Duration::from_secs(3));
    assert_eq!(has(&mut world, "old"), (Durability::Buffered, 2));
    assert_eq!(world.client(&old), Some(Ok(made)), "a repeated creation is what it was");
    // A default of none is taken only by who leaves that open too.
    assert_eq!(world.client(&leaving(LeftOpen::Replicas, "new")), Some(Err(Status::NotAllowed)));
    assert!(world.client(&leaving(LeftOpen::Durability, "new")).unwrap().is_ok());
    assert_eq!(has(&mut world, "new"), (Durability::None, 0));
}

// A1
#[test]
fn a_drop_is_answered_when_every_owner_has_stopped() {
    let mut world = World::cluster(3);
    let id = world.create("users", buffered(2, 6));
    world.server_mut(3).deaf.insert(Opcode::TabletDrop);
    assert!(world.client(&TableDrop { table: id }).is_none());
    let unknown = TableDescribe { name: "users".into(), table: TableId::NONE };
    assert_eq!(world.client(&unknown), Some(Err(Status::UnknownTable)));
    let by_id = world.client(&TableDescribe { name: String::new(), table: id }).unwrap().unwrap();
    assert!(by_id.tablets.iter().all(|t| t.state == TabletState::Dropping && t.address.is_none()));
    let namesake = world.create("users", buffered(2, 1));
    assert_ne!(namesake, id);
    world.server_mut(3).deaf.clear();
    world.run(Duration::from_secs(5));
    assert_eq!(world.client(&TableDrop { table: id }), Some(Ok(Default::default())));
    assert_eq!(world.client_anew(&TableDrop { table: id }), Some(Err(Status::UnknownTable)));
    assert_eq!(world.client(&TableDrop { table: TableId(77) }), Some(Err(Status::UnknownTable)));
    assert!(!world.state().tables.contains_key(&id));
    assert!(world.state().tables.contains_key(&namesake), "a repeated drop does not hit the namesake");
}

// B3, F6
#[test]
fn a_tablet_that_was_never_taken_moves_when_its_owner_dies() {
    let mut world = World::cluster(3);
    world.server_mut(2).deaf.insert(Opcode::TabletTake);
    let message = TableCreate { name: "users".into(), options: buffered(2, 3), left_open: None };
    assert!(world.client(&message).is_none());
    world.kill(2);
    world.run_until("gone", |w| w.is_over(ServerId(2)));
    world.run(Duration::from_secs(1));
    assert!(world.client(&message).unwrap().is_ok());
    let description = world.describe("users");
    assert_covered(&description);
    assert!(description.tablets.iter().all(|t| t.owner != ServerId(2) && t.state == TabletState::Serving));
    assert!(world.state().losses.is_empty());
}

// A1: the owner takes its tablet after it was told to drop the table, and says so late.
#[test]
fn whoever_has_taken_a_tablet_of_a_dropped_table_is_told_to_drop_it() {
    for gone in [false, true] {
        let mut world = World::cluster(2);
        world.server_mut(2).tardy = true;
        let message = TableCreate { name: "users".into(), options: buffered(1, 2), left_open: None };
        assert!(world.client(&message).is_none());
        let id = world.state().meta.tables;
        if !gone {
            // This owner keeps the table dropping.
            world.server_mut(1).deaf.insert(Opcode::TabletDrop);
        }
        let _ = world.client(&TableDrop { table: id });
        world.run(Duration::from_secs(2));
        assert_eq!(world.state().tables.contains_key(&id), !gone);
        let told = world.server_mut(2).drops.len();
        assert!(told > 0, "it was an owner");
        world.server_mut(2).deaf.insert(Opcode::TabletDrop);
        world.answer_takes(2);
        world.run(Duration::from_secs(5));
        let again = world.server_mut(2).drops.clone();
        assert!(again.len() > told + 1, "repeated until it is answered: {again:?}");
        assert!(again.iter().all(|table| *table == id));
        world.server_mut(1).deaf.clear();
        world.server_mut(2).deaf.clear();
        world.run(Duration::from_secs(5));
        let answered = world.server_mut(2).drops.len();
        world.run(Duration::from_secs(30));
        assert_eq!(world.server_mut(2).drops.len(), answered, "an answered drop is over");
        assert!(!world.state().tables.contains_key(&id));
    }
}
