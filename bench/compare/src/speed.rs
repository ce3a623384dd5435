//! Operations per second and latency, beside redis-server.
//!
//! Each test runs several times, Ramhold and Redis in turn. The median is printed with the ratio. The load is
//! one client thread with a given number of operations under way, random keys of 30 bytes and values of 100
//! bytes, over TCP on the loopback. The first comparison is Redis without persistence beside Ramhold with R =
//! 0. The second is Redis with its log synced every second beside Ramhold with R = 3.
//!
//! Not here: memory.

use crate::one_run::{Figures, OBJECTS, Test};
use crate::ramhold::Transport;
use crate::{process, ramhold, redis};
use clap::Args;

/// Operations per second and latency, beside redis-server.
#[derive(Args, Debug)]
pub struct Speed {
    /// Duration of each run in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Runs of each test; the median is printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// How Ramhold's processes and its client reach each other. redis-server is always reached over TCP.
    #[arg(long, value_enum, default_value_t = Transport::Tcp)]
    transport: Transport,
    /// One run of one second per test: shows that the benchmark works, not the speed.
    #[arg(long)]
    smoke: bool,
}

const TESTS: [(bool, u16); 6] = [(true, 1), (false, 1), (true, 16), (false, 16), (true, 64), (false, 64)];

impl Speed {
    pub fn run(self) -> Result<(), String> {
        let (seconds, runs) = if self.smoke { (1, 1) } else { (self.seconds, usize::from(self.runs)) };
        println!(
            "one client thread, keys 30 B, values 100 B, {OBJECTS} objects, medians of {runs} runs of {seconds} s"
        );
        println!("servers on core 0, client on core 1; operations per second, p50 / p99 in microseconds");
        if self.transport == Transport::SharedMemory {
            println!("Ramhold over shared memory, redis-server over TCP");
        }
        println!(
            "a byte to a sleeping process and back: {:.1} us on the other core, {:.1} us on the same\n",
            process::echo_micros(0)?,
            process::echo_micros(1)?
        );
        {
            println!("without persistence: ramhold R = 0 (1 server), redis with appendonly off");
            let ramhold = ramhold::Cluster::start(1, 0, self.transport)?;
            ramhold.fill()?;
            let redis = redis::Server::start(&["--appendonly", "no"])?;
            table(&ramhold, &redis, seconds, runs)?;
        }
        println!(
            "\npersistent: ramhold R = 3 buffered (4 servers on one core), redis with appendfsync everysec"
        );
        let ramhold = ramhold::Cluster::start(4, 3, self.transport)?;
        ramhold.fill()?;
        let redis = redis::Server::start(&["--appendonly", "yes", "--appendfsync", "everysec"])?;
        table(&ramhold, &redis, seconds, runs)
    }
}

fn table(ramhold: &ramhold::Cluster, redis: &redis::Server, seconds: u64, runs: usize) -> Result<(), String> {
    println!("{:<24} {:>30} {:>30} {:>8}", "test", "ramhold", "redis", "ratio");
    for (reads, pipeline) in TESTS {
        let test = Test { reads, pipeline, seconds };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            ours.push(ramhold.run(test)?);
            theirs.push(redis.run(test)?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let name = format!("{}, {pipeline} under way", if reads { "read" } else { "write" });
        println!(
            "{name:<24} {:>30} {:>30} {:>7.2}x",
            text(ours),
            text(theirs),
            ours.ops_per_second / theirs.ops_per_second.max(1.0)
        );
    }
    Ok(())
}

fn text(figures: Figures) -> String {
    format!("{:>9.0}  {:>7.1} / {:>7.1}", figures.ops_per_second, figures.p50_micros, figures.p99_micros)
}

/// The run with the median rate.
fn median(mut runs: Vec<Figures>) -> Figures {
    runs.sort_by(|a, b| a.ops_per_second.total_cmp(&b.ops_per_second));
    runs[runs.len() / 2]
}
