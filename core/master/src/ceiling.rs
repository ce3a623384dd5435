//! The version ceiling: no version at or above it is handed out before the coordinator has stored a higher one.
//!
//! After a reported loss, versions of the new owner start at the dead owner's ceiling, so that no version is handed out
//! twice (consistency rule 8). The coordinator raises the ceiling in large steps, so the check costs one comparison per
//! write.

use crate::calls::Context;
use ramhold_base::{Instant, Peer, Status, Version};
use ramhold_wire::membership::{CeilingRaise, CeilingRaised};
use ramhold_wire::{Calls, Header, Step, decode, request};
use std::time::Duration;

/// The master asks for a higher ceiling when fewer versions than this are left.
const MARGIN: u64 = 1 << 19;
const TIMEOUT: Duration = Duration::from_millis(500);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Ceiling {
    ceiling: Version,
    /// The highest version that was handed out, or is about to be.
    pub needed: Version,
    raising: bool,
    /// The coordinator is not asked before this instant.
    ask_at: Instant,
}

impl Ceiling {
    pub fn new(ceiling: Version) -> Ceiling {
        Ceiling { ceiling, needed: Version(0), raising: false, ask_at: Instant::ZERO }
    }

    /// Whether `version` may be handed out now. If not, a higher ceiling is asked for.
    pub fn admits(&mut self, version: Version) -> bool {
        self.needed = self.needed.max(version);
        version < self.ceiling
    }

    /// When to ask, if a higher ceiling is needed and no question is under way.
    pub fn deadline(&self) -> Option<Instant> {
        (self.is_low() && !self.raising).then_some(self.ask_at)
    }

    fn is_low(&self) -> bool {
        self.needed.raw().saturating_add(MARGIN) > self.ceiling.raw()
    }

    /// Asks for a higher ceiling, if one is needed and no question is under way.
    pub fn advance(&mut self, step: &mut Step<'_>, calls: &mut Calls<Context>) {
        if self.raising || !self.is_low() || self.ask_at > step.now {
            return;
        }
        self.raising = true;
        let rpc = calls.open(step.view.coordinator, step.now, step.now + TIMEOUT, Context::CeilingRaise);
        let message = CeilingRaise { needed: self.needed };
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &message);
    }

    pub fn on_raised(&mut self, now: Instant, header: &Header, body: &[u8]) {
        self.on_unanswered(now);
        if header.status() == Status::Ok
            && let Ok(raised) = decode::<CeilingRaised>(body)
        {
            self.ceiling = self.ceiling.max(raised.ceiling);
        }
    }

    pub fn on_unanswered(&mut self, now: Instant) {
        self.raising = false;
        self.ask_at = now + PAUSE;
    }
}
