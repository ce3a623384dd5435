//! Runs seeds of simulated clusters, and prints what happened in them and which checks failed.
//!
//! The exit code is 1 when a seed failed, and 2 when a seed could not run. A failing seed is printed with the
//! command that replays it.

mod in_order;
#[cfg(feature = "planted")]
mod mutants;

use clap::Parser;
use in_order::in_order;
use ramhold_base::{Mark, processor};
use ramhold_world::cluster::Cluster;
use ramhold_world::cluster::bricks::BrickSetup;
use ramhold_world::scenario::{Course, Plan, Report, run};
use ramhold_world::specimen::{Planted, Specimen};
use ramhold_world::tally::Tally;
use ramhold_world::world::Log;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Kinds of faults that a set of seeds must have met.
const FAULTS: [&str; 20] = [
    "bit rot",
    "broken connection",
    "clog",
    "corrupt frame",
    "crash",
    "crash between effects",
    "crash of all",
    "cut of some links",
    "dead for good",
    "doubled frame",
    "held frame",
    "lost frame",
    "memory flip",
    "one-way cut",
    "two-way cut",
    "power cut",
    "read error",
    "stall",
    "store failure",
    "torn write",
];

/// Kinds of faults that a set of seeds with bricks must have met.
const BRICK_FAULTS: [&str; 15] = [
    "crash",
    "crash between effects",
    "crash of all bricks",
    "cut of some links",
    "dead for good",
    "doubled frame",
    "held frame",
    "lost frame",
    "one-way cut",
    "power cut of a brick",
    "power cut of a brick that starts",
    "power cut of all bricks",
    "replacement of a brick",
    "stall",
    "stop of a brick",
];

/// The marks that a set of seeds with bricks must have met: at bricks, and in sessions.
const BRICK_MARKS: [&str; 24] = [
    "brick_bound_rose",
    "brick_forgot_a_stamp",
    "brick_grave_found",
    "brick_grave_gone",
    "brick_life_begun",
    "brick_log_not_whole",
    "brick_rebuild_begun",
    "brick_rebuilt",
    "brick_refused",
    "brick_rejected",
    "brick_repaired",
    "brick_sibling_restarted",
    "brick_sibling_silent",
    "brick_sweep_behind",
    "brick_swept",
    "brick_tablets_changed",
    "brick_tablets_dropped",
    "quorum_left_unknown",
    "quorum_no_quorum",
    "quorum_replaced",
    "quorum_settled",
    "quorum_settled_as_never",
    "quorum_two_phases",
    "quorum_unknown",
];

/// A long seed with bricks runs for so many seconds at least, and its bricks rest for a while: tombstones go late.
const LONG_SECONDS: u64 = 600;

/// Seeds that are run twice.
const TWICE: u64 = 3;

/// Runs simulated clusters under faults and checks what their clients saw.
#[derive(Parser)]
#[command(name = "ramhold-world")]
struct Arguments {
    /// Seeds to run: A..B, without B.
    #[arg(long, default_value = "0..20", value_parser = seeds)]
    seeds: Range<u64>,
    /// Simulated seconds with faults per seed.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Runs this seed alone, twice, and compares the traces.
    #[arg(long)]
    replay: Option<u64>,
    /// With --replay: prints every report, fault and start.
    #[arg(long)]
    verbose: bool,
    /// Prints the hash of each seed's trace: a change that is to change nothing leaves them all the same.
    #[arg(long)]
    traces: bool,
    /// Adds the sums to this JSON file.
    #[arg(long)]
    into: Option<PathBuf>,
    /// Fails unless the set as a whole counts: per seed 5,000 operations done, 2 crashes and a recovery with data on
    /// average, every fault kind and crash point met, at most a fifth of the operations unknown; and runs the first
    /// seeds twice, to compare their traces.
    #[arg(long)]
    demand: bool,
    /// With --demand: for each crash point that no seed met, so many seeds more at most, aimed at it, until it is met. Some
    /// points are met once in hundreds of seeds.
    #[arg(long, default_value_t = 0)]
    further: u64,
    /// The crash point at which every process dies that is to die at a drawn one, if its role has this point.
    #[arg(long, value_name = "POINT", value_parser = crash_point)]
    aim: Option<&'static str>,
    /// Gives the servers so little memory that the clients fill it: writes are refused, all else has to go on.
    #[arg(long)]
    tight: bool,
    /// The servers stand in two or three zones, which fail as a whole.
    #[arg(long)]
    zones: bool,
    /// The servers reach each other on two networks of their own, each of which fails in parts or as a whole.
    #[arg(long)]
    links: bool,
    /// The servers are in a BCube(3, 1), at some of its places, with a network for each level. Its switches and ports fail.
    #[arg(long)]
    cubes: bool,
    /// Data is kept by neighbourhoods. One server of each seed dies, and then one that has a role in its recovery, at a
    /// drawn step of the recovery or of the moves of tablets that follow. --seconds has no effect.
    #[arg(long, conflicts_with_all = ["tight", "zones", "links", "cubes", "resp", "specimen", "planted", "demand"])]
    roles: bool,
    /// Gives every seed Redis clients among the others, not only one of three.
    #[arg(long)]
    resp: bool,
    /// Bricks stand beside the servers, and every client works on a quorum table, too. Bricks die, lose power, stop and are
    /// replaced; one brick's clock may be an hour off. One seed in 32 takes ten minutes at least, in some of which bricks have
    /// no faults: tombstones go then.
    #[arg(long, conflicts_with_all = ["tight", "zones", "links", "cubes", "roles", "resp", "specimen", "planted"])]
    bricks: bool,
    /// Runs the small specimen store instead of Ramhold, to test the simulator itself.
    #[arg(long)]
    specimen: bool,
    /// A fault to plant in the specimen, to see it found.
    #[arg(long)]
    planted: Option<String>,
    /// Plants one defect of Ramhold after the other and looks how many seeds find it; needs a build with
    /// `--features planted`, as `cargo xtask mutants` makes.
    #[arg(long)]
    mutants: bool,
    /// With --mutants: writes into this file, one a line, each defect and after how many seeds it was found; nothing
    /// after those that were not.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Prints the processor paths, one a line, and which of them run here (see RAMHOLD_CPU in CONTRIBUTING.md).
    #[arg(long)]
    processor: bool,
    /// With --mutants: runs no seed for these, which count as not found.
    #[arg(long, value_name = "DEFECT", value_delimiter = ',')]
    except: Vec<String>,
    /// With --mutants: this one alone; with --replay: planted while the seed runs.
    #[arg(long)]
    defect: Option<String>,
}

/// The system that is run.
enum Which {
    /// Ramhold itself.
    Cluster(Cluster),
    /// Ramhold with neighbourhoods, each of whose servers may die in its role.
    Roles,
    /// A small store in which faults can be planted. It shows that they are found.
    Specimen(Specimen),
}

fn crash_point(text: &str) -> Result<&'static str, String> {
    let named = Mark::ALL.iter().map(|mark| mark.name()).find(|name| *name == text);
    named.ok_or_else(|| format!("no process reports {text:?}"))
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("two numbers with .. between them")?;
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{text:?}: {e}"));
    Ok(number(from)?..number(to)?)
}

/// One seed; a panic of a machine is a failure of the seed.
fn run_seed(which: &Which, seed: u64, seconds: u64, verbose: bool) -> Result<Report, String> {
    let log: Option<Log> = if verbose { Some(Box::new(|line| println!("{line}"))) } else { None };
    let is_long =
        matches!(which, Which::Cluster(cluster) if cluster.bricks.is_some()) && BrickSetup::is_long(seed);
    let plan = match is_long {
        true => Plan { bricks_rest: true, ..Plan::seconds(seconds.max(LONG_SECONDS)) },
        false => Plan::seconds(seconds),
    };
    let run_it = || match which {
        Which::Cluster(cluster) => run(&cluster.varied(seed), seed, &plan, log),
        Which::Roles => {
            run(&Cluster::of_roles(seed), seed, &Plan { course: Course::Roles, ..plan.clone() }, log)
        }
        Which::Specimen(specimen) => run(specimen, seed, &plan, log),
    };
    catch_unwind(AssertUnwindSafe(run_it)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        format!("panic: {}", text.unwrap_or_else(|| "without a message".into()))
    })
}

/// The reason why a seed failed; none: it did not fail.
fn trouble(report: &Report) -> Option<String> {
    let violations = report.verdict.violations.iter().map(|v| v.describe(&report.history));
    let stuck = report.stuck.iter().map(|s| format!("stuck: {s}"));
    let findings = report.findings.iter().map(|f| format!("audit: {f}"));
    let lines: Vec<String> = stuck.chain(findings).chain(violations).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Prints the last operations of each client: the place to begin when a client is stuck.
fn print_last_operations(report: &Report) {
    let mut clients: Vec<u32> = report.history.iter().map(|o| o.client).collect();
    clients.sort_unstable();
    clients.dedup();
    for client in clients {
        let own = report.history.iter().filter(|o| o.client == client);
        for operation in own.rev().take(3) {
            println!("last of its client: {operation}");
        }
    }
}

/// The results of one seed: what is to be printed, and its part of the sums.
#[derive(Default)]
struct Done {
    text: String,
    tally: Tally,
}

/// Runs one seed, and what its failure tells. With --replay it is run twice.
fn done(system: &Which, seed: u64, arguments: &Arguments) -> Done {
    let is_replay = arguments.replay.is_some();
    let mut done = Done::default();
    let result = run_seed(system, seed, arguments.seconds, arguments.verbose && is_replay);
    let why = match &result {
        Ok(report) => {
            done.tally.add(report);
            if arguments.traces {
                done.text += &format!("seed {seed} trace {:016x}\n", report.trace);
            }
            if is_replay && report.stuck.is_some() {
                print_last_operations(report);
            }
            if is_replay {
                report.errors.iter().for_each(|error| println!("error report: {error}"));
            }
            trouble(report)
        }
        Err(panic) => Some(panic.clone()),
    };
    let why = why.or_else(|| {
        let first = result.ok().filter(|_| is_replay)?;
        let again = run_seed(system, seed, arguments.seconds, false).ok()?;
        println!("trace {:016x}, {} steps", first.trace, first.steps);
        (again.trace != first.trace).then(|| "two runs of this seed differ".to_string())
    });
    if let Some(why) = why {
        let choices = [
            (arguments.tight, " --tight"),
            (arguments.zones, " --zones"),
            (arguments.links, " --links"),
            (arguments.cubes, " --cubes"),
            (arguments.roles, " --roles"),
            (arguments.bricks, " --bricks"),
            (arguments.resp, " --resp"),
        ];
        let chosen: String =
            choices.iter().filter(|(is_chosen, _)| *is_chosen).map(|(_, name)| *name).collect();
        let planted = arguments.planted.as_ref().map_or(String::new(), |p| format!(" --planted {p}"));
        let aim = match system {
            Which::Cluster(Cluster { aim: Some(point), .. }) => format!(" --aim {point}"),
            _ => String::new(),
        };
        let seconds = arguments.seconds;
        done.text += &format!("seed {seed} FAILED: {why}\n");
        done.text += &format!(
            "replay: ramhold-world --replay {seed} --verbose --seconds {seconds}{chosen}{aim}{planted}\n"
        );
        done.tally.add_failure(seed, &why);
    }
    done
}

/// Runs seeds that are aimed at a crash point until a process died there; none, if one did already.
fn meet(cluster: Cluster, point: &'static str, seeds: Range<u64>, arguments: &Arguments, tally: &mut Tally) {
    let name = format!("crash point.{point}");
    if seeds.is_empty() || tally.sum(&name) > 0 {
        return;
    }
    println!("no process died at {point}: further seeds are aimed at it");
    let aimed = Which::Cluster(Cluster { aim: Some(point), ..cluster });
    in_order(
        seeds,
        |seed| done(&aimed, seed, arguments),
        |seed, done| {
            print!("{}", done.text);
            tally.merge(&done.tally);
            if tally.sum(&name) == 0 {
                return ControlFlow::Continue(());
            }
            println!("seed {seed} met {point}");
            ControlFlow::Break(())
        },
    );
}

fn print_sums(tally: &Tally, took: f64) {
    let seconds = tally.sum("simulated millis") as f64 / 1000.0;
    for (name, value) in &tally.sums {
        println!("{value:>12}  {name}");
    }
    println!(
        "{seconds:.0} simulated seconds in {took:.1} s: {:.0} times as fast as real",
        seconds / took.max(0.001)
    );
}

/// Adds to the sums that are in the file already. A file of another kind is left as it is.
fn add_into(path: &Path, tally: &Tally) -> Result<(), String> {
    let mut sum = match std::fs::read_to_string(path) {
        Ok(text) => Tally::from_json(&text).ok_or("is no tally; it was left as it is")?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Tally::default(),
        Err(error) => return Err(error.to_string()),
    };
    sum.merge(tally);
    std::fs::write(path, sum.to_json().to_string()).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(refused) = processor::limit(std::env::var_os(processor::VARIABLE).as_deref()) {
        eprintln!("ramhold-world: {refused}");
        return ExitCode::from(2);
    }
    if arguments.processor {
        print!("{}", processor::table());
        return ExitCode::SUCCESS;
    }
    let planted = match &arguments.planted {
        None => None,
        Some(name) => match Planted::ALL.into_iter().find(|p| format!("{p:?}") == *name) {
            Some(planted) => Some(planted),
            None => {
                println!("no such planted fault; there are {:?}", Planted::ALL);
                return ExitCode::from(2);
            }
        },
    };
    let system = if arguments.specimen || planted.is_some() {
        Which::Specimen(Specimen { servers: 3, planted })
    } else if arguments.roles {
        Which::Roles
    } else {
        Which::Cluster(Cluster {
            tight: arguments.tight,
            resp: arguments.resp,
            zones: u8::from(arguments.zones),
            planes: 2 * u8::from(arguments.links || arguments.cubes),
            cube: arguments.cubes.then_some((3, 0)),
            bricks: arguments.bricks.then(|| BrickSetup::draw(0)),
            aim: arguments.aim,
            ..Cluster::default()
        })
    };
    #[cfg(feature = "planted")]
    if arguments.mutants {
        return mutants::run(&system, &arguments);
    }
    #[cfg(feature = "planted")]
    if let Some(name) = &arguments.defect {
        use ramhold_base::planted::{Defect, plant};
        plant(Defect::ALL.iter().copied().find(|defect| format!("{defect:?}") == *name));
    }
    if !ramhold_base::planted::BUILT_IN && (arguments.mutants || arguments.defect.is_some()) {
        println!("defects are planted only in a build with --features planted: cargo xtask mutants");
        return ExitCode::from(2);
    }
    let seeds = arguments.replay.map_or(arguments.seeds.clone(), |seed| seed..seed + 1);
    let further = if arguments.demand && !arguments.bricks { arguments.further } else { 0 };
    let demanded = Mark::ALL.iter().filter(|mark| mark.purpose().is_demanded());
    let points: Vec<&str> = demanded.map(|mark| mark.name()).collect();
    let begun = Instant::now();
    let mut tally = Tally::default();
    in_order(
        seeds.clone(),
        |seed| done(&system, seed, &arguments),
        |_, done| {
            print!("{}", done.text);
            tally.merge(&done.tally);
            ControlFlow::Continue(())
        },
    );
    if let Which::Cluster(cluster) = &system {
        for point in &points {
            meet(*cluster, point, seeds.end..seeds.end.saturating_add(further), &arguments, &mut tally);
        }
    }
    print_sums(&tally, begun.elapsed().as_secs_f64());
    let mut lacks = Vec::new();
    if arguments.tight && arguments.replay.is_none() {
        let seeds = tally.sum("seeds");
        for name in ["mark.memory_98", "refused for memory"] {
            let have = tally.sum(name);
            if have < seeds {
                lacks.push(format!("{name}: {have} in {seeds} seeds; at least one per seed is demanded"));
            }
        }
    }
    if arguments.demand {
        lacks = match arguments.bricks {
            true => tally.brick_shortfalls(&BRICK_FAULTS, &BRICK_MARKS),
            false => tally.shortfalls(&FAULTS, &points),
        };
        let trace = |seed| run_seed(&system, seed, arguments.seconds, false).ok().map(|report| report.trace);
        let first = seeds.start..seeds.end.min(seeds.start + TWICE);
        in_order(
            first,
            |seed| [trace(seed), trace(seed)],
            |seed, traces| {
                if traces[0].is_none() || traces[0] != traces[1] {
                    lacks.push(format!("two runs of seed {seed} differ"));
                }
                ControlFlow::Continue(())
            },
        );
    }
    for lack in &lacks {
        println!("DEMANDED: {lack}");
    }
    if let Some(path) = &arguments.into
        && let Err(why) = add_into(path, &tally)
    {
        println!("{}: {why}", path.display());
        return ExitCode::from(2);
    }
    if tally.failures.is_empty() && lacks.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
