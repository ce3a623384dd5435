//! A brick whose share of the processor shrinks while it answers: it is restarted, and no other one. With the threshold off
//! it never is.
//!
//! The processor time that the brick uses under the load is its share at first. Every ten seconds its work takes 15 % of that
//! longer, as the brick of DSTORE04 7.2.

use crate::figures::Figures;
use crate::load::{self, CLIENTS, Tally, Worker};
use crate::stage::{MEMBERS, PATIENCE, QUORUM};
use ramhold_client::Client;
use ramhold_cluster_tests::{Bricks, Failure, ProcessorLimit, cpu_of, pass};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 1000;
const MEGABYTES: usize = 20;
const MEMORY_BYTES: u64 = 256 << 20;
const PEAK_FOR: Duration = Duration::from_secs(5);
/// A brick is compared when it has reported for 50 s.
const WARM_UP: Duration = Duration::from_secs(70);
const MEASURE_FOR: Duration = Duration::from_secs(5);
const FOUND_WITHIN: Duration = Duration::from_secs(60);
/// The time without statistics: longer than it takes to find the brick with them.
const OFF_FOR: Duration = Duration::from_secs(90);
const SECOND: Duration = Duration::from_secs(1);
/// The slowing in a second: 0.15 in ten.
const SLOWER_PERMILLE: u64 = 15;
const VICTIM: usize = 2;

pub fn measure(minutes: u64, rate_percent: u32, seed: u64) -> Result<bool, Failure> {
    let on = Stutter::new("stutter", "11", rate_percent, seed)
        .measure(FOUND_WITHIN, Duration::from_secs(60 * minutes))?;
    let off = Stutter::new("stutter, threshold off", "off", rate_percent, seed).measure(OFF_FOR, SECOND)?;
    Ok(on && off)
}

struct Stutter {
    name: &'static str,
    threshold: &'static str,
    rate_percent: u32,
    seed: u64,
}

/// The fate of the slow brick.
struct Slowed {
    restarted_after: Option<Duration>,
    share_permille: u64,
    /// Its flagged statistics, whenever they changed.
    flagged: Vec<(Duration, String)>,
    /// The most flagged statistics that another brick had, and which ones.
    others: (usize, String),
}

impl Stutter {
    fn new(name: &'static str, threshold: &'static str, rate_percent: u32, seed: u64) -> Stutter {
        Stutter { name, threshold, rate_percent, seed }
    }

    fn measure(&self, within: Duration, then: Duration) -> Result<bool, Failure> {
        let mut figures = Figures::new(self.name, true);
        let bricks = Bricks::start_supervised_at(MEMBERS, MEMORY_BYTES, "3/10m", self.threshold)?;
        let table = bricks.create_table("load", QUORUM)?;
        let keys = MEGABYTES * 1_000_000 / VALUE_BYTES;
        let connect = || bricks.cluster.client(PATIENCE);
        let mut workers = load::workers(table, (keys, VALUE_BYTES), self.seed, connect)?;
        load::all(&mut workers, Worker::fill)?;
        let peak = run_while(&mut workers, None, || pass(PEAK_FOR))?.1;
        let peak = peak.operations() as f64 / PEAK_FOR.as_secs_f64();
        let rate = peak * f64::from(self.rate_percent) / 100.0;
        let interval = Duration::from_secs_f64(CLIENTS as f64 / rate);
        figures.tell("begun", &format!("{rate:.0} operations/s, {} % of the peak", self.rate_percent));
        let mut client = connect()?;
        let (slowed, tally) = run_while(&mut workers, Some(interval), || {
            pass(WARM_UP)?;
            let slowed = slow_down(&bricks, &mut client, within)?;
            pass(then)?;
            Ok(slowed)
        })?;
        for (after, flagged) in &slowed.flagged {
            figures.tell(&format!("  flagged after {:.0} s", after.as_secs_f64()), flagged);
        }
        let (count, which) = &slowed.others;
        figures.tell("most flagged of another brick", &format!("{count}: {which}"));
        figures.tell("its share of a processor at last", &format!("{} of 1,000", slowed.share_permille));
        let lives: Vec<usize> = (1..=bricks.count())
            .map(|brick| bricks.printed(brick).matches("serving as brick").count())
            .collect();
        let others = lives.iter().enumerate().filter(|(at, count)| at + 1 != VICTIM && **count > 1).count();
        let text = slowed
            .restarted_after
            .map_or_else(|| "never".to_owned(), |after| format!("after {:.1} s", after.as_secs_f64()));
        let is_on = self.threshold != "off";
        let wanted = if is_on { "within 60 s" } else { "never" };
        let is_anomalous = bricks.printed(VICTIM).contains("is anomalous");
        figures.check(
            "restarted",
            &text,
            wanted,
            slowed.restarted_after.is_some() == is_on && is_anomalous == is_on,
        );
        figures.check("lives of all bricks", &format!("{lives:?}"), "no other restarted", others == 0);
        tell(&mut figures, tally);
        let lost = load::lost(&mut workers, connect)?.len();
        figures.check("acknowledged writes lost", &lost.to_string(), "0", lost == 0);
        Ok(figures.is_good)
    }
}

/// Takes more and more of the processor from one brick, until it is in its next life or the time is over.
fn slow_down(bricks: &Bricks, client: &mut Client, within: Duration) -> Result<Slowed, Failure> {
    let process = bricks.supervised(VICTIM).ok_or_else(|| Failure("the brick does not run".into()))?;
    let (before, began) = (cpu_of(process)?.total(), Instant::now());
    pass(MEASURE_FOR)?;
    let used = cpu_of(process)?.total().saturating_sub(before);
    let usual = u64::try_from(used.as_micros() * 1000 / began.elapsed().as_micros().max(1)).unwrap_or(1000);
    let limit = ProcessorLimit::new("stutter")?;
    let mut slowed = Slowed {
        restarted_after: None,
        share_permille: usual,
        flagged: Vec::new(),
        others: (0, String::new()),
    };
    limit.set(usual)?;
    limit.add(process)?;
    let began = Instant::now();
    while began.elapsed() < within {
        let seconds = began.elapsed().as_secs();
        slowed.share_permille = usual * 1000 / (1000 + SLOWER_PERMILLE * seconds);
        limit.set(slowed.share_permille)?;
        pass(SECOND)?;
        if bricks.supervised(VICTIM) != Some(process) {
            slowed.restarted_after = Some(began.elapsed());
            break;
        }
        let mut flagged_of = |brick| client.server_status(bricks.address(brick)).ok()?.brick?.flagged;
        for flagged in (1..=bricks.count()).filter(|brick| *brick != VICTIM).filter_map(&mut flagged_of) {
            if flagged.count() > slowed.others.0 {
                slowed.others = (flagged.count(), flagged.to_string());
            }
        }
        let flagged = flagged_of(VICTIM);
        let text = flagged.map_or_else(|| "not compared".to_owned(), |it| format!("{}: {it}", it.count()));
        if slowed.flagged.last().is_none_or(|(_, before)| *before != text) {
            slowed.flagged.push((began.elapsed(), text));
        }
    }
    Ok(slowed)
}

fn tell(figures: &mut Figures, tally: Tally) {
    let failed = tally.failed + tally.unknown;
    figures.check("failed and unknown", &failed.to_string(), "0", failed == 0);
    let wrong = tally.violations.len();
    figures.check("gets of an old or a wrong value", &wrong.to_string(), "0", wrong == 0);
    for (what, count) in &tally.troubles {
        figures.tell("  trouble", &format!("{count} times: {what}"));
    }
}

/// All clients run until `until` returns: one operation after the other, or one at each interval.
fn run_while<T>(
    workers: &mut [Worker],
    interval: Option<Duration>,
    until: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Tally), Failure> {
    load::take_tally(workers);
    let stops = AtomicBool::new(false);
    let run = |worker: &mut Worker| match interval {
        None => worker.run_closed(&stops),
        Some(interval) => worker.run_open(interval, &stops),
    };
    let waited = std::thread::scope(|scope| {
        let load = scope.spawn(|| load::all(workers, run));
        let waited = until();
        stops.store(true, Ordering::Relaxed);
        load.join().unwrap_or_else(|_| Err(Failure("the load has panicked".to_owned())))?;
        waited
    })?;
    Ok((waited, load::take_tally(workers)))
}
