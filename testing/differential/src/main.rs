//! `ramhold-differential`: compares a server with redis-server, command by command.

use clap::Parser;
use ramhold_differential::differences::Differences;
use ramhold_differential::link::Servers;
use ramhold_differential::ramhold::Ramhold;
use ramhold_differential::redis::Redis;
use ramhold_differential::rights;
use ramhold_differential::run::{CONNECTION_COUNT_MAX, Outcome, Plan, run};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Send the same random commands to a redis-server and to another server, and compare every reply.
///
/// All databases of both servers are emptied. Exit code 1: replies differ and docs/redis-differences.md does not say why;
/// 2: a server cannot be reached.
#[derive(Debug, Parser)]
struct Options {
    /// The server to compare; without it a Ramhold cluster is started.
    #[arg(long, env = "RAMHOLD_RESP", value_parser = address)]
    right: Option<SocketAddr>,
    /// The program of that cluster.
    #[arg(long, env = "RAMHOLD_BIN", default_value = "target/release/ramhold")]
    ramhold: PathBuf,
    /// Its servers.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
    /// A redis-server; without it one is started.
    #[arg(long, value_parser = address)]
    left: Option<SocketAddr>,
    /// Commands to compare.
    #[arg(long, default_value_t = 100_000)]
    commands: u64,
    /// Connections side by side, each with two databases of its own.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTION_COUNT_MAX)))]
    connections: u32,
    /// By default from the clock.
    #[arg(long)]
    seed: Option<u64>,
    /// Only this episode of the first connection; takes the place of --commands.
    #[arg(long)]
    episode: Option<u64>,
    /// End after so many kinds of differences.
    #[arg(long, default_value_t = 20)]
    kinds: usize,
    /// Leave out these commands: their names, with commas between.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Fail, too, when a row of docs/redis-differences.md was not needed.
    #[arg(long)]
    every_row: bool,
    /// Instead, compare what random accounts may do: so many random commands, tried by ACL DRYRUN on both servers.
    #[arg(long)]
    rights: Option<u64>,
    /// Show how often each command was answered, and how often with an error.
    #[arg(long)]
    tally: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "there is no such address".to_owned())
}

fn main() -> ExitCode {
    let options = Options::parse();
    match compare(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ramhold-differential: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare(options: &Options) -> io::Result<bool> {
    let differences = Differences::documented().map_err(io::Error::other)?;
    let redis = if options.left.is_none() { Some(Redis::start()?) } else { None };
    let left = options.left.or(redis.as_ref().map(Redis::address)).expect("one of them is there");
    let ramhold = match options.right {
        None => Some(Ramhold::start(&options.ramhold, options.servers)?),
        Some(_) => None,
    };
    let right = options.right.or(ramhold.as_ref().map(Ramhold::address)).expect("one of them is there");
    let clock = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    };
    let seed = options.seed.unwrap_or_else(clock);
    println!("seed {seed}, {} connections, left {left}, right {right}", options.connections);
    if let Some(questions) = options.rights {
        return compare_rights(Servers { left, right }, seed, questions, options.kinds.max(1));
    }
    let plan = Plan {
        servers: Servers { left, right },
        seed,
        commands: options.commands,
        connections: if options.episode.is_some() { 1 } else { options.connections },
        kinds_max: options.kinds.max(1),
        only: options.episode,
        without: options.without.iter().map(|name| name.to_ascii_uppercase()).collect(),
    };
    let started = Instant::now();
    let next = AtomicU64::new(100_000);
    let outcome = run(&plan, &differences, |compared| {
        let due = next.load(Ordering::Relaxed);
        if compared >= due && next.fetch_max(due + 100_000, Ordering::Relaxed) == due {
            eprintln!("{compared} commands compared, {:.0} s", started.elapsed().as_secs_f64());
        }
    })?;
    report(&outcome, seed, options, &differences);
    let unneeded: Vec<&str> =
        differences.hits().filter(|(_, hits)| *hits == 0).map(|(name, _)| name).collect();
    if !unneeded.is_empty() {
        println!("not needed: {}", unneeded.join(", "));
    }
    let (total, seconds) = (outcome.tally.total(), started.elapsed().as_secs_f64());
    println!(
        "{total} commands in {} episodes compared in {seconds:.1} s, {:.0} a second; {} unexplained differences, {} of {} \
         rows needed",
        outcome.episodes,
        total as f64 / seconds,
        outcome.count,
        differences.rows().len() - unneeded.len(),
        differences.rows().len(),
    );
    Ok(outcome.count == 0 && (unneeded.is_empty() || !options.every_row))
}

fn compare_rights(servers: Servers, seed: u64, questions: u64, kinds: usize) -> io::Result<bool> {
    let started = Instant::now();
    let compared = rights::run(servers, seed, questions, kinds)?;
    for difference in &compared.differences {
        println!("\nseed {seed}:\n  {difference}");
    }
    println!(
        "{} rights compared in {:.1} s; {} differences; redis-server allowed {}, and found lacking: command {}, key {}, \
         channel {}; no command {}",
        compared.count,
        started.elapsed().as_secs_f64(),
        compared.differences.len(),
        compared.tally[0],
        compared.tally[1],
        compared.tally[2],
        compared.tally[3],
        compared.tally[4],
    );
    // A comparison that never met one of them has shown little.
    Ok(compared.differences.is_empty() && compared.tally[..4].iter().all(|count| *count > 0))
}

fn report(outcome: &Outcome, seed: u64, options: &Options, differences: &Differences) {
    if options.tally {
        println!("{:<20} {:>10} {:>10}", "command", "answered", "errors");
        for (name, [good, bad]) in &outcome.tally.0 {
            println!("{:<20} {good:>10} {bad:>10}", ramhold_differential::reply::text(name.as_bytes()));
        }
    }
    for finding in &outcome.findings {
        println!("\nseed {seed}, connection {}, episode {}:", finding.connection, finding.episode);
        for (at, step) in finding.steps.iter().enumerate() {
            println!("  {step}");
            if at == finding.found.at {
                println!("    left:  {}\n    right: {}", finding.found.left, finding.found.right);
            }
        }
    }
    for (name, hits) in differences.hits().filter(|(_, hits)| *hits > 0) {
        println!("explained: {name}, {hits} times");
    }
}
