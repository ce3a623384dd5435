//! The promises of the steps, checked against a plain model of the store.

use super::*;
use crate::table::Sizes;
use std::collections::BTreeMap;

const TARGET: u64 = 3_000_000;
const BEYOND: u32 = 0;
const SEED: u64 = 20_141_103;

/// The steps of a run, counted by phase.
#[derive(Default)]
struct Seen {
    live: BTreeMap<KeyId, u32>,
    live_bytes: u64,
    filled: Vec<u32>,
    deleted: usize,
    replacing: Vec<u32>,
}

fn object_bytes(value_bytes: u32) -> u64 {
    u64::from(KEY_BYTES + value_bytes)
}

/// Runs all steps on a model, and checks the invariants after every step.
fn run(workload: Workload, mut each: impl FnMut(&Steps, &Seen, Step)) -> Seen {
    let mut steps = Steps::new(workload, TARGET, BEYOND, SEED);
    let mut seen = Seen::default();
    while let Some(step) = steps.next() {
        match step {
            Step::Insert { key, value_bytes } => {
                assert_eq!(seen.live.insert(key, value_bytes), None, "{workload}: {key:?} twice");
                seen.live_bytes += object_bytes(value_bytes);
                match steps.phase() {
                    Phase::Filling => seen.filled.push(value_bytes),
                    Phase::Replacing => seen.replacing.push(value_bytes),
                    other => panic!("{workload}: an insert while {other:?}"),
                }
            }
            Step::Delete { key, value_bytes } => {
                assert_eq!(seen.live.remove(&key), Some(value_bytes), "{workload}: {key:?} is not there");
                seen.live_bytes -= object_bytes(value_bytes);
                if steps.phase() == Phase::Deleting {
                    seen.deleted += 1;
                }
            }
        }
        assert_eq!(steps.live_bytes(), seen.live_bytes, "{workload}");
        assert_eq!(steps.live_count(), seen.live.len() as u64, "{workload}");
        assert!(seen.live_bytes <= TARGET, "{workload}");
        each(&steps, &seen, step);
    }
    assert_eq!(steps.phase(), Phase::Done);
    assert_eq!(steps.next(), None);
    seen
}

#[test]
fn live_bytes_stay_within_one_object_of_the_target() {
    for workload in Workload::ALL {
        let mut reached = 0u64;
        let mut makes_room = false;
        let seen = run(workload, |steps, seen, step| {
            let near = TARGET - seen.live_bytes <= workload.object_bytes_max();
            assert_eq!(steps.is_at_target(), near);
            if steps.phase() == Phase::Replacing {
                makes_room |= matches!(step, Step::Delete { .. });
                if makes_room && matches!(step, Step::Insert { .. }) {
                    assert!(near, "{workload}: live {}", seen.live_bytes);
                    reached += 1;
                }
            }
        });
        assert!(seen.filled.iter().map(|v| object_bytes(*v)).sum::<u64>() <= TARGET);
        assert!(TARGET - seen.live_bytes <= workload.object_bytes_max(), "{workload}: at the end");
        assert_eq!(reached > 0, workload != Workload::Fill, "{workload}");
    }
}

#[test]
fn the_fill_goes_up_to_the_target() {
    for workload in Workload::ALL {
        let seen = run(workload, |_, _, _| ());
        let filled: u64 = seen.filled.iter().map(|v| object_bytes(*v)).sum();
        assert!(TARGET - filled <= object_bytes(workload.before().max), "{workload}: {filled}");
    }
}

#[test]
fn sizes_are_those_of_the_table_and_even() {
    for workload in Workload::ALL {
        let seen = run(workload, |_, _, _| ());
        check_sizes(workload, &seen.filled, workload.before());
        match workload.after() {
            Some(sizes) => check_sizes(workload, &seen.replacing, sizes),
            None => assert!(seen.replacing.is_empty()),
        }
    }
}

fn check_sizes(workload: Workload, drawn: &[u32], sizes: Sizes) {
    assert!(drawn.iter().all(|v| (sizes.min..=sizes.max).contains(v)), "{workload}");
    let width = sizes.max - sizes.min;
    // Every tenth of the range has about a tenth of the values: at least a third of its share.
    for tenth in 0..10 {
        let from = sizes.min + width * tenth / 10;
        let to = sizes.min + width * (tenth + 1) / 10;
        let count = drawn.iter().filter(|v| (from..=to).contains(v)).count();
        assert!(count * 30 >= drawn.len(), "{workload}: {count} of {} in {from}..={to}", drawn.len());
    }
}

#[test]
fn twice_the_live_bytes_are_written_after_the_sizes_change() {
    for workload in Workload::ALL {
        let seen = run(workload, |_, _, _| ());
        let written: u64 = seen.replacing.iter().map(|v| object_bytes(*v)).sum();
        if workload.after().is_none() {
            assert_eq!(written, 0);
            continue;
        }
        assert!(written >= 2 * TARGET, "{workload}: {written}");
        assert!(written < 2 * TARGET + workload.object_bytes_max(), "{workload}: {written}");
    }
}

#[test]
fn the_share_of_the_table_is_deleted_at_random() {
    for workload in Workload::ALL {
        let mut left = Vec::new();
        let seen = run(workload, |steps, seen, _| {
            // Before its last delete too, which is one object of many.
            if steps.phase() == Phase::Deleting && steps.to_delete <= 1 {
                left = seen.live.keys().copied().collect();
            }
        });
        let filled = seen.filled.len();
        assert_eq!(seen.deleted, filled * workload.deleted_percent() as usize / 100, "{workload}");
        if seen.deleted > 0 {
            // The remaining keys lie in the first half of the keys as often as in the second, give or take a
            // fifth.
            let first_half = left.iter().filter(|key| (key.0 as usize) < filled / 2).count();
            assert!((first_half * 100 / left.len()).abs_diff(50) < 20, "{workload}: {first_half}");
        }
    }
}

#[test]
fn old_objects_are_replaced_object_by_object() {
    // W2: the share of 130-byte values only grows slowly, and e^-2 of the old ones (a little more, as new ones are
    // larger) outlive twice the live bytes.
    let mut deletes_in_a_row = 0;
    let seen = run(Workload::W2, |_, _, step| match step {
        Step::Delete { .. } => {
            deletes_in_a_row += 1;
            assert!(deletes_in_a_row <= 2);
        }
        Step::Insert { .. } => deletes_in_a_row = 0,
    });
    let old = seen.live.values().filter(|v| **v == 100).count();
    let percent = old * 100 / seen.filled.len();
    assert!((8..=20).contains(&percent), "{percent} % of the old objects are left");
}

#[test]
fn a_seed_gives_the_same_steps_and_another_seed_others() {
    let steps = |seed| Steps::new(Workload::W5, 200_000, BEYOND, seed).collect::<Vec<Step>>();
    assert_eq!(steps(1), steps(1));
    assert_ne!(steps(1), steps(2));
}

#[test]
fn the_lists_never_move_and_their_memory_is_told() {
    let mut steps = Steps::new(Workload::W8, TARGET, BEYOND, SEED);
    let (keys, sizes) = (steps.keys.as_ptr(), steps.sizes.as_ptr());
    let mut live_count_max = 0;
    while steps.next().is_some() {
        live_count_max = live_count_max.max(steps.live_count());
    }
    assert_eq!((steps.keys.as_ptr(), steps.sizes.as_ptr()), (keys, sizes));
    assert_eq!(steps.touched_bytes(), live_count_max * 6);
}

#[test]
fn the_number_of_steps_is_told_beforehand_to_a_quarter() {
    for workload in Workload::ALL {
        let actual = Steps::new(workload, TARGET, BEYOND, SEED).count() as u64;
        let told = workload.step_count_about(TARGET);
        assert!(told.abs_diff(actual) * 4 <= actual, "{workload}: told {told}, was {actual}");
    }
}

#[test]
fn a_key_is_thirty_bytes_and_says_its_id() {
    assert_eq!(&KeyId(0).bytes(), b"key-00000000000000000000000000");
    assert_eq!(&KeyId(u32::MAX).bytes(), b"key-00000000000000004294967295");
    assert_eq!(&KeyId(1_020).bytes(), b"key-00000000000000000000001020");
}

#[test]
fn percent_done_ends_at_a_hundred() {
    for workload in Workload::ALL {
        let mut steps = Steps::new(workload, TARGET, BEYOND, SEED);
        let mut latest = 0;
        while steps.next().is_some() {
            assert!(steps.percent_done() >= latest, "{workload}");
            latest = steps.percent_done();
        }
        assert_eq!(steps.percent_done(), 100, "{workload}");
    }
}

#[test]
#[should_panic(expected = "not even one object fits")]
fn a_target_below_one_object_is_refused() {
    let _ = Steps::new(Workload::W8, 15_029, BEYOND, SEED);
}

/// A store that needs 22 bytes beyond each object is held equally full by small and by large ones.
#[test]
fn a_store_is_held_equally_full_whatever_the_sizes() {
    const BEYOND: u64 = 22;
    for workload in Workload::ALL {
        let mut steps = Steps::new(workload, TARGET, BEYOND as u32, SEED);
        let full = TARGET + TARGET * BEYOND / workload.small_object_bytes();
        let (mut most, mut last) = (0, 0);
        while steps.next().is_some() {
            last = steps.live_bytes() + steps.live_count() * BEYOND;
            most = most.max(last);
        }
        assert!(most <= full, "{workload}: {most} of {full}");
        assert!(full - last <= workload.object_bytes_max() + BEYOND, "{workload}: {last} of {full}");
    }
    let mut large = Steps::new(Workload::W8, TARGET, BEYOND as u32, SEED);
    large.by_ref().for_each(drop);
    assert!(large.live_bytes() > TARGET * 110 / 100, "{}", large.live_bytes());
}
