//! A session's time: the median of what its bricks tell, and never back.
//!
//! A host's own clock may be an hour off. With the median of N bricks one wrong clock changes nothing. Between two
//! answers the time goes on by the host's monotonic clock, which need not be right about the date.
//!
//! An answer shows what a clock was when the answer left, so what is worked out from it is never too much, and too little by
//! the time that the answer was under way. Out of the answers of the last minute the one that shows most therefore counts,
//! and an answer that comes seconds late sets nothing back.
//!
//! Protocol: docs/protocols/quorum.md, rules 2 and 3. Catalogue: I2.

use crate::message::BrickId;
use ramhold_base::Instant;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{SessionId, Stamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The lower one of the two in the middle, if their number is even. `None` of nothing.
pub fn median(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len().checked_sub(1)? / 2).copied()
}

/// An answer that showed most counts for so long at most: then a clock that was set back, or stood still with its machine,
/// is believed.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// It is believed at once if it shows less by so much: no answer is under way for that long, longer than operations last.
const LATE_MAX: Duration = Duration::from_secs(20);
/// Two monotonic clocks differ in rate by at most one part in so many.
const RATE_PARTS: u32 = 5_000;

/// The clock of a process elsewhere, as far as its answers show it: microseconds, and when they were read here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToldClock(u64, Instant);

impl ToldClock {
    pub fn new(now: Instant, micros: u64) -> ToldClock {
        ToldClock(micros, now)
    }

    pub fn hear(&mut self, now: Instant, micros: u64) {
        let age = now.since(self.1);
        let least = self.0.saturating_add(micros_of(age - age / RATE_PARTS));
        let late = least.saturating_sub(micros);
        let is_late = age < KEPT_FOR && late > 0 && late < micros_of(LATE_MAX);
        if !is_late || planted(Defect::QuorumLateClockCounts) {
            *self = ToldClock(micros, now);
        }
    }

    /// The time that the clock shows, in microseconds.
    pub fn at(&self, now: Instant) -> u64 {
        self.0.saturating_add(micros_of(now.since(self.1)))
    }
}

fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A brick's time. While an even number of clocks is known, the two in the middle may differ: a write is too old by the
/// later one, and too far ahead by the earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub earlier: u64,
    pub later: u64,
}

impl From<u64> for Moment {
    fn from(time: u64) -> Moment {
        Moment { earlier: time, later: time }
    }
}

impl Moment {
    /// The middle of some clocks.
    pub fn of(mut times: Vec<u64>) -> Moment {
        times.sort_unstable();
        let at = |index: usize| times.get(index).copied().unwrap_or_default();
        Moment { earlier: at(times.len().saturating_sub(1) / 2), later: at(times.len() / 2) }
    }
}

/// The clock of a session, and the stamps that it has given out.
#[derive(Clone, Debug)]
pub struct SessionClock {
    session: SessionId,
    told: BTreeMap<BrickId, ToldClock>,
    /// All further stamps have a later time.
    last: u64,
}

impl SessionClock {
    pub fn new(session: SessionId) -> SessionClock {
        SessionClock { session, told: BTreeMap::new(), last: 0 }
    }

    pub fn hear(&mut self, now: Instant, from: BrickId, clock: u64) {
        self.told.entry(from).or_insert_with(|| ToldClock::new(now, clock)).hear(now, clock);
    }

    /// Whether more than half of these bricks have told their time. The first one to tell may be the one that is wrong, and
    /// a stamp from afar would push all later ones on.
    pub fn is_known(&self, bricks: &[BrickId]) -> bool {
        2 * bricks.iter().filter(|brick| self.told.contains_key(brick)).count() > bricks.len()
    }

    /// Forgets bricks that hold nothing of this session any more.
    pub fn keep(&mut self, is_kept: impl Fn(BrickId) -> bool) {
        self.told.retain(|brick, _| is_kept(*brick));
    }

    /// Microseconds. `None` before any brick has told its time.
    pub fn now(&self, now: Instant) -> Option<u64> {
        median(self.told.values().map(|told| told.at(now)).collect())
    }

    /// A stamp above all that this session has given out, and above `floor`. `None` before any brick has told its time.
    pub fn stamp(&mut self, now: Instant, floor: Stamp) -> Option<Stamp> {
        let time = self.now(now)?.max(self.last.saturating_add(1)).max(floor.time.saturating_add(1));
        if planted(Defect::QuorumSessionsMeet) {
            return Some(Stamp { time: time / 20_000 * 20_000, session: 2 });
        }
        self.last = time;
        Some(Stamp::new(time, self.session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    // I2
    #[test]
    fn one_wrong_clock_changes_nothing_and_stamps_rise() {
        let session = SessionId::of(2).expect("even");
        let mut clock = SessionClock::new(session);
        let at = Instant(5);
        assert_eq!(clock.stamp(at, Stamp::NONE), None, "nobody has told the time");
        let hour = 3_600_000_000;
        for (brick, time) in [(1, 10 * hour), (2, 9 * hour), (3, 10 * hour + 7)] {
            clock.hear(at, BrickId(brick), time);
        }
        assert_eq!(clock.now(at), Some(10 * hour));
        assert_eq!(clock.now(at + Duration::from_millis(3)), Some(10 * hour + 3000));
        let first = clock.stamp(at, Stamp::NONE).expect("known");
        assert_eq!(first, Stamp::new(10 * hour, session));
        assert_eq!(clock.stamp(at, Stamp::NONE), Some(Stamp::new(10 * hour + 1, session)));
        let told = Stamp { time: 10 * hour + 50, session: 1 << 40 };
        assert!(clock.stamp(at, told).expect("known") > told);
        (1..=3).for_each(|brick| clock.hear(at, BrickId(brick), 1));
        assert!(clock.stamp(at, Stamp::NONE).expect("known").time > 10 * hour + 50, "never back");
        assert_eq!(median(vec![4, 1]), Some(1));
        assert_eq!(Moment::of(vec![4, 1]), Moment { earlier: 1, later: 4 });
        assert_eq!(Moment::of(vec![4, 1, 9]), Moment::from(4));
        assert_eq!(median(Vec::new()), None);
    }
}
