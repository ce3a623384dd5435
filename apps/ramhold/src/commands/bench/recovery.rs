//! `bench recovery`: a cluster of processes on this machine loses the server that holds the data. The figures
//! are the time until the last object can be read again, and the part of it that is the minimum on this
//! machine.
//!
//! Catalogue: F1-F5, F11.

mod asking;
mod beside;
mod floor;
mod probe;
mod redis;
mod stage;

use super::load::{self, Load, Servers};
use super::machine;
use crate::commands::recoveries::timeline;
use crate::failure::{Failure, NOT_FOUND};
use crate::global::Global;
use crate::interrupt;
use crate::output;
use crate::progress::Progress;
use crate::size::{bytes_text, parse_bytes};
use asking::Asking;
use beside::Beside;
use clap::Args;
use floor::Floor;
use probe::Probe;
use ramhold_base::limits::{REPLICA_COUNT_MAX, VALUE_BYTES_MAX};
use ramhold_client::RecoveryReport;
use ramhold_log::OBJECT_OVERHEAD_BYTES;
use serde_json::json;
use stage::{Buffers, Setting, Stage};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const KEY_BYTES: usize = 30;
const CLIENTS: u16 = 2;
const PIPELINE: usize = 64;

const HELP: &str = "\
Examples:
  ramhold bench recovery --data 200MiB
  ramhold bench recovery --servers 6 --data 2GiB --object-bytes 1000
  ramhold bench recovery --data 2GiB --buffers all
      the device is not the bottleneck
  ramhold bench recovery --beside-redis
      redis-server and a Redis cluster with the same objects

The command starts a cluster of its own. It fills one table with one tablet, so
that one server holds all data, and waits until that is flushed. Then it kills
that server (SIGKILL) and asks for keys that are spread over the table. The
clock stops when the last of these keys is answered. Finally every object is
read and compared.

With --beside-redis, a redis-server with an append-only file gets the same
objects, is killed, and is started again at once. A Redis cluster of three
masters and three replicas gets them, too, and one master is killed. Redis runs
with its defaults, without dumps. All three are asked over Redis's protocol, in
the same way, every 10 ms. Times count from the kill.

The floor is the time that this machine needs for the same bytes, measured in
the same run. It is the longer of two times:
  - CPU: every byte that was fetched or replicated passes the loopback once, and
    every fetched byte is verified once and copied once, over all processors;
  - disk: all bytes beyond the buffers are written with fdatasync.
If there is room, a partition is readable before it is replicated. So the last
key is also compared with the time for fetching alone, and the output tells when
the devices had everything.";

/// Measure how fast the data of a dead server can be read again.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Recovery {
    /// Number of servers, including the one that dies.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=64))]
    servers: u16,
    /// Size of the log that the dead server holds.
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    data: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 1000)]
    object_bytes: u32,
    /// Copies on backups.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=REPLICA_COUNT_MAX as i64))]
    replicas: u8,
    /// Buffers of each server for writes that are not flushed yet: a size, or 'all' for enough to take
    /// everything [default: that of a server with this memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_buffers)]
    buffers: Option<Buffers>,
    /// Number of keys to ask for from the kill on.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    probes: u64,
    /// Also measure a redis-server and a Redis cluster, and print all three in a table. Needs the programs
    /// redis-server and redis-cli, and four times the data in memory.
    #[arg(long)]
    beside_redis: bool,
    /// Parent directory of the cluster's files, which are removed at the end [default: the system's
    /// directory for temporary files]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Keep the cluster's files and logs.
    #[arg(long)]
    keep: bool,
}

fn parse_buffers(text: &str) -> Result<Buffers, String> {
    if text == "all" { Ok(Buffers::All) } else { parse_bytes(text).map(Buffers::Bytes) }
}

/// The results, told at the end.
struct Outcome {
    objects: u64,
    /// From the kill until the first, the middle and the last key was read.
    read: [Duration; 3],
    /// From the kill until the recovery was over for the coordinator.
    over: Duration,
    report: RecoveryReport,
    floor: Floor,
    /// The buffers of all servers that are left.
    buffer_bytes: u64,
    wrong: u64,
    steal: Option<f64>,
    beside: Option<Beside>,
}

impl Outcome {
    /// From the kill until devices had all that was recovered, if they have.
    fn settled(&self) -> Option<Duration> {
        let after = self.report.steps.settled?.checked_sub(self.report.done_millis?)?;
        Some(self.over + Duration::from_millis(after))
    }
}

impl Recovery {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let entry_bytes = (OBJECT_OVERHEAD_BYTES + KEY_BYTES) as u64 + u64::from(self.object_bytes);
        let objects = self.data.div_ceil(entry_bytes).max(1);
        if self.object_bytes as usize > VALUE_BYTES_MAX {
            return Err(Failure::usage(format!("--object-bytes must be at most {VALUE_BYTES_MAX}")));
        }
        if u16::from(self.replicas) >= self.servers {
            let text = "each replica needs a server besides the one with the data; give fewer --replicas or more --servers";
            return Err(Failure::usage(text));
        }
        if self.beside_redis {
            redis::check_installed()?;
        }
        interrupt::watch()?;
        let mut stage = Stage::set(&self.setting())?;
        let result = self.play(&mut stage, objects, global);
        stage.clear_away();
        let outcome = result?;
        if global.json {
            output::print_json(&self.json(&outcome))?;
        } else {
            output::print(&self.text(&outcome))?;
        }
        if outcome.wrong == 0 {
            return Ok(());
        }
        Err(Failure::new(NOT_FOUND, format!("{} objects are lost or wrong", outcome.wrong)))
    }

    fn play(&self, stage: &mut Stage, objects: u64, global: &Global) -> Result<Outcome, Failure> {
        let mut progress = Progress::new("measuring", global.json);
        progress.show_text(|| "the machine".to_owned());
        let mut floor = Floor::measure(&stage.work_dir)?;
        progress.show_text(|| format!("starting {} servers", self.servers));
        let table = stage.start(self.table(), self.replicas)?;
        progress.show_text(|| format!("filling {}", bytes_text(self.data)));
        let global = stage.global(global);
        let seed = RandomState::new().hash_one(std::process::id());
        let filling = Load::filling(table, objects, KEY_BYTES, self.object_bytes as usize, seed);
        let load = Load { clients: CLIENTS, pipeline: PIPELINE, ..filling };
        let filled = load::fill(&load, Servers::Native(&global))?;
        if let Some((error, count)) = filled.errors.first_key_value() {
            return Err(Failure::usage(format!(
                "{count} of {objects} objects could not be written: {error}"
            )));
        }
        progress.show_text(|| "waiting until all of it is on the devices".to_owned());
        let victim = stage.settle(objects)?;
        progress.show_text(|| "recovering".to_owned());
        let before = machine::Times::now();
        let mut probe = Probe::new(&global, &load, self.probes)?;
        let (keys, ports) = (redis::probed_of_all(&load, self.probes), stage.ports_without(victim));
        if self.beside_redis {
            Asking::begin(&ports, &keys, Instant::now())?.wait()?;
        }
        let killed = Instant::now();
        stage.kill(victim);
        let asking = self.beside_redis.then(|| Asking::begin(&ports, &keys, killed)).transpose()?;
        probe.ask(killed);
        probe.wait()?;
        let asked = asking.map(Asking::wait).transpose()?;
        let report = stage.wait_over(victim)?;
        let (read, over) = (probe.times(), probe.elapsed());
        let steal = machine::steal_percent(before, machine::Times::now());
        progress.show_text(|| "reading everything back".to_owned());
        let wrong = probe::wrong(&global, &load)?;
        // By now the backups have reported their work.
        let report = stage.report_of(victim)?.unwrap_or(report);
        let buffer_bytes = stage.buffer_bytes()?;
        floor.weigh(report.bytes, u64::from(self.replicas), buffer_bytes);
        let beside = match asked {
            None => None,
            Some(read) => {
                stage.end();
                progress.show_text(|| "redis-server, started again".to_owned());
                let restart = redis::restart(&stage.work_dir, &load, self.probes)?;
                progress.show_text(|| "the failover of a Redis cluster".to_owned());
                let failover = redis::failover(&stage.work_dir, &load, self.probes)?;
                Some(Beside { ramhold: redis::Measured { objects, read }, restart, failover })
            }
        };
        progress.finish();
        Ok(Outcome { objects, read, over, report, floor, buffer_bytes, wrong, steal, beside })
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            servers: self.servers,
            data_bytes: self.data,
            replicas: self.replicas,
            buffers: self.buffers,
            beside_redis: self.beside_redis,
            work_dir: self.work_dir.as_deref(),
            keeps: self.keep,
        }
    }

    /// Redis clients see database 0, which is by slots.
    fn table(&self) -> stage::Table {
        if self.beside_redis {
            stage::Table { name: "db0", slots: true }
        } else {
            stage::Table { name: "bench", slots: false }
        }
    }

    fn text(&self, outcome: &Outcome) -> String {
        let Outcome { objects, read: [first, half, last], over, report, floor, .. } = outcome;
        let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
        let mut lines = vec![
            format!(
                "killed       one of {} servers, {objects} objects of {} B, {} of log, {} replicas",
                self.servers,
                self.object_bytes,
                bytes_text(report.bytes),
                self.replicas
            ),
            format!(
                "readable     the first key after {}, half after {}, the last after {}",
                seconds(*first),
                seconds(*half),
                seconds(*last)
            ),
            format!(
                "recovery     {} partitions, {} segments, {} records, over after {}",
                report.partitions,
                report.segments,
                report.records,
                seconds(*over)
            ),
            format!("rate         {}/s", bytes_text((report.bytes as f64 / last.as_secs_f64()) as u64)),
        ];
        lines.extend(floor.lines());
        lines.push(format!(
            "versus floor {:.2} x for the last key (buffers: {}), {:.2} x of the time for fetching alone",
            last.as_secs_f64() / floor.seconds(),
            bytes_text(outcome.buffer_bytes),
            last.as_secs_f64() / floor.fetching_seconds()
        ));
        if let Some(settled) = outcome.settled() {
            lines.push(format!(
                "settled      all of it on {} devices after {}: {:.2} x of the floor",
                self.replicas,
                seconds(settled),
                settled.as_secs_f64() / floor.seconds()
            ));
        }
        if let Some(steal) = outcome.steal {
            lines.push(format!("steal        {steal:.1} % of the processors' time while recovering"));
        }
        lines.push(format!("lost, wrong  {}", outcome.wrong));
        let mut text = lines.join("\n") + "\n\n" + &timeline::text(report, false);
        if let Some(beside) = &outcome.beside {
            text += &format!("\n{}", beside.text(self.servers, self.replicas));
        }
        text
    }

    fn json(&self, outcome: &Outcome) -> serde_json::Value {
        let Outcome { objects, read: [first, half, last], over, report, floor, .. } = outcome;
        json!({
            "servers": self.servers,
            "objects": objects,
            "object_bytes": self.object_bytes,
            "replicas": self.replicas,
            "log_bytes": report.bytes,
            "first_seconds": first.as_secs_f64(),
            "half_seconds": half.as_secs_f64(),
            "last_seconds": last.as_secs_f64(),
            "over_seconds": over.as_secs_f64(),
            "floor": floor.json(),
            "of_floor": last.as_secs_f64() / floor.seconds(),
            "of_fetching": last.as_secs_f64() / floor.fetching_seconds(),
            "settled_seconds": outcome.settled().map(|settled| settled.as_secs_f64()),
            "buffer_bytes": outcome.buffer_bytes,
            "recovery": crate::commands::recoveries::json::report_json(report),
            "wrong": outcome.wrong,
            "steal_percent": outcome.steal,
            "beside": outcome.beside.map(|beside| beside.json()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_all_or_a_size() {
        assert_eq!(parse_buffers("all"), Ok(Buffers::All));
        assert_eq!(parse_buffers("1MiB"), Ok(Buffers::Bytes(1 << 20)));
        assert!(parse_buffers("some").is_err());
    }
}
