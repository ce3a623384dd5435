//! `bench log`: the cost of a nearly full log, in one process and without sockets.

mod backups;
pub(super) mod clock;
mod keys;
mod model;
mod report;
mod shard;
mod sweep;
mod workload;

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::memory::check_available;
use crate::progress::Progress;
use crate::size::{bytes_text, parse_bytes, parse_duration};
use clap::{Args, ValueEnum};
use keys::Keys;
use ramhold_base::limits::{SEGMENT_BYTES, VALUE_BYTES_MAX};
use ramhold_log::OBJECT_OVERHEAD_BYTES;
use ramhold_runtime::memory_available;
use ramhold_workload::Workload;
use std::path::PathBuf;
use std::time::Duration;

/// Below this a log has room for no more than a few segments of the shortest kind.
const LOG_BYTES_MIN: u64 = 4 << 20;
/// The largest log that the log's references allow.
const LOG_BYTES_MAX: u64 = 4 << 40;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Memory that the program needs beside the log and its index.
const PROGRAM_BYTES: u64 = 32 << 20;
/// Bytes of the index per object, for telling whether the machine has the memory.
const INDEX_BYTES_PER_OBJECT: u64 = 16;
/// Live bytes of a workload when none are given, in percent of the log, as entries.
const LIVE_PERCENT: u32 = 90;
/// Key identifiers have 32 bits.
const OBJECT_COUNT_MAX: u64 = 1 << 31;
/// Replicas that can be asked for.
const REPLICAS: u8 = 3;

const HELP: &str = "\
Examples:
  ramhold bench log --workload W2 --log 512MiB
  ramhold bench log --utilisation 80,90 --value-bytes 100,1000 --json
  ramhold bench log --utilisation 90 --replicas 3 --levels both \\
      --log 256MiB --dir /var/tmp
  ramhold bench log --keys zipf --write 4 --log 2GiB

With --workload, the command runs a workload that fragments memory (fill, W1 to
W8; keys of 30 bytes). It prints the live bytes of keys and values per resident
byte of this process (Pss): at the worst moment while the live bytes are at
their target, and at the end. The memory of the workload's generator is
subtracted. Refused writes are counted.

Without --workload, the command runs a sweep. It fills the log with live entries
up to each --utilisation. Then it overwrites objects to warm up: first until the
free memory is used, and then as many bytes as are live. After that the
measurement begins.
  of uncleaned  compared with the same writes to a log that is so large that it
                is never cleaned
  ns/moved      the difference in CPU time between the two, per entry that
                cleaning moved. CPU time is that of the shard, without clients
                and backups
  max           the longest time spent on one request
  longest step  the same including ticks and answers of backups
  wait          a write that was answered 'retry' and repeated
  used          u, the live entries divided by the part of the log that is not
                free
  model         the cost that uniform overwrites must have. Segments that are
                cleaned in order of age are still live to the share a, where
                u = (1 - a) / -ln a; cleaning copies a / (1 - a) bytes for each
                new byte
  B sent/B      bytes that are sent to all backups for each new byte

With one level, every pass of cleaning goes to the backups. With two levels,
segments are compacted in memory first. Without replicas there is only one
level.

With --replicas 3, three backups with files below --dir run in this process.
Their CPU time is not counted. A log below 256 MiB has shorter segments than a
server has, unless --segment is given.";

/// Measure the cleaning of a nearly full log.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Log {
    /// Measure memory under this workload (fill, W1 to W8) instead of a sweep.
    #[arg(long, value_name = "NAME")]
    workload: Option<Workload>,
    /// Memory of the log, without the index.
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    log: u64,
    /// Bytes of live keys and values [default: as many as fill 90 % of the log]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "workload")]
    live: Option<u64>,
    /// Seed of the choice of objects.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Size of a segment: a power of two from 64KiB to 8MiB [default: 8MiB, less in a small log]
    #[arg(long, value_name = "SIZE", value_parser = parse_segment)]
    segment: Option<u32>,
    /// Share of the log that live entries take, in percent.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "50,60,70,80,90,95",
        conflicts_with = "workload",
        value_parser = clap::value_parser!(u32).range(1..=99)
    )]
    utilisation: Vec<u32>,
    /// Bytes of a value; keys have 30 bytes.
    #[arg(long, value_delimiter = ',', default_value = "100", conflicts_with = "workload")]
    value_bytes: Vec<u32>,
    /// How the objects to overwrite are chosen.
    #[arg(long, value_delimiter = ',', default_value = "uniform", conflicts_with = "workload")]
    keys: Vec<Keys>,
    /// Levels of cleaning.
    #[arg(long, default_value = "2", conflicts_with = "workload")]
    levels: Levels,
    /// Replicas: 0, or 3 on backups with files.
    #[arg(long, default_value_t = 0, conflicts_with = "workload", value_parser = parse_replicas)]
    replicas: u8,
    /// How many times the live bytes are overwritten during the measurement.
    #[arg(long, value_name = "TIMES", default_value_t = 2.0, conflicts_with = "workload", value_parser = parse_times)]
    write: f64,
    /// Time limit for the warm-up, and again for the measurement, of each run. The output names the runs that
    /// reached it.
    #[arg(long, value_name = "TIME", default_value = "60s", conflicts_with = "workload", value_parser = parse_duration)]
    time_max: Duration,
    /// Parent directory of the backups' files, which are removed at the end [default: the system's directory
    /// for temporary files]
    #[arg(long, value_name = "DIR", conflicts_with = "workload")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Levels {
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
    Both,
}

impl Log {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if !(LOG_BYTES_MIN..=LOG_BYTES_MAX).contains(&self.log) {
            let (min, max) = (bytes_text(LOG_BYTES_MIN), bytes_text(LOG_BYTES_MAX));
            return Err(Failure::usage(format!("--log must be between {min} and {max}")));
        }
        let segment_bytes = shard::geometry(self.log, self.segment).segment_bytes;
        if u64::from(segment_bytes) * 8 > self.log {
            let (segment, log) = (bytes_text(segment_bytes.into()), bytes_text(self.log));
            return Err(Failure::usage(format!(
                "--segment {segment} is too large: a log of {log} must have at least eight segments"
            )));
        }
        interrupt::watch()?;
        let mut progress = Progress::new("bench log:", global.json);
        match self.workload {
            Some(workload) => {
                let plan = self.plan(workload)?;
                let outcome = workload::run(&plan, &mut progress)?;
                progress.finish();
                report::print_workload(&plan, &outcome, global)
            }
            None => {
                let outcomes = sweep::run(&self.cases()?, &mut progress)?;
                progress.finish();
                report::print_sweep(&outcomes, global)
            }
        }
    }

    fn plan(&self, workload: Workload) -> Result<workload::Plan, Failure> {
        let fitting = || workload.live_bytes_in_log(self.log, LIVE_PERCENT, OBJECT_OVERHEAD_BYTES as u32);
        let live_bytes = self.live.unwrap_or_else(fitting);
        if live_bytes < workload.object_bytes_max() {
            let min = workload.object_bytes_max();
            return Err(Failure::usage(format!(
                "{workload} needs at least {min} live bytes, not {live_bytes}; give more with --live or --log"
            )));
        }
        if live_bytes >= self.log {
            let (live, log) = (bytes_text(live_bytes), bytes_text(self.log));
            return Err(Failure::usage(format!(
                "{live} of live keys and values do not fit into a log of {log}; give less --live or more --log"
            )));
        }
        let objects = live_bytes / workload.object_bytes_min();
        if objects * u64::from(1 + Workload::WRITTEN_TIMES) >= OBJECT_COUNT_MAX {
            return Err(Failure::usage(format!(
                "{objects} objects are too many for this benchmark; give less --live"
            )));
        }
        let generator_bytes = 6 * objects;
        check(self.log + objects * INDEX_BYTES_PER_OBJECT + generator_bytes)?;
        let (log_bytes, segment_bytes, seed) = (self.log, self.segment, self.seed);
        Ok(workload::Plan { workload, log_bytes, live_bytes, segment_bytes, seed })
    }

    fn cases(&self) -> Result<Vec<sweep::Case>, Failure> {
        let mut cases = Vec::new();
        for &value_bytes in &self.value_bytes {
            for &keys in &self.keys {
                for &utilisation in &self.utilisation {
                    for two_level in self.levels.each() {
                        cases.push(self.case(value_bytes, keys, utilisation, two_level)?);
                    }
                }
            }
        }
        let memory = |case: &sweep::Case| {
            case.log_bytes.max(case.baseline_log_bytes()) + case.object_count() * INDEX_BYTES_PER_OBJECT
        };
        check(cases.iter().map(memory).max().unwrap_or(0))?;
        Ok(cases)
    }

    fn case(
        &self,
        value_bytes: u32,
        keys: Keys,
        utilisation: u32,
        two_level: bool,
    ) -> Result<sweep::Case, Failure> {
        let segment_bytes = shard::geometry(self.log, self.segment).segment_bytes;
        let value_bytes_max = (segment_bytes / 4).min(VALUE_BYTES_MAX as u32);
        if value_bytes > value_bytes_max {
            return Err(Failure::usage(format!(
                "--value-bytes must be at most {value_bytes_max} in this log"
            )));
        }
        let case = sweep::Case {
            log_bytes: self.log,
            segment_bytes: self.segment,
            utilisation,
            value_bytes,
            keys,
            two_level,
            replicas: self.replicas,
            write_times: self.write,
            time_max: self.time_max,
            dir: self.dir.clone().unwrap_or_else(std::env::temp_dir),
            seed: self.seed,
        };
        match case.object_count() {
            1..OBJECT_COUNT_MAX => Ok(case),
            count => Err(Failure::usage(format!(
                "{count} objects are too few or too many for this benchmark; change --log or --value-bytes"
            ))),
        }
    }
}

impl Levels {
    /// Whether there are two, for each run.
    fn each(self) -> impl Iterator<Item = bool> {
        let both = [false, true];
        both.into_iter().filter(move |two| self == Levels::Both || *two == (self == Levels::Two))
    }
}

fn check(bytes: u64) -> Result<(), Failure> {
    check_available(bytes + PROGRAM_BYTES, 0, memory_available()).map_err(Failure::usage)
}

fn parse_replicas(text: &str) -> Result<u8, String> {
    match text {
        "0" => Ok(0),
        "3" => Ok(REPLICAS),
        _ => Err("give 0 or 3".to_owned()),
    }
}

fn parse_times(text: &str) -> Result<f64, String> {
    let times: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if times > 0.0 && times <= 1000.0 {
        Ok(times)
    } else {
        Err("give a number above 0 and at most 1000".to_owned())
    }
}

fn parse_segment(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    let is_allowed =
        bytes.is_power_of_two() && (SEGMENT_BYTES_MIN..=u64::from(SEGMENT_BYTES)).contains(&bytes);
    match u32::try_from(bytes) {
        Ok(bytes) if is_allowed => Ok(bytes),
        _ => Err(format!("'{text}' is not a power of two from 64KiB to 8MiB")),
    }
}
