//! `ramhold stop`: stops a cluster that `ramhold dev` runs.

use crate::commands::dev::Record;
use crate::failure::Failure;
use crate::local::LOOK_INTERVAL;
use crate::output;
use crate::size::parse_duration;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const HELP: &str = "\
Examples:
  ramhold stop --dir ./cluster
  ramhold stop --dir ./cluster --patience 5m

The coordinator stops first. Then all servers stop together, and flush
everything. 'ramhold dev --dir DIR' starts the cluster again.

Exit codes: 0 the cluster has stopped or was not running, 2 it does not stop.";

/// Stop a cluster that `ramhold dev` started.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Stop {
    /// Directory of the cluster.
    #[arg(long)]
    dir: PathBuf,
    /// Time limit for the stop: 30s, 2m.
    #[arg(long = "patience", value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    within: Duration,
}

pub fn run(arguments: Stop) -> Result<(), Failure> {
    let dir = &arguments.dir;
    if !dir.is_dir() {
        return Err(Failure::usage(format!(
            "{}: there is no such directory; give the --dir of 'ramhold dev'",
            dir.display()
        )));
    }
    if !Record::is_held(dir)? {
        return output::print(&format!("no cluster runs on {}\n", dir.display()));
    }
    let record = Record::read(dir)?;
    let pid = i32::try_from(record.pid).ok().and_then(Pid::from_raw).ok_or_else(|| {
        Failure::usage(format!(
            "{} names no process; stop the processes of this cluster by hand",
            Record::path(dir).display()
        ))
    })?;
    // The process that holds the directory wrote this number and still runs, so the number is not a
    // stranger's.
    kill_process(pid, Signal::TERM)
        .map_err(|error| Failure::usage(format!("cannot signal process {}: {error}", record.pid)))?;
    let start = Instant::now();
    while start.elapsed() < arguments.within {
        if !Record::is_held(dir)? {
            let seconds = start.elapsed().as_secs_f64();
            return output::print(&format!("stopped after {seconds:.1} s; everything is flushed\n"));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Err(Failure::usage(format!(
        "process {} has not ended after {} s; wait longer with --patience, or see the logs in {}",
        record.pid,
        arguments.within.as_secs(),
        dir.join("logs").display()
    )))
}
