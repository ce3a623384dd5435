//! Seeds of `ramhold-world --bricks` that once found a fault, run again.
//!
//! A change of the code changes what happens in a seed, so each fault has tests of its own as well. Catalogue: I6, J3.

use ramhold_world::cluster::Cluster;
use ramhold_world::cluster::bricks::BrickSetup;
use ramhold_world::scenario::{Plan, Report, run};

fn goes_well(seed: u64) {
    let _ = outcome(seed);
}

fn outcome(seed: u64) -> Report {
    let cluster = Cluster { bricks: Some(BrickSetup::draw(seed)), ..Cluster::default() };
    let report = run(&cluster.varied(seed), seed, &Plan::seconds(60), None);
    assert_eq!(report.stuck, None, "seed {seed}");
    assert!(!report.failed(), "seed {seed}: {:?} {:?}", report.findings, report.verdict.violations);
    report
}

// I6, C6: cleaning waited for the head that enters its survivors, and no frame was left for one. So the rebuilding never
// ended: what must leave the log could not.
#[test]
fn a_rebuilding_ends_with_few_frames() {
    [378, 859].into_iter().for_each(goes_well);
}

// C6: the same, and clients got nothing done.
#[test]
fn clients_go_on_with_few_frames() {
    [1, 246].into_iter().for_each(goes_well);
}

// I6, D1: dead segments left with the first head of a life, although the head before it was not closed and counted again at
// the next start. Segments that it named were missed then, and a loss was reported after a kill.
#[test]
fn a_brick_that_dies_twice_misses_nothing() {
    for seed in [71, 73] {
        let report = outcome(seed);
        assert_eq!(report.marks.get("brick_rebuilt_with_loss"), None, "seed {seed}: {:?}", report.errors);
    }
}

// I6: a put went on while its first brick was rebuilt, and reached a sibling between its page of stamps and its page of values.
// The brick had it from before it forgot, was to drop it, and was told it: the log refuses to store a record over itself.
#[test]
fn a_rebuilding_is_told_what_it_has_and_was_to_drop() {
    [3034, 3056, 3069].into_iter().for_each(goes_well);
}
