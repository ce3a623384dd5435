//! The steps of each command.

use crate::building::{build, build_quietly};
use crate::shell::{Failure, Step, answer, built, is_installed};
use crate::{clients, histories, imports, single_place};

/// Simulator seeds in `check` and `test`, of 60 simulated seconds each.
const CHECK_SEEDS: &str = "0..4";
const TEST_SEEDS: &str = "600..800";
/// At most this many further seeds run for each crash point that these do not meet, aimed at it. Any change of the
/// drawn values moves the rarest points to other seeds.
const FURTHER_SEEDS: &str = "60";
/// For runs with so little memory that clients fill it.
const TIGHT_SEEDS: &str = "0..60";
/// For runs whose servers reach each other on networks that fail in parts.
const LINKS_SEEDS: &str = "0..30";
/// Seeds whose servers are in a BCube, the switches and ports of which fail.
const CUBES_SEEDS: &str = "0..30";
/// Recoveries by neighbourhoods, in each of which another server dies that has a role in it.
const ROLES_SEEDS: &str = "0..40";
/// Quorum tables beside ordinary ones, for 30 simulated seconds each.
const BRICK_SEEDS: &str = "106..126";
const BRICK_SECONDS: &str = "30";
/// For runs whose servers stand in zones, which fail as a whole.
const ZONES_SEEDS: &str = "0..40";

pub fn check() -> Result<(), Failure> {
    Step::new("format").cargo(&["fmt", "--all", "--check"]).run()?;
    imports::check()?;
    single_place::check()?;
    Step::new("clippy").cargo(&["clippy", "--quiet", "--release", "--workspace", "--all-targets"]).run()?;
    Step::new("orders of stores to shared memory")
        .cargo(&["test", "--quiet", "--release", "--package", "ramhold-ring", "--features", "loom"])
        .run()?;
    let unit = ["test", "--quiet", "--release", "--workspace", "--exclude", "ramhold-cluster-tests"];
    Step::new("unit tests").cargo(&unit).run()?;
    build()?;
    run_world(&["--seeds", CHECK_SEEDS])
}

pub fn test() -> Result<(), Failure> {
    check()?;
    let lacking = run_each_processor_path()?;
    run_world(&["--seeds", TEST_SEEDS, "--demand", "--further", FURTHER_SEEDS])?;
    run_world(&["--seeds", TIGHT_SEEDS, "--tight"])?;
    run_world(&["--seeds", ZONES_SEEDS, "--zones"])?;
    run_world(&["--seeds", LINKS_SEEDS, "--links"])?;
    run_world(&["--seeds", CUBES_SEEDS, "--cubes"])?;
    run_world(&["--seeds", ROLES_SEEDS, "--roles"])?;
    run_world(&["--seeds", BRICK_SEEDS, "--bricks", "--seconds", BRICK_SECONDS])?;
    Step::new("real processes")
        .cargo(&["test", "--release", "--package", "ramhold-cluster-tests"])
        .env("RAMHOLD_BIN", &built("ramhold"))
        .run()?;
    kill_rounds(&["--rounds", "3"])?;
    kill_rounds(&["--servers", "7", "--victims", "2", "--rounds", "2"])?;
    let mut skipped: Vec<String> = Vec::new();
    if !histories::test()? {
        skipped.push(histories::SKIPPED.into());
    }
    skipped.extend(clients::play(&[])?);
    if is_installed("redis-server") {
        // Five servers reach every row of the table of differences. One server is a case of its own. Commands
        // that were never tried before are for `cargo xtask differential`.
        compare_replies(&["--commands", "300000", "--seed", "7", "--every-row"])?;
        compare_replies(&["--servers", "1", "--commands", "300000", "--seed", "8"])?;
        compare_replies(&["--servers", "1", "--rights", "1000000", "--seed", "9"])?;
    } else {
        skipped.push("differential: redis-server is not installed".into());
    }
    Step::new("demo").program(built("ramhold"), &["demo"]).run()?;
    for kind in ["flip", "drop"] {
        Step::new(&format!("demo --sabotage {kind} is noticed"))
            .program(built("ramhold"), &["demo", "--sabotage", kind])
            .run_expecting_failure()?;
    }
    bench(&["limits".into(), "--smoke".into()])?;
    bench(&["compare".into(), "kv".into(), "--smoke".into()])?;
    if is_installed("redis-server") && is_installed("redis-benchmark") {
        bench(&["compare".into(), "--smoke".into()])?;
    } else {
        skipped.push("bench compare: redis-server or redis-benchmark is not installed".into());
    }
    if is_installed("redis-server") && is_installed("redis-cli") {
        let arguments = ["bench", "recovery", "--data", "8MiB", "--beside-redis"];
        Step::new("bench recovery beside redis-server").program(built("ramhold"), &arguments).run()?;
        bench(&["compare".into(), "ycsb".into(), "--smoke".into()])?;
    } else {
        skipped.push(
            "bench recovery --beside-redis, bench compare ycsb: redis-server or redis-cli is not installed"
                .into(),
        );
    }
    if is_installed("redis-server") && is_installed("memcached") {
        bench(&["compare".into(), "memory".into(), "--smoke".into()])?;
    } else {
        skipped.push("bench compare memory: redis-server or memcached is not installed".into());
    }
    for path in &lacking {
        println!("not run, this machine cannot: processor path {path}");
    }
    for what in &skipped {
        println!("skipped: {what}");
    }
    let in_ci = std::env::var("CI").is_ok_and(|v| v == "true");
    if in_ci && !skipped.is_empty() {
        return Err(Failure("CI runs everything: nothing may be skipped".into()));
    }
    println!("all tests passed{}", if skipped.is_empty() { "" } else { ", some were skipped (named above)" });
    Ok(())
}

/// Runs a few seeds on each path that this processor has (the unit tests of `core/base` run each path
/// themselves). Returns the paths that the processor lacks, with the reason. No installation could make them
/// run, so they are no skips.
fn run_each_processor_path() -> Result<Vec<String>, Failure> {
    let table = answer(&built("ramhold-world"), &["--processor"])?;
    let (mut here, mut lacking) = (Vec::new(), Vec::new());
    for line in table.lines() {
        match line.split_once(": ") {
            Some((path, "runs here")) => here.push(path),
            Some(_) => lacking.push(line.to_owned()),
            None => {
                return Err(Failure(format!(
                    "ramhold-world --processor printed a line that is no path: {line}"
                )));
            }
        }
    }
    if !here.contains(&"baseline") {
        return Err(Failure(format!("the portable path must run everywhere, but there is only {here:?}")));
    }
    for path in here {
        Step::new(&format!("simulator with processor path {path}"))
            .program(built("ramhold-world"), &["--seeds", CHECK_SEEDS])
            .env("RAMHOLD_CPU", path)
            .run()?;
    }
    Ok(lacking)
}

fn run_world(arguments: &[&str]) -> Result<(), Failure> {
    Step::new(&format!("simulator {}", arguments.join(" "))).program(built("ramhold-world"), arguments).run()
}

pub fn demo(arguments: &[String]) -> Result<(), Failure> {
    println!("building ramhold (a minute or two the first time)");
    Step::new("build").cargo(&["build", "--release", "--package", "ramhold"]).quiet().run()?;
    Step::new("demo").program(built("ramhold"), &["demo"]).arguments(arguments).quiet().run()
}

pub fn world(arguments: &[String]) -> Result<(), Failure> {
    Step::new("build")
        .cargo(&["build", "--quiet", "--release", "--package", "ramhold-world"])
        .quiet()
        .run()?;
    Step::new("world").program(built("ramhold-world"), &[]).arguments(arguments).quiet().run()
}

pub fn rounds(arguments: &[String]) -> Result<(), Failure> {
    build_quietly()?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    kill_rounds(&arguments)
}

fn kill_rounds(arguments: &[&str]) -> Result<(), Failure> {
    Step::new(&format!("kill rounds {}", arguments.join(" ")))
        .program(built("ramhold-rounds"), arguments)
        .env("RAMHOLD_BIN", &built("ramhold"))
        .run()
}

pub fn bench(arguments: &[String]) -> Result<(), Failure> {
    let Some((which, rest)) = arguments.split_first() else {
        return Err(Failure(
            "bench needs a benchmark: compare, compare memory, compare cleaning, resp, limits, shard, figures, zones, bcube or bricks; \
             `cargo xtask` explains them"
                .into(),
        ));
    };
    // The benchmarks of Redis's protocol are parts of `compare`.
    let (program, part): (&str, &[&str]) = match which.as_str() {
        "compare" | "shard" | "figures" => (which, &[]),
        "zones" => ("ramhold-bench-zones", &[]),
        "bcube" => ("ramhold-bench-bcube", &[]),
        "bricks" => ("ramhold-bench-bricks", &[]),
        "resp" => ("compare", &["resp"]),
        "limits" => ("compare", &["limits"]),
        _ => {
            return Err(Failure(format!(
                "there is no benchmark '{which}'; the benchmarks are compare, resp, limits, shard, figures, zones, bcube and bricks"
            )));
        }
    };
    build_quietly()?;
    let step = Step::new(&format!("bench {which}"))
        .program(built(program), part)
        .arguments(rest)
        .env("RAMHOLD_BIN", &built("ramhold"));
    // These record histories.
    let checker = if matches!(which.as_str(), "bcube" | "bricks") { histories::checker()? } else { None };
    match checker {
        Some(checker) => step.env("RAMHOLD_CHECKER", &checker).run(),
        None => step.run(),
    }
}

pub fn differential(arguments: &[String]) -> Result<(), Failure> {
    let packages = ["build", "--release", "--package", "ramhold", "--package", "ramhold-differential"];
    Step::new("build").cargo(&packages).quiet().run()?;
    compare_replies(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn compare_replies(arguments: &[&str]) -> Result<(), Failure> {
    Step::new(&format!("differential {}", arguments.join(" ")))
        .program(built("ramhold-differential"), arguments)
        .env("RAMHOLD_BIN", &built("ramhold"))
        .run()
}

pub fn soak(arguments: &[String]) -> Result<(), Failure> {
    let minutes: u64 = match arguments {
        [] => 60,
        [flag, value] if flag == "--minutes" => {
            value.parse().map_err(|_| Failure(format!("--minutes takes a number, not '{value}'")))?
        }
        _ => return Err(Failure("soak takes --minutes N".into())),
    };
    build_quietly()?;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(minutes * 60);
    // Seeds that CI never runs; a fresh range each time.
    let mut seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|e| Failure(e.to_string()))?
        .as_secs()
        * 1000;
    while std::time::Instant::now() < end {
        let range = format!("{seed}..{}", seed + 100);
        run_world(&["--seeds", &range])?;
        run_world(&["--seeds", &range, "--bricks", "--seconds", BRICK_SECONDS])?;
        kill_rounds(&["--rounds", "5"])?;
        kill_rounds(&["--servers", "7", "--victims", "2", "--rounds", "2"])?;
        seed += 100;
    }
    Ok(())
}
