//! The cluster's clock.
//!
//! The clock begins with the wall clock of the coordinator's machine. A coordinator that starts again must not tell
//! less than was told before. Everything that was told is below a stored ceiling, which is seconds ahead of the wall
//! clock. So the clock stands still at the ceiling until the wall clock has reached it. Meanwhile servers go on by what
//! they know (`is_standing`): if they followed this clock, objects would end too early. A wall clock that is further
//! behind (by more than `STANDING_MICROS_MAX`) was set back. Then the clock goes on from the ceiling, slower by a
//! ten-thousandth (`SLOWER_PARTS`), until the wall clock has caught up.
//!
//! Invariant: the time never goes back. Catalogue: A12, G2.

use ramhold_base::{ClusterTime, Instant};
use std::time::Duration;

/// A clock that is ahead runs slower by one part in this many. Servers expect at least as much drift between two
/// machines' clocks, so they follow this clock as closely as any other.
const SLOWER_PARTS: u64 = 10_000;
/// The longest time for which the clock stands still: a ceiling is up to ten seconds ahead, and the ceiling of a store
/// that was made anew ten seconds more.
const STANDING_MICROS_MAX: u64 = 25_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    wall: Began,
    /// The ceiling at which a coordinator that started again began, so that the time does not go back.
    ceiling: Began,
    /// The clock stands still at this time until the wall clock shows it.
    stands_until: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Began {
    at: Instant,
    micros: u64,
}

impl Began {
    fn passed(self, now: Instant) -> u64 {
        u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX)
    }
}

impl Clock {
    /// A clock that shows the wall clock's milliseconds since 1970.
    pub(crate) fn new(now: Instant, wall_millis: u64) -> Clock {
        let wall = Began { at: now, micros: wall_millis.saturating_mul(1000) };
        Clock { wall, ceiling: Began::default(), stands_until: 0 }
    }

    /// From now on the clock shows at least this time.
    pub(crate) fn begin_above(&mut self, now: Instant, ceiling: ClusterTime) {
        self.ceiling = Began { at: now, micros: ceiling.0.saturating_mul(1000) };
        let is_near = self.ceiling.micros.saturating_sub(self.wall_micros(now)) <= STANDING_MICROS_MAX;
        self.stands_until = if is_near { self.ceiling.micros } else { 0 };
    }

    /// Whether the clock stands still. If so, it tells only a time before which the cluster time surely is not.
    pub fn is_standing(&self, now: Instant) -> bool {
        self.wall_micros(now) < self.stands_until
    }

    /// The cluster time in microseconds since 1970.
    pub fn micros(&self, now: Instant) -> u64 {
        let wall = self.wall_micros(now);
        if self.stands_until > 0 {
            return wall.max(self.stands_until);
        }
        let passed = self.ceiling.passed(now);
        wall.max(self.ceiling.micros.saturating_add(passed - passed / SLOWER_PARTS))
    }

    fn wall_micros(&self, now: Instant) -> u64 {
        self.wall.micros.saturating_add(self.wall.passed(now))
    }
}

/// The milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_700_000_000_000;

    #[test]
    fn it_shows_the_wall_clock() {
        let mut clock = Clock::new(Instant(5_000_000), WALL);
        clock.begin_above(Instant(6_000_000), ClusterTime(WALL - 10_000));
        assert_eq!(clock.micros(Instant(5_123_456)), WALL * 1000 + 123);
    }

    // A12, G2
    #[test]
    fn a_clock_stands_still_at_its_ceiling_until_the_wall_clock_is_there() {
        let mut clock = Clock::new(Instant(0), WALL);
        clock.begin_above(Instant(0), ClusterTime(WALL + 10_000));
        for second in 0..20 {
            let now = Instant(0) + Duration::from_secs(second);
            assert_eq!(clock.micros(now), (WALL + 10_000.max(second * 1000)) * 1000);
            assert_eq!(clock.is_standing(now), second < 10);
        }
    }

    // A12, G2
    #[test]
    fn a_clock_that_is_far_ahead_comes_back_to_the_wall_clock_without_going_back() {
        let mut clock = Clock::new(Instant(0), WALL);
        clock.begin_above(Instant(0), ClusterTime(WALL + 30_000));
        assert!(!clock.is_standing(Instant(0)));
        let mut last = 0;
        for second in (0..400_000).step_by(100) {
            let now = Instant(0) + Duration::from_secs(second);
            let shown = clock.micros(now);
            assert!(shown > last);
            let ahead = shown - (WALL * 1000 + second * 1_000_000);
            assert_eq!(ahead, 30_000_000u64.saturating_sub(second * 100));
            last = shown;
        }
    }
}
