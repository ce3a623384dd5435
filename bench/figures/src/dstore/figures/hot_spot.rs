//! Figure 21: most gets are for keys of one quarter of the hashes, and bricks are added twice.
//!
//! The plan is the coordinator's own (`ramhold_coordinator::shares`), which goes by the load of tablets. Beside it stands the
//! plan by sizes, which cannot tell the hot quarter from the others (the paper's *naive* one).
//!
//! The load of a tablet is the part of all gets that are for its keys, as it follows from how keys are chosen. Real bricks
//! count their questions.

use super::making::Making;
use super::scaling::{Change, Plan, STEP, add, by_first, course, run, settled, suffixes, why};
use super::steady::GETS;
use crate::dstore::client::{Choice, Load};
use crate::dstore::measure::Kind;
use crate::dstore::names::{TABLE, id};
use crate::dstore::rows::{Made, Rows};
use crate::dstore::shelf::Key;
use crate::dstore::tablets::Tablet;
use crate::dstore::world::{KEYS, SESSIONS, Setting, WORKING, World, hashes};
use ramhold_base::{KeyHash, ServerId};
use ramhold_coordinator::shares::{Holder, Next, Share, Shares, Step};
use ramhold_wire::bricks::BRICK_WEIGHT;
use std::sync::Arc;
use std::time::Duration;

/// The bricks before, after the first addition and after the second.
const BRICKS: [usize; 3] = [6, 9, 12];
/// So many of 1,000 gets are for hot keys, and so many of 1,000 gets of either kind are hits.
const HOT: u64 = 900;
const HIT: u64 = 850;
/// Hashes of hot keys begin with two zero bits: printed as a suffix, 00.
const HOT_LAST: u64 = u64::MAX >> 2;

/// Hot and cold keys, each in the working set or not, and how often one of them is asked for.
fn lists(hashes: &[KeyHash]) -> Vec<(u64, Vec<Key>)> {
    let is_hot = |key: &Key| hashes[*key as usize].0 <= HOT_LAST;
    let list = |of_hot: bool, range: std::ops::Range<Key>| {
        range.filter(|key| is_hot(key) == of_hot).collect::<Vec<Key>>()
    };
    let often = |of_hot: bool, hit: bool| {
        (if of_hot { HOT } else { 1000 - HOT }) * (if hit { HIT } else { 1000 - HIT }) / 1000
    };
    [true, false]
        .into_iter()
        .flat_map(|of_hot| {
            [(true, 0..WORKING), (false, WORKING..KEYS)]
                .map(|(hit, range)| (often(of_hot, hit), list(of_hot, range)))
        })
        .collect()
}

/// The part of all gets that are for keys of a tablet, of 1,000,000.
fn load(tablet: &Tablet, lists: &[(u64, Vec<Key>)], hashes: &[KeyHash]) -> u64 {
    let part = |(often, keys): &(u64, Vec<Key>)| {
        let here = keys.iter().filter(|key| tablet.has(hashes[**key as usize])).count() as u64;
        often * 1000 * here / keys.len().max(1) as u64
    };
    lists.iter().map(part).sum()
}

fn place_of(brick: ServerId) -> usize {
    (0..BRICKS[2]).find(|place| id(*place) == brick).expect("it is one of them")
}

/// Adds a brick as the coordinator does: cuts what it says, until it moves a tablet.
fn add_by_load(tablets: &[Tablet], new: usize, loads: impl Fn(&Tablet) -> u64) -> Change {
    let mut after = tablets.to_vec();
    loop {
        let share = |tablet: &Tablet| Share {
            table: TABLE,
            slots: false,
            first: KeyHash(tablet.first),
            last: KeyHash(tablet.last),
            bricks: tablet.bricks.iter().map(|place| id(*place)).collect(),
            load: loads(tablet),
            bytes: 0,
            has_spare: true,
        };
        let holder = |place| Holder {
            brick: id(place),
            domain: place,
            weight: BRICK_WEIGHT,
            free_bytes: u64::MAX,
            takes: true,
        };
        let shares = Shares {
            tablets: after.iter().map(share).collect(),
            holders: (0..BRICKS[2]).map(holder).collect(),
        };
        let at = |after: &[Tablet], first: KeyHash| {
            after.iter().position(|tablet| tablet.first == first.0).expect("it is one of them")
        };
        match shares.adding(id(new), None) {
            Next::Step(Step::Cut { first, .. }) => {
                let at = at(&after, first);
                let tablet = after[at].clone();
                let epoch = tablet.epoch + 1;
                let halves =
                    tablet.halves().map(|(first, last)| Tablet { first, last, epoch, ..tablet.clone() });
                drop(after.splice(at..=at, halves));
            }
            Next::Step(Step::Move { first, old, new: taker, .. }) => {
                let at = at(&after, first);
                let moved = &mut after[at];
                moved.epoch += 1;
                let old = place_of(old);
                moved
                    .bricks
                    .iter_mut()
                    .filter(|place| **place == old)
                    .for_each(|place| *place = place_of(taker));
                return Change { tablets: after, joining: new };
            }
            other => panic!("a brick is to be added: {other:?}"),
        }
    }
}

pub fn fig21(making: &Making) -> Made {
    let hashes = hashes(KEYS);
    let lists = Arc::new(lists(&hashes));
    let by_load =
        |tablets: &[Tablet], new: usize| add_by_load(tablets, new, |tablet| load(tablet, &lists, &hashes));
    let steps = BRICKS[2] - BRICKS[0];
    let worlds = making.side_by_side(&[true, false], |is_by_load| {
        let load = Load::Closed { gets: 2 * GETS / SESSIONS, puts: 0, think: Duration::ZERO };
        let setting = Setting {
            spare: BRICKS[2] - BRICKS[0],
            load,
            choice: Choice::Listed(lists.clone()),
            ..Setting::closed(BRICKS[0], (GETS, 0), 85, making.seed)
        };
        let mut world = World::new(&setting);
        let changes: Vec<&Plan<'_>> = vec![if *is_by_load { &by_load } else { &add }; steps];
        let places: Vec<usize> = (BRICKS[0]..BRICKS[2]).collect();
        let tablets = run(&mut world, &changes, &places);
        (world.measures, tablets)
    });
    let [(by_load, tablets), (naive, naive_tablets)] = &worlds[..] else { unreachable!("there are two") };
    let mut rows = Rows::new("21");
    let first = BRICKS[1] - BRICKS[0];
    for (step, paper) in [(first, "'00' '10' '1'"), (steps, "'000' '100' '10' '1'")] {
        let is_it = suffixes(&tablets[step]) == paper;
        let what = format!("tablets with {} bricks", BRICKS[0] + step);
        rows.judged(what, paper, (suffixes(&tablets[step]), paper), is_it);
    }
    rows.told("the same by size", "not split where it is hot", suffixes(&naive_tablets[steps]));
    let gets = |step| by_first(by_load, Kind::Get, settled(step));
    rows.within("gets with 9 bricks by those with 6", "as the naive plan", gets(first), (0.9, f64::INFINITY));
    let ratio = by_load.rate(Kind::Get, settled(steps)) / naive.rate(Kind::Get, settled(steps));
    rows.at_least("gets with 12 bricks by those of the plan by size", "much higher", ratio, 1.5);
    let failed = by_load.failed() + naive.failed();
    rows.judged("operations that failed", "0", (why(failed, by_load, naive), "0"), failed == 0);
    let end = (steps + 1) * STEP;
    rows.made(vec![
        course(by_load, "dstore-fig21-by-load", "six bricks are added where the load is", end),
        course(naive, "dstore-fig21-by-size", "six bricks are added by size", end),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dstore::tablets::even;

    // I7
    #[test]
    fn the_hot_quarter_is_cut_and_gets_the_second_three_bricks() {
        let hashes = hashes(KEYS);
        let lists = lists(&hashes);
        assert_eq!(lists.iter().map(|(often, _)| often).sum::<u64>(), 1000);
        let mut tablets = even(2, 3);
        assert_eq!(load(&tablets[1], &lists, &hashes) / 10_000, 6, "of a hundred");
        for (place, wanted) in (6..12).zip([3, 3, 3, 4, 4, 4]) {
            tablets = add_by_load(&tablets, place, |tablet| load(tablet, &lists, &hashes)).tablets;
            assert_eq!(tablets.len(), wanted, "{tablets:?}");
        }
        assert_eq!(suffixes(&tablets), "'000' '100' '10' '1'");
        assert!(tablets.iter().all(|tablet| tablet.bricks.len() == 3));
    }
}
