//! Which brick is to be restarted because it behaves unlike all others, although it answers.
//!
//! Each brick reports 17 statistics. A statistic of a brick is *flagged* if it is unlike the other bricks' now (`mad`), or
//! over the last reports (`tarzan`). A brick with `threshold` flagged statistics or more is *anomalous*. A stall for a
//! moment moves nine of them (length, delay and latency of three queues); only a loss of throughput moves more.
//!
//! A verdict is advice. These guards keep it from doing harm:
//! - fewer than four bricks that can be compared: nobody knows who is the odd one;
//! - more than a third of the bricks are anomalous: the load has shifted, and no brick is to blame;
//! - another brick of one of its tablets is not online: a restart would cost the quorum;
//! - one finding is not enough: a brick must be anomalous in all judgements of two seconds. In simulated runs of
//!   15 minutes with stalls, single findings would have restarted 7.5 bricks a run that were not to blame, confirmed ones
//!   0.1. A brick that gets 15 % slower every ten seconds was found after 33 to 57 s;
//! - one at a time: a brick that was sentenced must be back, with a later life, before the next one is, unless it was
//!   acquitted;
//! - a brick is compared with nobody, and nobody with it, before it has reported `SAMPLE_COUNT` times in this life. What
//!   has just started is unlike the others for a while.
//!
//! Invariants:
//! - the same reports and questions lead to the same verdicts;
//! - no more than `BRICK_COUNT_MAX` bricks are remembered.
//!
//! Not here: the reports' way, the restart, servers that hold ordinary tables (they are never killed for being slow).
//! Source: DSTORE04 7; protocol: docs/protocols/quorum.md, rule 49. Catalogue: I6.

use crate::mad::Spread;
use crate::tarzan::{self, SAMPLE_COUNT};
use ramhold_base::{Instant, ServerId};
use ramhold_wire::statistics::{Flags, Statistic, Statistics};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Statistics of 17 that make a brick anomalous. With 8 a stall for a moment is enough.
pub const THRESHOLD: usize = 11;
/// A group of fewer bricks does not tell who is unlike.
const COMPARED_COUNT_MIN: usize = 4;
/// A report that is older than this is no news: two missed announcements, and half a pause.
const FRESH: Duration = Duration::from_millis(1250);
/// For how long a brick must have been found anomalous by every judgement before it is sentenced.
const CONFIRMED_AFTER: Duration = Duration::from_secs(2);
/// The pause between two judgements.
pub const JUDGE_INTERVAL: Duration = Duration::from_secs(1);
/// A brick that was sentenced and is not back after this time holds up no other verdict.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);
/// A brick that has reported nothing for so long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// Bricks that are compared. Each takes 14 KB, and the work grows with the square of their number: some milliseconds.
const BRICK_COUNT_MAX: usize = 32;

/// One brick's reports in its present life.
#[derive(Debug)]
struct Reported {
    life: u64,
    at: Instant,
    /// The newest one last.
    samples: VecDeque<Statistics>,
}

/// The circumstances that guard a brick.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The bricks that are known to be there and to vote.
    pub online: &'a BTreeSet<ServerId>,
    /// The bricks of each tablet.
    pub tablets: &'a [BTreeSet<ServerId>],
}

/// Why an anomalous brick is left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// This brick of one of its tablets is not online.
    SiblingAway(ServerId),
    /// This brick was sentenced and is not back.
    RestartUnderWay(ServerId),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No brick is anomalous.
    Healthy,
    /// Too few bricks can be compared.
    TooFew,
    /// So many bricks are anomalous that it is the load.
    Shift { anomalous: Vec<ServerId> },
    /// It is anomalous, which is to be confirmed by the next judgements.
    Suspected { brick: ServerId, life: u64 },
    /// It is anomalous, and must not be restarted now.
    Guarded { brick: ServerId, life: u64, guard: Guard, flagged: Flags },
    /// It is to be restarted, if it is still in this life. `repeated`: it was sentenced so often before, and is not back.
    Restart { brick: ServerId, life: u64, flagged: Flags, repeated: u32 },
}

/// A brick that is to be restarted.
#[derive(Clone, Copy, Debug)]
struct Sentence {
    brick: ServerId,
    life: u64,
    at: Instant,
    repeated: u32,
}

/// The reports of all bricks, and the last sentence.
#[derive(Debug)]
pub struct Anomalies {
    threshold: usize,
    bricks: BTreeMap<ServerId, Reported>,
    /// Bricks that the last judgement found anomalous, their lives, and since when each one did.
    suspected: BTreeMap<ServerId, (u64, Instant)>,
    /// The brick that was sentenced last.
    sentenced: Option<Sentence>,
    /// The flagged statistics of each brick that could be compared in the last judgement.
    flagged: BTreeMap<ServerId, Flags>,
}

impl Default for Anomalies {
    fn default() -> Anomalies {
        Anomalies::new(THRESHOLD)
    }
}

impl Anomalies {
    pub fn new(threshold: usize) -> Anomalies {
        Anomalies {
            threshold,
            bricks: BTreeMap::new(),
            suspected: BTreeMap::new(),
            sentenced: None,
            flagged: BTreeMap::new(),
        }
    }

    /// A brick's report. One of an earlier life than is known counts for nothing.
    pub fn report(&mut self, now: Instant, (brick, life): (ServerId, u64), statistics: Statistics) {
        if !self.bricks.contains_key(&brick) && self.bricks.len() >= BRICK_COUNT_MAX {
            return;
        }
        let fresh = || Reported { life, at: now, samples: VecDeque::new() };
        let reported = self.bricks.entry(brick).or_insert_with(fresh);
        if life < reported.life {
            return;
        }
        if life > reported.life {
            *reported = fresh();
        }
        reported.at = now;
        reported.samples.push_back(statistics);
        if reported.samples.len() > SAMPLE_COUNT {
            reported.samples.pop_front();
        }
        self.sentenced.take_if(|sentence| sentence.brick == brick && life > sentence.life);
    }

    /// A brick does not belong to those that are compared any more.
    pub fn forget(&mut self, brick: ServerId) {
        self.bricks.remove(&brick);
        self.suspected.remove(&brick);
        self.flagged.remove(&brick);
        self.acquit(brick);
    }

    /// The sentence of a brick was not carried out, and holds up no other one.
    pub fn acquit(&mut self, brick: ServerId) {
        self.sentenced.take_if(|sentence| sentence.brick == brick);
    }

    /// The flagged statistics of a brick in the last judgement. `None`: it could not be compared.
    pub fn flagged_of(&self, brick: ServerId) -> Option<Flags> {
        self.flagged.get(&brick).copied()
    }

    /// The bricks whose reports are known.
    pub fn count(&self) -> usize {
        self.bricks.len()
    }

    /// Judges the bricks by their newest reports, and notes the sentence. To be called every `JUDGE_INTERVAL`.
    pub fn judge(&mut self, now: Instant, circumstances: Circumstances<'_>) -> Verdict {
        let silent = |reported: &Reported| reported.at + FORGET_AFTER <= now;
        let silent: Vec<ServerId> =
            self.bricks.iter().filter(|(_, it)| silent(it)).map(|(brick, _)| *brick).collect();
        silent.into_iter().for_each(|brick| self.forget(brick));
        self.flagged = self.flagged(now);
        let flagged = &self.flagged;
        if flagged.len() < COMPARED_COUNT_MIN {
            return Verdict::TooFew;
        }
        let is_anomalous = |(_, flags): &(&ServerId, &Flags)| flags.count() >= self.threshold;
        let anomalous: Vec<ServerId> = flagged.iter().filter(is_anomalous).map(|(brick, _)| *brick).collect();
        self.suspect(now, &anomalous);
        let flagged = &self.flagged;
        if anomalous.len() * 3 > flagged.len() {
            return Verdict::Shift { anomalous };
        }
        // The one with the most; among equals the first.
        let worst = anomalous.iter().rev().max_by_key(|brick| flagged[brick].count());
        let Some(brick) = worst.copied() else { return Verdict::Healthy };
        let (life, flagged) = (self.bricks[&brick].life, flagged[&brick]);
        if self.suspected[&brick].1 + CONFIRMED_AFTER > now {
            return Verdict::Suspected { brick, life };
        }
        if let Some(guard) = self.guard(now, brick, circumstances) {
            return Verdict::Guarded { brick, life, guard, flagged };
        }
        let before = self.sentenced.filter(|before| (before.brick, before.life) == (brick, life));
        let repeated = before.map_or(0, |before| before.repeated.saturating_add(1));
        self.sentenced = Some(Sentence { brick, life, at: now, repeated });
        Verdict::Restart { brick, life, flagged, repeated }
    }

    /// Notes since when bricks are found anomalous in their present lives.
    fn suspect(&mut self, now: Instant, anomalous: &[ServerId]) {
        let before = std::mem::take(&mut self.suspected);
        for brick in anomalous {
            let life = self.bricks[brick].life;
            let since = before.get(brick).filter(|(of, _)| *of == life).map_or(now, |(_, since)| *since);
            self.suspected.insert(*brick, (life, since));
        }
    }

    fn guard(&self, now: Instant, brick: ServerId, circumstances: Circumstances<'_>) -> Option<Guard> {
        let Circumstances { online, tablets } = circumstances;
        let under_way = self.sentenced.filter(|sentence| sentence.at + RESTART_PATIENCE > now);
        if let Some(sentence) = under_way {
            return Some(Guard::RestartUnderWay(sentence.brick));
        }
        let its = tablets.iter().filter(|tablet| tablet.contains(&brick));
        let away = its.flatten().find(|other| **other != brick && !online.contains(other));
        away.map(|other| Guard::SiblingAway(*other))
    }

    /// The flagged statistics of each brick that can be compared: it has reported often enough, and just now.
    fn flagged(&self, now: Instant) -> BTreeMap<ServerId, Flags> {
        let is_compared = |(_, reported): &(&ServerId, &Reported)| {
            reported.samples.len() == SAMPLE_COUNT && reported.at + FRESH > now
        };
        let compared: Vec<(&ServerId, &Reported)> = self.bricks.iter().filter(is_compared).collect();
        let mut flagged: BTreeMap<ServerId, Flags> =
            compared.iter().map(|(brick, _)| (**brick, Flags::default())).collect();
        if compared.len() < COMPARED_COUNT_MIN {
            return flagged;
        }
        for statistic in Statistic::ALL {
            let series: Vec<[u64; SAMPLE_COUNT]> = compared
                .iter()
                .map(|(_, reported)| std::array::from_fn(|at| reported.samples[at].of(statistic)))
                .collect();
            let newest: Vec<u64> = series.iter().map(|samples| samples[SAMPLE_COUNT - 1]).collect();
            let spread = Spread::of(&newest);
            for (at, (brick, _)) in compared.iter().enumerate() {
                let others: Vec<&[u64; SAMPLE_COUNT]> =
                    series.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, it)| it).collect();
                if spread.flags(newest[at]) || tarzan::score(&series[at], &others).flags() {
                    let flags = flagged.get_mut(brick).expect("it is compared");
                    flags.0 |= Flags::of(&[statistic]).0;
                }
            }
        }
        flagged
    }
}

#[cfg(test)]
mod tests;
