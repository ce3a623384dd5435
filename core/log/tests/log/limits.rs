//! Full memory and a full index refuse writes until something frees them.

use crate::harness::*;
use ramhold_base::{Rng, SegmentId, StreamId, TableId};
use ramhold_log::{AppendRefusal, Log, LogConfig, OutOfMemory};

const TABLE: TableId = TABLES[0];

fn fill(harness: &mut Harness) {
    for number in 0..100_000 {
        match harness.write(TABLE, format!("fill{number}").as_bytes(), &[1; 40]) {
            Ok(_) => {}
            Err(AppendRefusal::OutOfMemory) => return,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
    panic!("memory never ended");
}

/// Frees the closed segments into which the index does not refer.
fn free_unreferenced(log: &mut Log) {
    let of = |log: &Log, stream: StreamId| log.stream_segments(stream).collect::<Vec<SegmentId>>();
    for id in [of(log, STREAM), of(log, OTHER)].concat() {
        let segment = log.segment(id).unwrap();
        if segment.closed && segment.indexed_count == 0 {
            log.free_segment(id);
        }
    }
}

// C7
#[test]
fn a_full_log_refuses_writes_serves_reads_and_removes_and_recovers_when_freed() {
    let mut harness = Harness::new(config(64 * 1024));
    fill(&mut harness);
    let usage = harness.log.usage();
    assert!(usage.free_bytes >= usage.reserve_bytes);
    harness.check();

    // Removes go on, out of the reserve, also over a roll; overwriting does not.
    let keys: Vec<Key> = harness.model.keys().cloned().collect();
    let mut removed = 0;
    for (table, key) in &keys {
        if harness.remove(*table, key).is_err() {
            break;
        }
        removed += 1;
        assert_eq!(harness.write(TABLE, b"one more", &[1; 200]), Err(AppendRefusal::OutOfMemory));
    }
    assert!(removed * 40 > usage.reserve_bytes / 2, "removed {removed}");
    assert!(harness.log.usage().free_bytes < usage.reserve_bytes);
    harness.check();

    // Even the reserve ends: still an answer, still reads.
    let (table, key) = harness.model.keys().next().cloned().expect("the reserve is too small to remove all");
    assert_eq!(harness.remove(table, &key), Err(AppendRefusal::OutOfMemory));
    assert_eq!(harness.roll(OTHER), Err(OutOfMemory));
    harness.check();

    free_unreferenced(&mut harness.log);
    harness.write(TABLE, b"one more", b"v").unwrap();
    harness.check();
}

// C7: seeds 9 and 33 of `--tight`. Less is free than cleaning needs, as after a head that a recovery needed.
#[test]
fn removes_fill_what_their_head_has_however_little_is_free_and_writes_do_not() {
    let config = LogConfig { cleaning_reserve_bytes: 4 * 1024, ..config(64 * 1024) };
    let mut harness = Harness::new(config);
    fill(&mut harness);
    while harness.log.usage().free_bytes >= 4 * 1024 {
        harness.log.roll_entering(STREAM, harness.now, &[]).unwrap();
    }
    assert!(!harness.log.may_roll_all([1, 1, 1, 1].into_iter(), false));
    assert_eq!(harness.write(TABLE, b"one more", b"v"), Err(AppendRefusal::OutOfMemory));
    let keys: Vec<Key> = harness.model.keys().cloned().collect();
    for (table, key) in keys.iter().filter(|(table, _)| stream_of(*table) == STREAM).take(5) {
        harness.remove(*table, key).expect("a tombstone fits the seglet of the head");
    }
    harness.check();
}

// C7: a pass that waits to be entered gives back more than it takes, but for that it must be entered.
#[test]
fn what_is_entered_beside_a_cleaning_pass_leaves_it_a_roll() {
    let mut harness = Harness::new(config(64 * 1024));
    fill(&mut harness);
    while harness.log.may_roll_all([1].into_iter(), true) {
        harness.log.roll_entering(STREAM, harness.now, &[]).unwrap();
    }
    assert!(harness.log.may_roll(1), "the pass");
}

// C7: whoever asks first is never refused then.
#[test]
fn a_new_stream_gets_its_head_whenever_there_is_said_to_be_room() {
    let config = LogConfig { cleaning_reserve_bytes: 4 * 1024, ..config(64 * 1024) };
    let mut harness = Harness::new(config);
    fill(&mut harness);
    let mut opened = 0;
    while harness.log.may_open() {
        let stream = StreamId(100 + opened);
        harness.log.open_stream(stream);
        harness.log.roll(stream, harness.now, &[]).expect("there is said to be room");
        opened += 1;
    }
    assert!(opened > 0 && harness.log.may_roll(1), "cleaning has its reserve");
    assert!(harness.log.roll(STREAM, harness.now, &[]).is_err(), "{opened} were opened");
    harness.check();
}

// C2, C7
#[test]
fn a_full_index_refuses_new_keys_and_takes_overwrites() {
    let config = LogConfig { index_bytes_max: 2048, ..config(256 * 1024) };
    let mut harness = Harness::new(config);
    fill(&mut harness);
    assert!(
        harness.log.usage().free_bytes > 2 * harness.log.usage().reserve_bytes,
        "it was the index that ended"
    );
    let (table, key) = harness.model.keys().next().cloned().unwrap();
    harness.write(table, &key, b"again").unwrap();
    harness.remove(table, &key).unwrap();
    harness.write(table, &key, b"and again").unwrap();
    harness.check();
    // The bounds of objects that end come on top: eight bytes for a bucket of 64.
    assert!(harness.log.index_bytes() <= 2048 + 2048 / 8 + 8);
}

#[test]
fn a_group_that_no_segment_could_take_is_refused_for_good() {
    let mut harness = Harness::new(config(64 * 1024));
    assert_eq!(harness.write(TABLE, b"key", &[0; 2048]), Err(AppendRefusal::TooLarge));
    let fits = 2048 - 22 - 3;
    harness.write(TABLE, b"key", &vec![0; fits]).unwrap();
    assert_eq!(harness.write(TABLE, b"key", &vec![0; fits]), Err(AppendRefusal::TooLarge), "its list counts");
    harness.check();
}

/// Memory that goes round many times stays whole, whoever it belonged to before.
// C1
#[test]
fn freed_segments_are_used_again() {
    let mut rng = Rng::new(8);
    let mut harness = Harness::new(config(128 * 1024));
    let mut segment_last = SegmentId(0);
    for round in 0..40 {
        while harness.step(&mut rng) {}
        harness.check();
        // Everything goes, so that every closed segment can.
        for (table, key) in harness.model.keys().cloned().collect::<Vec<Key>>() {
            if harness.remove(table, &key).is_err() {
                free_unreferenced(&mut harness.log);
                harness.remove(table, &key).unwrap();
            }
        }
        free_unreferenced(&mut harness.log);
        assert!(harness.log.next_segment_id() > segment_last, "round {round}");
        segment_last = harness.log.next_segment_id();
    }
    harness.check();
}
