//! Restarts that an operator wants, and the end of the supervisor.
//!
//! Not here: orders of siblings (`orders`). Protocol: docs/protocols/quorum.md, rules 45, 46. Catalogue: I6.

use super::Charge;
use crate::process::{Act, Process, Then};
use crate::verdict::UNANSWERED_MAX;
use ramhold_base::event::{Indicator, Monitor, Treatment};
use ramhold_base::{Effects, Instant, Status};
use ramhold_wire::Header;
use ramhold_wire::restart::{BrickRestart, RestartSaid};

impl Charge {
    /// An operator wants a restart. `Err`: it is refused, and nothing is done.
    pub fn on_restart(
        &mut self,
        now: Instant,
        header: &Header,
        asked: BrickRestart,
        effects: &mut Effects,
    ) -> Result<RestartSaid, Status> {
        let known = self.known.as_ref().ok_or(Status::NotReady)?;
        known.check(header, asked.brick)?;
        // A process of somebody else may begin a life before it is asked again.
        match asked.life {
            0 => {}
            life if life > known.life => return Err(Status::NotReady),
            life if life < known.life => return Err(Status::Fenced),
            _ => {}
        }
        let mut treatment = Treatment::Stopped;
        match self.process {
            Process::Over | Process::Ending { then: Then::End, .. } => return Err(Status::NotReady),
            // The life that is meant is over, and the next one has not told itself.
            Process::Starting | Process::Running { .. } if known.is_over && asked.life != 0 => {
                return Err(Status::Fenced);
            }
            Process::Running { .. } if known.is_over => return Err(Status::NotReady),
            Process::Starting => return Err(Status::NotReady),
            Process::Ending { kill_at, .. } => self.process = Process::Ending { then: Then::Start, kill_at },
            // It was left as it hangs.
            Process::Offline if self.config.is_foreign => self.end(now, Act::Kill, Then::Start),
            Process::Waiting { .. } | Process::Offline => self.process = self.waiting(now),
            // A process that hangs does not hear that it is to stop.
            Process::Running { .. } if self.unanswered_count >= UNANSWERED_MAX => {
                self.end(now, Act::Kill, Then::Start);
                treatment = Treatment::Killed;
            }
            Process::Running { .. } => self.end(now, Act::Stop, Then::Start),
        }
        self.restarts.begin_anew();
        self.short_count = 0;
        if let Some(verdict) = self.verdict.take() {
            verdict.answer(RestartSaid::Restarting, effects);
        }
        let indicator = Indicator::Asked { name: self.name() };
        self.tell(indicator, Monitor::Operator, self.treated(treatment), effects);
        self.advance(now, effects);
        Ok(RestartSaid::Restarting)
    }

    /// The supervisor is to end: its process stops in order first. One that hangs does not hear that.
    pub fn stop(&mut self, now: Instant, effects: &mut Effects) {
        match self.process {
            Process::Waiting { .. } | Process::Offline | Process::Over => self.process = Process::Over,
            Process::Running { .. } if self.unanswered_count >= UNANSWERED_MAX => {
                self.end(now, Act::Kill, Then::End);
                let silent = Indicator::Unanswering { name: self.name(), waited: self.silent_for };
                self.tell(silent, Monitor::Supervisor, Treatment::Forced { starts: false }, effects);
            }
            Process::Starting | Process::Running { .. } => self.end(now, Act::Stop, Then::End),
            Process::Ending { kill_at, .. } => self.process = Process::Ending { then: Then::End, kill_at },
        }
    }
}
