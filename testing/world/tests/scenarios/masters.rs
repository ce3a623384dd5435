//! Masters, zombies and the detection of failures. Catalogue: A11, F1, F8.

use ramhold_base::TableId;
use ramhold_node::EXIT_DECLARED_DEAD;
use ramhold_world::history::{Condition, Outcome};
use ramhold_world::network::{MILLI, SECOND};
use ramhold_world::stage::{Stage, filling};

/// A1, D9
#[test]
fn a_crashed_masters_table_is_served_again_within_two_seconds() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 100);
    let master = stage.owner(table).unwrap();
    // One write is under way when the master dies.
    let open = stage.begin_write(0, table, "open", b"1", Condition::Free);
    stage.crash(master);
    let crashed_at = stage.world.now();
    stage.expect(table, "key0", &filling("key", 0));
    assert!(stage.world.now() - crashed_at < 2 * SECOND, "{} ms", (stage.world.now() - crashed_at) / MILLI);
    assert!(matches!(stage.end(open), Outcome::Done { .. }));
    stage.expect_filled(table, "key", 100);
    assert!(stage.marks("recovery_published") > 0);
    assert_ne!(stage.owner(table), Some(master));
    stage.close();
}

/// Makes a master that is cut off from the coordinator and from one server that reports it, but not from its
/// head's backups nor from client 0. Client 0 is cut off from the coordinator with it. Returns when the
/// master is recovered elsewhere.
fn make_a_zombie(stage: &mut Stage, table: TableId, one_way: Option<bool>) -> usize {
    let master = stage.owner(table).unwrap();
    let id = stage.id(master);
    let backups = stage.head_backups(master, table);
    let observer = stage.others(&[&backups[..], &[master]].concat())[0];
    let zombie = stage.hosts(&[master]);
    let rest = [stage.hosts(&[observer]), vec![stage.coordinator]].concat();
    match one_way {
        None => stage.part(&zombie, &rest),
        Some(true) => stage.world.network.cut(&zombie, &rest),
        Some(false) => stage.world.network.cut(&rest, &zombie),
    }
    let clients = [stage.clients[0]];
    let coordinator = [stage.coordinator];
    stage.part(&clients, &coordinator);
    stage.wait("it is recovered elsewhere", |stage| {
        stage.deaths().contains_key(&id) && stage.marks("recovery_published") > 0
    });
    master
}

fn a_zombie_acknowledges_nothing(one_way: Option<bool>) {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let master = make_a_zombie(&mut stage, table, one_way);
    // Client 1 goes on at the new owner; client 0 knows only the zombie.
    let late = stage.begin_write(0, table, "key0", b"to the zombie", Condition::Free);
    let other = stage.begin_write(1, table, "key1", b"to the owner", Condition::Free);
    assert!(matches!(stage.end(other), Outcome::Done { .. }));
    assert!(stage.stays(3000, |stage| !stage.is_done(late)), "a zombie acknowledged a write");
    stage.expect(table, "key1", b"to the owner");
    stage.settle();
    let ended =
        stage.world.exits.iter().any(|e| e.node == stage.servers[master] && e.code == EXIT_DECLARED_DEAD);
    assert!(ended, "it did not end: {:?}", stage.world.exits);
    stage.close();
}

/// A2
#[test]
fn a_master_that_is_cut_off_acknowledges_nothing_and_ends() {
    a_zombie_acknowledges_nothing(None);
}

/// A2
#[test]
fn a_master_that_nobody_hears_acknowledges_nothing_and_ends() {
    a_zombie_acknowledges_nothing(Some(true));
}

/// A2
#[test]
fn a_master_that_hears_nobody_acknowledges_nothing_and_ends() {
    a_zombie_acknowledges_nothing(Some(false));
}

/// A4
#[test]
fn a_zombie_cannot_go_on_in_a_head_on_backups_that_nobody_fenced() {
    let mut stage = Stage::new(9);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let master = stage.owner(table).unwrap();
    let backups = stage.head_backups(master, table);
    // Four servers that the coordinator does not reach: they do not learn that the master is dead.
    let unreached: Vec<usize> = stage.others(&[&backups[..], &[master]].concat())[1..].to_vec();
    let hosts = stage.hosts(&unreached);
    let coordinator = [stage.coordinator];
    stage.part(&hosts, &coordinator);
    let same = make_a_zombie(&mut stage, table, None);
    assert_eq!(same, master);
    let stream = stage.stream(master, table);
    let durable = move |stage: &Stage| {
        stage.node(master).and_then(|n| n.master()).map(|m| m.replicator().durable(stream))
    };
    let before = durable(&stage);
    // More than a segment, so that it rolls its head.
    let rolls = stage.head(master, table);
    let late: Vec<_> = (0..60)
        .map(|n| stage.begin_write(0, table, &format!("late{n}"), &filling("late", n), Condition::Free))
        .collect();
    stage.pass(3000);
    assert!(stage.head(master, table) > rolls, "it was to roll its head");
    assert_eq!(durable(&stage), before);
    assert!(late.iter().all(|begun| !stage.is_done(*begun)));
    stage.close();
}

/// A5
#[test]
fn without_the_coordinator_nothing_is_acknowledged_after_the_loss_of_a_head_replica() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let master = stage.owner(table).unwrap();
    let host = stage.hosts(&[master]);
    let coordinator = [stage.coordinator];
    stage.part(&host, &coordinator);
    let backup = stage.head_backups(master, table)[0];
    stage.crash(backup);
    let open = stage.begin_write(0, table, "key0", b"new", Condition::Free);
    let stream = stage.stream(master, table);
    let durable = move |stage: &Stage| {
        stage.node(master).and_then(|n| n.master()).map(|m| m.replicator().durable(stream))
    };
    let before = durable(&stage);
    // The client may have the master declared dead meanwhile, and be answered by another server.
    assert!(
        stage.stays(2500, |stage| durable(stage) == before),
        "it needs a new epoch, which nobody recorded"
    );
    stage.world.network.heal();
    assert!(matches!(stage.end(open), Outcome::Done { .. }));
    stage.expect(table, "key0", b"new");
    stage.close();
}

/// A6: requests that waited for a server while it stood still are carried out once, by another server.
#[test]
fn a_master_that_wakes_up_after_its_recovery_ends() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let master = stage.owner(table).unwrap();
    let node = stage.servers[master];
    stage.world.stall(node, 10 * SECOND);
    let waiting = stage.begin_write(0, table, "key0", b"while it slept", Condition::Free);
    let Outcome::Done { version } = stage.end(waiting) else { panic!("the new owner takes it") };
    assert_ne!(stage.owner(table), None);
    stage.pass(10_000);
    assert!(stage.world.exits.iter().any(|e| e.node == node && e.code == EXIT_DECLARED_DEAD));
    assert_eq!(stage.write(table, "key0", b"next"), version.raw() + 1);
    stage.close();
}

/// A7
#[test]
fn a_short_stall_of_anybody_kills_nobody() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    for round in 0..10 {
        for server in 0..5 {
            stage.world.stall(stage.servers[server], 250 * MILLI);
            let begun = stage.begin_write(0, table, "key", &[round, server as u8], Condition::Free);
            assert!(matches!(stage.end(begun), Outcome::Done { .. }));
            stage.pass(100);
        }
    }
    assert_eq!(stage.deaths().len(), 0);
    stage.close();
}

/// A7
#[test]
fn lost_frames_cause_few_recoveries_and_none_that_does_harm() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.world.network.options.loss_ppm = 150_000;
    for round in 0..20u8 {
        let begun = stage.begin_write(0, table, "key", &[round], Condition::Free);
        stage.finish(begun);
        stage.pass(500);
    }
    assert!(stage.deaths().len() <= 5, "{:?}", stage.deaths());
    stage.close();
}

/// A8: a log that never held anything is empty, not lost.
#[test]
fn the_death_of_a_server_without_data_waits_for_nothing() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    let master = stage.owner(table).unwrap();
    let idle = stage.others(&[master])[0];
    let id = stage.id(idle);
    stage.crash(idle);
    assert!(stage.try_for(3000, |stage| stage.is_recovered(id)));
    stage.restart(idle);
    stage.close();
}

/// A8
#[test]
fn a_master_that_dies_while_it_takes_its_first_tablet_is_replaced() {
    let mut stage = Stage::new(5);
    let all: Vec<usize> = (0..5).collect();
    stage.arm(&all, "tablet_taken");
    let node = stage.clients[0];
    let create = stage.begin_table("t", 3);
    let dead = stage.wait_for_death_at("tablet_taken");
    assert!(stage.world.node(node).is_up());
    let table = stage.finish_table(create);
    assert_ne!(stage.owner(table), Some(dead));
    stage.fill(table, "key", 5);
    stage.expect_filled(table, "key", 5);
    stage.close();
}

/// A9
#[test]
fn an_observer_that_hears_nobody_kills_nobody() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    let observer = stage.others(&[stage.owner(table).unwrap()])[0];
    let hosts = stage.hosts(&stage.others(&[observer]));
    let own = stage.hosts(&[observer]);
    stage.world.network.cut(&hosts, &own);
    for round in 0..10u8 {
        stage.write(table, "key", &[round]);
        stage.pass(1000);
    }
    assert_eq!(stage.deaths().len(), 0);
    stage.close();
}

/// A10
#[test]
fn a_server_that_comes_back_at_once_is_another_one() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 30);
    for _ in 0..3 {
        let master = stage.owner(table).unwrap();
        let id = stage.id(master);
        stage.crash(master);
        stage.pass(10);
        stage.restart(master);
        stage.expect_filled(table, "key", 30);
        stage.write(table, "key0", &filling("key", 0));
        assert!(stage.id(master) > id, "{} after {id}", stage.id(master));
        stage.wait("the life before is recovered", move |stage| stage.is_recovered(id));
    }
    stage.close();
}
