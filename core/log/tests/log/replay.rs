//! What one log wrote, replayed into another in any order.

use crate::dead::check_dead;
use crate::harness::*;
use ramhold_base::{
    ClusterTime, KeyHash, LeaseId, Rng, SegmentId, Sequence, Status, StreamId, TableId, Version,
};
use ramhold_log::{Entry, Log, Object, Replayed, RpcResult, Tombstone, opening};

/// Replays the entries of two streams into two side logs, in random order and with repetitions.
pub fn replay_shuffled(source: &Log, target: &mut Harness, rng: &mut Rng) {
    let segments = segments(source);
    let mut all = entries(&segments);
    for _ in 0..all.len() / 3 {
        all.push(*rng.pick(&all).unwrap());
    }
    rng.shuffle(&mut all);
    let sides = [STREAM, OTHER].map(|stream| target.log.open_side(stream, ClusterTime(5)));
    for entry in &all {
        let stream = match entry {
            Entry::Object(Object { table, .. }, _) | Entry::Tombstone(Tombstone { table, .. }) => {
                stream_of(*table)
            }
            _ => STREAM,
        };
        let side = sides[usize::from(stream == OTHER)];
        target.log.replay(side, entry, entry_hash(entry)).unwrap();
        // Whatever was replayed once is not news any more.
        assert_ne!(target.log.replay(side, entry, entry_hash(entry)), Ok(Replayed::Applied));
    }
    target.log.check_invariants();
    for (side, stream) in sides.into_iter().zip([STREAM, OTHER]) {
        let ids: Vec<SegmentId> = target.log.side_segments(side).collect();
        target.finish_replay(side);
        target.log.close_side(side);
        target.log.enter_side(side);
        let head = target.roll(stream).unwrap();
        let digest = opening::parse(&segment_bytes(&target.log, head)).unwrap().digest.unwrap();
        assert!(ids.iter().all(|id| digest.contains(id)));
    }
}

// F4
#[test]
fn any_order_with_repetitions_restores_the_same_objects() {
    for seed in 0..25 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut original = Harness::new(config(256 * 1024));
        for _ in 0..rng.between(1, 2500) {
            original.step(&mut rng);
        }
        let mut second = Harness::new(config(2 * 1024 * 1024));
        replay_shuffled(&original.log, &mut second, &mut rng);
        second.model = original.model.clone();
        second.versions = original.versions.clone();
        second.check();
        check_dead(&second);

        // Versions go on where they were; and what the second log wrote can be replayed in its turn.
        for _ in 0..300 {
            second.step(&mut rng);
        }
        second.check();
        let mut third = Harness::new(config(4 * 1024 * 1024));
        replay_shuffled(&second.log, &mut third, &mut rng);
        third.model = second.model.clone();
        third.versions = second.versions.clone();
        third.check();
        check_dead(&third);
    }
}

const TABLE: TableId = TABLES[0];

fn object(version: u64, value: &[u8]) -> Entry<'_> {
    // What it names are segments of the log that it comes from.
    let older = (1..=version).map(SegmentId).collect();
    let object = Object { table: TABLE, version: Version(version), time: 1, expires: None, key: b"k", value };
    Entry::Object(object, older)
}

fn tombstone(version: u64) -> Entry<'static> {
    let segments = [1, 900].map(SegmentId).into_iter().collect();
    Entry::Tombstone(Tombstone { table: TABLE, version: Version(version), time: 1, segments, key: b"k" })
}

fn hash() -> KeyHash {
    hash_of(TABLE, b"k")
}

// F4
#[test]
fn a_tombstone_kills_its_own_version_and_lower_ones_only() {
    let entries = [object(4, b"four"), object(5, b"five"), tombstone(5), object(6, b"six")];
    // All 24 orders.
    for order in 0..24_usize {
        let mut rest = entries.to_vec();
        let mut harness = Harness::new(config(64 * 1024));
        let side = harness.log.open_side(STREAM, ClusterTime(0));
        for (left, digit) in [(4, order / 6), (3, order / 2 % 3), (2, order % 2), (1, 0)] {
            assert_eq!(rest.len(), left);
            harness.log.replay(side, &rest.remove(digit), hash()).unwrap();
        }
        harness.finish_replay(side);
        let found = harness.log.lookup(TABLE, hash(), b"k").unwrap().unwrap();
        assert_eq!((found.version, found.value.to_vec()), (Version(6), b"six".to_vec()), "order {order}");
    }
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut harness = Harness::new(config(64 * 1024));
        let side = harness.log.open_side(STREAM, ClusterTime(0));
        for at in order {
            harness.log.replay(side, &entries[at], hash()).unwrap();
        }
        harness.finish_replay(side);
        assert!(harness.log.lookup(TABLE, hash(), b"k").unwrap().is_none(), "order {order:?}");
    }
    let mut harness = Harness::new(config(64 * 1024));
    let side = harness.log.open_side(STREAM, ClusterTime(0));
    assert_eq!(harness.log.replay(side, &tombstone(5), hash()), Ok(Replayed::Applied));
    assert_eq!(harness.log.replay(side, &object(5, b"five"), hash()), Ok(Replayed::Superseded));
    assert_eq!(harness.log.replay(side, &tombstone(4), hash()), Ok(Replayed::Superseded));
    assert_eq!(harness.log.safe_version(), Version(6));
    harness.finish_replay(side);
    assert!(harness.log.lookup(TABLE, hash(), b"k").unwrap().is_none());
    assert_eq!(harness.log.usage().index_entry_count, 0);
}

// F4
#[test]
fn safe_versions_of_replayed_heads_are_taken_over() {
    let mut harness = Harness::new(config(64 * 1024));
    let side = harness.log.open_side(STREAM, ClusterTime(0));
    assert_eq!(harness.log.replay(side, &Entry::SafeVersion(Version(50)), KeyHash(0)), Ok(Replayed::Noted));
    assert_eq!(harness.log.safe_version(), Version(50));
}

/// A write that meets a tombstone of an unfinished replay takes its place in the index.
#[test]
fn a_write_over_a_replayed_tombstone_leaves_one_entry() {
    let mut harness = Harness::new(config(64 * 1024));
    harness.roll(STREAM).unwrap();
    let side = harness.log.open_side(STREAM, ClusterTime(0));
    harness.log.replay(side, &tombstone(5), hash()).unwrap();
    let at = harness.log.lookup(TABLE, hash(), b"k").unwrap().unwrap().at;
    let version = harness.log.safe_version();
    let object = Object { table: TABLE, version, time: 1, expires: None, key: b"k", value: b"new" };
    harness.log.write(STREAM, ramhold_log::Purpose::Ordinary, hash(), &object, Some(at), None).unwrap();
    harness.finish_replay(side);
    assert_eq!(harness.log.usage().index_entry_count, 1);
    assert_eq!(harness.log.lookup(TABLE, hash(), b"k").unwrap().unwrap().version, version);
    harness.log.close_side(side);
    harness.log.enter_side(side);
    harness.log.check_invariants();
}

#[test]
fn streams_of_the_harness_are_the_ones_that_tables_use() {
    let used: Vec<StreamId> = TABLES.into_iter().map(stream_of).collect();
    assert_eq!(used, [STREAM, STREAM, OTHER]);
}

/// A dead log is full of results that their clients have acknowledged long ago; the floors in them say which.
// A3, F4
#[test]
fn results_below_a_floor_that_the_log_tells_are_left_out() {
    let (mut rng, mut newest_first) = (Rng::new(3), true);
    for _ in 0..2 {
        let mut harness = Harness::new(config(256 * 1024));
        let side = harness.log.open_side(STREAM, harness.now);
        let result = |sequence: u64| RpcResult {
            table: TABLES[0],
            hash: KeyHash(sequence),
            lease: LeaseId(1),
            sequence: Sequence(sequence),
            floor: Sequence(sequence.saturating_sub(3)),
            status: Status::Ok,
            version: Version(sequence),
            number: None,
        };
        let mut sequences: Vec<u64> = (1..=3000).rev().collect();
        if !newest_first {
            rng.shuffle(&mut sequences);
        }
        for sequence in sequences {
            harness.log.replay(side, &Entry::RpcResult(result(sequence)), KeyHash(sequence)).unwrap();
        }
        assert_eq!(harness.log.result_count(), 4);
        for sequence in 2990..=3000 {
            let known = harness.log.result(LeaseId(1), Sequence(sequence));
            assert_eq!(known.is_some(), sequence >= 2997, "{sequence}");
        }
        let bytes: u32 =
            harness.log.side_segments(side).map(|id| harness.log.segment(id).unwrap().len_bytes).sum();
        assert!(!newest_first || bytes < 1000, "{bytes} bytes for four results");
        harness.log.check_invariants();
        newest_first = false;
    }
}
