//! Servers hold copies of the state, and nobody is told anything that they do not have.

use crate::harness::*;
use ramhold_base::{ServerId, Status};
use ramhold_wire::Opcode;
use ramhold_wire::copies::{StateRead, StateRecord};
use ramhold_wire::membership::MembershipVerify;
use ramhold_wire::status::ClusterStatusRequest;
use ramhold_wire::table::{TableCreate, TableList};
use std::collections::BTreeMap;
use std::time::Duration;

/// The records of the store, without what is not copied.
fn stored(world: &World) -> BTreeMap<String, Vec<u8>> {
    let records = world.store.iter().filter(|(key, _)| *key != "term");
    records.map(|(key, (_, value))| (key.clone(), value.clone())).collect()
}

fn begin_table(world: &mut World, name: &str) -> ramhold_base::RpcId {
    let header = world.number();
    let message = TableCreate { name: name.into(), options: buffered(2, 4), left_open: None };
    let rpc = world.push(CLIENT, header, &message);
    world.settle();
    rpc
}

// G1, G3
#[test]
fn the_five_servers_with_the_lowest_ids_hold_what_is_in_the_store() {
    let mut world = World::cluster(7);
    world.create("a", buffered(3, 7));
    world.run(Duration::from_secs(1));
    let records = stored(&world);
    assert!(records.keys().any(|key| key.starts_with("table/")));
    for port in 1..=5 {
        assert_eq!(world.server_mut(port).state, records, "server {port}");
    }
    assert_eq!((world.server_mut(6).held, world.server_mut(7).held), (None, None));

    // One that dies is replaced by the next, before anybody is told of its death.
    world.kill(2);
    world.run_until("declared dead", |w| !w.state().is_up(ServerId(2)));
    world.run(Duration::from_secs(2));
    let records = stored(&world);
    assert_eq!(world.server_mut(6).state, records);
    assert_ne!(world.server_mut(2).state, records);
    assert_eq!(world.server_mut(7).held, None);
}

// G1: one server too few has the table; the client hears of it when the next one has it, too.
#[test]
fn nothing_is_told_before_enough_servers_hold_it() {
    let mut world = World::cluster(5);
    world.create("first", buffered(2, 4));
    world.run(Duration::from_secs(1));
    world.servers.values_mut().for_each(|server| server.takes.clear());
    let tables = |world: &World| world.store.keys().filter(|key| key.starts_with("table/")).count();
    for port in 1..=3 {
        world.server_mut(port).deaf.insert(Opcode::StateCopy);
    }
    let rpc = begin_table(&mut world, "a");
    world.run(Duration::from_millis(700));
    assert_eq!(tables(&world), 2, "it is stored");
    assert!(world.servers.values().all(|server| server.takes.is_empty()), "and nobody knows");
    assert_eq!(world.answer_to(rpc), None);
    assert!(world.client(&ClusterStatusRequest {}).is_some(), "an operator is told all the same");
    world.server_mut(3).deaf.clear();
    world.run(Duration::from_secs(2));
    assert_eq!(world.answer_to(rpc).map(|(status, _)| status), Some(Status::Ok));
}

// G1: so whoever holds an old copy knows all who may hold a newer one.
#[test]
fn a_server_comes_to_the_list_when_every_holder_knows_of_it() {
    let mut world = World::cluster(4);
    world.run(Duration::from_secs(1));
    world.server_mut(1).deaf.insert(Opcode::StateCopy);
    let message = World::enlist_message(5, 4242, 5, None);
    let rpc = world.push(ramhold_base::ConnId(5), Default::default(), &message);
    world.run(Duration::from_millis(700));
    assert_eq!(world.answer_to(rpc), None, "the first server does not know the fifth");
    world.server_mut(1).deaf.clear();
    world.run(Duration::from_millis(300));
    world.run_until("it is taken in", |w| w.answer_to(rpc).is_some());
}

// G1: it was one before, when a server with a lower id did not know its id yet.
#[test]
fn a_server_may_become_a_holder_again() {
    let mut world = World::cluster(2);
    // The third is entered and not told; four more are.
    let message = World::enlist_message(3, 333, 3, None);
    world.ask_as(ramhold_base::ConnId(3), Default::default(), &message);
    for port in 4..=7 {
        world.enlist(port);
    }
    world.run(Duration::from_millis(20));
    assert!(world.server_mut(6).held.is_some(), "of those that know their ids it is one of the first five");
    world.create("a", buffered(2, 7));
    world.run(Duration::from_secs(3));
    assert!(!world.state().is_up(ServerId(3)), "nobody listens there");
    world.kill(1);
    world.run_until("declared dead", |w| !w.state().is_up(ServerId(1)));
    world.create("b", buffered(2, 4));
    world.run(Duration::from_secs(1));
    let records = stored(&world);
    for port in [2, 4, 5, 6, 7] {
        assert_eq!(world.server_mut(port).state, records, "server {port}");
    }
}

// G1: a version of before holds no copies, and everything goes on.
#[test]
fn servers_that_cannot_hold_copies_are_not_waited_for() {
    let mut world = World::new();
    for port in 1..=3 {
        world.enlist(port);
        world.server_mut(port).ignorant.insert(Opcode::StateCopy);
    }
    world.run(Duration::from_secs(1));
    world.create("a", buffered(2, 3));
    assert!(world.servers.values().all(|server| server.held.is_none()));
}

// G3: the directory of the coordinator was copied, and the copy started when the original was lost.
#[test]
fn an_old_copy_of_the_store_is_not_believed_however_often_it_is_started() {
    let mut world = World::cluster(4);
    world.create("a", buffered(2, 4));
    world.run(Duration::from_secs(1));
    let copy = world.store.clone();
    world.create("b", buffered(2, 4));
    world.run(Duration::from_secs(1));
    world.store = copy;
    let lists: Vec<u64> = world.servers.values().map(|server| server.list.version()).collect();
    for start in 0..5 {
        world.sent.clear();
        world.restart();
        world.run(Duration::from_secs(1));
        let (code, reason) = world.exit.clone().expect("it ends");
        // In the term that servers know already, or in one after that.
        assert!([3, 6].contains(&code), "start {start}: {reason}");
        if code == 6 {
            assert!(reason.contains("old copy") && reason.contains("--rebuild-from-servers"), "{reason}");
        }
        assert!(world.sent.is_empty(), "nobody was told anything");
        let now: Vec<u64> = world.servers.values().map(|server| server.list.version()).collect();
        assert_eq!(now, lists);
    }
    assert_eq!(world.exit.as_ref().map(|(code, _)| *code), Some(6));
}

// G3: all servers of the old list are gone, and those of today have ids that the old store has not given out.
#[test]
fn an_old_copy_of_the_store_meets_a_server_that_came_after_it() {
    let mut world = World::cluster(2);
    world.run(Duration::from_secs(1));
    let copy = world.store.clone();
    for port in [1, 2] {
        let before = world.server_mut(port).id;
        world.enlist_again(port, Some(before));
    }
    world.run(Duration::from_secs(2));
    world.store = copy;
    // Those of the old list were at other addresses.
    world.restart();
    world.run(Duration::from_secs(3));
    if world.exit.is_none() {
        let header = ramhold_wire::Header { sender: world.server_mut(1).id, ..world.header() };
        let message = MembershipVerify { address: Some(ramhold_wire::control::Address(addr(1))), full: None };
        world.ask_as(ramhold_base::ConnId(1), header, &message);
        world.run(Duration::from_secs(1));
    }
    let (code, reason) = world.exit.clone().expect("it ends");
    assert_eq!(code, 6, "{reason}");
}

// G3: a coordinator that lost nothing begins in the next term with all that its servers hold.
#[test]
fn the_store_itself_is_believed_at_every_start() {
    let mut world = World::cluster(5);
    for round in 0..80 {
        if round % 7 == 0 {
            world.create(&format!("t{round}"), buffered(2, 4));
        }
        world.restart();
        world.run(Duration::from_millis(1300));
        assert_eq!(world.exit, None, "start {round}: {}", world.reports.join("\n"));
        assert_eq!(world.state().all_up().count(), 5);
    }
    let records = stored(&world);
    assert!(world.servers.values().all(|server| server.state == records));
}

// G1: a backup is of one moment, though it is read in parts.
#[test]
fn the_state_is_read_in_parts_as_of_one_moment() {
    let mut world = World::cluster(3);
    // More than fits one part: names are in the records.
    for number in 0..40 {
        let name = format!("{number:0>250}");
        world.create(&name, buffered(2, 64));
    }
    world.run(Duration::from_secs(1));
    let at_begin = stored(&world);
    let (mut records, mut read) = (BTreeMap::new(), StateRead { position: None, after: String::new() });
    let mut parts = 0;
    loop {
        let part = world.client(&read).expect("an answer").expect("a part");
        parts += 1;
        let whole = |record: StateRecord| Some((record.key, record.value?));
        records.extend(part.records.into_iter().filter_map(whole));
        if part.last {
            break;
        }
        let after = records.keys().next_back().expect("a record").clone();
        read = StateRead { position: Some(part.position), after };
        world.create(&format!("later {parts}"), buffered(2, 4));
    }
    assert_eq!(records, at_begin);
    let again = world.client(&read).expect("an answer");
    assert_eq!(again.err(), if parts > 1 { Some(Status::NotFound) } else { None });
    assert_eq!(world.client(&TableList {}).unwrap().unwrap().tables.len(), 40 + parts - 1);
}
