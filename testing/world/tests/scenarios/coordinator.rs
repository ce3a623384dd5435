//! The coordinator's deaths, and its store. Catalogue: B1, G3, D2.

use ramhold_world::history::Outcome;
use ramhold_world::network::SECOND;
use ramhold_world::stage::{Setting, Stage};
use ramhold_world::system::{Role, System};

/// The coordinator starts again whenever it is down at a full second.
fn keep_alive(stage: &mut Stage) {
    let now = stage.world.now();
    for second in 1..120 {
        stage.world.restart_at(stage.coordinator, now + second * SECOND);
    }
}

/// E1: dies before and after each kind of commit, while tables come and go and a server is recovered.
#[test]
fn a_coordinator_that_dies_at_any_commit_finishes_what_was_begun() {
    let mut met = 0;
    for point in Stage::new(4).cluster.crash_points(Role::Coordinator) {
        let mut stage = Stage::unborn(Setting::of(5));
        keep_alive(&mut stage);
        stage.world.crash_at(stage.coordinator, point);
        let table = stage.table_when_possible("t", 3);
        stage.fill(table, "key", 10);
        let second = stage.table("u", 3);
        let master = stage.owner(table).unwrap();
        stage.crash(master);
        stage.expect_filled(table, "key", 10);
        stage.restart(master);
        stage.drop_table(second);
        stage.write(table, "key0", b"end");
        met += u64::from(stage.world.crash_points.contains_key(point));
        stage.close();
    }
    assert!(met >= 9, "only {met} points were met");
}

/// E2
#[test]
fn data_goes_on_without_the_coordinator_and_tables_after_it_is_back() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 10);
    // Both clients know the owner.
    stage.expect_filled(table, "key", 1);
    stage.world.crash(stage.coordinator);
    for round in 0..50u8 {
        let from = stage.world.now();
        stage.write(table, "key", &[round]);
        stage.expect(table, "key", &[round]);
        assert!(stage.world.now() - from < SECOND / 2);
        stage.pass(50);
    }
    let create = stage.begin_table("u", 3);
    assert!(stage.stays(1000, |stage| stage.outcome(create).is_none()));
    stage.world.restart(stage.coordinator);
    let from = stage.world.now();
    let other = stage.finish_table(create);
    assert!(stage.world.now() - from < 3 * SECOND);
    stage.write(other, "key", b"1");
    stage.close();
}

/// E5
#[test]
fn without_its_store_the_coordinator_changes_nothing_and_data_goes_on() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 10);
    stage.world.store_failure_ppm = 1_000_000;
    let create = stage.begin_table("u", 3);
    for round in 0..20u8 {
        stage.write(table, "key", &[round]);
        stage.pass(100);
    }
    assert!(!stage.is_done(create));
    stage.world.store_failure_ppm = 0;
    let other = stage.finish_table(create);
    stage.write(other, "key", b"1");
    stage.close();
}

/// E6
#[test]
fn a_master_that_dies_with_the_coordinator_is_recovered_once() {
    for delay in [0, 10, 500, 3000] {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        stage.fill(table, "key", 40);
        let master = stage.owner(table).unwrap();
        let id = stage.id(master);
        stage.world.crash(stage.coordinator);
        stage.crash(master);
        stage.pass(delay);
        stage.world.restart(stage.coordinator);
        stage.expect_filled(table, "key", 40);
        stage.wait("nothing of it is left", |stage| stage.is_recovered(id));
        assert_eq!(stage.deaths().len(), 1);
        stage.close();
    }
}

/// E7
#[test]
fn a_coordinator_that_dies_again_while_it_finishes_loses_nothing() {
    for millis in [1, 5, 20, 100, 300] {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        stage.fill(table, "key", 60);
        let master = stage.owner(table).unwrap();
        let id = stage.id(master);
        stage.crash(master);
        stage.wait("its death is known", |stage| stage.deaths().contains_key(&id));
        for _ in 0..4 {
            stage.pass(millis);
            stage.world.crash(stage.coordinator);
            stage.pass(20);
            stage.world.restart(stage.coordinator);
        }
        stage.expect_filled(table, "key", 60);
        stage.wait("nothing of it is left", |stage| stage.is_recovered(id));
        stage.close();
    }
}

/// E8
#[test]
fn servers_may_come_back_in_any_order_and_at_any_pace() {
    for (seed, order) in
        [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [1, 4, 0, 3, 2]].iter().enumerate()
    {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        stage.fill(table, "key", 40);
        for server in 0..5 {
            stage.crash(server);
        }
        stage.world.crash(stage.coordinator);
        if seed % 2 == 0 {
            stage.world.restart(stage.coordinator);
        }
        for server in order {
            stage.pass(700 * seed as u64);
            stage.restart(*server);
        }
        if seed % 2 == 1 {
            stage.world.restart(stage.coordinator);
        }
        let read = stage.begin_read(1, table, "key0");
        assert!(matches!(stage.end(read), Outcome::Found { .. } | Outcome::Refused { .. }));
        stage.expect_filled(table, "key", 40);
        stage.close();
    }
}
