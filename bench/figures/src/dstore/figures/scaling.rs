//! Figures 19, 20 and 22: bricks are added to a table, and taken away again.
//!
//! The plan is a small one of this file (`add`, `remove`) that goes by sizes: a tablet of a brick that has most hashes is cut
//! at its middle, and of one of its bricks the upper half goes to the new one. The new brick does not vote until it has
//! copied its half from the others, and two bricks of each tablet are there meanwhile.
//!
//! Not here: Figure 21, whose plan goes by load (`hot_spot`).

use super::making::Making;
use super::steady::{GETS, PUTS};
use crate::dstore::cache::Cache;
use crate::dstore::client::{Choice, Load};
use crate::dstore::measure::{Kind, Measures};
use crate::dstore::rows::{Made, Rows, curve, number};
use crate::dstore::tablets::Tablet;
use crate::dstore::world::{KEYS, SESSIONS, Setting, World};
use std::ops::Range;
use std::time::Duration;

/// Seconds between two changes, and of each one the copying.
pub const STEP: usize = 20;
const COPYING: usize = 4;

/// A change of the tablets: what they are when it begins, and who joins where.
pub struct Change {
    pub tablets: Vec<Tablet>,
    pub joining: usize,
}

/// The maker of a change: of these tablets, with this brick.
pub type Plan<'a> = dyn Fn(&[Tablet], usize) -> Change + 'a;

/// Adds a brick: takes half of a brick that has the most hashes, the first one of the lowest tablet among equals.
pub fn add(tablets: &[Tablet], new: usize) -> Change {
    let mut places: Vec<usize> = tablets.iter().flat_map(|tablet| tablet.bricks.iter().copied()).collect();
    places.sort_unstable();
    places.dedup();
    let load = |place: usize| -> u128 {
        let its = tablets.iter().filter(|tablet| tablet.bricks.contains(&place));
        its.map(Tablet::size).sum()
    };
    let giving = places.into_iter().rev().max_by_key(|place| load(*place)).expect("there are bricks");
    let its: Vec<usize> = (0..tablets.len()).filter(|at| tablets[*at].bricks.contains(&giving)).collect();
    let mut after = tablets.to_vec();
    let given = if let [only] = its.as_slice() {
        // Nothing was cut yet: the brick's only tablet is.
        let tablet = after[*only].clone();
        let epoch = tablet.epoch + 1;
        let [low, high] =
            tablet.halves().map(|(first, last)| Tablet { first, last, epoch, ..tablet.clone() });
        drop(after.splice(*only..=*only, [low, high]));
        only + 1
    } else {
        *its.last().expect("it holds something")
    };
    let taken = &mut after[given];
    taken.epoch += 1;
    taken.bricks.iter_mut().filter(|place| **place == giving).for_each(|place| *place = new);
    Change { tablets: after, joining: new }
}

/// Takes a brick away: the one with the highest place gives its tablet to the brick that holds the other half.
fn remove(tablets: &[Tablet], old: usize) -> Change {
    let mut after = tablets.to_vec();
    let at = after.iter().position(|tablet| tablet.bricks.contains(&old)).expect("it holds something");
    let place = after[at].bricks.iter().position(|place| *place == old).expect("it holds it");
    // Bricks were added in the order of their places within a tablet.
    let keeper = after[at - 1].bricks[place];
    after[at].bricks[place] = keeper;
    after[at].epoch += 1;
    if after[at].bricks == after[at - 1].bricks {
        let upper = after.remove(at);
        let lower = &mut after[at - 1];
        lower.last = upper.last;
        lower.epoch = lower.epoch.max(upper.epoch) + 1;
    }
    Change { tablets: after, joining: keeper }
}

/// Makes one change after the other, `STEP` seconds each. Returns the tablets after each of them.
pub fn run(world: &mut World, changes: &[&Plan<'_>], places: &[usize]) -> Vec<Vec<Tablet>> {
    let mut course = vec![world.tablets.clone()];
    world.run(STEP as u64);
    for (at, (change, place)) in changes.iter().zip(places).enumerate() {
        let Change { tablets, joining } = change(&world.tablets, *place);
        world.change(tablets);
        let begin = (at + 1) * STEP;
        world.run((begin + COPYING) as u64);
        world.copied(joining);
        world.run((begin + STEP) as u64);
        course.push(world.tablets.clone());
    }
    course
}

pub fn suffixes(tablets: &[Tablet]) -> String {
    tablets.iter().map(|tablet| format!("'{}'", tablet.suffix())).collect::<Vec<_>>().join(" ")
}

/// The last seconds of a step, when it has settled, and those while data is copied.
pub fn settled(step: usize) -> Range<usize> {
    step * STEP + COPYING + 4..(step + 1) * STEP
}

fn copying(step: usize) -> Range<usize> {
    step * STEP..step * STEP + COPYING
}

fn setting(bricks: usize, clients: (usize, usize), seed: u64) -> Setting {
    // Enough clients for all bricks from the beginning.
    let load = Load::Closed {
        gets: 2 * clients.0 / SESSIONS,
        puts: 2 * clients.1 / SESSIONS,
        think: Duration::ZERO,
    };
    Setting { spare: bricks - 3, load, ..Setting::closed(3, clients, 85, seed) }
}

pub fn by_first(measures: &Measures, kind: Kind, seconds: Range<usize>) -> f64 {
    measures.rate(kind, seconds) / measures.rate(kind, 6..STEP)
}

/// How many operations failed, and why the first one did.
pub fn why(failed: u64, one: &Measures, other: &Measures) -> String {
    let reason = one.reasons.iter().chain(&other.reasons).next();
    reason.map_or(failed.to_string(), |reason| format!("{failed}, such as: {reason}"))
}

pub fn course(measures: &Measures, name: &'static str, title: &str, end: usize) -> crate::table::Table {
    let lines = (0..end).map(|second| {
        let rate = |kind| measures.rate(kind, second..second + 1);
        vec![second as f64, rate(Kind::Get), rate(Kind::Put)]
    });
    curve(name, title, vec!["second", "gets/s", "puts/s"], lines.collect())
}

/// Three bricks are added to three; gets and puts are measured apart.
pub fn fig19(making: &Making) -> Made {
    let loads = [(GETS, 0), (0, 3 * PUTS)];
    let worlds = making.side_by_side(&loads, |clients| {
        let mut world = World::new(&setting(6, *clients, making.seed));
        let changes: [&Plan<'_>; 3] = [&add, &add, &add];
        let tablets = run(&mut world, &changes, &[3, 4, 5]);
        (world.measures, tablets)
    });
    let mut rows = Rows::new("19");
    let (gets, puts) = (&worlds[0].0, &worlds[1].0);
    for (step, paper) in [(1, 4.0 / 3.0), (2, 5.0 / 3.0), (3, 2.0)] {
        let what = format!("gets with {} bricks by those with 3", 3 + step);
        rows.within(
            what,
            &number(paper),
            by_first(gets, Kind::Get, settled(step)),
            (0.9 * paper, 1.1 * paper),
        );
    }
    for (step, paper) in [(1, 1.0), (2, 1.0), (3, 2.0)] {
        let what = format!("puts with {} bricks by those with 3", 3 + step);
        rows.within(
            what,
            &number(paper),
            by_first(puts, Kind::Put, settled(step)),
            (0.9 * paper, 1.1 * paper),
        );
    }
    rows.within(
        "puts while the third is copied by those with 3",
        "2",
        by_first(puts, Kind::Put, copying(3)),
        (1.8, 2.2),
    );
    let end = 4 * STEP;
    let worst = gets.worst(Kind::Get, 1..end).min(puts.worst(Kind::Put, 1..end));
    rows.at_least("operations in the worst second", "never 0", worst, 1.0);
    let failed = gets.failed() + puts.failed();
    rows.judged("operations that failed", "0", (why(failed, gets, puts), "0"), failed == 0);
    rows.told("tablets at the end", "'0' '1'", suffixes(&worlds[0].1[3]));
    rows.made(vec![
        course(gets, "dstore-fig19-gets", "a brick is added every 20 s, gets alone", end),
        course(puts, "dstore-fig19-puts", "a brick is added every 20 s, puts alone", end),
    ])
}

/// The file cache has room for a part of what three bricks hold, so six have more of it.
pub fn fig20(making: &Making) -> Made {
    let loads = [(GETS, 0), (0, 3 * PUTS)];
    let keys = KEYS / 50;
    let worlds = making.side_by_side(&loads, |clients| {
        let (cache, choice) = (Cache::filled(keys, keys * 3 / 8), Choice::Even { count: keys });
        let setting = Setting { keys, cache, choice, ..setting(6, *clients, making.seed) };
        let mut world = World::new(&setting);
        let changes: [&Plan<'_>; 6] = [&add, &add, &add, &remove, &remove, &remove];
        let tablets = run(&mut world, &changes, &[3, 4, 5, 5, 4, 3]);
        (world.measures, tablets)
    });
    let mut rows = Rows::new("20");
    let (gets, puts) = (&worlds[0].0, &worlds[1].0);
    rows.at_least(
        "gets with 6 bricks by those with 3",
        "above 2",
        by_first(gets, Kind::Get, settled(3)),
        2.0,
    );
    rows.within("puts with 6 bricks by those with 3", "2", by_first(puts, Kind::Put, settled(3)), (1.8, 2.2));
    rows.within("gets with 3 bricks again", "1", by_first(gets, Kind::Get, settled(6)), (0.95, 1.05));
    rows.within("puts with 3 bricks again", "1", by_first(puts, Kind::Put, settled(6)), (0.95, 1.05));
    rows.told("tablets at the end", "''", suffixes(&worlds[0].1[6]));
    let failed = gets.failed() + puts.failed();
    rows.judged("operations that failed", "0", (why(failed, gets, puts), "0"), failed == 0);
    let end = 7 * STEP;
    rows.made(vec![
        course(gets, "dstore-fig20-gets", "bricks are added and taken away, gets alone", end),
        course(puts, "dstore-fig20-puts", "bricks are added and taken away, puts alone", end),
    ])
}

/// 3 to 24 bricks, one after the other.
pub fn fig22(making: &Making) -> Made {
    let bricks = if making.is_small { 6 } else { 24 };
    let clients = bricks / 3;
    let load = Load::Closed { gets: GETS / SESSIONS, puts: 0, think: Duration::ZERO };
    let setting = Setting { sessions: SESSIONS * clients, load, ..setting(bricks, (GETS, 0), making.seed) };
    let mut world = World::new(&setting);
    let places: Vec<usize> = (3..bricks).collect();
    let changes: Vec<&Plan<'_>> = vec![&add; places.len()];
    let tablets = run(&mut world, &changes, &places);
    let (measures, steps) = (&world.measures, places.len());
    let end = (steps + 1) * STEP;
    let mut rows = Rows::new("22");
    let last = tablets.last().map(Vec::as_slice).unwrap_or_default();
    let is_even = last.len() == bricks / 3 && last.iter().all(|tablet| tablet.bricks.len() == 3);
    let text = format!("{} tablets: {}", last.len(), suffixes(last));
    rows.judged("tablets at the end, three bricks each", "8", (text, &(bricks / 3).to_string()), is_even);
    let least = 7.0 / 8.0 * (bricks / 3) as f64;
    let what = format!("gets with {bricks} bricks by those with 3");
    rows.at_least(what, "linear", by_first(measures, Kind::Get, settled(steps)), least);
    rows.at_least("gets in the worst second", "never 0", measures.worst(Kind::Get, 1..end), 1.0);
    let failed = measures.failed();
    rows.judged("operations that failed", "0", (why(failed, measures, measures), "0"), failed == 0);
    rows.made(vec![course(measures, "dstore-fig22", "a brick is added every 20 s", end)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dstore::tablets::even;

    #[test]
    fn three_bricks_become_eight_tablets_of_three_and_three_again() {
        let mut tablets = even(1, 3);
        for place in 3..24 {
            tablets = add(&tablets, place).tablets;
            assert!(tablets.iter().all(|tablet| tablet.bricks.len() == 3), "{tablets:?}");
            assert!(tablets.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
        }
        let mut places: Vec<usize> = tablets.iter().flat_map(|tablet| tablet.bricks.clone()).collect();
        places.sort_unstable();
        assert_eq!((tablets.len(), places), (8, (0..24).collect()));
        let mut tablets = (3..6).fold(even(1, 3), |tablets, place| add(&tablets, place).tablets);
        for place in [5, 4, 3] {
            tablets = remove(&tablets, place).tablets;
        }
        assert_eq!(tablets.len(), 1);
        assert_eq!((tablets[0].first, tablets[0].last, &tablets[0].bricks), (0, u64::MAX, &vec![0, 1, 2]));
    }
}
