//! Updates at the coordinator take effect once, whichever messages the network doubles and whenever the
//! coordinator dies.
//! Catalogue: A3, G1. Rules: docs/protocols/exactly-once.md, 12 to 16.

use ramhold_base::{Status, TableId};
use ramhold_client_core::{Outcome, Reply};
use ramhold_world::network::{NetworkOptions, SECOND};
use ramhold_world::stage::{Begun, Setting, Stage};
use ramhold_world::system::{Role, System};

/// Everything that a client sends at once comes again within a minute.
fn doubled(stage: &mut Stage, begin: impl FnOnce(&mut Stage) -> Begun) -> Outcome {
    stage.world.network.options =
        NetworkOptions { duplicate_ppm: 1_000_000, hold_max: 60 * SECOND, ..NetworkOptions::calm() };
    let begun = begin(stage);
    // Before any process can have received it.
    let sent = stage.world.now() + NetworkOptions::calm().latency_min;
    stage.world.run_until(sent);
    stage.world.network.options = NetworkOptions::calm();
    stage.finish(begun)
}

/// A creation comes again when its table was dropped long ago.
#[test]
fn a_doubled_update_that_comes_late_does_nothing() {
    let rounds = 20;
    for seed in 1..=3 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(4) });
        for round in 1..=rounds {
            let table = TableId(round);
            let made = doubled(&mut stage, |stage| stage.begin_table("t", 2));
            assert_eq!(made, Outcome::Done(Reply::TableCreated { table }), "no table but ours was made");
            let dropped = doubled(&mut stage, |stage| stage.begin_drop(table));
            assert_eq!(dropped, Outcome::Done(Reply::TableDropped));
        }
        assert!(stage.world.faults["doubled frame"] >= u64::from(2 * rounds));
        stage.pass(70_000);
        let state = stage.state().unwrap();
        assert_eq!((state.meta.tables, state.tables.len()), (TableId(rounds), 0));
        stage.close();
    }
}

/// B3: messages between servers and the coordinator come again too, long after the table is gone.
#[test]
fn a_dropped_table_stays_dropped_whatever_comes_late() {
    let mut stage = Stage::new(4);
    stage.world.network.options =
        NetworkOptions { duplicate_ppm: 1_000_000, hold_max: 60 * SECOND, ..NetworkOptions::calm() };
    for _ in 0..12 {
        let table = stage.table("t", 2);
        stage.drop_table(table);
    }
    stage.pass(10_000);
    stage.world.network.options = NetworkOptions::calm();
    stage.pass(70_000);
    assert!(stage.world.faults["doubled frame"] > 100);
    // No server serves a table that does not exist.
    stage.close();
}

/// The coordinator dies before and after each kind of commit, while two clients want the same name.
#[test]
fn a_coordinator_that_dies_tells_each_client_what_came_of_its_update() {
    let mut met = 0;
    for point in Stage::new(4).cluster.crash_points(Role::Coordinator) {
        let mut stage = Stage::new(4);
        let now = stage.world.now();
        for second in 1..120 {
            stage.world.restart_at(stage.coordinator, now + second * SECOND);
        }
        stage.world.crash_at(stage.coordinator, point);
        let begun = [stage.begin_table_of(0, "t", 2), stage.begin_table_of(1, "t", 2)];
        let ends = begun.map(|begun| stage.finish(begun));
        let made = ends.iter().filter_map(|end| match end {
            Outcome::Done(Reply::TableCreated { table }) => Some(*table),
            Outcome::Refused { status: Status::TableExists, .. } => None,
            other => panic!("{point}: {other:?}"),
        });
        let made: Vec<TableId> = made.collect();
        assert_eq!(made, [TableId(1)], "{point}: one of them has made it");
        stage.drop_table(made[0]);
        assert_eq!(stage.table("t", 2), TableId(2), "{point}");
        met += u64::from(stage.world.crash_points.contains_key(point));
        stage.close();
    }
    assert!(met >= 4, "only {met} points were met");
}
