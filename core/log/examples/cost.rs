//! The cost of look-ups and writes of 100-byte values, the memory that a million objects take, and the cost of dividing
//! a segment among recovery masters: `cargo run --release -p ramhold-log --example cost`.

use ramhold_base::hash::{Placement, PlacementSeed};
use ramhold_base::limits::{SEGLET_BYTES, SEGMENT_BYTES};
use ramhold_base::{ClusterId, ClusterTime, KeyHash, LogId, Rng, StreamId, TableId, Version};
use ramhold_log::{
    AppendRefusal, Entry, Geometry, HashRange, Log, LogConfig, Object, OlderList, Purpose, Ranges, Reference,
    divide,
};
use std::hint::black_box;
use std::ops::Range;

const OBJECT_COUNT: u64 = 1_000_000;
const STREAM: StreamId = StreamId(1);
const TABLE: TableId = TableId(1);

fn main() {
    let log_bytes = 1 << 30;
    let config = LogConfig {
        cluster: ClusterId(1),
        log: LogId::default(),
        geometry: Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES },
        log_bytes,
        index_bytes_max: 1 << 28,
        reserve_bytes: 1 << 25,
        cleaning_reserve_bytes: 0,
        profile_bytes_max: log_bytes / 1000 * 6,
        index_secret: 7,
    };
    let mut log = Log::new(config, vec![1; log_bytes as usize]);
    log.open_stream(STREAM);
    log.track(HashRange::whole(TABLE));
    let mut rng = Rng::new(1);
    let hash = |number: u64| KeyHash(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    // Made up on the spot, so that only the log's memory is measured.
    let key = |number: u64| (u128::from(number) << 64 | u128::from(!number)).to_le_bytes();
    let value = [42; 100];

    measure("write a new key", || {
        for number in 0..OBJECT_COUNT {
            write(&mut log, hash(number), &key(number), Version(1), &value, None);
        }
        OBJECT_COUNT
    });
    let usage = log.usage();
    println!(
        "index: {:.2} bytes per object; log: {:.1} bytes per object beyond key and value",
        usage.index_bytes as f64 / OBJECT_COUNT as f64,
        (usage.log_bytes - usage.free_bytes) as f64 / OBJECT_COUNT as f64 - 116.0
    );

    let order: Vec<u64> = (0..OBJECT_COUNT).map(|_| rng.below(OBJECT_COUNT)).collect();
    measure("look up, key at random", || {
        let mut bytes = 0;
        for number in &order {
            let found = log
                .lookup(TABLE, hash(*number), &key(*number))
                .expect("memory is sound")
                .expect("it was written");
            bytes += found.value.len();
        }
        black_box(bytes);
        OBJECT_COUNT
    });
    measure("look up, the key's bytes in the cache", || {
        let mut found = 0;
        let key = key(77);
        for _ in 0..OBJECT_COUNT {
            found +=
                usize::from(log.lookup(TABLE, hash(77), black_box(&key)).expect("memory is sound").is_some());
        }
        black_box(found);
        OBJECT_COUNT
    });
    measure("look up, no such key", || {
        let mut found = 0;
        for number in &order {
            found += usize::from(
                log.lookup(TABLE, hash(number + OBJECT_COUNT), &key(*number))
                    .expect("memory is sound")
                    .is_some(),
            );
        }
        assert_eq!(found, 0);
        OBJECT_COUNT
    });
    measure("look up and overwrite, key at random", || {
        for number in &order {
            let key = &key(*number);
            let found =
                log.lookup(TABLE, hash(*number), key).expect("memory is sound").expect("it was written");
            let (at, version) = (found.at, found.version.next());
            write(&mut log, hash(*number), key, version, &value, Some(at));
        }
        OBJECT_COUNT
    });
    for value in [100, 1000, 10_000] {
        let segment = segment_of(&vec![42; value]);
        for partitions in [1, 6, 60] {
            divide_among(&segment, value, partitions);
        }
        let mut copy = Vec::with_capacity(segment.len());
        measure_bytes(&format!("copy a segment of {value}-byte values"), segment.len(), || {
            copy.clear();
            copy.extend_from_slice(black_box(&segment));
            black_box(&copy);
        });
    }
}

/// The entries of a segment full of values of one size.
fn segment_of(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0.. {
        let key = u64::to_le_bytes(number);
        let object = Object { table: TABLE, version: Version(1), time: 1, expires: None, key: &key, value };
        Entry::Object(object, OlderList::NONE).encode(&mut bytes);
        if bytes.len() + value.len() + 100 > SEGMENT_BYTES as usize {
            break;
        }
    }
    bytes
}

/// As a backup does it: entries are verified, their keys hashed, and runs of them copied.
fn divide_among(segment: &[u8], value: usize, partitions: u64) {
    let each = u64::MAX / partitions;
    let ranges = (0..partitions).map(|at| {
        let first = at * each;
        let last = if at + 1 == partitions { u64::MAX } else { first + each - 1 };
        let range = HashRange { table: TABLE, first: KeyHash(first), last: KeyHash(last) };
        (range, Placement { seed: PlacementSeed(7), slots: false }, at as usize)
    });
    let ranges = Ranges::new(ranges).expect("they are sound");
    let mut parts = vec![Vec::with_capacity(segment.len()); partitions as usize];
    measure_bytes(&format!("divide {value}-byte values among {partitions}"), segment.len(), || {
        parts.iter_mut().for_each(Vec::clear);
        let take = |at: usize, run: Range<usize>| parts[at].extend_from_slice(&segment[run]);
        divide(black_box(segment), &ranges, &mut 0, usize::MAX, take).expect("they are entries");
        black_box(&parts);
    });
}

fn write(
    log: &mut Log,
    hash: KeyHash,
    key: &[u8],
    version: Version,
    value: &[u8],
    replaces: Option<Reference>,
) {
    let object = Object { table: TABLE, version, time: 1, expires: None, key, value };
    match log.write(STREAM, Purpose::Ordinary, hash, &object, replaces, None) {
        Ok(_) => {}
        Err(AppendRefusal::HeadFull) => {
            log.roll(STREAM, ClusterTime(1), &[]).expect("the log is large enough");
            log.write(STREAM, Purpose::Ordinary, hash, &object, replaces, None)
                .expect("the new head is empty");
        }
        Err(refusal) => panic!("{refusal:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what this program is for")]
fn measure(what: &str, run: impl FnOnce() -> u64) {
    let start = std::time::Instant::now();
    let count = run();
    println!("{what}: {:.0} ns", start.elapsed().as_nanos() as f64 / count as f64);
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what this program is for")]
fn measure_bytes(what: &str, bytes: usize, mut run: impl FnMut()) {
    let mut millis: Vec<f64> = (0..21)
        .map(|_| {
            let start = std::time::Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    millis.sort_by(f64::total_cmp);
    println!("{what}: {:.2} ms for {bytes} bytes", millis[millis.len() / 2]);
}
