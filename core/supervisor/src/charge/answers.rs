//! Answers of the process at the brick's address, and questions that go unanswered.
//!
//! Any answer shows that a loop runs there, also one of a process that is no brick: that one is never ended.
//!
//! Not here: orders (`orders`), messages and calls (`supervisor`). Protocol: docs/protocols/quorum.md, rules 44, 45.
//! Catalogue: I6.

use super::Charge;
use crate::process::{Process, SILENT_FOR_MAX};
use crate::verdict::{Known, Unanswered};
use ramhold_base::event::{Indicator, Monitor, Treatment};
use ramhold_base::{Effects, Instant, Status};
use ramhold_wire::restart::{BrickProbed, RestartSaid};

impl Charge {
    /// The brick has answered.
    pub fn on_probed(&mut self, now: Instant, told: BrickProbed, effects: &mut Effects) {
        if !self.is_asked() {
            return;
        }
        self.note_alive(now, effects);
        self.is_strange = false;
        let (lives, may_restart) = ((told.life, told.mark), told.may_restart);
        if told.life > 0 {
            let BrickProbed { cluster, brick, life, mark, siblings, .. } = told;
            self.known = Some(Known { cluster, brick, life, mark, siblings, is_over: false });
        }
        let Some(verdict) = &self.verdict else { return };
        let said = match verdict.flagged {
            None => RestartSaid::Answers,
            Some(_) if may_restart && verdict.is_about(lives) => return self.cure(now, effects),
            Some(_) if !verdict.is_overdue(now) => return,
            Some(_) => RestartSaid::Held,
        };
        let treatment = if said == RestartSaid::Held { Treatment::Held } else { Treatment::Left };
        self.settle(said, treatment, effects);
    }

    /// The process runs. `Offline` is one of somebody else that has come back.
    fn note_alive(&mut self, now: Instant, effects: &mut Effects) {
        let since = match self.process {
            Process::Running { since, .. } => since,
            _ => {
                let back = Indicator::Back { name: self.name() };
                self.tell(back, Monitor::Supervisor, Treatment::Watched, effects);
                now
            }
        };
        self.process = Process::Running { since, has_answered: true };
        self.note_answer();
    }

    /// Something answers that is no brick, or no brick yet.
    pub fn on_refused(&mut self, now: Instant, status: Status, effects: &mut Effects) {
        if !self.is_running() {
            return;
        }
        self.note_alive(now, effects);
        let is_brick = matches!(status, Status::NotReady | Status::Retry);
        if !is_brick && !std::mem::replace(&mut self.is_strange, true) {
            let strange = Indicator::NoBrick { address: self.config.address, status };
            self.tell(strange, Monitor::Supervisor, Treatment::NothingRestarted, effects);
        }
        if self.verdict.as_ref().is_some_and(|verdict| verdict.flagged.is_none()) {
            self.settle(RestartSaid::Answers, Treatment::Left, effects);
        }
    }

    /// A question to the brick was not answered.
    pub fn on_unanswered(&mut self, now: Instant, how: Unanswered, effects: &mut Effects) {
        self.unanswered_count = self.unanswered_count.saturating_add(1);
        let (Unanswered::Late(time) | Unanswered::Lost(time)) = how;
        self.silent_for += time;
        if let Some(verdict) = self.verdict.as_ref().filter(|verdict| verdict.flagged.is_some()) {
            // A brick that hangs is silent to its siblings, too: they will say so.
            if verdict.is_overdue(now) {
                self.settle(RestartSaid::Held, Treatment::Held, effects);
            }
        } else if let Some(verdict) = &mut self.verdict {
            if verdict.on_unanswered(now) {
                self.carry_out(now, effects);
            }
        } else if self.is_running() && self.silent_for >= SILENT_FOR_MAX {
            self.kill_silent(now, effects);
        }
    }

    pub(super) fn kill_silent(&mut self, now: Instant, effects: &mut Effects) {
        let silent = Indicator::Unanswering { name: self.name(), waited: self.silent_for };
        self.kill(now, silent, Monitor::Supervisor, effects);
    }
}
