//! The version ceiling: no version at or above it is handed out before the coordinator has stored a higher one.
//!
//! After a reported loss, versions of the new owner start at the dead owner's ceiling, so that no version is handed out
//! twice (consistency rule 8). The coordinator raises the ceiling in large steps, so the check costs one comparison per
//! write.

use crate::{Context, Master};
use ramhold_base::{Instant, Peer, Status, Version};
use ramhold_wire::membership::{CeilingRaise, CeilingRaised};
use ramhold_wire::{Header, Step, decode, request};
use std::time::Duration;

/// The master asks for a higher ceiling when fewer versions than this are left.
const MARGIN: u64 = 1 << 19;
const TIMEOUT: Duration = Duration::from_millis(500);
/// The pause between two questions.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Ceiling {
    pub ceiling: Version,
    /// The highest version that was handed out, or is about to be.
    pub needed: Version,
    pub raising: bool,
    /// The coordinator is not asked before this instant.
    pub ask_at: Instant,
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
}

impl Master {
    pub(crate) fn advance_ceiling(&mut self, step: &mut Step<'_>) {
        if self.ceiling.raising || !self.ceiling.is_low() || self.ceiling.ask_at > step.now {
            return;
        }
        self.ceiling.raising = true;
        let rpc = self.calls.open(step.view.coordinator, step.now, step.now + TIMEOUT, Context::CeilingRaise);
        let message = CeilingRaise { needed: self.ceiling.needed };
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &message);
    }

    pub(crate) fn on_ceiling_raised(&mut self, now: Instant, header: &Header, body: &[u8]) {
        self.ceiling.raising = false;
        self.ceiling.ask_at = now + PAUSE;
        if header.status() == Status::Ok
            && let Ok(raised) = decode::<CeilingRaised>(body)
        {
            self.ceiling.ceiling = self.ceiling.ceiling.max(raised.ceiling);
        }
    }
}
