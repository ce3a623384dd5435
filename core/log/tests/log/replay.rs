//! Entries of one log are replayed into another one in any order.

use crate::dead::check_dead;
use crate::harness::*;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{
    ClusterTime, KeyHash, LeaseId, Rng, SegmentId, Sequence, Status, StreamId, TableId, Version,
};
use ramhold_log::{
    AppendRefusal, Entry, HashRange, IntakeStop, Log, Object, Ranges, Replayed, RpcResult, SideId, Tombstone,
    opening,
};

fn replay_all(all: &[Entry<'_>], sides: [SideId; 2], target: &mut Harness) {
    for entry in all {
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
}

/// The same by pieces of many entries, a few of them at a time.
fn take_in_all(all: &[Entry<'_>], sides: [SideId; 2], target: &mut Harness, rng: &mut Rng) {
    let intake = intake(sides);
    let mut rest = all;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rest.len().min(rng.between(1, 300) as usize));
        rest = later;
        let mut bytes = Vec::new();
        piece.iter().for_each(|entry| entry.encode(&mut bytes));
        let (mut offset, mut records) = (0, 0);
        while offset < bytes.len() {
            target.log.expect_keys(rng.below(4) * rng.below(3000));
            let count_max = rng.between(1, 100) as usize;
            records += target.log.take_in(&intake, &bytes, &mut offset, count_max).unwrap();
        }
        assert_eq!(offset, bytes.len());
        let is_record = |entry: &&Entry<'_>| {
            matches!(entry, Entry::Object(..) | Entry::Tombstone(_) | Entry::RpcResult(_))
        };
        assert_eq!(records, piece.iter().filter(is_record).count() as u64);
    }
    target.log.expect_keys(0);
    while target.log.shrink_index(rng.between(1, 100)) {}
}

/// Two ranges of each table.
fn intake(sides: [SideId; 2]) -> Ranges<SideId> {
    let half = KeyHash(u64::MAX / 3);
    let ranges = TABLES.into_iter().flat_map(|table| {
        let side = sides[usize::from(stream_of(table) == OTHER)];
        let placement = placement_of(table);
        let low = HashRange { table, first: KeyHash(0), last: half };
        let high = HashRange { table, first: KeyHash(half.0 + 1), last: KeyHash(u64::MAX) };
        [(high, placement, side), (low, placement, side)]
    });
    Ranges::new(ranges).unwrap()
}

/// Replays the entries of two streams into two side logs, in random order and with repetitions.
pub fn replay_shuffled(source: &Log, target: &mut Harness, rng: &mut Rng) {
    let segments = segments(source);
    let mut all = entries(&segments);
    for _ in 0..all.len() / 3 {
        all.push(*rng.pick(&all).unwrap());
    }
    rng.shuffle(&mut all);
    let sides = [STREAM, OTHER].map(|stream| target.log.open_side(stream, ClusterTime(5)));
    if rng.chance(1, 2) {
        take_in_all(&all, sides, target, rng);
    } else {
        replay_all(&all, sides, target);
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
    // It names segments of the log that it comes from.
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

fn some_objects(count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let (key, version) = (number.to_le_bytes(), Version(u64::from(number) + 1));
        let object = Object { table: TABLE, version, time: 1, expires: None, key: &key, value: &[7; 40] };
        Entry::Object(object, [].into_iter().collect()).encode(&mut bytes);
    }
    bytes
}

// F9: what is behind an entry that does not hold is not believed, what is before it is the same as without it.
#[test]
fn a_damaged_entry_ends_what_is_taken_in() {
    let bytes = some_objects(70);
    let entry_bytes = bytes.len() / 70;
    let mut rng = Rng::new(3);
    for damaged in 0..70 {
        let mut bytes = bytes.clone();
        let bit = rng.below(entry_bytes as u64 * 8) as usize;
        bytes[damaged * entry_bytes + bit / 8] ^= 1 << (bit % 8);
        let mut harness = Harness::new(config(64 * 1024));
        let side = harness.log.open_side(STREAM, ClusterTime(0));
        let intake = intake([side, side]);
        let mut offset = 0;
        let stopped = harness.log.take_in(&intake, &bytes, &mut offset, usize::MAX);
        assert_eq!(stopped, Err(IntakeStop::Corrupt), "entry {damaged} bit {bit}");
        assert_eq!(harness.log.usage().index_entry_count, damaged as u64);
        assert!(harness.log.safe_version() <= Version(damaged as u64 + 1));
        harness.log.check_invariants();
    }
}

// An entry of a table that is not taken in was divided wrongly, or is somebody else's.
#[test]
fn an_entry_of_no_range_is_not_taken_in() {
    let mut harness = Harness::new(config(64 * 1024));
    let side = harness.log.open_side(STREAM, ClusterTime(0));
    let range = HashRange { table: TABLE, first: KeyHash(0), last: KeyHash(0) };
    let intake = Ranges::new([(range, PlacementSeed(1).into(), side)]).unwrap();
    assert_eq!(harness.log.take_in(&intake, &some_objects(1), &mut 0, 10), Err(IntakeStop::Corrupt));
}

// F6: what had no room is where it goes on.
#[test]
fn what_is_refused_is_taken_in_when_there_is_room() {
    let mut harness = Harness::new(config(64 * 1024));
    let side = harness.log.open_side(STREAM, ClusterTime(0));
    let intake = intake([side, side]);
    let bytes = some_objects(2000);
    let mut offset = 0;
    let stopped = harness.log.take_in(&intake, &bytes, &mut offset, usize::MAX);
    assert_eq!(stopped, Err(IntakeStop::Refused(AppendRefusal::OutOfMemory)));
    let taken = harness.log.usage().index_entry_count;
    assert!(taken > 100, "{taken}");
    assert_eq!(offset as u64, taken * (bytes.len() as u64 / 2000));
    let before = offset;
    let stopped = harness.log.take_in(&intake, &bytes, &mut offset, usize::MAX);
    assert_eq!((stopped, offset), (Err(IntakeStop::Refused(AppendRefusal::OutOfMemory)), before));
    harness.log.check_invariants();
    // With room it goes on with the same entry.
    let mut roomy = Harness::new(config(1 << 20));
    let side = roomy.log.open_side(STREAM, ClusterTime(0));
    let intake = self::intake([side, side]);
    assert_eq!(roomy.log.take_in(&intake, &bytes, &mut offset, usize::MAX), Ok(2000 - taken));
}
