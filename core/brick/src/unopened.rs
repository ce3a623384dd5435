//! Tablets that are not served, since there is no room for the first head of their stream, and when that is tried again.
//!
//! Not here: the heads (`opening`). Protocol: docs/protocols/quorum.md, rule 95. Catalogue: I1, C6.

use ramhold_base::Instant;
use std::time::Duration;

/// The pause between two tries.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is said that tablets wait.
const COMPLAIN_INTERVAL: Duration = Duration::from_secs(60);

/// The tablets that are not served for want of room.
#[derive(Debug, Default)]
pub(crate) struct Unopened {
    /// The number of the durable state all of which is served but for these.
    state: u64,
    tablets: usize,
    again_at: Instant,
    complain_at: Instant,
}

impl Unopened {
    /// The number of tablets that wait.
    pub fn count(&self) -> usize {
        self.tablets
    }

    /// Whether this state is served as far as it can be, and the next try is not due yet.
    pub fn rests(&self, state: u64, now: Instant) -> bool {
        self.tablets > 0 && self.state == state && now < self.again_at
    }

    pub fn deadline(&self) -> Option<Instant> {
        (self.tablets > 0).then_some(self.again_at)
    }

    /// The heads are tried now.
    pub fn try_again(&mut self, now: Instant) {
        self.again_at = now + AGAIN;
    }

    /// So many tablets of this state wait. Returns how many did before, and whether it is to be said now.
    pub fn wait(&mut self, now: Instant, state: u64, tablets: usize) -> (usize, bool) {
        let before = std::mem::replace(&mut self.tablets, tablets);
        self.state = state;
        let is_due = tablets > 0 && (before == 0 || self.complain_at <= now);
        if is_due {
            self.complain_at = now + COMPLAIN_INTERVAL;
        }
        (before, is_due)
    }
}
