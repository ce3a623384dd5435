//! Tables whose durability or replica count changes online. Their tablets move to other streams, whatever
//! else happens.
//! Catalogue: A8, D2. Rules: docs/protocols/reclassing.md.

use ramhold_base::TableId;
use ramhold_coordinator::TabletRecord;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::Division;
use ramhold_world::history::Condition;
use ramhold_world::network::{NetworkOptions, SECOND};
use ramhold_world::stage::{Setting, Stage};
use ramhold_world::system::{Role, System};

/// Whether no tablet of any table is on its way to another stream.
fn is_moved(stage: &Stage) -> bool {
    stage.in_charge().is_some_and(|coordinator| coordinator.reclassings_under_way() == 0)
}

/// The classes of the streams of a table's tablets, as the coordinator has stored them.
fn classes(stage: &Stage, table: TableId) -> Vec<(Durability, u8)> {
    let state = stage.state().unwrap();
    let class = |piece: &TabletRecord| {
        let streams = &state.servers[&piece.owner].streams;
        let stream = streams.iter().find(|s| (s.shard, s.stream) == (piece.shard, piece.stream)).unwrap();
        (stream.durability, stream.replicas)
    };
    let mut classes: Vec<_> = state.tables[&table].tablets.iter().map(class).collect();
    classes.dedup();
    classes
}

fn is_served(stage: &Stage, table: TableId) -> bool {
    stage.tables().get(&table).is_some_and(|t| t.iter().all(|(_, _, owner)| stage.is_up(*owner)))
}

/// D2: nothing is lost, nothing comes back, and the way back works.
#[test]
fn a_table_is_altered_while_it_is_used() {
    for seed in 1..=3 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(5) });
        let table = stage.table("t", 2);
        stage.fill(table, "key", 300);
        let ways = [
            (Durability::Synced, 2),
            (Durability::Synced, 3),
            (Durability::Buffered, 2),
            (Durability::Synced, 2),
            (Durability::Buffered, 3),
        ];
        for (round, (durability, replicas)) in ways.into_iter().enumerate() {
            stage.alter(table, Some(durability), Some(replicas));
            for number in 0..40 {
                stage.write(table, &format!("key{}", number * 7), format!("{round}").as_bytes());
                stage.remove(table, &format!("key{}", number * 7 + 1 + round));
                stage.write(table, &format!("new {round} {number}"), b"value");
            }
            stage.wait("its tablets are moved", is_moved);
            assert_eq!(classes(&stage, table), [(durability, replicas)]);
        }
        assert!(stage.marks("stretch_moved") > 40, "in many stretches");
        // A recovery finds all of it in the new streams, and only there.
        for dead in 0..3 {
            stage.crash(dead);
            stage.wait("it is recovered", |stage| is_served(stage, table));
            stage.restart(dead);
        }
        stage.close();
    }
}

/// The owner dies at every step.
#[test]
fn an_owner_that_dies_while_it_moves_a_tablet_is_recovered_from_both_streams() {
    let marks =
        ["reclassing_begun", "stretch_copied", "stretch_entered", "stretch_moved", "tablet_reclassed"];
    for (mark, seed) in marks.into_iter().flat_map(|mark| [(mark, 1), (mark, 2)]) {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(4) });
        let table = stage.table("t", 2);
        stage.fill(table, "key", 200);
        for round in 0..3 {
            stage.arm(&[0, 1, 2, 3], mark);
            let durability = if round % 2 == 0 { Durability::Synced } else { Durability::Buffered };
            stage.alter(table, Some(durability), None);
            stage.wait_for_death_at(mark);
            // Several servers may have reached the mark at once.
            let dead: Vec<usize> = (0..4).filter(|server| stage.node(*server).is_none()).collect();
            dead.iter().skip(1).for_each(|server| stage.restart(*server));
            for number in 0..20 {
                stage.write(table, &format!("key{}", number * 9 + round), b"meanwhile");
                stage.remove(table, &format!("key{}", number * 9 + 3 + round));
                stage.write(table, &format!("key{}", number * 9 + 3 + round), &super_value(number));
            }
            stage.restart(dead[0]);
            stage.wait("its tablets are moved", is_moved);
            assert_eq!(classes(&stage, table), [(durability, 2)], "{mark}");
        }
        assert_eq!(stage.count(table), 200, "{mark}");
        stage.close();
    }
}

fn super_value(number: u32) -> Vec<u8> {
    vec![number as u8; 50]
}

/// G1: the coordinator dies before and after each kind of commit.
#[test]
fn a_coordinator_that_dies_goes_on_moving_what_is_not_moved() {
    let mut met = 0;
    for point in Stage::new(4).cluster.crash_points(Role::Coordinator) {
        let mut stage = Stage::new(4);
        let table = stage.table("t", 2);
        stage.fill(table, "key", 120);
        let now = stage.world.now();
        for second in 1..120 {
            stage.world.restart_at(stage.coordinator, now + second * SECOND);
        }
        stage.world.crash_at(stage.coordinator, point);
        stage.alter(table, Some(Durability::Synced), Some(3));
        stage.fill(table, "key", 120);
        stage.wait("its tablets are moved", is_moved);
        met += u32::from(stage.world.crash_points.contains_key(point));
        assert_eq!(classes(&stage, table), [(Durability::Synced, 3)], "{point}");
        stage.expect_filled(table, "key", 120);
        stage.close();
    }
    assert!(met > 1, "{met} points were met");
}

/// A report that an owner sent long ago comes again when the table has been altered once more.
#[test]
fn what_comes_late_moves_nothing() {
    let mut stage = Stage::new(4);
    let table = stage.table("t", 2);
    stage.fill(table, "key", 60);
    stage.world.network.options =
        NetworkOptions { duplicate_ppm: 1_000_000, hold_max: 20 * SECOND, ..NetworkOptions::calm() };
    for round in 0..8 {
        let durability = if round % 2 == 0 { Durability::Synced } else { Durability::Buffered };
        stage.alter(table, Some(durability), None);
        stage.wait("its tablets are moved", is_moved);
        stage.write(table, &format!("key{round}"), b"newer");
        stage.remove(table, &format!("key{}", 20 + round));
    }
    stage.pass(30_000);
    stage.world.network.options = NetworkOptions::calm();
    stage.pass(30_000);
    assert!(stage.world.faults["doubled frame"] > 50);
    assert_eq!(classes(&stage, table), [(Durability::Buffered, 2)]);
    let owner = stage.owner(table).unwrap();
    stage.crash(owner);
    stage.wait("it is recovered", |stage| is_served(stage, table));
    assert_eq!(stage.count(table), 52);
    stage.restart(owner);
    stage.close();
}

/// D2: data that was moved to `synced` survives a loss of all power.
#[test]
fn a_table_that_has_become_synced_survives_power() {
    for seed in 1..=4 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(4) });
        let table = stage.table("t", 2);
        stage.fill(table, "key", 100);
        stage.alter(table, Some(Durability::Synced), None);
        stage.wait("its tablets are moved", is_moved);
        stage.fill(table, "after", 20);
        (0..4).for_each(|server| stage.cut_power(server));
        (0..4).for_each(|server| stage.restart(server));
        stage.wait("it is recovered", |stage| is_served(stage, table));
        stage.expect_filled(table, "key", 100);
        stage.expect_filled(table, "after", 20);
        stage.close();
    }
}

/// D2: a loss of all power takes the last moments of a buffered table, but no data that devices had before it
/// was moved.
#[test]
fn what_devices_had_is_not_lost_by_moving_it() {
    for seed in 1..=6 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(4) });
        let table = stage.table("t", 2);
        stage.fill(table, "key", 200);
        // Everything is flushed.
        stage.pass(3000);
        stage.alter(table, None, Some(if seed % 2 == 0 { 3 } else { 1 }));
        let moved = stage.marks("stretch_moved");
        stage.wait("a stretch is moved", |stage| stage.marks("stretch_moved") > moved + seed % 3);
        (0..4).for_each(|server| stage.cut_power(server));
        (0..4).for_each(|server| stage.restart(server));
        stage.wait("it is recovered", |stage| is_served(stage, table));
        stage.expect_filled(table, "key", 200);
        stage.wait("its tablets are moved", is_moved);
        stage.close();
    }
}

/// A class for which there are too few servers, because some have died and that is not known yet, keeps no
/// client from writing, and is taken back like any other.
#[test]
fn a_class_that_cannot_be_had_holds_up_nobody() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 2);
    stage.fill(table, "key", 100);
    // Four servers are left, so there are three backups.
    let away = stage.others(&[stage.owner(table).unwrap()])[..2].to_vec();
    let crashed: Vec<_> = away.iter().map(|server| stage.id(*server)).collect();
    away.iter().for_each(|server| stage.crash(*server));
    stage.alter(table, None, Some(5));
    for crashed in crashed {
        stage.wait("it is recovered", |stage| stage.is_recovered(crashed));
    }
    for round in 0..20 {
        let begun: Vec<_> = (0..100)
            .map(|n| stage.begin_write(0, table, &format!("key{n}"), &[round], Condition::Free))
            .collect();
        stage.pass(1000);
        assert!(begun.iter().all(|begun| stage.is_done(*begun)), "round {round}");
    }
    assert!(!is_moved(&stage));
    assert_eq!(stage.marks("stretch_copied"), 0, "nothing was frozen");
    // The table's owner is not asked again to move tablets, so it forgets the reclassing.
    stage.alter(table, None, Some(2));
    stage.pass(60_000);
    let begun = stage.marks("reclassing_begun");
    stage.pass(60_000);
    assert_eq!(stage.marks("reclassing_begun"), begun);
    assert_eq!(stage.divide(table, Division::Parts { count: 4 }), 4);
    assert_eq!(classes(&stage, table), [(Durability::Buffered, 2)]);
    away.iter().for_each(|server| stage.restart(*server));
    stage.close();
}

/// A table is dropped in the middle of it.
#[test]
fn a_table_that_is_dropped_while_it_moves_is_gone() {
    for millis in [0, 1, 2, 4, 8, 20] {
        let mut stage = Stage::new(4);
        let table = stage.table("t", 2);
        stage.fill(table, "key", 200);
        stage.alter(table, Some(Durability::Synced), None);
        stage.pass(millis);
        stage.drop_table(table);
        let other = stage.table("other", 2);
        stage.fill(other, "key", 50);
        stage.settle();
        assert_eq!(stage.count(other), 50);
        stage.close();
    }
}

/// No client writes to a stretch while it is unknown in which stream it counts. The owner may die before that
/// is known.
#[test]
fn a_stretch_waits_for_a_coordinator_that_is_away() {
    for seed in 1..=6 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(4) });
        let table = stage.table("t", 2);
        stage.fill(table, "key", 200);
        stage.alter(table, Some(Durability::Synced), None);
        stage.wait("a stretch is entered", |stage| stage.marks("stretch_entered") > 0);
        stage.world.crash(stage.coordinator);
        let owner = stage.owner(table).unwrap();
        let begun: Vec<_> = (0..200)
            .map(|n| stage.begin_write(0, table, &format!("key{n}"), b"away", Condition::Free))
            .collect();
        stage.pass(400);
        assert!(begun.iter().any(|begun| stage.is_done(*begun)), "others are written");
        assert!(!begun.iter().all(|begun| stage.is_done(*begun)), "the stretch waits");
        stage.crash(owner);
        let now = stage.world.now();
        stage.world.restart_at(stage.coordinator, now + SECOND / 10);
        for begun in begun {
            stage.end(begun);
        }
        stage.restart(owner);
        stage.wait("its tablets are moved", is_moved);
        stage.close();
    }
}
