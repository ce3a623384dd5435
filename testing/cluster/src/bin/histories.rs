//! Runs client processes that record histories while servers and the coordinator are killed, stopped and cut
//! off. An independent checker judges the histories. With `client` as its first argument, this program is one
//! of those client processes.

use clap::{Args, Parser, Subcommand};
use ramhold_cluster_tests::histories::{Plan, Zones, is_good, run};
use ramhold_cluster_tests::{
    Checker, Failure, KeyCounts, Operations, Recorder, RunName, VALUE_BYTES, Workload, interrupted,
    is_network_possible,
};
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Break a cluster under load in every way, and have the clients' histories judged.
#[derive(Parser)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  ramhold-histories --kills 10 --stops 5 --cuts 5\n  \
                  ramhold-histories --kills 50 --seconds 600 --into sums.json"
)]
struct Arguments {
    #[command(subcommand)]
    client: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Command {
    #[command(hide = true)]
    Client(Client),
}

#[derive(Args)]
struct Run {
    /// kill -9 of servers, and now and then of the coordinator.
    #[arg(long, default_value_t = 10)]
    kills: u64,
    /// SIGSTOP for 0.1 to 10 s, then SIGCONT.
    #[arg(long, default_value_t = 0)]
    stops: u64,
    /// Members cut off one way, both ways, or with an interface down, for 0.5 to 6 s. Needs root, ip and nft.
    #[arg(long, alias = "partitions", default_value_t = 0)]
    cuts: u64,
    /// Zones of the servers, which are then placed by zone-local.
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=8))]
    zones: Option<u64>,
    /// kill -9 of all servers of a zone.
    #[arg(long, default_value_t = 0, requires = "zones")]
    zone_kills: u64,
    /// Zones cut off from everything else, from clients in turn too. Needs root, ip and nft.
    #[arg(long, default_value_t = 0, requires = "zones")]
    zone_cuts: u64,
    /// How long a zone is cut off.
    #[arg(long, default_value_t = 60)]
    zone_cut_seconds: u64,
    /// Megabytes of objects that fill the memory, and must all be there at the end.
    #[arg(long, default_value_t = 0, requires = "zones")]
    ballast: u64,
    /// Load goes on for at least so many seconds.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    #[arg(long, default_value_t = 5)]
    servers: usize,
    /// Client processes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=16))]
    clients: u64,
    /// In each of them: one operation at a time.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64))]
    sessions: u64,
    /// The pause of a session between two operations.
    #[arg(long, default_value_t = 300)]
    pause_micros: u64,
    /// Decides faults, keys and values, not when they happen; at random when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Adds the sums to this JSON file, and prints all together.
    #[arg(long)]
    into: Option<PathBuf>,
    /// Where the histories of a run go in which something is wrong.
    #[arg(long, default_value = "target/histories")]
    keep: PathBuf,
    /// The checker's search in one run; what is undecided then counts as failure.
    #[arg(long, default_value_t = 120)]
    check_seconds: u64,
    /// The built checker (testing/checker).
    #[arg(long, env = "RAMHOLD_CHECKER")]
    checker: Option<PathBuf>,
}

/// One client process; ends when its input does.
#[derive(Args)]
struct Client {
    #[arg(long)]
    coordinator: SocketAddr,
    #[arg(long)]
    table: String,
    #[arg(long)]
    file: PathBuf,
    #[arg(long)]
    process: u64,
    #[arg(long)]
    begun: u64,
    /// The commit that is tested, for the header.
    #[arg(long)]
    git: String,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    sessions: u64,
    #[arg(long)]
    pause_micros: u64,
    /// Reads every key once and ends.
    #[arg(long)]
    read_all: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.client {
        Some(Command::Client(client)) => client.run().map(|()| true),
        None => arguments.run.run(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

impl Run {
    fn run(self) -> Result<bool, Failure> {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, interrupted())
                .map_err(|error| Failure(format!("cannot watch for signals: {error}")))?;
        }
        let checker = self.checker.ok_or_else(|| {
            Failure("name the built checker with --checker; 'cargo xtask histories' builds it".to_owned())
        })?;
        let program = std::env::current_exe().map_err(|error| Failure(error.to_string()))?;
        let (mut cuts, mut zone_cuts) = (self.cuts, self.zone_cuts);
        if cuts + zone_cuts > 0
            && let Err(failure) = is_network_possible()
        {
            if std::env::var("CI").is_ok_and(|ci| ci == "true") {
                return Err(Failure(format!("CI runs everything, cuts too: {failure}")));
            }
            println!("skipped: cuts: {failure}");
            (cuts, zone_cuts) = (0, 0);
        }
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
        let plan = Plan {
            servers: self.servers,
            kills: self.kills,
            stops: self.stops,
            cuts,
            zones: self.zones.map(|count| Zones {
                count: count as usize,
                kills: self.zone_kills,
                cuts: zone_cuts,
                cut_time: Duration::from_secs(self.zone_cut_seconds),
                ballast: self.ballast * 1_000_000 / VALUE_BYTES as u64,
            }),
            load: Duration::from_secs(self.seconds),
            clients: self.clients,
            sessions: self.sessions,
            pause: Duration::from_micros(self.pause_micros),
            seed,
            program,
            checker: Checker { program: checker, within: Duration::from_secs(self.check_seconds) },
            keep: self.keep,
        };
        println!(
            "seed {seed}: {} servers, {} client processes with {} sessions each",
            plan.servers, plan.clients, plan.sessions
        );
        let sums = run(&plan, |line| println!("{line}"))?;
        println!("{}", sums.table());
        if let Some(path) = self.into {
            let all = sums.add_to(&path)?;
            println!("--- with those before, in {}:\n{}", path.display(), all.table());
        }
        Ok(is_good(&sums))
    }
}

impl Client {
    fn run(self) -> Result<(), Failure> {
        let run = RunName { seed: self.seed, begun: self.begun, git: &self.git };
        let header = run.header(json!({
            "process": self.process, "sessions": self.sessions, "pause_micros": self.pause_micros,
        }));
        let bytes_max = ramhold_cluster_tests::FILE_BYTES_MAX;
        let recorder = Recorder::create(&self.file, self.process, bytes_max, header)
            .map_err(|error| Failure(format!("{}: {error}", self.file.display())))?;
        let workload = Workload {
            coordinator: self.coordinator,
            table: self.table,
            begun: self.begun,
            seed: self.seed ^ (self.process << 32),
            keys: KeyCounts::default(),
            operations: Operations::All,
            sessions: self.sessions,
            pause: Duration::from_micros(self.pause_micros),
        };
        if self.read_all {
            return workload.read_all(&recorder);
        }
        let stops = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&stops);
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            watched.store(true, Ordering::SeqCst);
        });
        workload.run(&recorder, &stops)
    }
}
