//! When to repeat a message that has not been answered.

use crate::config::CoordinatorConfig;
use ramhold_base::Instant;
use std::time::Duration;

/// One message that is repeated with growing pauses. It is first due at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    next: Instant,
    wait: Duration,
}

impl Retry {
    pub fn new(config: &CoordinatorConfig) -> Retry {
        Retry { next: Instant::ZERO, wait: config.repeat_interval }
    }

    /// Whether to send the message now. If so, it is due again after `wait`, and `wait` doubles up to the maximum.
    pub fn take(&mut self, now: Instant, config: &CoordinatorConfig) -> bool {
        if self.next > now {
            return false;
        }
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(config.repeat_interval_max);
        true
    }

    pub fn next(&self) -> Instant {
        self.next
    }
}

/// The time to wait after this many failures.
pub(crate) fn pause(config: &CoordinatorConfig, failures: u32) -> Duration {
    let doubled = config.repeat_interval.saturating_mul(1 << failures.min(6));
    debug_assert!(!doubled.is_zero());
    doubled.min(config.repeat_interval_max)
}
