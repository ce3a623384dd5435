//! Scans in bounded steps while the index grows, shrinks, and while the keys move to another log.
//!
//! Catalogue: A6.

use crate::harness::{Harness, STREAM, TABLES, config, entries, entry_hash, hash_of, segments};
use ramhold_base::{KeyHash, Rng};
use ramhold_log::{HashRange, Log};
use std::collections::BTreeMap;

const TABLE: ramhold_base::TableId = TABLES[0];

fn all() -> HashRange {
    HashRange { table: TABLE, first: KeyHash(0), last: KeyHash(u64::MAX) }
}

/// The keys of a step of a few buckets, and where to go on.
fn step(log: &mut Log, range: HashRange, from: u64, buckets: u64) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
    let mut found = Vec::new();
    let next = log.scan_step(range, from, buckets, &|key| hash_of(TABLE, key), &mut found).unwrap().next;
    assert!(found.is_sorted_by_key(|scanned| scanned.position));
    assert!(found.iter().all(|scanned| scanned.position >= from));
    assert!(next.is_none_or(|next| found.iter().all(|scanned| scanned.position < next)));
    let keys = found.iter().map(|scanned| (scanned.position, log.show(scanned).key.to_vec()));
    (keys.collect(), next)
}

fn harness() -> Harness {
    let mut harness = Harness::new(config(1 << 20));
    harness.roll(STREAM).unwrap();
    harness
}

fn write(harness: &mut Harness, key: &[u8]) {
    if harness.write(TABLE, key, b"v").is_err() {
        harness.roll(STREAM).unwrap();
        harness.write(TABLE, key, b"v").unwrap();
    }
}

fn remove(harness: &mut Harness, key: &[u8]) {
    if harness.remove(TABLE, key).is_err() {
        harness.roll(STREAM).unwrap();
        harness.remove(TABLE, key).unwrap();
    }
}

/// Keys that stay are met once each, whatever comes and goes between the steps.
#[test]
fn what_stays_is_met_once_while_the_index_grows_and_shrinks() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let mut harness = harness();
        let stays = |n: u64| format!("stays {n}").into_bytes();
        let comes = |n: u64| format!("comes {n}").into_bytes();
        for n in 0..300 {
            write(&mut harness, &stays(n));
        }
        // Grows in one half of the seeds, and shrinks in the other.
        let grows = seed % 2 == 0;
        let (mut there, mut met) = (0, BTreeMap::<Vec<u8>, u32>::new());
        if !grows {
            while there < 6000 {
                write(&mut harness, &comes(there));
                there += 1;
            }
        }
        let buckets_before = harness.log.index_bytes();
        let (mut from, mut steps) = (0, 0);
        loop {
            let (mut keys, mut next) = step(&mut harness.log, all(), from, rng.between(1, 5));
            // A page may end anywhere in a step.
            if !keys.is_empty() && rng.chance(1, 2) {
                let at = rng.below(keys.len() as u64) as usize;
                if at > 0 {
                    next = Some(keys[at].0);
                    keys.truncate(at);
                }
            }
            for (_, key) in keys {
                *met.entry(key).or_default() += 1;
            }
            let Some(next) = next else { break };
            assert!(next > from);
            (from, steps) = (next, steps + 1);
            for _ in 0..rng.below(250) {
                if grows && there < 6000 {
                    write(&mut harness, &comes(there));
                    there += 1;
                } else if !grows && there > 0 {
                    there -= 1;
                    remove(&mut harness, &comes(there));
                }
                // An object that is written anew keeps its place.
                if rng.chance(1, 50) {
                    write(&mut harness, &stays(rng.below(300)));
                }
            }
        }
        assert!(steps > 5, "seed {seed}: {steps} steps");
        assert_ne!(harness.log.index_bytes(), buckets_before, "seed {seed}: it stayed as it was");
        assert!((0..300).all(|n| met.get(&stays(n)) == Some(&1)), "seed {seed}");
        assert!(met.values().all(|count| *count == 1), "seed {seed}");
        harness.check();
    }
}

#[test]
fn a_scan_goes_on_in_the_log_that_has_the_keys_now() {
    let mut harness = harness();
    for n in 0..500 {
        write(&mut harness, format!("key {n}").as_bytes());
    }
    let range = HashRange { table: TABLE, first: KeyHash(1 << 60), last: KeyHash(1 << 63) };
    let wanted = (0..500).map(|n| format!("key {n}").into_bytes());
    let mut wanted: Vec<_> = wanted.filter(|key| range.contains(TABLE, hash_of(TABLE, key))).collect();
    let mut met = Vec::new();
    let (keys, from) = step(&mut harness.log, range, 0, 10);
    met.extend(keys);
    // The keys go to a log that holds others already, so that its index has another size.
    let mut other = Harness::new(config(1 << 20));
    other.roll(STREAM).unwrap();
    for n in 0..3000 {
        write(&mut other, format!("other {n}").as_bytes());
    }
    let before = segments(&harness.log);
    let side = other.log.open_side(STREAM, other.now);
    for entry in entries(&before) {
        other.log.replay(side, &entry, entry_hash(&entry)).unwrap();
    }
    let mut next = from;
    while let Some(from) = next {
        let keys;
        (keys, next) = step(&mut other.log, range, from, 3);
        met.extend(keys.into_iter().filter(|(_, key)| key.starts_with(b"key ")));
    }
    let mut met: Vec<_> = met.into_iter().map(|(_, key)| key).collect();
    met.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(met, wanted);
}
