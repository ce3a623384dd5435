//! The cluster's clock.
//!
//! It begins with the wall clock of the coordinator's machine. A coordinator that starts again must not tell less than was
//! told before, so it begins at the ceiling that was stored, if that is later: up to ten seconds ahead of the wall clock.
//! From there it goes slower by a ten-thousandth, until the wall clock has caught up after a day or less.
//!
//! Invariant: it never goes back. Catalogue: A12, G2.

use ramhold_base::{ClusterTime, Instant};

/// A clock that is ahead loses one part of so many: no more than servers expect of two machines' clocks, so that they
/// follow it as closely as any.
const SLOWER_PARTS: u64 = 10_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    wall: Began,
    /// Where a coordinator that started again began, so that time does not go back.
    ceiling: Began,
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
        Clock { wall, ceiling: Began::default() }
    }

    /// It shows at least this time from now on.
    pub(crate) fn begin_above(&mut self, now: Instant, ceiling: ClusterTime) {
        self.ceiling = Began { at: now, micros: ceiling.0.saturating_mul(1000) };
    }

    /// Microseconds since 1970.
    pub fn micros(&self, now: Instant) -> u64 {
        let (since_wall, since_ceiling) = (self.wall.passed(now), self.ceiling.passed(now));
        let wall = self.wall.micros.saturating_add(since_wall);
        wall.max(self.ceiling.micros.saturating_add(since_ceiling - since_ceiling / SLOWER_PARTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const WALL: u64 = 1_700_000_000_000;

    #[test]
    fn it_shows_the_wall_clock() {
        let mut clock = Clock::new(Instant(5_000_000), WALL);
        clock.begin_above(Instant(6_000_000), ClusterTime(WALL - 10_000));
        assert_eq!(clock.micros(Instant(5_123_456)), WALL * 1000 + 123);
    }

    // A12, G2
    #[test]
    fn a_clock_that_began_ahead_comes_back_to_the_wall_clock_without_going_back() {
        let mut clock = Clock::new(Instant(0), WALL);
        clock.begin_above(Instant(0), ClusterTime(WALL + 10_000));
        let mut last = 0;
        for second in (0..200_000).step_by(100) {
            let now = Instant(0) + Duration::from_secs(second);
            let shown = clock.micros(now);
            assert!(shown > last);
            let ahead = shown - (WALL * 1000 + second * 1_000_000);
            assert_eq!(ahead, 10_000_000u64.saturating_sub(second * 100));
            last = shown;
        }
    }
}
