//! `bench replay`: the speed at which one core of a recovery master takes in a dead server's log, in one
//! process and without sockets or replicas.

use super::log::clock::cpu_nanos;
use super::machine;
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::memory::check_available;
use crate::output::{self, Columns};
use crate::progress::Progress;
use crate::size::{bytes_text, parse_bytes};
use clap::Args;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::limits::{KEY_BYTES_MAX, SEGLET_BYTES, SEGMENT_BYTES, VALUE_BYTES_MAX};
use ramhold_base::processor;
use ramhold_base::{
    ClusterId, ClusterTime, KeyHash, LogId, Rng, SegmentId, ServerId, ShardId, StreamId, TableId, Version,
};
use ramhold_log::{
    Entry, EntryReader, Geometry, HashRange, INTAKE_SLICE_BYTES, Log, LogConfig, OBJECT_OVERHEAD_BYTES,
    Object, OlderList, Ranges, SegmentHeader, divide,
};
use ramhold_runtime::memory_available;
use serde_json::{Value, json};
use std::hint::black_box;
use std::ops::Range;

const TABLE: TableId = TableId(1);
const STREAM: StreamId = StreamId(1);
const SEED: PlacementSeed = PlacementSeed(0x5EED);
/// Keys are numbers.
const KEY_BYTES_MIN: usize = 8;
/// Partitions that segments are divided into, for its part of the cost.
const PARTITIONS: u32 = 8;
/// Segments that the log needs beside the entries: its reserve, and segments that are not quite full.
const SPARE_SEGMENTS: u64 = 16;
/// Memory that the program needs besides.
const PROGRAM_BYTES: u64 = 32 << 20;
/// Memory that the index may take per entry.
const INDEX_BYTES_PER_RECORD: u64 = 16;

const HELP: &str = "\
Examples:
  ramhold bench replay
  ramhold bench replay --object-bytes 100,1024 --runs 5 --json
  ramhold bench replay --object-bytes 100 --key-bytes 30

Objects with different keys are written into segments of 8 MiB, which are
replayed in random order. Replay verifies checksums, looks each key up in the
index, copies the object into a segment of this process, and enters it into the
index. Nothing is replicated or sent, and all memory was touched before. Rates
are per second of CPU time of one thread. Results are medians of the runs.
  records/s    with an index that starts at its smallest size and grows, ahead
               of the records that are expected after the segments so far, as on
               a server
  index ready  with an index that has room for all records from the start
  MB/s         of the log, not of the values
  checksum     nanoseconds per record to only verify the segments
  copy         nanoseconds per record to only copy the same bytes
  rest         nanoseconds per record for everything else in replay
  of copy      replay compared with the plain copy
  divide       work of a backup, not part of replay: sorts the records into 8
               partitions and copies them together";

/// Measure how fast one core takes in a dead server's log.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Replay {
    /// Bytes of a value; each size is measured on its own.
    #[arg(long, value_delimiter = ',', default_value = "1,64,100,128,256,1024,2048,4096")]
    object_bytes: Vec<u32>,
    /// Bytes of a key, at least 8.
    #[arg(long, default_value_t = 8)]
    key_bytes: usize,
    /// Largest log to take in; --records may end the run earlier.
    #[arg(long, value_name = "SIZE", default_value = "400MiB", value_parser = parse_bytes)]
    data: u64,
    /// Largest number of objects to take in; --data may end the run earlier.
    #[arg(long, default_value_t = 3_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    records: u64,
    /// Runs of each size; the median is printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seed of the order of segments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Seconds of CPU time.
#[derive(Clone, Copy, Default)]
struct Times {
    checksum: f64,
    divide: f64,
    copy: f64,
    replay: f64,
    replay_ready: f64,
}

struct Outcome {
    object_bytes: u32,
    records: u64,
    log_bytes: u64,
    times: Times,
}

impl Replay {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&self.key_bytes) {
            return Err(Failure::usage(format!(
                "--key-bytes must be between {KEY_BYTES_MIN} and {KEY_BYTES_MAX}"
            )));
        }
        if self.object_bytes.iter().any(|bytes| *bytes as usize > VALUE_BYTES_MAX) {
            return Err(Failure::usage(format!("--object-bytes must be at most {VALUE_BYTES_MAX}")));
        }
        let mut progress = Progress::new("replaying", global.json);
        let before = machine::Times::now();
        let mut outcomes = Vec::new();
        for object_bytes in &self.object_bytes {
            outcomes.push(self.measure(*object_bytes, &mut progress)?);
        }
        progress.finish();
        let steal = machine::steal_percent(before, machine::Times::now());
        if global.json {
            output::print_json(&json!({
                "key_bytes": self.key_bytes,
                "runs": self.runs,
                "steal_percent": steal,
                "processor": processor::path().to_string(),
                "sizes": outcomes.iter().map(Outcome::json).collect::<Vec<Value>>(),
            }))
        } else {
            output::print(&text(&outcomes, steal))
        }
    }

    fn measure(&self, object_bytes: u32, progress: &mut Progress) -> Result<Outcome, Failure> {
        let entry_bytes = (OBJECT_OVERHEAD_BYTES + self.key_bytes) as u64 + u64::from(object_bytes);
        // The log ends at the bound that is reached first: the number of records or the amount of data.
        let records = self.records.min(self.data.div_ceil(entry_bytes)).max(1);
        let log_bytes = log_bytes(records * entry_bytes);
        let index_bytes = records * INDEX_BYTES_PER_RECORD;
        let needed = 2 * log_bytes + index_bytes + PROGRAM_BYTES;
        check_available(needed, 0, memory_available()).map_err(Failure::usage)?;
        let segments = self.segments(object_bytes, records);
        let total: u64 = segments.iter().map(|segment| segment.len() as u64).sum();
        let mut runs = Vec::new();
        let mut region = touched(log_bytes);
        for run in 1..=self.runs {
            interrupt::check()?;
            progress.show_text(|| format!("objects of {object_bytes} B, run {run} of {}", self.runs));
            let checksum = timed(|| assert_eq!(walk(&segments), records));
            let divide = timed(|| divided(&segments, &mut region));
            let copy = timed(|| copy(&segments, &mut region));
            let (replay, back) = replay(&segments, region, records, index_bytes, false);
            let (replay_ready, back) = self::replay(&segments, back, records, index_bytes, true);
            region = back;
            runs.push(Times { checksum, divide, copy, replay, replay_ready });
        }
        let median = |of: fn(&Times) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let times = Times {
            checksum: median(|times| times.checksum),
            divide: median(|times| times.divide),
            copy: median(|times| times.copy),
            replay: median(|times| times.replay),
            replay_ready: median(|times| times.replay_ready),
        };
        Ok(Outcome { object_bytes, records, log_bytes: total, times })
    }

    /// The log that a server would have written, in random order of segments.
    fn segments(&self, object_bytes: u32, records: u64) -> Vec<Vec<u8>> {
        let mut rng = Rng::new(self.seed);
        let mut segments: Vec<Vec<u8>> = Vec::new();
        let mut key = vec![b'k'; self.key_bytes];
        // The values are incompressible, and each object has another part of this noise.
        let noise: Vec<u8> = (0..object_bytes as usize + 4096).map(|_| rng.u64() as u8).collect();
        let no_older: OlderList = [].into_iter().collect();
        for number in 0..records {
            // The factor is odd, so all keys are different.
            let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            key[..8].copy_from_slice(&mixed.to_le_bytes());
            let from = (mixed >> 52) as usize;
            let object = Object {
                table: TABLE,
                version: Version(number + 1),
                time: 1,
                expires: None,
                key: &key,
                value: &noise[from..from + object_bytes as usize],
            };
            let entry = Entry::Object(object, no_older);
            let fits = |segment: &Vec<u8>| segment.len() + entry.entry_bytes() <= SEGMENT_BYTES as usize;
            if !segments.last().is_some_and(fits) {
                let mut segment = Vec::with_capacity(SEGMENT_BYTES as usize);
                let header = SegmentHeader {
                    cluster: ClusterId(1),
                    log: LogId { server: ServerId(1), shard: ShardId(0) },
                    stream: STREAM,
                    segment: SegmentId(segments.len() as u64 + 1),
                    created: ClusterTime(1),
                };
                Entry::SegmentHeader(header).encode(&mut segment);
                segments.push(segment);
            }
            entry.encode(segments.last_mut().expect("pushed just now"));
        }
        rng.shuffle(&mut segments);
        segments
    }
}

/// Whole segments with room for so many bytes of entries, and what a log needs besides.
fn log_bytes(entries: u64) -> u64 {
    let segment = u64::from(SEGMENT_BYTES);
    (entries.div_ceil(segment) + entries.div_ceil(segment * 8) + SPARE_SEGMENTS) * segment
}

/// Memory that the kernel has given already.
fn touched(bytes: u64) -> Vec<u8> {
    let mut region = vec![0; bytes as usize];
    region.iter_mut().step_by(4096).for_each(|byte| *black_box(byte) = 0);
    region
}

/// Seconds of CPU time.
fn timed(work: impl FnOnce()) -> f64 {
    let began = cpu_nanos();
    work();
    (cpu_nanos() - began) as f64 / 1e9
}

/// Verifies all checksums; how many objects there are.
fn walk(segments: &[Vec<u8>]) -> u64 {
    let entries = segments.iter().flat_map(|segment| EntryReader::new(segment));
    let objects = entries.filter(|entry| {
        let (_, entry) = entry.as_ref().expect("what was just encoded is intact");
        matches!(black_box(entry), Entry::Object(..))
    });
    objects.count() as u64
}

/// Finds out whose every record is, and copies those of each partition behind each other, as a backup does for its
/// answers.
fn divided(segments: &[Vec<u8>], region: &mut [u8]) {
    let width = u64::MAX / u64::from(PARTITIONS);
    let ranges = (0..PARTITIONS).map(|partition| {
        let first = u64::from(partition) * width;
        let last = if partition + 1 == PARTITIONS { u64::MAX } else { first + width - 1 };
        (HashRange { table: TABLE, first: KeyHash(first), last: KeyHash(last) }, SEED.into(), partition)
    });
    let ranges = Ranges::new(ranges).expect("equal parts do not overlap");
    let mut rest = region;
    for segment in segments {
        let mut runs: Vec<Vec<Range<usize>>> = vec![Vec::new(); PARTITIONS as usize];
        let take = |partition: u32, run| runs[partition as usize].push(run);
        divide(segment, &ranges, &mut 0, usize::MAX, take).expect("what was just encoded is whole");
        for run in runs.into_iter().flatten() {
            let (now, later) = rest.split_at_mut(run.len());
            now.copy_from_slice(&segment[run]);
            rest = later;
        }
    }
    black_box(rest);
}

fn copy(segments: &[Vec<u8>], region: &mut [u8]) {
    let mut rest = region;
    for segment in segments {
        let (now, later) = rest.split_at_mut(segment.len());
        now.copy_from_slice(segment);
        rest = later;
    }
    black_box(rest);
}

/// Takes all segments in. `is_ready`: the index has room for all beforehand. The region comes back.
fn replay(
    segments: &[Vec<u8>],
    region: Vec<u8>,
    records: u64,
    index_bytes: u64,
    is_ready: bool,
) -> (f64, Vec<u8>) {
    let segment = u64::from(SEGMENT_BYTES);
    let config = LogConfig {
        cluster: ClusterId(1),
        log: LogId { server: ServerId(2), shard: ShardId(0) },
        geometry: Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES },
        log_bytes: region.len() as u64,
        index_bytes_max: index_bytes.max(1 << 20),
        reserve_bytes: 4 * segment,
        cleaning_reserve_bytes: 2 * segment,
        profile_bytes_max: region.len() as u64 / 1000 * 6,
        index_secret: 7,
    };
    let mut log = Log::new(config, region);
    log.open_stream(STREAM);
    log.roll(STREAM, ClusterTime(1), &[]).expect("the log has room for its first head");
    log.track(HashRange::whole(TABLE));
    if is_ready {
        log.make_index_ready(records);
    }
    let side = log.open_side(STREAM, ClusterTime(1));
    let intake =
        Ranges::new([(HashRange::whole(TABLE), SEED.into(), side)]).expect("one range contradicts nothing");
    let seconds = timed(|| {
        for (done, segment) in segments.iter().enumerate() {
            if !is_ready && done > 0 {
                // A recovery master also tells the log how many keys to expect.
                let left = segments.len() - done;
                log.expect_keys(log.key_count() * left as u64 / done as u64);
            }
            let mut offset = 0;
            while offset < segment.len() {
                log.take_in(&intake, segment, &mut offset, INTAKE_SLICE_BYTES)
                    .expect("there is room, and the log is intact");
            }
        }
    });
    assert_eq!(log.usage().index_entry_count, records);
    (seconds, log.into_region())
}

impl Outcome {
    fn per_second(&self, seconds: f64) -> f64 {
        self.records as f64 / seconds
    }

    fn nanos(&self, seconds: f64) -> f64 {
        seconds * 1e9 / self.records as f64
    }

    fn rest(&self) -> f64 {
        self.times.replay - self.times.checksum - self.times.copy
    }

    fn json(&self) -> Value {
        let times = &self.times;
        json!({
            "object_bytes": self.object_bytes,
            "records": self.records,
            "log_bytes": self.log_bytes,
            "records_per_second": self.per_second(times.replay),
            "bytes_per_second": self.log_bytes as f64 / times.replay,
            "records_per_second_index_ready": self.per_second(times.replay_ready),
            "bytes_per_second_index_ready": self.log_bytes as f64 / times.replay_ready,
            "checksum_nanos": self.nanos(times.checksum),
            "divide_nanos": self.nanos(times.divide),
            "copy_nanos": self.nanos(times.copy),
            "rest_nanos": self.nanos(self.rest()),
            "copy_bytes_per_second": self.log_bytes as f64 / times.copy,
        })
    }
}

fn text(outcomes: &[Outcome], steal: Option<f64>) -> String {
    let mut columns = Columns::new([
        "object",
        "records",
        "log",
        "records/s",
        "MB/s",
        "index ready: records/s",
        "MB/s",
        "ns/record",
        "checksum",
        "copy",
        "rest",
        "of copy",
        "divide",
    ]);
    for outcome in outcomes {
        let times = &outcome.times;
        let megabytes = |seconds: f64| format!("{:.0}", outcome.log_bytes as f64 / seconds / 1e6);
        let millions = |seconds: f64| format!("{:.2} M", outcome.per_second(seconds) / 1e6);
        let nanos = |seconds: f64| format!("{:.1}", outcome.nanos(seconds));
        columns.row([
            format!("{} B", outcome.object_bytes),
            outcome.records.to_string(),
            bytes_text(outcome.log_bytes),
            millions(times.replay),
            megabytes(times.replay),
            millions(times.replay_ready),
            megabytes(times.replay_ready),
            nanos(times.replay),
            nanos(times.checksum),
            nanos(times.copy),
            nanos(outcome.rest()),
            format!("{:.2}", times.copy / times.replay),
            nanos(times.divide),
        ]);
    }
    let mut text = columns.text();
    text.push_str(&format!("processor path {}\n", processor::path()));
    if let Some(steal) = steal {
        text.push_str(&format!("steal {steal:.1} %\n"));
    }
    text
}
