//! Rounds of killing servers under load, with figures.

use clap::Parser;
use ramhold_cluster_tests::rounds::{Gap, Outcome, Rounds, quantile, run};
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::Duration;

/// Kill servers under load, round after round, and compare everything with the clients' journal.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  ramhold-rounds --rounds 20
  ramhold-rounds --servers 7 --victims 2 --rounds 10
  ramhold-rounds --rebuild --rounds 20
  ramhold-rounds --servers 6 --data 1000 --rounds 20
  ramhold-rounds --servers 8 --victims 2 --data 1000 --rounds 20

With --data the clients write so much first, then show how fast they can go, and begin a part as many operations a second
while servers die, however many of them wait; the figure is the longest time in a round from the start of any operation to
its success.")]
struct Arguments {
    #[arg(long, default_value_t = 5)]
    servers: usize,
    /// Killed at the same moment in each round.
    #[arg(long, default_value_t = 1)]
    victims: usize,
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    #[arg(long, default_value_t = 3)]
    replicas: u8,
    /// Measure how long clients wait with so much data, in MB, spread over all servers.
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(10..=100_000))]
    data: Option<u64>,
    /// The share of the peak rate, while servers die.
    #[arg(long, value_name = "PERCENT", default_value_t = 30, requires = "data",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,
    /// In each round the coordinator is killed first and its directory deleted, and one without it makes the state anew.
    #[arg(long)]
    rebuild: bool,
    /// Decides who is killed and what is written; at random when absent.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    let rounds = Rounds {
        servers: arguments.servers,
        victims: arguments.victims,
        rounds: arguments.rounds,
        replicas: arguments.replicas,
        seed,
        rebuild: arguments.rebuild,
        gap: arguments.data.map(|data| Gap { data_bytes: data * 1_000_000, rate_percent: arguments.rate }),
    };
    println!("{rounds:?}");
    match run(rounds, |line| println!("{line}")) {
        Ok(outcome) => {
            println!(
                "{} writes acknowledged, {} reads, longest gap {:.2} s; {}",
                outcome.writes,
                outcome.reads,
                outcome.longest_gap.as_secs_f64(),
                outcome.troubles.join(", ")
            );
            let frames = outcome.frames;
            println!(
                "at the end {} frames in use for {} replicas of what is live",
                frames.used, frames.wanted
            );
            if rounds.gap.is_some() {
                println!("{}", waits(&rounds, &outcome));
            }
            for fault in &outcome.faults {
                println!("FAULT: {fault}");
            }
            println!("faults: {}", outcome.faults.len());
            if outcome.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// The line on the clients' waits. The aim bounds the time for which clients may feel a death.
fn waits(rounds: &Rounds, outcome: &Outcome) -> String {
    let aim = Duration::from_secs(if rounds.victims == 1 { 2 } else { 4 });
    let at = |percent| quantile(&outcome.waits, percent);
    format!(
        "{} operations/s of {} begun; longest wait of a client, of {} rounds: p50 {:.2} s, p99 {:.2} s, max {:.2} s; aim p99 at most {} s: {}",
        outcome.rate_per_second,
        outcome.wanted_per_second,
        outcome.waits.len(),
        at(50).as_secs_f64(),
        at(99).as_secs_f64(),
        at(100).as_secs_f64(),
        aim.as_secs(),
        if at(99) <= aim { "reached" } else { "falls short" }
    )
}
