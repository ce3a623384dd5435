//! Tells operators that the rebuilding of this brick comes no further, and when it goes on.
//!
//! Not here: when that is so, and why (`stalling`). Protocol: docs/protocols/quorum.md, rules 97 and 98. Catalogue: I6, C6.

use crate::Brick;
use crate::announcing::COMPLAIN_INTERVAL;
use crate::events::EventKind;
use crate::stalling::News;
use ramhold_base::{Instant, Level};
use ramhold_wire::Step;
use ramhold_wire::brick_status::StalledStatus;

impl Brick {
    /// Why the rebuilding comes no further, for operators.
    pub(crate) fn stalled(&self, now: Instant) -> Option<StalledStatus> {
        self.siblings.stalling.status(now).filter(|_| self.without_vote_count() > 0)
    }

    /// Says that the rebuilding comes no further, or goes on.
    pub(crate) fn tell_stalling(&mut self, step: &mut Step<'_>, news: News) {
        let Some(me) = self.state().map(|state| state.brick) else { return };
        match self.siblings.stalling.status(step.now).filter(|_| news == News::Stalled) {
            None => step.effects.report(Level::Info, "the rebuilding goes on"),
            Some(stalled) => {
                let seconds = stalled.millis / 1000;
                let indicator =
                    format!("the rebuilding has come no further for {seconds} s: {}", stalled.why());
                let way_out = stalled.obstacle.way_out();
                step.effects.report(Level::Warn, format!("{indicator}; {way_out}"));
                // Which says the same from then on.
                self.siblings.complain_at = step.now + COMPLAIN_INTERVAL;
                let treatment = format!("tries again; {way_out}");
                self.note(step.now, EventKind::RebuildStalled, me, (indicator, treatment));
            }
        }
    }
}
