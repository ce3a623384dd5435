//! Real histories, falsified in many named ways. Both checkers must reject each falsified history, and accept
//! the original.
//!
//! A kind of falsehood takes the history of one key of a simulated run under faults. It changes or adds one
//! thing that no correct store could have answered. Where it finds nothing to change, it leaves the key
//! alone. Each kind must find its place somewhere.
//!
//! Catalogue: J3.

mod expiry;
mod key;
mod presence;
mod versions;

use super::search::{Answer, search};
use super::{COUNTERS, version_witness};
use crate::cluster::Cluster;
use crate::history::Operation;
use crate::scenario::{Plan, run};
use key::Key;
use ramhold_base::Rng;
use std::collections::BTreeMap;

/// Falsifies the history of a key; none: the history has no place for that.
type Falsify = fn(&mut Key<'_>) -> Option<()>;

const VERSIONS: &[(&str, Falsify)] = &[
    ("a read tells the version before", versions::stale_read),
    ("a read goes back behind an earlier read", versions::read_goes_back),
    ("two reads exchange what they found", versions::reads_exchanged),
    ("two reads exchange their values", versions::values_exchanged),
    ("a value that nobody wrote", versions::value_from_nowhere),
    ("a version that nobody got", versions::version_from_nowhere),
    ("the value of a refused write is read", versions::refused_write_seen),
    ("an acknowledged write leaves no trace", versions::write_lost),
    ("a version is given twice", versions::version_reused),
    ("a remove gets the version of what it removed", versions::version_of_the_removed),
    ("two versions are exchanged", versions::versions_exchanged),
    ("versions fall", versions::versions_fall),
    ("a read before its write was asked for", versions::future_read),
    ("a write that was asked for after it was read", versions::write_after_its_read),
    ("a write that was asked for after the next had returned", versions::write_overtaken),
    ("the version of a remove is read as an object", versions::tombstone_read),
    ("a write without a version", versions::write_without_version),
    ("a read that was carried out", versions::read_that_was_done),
    ("a write that found something", versions::write_that_found),
    ("an unknown write is seen before it was asked for", versions::unknown_write_early),
    ("an unknown write is seen under two versions", versions::unknown_write_twice),
    ("a refusal tells an old version", versions::refusal_tells_old),
];

const PRESENCE: &[(&str, Falsify)] = &[
    ("not found while it is there", presence::absent_while_present),
    ("found after it was removed", presence::resurrected),
    ("an overwritten version meets a condition", presence::old_version_meets_condition),
    ("created over what is there", presence::created_over),
    ("two writes win one version", presence::doubled_conditional),
    ("created twice", presence::doubled_creation),
    ("removed twice", presence::doubled_remove),
    ("a condition that holds is refused", presence::refused_without_cause),
    ("a creation is refused for an absence", presence::creation_refused_for_absence),
    ("a write without a condition is refused by one", presence::refused_without_condition),
    ("a refusal says absent while it is there", presence::refusal_says_absent),
    ("a refusal says there while it is removed", presence::refusal_says_present),
    ("a remove finds nothing where something is", presence::remove_finds_nothing),
    ("an unknown write is seen and then lost", presence::unknown_write_lost),
];

const EXPIRY: &[(&str, Falsify)] = &[
    ("over before its time", expiry::ends_early),
    ("served when its time is over", expiry::served_when_over),
    ("back after it was over", expiry::back_after_its_end),
    ("over though it has no end", expiry::ends_without_end),
    ("its version meets a condition when its time is over", expiry::condition_met_when_over),
    ("refused for what is over", expiry::refused_for_what_is_over),
];

/// Histories of keys from runs under faults that both checkers accept.
fn real_histories() -> Vec<(Vec<Operation>, u64)> {
    let mut keys = Vec::new();
    for seed in 0..24 {
        let report = run(&Cluster::default(), seed, &Plan::seconds(20), None);
        assert!(!report.failed(), "seed {seed}: {:?} {:?}", report.stuck, report.findings);
        let mut by_key: BTreeMap<u32, Vec<Operation>> = BTreeMap::new();
        for operation in report.history.iter().filter(|operation| operation.key < COUNTERS) {
            by_key.entry(operation.key).or_default().push(*operation);
        }
        keys.extend(by_key.into_values().map(|operations| (operations, report.clock_spread)));
    }
    keys
}

/// J3: at least 20 kinds, each rejected by the version witness and by the search.
#[test]
fn every_kind_of_falsehood_in_a_real_history_is_rejected() {
    const PLACES: u32 = 12;
    assert!(VERSIONS.len() + PRESENCE.len() + EXPIRY.len() >= 40);
    let keys = real_histories();
    let mut trouble = Vec::new();
    for (name, falsify) in [VERSIONS, PRESENCE, EXPIRY].concat() {
        let (mut places, mut searched) = (0, 0);
        for (number, (operations, spread)) in keys.iter().enumerate() {
            if places == PLACES {
                break;
            }
            let mut rng = Rng::new(number as u64);
            let mut key = Key { operations: operations.clone(), spread: *spread, rng: &mut rng };
            if falsify(&mut key).is_none() {
                continue;
            }
            places += 1;
            key.operations.sort_by_key(|o| o.call);
            let verdict = version_witness(&key.operations, *spread);
            let lines = || key.operations.iter().map(|o| format!("\n    {o}")).collect::<String>();
            if verdict.violations.is_empty() {
                trouble.push(format!("{name}: the version witness accepts{}", lines()));
            }
            if key.operations.len() > 120 {
                continue;
            }
            match search(&key.operations, *spread, 100_000) {
                Answer::Contradiction => searched += 1,
                Answer::Undecided => {}
                Answer::Linearizable => trouble.push(format!("{name}: an order explains{}", lines())),
            }
        }
        if searched == 0 {
            trouble.push(format!("{name}: {places} places, none of them searched to the end"));
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

/// The same keys unchanged: both checkers accept them, and the search decides nearly all small ones.
#[test]
fn real_histories_are_accepted() {
    let (mut small, mut undecided) = (0, 0);
    for (operations, spread) in real_histories() {
        assert_eq!(version_witness(&operations, spread).violations, []);
        if operations.len() > 120 {
            continue;
        }
        small += 1;
        match search(&operations, spread, 20_000) {
            Answer::Linearizable => {}
            Answer::Undecided => undecided += 1,
            Answer::Contradiction => panic!("key {}: no order explains it", operations[0].key),
        }
    }
    assert!(small > 1000 && undecided * 50 <= small, "{undecided} of {small} undecided");
}
