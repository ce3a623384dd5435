//! The steps of a recovery in their order: ask, prove, divide, and see it through.
//!
//! The recovery's record and the owners of tablets tell everything that is durable. One function advances a recovery,
//! and may be called at any time.
//!
//! Invariants:
//! - ends are stored before anybody is told of them, and change while a partition is live only with a loss;
//! - every division has an id of its own, so that neither backups nor masters mix two divisions;
//! - a dead server is removed only when no table has a tablet of it, and no piece names its log.
//!
//! Not here: recovery masters at work (`replaying`), their results (`publish`), what is lost (`losses`).
//! Protocol: docs/protocols/recovery.md. Catalogue: F2, F3, F5, F6, F7, D2.

use crate::clock::millis;
use crate::desk::Desk;
use crate::inquiry::PROOF_INTERVAL;
use crate::plan::Plan;
use crate::records::Key;
use crate::recoveries::{Outcome, Recoveries};
use crate::recovery::{Recovery, Surroundings};
use crate::{gone, losses, timeline};
use ramhold_base::limits::READ_LEASE;
use ramhold_base::{DirectoryId, Instant, Level, RecoveryId, ServerId, Status, TableId};
use ramhold_wire::decode;
use ramhold_wire::membership::ServerState;
use ramhold_wire::recovery::Fenced;
use std::collections::BTreeSet;
use std::time::Duration;

/// Whether the logs of a cold start may be divided though some directories are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ColdStart {
    Waiting,
    Ready,
}

impl Recoveries {
    /// Advances all recoveries that are due. Returns the tables of which tablets have to be taken anew.
    pub fn advance(&mut self, now: Instant, desk: &mut Desk, around: Surroundings<'_>) -> Vec<TableId> {
        let mut retaken = Vec::new();
        if std::mem::take(&mut desk.notes.recoveries) {
            self.wake_all();
        }
        if self.wake_at > now {
            return retaken;
        }
        self.let_go(now, desk, around);
        self.ask_for_room(now, desk);
        let is_cold = |id: &RecoveryId| desk.state.recoveries.get(id).is_some_and(|r| r.cold && !r.done);
        let all_proven = self.open.iter().all(|(id, r)| !is_cold(id) || r.inquiry.proof.is_some());
        let is_ready = now >= self.cold_until && all_proven;
        let version = desk.state.meta.list_version;
        let is_due = |id: &RecoveryId, r: &Recovery| {
            r.wake <= now || !r.inquiry.follows(version) || (is_ready && is_cold(id))
        };
        let due: Vec<RecoveryId> =
            self.open.iter().filter(|(id, r)| is_due(id, r)).map(|(id, _)| *id).collect();
        let cold = if is_ready { ColdStart::Ready } else { ColdStart::Waiting };
        for id in due {
            let Some(recovery) = self.open.get_mut(&id) else { continue };
            recovery.wake = Instant::FAR;
            match self.advance_one(now, desk, around, id, cold, &mut retaken) {
                Outcome::Open => self.publish_early(now, desk, id),
                Outcome::Over => {
                    self.open.remove(&id);
                }
            }
        }
        let version = desk.state.meta.list_version;
        let wake = |r: &Recovery| if r.inquiry.follows(version) { r.wake } else { now };
        let wake = self.open.values().map(wake).min().unwrap_or(Instant::FAR);
        self.wake_at = wake.min(self.room_wake(desk));
        retaken
    }

    fn advance_one(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        around: Surroundings<'_>,
        id: RecoveryId,
        cold: ColdStart,
        retaken: &mut Vec<TableId>,
    ) -> Outcome {
        let Some(record) = desk.state.recoveries.get(&id) else { return Outcome::Over };
        let (crashed, is_live) = (record.crashed, !record.published.is_empty());
        if record.done {
            return self.advance_kept(now, desk, around, id, crashed);
        }
        let Some(recovery) = self.open.get_mut(&id) else { return Outcome::Over };
        // Nothing was ever published before the lease was over.
        recovery.lease_over |= recovery.is_lease_over(now) || is_live;
        recovery.ask_backups(now, desk, id, crashed);
        let patient = recovery.inquiry.patient_until(&desk.config);
        let heard = recovery.inquiry.all_answered() || patient <= now;
        if !heard {
            recovery.wake_at(patient);
        }
        recovery.look(now, desk, around, id);
        if recovery.inquiry.proof.is_some() && now < recovery.lease_until {
            recovery.wake_at(recovery.lease_until);
        }
        recovery.lease_over |= recovery.is_lease_over(now);
        if recovery.inquiry.is_fenced() {
            timeline::note_step(now, desk, id, |steps| &mut steps.fenced);
        }
        if recovery.lease_over {
            timeline::note_step(now, desk, id, |steps| &mut steps.lease_over);
        }
        // A server that owned no table without replicas can answer nothing about one.
        let may_retake = recovery.lease_over || !losses::has_unreplicated(desk, crashed);
        if heard && recovery.retake && !around.is_starting && may_retake {
            let tables = losses::retake_unreplicated(now, desk, crashed);
            recovery.retake = tables.is_none();
            retaken.extend(tables.into_iter().flatten());
            recovery.check_done = true;
        }
        if std::mem::take(&mut recovery.check_done) {
            let is_over = !recovery.retake
                && !desk.state.has_tablets(crashed)
                && !around.progress.is_dropping_at(crashed);
            if is_over {
                self.end(now, desk, around, id, crashed);
                return Outcome::Over;
            }
        }
        self.refresh_earlier(now, desk, id);
        self.leave_out_no_more(id);
        let may_divide = self.may_divide(now, desk, around, id, cold)
            && self.has_earlier(now, desk, id, crashed)
            && self.admit(now, desk, id);
        if may_divide {
            self.divide(now, desk, id);
            self.assign(now, desk, id);
        }
        self.repeat(now, desk, id, crashed);
        Outcome::Open
    }

    /// The tablets that were left out come next, as soon as their logs are there.
    fn leave_out_no_more(&mut self, id: RecoveryId) {
        let Some(recovery) = self.open.get_mut(&id) else { return };
        if !recovery.lacking.is_empty() && recovery.plan.as_ref().is_some_and(Plan::is_live) {
            recovery.plan = None;
        }
    }

    pub fn on_fenced(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        id: RecoveryId,
        server: ServerId,
        status: Status,
        body: &[u8],
    ) {
        let Fenced { replicas, lease_millis } = match status {
            Status::Ok => match decode::<Fenced>(body) {
                Ok(fenced) => fenced,
                Err(_) => return,
            },
            // The backup's replicas are lost for good. Just before that, it may still have granted a lease.
            Status::DeviceFailed => Fenced { lease_millis: millis(READ_LEASE), ..Fenced::default() },
            _ => return,
        };
        let Some(recovery) = self.open.get_mut(&id) else { return };
        if !recovery.inquiry.on_answer(server, replicas) {
            return;
        }
        recovery.lease_until = recovery.lease_until.max(now + Duration::from_millis(lease_millis));
        let at = if recovery.inquiry.all_answered() { Instant::ZERO } else { now + PROOF_INTERVAL };
        if recovery.inquiry.is_fenced() {
            desk.look_at_tablets();
        }
        self.wake_one(id, at);
    }

    fn may_divide(
        &mut self,
        now: Instant,
        desk: &Desk,
        around: Surroundings<'_>,
        id: RecoveryId,
        cold: ColdStart,
    ) -> bool {
        let Some(recovery) = self.open.get_mut(&id) else { return false };
        let Some(patient) = recovery.inquiry.complete_until(&desk.config) else { return false };
        if !recovery.inquiry.all_answered() && patient > now {
            recovery.wake_at(patient);
            return false;
        }
        let Some(record) = desk.state.recoveries.get(&id) else { return false };
        if record.cold && cold == ColdStart::Waiting {
            let present: BTreeSet<DirectoryId> = desk.state.all_up().map(|s| s.entry.directory).collect();
            if !record.directories.iter().all(|d| present.contains(d)) {
                recovery.wake_at(self.cold_until.max(now + PROOF_INTERVAL));
                return false;
            }
        }
        !around.is_starting
    }

    fn end(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        around: Surroundings<'_>,
        id: RecoveryId,
        crashed: ServerId,
    ) {
        let time = desk.time(now);
        let server = desk.state.servers.get(&crashed);
        assert!(server.is_some_and(|s| s.entry.state == ServerState::Crashed), "what is recovered was dead");
        let Some(record) = desk.state.recoveries.get_mut(&id) else { return };
        record.done = true;
        let took = time.0.saturating_sub(record.detected.0);
        record.done_millis = Some(took);
        let text = format!(
            "{id} of {crashed} is over: {} tablets, {} records, {} bytes, {took} ms after the verdict",
            record.tablets, record.records, record.bytes
        );
        desk.outbox.report(Level::Info, text);
        desk.outbox.touch(Key::Recovery(id));
        gone::note_gone(desk, id, crashed);
        if desk.state.is_needed(crashed) {
            self.keep_log(now, desk, crashed);
        } else {
            self.let_go_of(now, desk, around, id, crashed);
        }
    }

    /// A table is being dropped: divisions that include it are made anew without it.
    pub fn leave_out(&mut self, table: TableId) {
        for recovery in self.open.values_mut() {
            if recovery.plan.as_ref().is_some_and(|plan| plan.has_pending(table)) {
                recovery.plan_anew();
            }
        }
        self.wake_all();
    }
}
