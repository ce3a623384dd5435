//! A brick with much data is killed and started again under load: how soon it serves, how soon its data is loaded, and how
//! soon it has its share of the reads. Once it serves when everything is loaded, and once before.

use crate::faults::{peak, tell_times};
use crate::figures::Figures;
use crate::load::{self, CLIENTS, Source, Worker};
use crate::stage::PATIENCE;
use ramhold_client::ServerId;
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, Options, pass, wait_for};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// All three hold everything.
const BRICKS: usize = 3;
const VALUE_BYTES: usize = 1000;
const RATE_PERCENT: f64 = 30.0;
const BEFORE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(20);
/// Gets are counted over this time. A brick has its full share again when it answers this part of its former share.
const WINDOW: Duration = Duration::from_millis(250);
const FULL: f64 = 0.9;
const START_WITHIN: Duration = Duration::from_secs(120);
/// Which one is killed.
const VICTIM: usize = 2;

pub fn measure(megabytes: u64, seed: u64) -> Result<bool, Failure> {
    let mut figures = Figures::new("restart", true);
    // The log has room for everything and for what is not cleaned yet.
    let memory = 2 * megabytes * 1_000_000 + 2 * BRICK_MEMORY_MIN;
    let options = Options { servers: 0, ..Options::default() };
    let mut bricks = Bricks::start_beside(options, BRICKS, memory)?;
    let table = bricks.create_table("load", BRICKS as u8)?;
    let keys = megabytes as usize * 1_000_000 / VALUE_BYTES;
    let connect = || bricks.cluster.client(PATIENCE);
    let mut workers = load::workers(table, (keys, VALUE_BYTES), seed, connect)?;
    let filling = Instant::now();
    load::all(&mut workers, Worker::fill)?;
    let filled = keys as f64 / filling.elapsed().as_secs_f64();
    figures
        .tell("data", &format!("{keys} values of {VALUE_BYTES} B on each of {BRICKS} bricks, {filled:.0}/s"));
    let rate = peak(&mut workers)? * RATE_PERCENT / 100.0;
    figures.tell("begun under the restart", &format!("{rate:.0} operations/s, half of them gets"));
    let mut client = bricks.cluster.client(PATIENCE)?;
    let places = bricks.places(&mut client, "load")?;
    let address = bricks.address(VICTIM);
    let victim = places.iter().find(|place| place.address.0 == address).map(|place| place.brick);
    let victim = victim.ok_or_else(|| Failure("the brick holds nothing".to_owned()))?;

    for load in ["preload", "incremental"] {
        bricks.restart_load = Some(load);
        figures.tell("--restart-load", load);
        under_load(&mut bricks, &mut workers, (victim, rate), &mut figures)?;
    }
    let lost = load::lost(&mut workers, || bricks.cluster.client(PATIENCE))?.len();
    figures.check("acknowledged writes lost", &lost.to_string(), "0", lost == 0);
    Ok(figures.is_good)
}

/// Kills the brick and starts it again, under operations at this rate.
fn under_load(
    bricks: &mut Bricks,
    workers: &mut [Worker],
    (victim, rate): (ServerId, f64),
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (stops, interval) = (AtomicBool::new(false), Duration::from_secs_f64(CLIENTS as f64 / rate));
    let (killed, served, loaded) = std::thread::scope(|scope| {
        let load = scope.spawn(|| load::all(workers, |worker| worker.run_open(interval, &stops)));
        let restarted = restart(bricks);
        stops.store(true, Ordering::Relaxed);
        load.join().unwrap_or_else(|_| Err(Failure("the load has panicked".to_owned())))?;
        restarted
    })?;
    let tally = load::take_tally(workers);
    let log = bricks.printed(VICTIM);
    for line in log.lines().filter(|line| line.contains(" INFO ") || line.contains(" WARN ")) {
        figures.tell("  its log", line);
    }
    figures.tell("from the kill until it serves", &format!("{:.2} s", (served - killed).as_secs_f64()));
    if let Some(loaded) = loaded {
        let text = format!("{:.2} s", (loaded - killed).as_secs_f64());
        figures.tell("from the kill until everything is loaded", &text);
    }
    for seconds in 1..=6 {
        let from = killed + Duration::from_millis(1000 * seconds - 500);
        let share = 100.0 * share_of(&tally.sources, victim, from, from + 2 * WINDOW);
        figures.tell(&format!("  its share of gets after {seconds} s"), &format!("{share:.1} %"));
    }
    let share = share_of(&tally.sources, victim, killed - BEFORE, killed);
    figures.tell("its share of gets before", &format!("{:.1} %", 100.0 * share));
    let full = (0..).map(|window| killed + WINDOW * window).take_while(|from| *from < killed + AFTER);
    let full = full
        .filter(|from| *from > killed)
        .find(|from| share_of(&tally.sources, victim, *from, *from + WINDOW) >= FULL * share);
    let text = full.map_or("never".to_owned(), |from| format!("{:.2} s", (from - killed).as_secs_f64()));
    figures.check("from the kill until it has its share again", &text, "within the run", full.is_some());
    let refused = tally.failed + tally.unknown;
    figures.check("failed and unknown", &refused.to_string(), "0", refused == 0);
    for (what, count) in &tally.troubles {
        figures.tell("  trouble", &format!("{count} times: {what}"));
    }
    for (name, times) in [("get", tally.gets.sorted()), ("put", tally.puts.sorted())] {
        tell_times(figures, name, &times);
    }
    Ok(())
}

/// The times of the kill, of the first answer that it serves, and of the end of its loading, if it loads meanwhile.
fn restart(bricks: &mut Bricks) -> Result<(Instant, Instant, Option<Instant>), Failure> {
    pass(BEFORE)?;
    let killed = Instant::now();
    bricks.kill(VICTIM);
    bricks.start_brick(VICTIM);
    let said = |bricks: &Bricks, what: &str| {
        let printed = bricks.printed(VICTIM);
        Ok(if printed.contains(what) { Ok(Instant::now()) } else { Err(printed) })
    };
    let served = wait_for("the brick serves", START_WITHIN, || said(bricks, "serving as brick"))?;
    let loaded = match bricks.restart_load {
        Some("incremental") => {
            Some(wait_for("the brick is loaded", START_WITHIN, || said(bricks, "the log is loaded"))?)
        }
        _ => None,
    };
    pass((killed + AFTER).saturating_duration_since(Instant::now()))?;
    Ok((killed, served, loaded))
}

/// The share of the gets within a time that this brick answered with the value.
fn share_of(sources: &[Source], brick: ServerId, from: Instant, to: Instant) -> f64 {
    let within = || sources.iter().filter(|(at, _)| (from..to).contains(at));
    let own = within().filter(|(_, other)| *other == brick).count();
    own as f64 / within().count().max(1) as f64
}
