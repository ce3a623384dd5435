//! Figures 7 and 8, and Table I: nothing fails.

use super::making::Making;
use crate::dstore::cache::Cache;
use crate::dstore::client::{Choice, Load};
use crate::dstore::machines::PAPER;
use crate::dstore::measure::Kind;
use crate::dstore::rows::{Made, Rows, curve, number};
use crate::dstore::world::{Setting, World};
use ramhold_base::Instant;
use ramhold_quorum::Class;
use std::time::Duration;

/// Clients of three bricks: as many as keep their spindles or processors busy.
pub const GETS: usize = 24;
pub const PUTS: usize = 8;
/// The seconds that are measured, after those in which windows grow.
const MEASURED: std::ops::Range<usize> = 4..14;

fn rates(setting: &Setting) -> [f64; 2] {
    let mut world = World::new(setting);
    world.run(MEASURED.end as u64);
    [Kind::Get, Kind::Put].map(|kind| world.measures.rate(kind, MEASURED))
}

/// Reads of one brick beside reads of a quorum, by hit rate.
pub fn fig07(making: &Making) -> Made {
    let hits: &[u64] = if making.is_small { &[85, 100] } else { &[60, 70, 80, 85, 90, 95, 98, 100] };
    let settings: Vec<Setting> = hits
        .iter()
        .flat_map(|hit| [true, false].map(|is_stale| (*hit, is_stale)))
        .map(|(hit, is_stale)| Setting { is_stale, ..Setting::closed(3, (GETS, 0), hit, making.seed) })
        .collect();
    let measured = making.side_by_side(&settings, |setting| rates(setting)[0]);
    let mut rows = Rows::new("7");
    let mut lines = Vec::new();
    for (hit, pair) in hits.iter().zip(measured.chunks(2)) {
        let (one, quorum) = (pair[0], pair[1]);
        lines.push(vec![*hit as f64, one, quorum, quorum / one]);
        let what = format!("{hit} % hits: gets of a quorum by gets of one brick");
        match *hit {
            0..=90 => rows.at_least(what, "about 1", quorum / one, 0.95),
            100 => rows.within(what, "below 1", quorum / one, (0.5, 0.9)),
            _ => rows.told(what, "", number(quorum / one)),
        }
    }
    let columns = vec!["hit %", "one brick, gets/s", "quorum, gets/s", "quorum by one"];
    rows.made(vec![curve("dstore-fig07", "gets/s of three bricks by hit rate", columns, lines)])
}

/// The same by the size of values, with everything in memory and links of 50 Mbit/s.
pub fn fig07_sizes(making: &Making) -> Made {
    let sizes: &[u32] =
        if making.is_small { &[100, 16_384] } else { &[100, 1024, 4096, 16_384, 65_536, 262_144] };
    let keys = 2000;
    let settings: Vec<Setting> = sizes
        .iter()
        .flat_map(|size| [true, false].map(|is_stale| (*size, is_stale)))
        .map(|(size, is_stale)| {
            let mut machine = PAPER;
            machine.port = 6_250_000;
            Setting {
                machine,
                keys,
                cache: Cache::induced(keys),
                choice: Choice::Even { count: keys },
                value_bytes: size,
                is_stale,
                ..Setting::closed(3, (GETS, 0), 100, making.seed)
            }
        })
        .collect();
    let measured = making.side_by_side(&settings, |setting| rates(setting)[0]);
    let mut rows = Rows::new("7'");
    let mut lines = Vec::new();
    let mut before = 0.0;
    let mut is_rising = true;
    for (size, pair) in sizes.iter().zip(measured.chunks(2)) {
        let (one, quorum) = (pair[0], pair[1]);
        let ratio = quorum / one;
        // Three ports of 50 Mbit/s can carry so much.
        let full = 3.0 * 6_250_000.0 / f64::from(*size);
        is_rising &= ratio >= before - 0.02;
        before = ratio;
        lines.push(vec![f64::from(*size), one, quorum, ratio]);
        let what = format!("values of {size} B: gets of a quorum by gets of one brick");
        if one >= 0.85 * full {
            rows.at_least(format!("{what}; the links are full"), "", ratio, 0.95);
        } else {
            rows.told(what, "", number(ratio));
        }
    }
    let text = if is_rising { "yes" } else { "no" };
    rows.judged("the ratio rises with the size", "", (text.into(), "yes"), is_rising);
    let columns = vec!["bytes", "one brick, gets/s", "quorum, gets/s", "quorum by one"];
    let mut table = curve("dstore-fig07-sizes", "gets/s by the size of values, 50 Mbit/s", columns, lines);
    table.is_log = true;
    rows.made(vec![table])
}

/// Gets and puts of 3 to 27 bricks, alone.
pub fn fig08(making: &Making) -> Made {
    let bricks: &[usize] = if making.is_small { &[3, 9] } else { &[3, 6, 9, 12, 15, 18, 21, 24, 27] };
    let settings: Vec<Setting> = bricks
        .iter()
        .flat_map(|bricks| {
            [(GETS, 0), (0, 3 * PUTS)].map(|clients| Setting::closed(*bricks, clients, 85, making.seed))
        })
        .collect();
    let measured = making.side_by_side(&settings, rates);
    let gets: Vec<f64> = measured.iter().step_by(2).map(|rates| rates[0]).collect();
    let puts: Vec<f64> = measured.iter().skip(1).step_by(2).map(|rates| rates[1]).collect();
    let mut rows = Rows::new("8");
    for (name, rates) in [("gets", &gets), ("puts", &puts)] {
        let fit = through_origin(bricks, rates);
        rows.at_least(format!("{name}: R^2 of a line through the origin"), "linear", fit, 0.99);
        let place = bricks.iter().position(|count| *count == 24).unwrap_or(bricks.len() - 1);
        let per_brick = |at: usize| rates[at] / bricks[at] as f64;
        let what = format!("{name} per brick: {} bricks by 3", bricks[place]);
        rows.at_least(what, "", per_brick(place) / per_brick(0), 0.9);
    }
    for (count, name, rates, paper) in [(21, "gets", &gets, "18,000"), (27, "puts", &puts, "1,200")] {
        if let Some(at) = bricks.iter().position(|bricks| *bricks == count) {
            rows.told(format!("{name} per second of {count} bricks"), paper, number(rates[at]));
        }
    }
    let lines = bricks
        .iter()
        .zip(gets.iter().zip(&puts))
        .map(|(bricks, (gets, puts))| vec![*bricks as f64, *gets, *puts]);
    let columns = vec!["bricks", "gets/s", "puts/s"];
    rows.made(vec![curve(
        "dstore-fig08",
        "gets and puts by the number of bricks, 85 % hits",
        columns,
        lines.collect(),
    )])
}

/// R^2 of the line through the origin that fits best.
fn through_origin(bricks: &[usize], rates: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> =
        bricks.iter().map(|count| *count as f64).zip(rates.iter().copied()).collect();
    let slope =
        points.iter().map(|(x, y)| x * y).sum::<f64>() / points.iter().map(|(x, _)| x * x).sum::<f64>();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let left: f64 = points.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let all: f64 = rates.iter().map(|y| (y - mean).powi(2)).sum();
    1.0 - left / all
}

/// One operation at a time: rounds, and questions of each class.
pub fn table1(making: &Making) -> Made {
    let count = 1000;
    let alone = |gets: usize, puts: usize| {
        let think = Duration::from_millis(5);
        let load = Load::Closed { gets, puts, think };
        let setting = Setting { sessions: 1, load, ..Setting::closed(3, (0, 0), 100, making.seed) };
        let mut world = World::new(&setting);
        // The first operation learns the table and the time.
        world.run(2);
        let begun = (world.measures.questions, world.measures.rounds);
        let done =
            |world: &World| world.measures.rate(Kind::Get, 2..60) + world.measures.rate(Kind::Put, 2..60);
        let mut second = 2;
        while done(&world) * 58.0 < f64::from(count) && second < 60 {
            second += 1;
            world.run(second);
        }
        let all = done(&world) * 58.0;
        let each = |of: u64| of as f64 / all;
        let questions: Vec<f64> =
            world.measures.questions.iter().zip(begun.0).map(|(now, before)| each(now - before)).collect();
        (each(world.measures.rounds - begun.1), questions)
    };
    let mut rows = Rows::new("Table I");
    let ((put_rounds, put), (get_rounds, get)) = (alone(0, 1), alone(1, 0));
    let is_near = |value: f64, wanted: f64| (value - wanted).abs() < 0.02;
    let mut add = |what: &str, paper: &str, value: f64, wanted: f64| {
        rows.judged(what, paper, (number(value), &number(wanted)), is_near(value, wanted));
    };
    add("rounds of a put", "1 (two-phase commit: 2)", put_rounds, 1.0);
    add("writes of a put", "3", put[Class::Put.index()], 3.0);
    add("stamps asked for by a put", "0", put[Class::Stamp.index()], 0.0);
    add("rounds of a get", "1", get_rounds, 1.0);
    add("values of a get", "1", get[Class::Get.index()], 1.0);
    add("stamps of a get", "1", get[Class::Stamp.index()], 1.0);
    let repaired = repair_rounds(making);
    rows.within("rounds of a get that repairs", "2 to 3", repaired, (2.0, 3.0));
    rows.made(Vec::new())
}

/// The rounds of gets of keys that only one of the bricks which are up has: two bricks were away in turn.
fn repair_rounds(making: &Making) -> f64 {
    let load = Load::Closed { gets: 0, puts: 1, think: Duration::ZERO };
    let keys = 40;
    let choice = Choice::Even { count: keys };
    let cache = Cache::induced(keys);
    let mut setting =
        Setting { sessions: 1, load, keys, cache, choice, ..Setting::closed(3, (0, 0), 100, making.seed) };
    let mut world = World::new(&setting);
    world.run(1);
    world.kill(2);
    world.run(8);
    world.start(2, false);
    // Brick 2 lacks everything. Gets of brick 2 and one of the others repair it.
    world.kill(0);
    let behind = world.bricks[2].values.behind(&world.bricks[1].values, 0..keys);
    assert!(behind > 30, "puts went on without the brick: {behind}");
    setting.load = Load::Closed { gets: 1, puts: 0, think: Duration::from_millis(50) };
    world.replace_clients(&setting);
    world.run(9);
    let before =
        (world.measures.rounds, world.bricks[2].counts.repairs, world.measures.rate(Kind::Get, 0..100));
    let now = Instant(world.now().0);
    world.run(now.0 / 1_000_000_000 + 4);
    let repairs = world.bricks[2].counts.repairs - before.1;
    let gets = (world.measures.rate(Kind::Get, 0..100) - before.2) * 100.0;
    let rounds = (world.measures.rounds - before.0) as f64;
    // A get that repairs nothing takes one round.
    1.0 + (rounds - gets) / repairs.max(1) as f64
}
