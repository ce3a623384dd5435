//! Ramhold beside redis-server and memcached: one machine, one run, one kind of client.
//!
//! - `cargo xtask bench compare` compares operations per second and their latency.
//! - `cargo xtask bench compare kv` compares them with one client for all, `ramhold bench kv`.
//! - `cargo xtask bench compare ycsb` compares YCSB's workloads on five servers with a Redis cluster.
//! - `cargo xtask bench compare memory` compares live data with resident memory.
//! - `cargo xtask bench compare cleaning` compares a nearly full server with one that never cleans.
//! - `cargo xtask bench resp` compares over Redis's protocol, with an empty server as the floor.
//! - `cargo xtask bench limits` shows floors alone: what no server on this machine can do better.
//!
//! Servers run on core 0 and clients on core 1, where the machine has two.
//! Figures: docs/performance.md; earlier ones: native-client.md, redis-front.md and memory-and-cleaning.md in
//! docs/measurements.

mod cleaning;
mod kv;
mod limits;
mod memory;
mod one_run;
mod process;
mod ramhold;
mod redis;
mod resp;
mod speed;
mod ycsb;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Compare Ramhold with redis-server and memcached on this machine.
#[derive(Debug, Parser)]
#[command(name = "compare", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    speed: speed::Speed,
}

#[derive(Debug, Subcommand)]
enum What {
    Cleaning(cleaning::Cleaning),
    Kv(Box<kv::KeyValue>),
    Memory(memory::Memory),
    Resp(Box<resp::Resp>),
    Ycsb(Box<ycsb::Ycsb>),
    Limits(Box<limits::Limits>),
    #[command(hide = true)]
    Echo(limits::Echo),
    #[command(hide = true)]
    Empty(resp::Empty),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(code) = process::run_again_pinned() {
        return ExitCode::from(code);
    }
    process::raise_descriptors();
    let outcome = match cli.what {
        Some(What::Cleaning(cleaning)) => cleaning.run(),
        Some(What::Kv(key_value)) => key_value.run(),
        Some(What::Memory(memory)) => memory.run(),
        Some(What::Resp(resp)) => resp.run(),
        Some(What::Ycsb(ycsb)) => ycsb.run(),
        Some(What::Limits(limits)) => limits.run(),
        Some(What::Echo(echo)) => echo.run(),
        Some(What::Empty(empty)) => empty.run(),
        None => cli.speed.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}
