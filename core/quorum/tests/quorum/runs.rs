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
    let (mut operations, mut unknown, mut failed, mut settled) = (0, 0, 0, 0);
    for seed in 0..runs() {
        let model = Model::new(seed, setting).run();
        assert!(is_linearizable(&model.history), "seed {seed} of {setting:?}: {:#?}", model.history);
        operations += model.history.len() as u64;
        unknown += model.unknown;
        failed += model.failed;
        settled += model.settled;
    }
    println!("{operations} operations, {unknown} unknown, {settled} settled, {failed} failed: {setting:?}");
    // With a bound that was raised by a rebuilding, nobody can tell any more in most cases.
    assert!(!setting.resumes || settled * 50 > unknown, "tokens must be settled: {settled} of {unknown}");
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

// I6: another brick forgets when the first one has been rebuilt, and one may forget again while it is rebuilt.
#[test]
fn bricks_that_forget_in_turn_are_rebuilt_from_each_other() {
    for phases in [Some(Phases::One), None] {
        check(Setting { phases, power: Power::InTurn, outages: 10, ..PLAIN });
        let of_five = Setting { bricks: 5, write: 3, read: 3, ..PLAIN };
        check(Setting { phases, power: Power::InTurn, outages: 10, ..of_five });
        check(Setting { write: 3, read: 1, phases, power: Power::InTurn, outages: 0, ..PLAIN });
    }
}

// I4, C32: the bricks of the tablet change in the middle of everything.
#[test]
fn a_brick_takes_the_place_of_another() {
    for phases in [Some(Phases::One), None] {
        check(Setting { phases, moves: true, ..PLAIN });
        check(Setting { bricks: 5, write: 3, read: 3, phases, moves: true, ..PLAIN });
        check(Setting { bricks: 5, write: 4, read: 2, phases, moves: true, outages: 10, ..PLAIN });
        check(Setting { write: 3, read: 1, phases, moves: true, outages: 10, ..PLAIN });
    }
    check(Setting { moves: true, ends: true, ..PLAIN });
}

// I3: a token settles a put, whoever has it, and whatever happens meanwhile.
#[test]
fn sessions_settle_puts_of_unknown_outcome() {
    for phases in [Some(Phases::One), None] {
        let resumes = Setting { phases, resumes: true, outages: 60, ..PLAIN };
        check(resumes);
        check(Setting { bricks: 5, write: 3, read: 3, ..resumes });
        check(Setting { write: 3, read: 1, outages: 30, ..resumes });
        check(Setting { power: Power::OneForgets, ..resumes });
        check(Setting { write: 3, read: 1, power: Power::InTurn, outages: 0, ..resumes });
        check(Setting { moves: true, ..resumes });
        check(Setting { bricks: 5, write: 4, read: 2, moves: true, outages: 20, ..resumes });
        check(Setting { write: 3, read: 1, moves: true, outages: 20, ..resumes });
    }
    check(Setting { ends: true, resumes: true, outages: 60, ..PLAIN });
}
