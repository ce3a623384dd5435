//! The cost of overwrites in a log with a given utilisation, compared with the same overwrites in a log that
//! is never cleaned.
//!
//! A case fills the log with live objects up to its utilisation. Then it overwrites until cleaning has
//! reached its steady pace: all free memory is written, and then the live bytes once. Counting begins only
//! then. The *baseline* holds the same objects in a log with room for everything that it writes, so the
//! difference of their CPU times is the cost of cleaning.
//!
//! Not here: the shard (shard), the keys (keys), the theory (model), the table (report).

use super::keys::{Chooser, Keys};
use super::model;
use super::shard::{self, Ended, Service, Shard, ShardConfig};
use crate::failure::Failure;
use crate::interrupt;
use crate::progress::Progress;
use ramhold_base::Rng;
use ramhold_log::OBJECT_OVERHEAD_BYTES;
use ramhold_master::CleaningCounters;
use ramhold_workload::{KEY_BYTES, KeyId};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How many times the live bytes are overwritten before anything is counted, beyond the bytes that were free.
const WARM_TIMES: f64 = 1.0;
/// How many times the baseline overwrites and counts the live bytes: it has no steady state to reach.
const BASELINE_TIMES: f64 = 0.5;
/// Requests between two looks at signals, at the time limit and at the free memory.
const REQUESTS_PER_LOOK: u64 = 1024;

/// One run of the sweep.
#[derive(Clone, Debug)]
pub struct Case {
    pub log_bytes: u64,
    pub segment_bytes: Option<u32>,
    /// Share of the log that live entries take, in percent.
    pub utilisation: u32,
    pub value_bytes: u32,
    pub keys: Keys,
    pub two_level: bool,
    pub replicas: u8,
    /// How many times the live bytes are overwritten while it is counted.
    pub write_times: f64,
    /// Warming up ends after this, and so does what is counted.
    pub time_max: Duration,
    pub dir: PathBuf,
    pub seed: u64,
}

impl Case {
    /// Bytes of a new entry.
    pub fn entry_bytes(&self) -> u64 {
        OBJECT_OVERHEAD_BYTES as u64 + u64::from(KEY_BYTES + self.value_bytes)
    }

    pub fn object_count(&self) -> u64 {
        self.log_bytes / 100 * u64::from(self.utilisation) / self.entry_bytes()
    }

    fn live_bytes(&self) -> u64 {
        self.object_count() * self.entry_bytes()
    }

    fn writes(&self, times: f64) -> u64 {
        (self.object_count() as f64 * times) as u64
    }

    /// A log with room for all that the baseline writes, with the older segments that its objects name, and reserve.
    pub fn baseline_log_bytes(&self) -> u64 {
        let written = self.object_count() + self.writes(BASELINE_TIMES);
        let segment = u64::from(shard::geometry(self.log_bytes, self.segment_bytes).segment_bytes);
        let bytes = written * (self.entry_bytes() + 12) * 11 / 10 + 8 * segment;
        bytes.next_multiple_of(segment)
    }

    /// Whether the other differs in nothing that the baseline depends on.
    fn has_baseline_of(&self, other: &Case) -> bool {
        (self.object_count(), self.value_bytes, self.keys, self.replicas)
            == (other.object_count(), other.value_bytes, other.keys, other.replicas)
    }

    fn shard(&self, log_bytes: u64) -> Result<Shard, Failure> {
        // The baseline uses the segment size of the log that it is compared with.
        let segment_bytes = shard::geometry(self.log_bytes, self.segment_bytes).segment_bytes;
        Shard::new(&ShardConfig {
            log_bytes,
            segment_bytes: Some(segment_bytes),
            two_level: self.two_level,
            replicas: self.replicas,
            dir: self.dir.clone(),
            touched: true,
        })
    }
}

/// The counted work.
pub struct Counted {
    pub writes: u64,
    pub refused: u64,
    /// Time of the shard's thread, without the client's share and the backups'.
    pub cpu_nanos: f64,
    /// By the shard's clock.
    pub seconds: f64,
    pub service: Service,
    pub cleaning: CleaningCounters,
    pub append_bytes: u64,
    /// Bytes of live entries, at the end.
    pub live_bytes: u64,
    pub free_bytes_mean: f64,
    pub log_bytes: u64,
    /// The time limit ended it.
    pub is_cut: bool,
}

impl Outcome {
    /// The time limit ended the warming up or what was counted.
    pub fn is_cut(&self) -> bool {
        !self.is_warm || self.counted.is_cut
    }
}

impl Counted {
    pub fn cpu_nanos_per_write(&self) -> f64 {
        self.cpu_nanos / self.writes.max(1) as f64
    }
}

pub struct Outcome {
    pub case: Case,
    pub fill_refused: u64,
    /// Cleaning had come to its pace before anything was counted.
    pub is_warm: bool,
    pub baseline_nanos_per_write: f64,
    pub counted: Counted,
}

impl Outcome {
    pub fn writes_per_second(&self) -> f64 {
        1e9 / self.counted.cpu_nanos_per_write()
    }

    /// Throughput by that of the baseline.
    pub fn relative(&self) -> f64 {
        self.baseline_nanos_per_write / self.counted.cpu_nanos_per_write()
    }

    fn new_bytes(&self) -> f64 {
        (self.counted.writes.max(1) * self.case.entry_bytes()) as f64
    }

    pub fn moved_per_new_byte(&self) -> f64 {
        self.counted.cleaning.bytes_moved as f64 / self.new_bytes()
    }

    pub fn combined_per_new_byte(&self) -> f64 {
        self.counted.cleaning.bytes_combined as f64 / self.new_bytes()
    }

    pub fn appended_per_new_byte(&self) -> f64 {
        self.counted.append_bytes as f64 / self.new_bytes()
    }

    pub fn moved_per_write(&self) -> f64 {
        self.counted.cleaning.entries_moved as f64 / self.counted.writes.max(1) as f64
    }

    /// The time of cleaning for each entry that it moved; `None` when it moved none.
    pub fn nanos_per_moved(&self) -> Option<f64> {
        let more = self.counted.cpu_nanos_per_write() - self.baseline_nanos_per_write;
        (self.counted.cleaning.entries_moved > 0).then(|| more / self.moved_per_write())
    }

    pub fn utilisation_of_log(&self) -> f64 {
        self.counted.live_bytes as f64 / self.counted.log_bytes as f64
    }

    /// The share of the memory that is not free: the log leaves some memory free for its passes, which the model does
    /// not know.
    pub fn utilisation_of_used(&self) -> f64 {
        self.counted.live_bytes as f64 / (self.counted.log_bytes as f64 - self.counted.free_bytes_mean)
    }

    /// Bytes copied per new byte by the model, which is one of uniform keys.
    pub fn predicted(&self) -> Option<f64> {
        (self.case.keys == Keys::Uniform).then(|| model::copied_per_new_byte(self.utilisation_of_used()))
    }
}

/// Runs all cases, in order.
pub fn run(cases: &[Case], progress: &mut Progress) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for case in cases {
        let known = outcomes.iter().find(|outcome| outcome.case.has_baseline_of(case));
        let baseline_nanos_per_write = match known {
            Some(outcome) => outcome.baseline_nanos_per_write,
            None => baseline(case, progress)?,
        };
        outcomes.push(run_case(case, baseline_nanos_per_write, progress)?);
    }
    Ok(outcomes)
}

/// Nanoseconds of CPU per overwrite in a log that is never cleaned.
fn baseline(case: &Case, progress: &mut Progress) -> Result<f64, Failure> {
    let mut load = Load::new(case, case.baseline_log_bytes(), "baseline", progress)?;
    load.fill()?;
    let counted = load.overwrite(case.writes(BASELINE_TIMES).max(1))?;
    assert_eq!(counted.cleaning.entries_moved, 0, "the log of the baseline is never cleaned");
    assert_eq!(counted.refused, 0, "there is room for everything in the log of the baseline");
    Ok(counted.cpu_nanos_per_write())
}

fn run_case(case: &Case, baseline_nanos_per_write: f64, progress: &mut Progress) -> Result<Outcome, Failure> {
    let mut load = Load::new(case, case.log_bytes, "run", progress)?;
    let fill_refused = load.fill()?;
    let free_times =
        case.log_bytes.saturating_sub(case.live_bytes()) as f64 / case.live_bytes().max(1) as f64;
    let is_warm = !load.overwrite(case.writes(free_times + WARM_TIMES))?.is_cut;
    let counted = load.overwrite(case.writes(case.write_times).max(1))?;
    Ok(Outcome { case: case.clone(), fill_refused, is_warm, baseline_nanos_per_write, counted })
}

/// A shard and who writes to it.
struct Load<'a> {
    case: &'a Case,
    shard: Shard,
    chooser: Chooser,
    material: Vec<u8>,
    client_nanos: f64,
    what: &'static str,
    progress: &'a mut Progress,
}

impl<'a> Load<'a> {
    fn new(
        case: &'a Case,
        log_bytes: u64,
        what: &'static str,
        progress: &'a mut Progress,
    ) -> Result<Load<'a>, Failure> {
        let mut rng = Rng::new(case.seed);
        let words = case.value_bytes / 8 + 1;
        let mut material: Vec<u8> = (0..words).flat_map(|_| rng.u64().to_le_bytes()).collect();
        material.truncate(case.value_bytes as usize);
        let mut chooser = Chooser::new(case.keys, case.object_count(), rng.u64());
        let client_nanos = shard::client_nanos(|out| {
            shard::write_body(out, &key(chooser.next()), &material);
        });
        let shard = case.shard(log_bytes)?;
        Ok(Load { case, shard, chooser, material, client_nanos, what, progress })
    }

    /// Writes every object once; answers how many were refused.
    fn fill(&mut self) -> Result<u64, Failure> {
        let mut refused = 0;
        for object in 0..self.case.object_count() {
            refused += u64::from(self.shard.write(&key(object), &self.material)? == Ended::Refused);
            if object.is_multiple_of(REQUESTS_PER_LOOK) {
                self.look("fill", object, self.case.object_count())?;
            }
        }
        self.shard.finish()?;
        Ok(refused)
    }

    /// Overwrites so many objects, as far as there is time, and counts.
    fn overwrite(&mut self, count: u64) -> Result<Counted, Failure> {
        self.shard.start_counting();
        let before = self.shard.master().cleaning();
        let append_bytes = self.shard.append_bytes();
        let (began, cpu_began) = (self.shard.clock().now(), self.shard.clock().cpu_nanos());
        let (mut writes, mut refused, mut free, mut looks) = (0, 0, 0, 0);
        let until = Instant::now() + self.case.time_max;
        while writes < count && (writes == 0 || Instant::now() < until) {
            for _ in 0..REQUESTS_PER_LOOK.min(count - writes) {
                let key = key(self.chooser.next());
                refused += u64::from(self.shard.write(&key, &self.material)? == Ended::Refused);
                writes += 1;
            }
            (free, looks) = (free + self.shard.master().log().usage().free_bytes, looks + 1);
            self.look("overwrite", writes, count)?;
        }
        self.shard.finish()?;
        let cpu_nanos = (self.shard.clock().cpu_nanos() - cpu_began) as f64;
        let log = self.shard.master().log();
        Ok(Counted {
            writes,
            refused,
            cpu_nanos: (cpu_nanos - self.client_nanos * writes as f64).max(1.0),
            seconds: self.shard.clock().now().since(began).as_secs_f64(),
            cleaning: since(before, self.shard.master().cleaning()),
            append_bytes: self.shard.append_bytes() - append_bytes,
            live_bytes: log.stats().map(|stat| stat.bytes).sum(),
            free_bytes_mean: free as f64 / f64::from(looks.max(1)),
            log_bytes: log.usage().log_bytes,
            is_cut: writes < count,
            service: std::mem::replace(&mut self.shard.service, Service::new()),
        })
    }

    fn look(&mut self, phase: &str, done: u64, all: u64) -> Result<(), Failure> {
        interrupt::check()?;
        let (case, what) = (self.case, self.what);
        self.progress.show_text(|| {
            let percent = done * 100 / all.max(1);
            let (utilisation, value_bytes) = (case.utilisation, case.value_bytes);
            format!("{what} at {utilisation} % with {value_bytes} B, {phase} {percent} %")
        });
        Ok(())
    }
}

fn key(object: u64) -> [u8; KEY_BYTES as usize] {
    KeyId(u32::try_from(object).expect("the command line allows fewer objects")).bytes()
}

fn since(before: CleaningCounters, after: CleaningCounters) -> CleaningCounters {
    CleaningCounters {
        combined_passes: after.combined_passes - before.combined_passes,
        compactions: after.compactions - before.compactions,
        entries_seen: after.entries_seen - before.entries_seen,
        entries_moved: after.entries_moved - before.entries_moved,
        bytes_moved: after.bytes_moved - before.bytes_moved,
        bytes_combined: after.bytes_combined - before.bytes_combined,
        segments_retired: after.segments_retired - before.segments_retired,
        expired: after.expired - before.expired,
        damaged: after.damaged - before.damaged,
    }
}
