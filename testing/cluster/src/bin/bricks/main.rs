//! Bricks that die, stop and come back under load, beside servers: how long clients wait, and what is lost.
//!
//! Everything runs on this machine: six bricks, a coordinator, and eight clients that begin operations at even intervals,
//! however long earlier ones take. The coordinator is stopped before the first fault of a brick and goes on after the
//! last one.

mod cost;
mod faults;
mod figures;
mod load;
mod restart;
mod rolling;
mod scaling;
mod stage;
mod stutter;

use clap::{Parser, ValueEnum};
use ramhold_cluster_tests::{Checker, Failure, Recordings, interrupted};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Kill and stop bricks under load, and measure what clients notice.
#[derive(Parser)]
#[command(
    term_width = 80,
    after_help = "\
Examples:
  cargo xtask bench bricks
  cargo xtask bench bricks --only kills,stops --minutes 30
  cargo xtask bench bricks --only kills,ordinary
  cargo xtask bench bricks --only cuts --minutes 30
  cargo xtask bench bricks --only restart,cost
  cargo xtask bench bricks --only rolling
  cargo xtask bench bricks --only stutter --minutes 15
  cargo xtask bench bricks --only scaling --megabytes 50 --most 12

`kills`, `stops`, `cuts` and `ordinary` record histories of clients, which the
checker in Go judges. Without Go they are recorded only."
)]
struct Arguments {
    /// Parts to run, with commas between them [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Minutes of `kills`, `stops`, `cuts` and `ordinary` each, and after the restart in `stutter`.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Megabytes of values of 1 KB under faults, in `rolling` and in `scaling`.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=2000))]
    megabytes: u64,
    /// Megabytes of values of 1 KB on each brick in `restart`.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=8000))]
    restart_megabytes: u64,
    /// Bricks at most in `scaling`: it begins with 3.
    #[arg(long, default_value_t = 12, value_parser = parse_most)]
    most: usize,
    /// The rate of operations under faults, as a percentage of the peak.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100))]
    rate_percent: u32,
    /// Folder of the histories: RUN/PART in it has those of one part.
    #[arg(long, value_name = "DIR", default_value = "target/histories/bricks")]
    history: PathBuf,
    /// The built checker (testing/checker).
    #[arg(long, env = "RAMHOLD_CHECKER")]
    checker: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// A brick is killed every 10 s, and started again at once.
    Kills,
    /// A brick is stopped for 2 s every 10 s.
    Stops,
    /// All packets from and to a brick are lost for 2 s, every 10 s. Needs root, `unshare`, `ip` and `nft`.
    Cuts,
    /// A server of an ordinary table with R = 3 is killed every 10 s: told beside `kills`.
    Ordinary,
    /// A brick with much data is killed: until it serves, and until it has its share of reads.
    Restart,
    /// One client's times and the processor time of an operation, beside an ordinary table with R = 3.
    Cost,
    /// Six bricks are restarted one after the other by 'ramhold brick rolling-restart'.
    Rolling,
    /// A brick whose share of the processor shrinks is restarted, and no other one within `--minutes`. Needs root.
    Stutter,
    /// Bricks are added one by one, and removed again.
    Scaling,
}

const ALL: [Part; 9] = [
    Part::Kills,
    Part::Stops,
    Part::Cuts,
    Part::Ordinary,
    Part::Restart,
    Part::Cost,
    Part::Rolling,
    Part::Stutter,
    Part::Scaling,
];
/// The time limit of the checker's search in one history.
const CHECK_WITHIN: Duration = Duration::from_secs(600);

/// So that tablets come out even: 3 times a power of two.
fn parse_most(text: &str) -> Result<usize, String> {
    let most: usize = text.parse().map_err(|_| "not a number of bricks".to_owned())?;
    if [6, 12, 24].contains(&most) { Ok(most) } else { Err("give 6, 12 or 24".to_owned()) }
}

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
    let checker = arguments.checker.clone().map(|program| Checker { program, within: CHECK_WITHIN });
    let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    if in_ci && checker.is_none() {
        return Err(Failure("CI judges every history: name the built checker with --checker".into()));
    }
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let recordings = Recordings::new(&arguments.history, checker, seed);
    let mut is_good = true;
    for part in ALL.into_iter().filter(|part| arguments.only.is_empty() || arguments.only.contains(part)) {
        let fault = match part {
            Part::Kills | Part::Ordinary => faults::Fault::Kill,
            Part::Stops => faults::Fault::Stop,
            Part::Cuts => faults::Fault::Cut,
            Part::Restart => {
                is_good &= restart::measure(arguments.restart_megabytes, seed)?;
                continue;
            }
            Part::Cost => {
                is_good &= cost::measure()?;
                continue;
            }
            Part::Rolling => {
                is_good &= rolling::measure(arguments.megabytes, seed)?;
                continue;
            }
            Part::Stutter => {
                is_good &= stutter::measure(arguments.minutes, arguments.rate_percent, seed)?;
                continue;
            }
            Part::Scaling => {
                is_good &= scaling::measure(arguments.megabytes, arguments.most, seed)?;
                continue;
            }
        };
        let run = faults::Run {
            part: match part {
                Part::Ordinary => "ordinary",
                Part::Stops => "stops",
                Part::Cuts => "cuts",
                _ => "kills",
            },
            is_quorum: part != Part::Ordinary,
            fault,
            minutes: arguments.minutes,
            megabytes: arguments.megabytes,
            rate_percent: arguments.rate_percent,
            seed,
        };
        // The network of a run is that of its thread, and processes end with the thread that has started them.
        let measured = std::thread::scope(|scope| scope.spawn(|| run.measure(&recordings)).join());
        is_good &= measured.unwrap_or_else(|_| Err(Failure("the run has panicked".into())))?;
    }
    Ok(is_good)
}
