//! One workload that fragments memory, on one log. It measures the ratio of live bytes to resident bytes.
//!
//! The memory of the whole process is read whenever the live bytes are at the target and a 32nd of them has
//! been written since the last reading. Only the memory of the step generator is subtracted: program, index
//! and free lists count.
//!
//! Not here: the steps (ramhold-workload), other stores (bench/compare).

use super::clock::resident_bytes;
use super::shard::{Ended, Shard, ShardConfig};
use crate::failure::Failure;
use crate::interrupt;
use crate::progress::Progress;
use ramhold_log::OBJECT_OVERHEAD_BYTES;
use ramhold_master::CleaningCounters;
use ramhold_workload::{KEY_BYTES, KeyId, Phase, Step, Steps, Workload};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// Memory is read this many times while the live bytes are written once.
const READINGS_PER_LIVE: u64 = 32;
/// Steps between two looks at signals and at the progress line.
const STEPS_PER_LOOK: u64 = 4096;

/// The contents of the log at one moment, and the memory of the process.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Keys and values.
    pub live_bytes: u64,
    /// Without the generator's.
    pub resident_bytes: u64,
}

impl Reading {
    pub fn live_over_resident(self) -> f64 {
        self.live_bytes as f64 / self.resident_bytes.max(1) as f64
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub workload: Workload,
    pub log_bytes: u64,
    pub live_bytes: u64,
    pub segment_bytes: Option<u32>,
    pub seed: u64,
}

pub struct Outcome {
    pub worst: Reading,
    pub end: Reading,
    /// Writes that were asked for, the refused ones too.
    pub writes: u64,
    pub refused: u64,
    pub refused_removes: u64,
    pub waits: u64,
    pub wait_longest_nanos: u64,
    pub longest_nanos: u64,
    pub seconds: f64,
    pub log_bytes: u64,
    pub index_bytes: u64,
    pub generator_bytes: u64,
    pub cleaning: CleaningCounters,
}

/// The contents of the log, by its answers.
#[derive(Default)]
struct Held {
    bytes: u64,
    /// Keys whose writes were refused.
    refused_keys: BTreeSet<u32>,
    writes: u64,
    refused: u64,
    refused_removes: u64,
}

impl Held {
    fn perform(&mut self, step: Step, shard: &mut Shard, value: &[u8]) -> Result<(), Failure> {
        let bytes = |value_bytes: u32| u64::from(KEY_BYTES + value_bytes);
        match step {
            Step::Insert { key: KeyId(key), value_bytes } => {
                self.writes += 1;
                match shard.write(&KeyId(key).bytes(), &value[..value_bytes as usize])? {
                    Ended::Done => self.bytes += bytes(value_bytes),
                    Ended::Refused => {
                        self.refused += 1;
                        self.refused_keys.insert(key);
                    }
                }
            }
            Step::Delete { key: KeyId(key), value_bytes } => {
                if self.refused_keys.remove(&key) {
                    return Ok(());
                }
                match shard.remove(&KeyId(key).bytes())? {
                    Ended::Done => self.bytes -= bytes(value_bytes),
                    Ended::Refused => self.refused_removes += 1,
                }
            }
        }
        Ok(())
    }
}

pub fn run(plan: &Plan, progress: &mut Progress) -> Result<Outcome, Failure> {
    let Plan { workload, live_bytes, .. } = *plan;
    let mut shard = Shard::new(&ShardConfig {
        log_bytes: plan.log_bytes,
        segment_bytes: plan.segment_bytes,
        two_level: true,
        replicas: 0,
        dir: Path::new(".").to_owned(),
        touched: false,
    })?;
    let value: Vec<u8> = (0..workload.object_bytes_max()).map(|n| ((n * 131) >> 3) as u8).collect();
    let mut steps = Steps::new(workload, live_bytes, OBJECT_OVERHEAD_BYTES as u32, plan.seed);
    let (mut held, mut worst, mut written_since, mut count) = (Held::default(), None, 0, 0u64);
    let began = Instant::now();
    loop {
        let (phase, at_target) = (steps.phase(), steps.is_at_target());
        let step = steps.next();
        let phase_is_over = steps.phase() != phase;
        let due = phase == Phase::Replacing && written_since >= live_bytes / READINGS_PER_LIVE;
        if at_target && (due || phase_is_over) {
            worst = Some(worse(worst, read(&held, &steps)?));
            written_since = 0;
        }
        let Some(step) = step else { break };
        held.perform(step, &mut shard, &value)?;
        if let Step::Insert { value_bytes, .. } = step {
            written_since += u64::from(value_bytes);
        }
        count += 1;
        if count.is_multiple_of(STEPS_PER_LOOK) {
            interrupt::check()?;
            progress.show_text(|| format!("{workload}: {} %", steps.percent_done()));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let end = read(&held, &steps)?;
    let usage = shard.master().log().usage();
    Ok(Outcome {
        worst: worse(worst, end),
        end,
        writes: held.writes,
        refused: held.refused,
        refused_removes: held.refused_removes,
        waits: shard.service.waits,
        wait_longest_nanos: shard.service.wait_longest_nanos,
        longest_nanos: shard.service.longest_nanos,
        seconds,
        log_bytes: usage.log_bytes,
        index_bytes: usage.index_bytes,
        generator_bytes: steps.touched_bytes(),
        cleaning: shard.master().cleaning(),
    })
}

fn read(held: &Held, steps: &Steps) -> Result<Reading, Failure> {
    let resident =
        resident_bytes().map_err(|error| Failure::local(Path::new("/proc/self/smaps_rollup"), &error))?;
    let resident_bytes = resident.saturating_sub(steps.touched_bytes());
    Ok(Reading { live_bytes: held.bytes, resident_bytes })
}

fn worse(worst: Option<Reading>, reading: Reading) -> Reading {
    match worst {
        Some(worst) if worst.live_over_resident() <= reading.live_over_resident() => worst,
        _ => reading,
    }
}
