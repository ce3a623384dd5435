//! What look-ups and writes of 100-byte values cost, and what a million objects take: `cargo run --release -p
//! ramhold-log --example cost`.

use ramhold_base::limits::{SEGLET_BYTES, SEGMENT_BYTES};
use ramhold_base::{ClusterId, ClusterTime, KeyHash, LogId, Rng, StreamId, TableId, Version};
use ramhold_log::{AppendRefusal, Geometry, HashRange, Log, LogConfig, Object, Purpose, Reference};
use std::hint::black_box;

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
