//! A brick's time: the median of its own clock and its siblings', so that one wrong clock changes nothing.
//!
//! Its own clock alone may be an hour off. Until half of a tablet's other bricks have told their clocks, nothing is judged
//! by it: a stamp from afar would be stored, or what was superseded would be forgotten for an hour.
//!
//! Sessions take the median of what bricks tell them, so one wrong clock must not be told by two bricks. A brick that knows
//! its own clock and one other, and they differ, cannot know which one is wrong: it tells its own.
//!
//! Its own clock is the wall clock of its start, which goes on by the monotonic clock.
//!
//! Protocol: docs/protocols/quorum.md, rule 3. Catalogue: I2.

use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Instant, ServerId};
use ramhold_quorum::{Moment, ToldClock};
use std::collections::BTreeMap;

/// Clocks that are set as they should be differ by less, in microseconds.
const SPREAD_MAX: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct BrickClock {
    /// Microseconds since 1970, and when the clock showed them.
    own: (u64, Instant),
    told: BTreeMap<ServerId, ToldClock>,
}

impl BrickClock {
    pub fn start(&mut self, now: Instant, wall_millis: u64) {
        self.own = (wall_millis.saturating_mul(1000), now);
    }

    /// A sibling's own clock showed this time when its answer left.
    pub fn hear(&mut self, now: Instant, sibling: ServerId, micros: u64) {
        self.told.entry(sibling).or_insert_with(|| ToldClock::new(now, micros)).hear(now, micros);
    }

    /// Only these are siblings now.
    pub fn keep(&mut self, is_sibling: impl Fn(ServerId) -> bool) {
        self.told.retain(|brick, _| is_sibling(*brick));
    }

    pub fn has_told(&self, sibling: ServerId) -> bool {
        self.told.contains_key(&sibling)
    }

    /// Whether half of these siblings have told their clocks.
    pub fn is_known(&self, siblings: &[ServerId]) -> bool {
        let told = siblings.iter().filter(|sibling| self.told.contains_key(sibling)).count();
        2 * told >= siblings.len() || planted(Defect::QuorumOwnClockCounts)
    }

    /// The own clock, in microseconds: this is what siblings are told.
    pub fn own(&self, now: Instant) -> u64 {
        let since = u64::try_from(now.since(self.own.1).as_micros()).unwrap_or(u64::MAX);
        self.own.0.saturating_add(since)
    }

    /// The same in milliseconds, for operators.
    pub fn own_millis(&self, now: Instant) -> ClusterTime {
        ClusterTime(self.own(now) / 1000)
    }

    /// The own clock at the start.
    pub fn started_millis(&self) -> ClusterTime {
        ClusterTime(self.own.0 / 1000)
    }

    /// The time that sessions are told, in microseconds.
    pub fn told(&self, now: Instant) -> u64 {
        let time = self.now(now);
        let is_agreed = time.later - time.earlier <= SPREAD_MAX || planted(Defect::QuorumWrongClockPassedOn);
        if is_agreed { time.earlier } else { self.own(now) }
    }

    /// The brick's time, in microseconds.
    pub fn now(&self, now: Instant) -> Moment {
        Moment::of(self.told.values().map(|told| told.at(now)).chain([self.own(now)]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    // I2
    #[test]
    fn one_wrong_clock_of_three_changes_nothing() {
        let mut clock = BrickClock::default();
        let start = Instant(5);
        clock.start(start, 1000);
        assert_eq!(clock.now(start), Moment::from(1_000_000));
        let siblings = [2, 3].map(ServerId);
        assert!(!clock.is_known(&siblings) && clock.is_known(&[]));
        let later = start + Duration::from_millis(2);
        clock.hear(start, ServerId(2), 5_000_000);
        assert!(clock.is_known(&siblings) && !clock.is_known(&[3, 4].map(ServerId)));
        clock.hear(later, ServerId(3), 1_002_007);
        assert_eq!((clock.own(later), clock.now(later)), (1_002_000, Moment::from(1_002_007)));
    }

    // I2
    #[test]
    fn a_wrong_clock_is_not_passed_on() {
        let (start, hour) = (Instant(5), 3_600_000_000);
        let mut clock = BrickClock::default();
        clock.start(start, 2 * 3_600_000);
        clock.hear(start, ServerId(2), hour);
        assert_eq!(clock.now(start), Moment { earlier: hour, later: 2 * hour });
        assert_eq!(clock.told(start), 2 * hour, "one of two is wrong");
        clock.hear(start, ServerId(3), 2 * hour - 9);
        assert_eq!(clock.told(start), 2 * hour - 9, "one of three is wrong");
    }
}
