//! Words with the coordinator: it names a new brick, gives it tablets, and hears that it lives.
//!
//! Only a brick without an id needs the coordinator. Any other one serves before it has heard of it, and while it is away.
//!
//! Not here: the words (`greeting`), what an assignment changes (core/brick). Protocol: docs/protocols/quorum.md, rule 17. Catalogue: I4.

use ramhold_base::Instant;
use ramhold_wire::{CallRole, Calls};
use std::net::SocketAddr;
use std::time::Duration;

/// The pause between two words to the coordinator.
pub(super) const HELLO_INTERVAL: Duration = Duration::from_millis(250);

/// The coordinator's knowledge of this brick, and when it is told next.
pub(super) struct Hello {
    pub token: u64,
    pub calls: Calls<()>,
    pub next: Instant,
    /// Taken assignment and tablets without a vote, as last told.
    pub told: (u64, u32),
    /// The last good answer, or the start.
    pub heard: Instant,
    pub complained: Option<Instant>,
    /// Why it refuses this brick, since its last good answer.
    pub refusal: Option<String>,
    /// Since when the coordinator hears another process of this brick, if it does.
    pub copy_since: Option<Instant>,
    /// The version of an assignment that cannot be taken.
    pub untaken: Option<u64>,
}

impl Hello {
    pub fn new(token: u64, random: u64) -> Hello {
        Hello {
            token,
            calls: Calls::new(CallRole::Process, random),
            next: Instant::ZERO,
            told: (0, 0),
            heard: Instant::ZERO,
            complained: None,
            refusal: None,
            copy_since: None,
            untaken: None,
        }
    }

    pub fn on_lost(&mut self, now: Instant, addr: SocketAddr) {
        if !self.calls.lost(addr).is_empty() {
            self.next = now + HELLO_INTERVAL;
        }
    }
}
