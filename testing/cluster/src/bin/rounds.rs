//! Rounds of killing servers under load, with figures.

use clap::Parser;
use ramhold_cluster_tests::rounds::{Rounds, run};
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;

/// Kill servers under load, round after round, and compare everything with the clients' journal.
#[derive(Parser)]
#[command(
    after_help = "Examples:\n  ramhold-rounds --rounds 20\n  ramhold-rounds --servers 7 --victims 2 --rounds 10"
)]
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
