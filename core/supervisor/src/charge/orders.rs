//! Orders of siblings: taken, looked into, and carried out or not.
//!
//! Not here: the checks of an order (`verdict`), the brick's answers (`answers`), operators (`operator`). Protocol:
//! docs/protocols/quorum.md, rules 44, 66 to 68. Catalogue: I6.

use super::Charge;
use crate::process::{Act, Process, RESTART_PAUSE, Then};
use crate::verdict::{Verdict, answer};
use ramhold_base::event::{Monitor, Treatment};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Peer, Status};
use ramhold_wire::Header;
use ramhold_wire::restart::{RestartOrder, RestartSaid};

impl Charge {
    /// An order of a sibling. `Err`: it is refused, and nothing is done.
    pub fn on_order(
        &mut self,
        now: Instant,
        (to, header): (Peer, &Header),
        order: RestartOrder,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let known = self.known.as_ref().ok_or(Status::NotReady)?;
        known.check(header, order.brick)?;
        let is_over = known.check_order(header, order)?;
        let asker = (to, *header);
        match self.process {
            Process::Offline => answer(effects, &asker, RestartSaid::Offline),
            _ if is_over && !planted(Defect::QuorumLateOrder) => return Err(Status::Fenced),
            Process::Ending { then: Then::StayOffline, .. } => answer(effects, &asker, RestartSaid::Offline),
            Process::Ending { .. } => answer(effects, &asker, RestartSaid::Restarting),
            Process::Running { since, .. } if now < since + RESTART_PAUSE => return Err(Status::Retry),
            Process::Running { .. } => self.judge(now, asker, order, effects)?,
            Process::Waiting { .. } | Process::Starting | Process::Over => return Err(Status::Fenced),
        }
        Ok(())
    }

    fn judge(
        &mut self,
        now: Instant,
        asker: (Peer, Header),
        order: RestartOrder,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let mut new = Verdict::new(now, asker.1.sender, order);
        if let Some(before) = self.verdict.take_if(|before| before.weighs_less_than(&new)) {
            new.waiting = before.waiting;
        }
        self.verdict.get_or_insert(new).join(asker)?;
        if planted(Defect::QuorumOrderBelieved) {
            self.carry_out(now, effects);
        }
        Ok(())
    }

    /// Answers all orders that wait, and tells what was done.
    pub(super) fn settle(&mut self, said: RestartSaid, treatment: Treatment, effects: &mut Effects) {
        let Some(verdict) = self.verdict.take() else { return };
        verdict.answer(said, effects);
        let indicator = verdict.indicator(self.known.as_ref());
        self.tell(indicator, Monitor::Brick(verdict.by), treatment, effects);
    }

    /// All siblings consent to the restart of a brick that answers. It is of use, so it never goes offline for that.
    pub(super) fn cure(&mut self, now: Instant, effects: &mut Effects) {
        match self.restarts.admit(now) {
            Err((restarts, within)) if !planted(Defect::QuorumCureUnlimited) => {
                self.settle(RestartSaid::Spared, Treatment::Spared { restarts, within }, effects);
            }
            _ => {
                self.end(now, Act::Kill, Then::Start);
                self.settle(RestartSaid::Restarting, self.treated(Treatment::Cured), effects);
            }
        }
    }

    pub(super) fn carry_out(&mut self, now: Instant, effects: &mut Effects) {
        let Some(verdict) = self.verdict.take() else { return };
        let indicator = verdict.indicator(self.known.as_ref());
        let said = self.kill(now, indicator, Monitor::Brick(verdict.by), effects);
        verdict.answer(said, effects);
    }
}
