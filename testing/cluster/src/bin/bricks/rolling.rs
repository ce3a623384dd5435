//! Six bricks with supervisors are restarted one after the other under load: what fails, and what it costs in throughput.
//!
//! The clients have one operation each under way at a time, so they begin the next one as soon as bricks answer.

use crate::faults::tell_times;
use crate::figures::Figures;
use crate::load::{self, Tally, Worker};
use crate::stage::{MEMBERS, PATIENCE, QUORUM};
use ramhold_cluster_tests::{Bricks, Failure, check_interrupted, pass};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 1000;
const MEMORY_BYTES: u64 = 512 << 20;
/// The throughput is measured for so long before and after the restarts.
const BESIDE: Duration = Duration::from_secs(20);
/// The part of the throughput that is left when one of six is away.
const LEFT: f64 = 5.0 / 6.0;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub fn measure(megabytes: u64, seed: u64) -> Result<bool, Failure> {
    let mut figures = Figures::new("rolling", true);
    let bricks = Bricks::start_supervised(MEMBERS, MEMORY_BYTES, "none")?;
    let table = bricks.create_table("load", QUORUM)?;
    let keys = megabytes as usize * 1_000_000 / VALUE_BYTES;
    let connect = || bricks.cluster.client(PATIENCE);
    let mut workers = load::workers(table, (keys, VALUE_BYTES), seed, connect)?;
    load::all(&mut workers, Worker::fill)?;
    figures.tell("data", &format!("{keys} values of {VALUE_BYTES} B, {MEMBERS} bricks"));

    let (before, _) = run_while(&mut workers, || pass(BESIDE))?;
    let mut command = bricks.command(&["brick", "rolling-restart"]);
    let restart = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut restart = restart.map_err(|error| Failure(format!("the restart does not begin: {error}")))?;
    let began = Instant::now();
    let (during, tally) = run_while(&mut workers, || wait(&mut restart))?;
    let lasted = began.elapsed();
    let (after, _) = run_while(&mut workers, || pass(BESIDE))?;
    let output = restart.wait_with_output().map_err(|error| Failure(error.to_string()))?;
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    for line in text.lines() {
        figures.tell("  it said", line);
    }
    let text = format!("exit code {:?} after {:.1} s", output.status.code(), lasted.as_secs_f64());
    figures.check("rolling restart of all bricks", &text, "0", output.status.success());
    figures.tell("operations/s before, after", &format!("{before:.0}, {after:.0}"));
    let usual = (before + after) / 2.0;
    let text = format!("{during:.0}, {:.2} of the mean of both", during / usual);
    figures.check("operations/s meanwhile", &text, "5/6 = 0.83", during >= LEFT * usual);
    tell(&mut figures, tally);
    let lost = load::lost(&mut workers, || bricks.cluster.client(PATIENCE))?.len();
    figures.check("acknowledged writes lost", &lost.to_string(), "0", lost == 0);
    Ok(figures.is_good)
}

fn tell(figures: &mut Figures, tally: Tally) {
    let failed = tally.failed + tally.unknown;
    figures.check("failed and unknown", &failed.to_string(), "0", failed == 0);
    figures.check(
        "gets of an old or a wrong value",
        &tally.violations.len().to_string(),
        "0",
        tally.violations.is_empty(),
    );
    for (what, count) in &tally.troubles {
        figures.tell("  trouble", &format!("{count} times: {what}"));
    }
    for (name, times) in [("get", tally.gets.sorted()), ("put", tally.puts.sorted())] {
        tell_times(figures, name, &times);
    }
}

/// All clients run until `until` returns. Operations per second, and what became of them.
fn run_while(
    workers: &mut [Worker],
    until: impl FnOnce() -> Result<(), Failure>,
) -> Result<(f64, Tally), Failure> {
    load::take_tally(workers);
    let (stops, began) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::all(workers, |worker| worker.run_closed(&stops)));
        let waited = until();
        stops.store(true, Ordering::Relaxed);
        load.join().unwrap_or_else(|_| Err(Failure("the load has panicked".to_owned())))?;
        waited
    })?;
    let lasted = began.elapsed().as_secs_f64();
    let tally = load::take_tally(workers);
    Ok((tally.operations() as f64 / lasted, tally))
}

fn wait(child: &mut Child) -> Result<(), Failure> {
    while child.try_wait().map_err(|error| Failure(error.to_string()))?.is_none() {
        check_interrupted()?;
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}
