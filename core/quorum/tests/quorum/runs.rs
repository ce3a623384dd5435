//! Random runs of each variant. `RAMHOLD_RUNS=60000` makes that many of each.

use crate::history::is_linearizable;
use crate::model::{Model, PLAIN, Power, Setting};
use ramhold_quorum::Phases;

#[expect(clippy::disallowed_methods, reason = "the number of runs is the tester's choice")]
fn runs() -> u64 {
    let asked = std::env::var("RAMHOLD_RUNS").ok();
    asked.map_or(4000, |text| text.parse().expect("RAMHOLD_RUNS is a number"))
}

fn check(setting: Setting) {
    let (mut operations, mut unknown, mut failed) = (0, 0, 0);
    for seed in 0..runs() {
        let model = Model::new(seed, setting).run();
        assert!(is_linearizable(&model.history), "seed {seed} of {setting:?}: {:#?}", model.history);
        operations += model.history.len() as u64;
        unknown += model.unknown;
        failed += model.failed;
    }
    println!("{operations} operations, {unknown} unknown, {failed} failed: {setting:?}");
    let is_live = (unknown + failed) * 3 < operations;
    assert!(is_live, "most operations must come to an end: {unknown} + {failed} of {operations}");
}

// I1, I2
#[test]
fn one_phase() {
    check(PLAIN);
}

#[test]
fn two_phases() {
    check(Setting { phases: Some(Phases::Two), ..PLAIN });
}

#[test]
fn one_phase_and_two_phases_mixed() {
    check(Setting { phases: None, ..PLAIN });
}

#[test]
fn five_bricks() {
    check(Setting { bricks: 5, write: 3, read: 3, ..PLAIN });
}

#[test]
fn five_bricks_mixed() {
    check(Setting { bricks: 5, write: 3, read: 3, phases: None, ..PLAIN });
}

#[test]
fn one_brick() {
    check(Setting { bricks: 1, write: 1, read: 1, outages: 10, ..PLAIN });
}

#[test]
fn all_bricks_write_and_one_reads() {
    check(Setting { write: 3, read: 1, outages: 10, ..PLAIN });
}

// A12, I1: an ended value is gone for everybody, and no put takes effect twice or is lost for it.
#[test]
fn values_that_end() {
    for phases in [Some(Phases::One), None] {
        check(Setting { phases, ends: true, ..PLAIN });
        check(Setting { bricks: 5, write: 3, read: 3, phases, ends: true, ..PLAIN });
        check(Setting { write: 3, read: 1, phases, ends: true, outages: 10, ..PLAIN });
    }
    check(Setting { ends: true, power: Power::OneForgets, outages: 20, ..PLAIN });
}

// I6: what a brick forgets with its power.
#[test]
fn a_brick_that_forgot_is_rebuilt_before_it_votes() {
    for phases in [Some(Phases::One), None] {
        check(Setting { phases, power: Power::OneForgets, outages: 20, ..PLAIN });
        check(Setting {
            bricks: 5,
            write: 3,
            read: 3,
            phases,
            power: Power::OneForgets,
            outages: 20,
            ..PLAIN
        });
        check(Setting { write: 3, read: 1, phases, power: Power::OneForgets, outages: 0, ..PLAIN });
    }
}

#[test]
fn synced_values_outlive_the_power_of_all() {
    check(Setting { power: Power::AllSynced, ..PLAIN });
    check(Setting { power: Power::AllSynced, phases: None, ..PLAIN });
}
