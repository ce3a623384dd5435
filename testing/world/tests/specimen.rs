//! The whole scenario, run on the specimen: nothing is found in a correct store, and every planted fault is
//! found.

use ramhold_world::scenario::{Plan, run};
use ramhold_world::specimen::{Planted, Specimen};
use ramhold_world::tally::Tally;

const SECONDS: u64 = 30;

fn specimen(planted: Option<Planted>) -> Specimen {
    Specimen { servers: 3, planted }
}

/// J3
#[test]
fn a_correct_store_passes_under_all_faults() {
    let mut tally = Tally::default();
    for seed in 0..300 {
        let report = run(&specimen(None), seed, &Plan::seconds(SECONDS), None);
        let found: Vec<String> =
            report.verdict.violations.iter().map(|v| v.describe(&report.history)).collect();
        assert!(!report.failed(), "seed {seed}: {:?}\n{}", report.stuck, found.join("\n"));
        tally.add(&report);
    }
    let mut blind = Vec::new();
    for name in [
        "operations.done",
        "operations.unknown",
        "checked.unknown bound",
        "checked.conditions failed",
        "fault.crash",
        "fault.crash between effects",
        "fault.power cut",
        "fault.torn write",
        "fault.stall",
        "fault.one-way cut",
        "fault.two-way cut",
        "fault.clog",
        "fault.lost frame",
        "fault.doubled frame",
        "fault.held frame",
        "fault.corrupt frame",
        "fault.broken connection",
        "mark.bad frame",
        "mark.repeated request",
        "mark.torn log tail",
    ] {
        if tally.sum(name) == 0 {
            blind.push(name);
        }
    }
    assert!(blind.is_empty(), "never happened: {blind:?}");
    assert!(tally.sum("operations.done") > 100 * 1000);
}

/// J3: the same seed gives the same trace and the same history.
#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 17] {
        let first = run(&specimen(None), seed, &Plan::seconds(20), None);
        let second = run(&specimen(None), seed, &Plan::seconds(20), None);
        assert_eq!(first.trace, second.trace);
        assert_eq!(first.history, second.history);
        assert_eq!(first.faults, second.faults);
    }
    let other = run(&specimen(None), 4, &Plan::seconds(20), None);
    assert_ne!(other.trace, run(&specimen(None), 3, &Plan::seconds(20), None).trace);
}

/// A simulator that finds nothing proves nothing: each planted fault shows, most of them within a few seeds.
#[test]
fn every_planted_fault_is_found() {
    for planted in Planted::ALL {
        let found = (0..500)
            .find(|seed| run(&specimen(Some(planted)), *seed, &Plan::seconds(2 * SECONDS), None).failed());
        assert!(found.is_some(), "{planted:?} was not found");
    }
}
