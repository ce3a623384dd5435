//! Whole clusters that stop and start. Catalogue: D2, F7, F10.

use ramhold_world::history::Condition;
use ramhold_world::stage::{Setting, Stage};

/// Everything dies; `power`: the contents of memory are lost too.
fn stop_all(stage: &mut Stage, power: bool) {
    for server in 0..stage.servers.len() {
        if power {
            stage.cut_power(server);
        } else {
            stage.crash(server);
        }
    }
    if power {
        stage.world.cut_power(stage.coordinator);
    } else {
        stage.world.crash(stage.coordinator);
    }
}

fn start(stage: &mut Stage, servers: &[usize]) {
    stage.world.restart(stage.coordinator);
    for server in servers {
        stage.restart(*server);
    }
}

/// O1: flushed data is there after a loss of power.
#[test]
fn what_was_flushed_outlives_the_power_of_all() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 80);
    stage.pass(1000);
    stop_all(&mut stage, true);
    stage.pass(1000);
    let all = stage.others(&[]);
    start(&mut stage, &all);
    stage.expect_filled(table, "key", 80);
    stage.close();
}

/// O1, D2: whenever the power goes, right after an acknowledgement or in the midst of the next write.
#[test]
fn what_a_synced_table_acknowledged_outlives_the_power_of_all() {
    for seed in 0..12 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(5) });
        let table = stage.synced_table("t", 3);
        stage.fill(table, "old", 40);
        for round in 0..3 {
            let version = (0..10u8).map(|n| stage.write(table, "newest", &[n])).last().unwrap();
            // This write is under way when the power goes.
            let key = format!("going on {round}");
            let begun = stage.begin_write(0, table, &key, b"v", Condition::Free);
            stage.pass(seed % 4);
            stop_all(&mut stage, true);
            let all = stage.others(&[]);
            start(&mut stage, &all);
            assert_eq!(stage.peek(table, "newest"), Some(version), "seed {seed}, round {round}");
            stage.expect_filled(table, "old", 40);
            stage.finish(begun);
        }
        assert!(stage.state().unwrap().losses.is_empty(), "seed {seed}");
        stage.settle();
        stage.close();
    }
}

/// Schedule 1C: data that was not flushed may be gone, but never silently, and its versions are not given out
/// again.
#[test]
fn what_the_power_of_all_took_is_reported() {
    let mut lost = 0;
    for seed in 0..8 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(5) });
        let table = stage.table("t", 3);
        stage.fill(table, "old", 40);
        stage.pass(1000);
        let version = (0..10u8).map(|n| stage.write(table, "newest", &[n])).last().unwrap();
        stop_all(&mut stage, true);
        let all = stage.others(&[]);
        start(&mut stage, &all);
        (0..40).for_each(|n| assert!(stage.peek(table, &format!("old{n}")).is_some(), "old{n} was flushed"));
        let found = stage.peek(table, "newest");
        if found != Some(version) {
            lost += 1;
            assert!(
                !stage.state().unwrap().losses.is_empty(),
                "version {version}, found {found:?}, no report"
            );
        }
        let next = stage.poke(table, "newest");
        assert!(next > version, "{next} after {version}");
        stage.settle();
    }
    assert!(lost > 0, "the power never took anything");
}

/// O2: with R - 1 servers that never return.
#[test]
fn a_cluster_starts_without_two_of_its_servers() {
    let mut stage = Stage::new(7);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 80);
    stop_all(&mut stage, false);
    let some = stage.others(&[2, 5]);
    start(&mut stage, &some);
    stage.expect_filled(table, "key", 80);
    stage.close();
}

/// O2: with more it waits.
#[test]
fn a_cluster_waits_for_the_servers_that_its_data_is_on() {
    let mut stage = Stage::new(7);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 10);
    let master = stage.owner(table).unwrap();
    let backups = stage.head_backups(master, table);
    stop_all(&mut stage, false);
    let some = stage.others(&backups);
    start(&mut stage, &some);
    let read = stage.begin_read(1, table, "key0");
    assert!(stage.stays(20_000, |stage| !stage.is_done(read)));
    stage.restart(backups[0]);
    stage.expect_filled(table, "key", 10);
    stage.close();
}
