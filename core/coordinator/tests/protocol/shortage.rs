//! Tables whose replicas the servers that are up cannot keep, and tables that are emptied.

use crate::harness::*;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{KeyHash, ServerId, Status, TableId};
use ramhold_wire::membership::{Durability, Label};
use ramhold_wire::shortage::{DomainLevel, Shortage};
use ramhold_wire::table::*;
use ramhold_wire::{Header, Message, decode};
use std::time::Duration;

fn create(name: &str, replicas: u8) -> TableCreate {
    TableCreate { name: name.into(), options: buffered(replicas, 0), left_open: None }
}

/// The shortage for which an update under this number is refused.
fn refused<M: Message>(world: &mut World, header: Header, message: &M) -> Option<Shortage> {
    let rpc = world.push(CLIENT, header, message);
    world.settle();
    let (status, body) = world.answer_to(rpc)?;
    (status == Status::TooFewBackups).then(|| decode(body).expect("its facts"))
}

fn anew<M: Message>(world: &mut World, message: &M) -> Option<Shortage> {
    let header = world.number();
    refused(world, header, message)
}

fn lacks(replicas: u8, up: u32) -> Option<Shortage> {
    Some(Shortage { replicas, up, level: DomainLevel::Server, own_counts: false, bricks: false })
}

// A1, D3
#[test]
fn a_table_whose_replicas_cannot_be_kept_is_refused_at_once_and_leaves_nothing() {
    let mut world = World::cluster(3);
    let (number, message) = (world.number(), create("users", 3));
    assert_eq!(refused(&mut world, number, &message), lacks(3, 2));
    assert!(world.state().tables.is_empty());
    assert!(world.servers.values().all(|server| server.takes.is_empty()));
    // The default counts as what is said.
    assert_eq!(
        anew(&mut world, &TableCreate { left_open: Some(LeftOpen::Durability), ..create("db0", 1) }),
        lacks(3, 2)
    );
    // For this number for good, also at the next coordinator and when there are enough.
    world.restart();
    world.run(Duration::from_secs(1));
    world.enlist(4);
    world.run(Duration::from_secs(1));
    assert_eq!(refused(&mut world, number, &message), lacks(3, 2));
    assert!(world.state().tables.is_empty());
    world.create("users", buffered(3, 0));
    assert!(world.status().warnings.iter().all(|warning| !warning.contains("replicas need")));
}

// A1, D3
#[test]
fn what_the_replicas_need_is_counted_in_failure_domains() {
    let mut world = World::new();
    for (port, rack) in [(1, "a"), (2, "a"), (3, "b"), (4, "c")] {
        let label = Label { name: "rack".into(), value: rack.into() };
        world.enlist_labelled(port, vec![label]);
    }
    world.run(Duration::from_millis(500));
    let shortage =
        Shortage { replicas: 3, up: 2, level: DomainLevel::Rack, own_counts: false, bricks: false };
    assert_eq!(anew(&mut world, &create("users", 3)), Some(shortage));
    world.create("users", buffered(2, 0));
    world.config.allow_local_backup = true;
    world.restart();
    world.run(Duration::from_secs(3));
    world.create("more", buffered(3, 0));
    let shortage = Shortage { replicas: 4, up: 3, own_counts: true, ..shortage };
    assert_eq!(anew(&mut world, &create("most", 4)), Some(shortage));
}

// A8, D3
#[test]
fn a_table_is_not_altered_to_more_replicas_than_can_be_kept() {
    let mut world = World::cluster(5);
    let table = world.create("users", buffered(3, 1));
    let alter = |durability, replicas| TableAlter { table, durability, replicas: Some(replicas), zone: None };
    assert_eq!(anew(&mut world, &alter(None, 5)), lacks(5, 4));
    assert_eq!(world.describe("users").options.replicas, 3);
    assert_eq!(world.describe("users").reclassing, 0);
    // A table keeps what it has already.
    world.kill(5);
    world.kill(4);
    world.run_until("their deaths are known", |w| [4, 5].iter().all(|id| !w.state().is_up(ServerId(*id))));
    assert_eq!(anew(&mut world, &alter(None, 3)), None);
}

// A1, D3: it would never end, as what such a stream holds and is not acknowledged is durable nowhere.
#[test]
fn a_table_does_not_leave_a_stream_that_lacks_backups() {
    let mut world = World::cluster(4);
    let table = world.create("users", buffered(3, 2));
    let alter = |replicas| TableAlter { table, durability: None, replicas: Some(replicas), zone: None };
    world.kill(4);
    world.run_until("its death is known", |w| !w.state().is_up(ServerId(4)));
    assert_eq!(anew(&mut world, &alter(2)), lacks(3, 2), "what it lacks now");
    assert_eq!(world.describe("users").options.replicas, 3);
    world.enlist(5);
    world.run(Duration::from_secs(1));
    assert_eq!(anew(&mut world, &alter(5)), lacks(5, 3), "only that it cannot be kept so");
}

// A1, D3: the cluster has shrunk.
#[test]
fn creation_goes_by_who_is_up_now_and_existing_tables_stay() {
    let mut world = World::cluster(4);
    let table = world.create("users", buffered(3, 4));
    assert_eq!(world.describe("users").shortage, None);
    world.kill(4);
    world.run_until("its death is known", |w| !w.state().is_up(ServerId(4)));
    assert_eq!(anew(&mut world, &create("more", 3)), lacks(3, 2));
    assert_eq!(anew(&mut world, &TableTruncate { table }), lacks(3, 2));
    let synced = TableAlter { table, durability: Some(Durability::Synced), replicas: None, zone: None };
    let is_settled = world.describe("users").tablets.iter().all(|t| t.state == TabletState::Serving);
    assert_eq!(anew(&mut world, &synced), lacks(3, 2).filter(|_| is_settled));
    let described = world.describe("users");
    assert_eq!((described.table, described.shortage), (table, lacks(3, 2)));
    let warnings = world.status().warnings;
    let warning = "writes to table 'users' are blocked: 3 replicas need 3 other servers, 2 are up; start one more server";
    assert!(warnings.iter().any(|w| w == warning), "{warnings:?}");
    // Fewer replicas can be had.
    world.create("less", buffered(2, 0));
    world.enlist(5);
    world.run(Duration::from_secs(1));
    assert_eq!(world.describe("users").shortage, None);
    assert!(world.status().warnings.iter().all(|w| !w.contains("replicas need")));
}

fn division(description: &TableDescription) -> Vec<(KeyHash, KeyHash)> {
    description.tablets.iter().map(|t| (t.first, t.last)).collect()
}

// A1, J1
#[test]
fn an_emptied_table_keeps_whatever_a_table_has_but_objects() {
    let mut world = World::cluster(3);
    let options = TableOptions {
        durability: Durability::Synced,
        replicas: 2,
        tablets: 2,
        slots: true,
        zone: None,
        quorum: None,
    };
    let old = world.create("db0", options.clone());
    let split = TableDivide { table: old, division: Division::Parts { count: 2 } };
    assert_eq!(world.client(&split), Some(Ok(TableDivided { tablets: 4 })));
    let before = world.describe("db0");
    let (number, message) = (world.number(), TableTruncate { table: old });
    world.server_mut(2).deaf.insert(ramhold_wire::Opcode::TabletTake);
    assert_eq!(world.ask_as(CLIENT, number, &message), None, "an owner has not taken its tablet yet");
    world.restart();
    world.server_mut(2).deaf.clear();
    world.run(Duration::from_secs(5));
    let made = world.ask_as(CLIENT, number, &message).unwrap().unwrap();
    let after = world.describe("db0");
    assert_eq!(after.table, made.table);
    assert_ne!(after.table, old);
    assert_eq!((&after.options, after.seed), (&options, before.seed));
    assert_ne!(after.seed, PlacementSeed(0));
    assert_eq!(division(&after), division(&before));
    assert!(after.tablets.iter().all(|t| t.state == TabletState::Serving));
    assert_covered(&after);
    assert!(!world.state().tables.contains_key(&old));
    let owners: Vec<ServerId> = before.tablets.iter().map(|tablet| tablet.owner).collect();
    let told = |server: &&Server| server.drops.contains(&old);
    assert!(world.servers.values().filter(|s| owners.contains(&s.id)).all(|server| told(&server)));
    // Once under its number; and the table that is gone is gone.
    assert_eq!(world.ask_as(CLIENT, number, &message), Some(Ok(made)));
    assert_eq!(world.describe("db0").table, made.table);
    assert_eq!(world.client_anew(&message), Some(Err(Status::UnknownTable)));
    assert_eq!(world.client_anew(&TableTruncate { table: TableId(77) }), Some(Err(Status::UnknownTable)));
}
