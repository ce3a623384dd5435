//! Figures 14 to 16: one of six bricks becomes slower and slower, and its statistics tell.
//!
//! The verdict is that of core/detector, from the reports of core/brick: of the real queues, the simulated processor's load,
//! and a memory that is always equally full. The restart itself takes 1.5 s, as in the paper.

use super::making::Making;
use super::steady::{GETS, PUTS};
use crate::dstore::measure::{Kind, Measures};
use crate::dstore::names::id;
use crate::dstore::rows::{Made, Rows, curve, number};
use crate::dstore::world::{Setting, World};
use ramhold_base::{Instant, ServerId};
use ramhold_brick::Measuring;
use ramhold_detector::anomaly::{Anomalies, Circumstances, JUDGE_INTERVAL, Verdict};
use std::collections::BTreeSet;
use std::time::Duration;

const BRICKS: usize = 6;
const FAULTY: usize = 4;
/// The fault begins; detectors have a hundred reports by then.
const ONSET: usize = 90;
/// Each question takes so much longer, every ten seconds more.
const SLOWER: Duration = Duration::from_micros(1000);
const SLOWER_EVERY: usize = 10;
const RESTART: Duration = Duration::from_millis(1500);
/// Every brick says this of its memory: used, of all.
const MEMORY: (u64, u64) = (700, 1000);

/// One run: the course of the throughput, and who was restarted when.
struct Run {
    measures: Measures,
    restarts: Vec<(usize, f64)>,
}

/// `threshold`: none: announcements alone.
fn run(threshold: Option<usize>, seed: u64, end: usize) -> Run {
    let mut world = World::new(&Setting::closed(BRICKS, (GETS, PUTS), 85, seed));
    let mut anomalies = threshold.map(Anomalies::new);
    let mut measuring: [Measuring; BRICKS] = Default::default();
    let mut judged = Instant::ZERO;
    let mut down: Option<(usize, Instant)> = None;
    let mut restarts = Vec::new();
    let mut is_cured = false;
    let mut announced = |world: &mut World| {
        let now = world.now();
        let second = (now.0 / 1_000_000_000) as usize;
        if let Some((place, at)) = down
            && now >= at
        {
            world.start(place, false);
            down = None;
            measuring[place] = Measuring::default();
        }
        if second >= ONSET && !is_cured {
            let steps = (second - ONSET) / SLOWER_EVERY + 1;
            world.bricks[FAULTY].more_work = SLOWER * steps as u32;
        }
        let Some(anomalies) = &mut anomalies else { return };
        for (brick, measuring) in world.bricks.iter().zip(&mut measuring) {
            if brick.is_up {
                measuring.on_usage(now, brick.counts.busy, MEMORY);
                let report = measuring.report(now, brick.statistics());
                anomalies.report(now, (id(brick.place), brick.life), report);
            }
        }
        if now.since(judged) < JUDGE_INTERVAL {
            return;
        }
        judged = now;
        let up = |brick: &&crate::dstore::brick::Brick| brick.is_up;
        let online: BTreeSet<ServerId> =
            world.bricks.iter().filter(up).map(|brick| id(brick.place)).collect();
        let of_tablet =
            |tablet: &crate::dstore::tablets::Tablet| tablet.bricks.iter().map(|place| id(*place)).collect();
        let tablets: Vec<BTreeSet<ServerId>> = world.tablets.iter().map(of_tablet).collect();
        let circumstances = Circumstances { online: &online, tablets: &tablets };
        if let Verdict::Restart { brick, .. } = anomalies.judge(now, circumstances) {
            let place = brick.raw() as usize - 1;
            restarts.push((place, now.0 as f64 / 1e9 - ONSET as f64));
            world.kill(place);
            if place == FAULTY && second >= ONSET {
                is_cured = true;
            }
            down = Some((place, now + RESTART));
        }
    };
    world.run_with(end as u64, &mut announced);
    Run { measures: world.measures, restarts }
}

fn throughput(run: &Run, seconds: std::ops::Range<usize>) -> f64 {
    run.measures.rate(Kind::Get, seconds.clone()) + run.measures.rate(Kind::Put, seconds)
}

/// Operations that were not done between the onset and the end, of what is done before.
fn lost(run: &Run, end: usize) -> f64 {
    let before = throughput(run, 40..ONSET);
    let after = throughput(run, ONSET..end);
    (1.0 - after / before) * (end - ONSET) as f64
}

pub fn fig14_to_16(making: &Making) -> Made {
    let seeds = if making.is_small { 1 } else { 6 };
    let end = if making.is_small { ONSET + 110 } else { ONSET + 180 };
    let thresholds = [None, Some(11), Some(8)];
    let plans: Vec<(Option<usize>, u64)> = thresholds
        .iter()
        .flat_map(|threshold| (0..seeds).map(|seed| (*threshold, making.seed + seed)))
        .collect();
    let runs = making.side_by_side(&plans, |(threshold, seed)| run(*threshold, *seed, end));
    let of = |at: usize| &runs[at * seeds as usize..(at + 1) * seeds as usize];
    let (alone, eleven, eight) = (of(0), of(1), of(2));
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;

    let mut rows = Rows::new("14");
    let before = |run: &Run| throughput(run, 40..ONSET);
    let last = mean(alone.iter().map(|run| throughput(run, end - 20..end) / before(run)).collect());
    rows.at_most("announcements alone: throughput at the end by that before", "degrades", last, 0.9);
    let restarts: usize = alone.iter().map(|run| run.restarts.len()).sum();
    rows.judged("announcements alone: restarts", "0", (restarts.to_string(), "0"), restarts == 0);
    let lost_alone = mean(alone.iter().map(|run| lost(run, end)).collect());

    let after_onset =
        |run: &Run| run.restarts.iter().find(|(place, at)| *place == FAULTY && *at >= 0.0).map(|(_, at)| *at);
    let innocent = |runs: &[Run]| {
        let is_innocent = |restart: &&(usize, f64)| restart.0 != FAULTY || restart.1 < 0.0;
        runs.iter().map(|run| run.restarts.iter().filter(is_innocent).count()).sum::<usize>()
    };
    let found = |runs: &[Run]| -> Vec<f64> { runs.iter().filter_map(after_onset).collect() };
    let told = |times: &[f64]| times.iter().map(|time| format!("{time:.0}")).collect::<Vec<_>>().join(", ");
    let mut made = rows.made(vec![course(
        &alone[0],
        "dstore-fig14",
        "one of six slower and slower, announcements alone",
        end,
    )]);

    let mut rows = Rows::new("15");
    let times = found(eleven);
    let right = eleven.iter().filter(|run| run.restarts.len() == 1 && after_onset(run).is_some()).count();
    let all = format!("{seeds} of {seeds}");
    let what = "threshold 11: runs with one restart, that of the slow brick";
    rows.judged(what, "one restart", (format!("{right} of {seeds}"), &all), right as u64 == seeds);
    rows.told("threshold 11: seconds from the onset to the restart", "after a small dip", told(&times));
    rows.told(
        format!("threshold 11: restarts of {} innocent bricks", seeds * 5),
        "none shown",
        innocent(eleven).to_string(),
    );
    let eleven_last = mean(eleven.iter().map(|run| throughput(run, end - 20..end) / before(run)).collect());
    rows.at_least("threshold 11: throughput at the end by that before", "1", eleven_last, 0.97);
    let more = rows.made(vec![course(
        &eleven[0],
        "dstore-fig15",
        "one of six slower and slower, threshold 11",
        end,
    )]);
    made.curves.extend(more.curves);
    made.rows.extend(more.rows);

    let mut rows = Rows::new("16");
    let sooner = found(eight);
    rows.told("threshold 8: seconds from the onset to the restart", "sooner", told(&sooner));
    let is_sooner = sooner.len() as u64 == seeds && mean(sooner.clone()) < mean(times.clone());
    let text = format!("{} by {}", number(mean(sooner.clone())), number(mean(times)));
    rows.judged(
        "threshold 8: found sooner than with 11, s in the mean",
        "sooner",
        (text, "sooner, in all runs"),
        is_sooner,
    );
    rows.told(
        format!("threshold 8: restarts of {} innocent bricks", seeds * 5),
        "some",
        innocent(eight).to_string(),
    );
    let costs = mean(eight.iter().map(|run| lost(run, end)).collect());
    let text = format!("{costs:.1} by {lost_alone:.1}");
    let what = "threshold 8: throughput that is lost, in seconds of all, by that of announcements alone";
    rows.judged(what, "small", (text, "less"), costs < lost_alone);
    let failed: u64 = runs.iter().map(|run| run.measures.failed()).sum();
    rows.told("operations that failed, all runs", "0", failed.to_string());
    let more =
        rows.made(vec![course(&eight[0], "dstore-fig16", "one of six slower and slower, threshold 8", end)]);
    made.curves.extend(more.curves);
    made.rows.extend(more.rows);
    made
}

fn course(run: &Run, name: &'static str, title: &str, end: usize) -> crate::table::Table {
    let lines = (0..end / 5).map(|at| {
        let seconds = at * 5..at * 5 + 5;
        vec![
            at as f64 * 5.0,
            run.measures.rate(Kind::Get, seconds.clone()),
            run.measures.rate(Kind::Put, seconds),
        ]
    });
    curve(name, title, vec!["second", "gets/s", "puts/s"], lines.collect())
}
