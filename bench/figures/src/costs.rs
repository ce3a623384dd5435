//! Measured processor costs, each with its source. Assumed costs say that they are assumed.
//!
//! All costs were measured on one machine: a core of an AMD EPYC, 2 virtual processors, Linux 6.18, release
//! build, November 2026. Other machines are that machine times a factor (`profile`).

use ramhold_base::checksum::crc;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{
    Epoch, KeyHash, LogId, RecoveryId, SegmentId, ServerId, ShardId, StreamId, TableId, Version,
};
use ramhold_wire::control::{decode, encode_into};
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{
    PartitionRange, Recover, RecoveryRead, RecoverySegment, RecoveryStream, SegmentSource,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The costs of one record of a log, in nanoseconds; keys of 8 bytes.
///
/// Source: `taskset -c 1 ramhold bench replay`, CPU time, index growing from its smallest, nothing else running.
#[derive(Clone, Copy, Debug)]
pub struct RecordCost {
    pub value_bytes: u32,
    /// Bytes of log per record.
    pub record_bytes: f64,
    /// A backup sorts it into partitions, with its checksum, and copies it out.
    pub divide: f64,
    /// A recovery master takes it in: checksum, index, copy into its own log.
    pub replay: f64,
}

pub const RECORDS: [RecordCost; 6] = [
    RecordCost { value_bytes: 1, record_bytes: 31.0, divide: 40.9, replay: 95.9 },
    RecordCost { value_bytes: 64, record_bytes: 94.0, divide: 59.1, replay: 107.7 },
    RecordCost { value_bytes: 128, record_bytes: 158.0, divide: 76.0, replay: 112.2 },
    RecordCost { value_bytes: 256, record_bytes: 286.0, divide: 113.3, replay: 141.5 },
    RecordCost { value_bytes: 1024, record_bytes: 1054.0, divide: 352.7, replay: 297.3 },
    RecordCost { value_bytes: 2048, record_bytes: 2078.0, divide: 674.0, replay: 591.3 },
];

/// Per byte of log. Source: the same run, 2,048 B: 296.9 ns of checksum and 305.4 ns of copy per record of 2,078 B.
pub const CHECKSUM: f64 = 0.143;
pub const COPY: f64 = 0.147;

/// The kernel's cost per byte sent, and per byte received, over TCP: half of 0.30 ns for both.
///
/// Source: the CPU floor of `ramhold bench recovery --data 2GiB` (docs/measurements/recovery.md, 2.1 GiB): 1.67 s on
/// two cores for 2.1 GiB fetched and three times that replicated, less checksum and copy of what was fetched.
pub const SOCKET: f64 = 0.15;

/// The cost of receiving or of sending a small message, whatever is in it.
///
/// Source: half of 3.2 microseconds that an empty server takes for a request and its answer (docs/performance.md, Redis
/// clients: `cargo xtask bench limits`).
pub const MESSAGE: f64 = 1600.0;

/// Per byte of a message that is encoded field by field (all but appends and their answers, and the bytes of logs): the cost of writing it
/// and of reading it, with the frame's checksum.
///
/// Source: `cargo xtask bench figures --costs`, one core: a `Recover` with 7,600 segments 3.33 and 4.49 ns,
/// 1,000 ranges 1.91 and 1.07 ns, a request for records 2.66 and 2.28 ns. The dearest counts: coordinators
/// mostly send such lists of segments, and are mostly told such lists about replicas. These measurements were
/// made before lists were packed. Packed lists have a third of the bytes or less, and each of their bytes
/// takes longer.
pub const ENCODE: f64 = 3.3;
pub const DECODE: f64 = 4.5;

/// The cost of a step without any such work: a timer, a completion.
pub const STEP: f64 = 500.0;

/// A master's own cost of reading one object and of writing one, from the frame in to the frame out: with the
/// frames' checksums and their fields, the index and the log; without sockets and replicas. Keys of 30 bytes,
/// values of 100 bytes, a million objects, random keys.
///
/// Source: `cargo xtask bench shard`, 2026-11-23 (docs/performance.md, One operation in a shard).
pub const READ: f64 = 547.0;
pub const WRITE: f64 = 867.0;

/// The costs of records with values of `value_bytes` bytes, which must be one of the measured sizes.
pub fn record_cost(value_bytes: u32) -> RecordCost {
    let found = RECORDS.iter().find(|cost| cost.value_bytes == value_bytes);
    *found.expect("only sizes that were measured are asked for")
}

/// The cost of encoding and decoding on this machine: nanoseconds per byte of a request for records, of one
/// with the ranges of a thousand partitions, and of a `Recover` of as many partitions and 7,600 segments.
/// `ENCODE` and `DECODE` come from these.
pub fn measure() -> String {
    let ranges: Vec<PartitionRange> = (0..1000).map(range).collect();
    let read = |ranges: &[PartitionRange]| RecoveryRead {
        recovery: RecoveryId(9),
        log: LogId { server: ServerId(7), shard: ShardId(0) },
        stream: StreamId(1),
        segment: SegmentId(7000),
        epoch: Epoch(0),
        end: u32::MAX,
        partition: 700,
        ranges: ranges.to_vec(),
        digest: u64::MAX / 3,
        crashed: ServerId(7),
    };
    let segment = |id: u64| RecoverySegment {
        segment: SegmentId(id),
        end: None,
        sources: (0..3)
            .map(|n| SegmentSource { backup: ServerId(id * 7 % 900 + n), epoch: Epoch(0) })
            .collect(),
    };
    let streams = vec![RecoveryStream {
        shard: ShardId(0),
        stream: StreamId(1),
        segments: (1..7600).map(segment).collect(),
    }];
    let recover = Recover {
        recovery: RecoveryId(9),
        crashed: ServerId(7),
        partition: 700,
        attempt: 1,
        ranges: ranges.clone(),
        streams,
        safe_version: Version(1 << 40),
        version_floor: Version(0),
        earlier: Vec::new(),
        early: false,
        tail_short: false,
    };
    [
        told("RecoveryRead", &read(&[])),
        told("RecoveryRead with 1000 ranges", &read(&ranges)),
        told("Recover of 1000 ranges and 7600 segments", &recover),
    ]
    .concat()
}

fn range(partition: u32) -> PartitionRange {
    let width = u64::MAX / 1000;
    PartitionRange {
        partition,
        table: TableId(5),
        seed: PlacementSeed(u64::MAX / 7),
        first: KeyHash(u64::from(partition) * width),
        last: KeyHash((u64::from(partition) + 1) * width - 1),
        shard: ShardId(0),
        stream: StreamId(1),
        first_segment: SegmentId(1),
        durability: Durability::Buffered,
        replicas: 3,
        slots: false,
    }
}

fn told<T: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>>(name: &str, message: &T) -> String {
    const AT_LEAST: Duration = Duration::from_millis(300);
    let mut bytes = Vec::new();
    encode_into(&mut bytes, message);
    let per_byte = |work: &mut dyn FnMut()| {
        let (begun, mut count) = (Instant::now(), 0);
        while begun.elapsed() < AT_LEAST {
            (0..16).for_each(|_| work());
            count += 16;
        }
        begun.elapsed().as_nanos() as f64 / f64::from(count) / bytes.len() as f64
    };
    let mut out = Vec::with_capacity(bytes.len());
    let encoding = per_byte(&mut || {
        out.clear();
        encode_into(&mut out, black_box(message));
        black_box(crc(&out));
    });
    let decoding = per_byte(&mut || {
        black_box(crc(black_box(&bytes)));
        black_box(decode::<T>(black_box(&bytes)).expect("encoded just now"));
    });
    format!(
        "{name}: {} bytes, {encoding:.2} ns/B to encode, {decoding:.2} ns/B to decode, checksums included\n",
        bytes.len()
    )
}
