//! A BCube(4, 1) of real processes: how soon a dead server is declared dead, that cables, ports and switches cost nobody,
//! what a recovery reaches, and what a write waits for and costs.
//!
//! Sixteen servers, each in a network namespace of its own, eight switches, and a bridge for the coordinator and clients,
//! which counts what servers send each other over it: nothing, or the run fails.

mod acks;
mod at_one;
mod bench;
mod busy;
mod capture;
mod outage;
mod peers;
mod recovery;
mod verdicts;
mod writes;

use bench::Bench;
use clap::{Parser, ValueEnum};
use ramhold_cluster_tests::{
    Checker, Cluster, Failure, Network, Options, Recordings, interrupted, is_network_possible,
};
use ramhold_wire::topology::Topology;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TOPOLOGY: &str = "bcube:4,1";
const LEVELS: usize = 2;
const SERVERS: usize = 16;
/// The server at place 00, and a neighbour of it at level 0.
const P: usize = 1;
const R: usize = 2;
const SECOND: Duration = Duration::from_secs(1);

/// Break a BCube(4, 1) of real processes, and measure what that costs.
#[derive(Parser)]
#[command(
    term_width = 80,
    after_help = "\
Examples:
  cargo xtask bench bcube
  cargo xtask bench bcube --only dead --rounds 10
  cargo xtask bench bcube --only switch,port
  cargo xtask bench bcube --only acks,writes
  cargo xtask bench bcube --only busy --busy-minutes 10
  cargo xtask bench bcube --only switch --history /tmp/histories

`switch`, `port`, `isolated`, `recovery` and `busy` record histories of clients,
which the checker in Go judges. Without Go they are recorded only.
Needs root, ip, nft and tc (packages iproute2 and nftables). `acks` and `writes`
need tcpdump, `acks` also mkfs.ext4 and fsfreeze, `writes` also memcached and
redis-server."
)]
struct Arguments {
    /// Parts to run, with commas between them [default: all but busy]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Rounds of `dead`.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Stops of each length in `paused`.
    #[arg(long, default_value_t = 50)]
    stops: u32,
    /// Cuts of each length in `paths`.
    #[arg(long, default_value_t = 10)]
    cuts: u32,
    /// Seconds for which a switch or a port is down.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The rate of both ends of each cable, in megabits per second; 0: as fast as it goes. `recovery` has 50 by itself.
    #[arg(long, default_value_t = 0)]
    megabits: u32,
    /// Megabytes of values of 4 KB on each server in `recovery`.
    #[arg(long, default_value_t = 64)]
    megabytes: u64,
    /// Seconds for each number of clients in `writes`.
    #[arg(long, default_value_t = 4)]
    write_seconds: u64,
    /// Minutes for which `busy` keeps every processor busy.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    busy_minutes: u64,
    /// Folder of the histories: RUN/PART in it has those of one part.
    #[arg(long, value_name = "DIR", default_value = "target/histories/bcube")]
    history: PathBuf,
    /// The built checker (testing/checker).
    #[arg(long, env = "RAMHOLD_CHECKER")]
    checker: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// A server without any cable: how long until it is declared dead.
    Dead,
    /// A server that is stopped for a while.
    Paused,
    /// A switch that is down, under load.
    Switch,
    /// A port that is down, under load.
    Port,
    /// One path between two servers, and all of them.
    Paths,
    /// A server without its cables, but for the one to the coordinator.
    Isolated,
    /// The recovery of a server by its neighbours, over slow cables.
    Recovery,
    /// A write waits for its backups' acknowledgements, and no device.
    Acks,
    /// Writes to one server from 1 to 64 clients, beside memcached and redis-server.
    Writes,
    /// Every processor busy, under a light load; only if it is named.
    Busy,
}

/// The time limit of the checker's search in one history.
const CHECK_WITHIN: Duration = Duration::from_secs(600);
/// The parts that record a history of clients.
const RECORDED: [Part; 5] = [Part::Switch, Part::Port, Part::Isolated, Part::Recovery, Part::Busy];
/// The faults of one cluster, in this order.
const ALL: [Part; 6] = [Part::Paused, Part::Paths, Part::Switch, Part::Port, Part::Isolated, Part::Dead];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The network moves its thread into a namespace.
    match std::thread::spawn(move || run(&arguments)).join() {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(failure)) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(arguments: &Arguments) -> Result<bool, Failure> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted())
            .map_err(|error| Failure(format!("cannot watch for signals: {error}")))?;
    }
    is_network_possible()?;
    let checker = arguments.checker.clone().map(|program| Checker { program, within: CHECK_WITHIN });
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let only = &arguments.only;
    let is_asked = |part: Part| only.is_empty() || only.contains(&part);
    let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    if in_ci && checker.is_none() && RECORDED.into_iter().any(is_asked) {
        return Err(Failure("CI judges every history: name the built checker with --checker".into()));
    }
    let recordings = Recordings::new(&arguments.history, checker, seed);
    let mut is_good = true;
    if is_asked(Part::Recovery) {
        let (megabits, megabytes) = (arguments.megabits, arguments.megabytes);
        let recordings = recordings.clone();
        is_good &= apart(move || recovery::measure(megabits, megabytes, &recordings))?;
    }
    if is_asked(Part::Acks) {
        is_good &= apart(acks::measure)?;
    }
    if is_asked(Part::Writes) {
        let seconds = arguments.write_seconds;
        is_good &= apart(move || writes::measure(seconds))?;
    }
    let named = only.contains(&Part::Busy).then_some(Part::Busy);
    let parts: Vec<Part> = ALL.into_iter().filter(|part| is_asked(*part)).chain(named).collect();
    if !parts.is_empty() {
        is_good &= run_faults(arguments, &parts, recordings)?;
    }
    Ok(is_good)
}

/// A part in a cluster of its own. A network moves its thread into it.
fn apart(measure: impl FnOnce() -> Result<bool, Failure> + Send + 'static) -> Result<bool, Failure> {
    let measured = std::thread::spawn(measure).join();
    measured.unwrap_or_else(|_| Err(Failure("the measurement has panicked".to_owned())))
}

fn run_faults(arguments: &Arguments, parts: &[Part], recordings: Recordings) -> Result<bool, Failure> {
    let topology: Topology = TOPOLOGY.parse().map_err(Failure)?;
    let rate = Some(arguments.megabits).filter(|rate| *rate > 0);
    let network = Network::create_cube(&topology, rate)?;
    network.count_among_servers()?;
    let servers = SERVERS;
    let options = Options { servers, coordinator_options: &["--topology", TOPOLOGY], ..Options::default() };
    let cluster = Cluster::start_in(network, options)?;
    println!("{servers} servers in {TOPOLOGY}, {} Mbit/s on each cable", text_of(rate));
    println!("part      what                                  measured");
    let mut bench = Bench { cluster, servers, recordings, wrong: Vec::new() };
    for part in parts {
        match part {
            Part::Dead => bench.dead(arguments.rounds)?,
            Part::Paused => bench.paused(arguments.stops)?,
            Part::Switch => bench.outage(arguments.seconds, true)?,
            Part::Port => bench.outage(arguments.seconds, false)?,
            Part::Paths => bench.paths(arguments.cuts)?,
            Part::Isolated => bench.isolated()?,
            Part::Busy => bench.busy(arguments.busy_minutes)?,
            Part::Recovery | Part::Acks | Part::Writes => {}
        }
    }
    let crossed = bench.network()?.counted()?;
    bench.row("network", "bytes between servers on the first bridge", &crossed.to_string());
    bench.expect(crossed == 0, "servers talk over the coordinator's network");
    for wrong in &bench.wrong {
        println!("WRONG: {wrong}");
    }
    Ok(bench.wrong.is_empty())
}

fn text_of(rate: Option<u32>) -> String {
    rate.map_or_else(|| "unshaped".to_owned(), |rate| rate.to_string())
}
