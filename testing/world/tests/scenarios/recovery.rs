//! Recovery itself, and processes that die during it. Catalogue: F4-F6, F9.

use ramhold_base::hash::slot_of;
use ramhold_world::stage::{Stage, filling};

const STEPS: [&str; 5] =
    ["recovery_begun", "recovery_replayed", "recovery_entered", "recovery_durable", "recovery_published"];

/// D1, B9
#[test]
fn a_recovery_master_that_dies_at_any_step_is_replaced() {
    for step in STEPS {
        let mut deaths = 0;
        for place in 0..5 {
            let mut stage = Stage::new(6);
            let table = stage.table("t", 3);
            stage.fill(table, "key", 100);
            let master = stage.owner(table).unwrap();
            let armed = stage.others(&[master])[place];
            stage.arm(&[armed], step);
            stage.crash(master);
            stage.expect_filled(table, "key", 100);
            deaths += u32::from(stage.node(armed).is_none());
            stage.close();
        }
        assert!(deaths > 0, "no recovery master died at {step}");
    }
}

/// F11: the servers that read, divide and free report it, until none holds anything of the dead server any
/// more.
#[test]
fn a_recovery_tells_what_backups_did_until_all_is_freed() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 200);
    let master = stage.owner(table).unwrap();
    let dead = stage.id(master);
    stage.crash(master);
    stage.expect_filled(table, "key", 200);
    let freed = |stage: &Stage| {
        let records = stage.state().map(|state| state.recoveries.values());
        records.into_iter().flatten().any(|record| record.crashed == dead && record.steps.freed.is_some())
    };
    stage.wait("all is freed", freed);
    for server in stage.others(&[master]) {
        let held =
            stage.node(server).unwrap().backup().replicas().filter(|replica| replica.log.server == dead);
        assert_eq!(held.count(), 0, "server {server}");
    }
    let report = stage.recoveries().into_iter().find(|report| report.crashed == dead).unwrap();
    let all = report.backups_total;
    assert!(all.read.count >= report.segments, "{} of {} read", all.read.count, report.segments);
    assert!(all.divide.count >= report.segments && all.divide.bytes >= report.bytes, "{all:?}, {report:?}");
    assert!(
        all.free.count >= 3 * report.segments,
        "{} of {} segments freed",
        all.free.count,
        report.segments
    );
    assert!(report.done_millis <= report.steps.freed && all.read.from <= all.divide.to, "{report:?}");
    stage.close();
}

/// A6: the count of a table is right through writes, removes, a recovery in parts, and another one.
#[test]
fn a_recovered_table_has_as_many_objects_as_before() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    assert_eq!(stage.count(table), 0);
    stage.fill(table, "key", 150);
    stage.write(table, "key0", b"again");
    assert_eq!(stage.count(table), 150);
    (0..10).for_each(|key| {
        stage.remove(table, &format!("key{key}"));
    });
    stage.crash(stage.owner(table).unwrap());
    assert_eq!(stage.count(table), 140);
    let parts = stage.state().unwrap().tables[&table].tablets.clone();
    assert!(parts.len() > 1, "it was divided");
    stage.fill(table, "more", 5);
    stage.crash(stage.owner(table).unwrap());
    assert_eq!(stage.count(table), 145);
    stage.close();
}

/// D2
#[test]
fn two_recovery_masters_of_one_recovery_may_die() {
    for (first, second) in [("recovery_begun", "recovery_entered"), ("recovery_entered", "recovery_durable")]
    {
        let mut deaths = 0;
        for place in 0..4 {
            let mut stage = Stage::new(7);
            let table = stage.table("t", 3);
            stage.fill(table, "key", 150);
            let master = stage.owner(table).unwrap();
            let others = stage.others(&[master]);
            stage.arm(&others[place..=place], first);
            stage.arm(&others[place + 1..place + 2], second);
            stage.crash(master);
            stage.expect_filled(table, "key", 150);
            deaths += u32::from(others.iter().filter(|s| stage.node(**s).is_none()).count() == 2);
            stage.close();
        }
        assert!(deaths > 0, "never did both die");
    }
}

/// D4: one server is left to take over the tablets of two.
#[test]
fn few_recovery_masters_take_everything() {
    let mut stage = Stage::new(4);
    let tables: Vec<_> = (0..6).map(|n| stage.table(&format!("t{n}"), 1)).collect();
    for table in &tables {
        stage.fill(*table, "key", 40);
    }
    for server in [0, 1] {
        let id = stage.id(server);
        stage.crash(server);
        stage.wait("it is dead", |stage| stage.deaths().contains_key(&id));
    }
    stage.pass(3000);
    stage.restart(0);
    stage.restart(1);
    for table in &tables {
        stage.expect_filled(*table, "key", 40);
    }
    stage.close();
}

/// D5
#[test]
fn several_masters_may_die_at_once() {
    for count in [2, 3, 4] {
        let mut stage = Stage::new(5);
        let tables: Vec<_> = (0..5).map(|n| stage.table(&format!("t{n}"), 3)).collect();
        for table in &tables {
            stage.fill(*table, "key", 30);
        }
        for server in 0..count {
            stage.crash(server);
        }
        stage.pass(3000);
        for server in 0..count {
            stage.restart(server);
        }
        for table in &tables {
            stage.expect_filled(*table, "key", 30);
        }
        stage.close();
    }
}

/// D7
#[test]
fn a_table_may_be_dropped_while_it_is_recovered() {
    for millis in [0, 1, 3, 10, 30, 100] {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        let other = stage.table("other", 3);
        stage.fill(table, "key", 100);
        stage.fill(other, "key", 10);
        let master = stage.owner(table).unwrap();
        let id = stage.id(master);
        stage.crash(master);
        stage.wait("its death is known", |stage| stage.deaths().contains_key(&id));
        stage.pass(millis);
        stage.drop_table(table);
        stage.wait("nothing of it is left", |stage| stage.is_recovered(id));
        assert_eq!(stage.owner(table), None);
        let again = stage.table("t", 3);
        stage.write(again, "key0", b"new");
        stage.expect_filled(other, "key", 10);
        stage.close();
    }
}

/// D8
#[test]
fn new_owners_may_die_at_once_again_and_again() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    for round in 0..5 {
        let master = stage.owner(table).unwrap();
        let before = stage.marks("recovery_published");
        stage.crash(master);
        stage.wait("it is published", |stage| stage.marks("recovery_published") > before);
        let dead = stage.others(&[]).into_iter().filter(|s| *s != master && stage.node(*s).is_none());
        for server in dead.collect::<Vec<_>>() {
            stage.restart(server);
        }
        stage.wait("somebody serves", |stage| stage.owner(table).is_some());
        stage.restart(master);
        if round < 4 {
            continue;
        }
        stage.write(table, "key0", &filling("key", 0));
    }
    stage.expect_filled(table, "key", 60);
    stage.close();
}

/// D10: a server that had to free replicas was away. `close` finds replicas that are held for no log.
#[test]
fn what_could_not_be_freed_is_freed_later() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    let master = stage.owner(table).unwrap();
    let id = stage.id(master);
    let deaf = stage.head_backups(master, table)[0];
    let (own, coordinator) = (stage.hosts(&[deaf]), [stage.coordinator]);
    stage.crash(master);
    stage.wait("its death is known", |stage| stage.deaths().contains_key(&id));
    stage.pass(50);
    stage.world.network.cut(&coordinator, &own);
    stage.expect_filled(table, "key", 60);
    stage.pass(1000);
    stage.close();
}

/// B3: the master and all backups of its head are gone for good. The rest is recovered when an operator says
/// so, and not before.
#[test]
fn servers_that_never_return_are_given_up() {
    let mut stage = Stage::new(9);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    let master = stage.owner(table).unwrap();
    let gone = [stage.head_backups(master, table), vec![master]].concat();
    let crashed = stage.id(master);
    gone.iter().for_each(|server| stage.crash(*server));
    stage.wait("its death is known", |stage| stage.deaths().contains_key(&crashed));
    stage.pass(3000);
    assert!(!stage.is_recovered(crashed));
    assert!(stage.state().unwrap().losses.is_empty());
    for _ in 0..gone.len() {
        let waiting = stage.recoveries().into_iter().find(|report| !report.missing.is_empty());
        let Some(waiting) = waiting else { break };
        let accepted = stage.accept_loss(&waiting);
        assert!(accepted.answering.is_empty() && accepted.unsure.is_empty(), "{accepted:?}");
        stage.wait("it goes on", |stage| stage.is_recovered(waiting.crashed));
    }
    assert!(stage.is_recovered(crashed));
    let losses = &stage.state().unwrap().losses;
    assert!(losses.values().any(|loss| loss.reason.contains("given up")), "{losses:?}");
    stage.poke(table, "key0");
    // The servers come back after all: they are fenced, and enlist anew.
    stage.settle();
    stage.poke(table, "key1");
}

/// Schedule 13: the master and its backups live on behind a partition that one of the other servers sees
/// through, and go on acknowledging.
#[test]
fn who_still_answers_somebody_is_not_given_up() {
    let mut stage = Stage::new(9);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let master = stage.owner(table).unwrap();
    let crashed = stage.id(master);
    let inside = [stage.head_backups(master, table), vec![master]].concat();
    let outside = stage.others(&inside);
    let near = [stage.hosts(&inside), vec![stage.clients[0]]].concat();
    // All of them but the first.
    let far = [stage.hosts(&outside[1..]), vec![stage.coordinator, stage.clients[1]]].concat();
    let witness = stage.id(outside[0]);
    stage.part(&near, &far);
    stage.wait("its death is known", |stage| stage.deaths().contains_key(&crashed));
    stage.pass(3000);
    let waiting = stage.recoveries().into_iter().find(|report| report.crashed == crashed).unwrap();
    assert!(!waiting.missing.is_empty());
    assert!(stage.is_up(witness));
    let refused = stage.accept_loss(&waiting);
    assert!(refused.answering.contains(&crashed), "{refused:?}");
    assert!(stage.stays(2000, |stage| !stage.is_recovered(crashed)));
    assert!(stage.state().unwrap().losses.is_empty());
    stage.world.network.heal();
    stage.expect_filled(table, "key", 20);
    stage.close();
}

/// F3, A8: nearly all of a table lies in a few of its slots, close together. Its master knows that, and the
/// heads that it leaves behind tell it. No part exceeds the limit of one recovery master, and none of those
/// slots is cut.
#[test]
fn a_skewed_table_is_recovered_in_parts_that_are_all_bearable() {
    /// The most bytes that the simulated coordinator gives to one recovery master.
    const PARTITION_BYTES_MAX: u64 = 64 * 1024;
    let tags: Vec<String> =
        (0..).map(|n: u32| n.to_string()).filter(|tag| slot_of(tag.as_bytes()) < 128).take(8).collect();
    let mut stage = Stage::new(6);
    let table = stage.slotted_table("t", 2);
    // Objects that were written before anything finer than a tablet was known are written again afterwards.
    for _ in 0..3 {
        for tag in &tags {
            stage.fill(table, &format!("{{{tag}}}key"), 18);
        }
        stage.fill(table, "other", 20);
    }
    let total: u64 = stage.tablet_bytes(table).iter().sum();
    assert!(total > 2 * PARTITION_BYTES_MAX);
    let master = stage.owner(table).unwrap();
    let crashed = stage.id(master);
    stage.crash(master);
    stage.wait("it is recovered", |stage| stage.is_recovered(crashed));
    let parts = stage.tablet_bytes(table);
    // Objects that are taken over name no earlier segments, which makes them a little shorter.
    assert!((total * 9 / 10..=total).contains(&parts.iter().sum::<u64>()), "{parts:?} of {total}");
    assert!(parts.iter().all(|bytes| *bytes <= PARTITION_BYTES_MAX), "{parts:?} of {total}");
    for tag in &tags {
        stage.expect_filled(table, &format!("{{{tag}}}key"), 18);
    }
    stage.expect_filled(table, "other", 20);
    stage.close();
}
