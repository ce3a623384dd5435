//! A head tells where the bytes of large tablets are.
//!
//! Catalogue: F3, C3.

use crate::harness::*;
use ramhold_base::hash::{first_hash_of, slot_of};
use ramhold_base::{KeyHash, Rng};
use ramhold_log::{Geometry, HashRange, LogConfig, TabletStat};

const SLOTS: ramhold_base::TableId = TABLES[1];

fn roomy(segment_bytes: u32) -> LogConfig {
    let geometry = Geometry { segment_bytes, seglet_bytes: 4096 };
    LogConfig { geometry, reserve_bytes: 1 << 20, index_bytes_max: 1 << 24, ..config(16 << 20) }
}

fn harness(config: LogConfig) -> Harness {
    let mut harness = Harness::new(config);
    for stream in [STREAM, OTHER] {
        harness.roll(stream).unwrap();
    }
    harness
}

fn bytes_of<'a>(will: &'a [TabletStat], is_meant: impl Fn(&TabletStat) -> bool + 'a) -> u64 {
    will.iter().filter(|row| is_meant(row)).map(|row| row.bytes).sum()
}

// F3
#[test]
fn a_will_tells_which_slots_are_heavy() {
    let segment_bytes = 256 * 1024;
    let mut harness = harness(roomy(segment_bytes));
    // One key in twenty is of some slot, all others are of one.
    for number in 0..40_000 {
        let key = if number % 20 == 0 { format!("key{number}") } else { format!("{{t}}key{number}") };
        harness.write(SLOTS, key.as_bytes(), &[7; 250]).unwrap();
        harness.write(TABLES[0], b"small", &[]).unwrap();
    }
    let will = harness.log.will();
    let of_slots = harness.log.stats().find(|stat| stat.table == SLOTS).unwrap();
    assert_eq!(bytes_of(&will, |row| row.table == SLOTS), of_slots.bytes);
    let heavy = first_hash_of(slot_of(b"{t}"))..first_hash_of(slot_of(b"{t}") + 1);
    let told =
        bytes_of(&will, |row| row.table == SLOTS && heavy.contains(&row.first) && row.last < heavy.end);
    // Bytes that were counted before the root and the arrays on the way to the slot were made are not known so exactly: for
    // each array those that made the bucket large, and the rest of the segment that was open then. Neighbours may share a
    // row with its edges.
    let grain = of_slots.bytes * 2 / 28;
    let blurred = 2 * 2 * u64::from(segment_bytes) + 2 * grain;
    assert!(told > of_slots.bytes * 95 / 100 - blurred, "{told} of {}", of_slots.bytes);
    let small: Vec<&TabletStat> = will.iter().filter(|row| row.table == TABLES[0]).collect();
    assert_eq!(small.len(), 1, "a small table is one row");
    harness.check();
}

// F3
#[test]
fn a_will_and_what_it_is_made_from_are_bounded() {
    for profile_bytes_max in [0, 5_000, PROFILE_BYTES] {
        let mut harness = harness(LogConfig { profile_bytes_max, ..roomy(64 * 1024) });
        let mut rng = Rng::new(3);
        let mut longest = 0;
        for number in 0..20_000_u64 {
            let key = format!("{{{}}}key{number}", rng.below(40));
            harness.write(*rng.pick(&TABLES).unwrap(), key.as_bytes(), &[7; 100]).unwrap();
            assert!(harness.log.profile_bytes() <= profile_bytes_max);
            if number % 1000 == 0 {
                longest = longest.max(harness.log.will().len());
            }
        }
        assert!(longest <= TABLES.len() + 8, "a head of 64 KiB has room for eight rows more: {longest}");
        assert!(longest > TABLES.len() || profile_bytes_max == 0);
        harness.check();
    }
}

// F3, A8
#[test]
fn a_table_that_is_given_up_leaves_nothing_behind() {
    let mut harness = harness(roomy(64 * 1024));
    for number in 0..4_000 {
        harness.write(SLOTS, format!("{{t}}key{number}").as_bytes(), &[7; 250]).unwrap();
    }
    let before = harness.log.profile_bytes();
    assert!(before > 0);
    harness.log.untrack(HashRange::whole(SLOTS));
    assert!(harness.log.will().iter().all(|row| row.table != SLOTS));
    // Its objects are still in the log, and what is told of those that come later is not told of them.
    harness.log.track(HashRange { table: SLOTS, first: KeyHash(0), last: KeyHash(u64::MAX) });
    for number in 4_000..8_000 {
        harness.write(SLOTS, format!("{{t}}key{number}").as_bytes(), &[7; 250]).unwrap();
    }
    assert_eq!(harness.log.profile_bytes(), before, "arrays are used again");
    harness.log.check_profiles(&hash_of);
    let stat = harness.log.stats().find(|stat| stat.table == SLOTS).unwrap();
    assert_eq!(bytes_of(&harness.log.will(), |row| row.table == SLOTS), stat.bytes);
}
