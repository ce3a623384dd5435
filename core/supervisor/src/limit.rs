//! Limits restarts: more of them than this, and the fault is a lasting one.
//!
//! Catalogue: I6.

use ramhold_base::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// Restarts that are counted at most, so that a limit takes no more memory than this.
pub(crate) const RESTART_COUNT_MAX: u32 = 1000;

/// The number of restarts within a time after which a brick stays offline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestartLimit {
    None,
    AtMost { count: u32, within: Duration },
}

impl RestartLimit {
    /// A fault that three restarts within ten minutes have not cured is not cured by a fourth.
    pub const DEFAULT: RestartLimit = RestartLimit::AtMost { count: 3, within: Duration::from_secs(600) };

    /// `None`: a limit counts 0 to 1,000 restarts.
    pub fn at_most(count: u32, within: Duration) -> Option<RestartLimit> {
        (count <= RESTART_COUNT_MAX).then_some(RestartLimit::AtMost { count, within })
    }
}

/// The restarts of one brick.
#[derive(Debug)]
pub(crate) struct Restarts {
    limit: RestartLimit,
    at: VecDeque<Instant>,
}

impl Restarts {
    pub fn new(limit: RestartLimit) -> Restarts {
        Restarts { limit, at: VecDeque::new() }
    }

    /// Counts a restart. `Err`: there were too many already; how many, within which time.
    pub fn admit(&mut self, now: Instant) -> Result<(), (u32, Duration)> {
        let RestartLimit::AtMost { count, within } = self.limit else { return Ok(()) };
        self.at.retain(|at| now < *at + within);
        if self.at.len() >= count as usize {
            return Err((count, within));
        }
        self.at.push_back(now);
        Ok(())
    }

    /// The restart that was counted last did not come about.
    pub fn take_back(&mut self) {
        let _ = self.at.pop_back();
    }

    /// An operator has looked after the brick.
    pub fn begin_anew(&mut self) {
        self.at.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6
    #[test]
    fn restarts_are_counted_within_a_moving_time() {
        let minute = |minutes: u64| Instant::ZERO + Duration::from_secs(60 * minutes);
        let mut restarts = Restarts::new(RestartLimit::DEFAULT);
        assert!([0, 4, 9].iter().all(|at| restarts.admit(minute(*at)).is_ok()));
        assert_eq!(restarts.admit(minute(9)), Err((3, Duration::from_secs(600))));
        assert!(restarts.admit(minute(10)).is_ok(), "the first one is ten minutes ago");
        assert!(restarts.admit(minute(11)).is_err());
        restarts.take_back();
        assert!(restarts.admit(minute(11)).is_ok() && restarts.admit(minute(11)).is_err());
        restarts.begin_anew();
        assert!(restarts.admit(minute(11)).is_ok());
        let mut unlimited = Restarts::new(RestartLimit::None);
        assert!((0..5000).all(|_| unlimited.admit(minute(0)).is_ok()));
        assert_eq!(RestartLimit::at_most(1001, Duration::from_secs(1)), None);
    }
}
