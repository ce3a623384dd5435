//! Cutting and joining tablets where they are.

use crate::harness::*;
use ramhold_base::{DivisionId, KeyHash, ServerId, Status, TableId};
use ramhold_wire::Opcode;
use ramhold_wire::recovery::TabletStat;
use ramhold_wire::table::*;
use std::time::Duration;

const HALF: KeyHash = KeyHash(1 << 63);
const HALVES: Division = Division::Parts { count: 2 };
const JOIN: Division = Division::Join { at: None };

fn divided(tablets: u32) -> Option<Result<TableDivided, Status>> {
    Some(Ok(TableDivided { tablets }))
}

/// The ranges that a server was last told, and by which division.
fn told(world: &mut World, port: u16) -> (DivisionId, Vec<(u64, u64)>) {
    let last = world.server_mut(port).divides.last().expect("it was told").clone();
    (last.division, last.tablets.iter().map(|span| (span.first.0, span.last.0)).collect())
}

// A8, A3, G1
#[test]
fn a_division_is_stored_then_told_then_answered() {
    let mut world = World::cluster(2);
    let table = world.create("users", buffered(1, 2));
    let split = TableDivide { table, division: HALVES };
    for port in [1, 2] {
        world.server_mut(port).deaf.insert(Opcode::TabletDivide);
    }
    assert_eq!(world.client(&split), None);
    let description = world.describe("users");
    assert_covered(&description);
    assert_eq!(description.tablets.len(), 4, "the map says so already");
    assert!(description.tablets.iter().all(|t| t.state == TabletState::Serving));
    world.server_mut(1).deaf.clear();
    world.run(Duration::from_secs(3));
    assert_eq!(world.client(&split), None, "one owner has not heard");
    // The next coordinator does not know who has.
    world.restart();
    world.server_mut(2).deaf.clear();
    world.run(Duration::from_secs(3));
    assert_eq!(world.client(&split), divided(4));
    assert_eq!(world.state().tables[&table].division, DivisionId(1), "it was carried out once");
    for port in [1, 2] {
        let server = world.server_mut(port).id;
        let own = world.describe("users").tablets.into_iter().filter(|t| t.owner == server);
        let own: Vec<(u64, u64)> = own.map(|t| (t.first.0, t.last.0)).collect();
        assert_eq!(told(&mut world, port), (DivisionId(1), own));
    }
    let before = world.server_mut(1).divides.len();
    world.run(Duration::from_secs(30));
    assert_eq!(world.server_mut(1).divides.len(), before, "an answered owner is left alone");
}

// A8
#[test]
fn only_owners_whose_tablets_change_are_told() {
    let mut world = World::cluster(2);
    let table = world.create("users", buffered(1, 2));
    let ports = if world.describe("users").tablets[0].owner == ServerId(1) { [1, 2] } else { [2, 1] };
    let at = KeyHash(99);
    assert_eq!(world.client(&TableDivide { table, division: Division::Split { at } }), divided(3));
    assert_eq!(world.client_anew(&TableDivide { table, division: Division::Split { at } }), divided(3));
    assert_eq!(world.state().tables[&table].division, DivisionId(1), "nothing was to be done");
    assert_eq!(world.server_mut(ports[0]).divides.len(), 1);
    assert!(world.server_mut(ports[1]).divides.is_empty());
    let join = |at| TableDivide { table, division: Division::Join { at: Some(at) } };
    assert_eq!(world.client(&join(HALF)), Some(Err(Status::NotAllowed)), "two owners meet there");
    assert_eq!(world.client(&join(KeyHash(0))), Some(Err(Status::NotAllowed)));
    assert_eq!(world.client(&join(at)), divided(2));
    assert_eq!(told(&mut world, ports[0]), (DivisionId(2), vec![(0, HALF.0 - 1)]));
    let no_parts = TableDivide { table, division: Division::Parts { count: 0 } };
    assert_eq!(world.client(&no_parts), Some(Err(Status::BadRequest)));
    let unknown = TableDivide { table: TableId(77), division: JOIN };
    assert_eq!(world.client(&unknown), Some(Err(Status::UnknownTable)));
}

// A8, F5
#[test]
fn what_is_not_settled_is_not_divided() {
    let mut world = World::cluster(3);
    world.server_mut(2).deaf.insert(Opcode::TabletTake);
    let message = TableCreate { name: "users".into(), options: buffered(1, 3), left_open: None };
    assert!(world.client(&message).is_none());
    let table = world.state().meta.tables;
    let split = TableDivide { table, division: HALVES };
    assert_eq!(world.client(&split), Some(Err(Status::Retry)), "a tablet is not taken");
    world.server_mut(2).deaf.clear();
    world.run(Duration::from_secs(3));
    assert_eq!(world.client(&split), Some(Err(Status::Retry)), "for this number for good");
    world.kill(1);
    world.run_until("it is known", |w| !w.state().is_up(ServerId(1)));
    assert_eq!(world.client_anew(&split), Some(Err(Status::Retry)), "a tablet has no owner");
    let tablets = world.describe("users").tablets;
    let kept = tablets.iter().find(|t| t.owner == ServerId(3)).unwrap();
    let inside = Division::Split { at: KeyHash(kept.first.0 + 5) };
    assert_eq!(world.client(&TableDivide { table, division: inside }), divided(4), "others are settled");
}

// A8
#[test]
fn an_owner_that_dies_before_it_hears_is_not_waited_for() {
    let mut world = World::cluster(2);
    let table = world.create("users", buffered(1, 2));
    world.server_mut(1).deaf.insert(Opcode::TabletDivide);
    let split = TableDivide { table, division: HALVES };
    assert_eq!(world.client(&split), None);
    world.kill(1);
    world.run_until("it is known", |w| !w.state().is_up(ServerId(1)));
    assert_eq!(world.client(&split), divided(4));
    assert_eq!(world.coordinator.divisions_under_way(), 0);
}

// A8, A1
#[test]
fn a_dropped_table_is_told_to_nobody_any_more() {
    let mut world = World::cluster(2);
    let table = world.create("users", buffered(1, 2));
    world.server_mut(1).deaf.insert(Opcode::TabletDivide);
    let split = TableDivide { table, division: HALVES };
    assert_eq!(world.client(&split), None);
    assert_eq!(world.client(&TableDrop { table }), Some(Ok(Default::default())));
    world.run(Duration::from_secs(1));
    let before = world.server_mut(1).divides.len();
    assert_eq!(world.client(&split), divided(4), "it was done before");
    world.run(Duration::from_secs(30));
    assert_eq!(world.server_mut(1).divides.len(), before);
}

// A8: heads have room for the statistics of so many tablets.
#[test]
fn a_server_has_as_many_tablets_as_its_heads_have_room_for() {
    let mut world = World::cluster(1);
    world.config.allow_local_backup = true;
    world.restart();
    world.run(Duration::from_secs(1));
    let table = world.create("users", buffered(1, 1));
    let split = |count| TableDivide { table, division: Division::Parts { count } };
    // An eighth of a segment of 4096 bytes.
    assert_eq!(world.client(&split(15)), Some(Err(Status::TooManyTablets)));
    assert_eq!(world.client(&split(14)), divided(14));
    assert_eq!(world.client(&split(2)), Some(Err(Status::TooManyTablets)));
    assert_eq!(world.client(&TableDivide { table, division: JOIN }), divided(1));
    assert_eq!(world.client(&split(4097)), Some(Err(Status::BadRequest)));
}

/// A table at one server, nine tenths of which lie in its last sixteenth.
fn uneven() -> (World, TableId) {
    let mut world = World::cluster(2);
    let table = world.create("users", buffered(1, 1));
    let owner = world.describe("users").tablets[0].owner;
    let port = owner.raw() as u16;
    let row = |first, last, bytes| TabletStat {
        table,
        first: KeyHash(first),
        last: KeyHash(last),
        bytes,
        records: 1,
    };
    let other = TabletStat { table: TableId(99), ..row(0, 5, 1_000_000) };
    world.server_mut(port).weights = vec![row(0, (15 << 60) - 1, 100), row(15 << 60, u64::MAX, 900), other];
    (world, table)
}

fn begins(world: &mut World) -> Vec<u64> {
    world.describe("users").tablets.iter().map(|tablet| tablet.first.0).collect()
}

// A8, C3
#[test]
fn parts_are_even_by_what_owners_tell() {
    let (mut world, table) = uneven();
    assert_eq!(world.client(&TableDivide { table, division: HALVES }), divided(2));
    // 100 before the last sixteenth, and 400 of its 900.
    let middle = (15 << 60) + ((1_u64 << 60) as u128 * 4 / 9) as u64;
    let begins = begins(&mut world);
    assert!(begins[0] == 0 && begins[1].abs_diff(middle) <= 1, "{begins:x?}, {middle:x}");
    // The repetition is not weighed again.
    let asked = |world: &World| world.servers.values().map(|server| server.weights_asked).sum::<u32>();
    assert_eq!(asked(&world), 1);
    assert_eq!(world.client(&TableDivide { table, division: HALVES }), divided(2));
    assert_eq!(asked(&world), 1);
    // Where to cut is said: nobody is asked.
    let at = KeyHash(99);
    assert_eq!(world.client_anew(&TableDivide { table, division: Division::Split { at } }), divided(3));
    assert_eq!(asked(&world), 1);
}

// A8
#[test]
fn an_owner_that_does_not_tell_is_cut_evenly() {
    for is_old in [false, true] {
        let (mut world, table) = uneven();
        for port in [1, 2] {
            let server = world.server_mut(port);
            if is_old { &mut server.ignorant } else { &mut server.deaf }.insert(Opcode::TabletWeights);
        }
        let split = TableDivide { table, division: HALVES };
        if !is_old {
            assert_eq!(world.client(&split), None, "it waits for a moment");
            assert_eq!(world.client(&split), None, "also for who asks again");
            world.run(Duration::from_secs(1));
        }
        assert_eq!(world.client(&split), divided(2));
        assert_eq!(begins(&mut world), [0, HALF.0]);
        assert_eq!(world.state().tables[&table].division, DivisionId(1));
    }
}

// A8, G1
#[test]
fn a_table_that_is_dropped_while_it_is_weighed_is_not_cut() {
    let (mut world, table) = uneven();
    for port in [1, 2] {
        world.server_mut(port).deaf.insert(Opcode::TabletWeights);
    }
    let split = TableDivide { table, division: HALVES };
    assert_eq!(world.client(&split), None);
    assert_eq!(world.client_anew(&TableDrop { table }), Some(Ok(ramhold_wire::control::Empty {})));
    world.run(Duration::from_secs(1));
    assert_eq!(world.client_anew(&split), Some(Err(Status::UnknownTable)));
}
