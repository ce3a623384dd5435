//! A quorum table with the same data beside the ordinary tables of a plan: its memory, its availability, its losses.
//!
//! N bricks hold each key. With the bricks of the plan's memory, N times the data take N times the bricks. Bricks of a
//! tablet stand together in disjoint groups of N, as many as there are (docs/protocols/quorum.md, rule 35).
//!
//! A key is out of reach while too many of its N bricks are away at one time. Each brick is away for the share
//! `crashes x away` of a year, independently of the others. An ordinary key is out of reach for detection and recovery
//! after each death of its server.
//!
//! Not here: failure domains of several servers; bricks that are slow, not away. Source: DSTORE04 4.1. Catalogue: I1.

mod report;

pub use report::{json, text};

use super::description::{Failing, Plan};
use super::hardware::Hardware;
use super::loss::{all_failed, at_least_one, choices, weights};
use crate::commands::table::options::quorum_numbers;

const YEAR_SECONDS: f64 = 365.25 * 24.0 * 3600.0;

/// All that is told of it.
#[derive(Clone, Debug)]
pub struct QuorumTable {
    /// N, W and R.
    pub of_key: u64,
    pub write: u64,
    pub read: u64,
    /// Live bytes of one copy.
    pub data_bytes: f64,
    pub bricks: u64,
    pub tablets: u64,
    /// The log of all bricks.
    pub log_bytes: f64,
    /// The share of the time for which a brick is away.
    pub away: f64,
    /// The share of the time for which a key cannot be written or read. A read needs W bricks as well, a write R bricks
    /// while one is known to be away (docs/protocols/quorum.md, rules 6 and 7).
    pub no_quorum: f64,
    /// The same of a key of an ordinary table.
    pub no_owner: f64,
    /// Bricks that do not return after the power cut.
    pub failing: Failing,
    /// After it, all bricks of some tablet stay away.
    pub lost_after_power_cut: f64,
    /// After it, so many bricks of some tablet stay away that those that are left are no quorum.
    pub waits_after_power_cut: f64,
    /// After it, a brick of some tablet stays away. A buffered tablet waits for it: all have forgotten their last writes.
    pub buffered_waits_after_power_cut: f64,
    /// In a year, all bricks of some tablet are lost before one of them is replaced.
    pub lost_in_a_year: f64,
    /// Seconds until a new brick has everything.
    pub rebuilding: f64,
}

/// At least `count` of `all` are away, each with this probability.
fn at_least(count: u64, all: u64, probability: f64) -> f64 {
    weights(all, probability).filter(|(away, _)| *away >= count).map(|(_, weight)| weight).sum()
}

/// At least `count` of `size` given ones are among `failed` of `all`.
fn at_least_failed(count: u64, size: u64, (failed, all): (u64, u64)) -> f64 {
    let ways = |hit: u64| {
        let missed = size - hit;
        let is_possible = hit <= failed && missed <= all - failed;
        if is_possible { choices(failed, hit) * choices(all - failed, missed) } else { 0.0 }
    };
    // The sum of all ways may be above 1 by the last digit.
    ((count..=size).map(ways).sum::<f64>() / choices(all, size)).min(1.0)
}

impl Plan {
    /// `data_bytes`: the live data of the plan's ordinary tables. `recovery`: seconds until a dead server is recovered.
    pub fn quorum_table(
        &self,
        data_bytes: f64,
        recovery: f64,
        hardware: &Hardware,
    ) -> Result<Option<QuorumTable>, String> {
        let Some(of_key) = self.quorum else { return Ok(None) };
        let (write, read) = quorum_numbers(of_key, self.write_quorum, self.read_quorum)?;
        let (of_key, write, read) = (u64::from(of_key), u64::from(write), u64::from(read));
        let data_bytes = self.data.map_or(data_bytes, |data| data as f64);
        let live_of_brick = self.memory as f64 * self.utilisation;
        let wanted = (of_key as f64 * data_bytes / live_of_brick).ceil().max(of_key as f64) as u64;
        // Every group is whole.
        let tablets = wanted.div_ceil(of_key);
        let bricks = tablets * of_key;
        let away = self.crashes_per_year * self.brick_away.as_secs_f64() / YEAR_SECONDS;
        if away > 1.0 {
            return Err(format!(
                "a brick that is away {:?} for each of {} crashes a year is away all the time; give a shorter --brick-away",
                self.brick_away, self.crashes_per_year
            ));
        }
        let failing = self.failing(bricks)?;
        let some_tablet = |of_tablet: &dyn Fn(u64) -> f64| match failing {
            Failing::Count(failed) => at_least_one(tablets as f64, of_tablet(failed)),
            Failing::Each(probability) => weights(bricks, probability)
                .map(|(failed, weight)| weight * at_least_one(tablets as f64, of_tablet(failed)))
                .sum(),
        };
        let needed = write.max(read);
        let rebuilding = live_of_brick / hardware.network.min(hardware.disk_write);
        let unreplaced = (self.brick_away.as_secs_f64() + rebuilding) / YEAR_SECONDS;
        let others_lost = (self.crashes_per_year * unreplaced).powf(of_key as f64 - 1.0);
        let losses = of_key as f64 * self.crashes_per_year * others_lost.min(1.0);
        Ok(Some(QuorumTable {
            of_key,
            write,
            read,
            data_bytes,
            bricks,
            tablets,
            log_bytes: bricks as f64 * self.memory as f64,
            away,
            no_quorum: at_least(of_key - needed + 1, of_key, away),
            no_owner: (self.crashes_per_year * recovery / YEAR_SECONDS).min(1.0),
            failing,
            lost_after_power_cut: some_tablet(&|failed| all_failed(bricks, failed, of_key)),
            buffered_waits_after_power_cut: some_tablet(&|failed| {
                at_least_failed(1, of_key, (failed, bricks))
            }),
            waits_after_power_cut: some_tablet(&|failed| {
                at_least_failed(of_key - needed + 1, of_key, (failed, bricks))
            }),
            lost_in_a_year: -(-(tablets as f64) * losses).exp_m1(),
            rebuilding,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, told: f64) {
        assert!((found - told).abs() <= 1e-9 * told.abs(), "{found:e} is not {told:e}");
    }

    // I1
    #[test]
    fn too_many_bricks_are_away_as_often_as_dice_say() {
        assert_near(at_least(2, 3, 0.1), 3.0 * 0.01 * 0.9 + 0.001);
        assert_near(at_least(1, 3, 0.1), 1.0 - 0.9f64.powi(3));
        assert_near(at_least(3, 3, 1e-4), 1e-12);
        assert_eq!((at_least(1, 3, 0.0), at_least(3, 3, 1.0)), (0.0, 1.0));
        // Three of nine fail: one given group of three has 20, 45, 18 and 1 ways of 84.
        assert_near(at_least_failed(1, 3, (3, 9)), 64.0 / 84.0);
        assert_near(at_least_failed(2, 3, (3, 9)), 19.0 / 84.0);
        assert_near(at_least_failed(3, 3, (3, 9)), 1.0 / 84.0);
        assert_eq!(at_least_failed(1, 3, (0, 9)), 0.0);
        assert_eq!(at_least_failed(3, 3, (9, 9)), 1.0);
    }
}
