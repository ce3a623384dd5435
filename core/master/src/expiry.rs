//! When the next expired objects are removed.
//!
//! The log knows when its next object ends. `Expiry` turns that into the instant of the next slice.
//!
//! Not here: the slices themselves (`expire`). Catalogue: A12.

use ramhold_base::{ClusterTime, Instant, Position, Version};
use ramhold_log::{EndedKey, Found, Log, Reference};
use ramhold_wire::View;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Expiry {
    /// When the next slice is due.
    at: Option<Instant>,
    /// The end of life for which `at` was worked out.
    planned_for: Option<ClusterTime>,
    /// No slice begins before this.
    not_before: Instant,
    /// The number of requests when the last slice was done.
    pub requests: u64,
    pub found: Vec<EndedKey>,
}

/// An object whose time is over.
#[derive(Clone, Copy)]
pub(crate) struct Over {
    pub at: Reference,
    pub version: Version,
    pub end: ClusterTime,
    pub position: Position,
}

impl Expiry {
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// Works out when the next slice is due, if the next end of life is not the one that was planned for.
    #[inline]
    pub fn plan(&mut self, now: Instant, log: &Log, view: &View) {
        let first = log.first_end();
        if first != self.planned_for {
            self.plan_for(now, first, view);
        }
    }

    fn plan_for(&mut self, now: Instant, first: Option<ClusterTime>, view: &View) {
        self.planned_for = first;
        self.at = first.map(|end| {
            let left = Duration::from_millis(end.0.saturating_sub(view.time(now).0));
            (now + left).max(self.not_before)
        });
    }

    /// A slice was done, or is put off: the next one waits for `pause`. It is worked out anew in any case, because the
    /// cluster time may have been told anew.
    pub fn next(&mut self, now: Instant, pause: Option<Duration>, log: &Log, view: &View) {
        if let Some(pause) = pause {
            self.not_before = now + pause;
        }
        self.plan_for(now, log.first_end(), view);
    }
}

impl Over {
    pub fn of(found: &Found<'_>) -> Over {
        let end = found.expires.unwrap_or_default();
        Over { at: found.at, version: found.version, end, position: found.position() }
    }
}

/// Whether every later owner would know that an object with this end is over.
pub(crate) fn is_past_for_all(end: ClusterTime, now: Instant, view: &View) -> bool {
    view.past_for_all(now).is_some_and(|past| end <= past)
}
