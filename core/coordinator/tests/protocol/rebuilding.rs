//! The store is lost, and the state is made anew from what servers hold.

use crate::accounts::set;
use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::{ConnId, LeaseId, ServerId, Status};
use ramhold_coordinator::{Coordinator, Rebuild, State};
use ramhold_wire::Header;
use ramhold_wire::control::Address;
use ramhold_wire::lease::LeaseOpen;
use ramhold_wire::membership::MembershipVerify;
use ramhold_wire::table::{TableCreate, TableList, TabletState};
use std::collections::BTreeSet;
use std::time::Duration;

/// Every server that lives asks for its coordinator.
fn servers_speak(world: &mut World, cluster: ramhold_base::ClusterId) {
    let ports: Vec<u16> = world.servers.keys().map(|at| at.port()).collect();
    for port in ports {
        let server = world.server_mut(port);
        if server.mood == Mood::Answering && !server.id.is_none() {
            let header = Header { cluster, sender: server.id, term: server.term, ..Header::default() };
            let message = MembershipVerify { address: Some(Address(addr(port))), full: None };
            world.push(ConnId(u64::from(port)), header, &message);
        }
    }
    world.settle();
}

/// The directory of the coordinator is gone; another one begins, and time passes.
fn lose_store(world: &mut World, given_up: &[u64]) {
    let cluster = world.state().meta.cluster;
    lose_store_of(world, cluster, given_up);
}

fn lose_store_of(world: &mut World, cluster: ramhold_base::ClusterId, given_up: &[u64]) {
    world.store.clear();
    let given_up: BTreeSet<ServerId> = given_up.iter().map(|id| ServerId(*id)).collect();
    world.config.rebuild = Some(Rebuild { given_up });
    world.restart();
    for _ in 0..8 {
        servers_speak(world, cluster);
        world.run(Duration::from_secs(1));
    }
}

fn cluster_with_table(servers: u16) -> World {
    let mut world = World::cluster(servers);
    world.create("a", buffered(2, u32::from(servers)));
    world.run(Duration::from_secs(1));
    world
}

fn assert_same(before: &State, after: &State) {
    assert_eq!(before.servers, after.servers);
    assert_eq!(before.tables, after.tables);
    assert_eq!(before.recoveries, after.recoveries);
    assert_eq!(before.losses, after.losses);
    assert_eq!(before.leases, after.leases);
    assert_eq!(before.meta.cluster, after.meta.cluster);
    assert_eq!(before.meta.index_secret, after.meta.index_secret);
}

// G1
#[test]
fn a_lost_store_is_made_anew_from_the_servers() {
    let mut world = cluster_with_table(4);
    let (before, term) = (world.state().clone(), world.coordinator.term());
    lose_store(&mut world, &[]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    assert_same(&before, world.state());
    // A coordinator that nobody has heard of may have taken some terms; ids may have been given out by it.
    assert!(world.coordinator.term().0 > term.0 + 1000);
    let (old, new) = (&before.meta, &world.state().meta);
    assert!(new.servers.0 > old.servers.0 + 1000 && new.tables.0 > old.tables.0 + 1000);
    assert!(new.leases.0 > old.leases.0 + 1000 && new.recoveries.0 > old.recoveries.0 + 1000);
    assert!(new.list_version > old.list_version && new.time_ceiling > old.time_ceiling);
    // And it is a cluster like any other: it goes on, also from the new store.
    world.create("b", buffered(2, 4));
    assert!(world.describe("a").tablets.iter().all(|tablet| tablet.state == TabletState::Serving));
    world.restart();
    world.run(Duration::from_secs(2));
    assert_eq!(world.client(&TableList {}).unwrap().unwrap().tables.len(), 2);
}

// G1: nobody knows of a lease but its client.
#[test]
fn an_id_that_was_given_out_is_never_given_out_again() {
    let mut world = cluster_with_table(3);
    let ask = |world: &mut World| {
        let opened = world.ask_as(CLIENT, Header::default(), &LeaseOpen { term_millis: 60_000 });
        opened.expect("an answer").expect("a lease").lease
    };
    let before: Vec<LeaseId> = (0..5).map(|_| ask(&mut world)).collect();
    // The newest state that is left is an older one.
    for server in world.servers.values_mut() {
        server.deaf.insert(ramhold_wire::Opcode::StateCopy);
    }
    let rpc = world.push(CLIENT, Header::default(), &LeaseOpen { term_millis: 60_000 });
    world.run(Duration::from_millis(300));
    assert_eq!(world.answer_to(rpc), None, "of this one nobody was told");
    world.servers.values_mut().for_each(|server| server.deaf.clear());
    lose_store(&mut world, &[]);
    assert!(before.iter().all(|lease| world.state().leases.contains_key(lease)));
    assert!(ask(&mut world).0 > before[4].0 + 1, "one may have been told");
}

// G1
#[test]
fn nothing_is_begun_while_a_server_of_the_newest_list_is_missing() {
    let mut world = cluster_with_table(4);
    let cluster = world.state().meta.cluster;
    world.server_mut(4).mood = Mood::Silent;
    lose_store(&mut world, &[]);
    assert!(!world.coordinator.is_active());
    assert!(world.reports.iter().any(|text| text.contains("waiting for s4 at 127.0.0.1:4")));
    let refused = world.client(&TableList {}).expect("an answer");
    assert_eq!(refused.unwrap_err(), Status::NotReady);
    // Named as given up it is not waited for, and recovered.
    lose_store_of(&mut world, cluster, &[4]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    world.run_until("declared dead", |w| !w.state().is_up(ServerId(4)));
    assert!(!world.reports.iter().any(|text| text.contains("may be missing")));
}

// G1: it has died since it told what it holds, or stands still.
#[test]
fn a_state_that_one_holder_does_not_hand_out_is_read_from_another() {
    let mut world = cluster_with_table(4);
    let before = world.state().clone();
    world.server_mut(1).deaf.insert(ramhold_wire::Opcode::StateRead);
    lose_store(&mut world, &[]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    assert_same(&before, world.state());
}

// G1
#[test]
fn a_server_that_is_given_up_and_answers_is_not_given_up() {
    let mut world = cluster_with_table(4);
    lose_store(&mut world, &[4]);
    assert!(!world.coordinator.is_active());
    assert!(world.reports.iter().any(|text| text.contains("s4 is given up, and answers")));
}

// G1: the newest of the copies, though others are there that are whole.
#[test]
fn the_newest_copy_counts() {
    let mut world = cluster_with_table(5);
    // These two stand still while more happens.
    for port in [1, 2] {
        world.server_mut(port).deaf.insert(ramhold_wire::Opcode::StateCopy);
    }
    world.create("b", buffered(2, 5));
    let before = world.state().clone();
    let held = |world: &World, port| world.servers[&addr(port)].held;
    assert_ne!(held(&world, 1), held(&world, 5));
    lose_store(&mut world, &[]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    assert_same(&before, world.state());
}

// G1: a process that was started again has lost what it held, and says that the one before is over.
#[test]
fn servers_that_were_started_again_are_not_waited_for_unless_they_are_too_many() {
    for restarted in [2, 3] {
        let mut world = cluster_with_table(5);
        let cluster = world.state().meta.cluster;
        world.store.clear();
        world.config.rebuild = Some(Rebuild::default());
        world.restart();
        for port in 1..=restarted {
            let server = world.server_mut(port);
            (server.held, server.id) = (None, ServerId::NONE);
            server.state.clear();
        }
        for _ in 0..8 {
            servers_speak(&mut world, cluster);
            for port in 1..=restarted {
                let token = 9000 + u64::from(port);
                let message =
                    World::enlist_message(port, token, u64::from(port), Some(ServerId(u64::from(port))));
                let header = Header { cluster, ..Header::default() };
                world.push(ConnId(u64::from(port)), header, &message);
            }
            world.run(Duration::from_secs(1));
        }
        assert_eq!(world.coordinator.is_active(), restarted == 2, "{}", world.reports.join("\n"));
        if restarted == 3 {
            assert!(world.reports.iter().any(|text| text.contains("s1, s2, s3 again")));
        }
    }
}

// G1: seed 40010 of the simulator. It was stored, and the coordinator was lost before it said so.
#[test]
fn a_server_that_was_never_told_its_id_is_not_waited_for() {
    let mut world = cluster_with_table(4);
    let before = world.state().servers.len();
    let cluster = world.state().meta.cluster;
    let message = World::enlist_message(5, 4711, 5, None);
    // It has not got its id, so it knows of no cluster.
    world.ask_as(ConnId(5), Header::default(), &message);
    assert_eq!(world.state().servers.len(), before + 1);
    world.store.clear();
    world.config.rebuild = Some(Rebuild::default());
    world.restart();
    for _ in 0..8 {
        servers_speak(&mut world, cluster);
        world.push(ConnId(5), Header::default(), &message);
        world.run(Duration::from_secs(1));
    }
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
}

// G1: its own first question, held up in the network, says nothing of whether it was answered.
#[test]
fn a_late_question_of_a_server_that_was_told_its_id_does_not_speak_for_it() {
    let mut world = World::cluster(2);
    world.run(Duration::from_secs(1));
    let cluster = world.state().meta.cluster;
    let token = world.state().servers[&ServerId(2)].token;
    world.server_mut(2).mood = Mood::Silent;
    world.store.clear();
    world.config.rebuild = Some(Rebuild::default());
    world.restart();
    for _ in 0..8 {
        servers_speak(&mut world, cluster);
        world.push(ConnId(5), Header::default(), &World::enlist_message(2, token, 2, None));
        world.run(Duration::from_secs(1));
    }
    assert!(!world.coordinator.is_active(), "it may be the only one that holds the newest state");
    assert!(world.reports.iter().any(|text| text.contains("s2 again")), "{}", world.reports.join("\n"));
}

// G1: seed 61279 of the simulator. It has told what it holds, and died.
#[test]
fn a_state_whose_only_holder_dies_gives_way_to_the_next_newest() {
    let mut world = cluster_with_table(5);
    let cluster = world.state().meta.cluster;
    // Server 1 alone has a change more, and does not hand it out.
    world.server_mut(1).held.as_mut().expect("all hold the state").number += 1;
    world.server_mut(1).deaf.insert(ramhold_wire::Opcode::StateRead);
    world.store.clear();
    world.config.rebuild = Some(Rebuild::default());
    world.restart();
    for second in 0..25 {
        servers_speak(&mut world, cluster);
        if second == 7 {
            world.server_mut(1).mood = Mood::Silent;
        }
        if second > 7 {
            let header = Header { cluster, ..Header::default() };
            world.push(ConnId(1), header, &World::enlist_message(1, 9001, 1, Some(ServerId(1))));
        }
        world.run(Duration::from_secs(1));
    }
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
}

// G1: seed 20518 of the simulator. The verdict on the life before was not spoken yet when the store was lost.
#[test]
fn a_life_whose_directory_another_server_has_is_not_waited_for() {
    let mut world = cluster_with_table(5);
    let before = world.enlist(6);
    world.server_mut(6).mood = Mood::Silent;
    let later = world.enlist_with_directory_of(6, 7);
    assert!(world.state().is_up(before) && world.state().is_up(later), "no verdict yet");
    lose_store(&mut world, &[]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    world.run_until("the verdict", |w| !w.state().is_up(before));
    assert!(world.state().is_up(later));
}

// G1: the process that was taken for lost lives, with its store, and hears nothing of the other one.
#[test]
fn the_coordinator_of_before_can_do_nothing_any_more() {
    let mut world = cluster_with_table(4);
    let spare = Coordinator::new(world.config.clone(), 1);
    let (old, store) = (std::mem::replace(&mut world.coordinator, spare), world.store.clone());
    let cluster = old.state().meta.cluster;
    lose_store_of(&mut world, cluster, &[]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    world.create("b", buffered(2, 4));
    let of_servers = |world: &World| {
        let seen = |s: &Server| (s.list.version(), s.takes.len(), s.held, s.term);
        world.servers.values().map(seen).collect::<Vec<_>>()
    };
    let before = of_servers(&world);
    (world.coordinator, world.store) = (old, store);
    let header = world.number();
    let message = TableCreate { name: "c".into(), options: buffered(2, 4), left_open: None };
    let rpc = world.push(CLIENT, header, &message);
    world.run(Duration::from_secs(2));
    let (code, reason) = world.exit.clone().expect("it ends");
    assert_eq!(code, 3, "{reason}");
    assert_eq!(world.store.keys().filter(|key| key.starts_with("table/")).count(), 2, "it is in its store");
    assert_eq!(world.answer_to(rpc), None, "and has told nobody");
    assert_eq!(of_servers(&world), before);
}

// G1
#[test]
fn a_store_that_is_there_is_not_made_anew() {
    let mut world = cluster_with_table(3);
    let before = world.state().clone();
    world.config.rebuild = Some(Rebuild::default());
    world.restart();
    world.run(Duration::from_secs(1));
    assert!(world.coordinator.is_active());
    assert_same(&before, world.state());
    assert_eq!(world.state().meta.servers, before.meta.servers);
}

// G1, G3: the process dies while it makes the state anew, and begins again.
#[test]
fn a_coordinator_that_dies_while_it_is_made_anew_begins_again() {
    for applied in [false, true] {
        let mut world = cluster_with_table(3);
        let before = world.state().clone();
        // The term, then the state.
        world.crash_at = Some((world.commits + 2, applied));
        lose_store(&mut world, &[]);
        for _ in 0..8 {
            servers_speak(&mut world, before.meta.cluster);
            world.run(Duration::from_secs(1));
        }
        assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
        assert_same(&before, world.state());
    }
}

// G1, J4
#[test]
fn accounts_are_made_anew_and_no_id_of_one_is_given_out_twice() {
    let mut world = cluster_with_table(4);
    set(&mut world, "ann", &["on", ">secret", "~a*", "+get"]).expect("it is made");
    world.run(Duration::from_secs(1));
    let before = world.state().clone();
    lose_store(&mut world, &[]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    assert_same(&before, world.state());
    assert_eq!(before.accounts, world.state().accounts);
    // A change of accounts may have been lost, and its version with it.
    assert!(world.state().meta.accounts > before.meta.accounts + 1000);
    let changed = set(&mut world, "bob", &["on"]).expect("it is made");
    assert!(changed.version > before.meta.accounts + 1000);
    world.run(Duration::from_secs(1));
    let told = world.server_mut(1).accounts.clone().expect("it is told");
    assert_eq!((told.version, told.accounts.len()), (changed.version, 2));
    world.restart();
    assert_eq!(world.state().accounts.len(), 2);
}

// G1, I1
#[test]
fn bricks_and_quorum_tables_are_made_anew_and_no_version_is_given_out_twice() {
    let mut world = cluster_with_table(4);
    let mut all = bricks(&mut world, 3);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
    world.run(Duration::from_secs(1));
    let before = world.state().clone();
    lose_store(&mut world, &[]);
    assert!(world.coordinator.is_active(), "{}", world.reports.join("\n"));
    assert_same(&before, world.state());
    let after = world.state();
    assert_eq!((&after.bricks, &after.quorum_tables), (&before.bricks, &before.quorum_tables));
    assert!(after.meta.assignments > before.meta.assignments + 1000);
    take_all(&mut world, &mut all);
    let taken = all[0].message.taken;
    made(&mut world, &mut all, "u", quorum(3, 2, 2));
    assert!(all[0].message.taken > taken + 1000);
    world.restart();
    assert_eq!(world.state().quorum_tables.len(), 2);
}
