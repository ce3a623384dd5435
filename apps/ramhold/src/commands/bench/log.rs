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
/// What the program needs beside the log and its index.
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

With --workload: runs one of the workloads that fragment memory (fill, W1 to W8;
keys of 30 B) and tells what keys and values are live for each byte of this
process that is resident (Pss), at the worst moment with the live bytes at their
target, and at the end. What the generator of the workload keeps is taken off. A
write that is refused is counted.

Otherwise a sweep: the log is filled with live entries up to each --utilisation.
Objects are overwritten until all that was free and then the live bytes once are
written; from there on counts. 'of uncleaned' compares with the same overwrites
in a log so large that it is never cleaned; 'ns/moved' is the difference of the
two in CPU time, for each entry that cleaning moved. CPU times are those of the
shard, without making requests and without the backups. 'max' is the longest
time that one request was worked on, 'longest step' includes ticks and answers
of backups, a 'wait' is a write that was answered 'retry' and repeated.

'model' is what uniform overwrites must cost: segments cleaned in order of age
are alive to the part a at which u = (1 - a) / -ln a, and a / (1 - a) bytes are
copied for each new byte. u is 'used': live entries by the part of the log that
is not free.

One level: every pass goes to the backups. Two levels: segments are compacted in
memory first. Without replicas there is only one.

With --replicas 3 the shard works between three backups with files below --dir,
in this process; their time is not counted. 'B sent/B' is what goes to all
backups for each new byte. Logs below 256 MiB have shorter segments than a
server's, unless --segment says otherwise.";

/// Measure the cleaning of a nearly full log.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Log {
    /// fill, or W1 to W8: memory under this workload instead of a sweep.
    #[arg(long, value_name = "NAME")]
    workload: Option<Workload>,
    /// Memory of the log; the index comes on top.
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    log: u64,
    /// Keys and values that are live; by default their entries fill 90 % of the log.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "workload")]
    live: Option<u64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of segments, a power of two from 64KiB to 8MiB; by default 8MiB, or less in a small log.
    #[arg(long, value_name = "SIZE", value_parser = parse_segment)]
    segment: Option<u32>,
    /// How much of the log live entries take, in percent.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "50,60,70,80,90,95",
        conflicts_with = "workload",
        value_parser = clap::value_parser!(u32).range(1..=99)
    )]
    utilisation: Vec<u32>,
    /// Bytes of a value; keys have 30.
    #[arg(long, value_delimiter = ',', default_value = "100", conflicts_with = "workload")]
    value_bytes: Vec<u32>,
    /// Which objects are overwritten.
    #[arg(long, value_delimiter = ',', default_value = "uniform", conflicts_with = "workload")]
    keys: Vec<Keys>,
    #[arg(long, default_value = "2", conflicts_with = "workload")]
    levels: Levels,
    /// 0, or 3 to backups with files.
    #[arg(long, default_value_t = 0, conflicts_with = "workload", value_parser = parse_replicas)]
    replicas: u8,
    /// How many times the live bytes are overwritten while it is counted.
    #[arg(long, value_name = "TIMES", default_value_t = 2.0, conflicts_with = "workload", value_parser = parse_times)]
    write: f64,
    /// Neither the warming up nor what is counted of a run takes longer than this; the output says where it was cut.
    #[arg(long, value_name = "TIME", default_value = "60s", conflicts_with = "workload", value_parser = parse_duration)]
    time_max: Duration,
    /// Where the backups' files are, in a directory that is removed at the end; by default the system's for such.
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
                "--segment {segment} is too much: a log of {log} must have eight"
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
                "{workload} needs {min} live bytes at least, not {live_bytes}"
            )));
        }
        if live_bytes >= self.log {
            let (live, log) = (bytes_text(live_bytes), bytes_text(self.log));
            return Err(Failure::usage(format!("{live} of live keys and values do not fit a log of {log}")));
        }
        let objects = live_bytes / workload.object_bytes_min();
        if objects * u64::from(1 + Workload::WRITTEN_TIMES) >= OBJECT_COUNT_MAX {
            return Err(Failure::usage(format!("{objects} objects are more than this can count")));
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
            count => Err(Failure::usage(format!("{count} objects are too few or more than this can count"))),
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
        _ => Err("it is 0 or 3".to_owned()),
    }
}

fn parse_times(text: &str) -> Result<f64, String> {
    let times: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    if times > 0.0 && times <= 1000.0 { Ok(times) } else { Err("it is above 0 and at most 1000".to_owned()) }
}

fn parse_segment(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    let is_allowed =
        bytes.is_power_of_two() && (SEGMENT_BYTES_MIN..=u64::from(SEGMENT_BYTES)).contains(&bytes);
    match u32::try_from(bytes) {
        Ok(bytes) if is_allowed => Ok(bytes),
        _ => Err(format!("'{text}' is no power of two from 64KiB to 8MiB")),
    }
}
