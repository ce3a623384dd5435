//! Updates under numbers of a lease: each takes effect once, whatever is doubled, late, lost, or crashes meanwhile.
//!
//! Catalogue: A3, G1. Rules: docs/protocols/exactly-once.md, 12 to 16.

use crate::harness::*;
use ramhold_base::{ConnId, LeaseId, RpcId, Sequence, Status, TableId};
use ramhold_coordinator::{Key, LeaseRecord};
use ramhold_wire::control::encode_into;
use ramhold_wire::lease::{LeaseOpen, LeaseOpened};
use ramhold_wire::status::LossAcknowledge;
use ramhold_wire::table::*;
use ramhold_wire::{Header, Message, Opcode, decode};
use std::time::Duration;

const RESULTS_MAX: usize = 1024;

fn create(name: &str) -> TableCreate {
    TableCreate { name: name.into(), options: buffered(2, 3), left_open: None }
}

/// Asks until there is an answer.
fn until_answered<M: Message>(world: &mut World, header: Header, message: &M) -> Result<M::Reply, Status> {
    for _ in 0..100 {
        if let Some(answer) = world.ask_as(CLIENT, header, message) {
            return answer;
        }
        world.run(Duration::from_millis(300));
    }
    panic!("{:?} was never answered", M::OPCODE);
}

fn with_floor(header: Header, floor: u64) -> Header {
    Header { unacknowledged: Sequence(floor), ..header }
}

fn answered<M: Message>(world: &World, rpc: RpcId) -> Option<Result<M::Reply, Status>> {
    let (status, body) = world.answer_to(rpc)?;
    Some(if status == Status::Ok { Ok(decode(body).expect("a whole answer")) } else { Err(status) })
}

#[test]
fn a_doubled_creation_that_comes_after_the_drop_makes_no_table() {
    let mut world = World::cluster(3);
    let (first, message) = (world.number(), create("users"));
    let made = until_answered(&mut world, first, &message).unwrap();
    let second = world.number();
    until_answered(&mut world, second, &TableDrop { table: made.table }).unwrap();
    assert!(world.state().tables.is_empty());
    for restarts in [false, true] {
        if restarts {
            world.restart();
            world.run(Duration::from_secs(1));
        }
        world.run(Duration::from_secs(60));
        assert_eq!(world.ask_as(CLIENT, first, &message), Some(Ok(made)), "what it came to the first time");
        assert_eq!(
            world.ask_as(CLIENT, second, &TableDrop { table: made.table }),
            Some(Ok(Default::default()))
        );
        assert!(world.state().tables.is_empty());
        assert_eq!(world.state().meta.tables, made.table);
    }
}

#[test]
fn what_is_below_the_floor_is_dropped_also_by_the_next_coordinator() {
    let mut world = World::cluster(3);
    // The first is overtaken by the next two, with which its client gives it up.
    let first = world.number();
    let (second, third) = (world.number(), world.number());
    assert_eq!(
        world.ask_as(CLIENT, second, &TableDrop { table: TableId(9) }),
        Some(Err(Status::UnknownTable))
    );
    let third = with_floor(third, 3);
    assert_eq!(
        world.ask_as(CLIENT, third, &TableDrop { table: TableId(8) }),
        Some(Err(Status::UnknownTable))
    );
    assert_eq!(world.state().leases[&world.lease].updates.len(), 1, "what is acknowledged is forgotten");
    for _ in 0..2 {
        assert_eq!(world.ask_as(CLIENT, first, &create("users")), None);
        assert_eq!(world.ask_as(CLIENT, second, &TableDrop { table: TableId(9) }), None);
        assert!(world.ask_as(CLIENT, third, &TableDrop { table: TableId(8) }).is_some());
        assert!(world.state().tables.is_empty());
        world.restart();
        world.run(Duration::from_secs(1));
    }
}

#[test]
fn a_refusal_is_a_result() {
    let mut world = World::cluster(3);
    let made = world.create("users", buffered(2, 3));
    let numbers: Vec<Header> = (0..3).map(|_| world.number()).collect();
    let (there, too_much) = (create("users"), TableCreate { name: String::new(), ..create("x") });
    let unknown = LossAcknowledge { id: 7 };
    let refused = |world: &mut World| {
        assert_eq!(world.ask_as(CLIENT, numbers[0], &there), Some(Err(Status::TableExists)));
        assert_eq!(world.ask_as(CLIENT, numbers[1], &too_much), Some(Err(Status::NameTooLong)));
        assert_eq!(world.ask_as(CLIENT, numbers[2], &unknown), Some(Err(Status::NotFound)));
    };
    refused(&mut world);
    let number = world.number();
    until_answered(&mut world, number, &TableDrop { table: made }).unwrap();
    refused(&mut world);
    world.restart();
    world.run(Duration::from_secs(1));
    refused(&mut world);
    assert!(world.state().tables.is_empty());
}

#[test]
fn without_a_master_nothing_is_done_under_a_number_for_good() {
    let mut world = World::new();
    let (first, message) = (world.number(), create("users"));
    assert_eq!(world.ask_as(CLIENT, first, &message), Some(Err(Status::Retry)));
    for port in 1..=3 {
        world.enlist(port);
    }
    world.run(Duration::from_millis(500));
    let late = Header { repeated: true, ..first };
    assert_eq!(world.ask_as(CLIENT, late, &message), Some(Err(Status::Retry)));
    assert!(world.state().tables.is_empty());
    let next = world.number();
    assert!(until_answered(&mut world, next, &message).is_ok());
}

#[test]
fn a_repetition_of_what_is_under_way_waits_for_the_same_end_also_at_the_next_coordinator() {
    for restarts in [false, true] {
        let mut world = World::cluster(3);
        let (number, message) = (world.number(), create("users"));
        world.server_mut(2).deaf.insert(Opcode::TabletTake);
        assert_eq!(world.ask_as(CLIENT, number, &message), None);
        if restarts {
            world.restart();
        }
        world.run(Duration::from_secs(3));
        let again = world.push(CLIENT, number, &message);
        world.run(Duration::from_secs(3));
        assert_eq!(world.answer_to(again), None, "a tablet is not taken");
        world.server_mut(2).deaf.clear();
        world.run(Duration::from_secs(5));
        let made = answered::<TableCreate>(&world, again).expect("all are taken").unwrap();
        assert_eq!((world.state().tables.len(), world.state().meta.tables), (1, made.table));

        let (number, message) = (world.number(), TableDrop { table: made.table });
        world.server_mut(2).deaf.insert(Opcode::TabletDrop);
        assert_eq!(world.ask_as(CLIENT, number, &message), None);
        if restarts {
            world.restart();
        }
        world.run(Duration::from_secs(3));
        let again = world.push(CLIENT, number, &message);
        let other = world.number();
        let other = world.push(CLIENT, other, &message);
        world.run(Duration::from_secs(3));
        assert_eq!((world.answer_to(again), world.answer_to(other)), (None, None), "an owner may serve it");
        world.server_mut(2).deaf.clear();
        world.run(Duration::from_secs(5));
        assert_eq!(answered::<TableDrop>(&world, again), Some(Ok(Default::default())));
        assert_eq!(answered::<TableDrop>(&world, other), Some(Ok(Default::default())));
        assert!(world.state().tables.is_empty());
    }
}

#[test]
fn a_creation_whose_table_is_dropped_meanwhile_was_carried_out() {
    let mut world = World::cluster(3);
    let (number, message) = (world.number(), create("users"));
    world.server_mut(2).deaf.insert(Opcode::TabletTake);
    let asked = world.push(CLIENT, number, &message);
    world.run(Duration::from_secs(1));
    assert_eq!(world.answer_to(asked), None);
    let id = world.state().meta.tables;
    let drop = world.number();
    until_answered(&mut world, drop, &TableDrop { table: id }).unwrap();
    let made = Some(Ok(TableCreated { table: id }));
    assert_eq!(answered::<TableCreate>(&world, asked), made);
    assert_eq!(world.ask_as(CLIENT, number, &message), made);
    assert!(world.state().tables.is_empty());
}

#[test]
fn nothing_is_answered_before_the_result_is_stored() {
    let mut world = World::cluster(3);
    let number = world.number();
    world.store_held = true;
    let message = TableDrop { table: TableId(9) };
    assert_eq!(world.ask_as(CLIENT, number, &message), None);
    assert_eq!(world.ask_as(CLIENT, number, &message), None, "nor a repetition");
    world.store_held = false;
    assert_eq!(world.ask_as(CLIENT, number, &message), Some(Err(Status::UnknownTable)));
}

/// Makes, fails to make, drops and makes again; every frame comes twice, and all of them once more at the end.
fn story(crash_at: Option<(u64, bool)>) -> u64 {
    let mut world = World::new();
    for port in 1..=3 {
        world.enlist(port);
    }
    world.run(Duration::from_millis(300));
    world.crash_at = crash_at.map(|(at, applied)| (world.commits + at, applied));
    let begun = world.commits;
    let numbers: Vec<Header> = (0..5).map(|_| world.number()).collect();
    let twice = |world: &mut World, number: Header, message: &TableCreate| {
        let doubled = world.push(CLIENT, number, message);
        let answer = until_answered(world, number, message);
        if let Some(first) = answered::<TableCreate>(world, doubled) {
            assert_eq!(first, answer, "one number, one answer");
        }
        answer
    };
    let message = create("users");
    let made = twice(&mut world, numbers[0], &message).expect("the name is free");
    assert_eq!(twice(&mut world, numbers[1], &message), Err(Status::TableExists));
    let drop = TableDrop { table: made.table };
    world.push(CLIENT, numbers[2], &drop);
    assert_eq!(until_answered(&mut world, numbers[2], &drop), Ok(Default::default()));
    assert_eq!(until_answered(&mut world, numbers[3], &drop), Err(Status::UnknownTable));
    let again = twice(&mut world, numbers[4], &message).expect("the name is free again");
    let commits = world.commits - begun;
    for late in [false, true] {
        if late {
            world.restart();
            world.run(Duration::from_secs(1));
        }
        assert_eq!(until_answered(&mut world, numbers[0], &message), Ok(made));
        assert_eq!(until_answered(&mut world, numbers[1], &message), Err(Status::TableExists));
        assert_eq!(until_answered(&mut world, numbers[2], &drop), Ok(Default::default()));
        assert_eq!(until_answered(&mut world, numbers[3], &drop), Err(Status::UnknownTable));
        assert_eq!(until_answered(&mut world, numbers[4], &message), Ok(again));
    }
    assert_eq!(made.table, TableId(1));
    assert_eq!(again.table, TableId(2), "each creation makes one table");
    assert_eq!(world.state().tables.keys().copied().collect::<Vec<_>>(), [again.table]);
    commits
}

#[test]
fn a_coordinator_that_dies_at_any_commit_neither_repeats_nor_forgets_an_update() {
    let commits = story(None);
    assert!(commits > 8, "{commits}");
    for at in 1..=commits {
        for applied in [false, true] {
            story(Some((at, applied)));
        }
    }
}

#[test]
fn under_no_lease_or_one_that_is_over_nothing_is_done() {
    let mut world = World::cluster(3);
    let message = create("users");
    let opened = world.client(&LeaseOpen { term_millis: 10_000 }).unwrap();
    let LeaseOpened { lease, .. } = opened.unwrap();
    let number = |lease, sequence| Header { lease, sequence: Sequence(sequence), ..Header::default() };
    for header in [Header::default(), number(lease, 0), number(LeaseId::NONE, 1)] {
        assert_eq!(world.ask_as(CLIENT, header, &message), Some(Err(Status::BadRequest)));
    }
    assert_eq!(world.ask_as(CLIENT, number(LeaseId(77), 1), &message), Some(Err(Status::LeaseOver)));
    assert!(world.state().tables.is_empty());
    let made = until_answered(&mut world, number(lease, 1), &message).unwrap();
    world.run(Duration::from_secs(10));
    assert!(world.state().leases.is_empty(), "and with it what it came to");
    assert!(world.state().tables.contains_key(&made.table));
    for sequence in [1, 2] {
        let late = world.ask_as(CLIENT, number(lease, sequence), &create("other"));
        assert_eq!(late, Some(Err(Status::LeaseOver)));
    }
    assert_eq!(world.state().meta.tables, made.table);
}

#[test]
fn so_many_results_are_remembered_of_one_lease_and_no_more() {
    let mut world = World::new();
    let message = TableDrop { table: TableId(9) };
    for _ in 0..RESULTS_MAX {
        let number = world.number();
        assert!(world.ask_as(CLIENT, number, &message).is_some());
    }
    let number = world.number();
    assert_eq!(
        world.ask_as(CLIENT, number, &message),
        None,
        "a refusal that is not remembered proves nothing"
    );
    assert!(world.reports.iter().any(|report| report.contains("updates of clients were dropped")));
    // Results that are remembered are still told.
    let first = Header { sequence: Sequence(1), ..number };
    assert_eq!(world.ask_as(CLIENT, first, &message), Some(Err(Status::UnknownTable)));
    assert_eq!(world.ask_as(CLIENT, with_floor(number, 2), &message), Some(Err(Status::UnknownTable)));
    assert_eq!(world.state().leases[&world.lease].updates.len(), RESULTS_MAX);
    world.restart();
    assert_eq!(world.state().leases[&world.lease].updates.len(), RESULTS_MAX);
}

#[test]
fn so_many_results_are_remembered_of_all_leases_and_no_more() {
    let mut world = World::new();
    let message = TableDrop { table: TableId(9) };
    let open = |world: &mut World, term_millis| {
        world.client(&LeaseOpen { term_millis }).expect("answered").expect("opened").lease
    };
    let number = |lease, sequence| Header { lease, sequence: Sequence(sequence), ..Header::default() };
    let long = open(&mut world, 1_800_000);
    for _ in 0..64 {
        let lease = open(&mut world, 60_000);
        world.store_held = true;
        for sequence in 1..=RESULTS_MAX as u64 {
            world.push(CLIENT, number(lease, sequence), &message);
        }
        world.settle();
        world.store_held = false;
        world.settle();
    }
    assert_eq!(world.ask_as(CLIENT, number(long, 1), &message), None);
    // The next coordinator counts what it finds.
    world.restart();
    assert_eq!(world.ask_as(CLIENT, number(long, 1), &message), None);
    // Leases that are over give their room back.
    world.run(Duration::from_secs(60));
    assert_eq!(world.ask_as(CLIENT, number(long, 1), &message), Some(Err(Status::UnknownTable)));
}

#[test]
fn repetitions_of_one_client_leave_room_for_others_to_wait() {
    let mut world = World::cluster(3);
    world.server_mut(2).deaf.insert(Opcode::TabletTake);
    let (number, message) = (world.number(), create("users"));
    let mut asked = Vec::new();
    for _ in 0..100 {
        asked.push(world.push(CLIENT, number, &message));
        world.run(Duration::from_secs(1));
    }
    let drop = TableDrop { table: world.state().meta.tables };
    world.server_mut(1).deaf.insert(Opcode::TabletDrop);
    let number = world.number();
    let dropped: Vec<RpcId> = (0..100).map(|_| world.push(CLIENT, number, &drop)).collect();
    let (number, other) = (world.number(), ConnId(2_000_000));
    let by_other = world.push(other, number, &drop);
    world.run(Duration::from_secs(1));
    assert!(
        answered::<TableCreate>(&world, asked[99]).is_some_and(|answer| answer.is_ok()),
        "made and dropped"
    );
    world.server_mut(1).deaf.clear();
    world.run(Duration::from_secs(10));
    for rpc in [dropped[99], by_other] {
        assert_eq!(answered::<TableDrop>(&world, rpc), Some(Ok(Default::default())));
    }
}

/// A record that cannot have been written stops the start, as one that cannot be read does.
#[test]
fn a_record_whose_updates_contradict_it_is_refused() {
    let mut world = World::cluster(1);
    world.client(&TableDrop { table: TableId(9) }).unwrap().unwrap_err();
    world.client(&TableDrop { table: TableId(8) }).unwrap().unwrap_err();
    let record = world.state().leases[&world.lease].clone();
    let key = Key::Lease(world.lease).to_string();
    let write = |world: &mut World, record: &LeaseRecord| {
        let mut bytes = vec![1];
        encode_into(&mut bytes, record);
        world.store.get_mut(&key).unwrap().1 = bytes;
        world.restart();
    };
    write(&mut world, &record);
    assert_eq!((world.state().leases[&world.lease].clone(), &world.exit), (record.clone(), &None));
    let turned = record.updates.iter().rev().copied().collect();
    let bad = [
        LeaseRecord { floor: Sequence(2), ..record.clone() },
        LeaseRecord { updates: turned, ..record.clone() },
        LeaseRecord { updates: vec![record.updates[0]; 2], ..record },
    ];
    for record in bad {
        write(&mut world, &record);
        let (code, reason) = world.exit.clone().unwrap();
        assert!(code == 1 && reason.contains(&key), "{code}: {reason}");
    }
}
