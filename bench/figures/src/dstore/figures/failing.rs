//! Figures 9 to 13, and the cost of repairs: one of three bricks is killed, and started again.
//!
//! Times and keys are a tenth of the paper's, rates are not: killed after 30 s, started again after 60 s.

use super::making::Making;
use super::steady::{GETS, PUTS};
use crate::dstore::cache::Cache;
use crate::dstore::client::{Choice, Load};
use crate::dstore::measure::{Kind, Measures};
use crate::dstore::rows::{Made, Rows, curve, number};
use crate::dstore::world::{Setting, World};
use crate::table::Table;
use ramhold_quorum::Class;
use std::ops::Range;

const KILLED: usize = 30;
const STARTED: usize = 60;
const BEFORE: Range<usize> = 10..KILLED;
/// Sessions have noticed by then.
const AWAY: Range<usize> = KILLED + 5..STARTED;
/// The brick that is killed.
const VICTIM: usize = 0;
/// The bytes of a question to store a value, with its key.
const PUT_BYTES: usize = 1024 + 4;
/// A queue of twelve puts: puts have 14 of 56 parts of the bytes.
const QUEUE_OF_TWELVE: usize = 4 * (12 * PUT_BYTES + PUT_BYTES / 2);

/// The course of one run.
struct Course {
    measures: Measures,
    /// For each second, the repairs that the victim has stored.
    repairs: Vec<u64>,
    /// For each second, the part of all gets that the victim was asked for.
    shares: Vec<f64>,
    dropped: u64,
    /// Repairs of values that were written while the victim was down.
    repairs_missed: u64,
}

impl Course {
    fn of(setting: &Setting, end: usize, stamps_lost: bool) -> Course {
        let mut world = World::new(setting);
        let (mut repairs, mut shares) = (Vec::new(), Vec::new());
        let mut before = vec![0; world.bricks.len()];
        for second in 1..=end {
            world.run(second as u64);
            repairs.push(world.bricks[VICTIM].counts.repairs);
            let now: Vec<u64> =
                world.bricks.iter().map(|brick| brick.counts.asked[Class::Get.index()]).collect();
            let gets: Vec<u64> = now.iter().zip(&before).map(|(now, before)| now - before).collect();
            shares.push(gets[VICTIM] as f64 / gets.iter().sum::<u64>().max(1) as f64);
            before = now;
            if second == KILLED {
                world.kill(VICTIM);
            } else if second == STARTED {
                world.start(VICTIM, stamps_lost);
            }
        }
        let dropped = world.bricks[VICTIM].statistics().of(Class::Put).dropped;
        let repairs_missed = world.bricks[VICTIM].counts.repairs_missed;
        Course { measures: world.measures, repairs, shares, dropped, repairs_missed }
    }

    fn by_before(&self, kind: Kind, seconds: Range<usize>) -> f64 {
        self.measures.rate(kind, seconds) / self.measures.rate(kind, BEFORE)
    }

    fn share(&self, seconds: Range<usize>) -> f64 {
        let length = seconds.len() as f64;
        self.shares[seconds].iter().sum::<f64>() / length
    }

    fn curve(&self, name: &'static str, title: &str) -> Table {
        let end = self.repairs.len();
        let lines = (0..end).map(|second| {
            let before = if second == 0 { 0 } else { self.repairs[second - 1] };
            let rate = |kind| self.measures.rate(kind, second..second + 1);
            vec![second as f64, rate(Kind::Get), rate(Kind::Put), (self.repairs[second] - before) as f64]
        });
        curve(name, title, vec!["second", "gets/s", "puts/s", "repairs/s"], lines.collect())
    }
}

fn after(begin: usize, end: usize) -> Range<usize> {
    STARTED + begin..STARTED + end
}

/// Everything in memory: reads are limited by the processor, and repairs by the spindle.
pub fn fig09(making: &Making) -> Made {
    let end = if making.is_small { 80 } else { 180 };
    let unbounded = Setting::closed(3, (GETS, PUTS), 100, making.seed);
    let bounded = Setting { queue_bytes_max: QUEUE_OF_TWELVE, ..unbounded.clone() };
    let courses = making.side_by_side(&[unbounded, bounded], |setting| Course::of(setting, end, false));
    let mut rows = Rows::new("9");
    let [a, b] = courses.as_slice() else { unreachable!("two were simulated") };
    rows.within("gets while one of three is down", "2/3", a.by_before(Kind::Get, AWAY), (0.62, 0.72));
    rows.at_least("puts while one of three is down", "1", a.by_before(Kind::Put, AWAY), 0.95);
    let worst = |course: &Course, kind| {
        course.measures.worst(kind, after(0, 20)) / course.measures.rate(kind, BEFORE)
    };
    let text = format!("{:.2}, {:.2}", worst(a, Kind::Get), worst(a, Kind::Put));
    let dip = "deep dip of both for minutes";
    rows.told("A, the brick's queue has no bound that matters: gets, puts in the worst second", dip, text);
    for (kind, name) in [(Kind::Get, "gets"), (Kind::Put, "puts")] {
        let what = format!("B, a queue of 12 puts: {name} from 5 to 15 s after the start");
        rows.at_least(what, "", b.by_before(kind, after(5, 15)), 0.95);
    }
    rows.told("B: puts that the queue refused", "", b.dropped.to_string());
    rows.told(
        "operations that failed, both runs",
        "0",
        (a.measures.failed() + b.measures.failed()).to_string(),
    );
    rows.made(vec![
        a.curve("dstore-fig09a", "100 % hits, no bound, killed at 30 s, started at 60 s"),
        b.curve("dstore-fig09b", "100 % hits, a queue of 12 puts, killed at 30 s, started at 60 s"),
    ])
}

/// 85 % hits: stamps are loaded before the start, or one by one.
pub fn fig10(making: &Making) -> Made {
    let end = if making.is_small { 90 } else { 180 };
    let setting = Setting::closed(3, (GETS, PUTS), 85, making.seed);
    let courses = making.side_by_side(&[false, true], |stamps_lost| Course::of(&setting, end, *stamps_lost));
    let [a, b] = courses.as_slice() else { unreachable!("two were simulated") };
    let mut rows = Rows::new("10a");
    rows.told("gets while one of three is down", "2/3", number(a.by_before(Kind::Get, AWAY)));
    rows.at_least("preloaded: gets in the first 5 s", "1", a.by_before(Kind::Get, after(0, 5)), 0.95);
    rows.at_least(
        "preloaded: puts in the first 5 s",
        "barely affected",
        a.by_before(Kind::Put, after(0, 5)),
        0.9,
    );
    let mut made = rows.made(vec![a.curve("dstore-fig10a", "85 % hits, stamps are loaded before the start")]);
    let mut rows = Rows::new("10b");
    let worst = (0..end - STARTED)
        .step_by(5)
        .filter(|at| at + 5 <= end - STARTED)
        .map(|at| b.measures.rate(Kind::Get, after(at, at + 5)));
    let worst = worst.fold(f64::INFINITY, f64::min) / b.measures.rate(Kind::Get, AWAY);
    rows.at_least("one by one: worst 5 s after the start by the rate with two bricks", "no dip", worst, 0.97);
    let thirds = (end - STARTED) / 3;
    let shares: Vec<f64> = (0..3).map(|third| b.share(after(third * thirds, (third + 1) * thirds))).collect();
    let is_rising = shares.windows(2).all(|pair| pair[1] >= pair[0] - 0.01);
    let told: Vec<String> = shares.iter().map(|share| number(*share)).collect();
    let what = "one by one: the brick's part of all gets, in three parts of the time";
    rows.judged(what, "ramps up", (told.join(", "), "never falls by more than 0.01"), is_rising);
    rows.at_least("one by one: gets at the end", "1", b.by_before(Kind::Get, end - 20..end), 0.95);
    let failed = a.measures.failed() + b.measures.failed();
    rows.told("operations that failed, both runs", "0", failed.to_string());
    let more = rows.made(vec![b.curve("dstore-fig10b", "85 % hits, stamps are loaded one by one")]);
    made.curves.extend(more.curves);
    made.rows.extend(more.rows);
    made
}

/// The histogram's classes: each is a fifth longer than the one before.
const STEP: f64 = 1.2;
/// Hits end before, and accesses to the spindle after this, in microseconds.
const FAST: u32 = 6000;

struct Histogram {
    counts: Vec<u64>,
    times: Vec<u32>,
}

impl Histogram {
    fn new(times: Vec<u32>) -> Histogram {
        let mut counts = vec![0; 90];
        let last = counts.len() - 1;
        for time in &times {
            // Powers by multiplication: logarithms are rounded differently by machines.
            let (mut at, mut end) = (0, 100.0);
            while f64::from(*time) >= end && at < last {
                at += 1;
                end *= STEP;
            }
            counts[at] += 1;
        }
        Histogram { counts, times }
    }

    fn slow(&self) -> f64 {
        self.times.iter().filter(|time| **time > FAST).count() as f64 / self.times.len().max(1) as f64
    }

    /// From the first tenth to the last tenth of the slow ones, in milliseconds.
    fn width_of_slow(&self) -> f64 {
        let slow: Vec<u32> = self.times.iter().copied().filter(|time| *time > FAST).collect();
        let at = |part: usize| slow.get(slow.len() * part / 10).copied().unwrap_or_default();
        f64::from(at(9) - at(1)) / 1e3
    }

    /// Peaks with a valley between them that is not half as high.
    fn modes(&self) -> usize {
        let smooth: Vec<u64> = (0..self.counts.len())
            .map(|at| self.counts[at.saturating_sub(2)..(at + 3).min(self.counts.len())].iter().sum())
            .collect();
        let least: u64 = smooth.iter().max().copied().unwrap_or_default() / 50;
        let (mut modes, mut peak, mut valley) = (0, 0, None);
        for count in smooth.into_iter().chain([0]) {
            match valley {
                None if count > peak => peak = count,
                None if 2 * count < peak => {
                    modes += usize::from(peak >= least);
                    valley = Some(count);
                }
                None => {}
                Some(lowest) if count > 2 * lowest => (peak, valley) = (count, None),
                Some(lowest) => valley = Some(count.min(lowest)),
            }
        }
        modes
    }
}

/// 65 % of what three bricks can do, in open loop.
pub fn fig11_to_13(making: &Making) -> Made {
    let closed = Setting::closed(3, (GETS, PUTS), 85, making.seed);
    let mut world = World::new(&closed);
    world.run(30);
    let [gets, puts] = [Kind::Get, Kind::Put].map(|kind| 0.65 * world.measures.rate(kind, BEFORE));
    let sessions = closed.sessions as f64;
    let load = Load::Open { gets: gets / sessions, puts: puts / sessions };
    let end = if making.is_small { 120 } else { 600 };
    let course = Course::of(&Setting { load, ..closed }, end, true);
    let measures = &course.measures;
    let mut rows = Rows::new("11");
    rows.told("offered: gets, puts per second", "", format!("{}, {}", number(gets), number(puts)));
    let length = 10;
    let steps = (10..end - length + 1).step_by(length);
    let worst = steps.map(|at| measures.rate(Kind::Get, at..at + length)).fold(f64::INFINITY, f64::min);
    rows.at_least("gets in the worst 10 s by those offered", "flat", worst / gets, 0.95);
    rows.at_least("gets while one is down by those before", "flat", course.by_before(Kind::Get, AWAY), 0.98);
    rows.at_least(
        "gets after the start by those before",
        "flat",
        course.by_before(Kind::Get, STARTED..end),
        0.98,
    );
    rows.at_least("puts while one is down by those before", "flat", course.by_before(Kind::Put, AWAY), 0.98);
    rows.told("operations that failed", "0", measures.failed().to_string());
    let mut made = rows.made(vec![course.curve("dstore-fig11", "65 % of the capacity, 85 % hits")]);
    let mut rows = Rows::new("12");
    let mean = |seconds: Range<usize>| {
        let times = measures.times(Kind::Get, seconds);
        times.iter().map(|time| f64::from(*time)).sum::<f64>() / times.len().max(1) as f64 / 1e3
    };
    let p50 = |seconds| measures.quantile(Kind::Get, seconds, 500);
    rows.at_least("gets: p50 while one is down by p50 before", "up", p50(AWAY) / p50(BEFORE), 1.01);
    rows.at_least("gets: mean while one is down by the mean before", "up", mean(AWAY) / mean(BEFORE), 1.01);
    rows.told(
        "gets: mean in the first 20 s after the start by the mean before",
        "up",
        number(mean(after(0, 20)) / mean(BEFORE)),
    );
    let last = end - 40..end;
    rows.at_most("gets: p50 at the end by p50 before", "as before", p50(last.clone()) / p50(BEFORE), 1.1);
    rows.at_most(
        "gets: mean at the end by the mean before",
        "as before",
        mean(last.clone()) / mean(BEFORE),
        1.1,
    );
    let lines = (0..end / 5).map(|at| {
        let seconds = at * 5..at * 5 + 5;
        let of = |kind| measures.quantile(kind, seconds.clone(), 500);
        vec![at as f64 * 5.0, mean(seconds.clone()), of(Kind::Get), of(Kind::Put)]
    });
    let columns = vec!["second", "mean of gets, ms", "p50 of gets, ms", "p50 of puts, ms"];
    let title = "times at 65 % of the capacity, 85 % hits";
    let more = rows.made(vec![curve("dstore-fig12", title, columns, lines.collect())]);
    made.curves.extend(more.curves);
    made.rows.extend(more.rows);
    let more = fig13(measures, last);
    made.curves.extend(more.curves);
    made.rows.extend(more.rows);
    made
}

fn fig13(measures: &Measures, last: Range<usize>) -> Made {
    let mut rows = Rows::new("13");
    let of = |kind, seconds: Range<usize>| Histogram::new(measures.times(kind, seconds));
    let (before, away) = (of(Kind::Get, BEFORE), of(Kind::Get, AWAY));
    let (restarted, end) = (of(Kind::Get, after(0, 20)), of(Kind::Get, last));
    let modes = before.modes();
    rows.judged("modes of the times of gets before", "2", (modes.to_string(), "2"), modes == 2);
    let puts = of(Kind::Put, BEFORE).modes();
    rows.judged("modes of the times of puts before", "1", (puts.to_string(), "1"), puts == 1);
    let change = away.slow() / before.slow() - 1.0;
    rows.within("part of slow gets while one is down: change", "none", change, (-0.2, 0.2));
    let wider = away.width_of_slow() / before.width_of_slow();
    rows.at_least("width of the slow mode while one is down by that before", "wider", wider, 1.01);
    rows.at_least(
        "part of slow gets after the start by that before",
        "larger",
        restarted.slow() / before.slow(),
        1.01,
    );
    rows.told("part of slow gets at the end by that before", "", number(end.slow() / before.slow()));
    let count = before.counts.len();
    let mut lines = Vec::new();
    let mut micros = 100.0;
    for at in 0..count {
        let part = |of: &Histogram| 100.0 * of.counts[at] as f64 / of.times.len().max(1) as f64;
        lines.push(vec![micros / 1e3, part(&before), part(&away), part(&restarted)]);
        micros *= STEP;
    }
    let columns = vec!["up to ms", "before, %", "one down, %", "after the start, %"];
    rows.made(vec![curve("dstore-fig13", "times of gets, classes of 20 %", columns, lines)])
}

/// The repairs for each update that the brick has missed: the paper's delta.
pub fn cost(making: &Making) -> Made {
    let spread = Setting::closed(3, (GETS, PUTS), 100, making.seed);
    let keys = 2000;
    let overwritten =
        Setting { keys, cache: Cache::induced(keys), choice: Choice::Even { count: keys }, ..spread.clone() };
    let end = if making.is_small { 90 } else { 180 };
    let runs = [spread, overwritten];
    let deltas = making.side_by_side(&runs, |setting| {
        let course = Course::of(setting, end, false);
        let missed = course.measures.rate(Kind::Put, KILLED..STARTED) * (STARTED - KILLED) as f64;
        (missed, course.repairs_missed as f64 / missed)
    });
    let mut rows = Rows::new("6.3.2");
    let text = |at: usize| format!("{:.2} ({:.0} missed)", deltas[at].1, deltas[at].0);
    rows.told("repairs by missed updates, 120,000 keys", "at most 1", text(0));
    rows.judged(
        "repairs by missed updates, 2,000 keys",
        "below 1",
        (text(1), "< 1"),
        deltas[1].1 < 1.0 && deltas[1].1 > 0.0,
    );
    rows.made(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_peaks_with_a_valley_between_them() {
        let around = |middle: u32, count: u32| (0..count).map(move |at| middle + at * middle / count / 2);
        let one: Vec<u32> = around(10_000, 1000).collect();
        let two: Vec<u32> = around(1000, 5000).chain(around(20_000, 800)).collect();
        assert_eq!([Histogram::new(one).modes(), Histogram::new(two).modes()], [1, 2]);
    }
}
