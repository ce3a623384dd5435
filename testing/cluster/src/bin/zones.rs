//! How many bytes cross zones: per byte written, and when a server is recovered. Three zones of three servers, each in a
//! network namespace of its own; the switch counts what goes from one zone to another.

use clap::Parser;
use ramhold_client::{Durability, TableOptions};
use ramhold_cluster_tests::{
    Cluster, Failure, Network, Options, fill, interrupted, is_network_possible, verify,
};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SERVERS: usize = 9;
const ZONES: usize = 3;
const TABLE: &str = "zones";
const PATIENCE: Duration = Duration::from_secs(60);

/// Count the bytes that cross zones, by placement.
#[derive(Parser)]
#[command(after_help = "Examples:\n  ramhold-bench-zones\n  ramhold-bench-zones --megabytes 100")]
struct Arguments {
    /// Megabytes of values of 4 KB that are written to each cluster.
    #[arg(long, default_value_t = 1200)]
    megabytes: u64,
}

/// A cluster to be measured, and what must come out.
struct Case {
    placement: &'static str,
    coordinator_options: &'static [&'static str],
    replicas: u8,
    /// The most bytes that may cross for each byte written.
    crossed_most: f64,
    /// The least and the most share of the fetched bytes that may come from another zone.
    far: (f64, f64),
}

const CASES: [Case; 3] = [
    Case {
        placement: "zone-local",
        coordinator_options: &["--topology", "zones", "--placement", "zone-local"],
        replicas: 3,
        crossed_most: 2.1,
        far: (0.0, 0.0),
    },
    Case {
        placement: "zone-local",
        coordinator_options: &["--topology", "zones", "--placement", "zone-local"],
        replicas: 2,
        crossed_most: 1.05,
        far: (0.0, 0.0),
    },
    Case {
        placement: "scatter",
        coordinator_options: &["--topology", "zones"],
        replicas: 3,
        crossed_most: f64::INFINITY,
        far: (0.5, 1.0),
    },
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Failure> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted())
            .map_err(|error| Failure(format!("cannot watch for signals: {error}")))?;
    }
    is_network_possible()?;
    println!("{SERVERS} servers in {ZONES} zones, {} MB of values of 4 KB", arguments.megabytes);
    println!("placement    R  crossed/written  most   recovered  from far        most    wrong");
    let mut is_good = true;
    for case in &CASES {
        is_good &= measure(arguments, case)?;
    }
    Ok(is_good)
}

fn measure(arguments: &Arguments, case: &Case) -> Result<bool, Failure> {
    // A network moves its thread into it, so each case has a thread of its own.
    let arguments = arguments.megabytes;
    std::thread::scope(|scope| scope.spawn(|| measure_here(arguments, case)).join())
        .unwrap_or_else(|_| Err(Failure("the measurement has panicked".to_owned())))
}

fn measure_here(megabytes: u64, case: &Case) -> Result<bool, Failure> {
    let network = Network::create(SERVERS + 1)?;
    let groups: Vec<Vec<usize>> =
        (0..ZONES).map(|zone| (1..=SERVERS).filter(|member| member % ZONES == zone).collect()).collect();
    network.count_between(&groups)?;
    let options = Options {
        servers: SERVERS,
        zones: ZONES,
        coordinator_options: case.coordinator_options,
        ..Options::default()
    };
    let mut cluster = Cluster::start_in(network, options)?;
    let mut client = cluster.client(PATIENCE)?;
    let table = TableOptions {
        durability: Durability::Buffered,
        replicas: case.replicas,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    let table = client.create_table(TABLE, table)?;
    let counted = |cluster: &Cluster| cluster.network().expect("it is in a network").counted();
    let before = counted(&cluster)?;
    let count = megabytes * 1_000_000 / ramhold_cluster_tests::VALUE_BYTES as u64;
    let written = fill(&mut client, table, count)?;
    let crossed = (counted(&cluster)? - before) as f64 / written as f64;
    cluster.wait_replicated(0)?;

    let began = Instant::now();
    cluster.kill(1);
    verify(&mut client, table, count)?;
    let read = began.elapsed();
    cluster.wait_up(SERVERS - 1)?;
    let recovery = cluster.recoveries(1)?.pop().ok_or_else(|| Failure("no recovery is told".to_owned()))?;
    let done = recovery.parts.iter().filter(|part| part.live.is_some());
    let (mut fetched, mut far) = (0, 0);
    for part in done {
        fetched += part.bytes;
        far += part.times.far_bytes.ok_or_else(|| Failure("no zones are told of".to_owned()))?;
    }
    let share = far as f64 / fetched.max(1) as f64;
    let mut wrong = Vec::new();
    if crossed > case.crossed_most {
        wrong.push("too much crosses");
    }
    if fetched == 0 || share < case.far.0 || share > case.far.1 {
        wrong.push("fetched from far");
    }
    println!(
        "{:<12} {}  {crossed:>15.3}  {:>4}  {:>6} MB  {:>6} MB ({:>3.0} %)  {:>4.0} %  {}   all read {:.1} s after the kill",
        case.placement,
        case.replicas,
        case.crossed_most,
        fetched / 1_000_000,
        far / 1_000_000,
        100.0 * share,
        100.0 * case.far.1,
        if wrong.is_empty() { "no".to_owned() } else { wrong.join(", ") },
        read.as_secs_f64(),
    );
    Ok(wrong.is_empty())
}
