//! Tablets are cut and joined in place, whatever else happens.
//! Catalogue: A6, A8, B3. Rules: docs/protocols/tablets.md.

use ramhold_base::hash::first_hash_of;
use ramhold_base::{KeyHash, TableId};
use ramhold_client_core::{Outcome, Reply};
use ramhold_wire::table::Division;
use ramhold_world::network::{NetworkOptions, SECOND};
use ramhold_world::stage::{Setting, Stage};
use ramhold_world::system::{Role, System};

const PARTS: Division = Division::Parts { count: 4 };
const JOIN: Division = Division::Join { at: None };

fn tablets(stage: &Stage, table: TableId) -> usize {
    stage.tables()[&table].len()
}

/// No client waits, nothing is lost, and counts are exact at every moment.
#[test]
fn a_table_is_cut_and_joined_while_it_is_used() {
    let mut stage = Stage::new(4);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 200);
    for round in 0..3 {
        let begun = stage.begin_divide(table, PARTS);
        stage.write(table, &format!("during {round}"), b"value");
        stage.remove(table, &format!("key{round}"));
        let done = stage.finish(begun);
        assert_eq!(done, Outcome::Done(Reply::TableDivided { tablets: 4 }));
        assert_eq!((tablets(&stage, table), stage.count(table)), (4, 200));
        assert_eq!(stage.divide(table, Division::Split { at: KeyHash(5) }), 5);
        assert_eq!(stage.divide(table, Division::Split { at: KeyHash(5) }), 5, "it begins there already");
        assert_eq!(stage.divide(table, Division::Join { at: Some(KeyHash(5)) }), 4);
        assert_eq!(stage.divide(table, JOIN), 1);
        assert_eq!((tablets(&stage, table), stage.count(table)), (1, 200));
    }
    stage.close();
}

/// B13: a tablet was joined from two that its owner had from two recoveries. Each part is recovered from its
/// own position. Entries before the newer position count in the other part, and only there.
#[test]
fn a_joined_tablet_is_recovered_whole_from_all_its_positions() {
    let mut from_pieces = 0;
    for seed in 1..=4 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(4) });
        let table = stage.table("t", 2);
        stage.fill(table, "key", 250);
        for round in 0..6 {
            stage.divide(table, Division::Split { at: first_hash_of(2000 * (round + 1)) });
            // The owner of a tablet of several pieces, if any.
            let pieces = &stage.state().unwrap().tables[&table].tablets;
            let dead = pieces.iter().find(|piece| piece.joined).unwrap_or(&pieces[0]).owner;
            let dead = (0..4).find(|server| stage.id(*server) == dead).unwrap();
            stage.crash(dead);
            stage.wait("it is recovered", |stage| {
                stage.tables().get(&table).is_some_and(|t| t.iter().all(|(_, _, owner)| stage.is_up(*owner)))
            });
            stage.restart(dead);
            stage.divide(table, JOIN);
            // Some keys are written again, in segments that are newer than the newest position.
            stage.fill(table, "key", 20);
            stage.remove(table, &format!("key{}", 100 + round));
            stage.settle();
        }
        let there = |n: &u32| !(100..106).contains(n);
        assert_eq!(stage.count(table), (0..250).filter(there).count() as u64, "seed {seed}");
        from_pieces += stage.marks("recovered_from_pieces");
        stage.close();
    }
    assert!(from_pieces > 0, "tablets of several pieces were recovered");
}

/// D7: the division of a table whose recovery is not settled waits.
#[test]
fn a_table_that_is_being_recovered_is_divided_afterwards() {
    for millis in [0, 3, 30, 100] {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        stage.fill(table, "key", 100);
        let master = stage.owner(table).unwrap();
        let id = stage.id(master);
        stage.crash(master);
        stage.wait("its death is known", |stage| stage.deaths().contains_key(&id));
        stage.pass(millis);
        stage.divide(table, Division::Split { at: first_hash_of(77) });
        assert!(stage.tables()[&table].iter().any(|(first, _, _)| *first == first_hash_of(77).0));
        stage.expect_filled(table, "key", 100);
        stage.close();
    }
}

/// A division arrives again when others have long replaced it.
#[test]
fn a_division_that_comes_late_undoes_nothing() {
    let mut stage = Stage::new(4);
    let table = stage.table("t", 2);
    stage.fill(table, "key", 30);
    stage.world.network.options =
        NetworkOptions { duplicate_ppm: 1_000_000, hold_max: 20 * SECOND, ..NetworkOptions::calm() };
    for round in 0..12 {
        stage.divide(table, if round % 2 == 0 { PARTS } else { JOIN });
    }
    stage.pass(5000);
    stage.world.network.options = NetworkOptions::calm();
    stage.pass(30_000);
    assert!(stage.world.faults["doubled frame"] > 50);
    assert_eq!((tablets(&stage, table), stage.count(table)), (1, 30));
    stage.close();
}

/// The owner dies in the middle, and at the end of its walk.
#[test]
fn an_owner_that_dies_while_it_divides_is_recovered_by_the_new_division() {
    for (mark, division) in [("tablet_cut", PARTS), ("tablets_joined", JOIN)] {
        let mut stage = Stage::new(4);
        let table = stage.table("t", 2);
        stage.fill(table, "key", 60);
        if mark == "tablets_joined" {
            stage.divide(table, PARTS);
        }
        stage.arm(&[0, 1, 2, 3], mark);
        let begun = stage.begin_divide(table, division);
        let dead = stage.wait_for_death_at(mark);
        let done = stage.finish(begun);
        assert!(matches!(done, Outcome::Done(Reply::TableDivided { .. })), "{mark}: {done:?}");
        stage.restart(dead);
        stage.expect_filled(table, "key", 60);
        assert_eq!(stage.count(table), 60);
        stage.close();
    }
}

/// The coordinator dies before and after each kind of commit.
#[test]
fn a_coordinator_that_dies_divides_once_and_tells_what_came_of_it() {
    let mut met = 0;
    for point in Stage::new(4).cluster.crash_points(Role::Coordinator) {
        let mut stage = Stage::new(4);
        let table = stage.table("t", 2);
        stage.fill(table, "key", 20);
        let now = stage.world.now();
        for second in 1..120 {
            stage.world.restart_at(stage.coordinator, now + second * SECOND);
        }
        stage.world.crash_at(stage.coordinator, point);
        assert_eq!(stage.divide(table, PARTS), 4, "{point}");
        assert_eq!(stage.divide(table, Division::Join { at: Some(KeyHash(1 << 63)) }), 3, "{point}");
        assert_eq!(stage.count(table), 20);
        met += u64::from(stage.world.crash_points.contains_key(point));
        stage.close();
    }
    assert!(met >= 3, "only {met} points were met");
}

/// The table is dropped while its owner counts.
#[test]
fn a_table_may_be_dropped_while_it_is_divided() {
    let mut stage = Stage::new(4);
    let table = stage.table("t", 2);
    stage.fill(table, "key", 60);
    let begun = stage.begin_divide(table, PARTS);
    let dropped = stage.begin_drop(table);
    assert_eq!(stage.finish(dropped), Outcome::Done(Reply::TableDropped));
    let _ = stage.finish(begun);
    let again = stage.table("t", 2);
    stage.write(again, "key0", b"new");
    assert_eq!(stage.count(again), 1);
    stage.close();
}
