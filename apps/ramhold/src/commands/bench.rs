//! `ramhold bench`: measurements that a user makes on the user's own machines.
//!
//! - `kv`: the throughput of a cluster, the latency of its operations, and the number that fail; the same of
//!   any server that speaks Redis's protocol.
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
mod folded;
mod kv;
mod load;
mod log;
mod machine;
mod recovery;
mod replay;
mod report;
mod server_cpu;
mod server_page;
mod verdict;
mod zipf;

use crate::failure::Failure;
use crate::global::Global;
use clap::{Args, Subcommand};

/// Measure the cluster, or a recovery and its parts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold bench kv
  ramhold bench kv --resp 127.0.0.1:6379
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
    Kv(Box<kv::KeyValue>),
    Log(Box<log::Log>),
    Replay(replay::Replay),
    Recovery(recovery::Recovery),
    Verdict(verdict::Verdict),
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
