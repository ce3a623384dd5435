//! Tells the coordinator what an operator should know of this server: that the device of its backup is full.
//!
//! The question whether this server is still in the cluster brings it along. It is asked at once when the device becomes
//! full, again while it is full, since the coordinator forgets it with its process, and once more when it is not.
//!
//! Catalogue: D3, J5.

use crate::ServerNode;
use crate::server::Phase;
use ramhold_base::{Effects, Instant};
use std::time::Duration;

/// From one message to the next: also when the coordinator does not answer.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// The coordinator's knowledge of this server's full disk.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// The content of the last answered message.
    knows_full: bool,
    /// The content of the message under way.
    says_full: bool,
    next: Instant,
}

impl Telling {
    /// A message that says so leaves.
    pub fn sent(&mut self, now: Instant, is_full: bool) {
        self.says_full = is_full;
        self.next = now + TELL_INTERVAL;
    }

    pub fn answered(&mut self) {
        self.knows_full = self.says_full;
    }
}

impl ServerNode {
    fn has_to_tell(&self) -> bool {
        let is_full = self.backup.full(self.now).is_some();
        self.phase == Phase::Serving && !self.verifying && (is_full || self.telling.knows_full)
    }

    pub(crate) fn tell(&mut self, now: Instant, effects: &mut Effects) {
        if self.has_to_tell() && self.telling.next <= now {
            self.verify(now, effects);
        }
    }

    pub(crate) fn telling_deadline(&self) -> Option<Instant> {
        self.has_to_tell().then_some(self.telling.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // D3
    #[test]
    fn the_coordinator_knows_what_it_has_answered() {
        let mut telling = Telling::default();
        telling.sent(Instant(5), true);
        assert!(!telling.knows_full);
        telling.answered();
        assert!(telling.knows_full);
        telling.sent(Instant(7), false);
        assert!(telling.knows_full, "the answer may be lost");
        telling.answered();
        assert!(!telling.knows_full);
        assert_eq!(telling.next, Instant(7) + TELL_INTERVAL);
    }
}
