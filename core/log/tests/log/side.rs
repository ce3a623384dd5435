//! Side logs and dropped ranges: many keys come or go at once.

use crate::harness::*;
use ramhold_base::{ClusterTime, KeyHash, Rng, SegmentId, TableId, Version};
use ramhold_log::{Cursor, Entry, HashRange, Object, OlderList, Purpose};

// C6
#[test]
fn an_abandoned_side_log_leaves_nothing_behind() {
    let mut rng = Rng::new(4);
    let mut harness = Harness::new(config(256 * 1024));
    for _ in 0..400 {
        harness.step(&mut rng);
    }
    let free_before = harness.log.usage().free_bytes;
    let side = harness.log.open_side(STREAM, ClusterTime(0));
    for number in 0..500_u64 {
        let key = format!("side{}", number % 300).into_bytes();
        let version = Version(1000 + number);
        let object = Object { table: TABLES[1], version, time: 0, expires: None, key: &key, value: &[3; 30] };
        harness.log.replay(side, &Entry::Object(object, OlderList::NONE), hash_of(TABLES[1], &key)).unwrap();
    }
    assert!(harness.log.side_segments(side).count() > 5);
    harness.log.check_invariants();
    let mut cursor = Some(Cursor::default());
    let mut steps = 0;
    while let Some(from) = cursor {
        cursor = harness.log.abandon_side_step(side, from, 5, &hash_of);
        steps += 1;
    }
    assert!(steps > 3, "it takes bounded steps");
    assert_eq!(harness.log.usage().free_bytes, free_before);
    harness.check();
}

// C6
#[test]
fn a_side_log_has_a_header_in_each_segment_and_no_digest_until_entered() {
    let mut harness = Harness::new(config(256 * 1024));
    let head = harness.roll(STREAM).unwrap();
    let side = harness.log.open_side(STREAM, ClusterTime(42));
    let group = [Entry::SafeVersion(Version(9)); 50];
    let ends: Vec<SegmentId> =
        (0..10).map(|_| harness.log.append_side(side, Purpose::Freeing, &group).unwrap().segment).collect();
    let ids: Vec<SegmentId> = harness.log.side_segments(side).collect();
    assert_eq!(ids, [2, 3].map(SegmentId));
    assert!(ends.is_sorted());
    for id in &ids {
        let opening = ramhold_log::opening::parse(&segment_bytes(&harness.log, *id)).unwrap();
        assert_eq!((opening.header.segment, opening.header.created), (*id, ClusterTime(42)));
        assert_eq!(opening.digest, None);
    }
    assert_eq!(harness.log.stream_segments(STREAM).collect::<Vec<_>>(), [head]);
    harness.log.close_side(side);
    harness.log.enter_side(side);
    assert_eq!(harness.log.stream_segments(STREAM).collect::<Vec<_>>(), [head, ids[0], ids[1]]);
    assert_eq!(harness.log.head_segment(STREAM), Some(head));
    harness.log.check_invariants();
}

// C6, D9
#[test]
fn a_head_that_was_held_takes_the_place_of_an_empty_one() {
    let mut harness = Harness::new(config(256 * 1024));
    let empty = harness.roll(STREAM).unwrap();
    let held = harness.log.hold_head();
    let other = harness.roll(OTHER).unwrap();
    assert!(empty < held && held < other, "ids are given out once");
    let left = harness.log.roll_held(STREAM, held, ClusterTime(50), &[], &[], true).unwrap();
    assert_eq!(left, [empty]);
    assert_eq!(harness.log.head_segment(STREAM), Some(held));
    let opening = ramhold_log::opening::parse(&segment_bytes(&harness.log, held)).unwrap();
    assert_eq!(opening.digest, Some(vec![held]));
    harness.log.check_invariants();
    harness.log.retire(empty);
    harness.log.check_invariants();

    harness.log.append(STREAM, Purpose::Freeing, &[Entry::SafeVersion(Version(9))]).unwrap();
    let next = harness.log.hold_head();
    assert_eq!(
        harness.log.roll_held(STREAM, next, ClusterTime(60), &[], &[], true).unwrap(),
        [],
        "it is not empty"
    );
    let after = harness.log.hold_head();
    let kept = harness.log.roll_held(STREAM, after, ClusterTime(70), &[], &[], false).unwrap();
    assert_eq!(kept, [], "an empty one stays when it is to");
    assert_eq!(harness.log.stream_segments(STREAM).collect::<Vec<_>>(), [held, next, after]);
    harness.log.check_invariants();
    // Nothing lives in the closed ones: they may go all at once.
    let dead: std::collections::BTreeSet<_> = harness.log.dead_segments(STREAM).collect();
    assert_eq!(dead, [held, next].into());
    let last = harness.log.hold_head();
    let left = harness.log.roll_held(STREAM, last, ClusterTime(80), &[], &[held, next], true).unwrap();
    assert_eq!(left, [held, next, after]);
    assert_eq!(harness.log.stream_segments(STREAM).collect::<Vec<_>>(), [last]);
    assert_eq!(harness.log.dead_segments(STREAM).count(), 0, "they have left");
    harness.log.check_invariants();
    left.into_iter().for_each(|segment| harness.log.retire(segment));
    harness.log.check_invariants();
}

// A1, A2
#[test]
fn a_dropped_range_takes_its_keys_and_leaves_versions_growing() {
    for seed in 0..5 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut harness = Harness::new(config(256 * 1024));
        for _ in 0..700 {
            harness.step(&mut rng);
        }
        let half = HashRange { table: TABLES[0], first: KeyHash(0), last: KeyHash(u64::MAX / 2) };
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            cursor = harness.log.drop_range_step(half, from, 3, &|key| hash_of(TABLES[0], key)).unwrap();
            // The shard goes on writing meanwhile, elsewhere.
            let key = random_key(&mut rng);
            let _ = harness.write(TABLES[2], &key, b"meanwhile");
        }
        let count_before = harness.model.len();
        harness.model.retain(|(table, key), _| !half.contains(*table, hash_of(*table, key)));
        assert!(harness.model.len() < count_before);
        assert!(harness.model.keys().any(|(table, _)| *table == TABLES[0]));
        harness.check();
    }
}

#[test]
fn entries_about_the_log_go_to_a_head_as_one_group() {
    let mut harness = Harness::new(config(64 * 1024));
    harness.roll(STREAM).unwrap();
    let before = harness.log.segment(SegmentId(1)).unwrap().len_bytes;
    let group = [Entry::SafeVersion(Version(3)), Entry::SafeVersion(Version(4))];
    let position = harness.log.append(STREAM, Purpose::Ordinary, &group).unwrap();
    assert_eq!((position.segment, position.offset), (SegmentId(1), before + 32));
    harness.log.close_head(STREAM);
    assert!(harness.log.append(STREAM, Purpose::Ordinary, &group).is_err());
    assert_eq!(
        harness.log.lookup(TableId(1), KeyHash(0), b"nobody").unwrap().map(|found| found.version),
        None
    );
}
