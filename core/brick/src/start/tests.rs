//! A log that is taken over from a few segments in memory.

use super::*;
use crate::BrickConfig;
use crate::state::{BrickState, StreamState};
use ramhold_base::{ClusterId, ClusterTime, KeyHash, Rng, Stamp, TableId};
use ramhold_log::{Geometry, Log, Purpose, QuorumRecord};
use ramhold_wire::control::Address;
use ramhold_wire::membership::Durability;

pub const STREAM: StreamId = StreamId(1);
pub const TABLE: TableId = TableId(1);
pub const ME: ServerId = ServerId(3);

pub fn store() -> Store {
    store_of(256 * 1024, 1 << 16)
}

/// A store with so much memory for its log and its index.
pub fn store_of(log_bytes: u64, index_bytes: u64) -> Store {
    store_in(Geometry { segment_bytes: 16 * 1024, seglet_bytes: 1024 }, log_bytes, index_bytes)
}

/// The same, with segments of another size.
pub fn store_in(geometry: Geometry, log_bytes: u64, index_bytes: u64) -> Store {
    let address = Address("127.0.0.1:1".parse().expect("an address"));
    let config = BrickConfig::new(address, geometry, log_bytes, index_bytes);
    let stream = StreamState { stream: STREAM, durability: Durability::Buffered };
    let state = BrickState {
        cluster: ClusterId(1),
        brick: ME,
        index_secret: 5,
        life: 1,
        mark: 1,
        tables: Vec::new(),
        tablets: Vec::new(),
        lives: Vec::new(),
        streams: vec![stream],
        taken: 0,
        place: 0,
        was_moved: false,
        left: Vec::new(),
        others: Vec::new(),
    };
    Store::new(&config, vec![0; config.log_bytes as usize], &state, &mut Rng::new(1))
}

fn put(log: &mut Log, time: u64) {
    put_key(log, b"k", time);
}

pub fn put_key(log: &mut Log, key: &[u8], time: u64) {
    let stamp = Stamp { time, session: 2 };
    let replaces = log.newest(TABLE, KeyHash(9), key).expect("intact").map(|newest| newest.at);
    let record = QuorumRecord { table: TABLE, stamp, expires: None, key, value: Some(b"v") };
    log.store(STREAM, Purpose::Ordinary, KeyHash(9), &record, replaces).expect("there is room");
}

pub fn bytes_of(log: &Log, segment: SegmentId) -> Vec<u8> {
    let mut bytes = Vec::new();
    log.copy_segment(segment, 0, log.segment(segment).expect("in memory").len_bytes, &mut bytes);
    bytes
}

pub fn found(segments: &[(SegmentId, Vec<u8>, bool)]) -> Vec<FoundReplica> {
    let found = segments.iter().map(|(segment, bytes, closed)| FoundReplica {
        stream: STREAM,
        segment: *segment,
        epoch: Epoch(0),
        length: bytes.len() as u32,
        side: false,
        closed: *closed,
        cut: false,
        corrupt: false,
    });
    found.collect()
}

fn run(segments: &[(SegmentId, Vec<u8>, bool)]) -> (Store, Start) {
    let (mut store, mut effects) = (store(), Effects::new());
    let mut start = Start::new(found(segments), [STREAM].into_iter(), |_| false);
    while let Some(wanted) = start.next(Instant::ZERO) {
        let bytes =
            segments.iter().find(|(segment, ..)| *segment == wanted.segment).map(|it| it.1.as_slice());
        start.on_read(bytes, &mut store, ME, &|_, _| Some(KeyHash(9)), &mut effects);
    }
    assert!(start.is_over());
    (store, start)
}

// I6
#[test]
fn the_next_head_does_not_count_while_the_one_before_takes_data() {
    let mut before = store();
    let log = &mut before.shard.log;
    let time = ClusterTime(1);
    let first = log.roll(STREAM, time, &[]).expect("there is room");
    put(log, 1);
    let second = log.roll(STREAM, time, &[]).expect("there is room");
    let opening = bytes_of(log, second);
    put(log, 2);
    // The first one's value is dead, so it leaves with the next head. That head is on the device, the value that
    // made it dead is not.
    let third = log.hold_head();
    log.roll_held(STREAM, third, time, &[], &[first], false).expect("there is room");
    let (first_bytes, second_bytes, third_bytes) =
        (bytes_of(log, first), bytes_of(log, second), bytes_of(log, third));
    let newest = |store: &Store| {
        let newest = store.shard.log.newest(TABLE, KeyHash(9), b"k").expect("intact");
        newest.map(|newest| newest.stamp.time)
    };
    let first_found = (first, first_bytes, true);
    let third_found = (third, third_bytes, false);
    let (after, start) = run(&[first_found.clone(), (second, opening, false), third_found.clone()]);
    assert_eq!((newest(&after), start.not_whole().len()), (Some(1), 0));
    assert_eq!(start.left_over().map(|found| found.segment).collect::<Vec<_>>(), [third]);
    // When the second one is closed, the third one counts.
    let (after, start) = run(&[first_found, (second, second_bytes, true), third_found]);
    assert_eq!((newest(&after), start.not_whole().len()), (Some(2), 0));
    assert_eq!(start.left_over().map(|found| found.segment).collect::<Vec<_>>(), [first]);
}

// I6
#[test]
fn a_stream_of_which_something_is_missing_is_not_whole() {
    let mut before = store();
    let log = &mut before.shard.log;
    let first = log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
    put(log, 1);
    let second = log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
    put(log, 2);
    let all = [(first, bytes_of(log, first), true), (second, bytes_of(log, second), false)];
    assert!(run(&all).1.not_whole().is_empty());
    assert_eq!(run(&all[1..]).1.not_whole().len(), 1, "a named segment is gone");
    assert_eq!(run(&[]).1.not_whole().len(), 1, "there was a stream");
    let mut flipped = all.clone();
    *flipped[0].1.last_mut().expect("it holds something") ^= 1;
    let (after, start) = run(&flipped);
    assert_eq!(start.not_whole().len(), 1);
    assert!(after.shard.log.segment(second).is_some(), "what is left is taken over");
}

// I6: rule 83. The bound is told in a head that holds nothing else, while the head of the life before is open on the device.
#[test]
fn a_head_that_tells_the_bound_counts_and_so_does_the_bound() {
    let mut before = store();
    let log = &mut before.shard.log;
    let first = log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
    put(log, 1);
    let second = log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
    log.raise_bound(77);
    log.tell_bound(STREAM).expect("there is room");
    let told = bytes_of(log, second);
    let first = (first, bytes_of(log, first), false);
    let (after, start) = run(&[first.clone(), (second, told, false)]);
    assert_eq!((after.shard.log.bound(), start.not_whole().len(), start.left_over().count()), (77, 0, 0));
    // Behind records, and told again.
    put(log, 2);
    log.raise_bound(88);
    log.tell_bound(STREAM).expect("there is room");
    let (after, start) = run(&[first, (second, bytes_of(log, second), false)]);
    assert_eq!((after.shard.log.bound(), start.not_whole().len(), start.left_over().count()), (88, 0, 0));
    let newest = after.shard.log.newest(TABLE, KeyHash(9), b"k").expect("intact");
    assert_eq!(newest.map(|newest| newest.stamp.time), Some(2));
}
