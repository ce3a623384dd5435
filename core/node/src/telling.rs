//! Tells the coordinator a fact about this server that an operator should know: the device of its backup is full.
//!
//! `MembershipVerify`, the question whether this server is still in the cluster, carries the fact. The question is sent
//! at once when the device becomes full. It is repeated while the device is full, since the coordinator forgets the
//! fact when its process ends. It is sent once more when the device is not full any more.
//!
//! Catalogue: D3, J5.

use crate::ServerNode;
use crate::server::Phase;
use ramhold_base::{Effects, Instant};
use std::time::Duration;

/// The pause from one message to the next, also when the coordinator does not answer.
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
    /// Notes that a message leaves which says whether the device is full.
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
