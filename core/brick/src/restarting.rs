//! Siblings that are silent, and the orders to restart them: who orders, and how often.
//!
//! The next brick by id that is heard orders the restart; nobody elects it. Two bricks that hear different siblings may both
//! order it. That is harmless: an order names the life, and the supervisor of the silent brick looks for itself.
//!
//! Invariants:
//! - a sibling that was heard within two periods is not silent;
//! - orders of one brick about one silence are at least two periods apart.
//!
//! Not here: the messages (`orders`), the decision to restart (core/supervisor). Protocol: docs/protocols/quorum.md,
//! rules 42, 43. Source: DSTORE04 5.3, 7. Catalogue: I6.

use ramhold_base::{Instant, ServerId, Status};
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use ramhold_wire::restart::RestartSaid;
use ramhold_wire::statistics::Flags;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Two missed announcements.
const SILENCE: Duration = Duration::from_millis(2 * ANNOUNCE_INTERVAL.as_millis() as u64);
/// The next brick may know no supervisor of the silent one, as it has just joined. The one after it orders the restart when
/// the silence has lasted for so much longer: an order has been answered by then, and a verdict carried out.
const NEXT_AFTER: Duration = Duration::from_secs(4);
/// The longest pause between two orders about one silence.
const AGAIN_MAX: Duration = Duration::from_secs(8);

/// The orders about siblings that are silent.
#[derive(Debug, Default)]
pub(crate) struct Restarting {
    ordered: BTreeMap<ServerId, Ordered>,
    /// Silence is counted from here on at the earliest: before, this brick was not on time itself.
    since: Instant,
}

#[derive(Debug)]
struct Ordered {
    silence: Silence,
    again_at: Instant,
    pause: Duration,
    /// The last answer that was reported.
    told: Option<Answer>,
}

/// A life of a sibling, and for how long it was silent when its restart was ordered last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Silence {
    pub life: u64,
    pub silent: Duration,
}

/// Why a restart is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    Silent(Silence),
    Anomalous { life: u64, flagged: Flags },
}

/// The answer to an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Said(RestartSaid),
    Refused(Status),
    None,
}

impl Answer {
    pub fn text(self) -> String {
        match self {
            Answer::Said(RestartSaid::Restarting) => "its supervisor restarts it".to_owned(),
            Answer::Said(RestartSaid::Answers) => {
                "its supervisor hears it and leaves it alone, so the network between us is cut".to_owned()
            }
            Answer::Said(RestartSaid::Offline) => {
                "it was restarted too often and stays offline; find out why, then run 'ramhold brick restart'"
                    .to_owned()
            }
            Answer::Said(RestartSaid::Held) => {
                "not all bricks of its tablets vote and consent, so it is left alone for now".to_owned()
            }
            Answer::Said(RestartSaid::Spared) => {
                "it was restarted too often, and is left as it is because it answers; look at its host"
                    .to_owned()
            }
            Answer::Refused(status) => format!("its supervisor refuses: {status}"),
            Answer::None => "its supervisor does not answer, so its host may be down; look there".to_owned(),
        }
    }
}

/// The bricks that may order the restart of another one, in their order: those that share a tablet with it and are heard,
/// the next one by id first.
pub(crate) fn orderers(
    about: ServerId,
    sharers: &BTreeSet<ServerId>,
    is_heard: impl Fn(ServerId) -> bool,
) -> Vec<ServerId> {
    let above = sharers.range(about..).filter(|brick| **brick != about);
    above.chain(sharers.range(..about)).copied().filter(|brick| is_heard(*brick)).collect()
}

/// Whether the one at this place among the orderers orders the restart of a brick that has been silent for so long.
pub(crate) fn has_turn(place: usize, silent: Duration) -> bool {
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    silent > SILENCE.saturating_add(NEXT_AFTER.saturating_mul(place))
}

impl Restarting {
    /// A period of this brick is over, and its own announcements are late by so much.
    pub fn begin_period(&mut self, now: Instant, late: Duration) {
        if self.since == Instant::ZERO || late > ANNOUNCE_INTERVAL {
            self.since = now;
        }
    }

    /// For how long a sibling has been silent, which was last heard then; none: it is not silent.
    pub fn silence(&self, now: Instant, heard: Option<Instant>) -> Option<Duration> {
        let silent = now.since(heard.unwrap_or_default().max(self.since));
        (silent > SILENCE).then_some(silent)
    }

    /// Forgets the orders about all other siblings: they are heard again.
    pub fn keep(&mut self, silent: &BTreeMap<ServerId, Duration>) {
        self.ordered.retain(|brick, _| silent.contains_key(brick));
    }

    /// Whether the restart of a silent sibling is to be ordered now. Notes that it is.
    pub fn is_due(&mut self, now: Instant, brick: ServerId, silence: Silence) -> bool {
        let first = Ordered { silence, again_at: now, pause: SILENCE, told: None };
        let ordered = self.ordered.entry(brick).or_insert(first);
        if ordered.again_at > now {
            return false;
        }
        ordered.silence = silence;
        ordered.again_at = now + ordered.pause;
        ordered.pause = (ordered.pause * 2).min(AGAIN_MAX);
        true
    }

    /// Whether the supervisor of a silent brick has given it up.
    pub fn is_offline(&self, brick: ServerId) -> bool {
        self.ordered
            .get(&brick)
            .is_some_and(|ordered| ordered.told == Some(Answer::Said(RestartSaid::Offline)))
    }

    /// Notes an answer. Gives the silence that it is about, if the answer is to be reported.
    pub fn on_answer(&mut self, brick: ServerId, answer: Answer) -> Option<Silence> {
        let ordered = self.ordered.get_mut(&brick).filter(|ordered| ordered.told != Some(answer))?;
        ordered.told = Some(answer);
        Some(ordered.silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> BTreeSet<ServerId> {
        ids.iter().copied().map(ServerId).collect()
    }

    const fn at(millis: u64) -> Instant {
        Instant(1_000_000_000_000 + millis * 1_000_000)
    }

    // I6
    #[test]
    fn the_next_brick_that_is_heard_orders_and_after_the_highest_comes_the_lowest() {
        let sharers = ids(&[2, 5, 9]);
        let next = |silent: u64, unheard: &[u64]| {
            let unheard = ids(unheard);
            let orderers = orderers(ServerId(silent), &sharers, |brick| !unheard.contains(&brick));
            orderers.first().copied().map(ServerId::raw)
        };
        assert_eq!([next(2, &[2]), next(5, &[5]), next(9, &[9])], [Some(5), Some(9), Some(2)]);
        // If the next one is silent, the one after it orders both restarts.
        assert_eq!([next(2, &[2, 5]), next(5, &[2, 5])], [Some(9), Some(9)]);
        assert_eq!([next(9, &[9, 2]), next(2, &[9, 2])], [Some(5), Some(5)]);
        assert_eq!(next(2, &[2, 5, 9]), None);
        assert_eq!(orderers(ServerId(5), &sharers, |_| true), [ServerId(9), ServerId(2)]);
    }

    // I6
    #[test]
    fn the_brick_after_the_next_one_orders_later() {
        let has_turn = |place, millis| has_turn(place, Duration::from_millis(millis));
        assert_eq!([has_turn(0, 1000), has_turn(0, 1001)], [false, true]);
        assert_eq!([has_turn(1, 5000), has_turn(1, 5001)], [false, true]);
        assert!(!has_turn(2, 9000) && !has_turn(usize::MAX, 60_000));
    }

    // I6
    #[test]
    fn one_missed_announcement_is_nothing_and_a_brick_that_was_late_counts_anew() {
        let mut restarting = Restarting::default();
        restarting.begin_period(at(0), Duration::ZERO);
        let silence = |restarting: &Restarting, now| restarting.silence(at(now), Some(at(0)));
        assert_eq!(silence(&restarting, 1000), None);
        assert_eq!(silence(&restarting, 1001), Some(Duration::from_millis(1001)));
        // It was stopped itself for five seconds.
        restarting.begin_period(at(5500), Duration::from_secs(5));
        assert_eq!(silence(&restarting, 6400), None);
        restarting.begin_period(at(6000), Duration::from_millis(1));
        assert_eq!(silence(&restarting, 6600), Some(Duration::from_millis(1100)));
    }

    // I6
    #[test]
    fn orders_about_one_silence_come_at_most_once_in_two_periods() {
        let mut restarting = Restarting::default();
        let silence = Silence { life: 7, silent: Duration::from_millis(1001) };
        let mut ordered: Vec<u64> = Vec::new();
        for now in (0..30_000).step_by(100) {
            if restarting.is_due(at(now), ServerId(3), silence) {
                ordered.push(now);
            }
        }
        assert_eq!(ordered, [0, 1000, 3000, 7000, 15_000, 23_000]);
        assert_eq!(restarting.on_answer(ServerId(3), Answer::None), Some(silence));
        assert_eq!(restarting.on_answer(ServerId(3), Answer::None), None, "it was reported");
        // It is heard again, and silent again: a new silence.
        restarting.keep(&BTreeMap::new());
        assert_eq!(restarting.on_answer(ServerId(3), Answer::None), None);
        assert!(restarting.is_due(at(30_000), ServerId(3), silence));
    }
}
