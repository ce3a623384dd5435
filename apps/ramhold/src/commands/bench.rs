//! `ramhold bench`: measurements that a user makes on the user's own machines.
//!
//! - `kv`: the throughput of a cluster, the latency of its operations, and the number that fail.
//! - `log`: the cost of a nearly full log.
//! - `replay`: the speed at which a recovery master takes in a dead log.
//! - `recovery`: the speed at which a whole cluster takes in the data of a dead server.
//! - `verdict`: the time until a death is known.
//!
//! `recovery` and `verdict` start a cluster of their own, and `recovery --beside-redis` starts redis-server. They
//! are here and not in the folder `bench` for two reasons:
//! - a user needs nothing but the installed program to learn how fast a recovery is on these machines;
//! - they start this same program, with the code that also starts the clusters of `dev` and `demo` (`local`).
//!
//! Not here: measurements for developers, which need the sources (the folder `bench`, `cargo xtask bench`).

mod busy;
mod load;
mod log;
mod machine;
mod recovery;
mod replay;
mod report;
mod verdict;

use crate::commands::table::create::create_if_absent;
use crate::commands::table::options::OptionArguments;
use crate::failure::Failure;
use crate::global::Global;
use clap::{Args, Subcommand};
use load::Load;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Measure the cluster, or a recovery and its parts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold bench kv
  ramhold bench recovery --data 200MiB
  ramhold bench verdict --rounds 50

'kv' measures a running cluster. 'recovery' and 'verdict' start clusters of
their own on this machine. 'log' and 'replay' run in one process.")]
pub struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    Kv(KeyValue),
    Log(Box<log::Log>),
    Replay(replay::Replay),
    Recovery(recovery::Recovery),
    Verdict(verdict::Verdict),
}

/// Read and write small objects as fast as the cluster answers.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  ramhold bench kv
  ramhold bench kv --replicas 2 --read-percent 95 --clients 2 --pipeline 32 \\
      --seconds 30
  ramhold bench kv --pipeline 1 --json
      latency of one operation at a time
  ramhold bench kv --pipeline 64 --multi 64
      64 operations together, in one frame per server
  ramhold bench kv --quorum 3 --client-zone a
      a quorum table, with values from bricks in zone a
  ramhold bench kv --rate 20000 --pipeline 512
      latency at a given load

All objects are written once; the first write that fails ends the command. Then
operations choose objects at random, evenly, for the given time. Latency is the
time from sending an operation to its outcome; with --rate it counts from the
moment at which the operation was due. 'under way' is rate times mean latency:
as many of the places (--clients times --pipeline) were taken on average. A run
whose figures contradict each other says so, and ends with exit code 2. 'steal'
is processor time that the host took from this virtual machine. With more than
a few percent of steal, the results describe the host rather than
the cluster.")]
struct KeyValue {
    /// Table to use; created if it does not exist, and not dropped afterwards.
    #[arg(long, default_value = "bench")]
    table: String,
    #[command(flatten)]
    options: OptionArguments,
    /// Number of objects, each with its own key.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    objects: u64,
    /// Bytes of a key.
    #[arg(long, default_value_t = 30)]
    key_bytes: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Percentage of reads; all other operations are writes.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    read_percent: u8,
    /// Operations in flight per client.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pipeline: u16,
    /// Start this many operations together; those for one server travel in one frame. The next ones start
    /// when the pipeline has room for all of them.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "rate",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    multi: u16,
    /// Use the objects of an earlier run with the same keys instead of writing them first.
    #[arg(long)]
    no_fill: bool,
    /// Start this many operations per second at even intervals, even if earlier ones are late (open loop).
    /// Latency then counts from the moment at which the operation was due [default: keep the pipelines full]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: Option<u64>,
    /// Duration of the measurement in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seed of the choice of objects and operations [default: random; --json prints it]
    #[arg(long)]
    seed: Option<u64>,
    /// Client threads, each with its own connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Zone of the clients: values of a quorum table are read from bricks there first. --zone is the table's.
    #[arg(long, env = "RAMHOLD_ZONE", value_name = "NAME")]
    client_zone: Option<String>,
}

impl Bench {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            BenchCommand::Kv(key_value) => key_value.run(global),
            BenchCommand::Log(log) => log.run(global),
            BenchCommand::Replay(replay) => replay.run(global),
            BenchCommand::Recovery(recovery) => recovery.run(global),
            BenchCommand::Verdict(verdict) => verdict.run(global),
        }
    }
}

impl KeyValue {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let global = &global.from(self.client_zone.as_deref());
        let wish = self.options.wish(0)?;
        let key_bytes_min = load::key_bytes_min(self.objects);
        if !(key_bytes_min..=KEY_BYTES_MAX).contains(&self.key_bytes) {
            let objects = self.objects;
            return Err(Failure::usage(format!(
                "--key-bytes must be between {key_bytes_min} and {KEY_BYTES_MAX} for {objects} objects"
            )));
        }
        if self.value_bytes > VALUE_BYTES_MAX {
            return Err(Failure::usage(format!("--value-bytes must be at most {VALUE_BYTES_MAX}")));
        }
        if self.multi > self.pipeline {
            return Err(Failure::usage("--multi must not be more than --pipeline"));
        }
        let table = create_if_absent(&mut global.connect()?, &self.table, &wish)?;
        let load = Load {
            table,
            objects: self.objects,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            read_percent: self.read_percent,
            pipeline: usize::from(self.pipeline),
            multi: usize::from(self.multi),
            seed: self.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id())),
            rate: self.rate,
        };
        let mut filled =
            if self.no_fill { load::Measured::new() } else { load::fill(&load, global, self.clients)? };
        if let Some(failed) = filled.failed.take() {
            let (done, all) = (filled.done(), self.objects);
            return Err(
                failed.about(&format!("filling '{}': {done} of {all} objects were written", self.table))
            );
        }
        let machine_before = machine::Times::now();
        let measured = load::measure(&load, global, self.clients, Duration::from_secs(self.seconds))?;
        let steal = machine::steal_percent(machine_before, machine::Times::now());
        report::print(&load, self.clients, &filled, &measured, steal, global)
    }
}
