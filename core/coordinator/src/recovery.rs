//! The recovery of one dead server: what is known of its log, its division, and what holds it up.
//!
//! Everything here can be found out again: after a restart the log is proven again, and the tablets that are still the
//! dead server's are divided anew.
//!
//! Not here: the steps in their order (`steps`), the division (`plan`).
//! Protocol: docs/protocols/recovery.md. Catalogue: F2, F3, D2.

use crate::config::CoordinatorConfig;
use crate::desk::Desk;
use crate::inquiry::{Inquiry, Look};
use crate::links::Links;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::prove::{Evidence, Missing, prove};
use crate::records::EndRecord;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, Peer, RecoveryId, ServerId};
use ramhold_wire::Header;
use ramhold_wire::recovery::Recovered;
use std::collections::BTreeSet;

/// The facts of other parts that recoveries need.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub links: &'a Links,
    pub progress: &'a Progress,
    /// The servers of the old list are still being looked at.
    pub is_starting: bool,
}

#[derive(Debug)]
pub(crate) struct Recovery {
    /// The reports of the backups about the log.
    pub inquiry: Inquiry,
    pub plan: Option<Plan>,
    /// Earlier logs of some tablets that lack a part. The other tablets are divided without those.
    pub lacking: BTreeSet<ServerId>,
    /// Whether this recovery may be replayed; see `room`.
    pub admission: Admission,
    /// Until this instant the dead server may answer reads, as far as backups and coordinators have told what they
    /// granted.
    pub lease_until: Instant,
    /// The lease was once clearly over, and stays so.
    pub lease_over: bool,
    /// This recovery found no room though nothing else was at work. Until this instant other recoveries may try.
    pub leaves_to_others_until: Instant,
    /// How often this recovery found no room since something of it went live.
    pub fruitless: u32,
    /// The most bytes that a partition is to have, because no master had room for a larger one since something went
    /// live.
    pub partition_bytes_max: Option<u64>,
    /// Results of recovery masters that came before the lease was over.
    pub early: Vec<(Peer, Header, Recovered)>,
    /// Tablets of `none` tables may still name the dead server.
    pub retake: bool,
    /// Whether the recovery is over has to be looked at.
    pub check_done: bool,
    pub wake: Instant,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The recovery was not judged yet.
    #[default]
    None,
    Waiting(Need),
    Admitted,
}

/// Memory of recovery masters that a recovery still needs, in bytes of log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub bytes: u64,
}

impl Admission {
    pub fn waits_for(&self) -> Option<String> {
        match self {
            Admission::Waiting(Need { bytes }) => Some(format!(
                "{bytes} bytes of memory besides what older recoveries need; \
                 start a server, or remove objects"
            )),
            Admission::None | Admission::Admitted => None,
        }
    }
}

impl Recovery {
    pub fn new(now: Instant, lease_until: Instant) -> Recovery {
        Recovery {
            inquiry: Inquiry::new(now),
            plan: None,
            lacking: BTreeSet::new(),
            admission: Admission::None,
            lease_until,
            lease_over: false,
            leaves_to_others_until: Instant::ZERO,
            fruitless: 0,
            partition_bytes_max: None,
            early: Vec::new(),
            retake: true,
            check_done: true,
            wake: Instant::ZERO,
        }
    }

    /// Something of this recovery went live, so there was room.
    pub fn found_room(&mut self) {
        self.fruitless = 0;
        self.partition_bytes_max = None;
    }

    /// Whether the dead server answers no reads any more. Its log is proven, so backups without which it could not have
    /// the lease refuse it; and everything that they and the coordinator had granted is over
    /// (docs/protocols/read-leases.md).
    pub fn is_lease_over(&self, now: Instant) -> bool {
        let is_proven = self.inquiry.proof.is_some();
        self.lease_over || (is_proven && (now >= self.lease_until || planted(Defect::OpenedEarly)))
    }

    /// Whether some master is at work on the division.
    pub fn is_running(&self) -> bool {
        self.plan.as_ref().is_some_and(Plan::is_running)
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.admission, Admission::Waiting(_)) && !self.lacks_something()
    }

    /// Whether it waits, and no master is at work on it any more either.
    pub fn is_held_up(&self) -> bool {
        self.is_waiting() && !self.is_running()
    }

    /// Whether it is replayed, or would be if nothing else came between.
    pub fn is_at_work(&self) -> bool {
        self.admission == Admission::Admitted && !self.lacks_something()
    }

    /// Whether some part is missing when all backups have answered. While they are being asked, for example after a
    /// partition has failed, the recovery keeps its place. Otherwise two recoveries that fail in turns for want of room
    /// would let each other in for ever.
    fn lacks_something(&self) -> bool {
        self.inquiry.lacks_something()
    }

    /// The recovery is to be advanced at this instant.
    pub fn wake_at(&mut self, at: Instant) {
        self.wake = self.wake.min(at);
    }

    /// The reports cannot be relied on any more, so all backups are asked anew.
    pub fn ask_anew(&mut self, config: &CoordinatorConfig) {
        self.inquiry.ask_anew(config);
        self.wake = Instant::ZERO;
    }

    /// The evidence has changed, and the dead server may have been granted a lease until `lease_until`.
    pub fn look_anew(&mut self, lease_until: Instant) {
        self.lease_until = self.lease_until.max(lease_until);
        self.inquiry.look_anew();
        self.wake = Instant::ZERO;
    }

    /// The division no longer fits, so the rest is divided anew.
    pub fn plan_anew(&mut self) {
        self.plan = None;
        self.inquiry.look_anew();
        self.check_done = true;
        self.wake = Instant::ZERO;
    }

    pub fn ask_backups(&mut self, now: Instant, desk: &mut Desk, id: RecoveryId, crashed: ServerId) {
        let wake = self.inquiry.ask_backups(now, desk, id, crashed);
        self.wake_at(wake);
    }

    /// Looks at what was reported, and proves the log if that suffices.
    pub fn look(&mut self, now: Instant, desk: &mut Desk, around: Surroundings<'_>, id: RecoveryId) {
        match self.inquiry.begin_look(now) {
            Look::Unchanged => return,
            Look::At(at) => return self.wake_at(at),
            Look::Now => {}
        }
        let Some(record) = desk.state.recoveries.get(&id) else { return };
        let Some(server) = desk.state.servers.get(&record.crashed) else { return };
        let is_final = self.inquiry.all_answered()
            && !around.is_starting
            && self.inquiry.silent_directories(&desk.state, record).is_empty();
        let evidence = match (is_final, record.given_up.is_empty()) {
            (false, _) => Evidence::Partial,
            (true, true) => Evidence::Final,
            (true, false) => Evidence::GivenUp,
        };
        let held = self.inquiry.held();
        let live = !record.published.is_empty();
        let fixed: &[EndRecord] = if live || self.plan.is_some() { &record.ends } else { &[] };
        let result = if live || fixed.is_empty() {
            prove(&server.streams, &held, fixed, evidence)
        } else {
            // No partition is live, so the ends may be chosen again.
            prove(&server.streams, &held, fixed, Evidence::Partial)
                .or_else(|_| prove(&server.streams, &held, &[], evidence))
        };
        match result {
            Ok(proof) => {
                if self.plan.as_ref().is_some_and(|plan| !plan.proof().replays_like(&proof)) {
                    self.plan = None;
                }
                if let Some(plan) = &mut self.plan {
                    plan.refresh(proof.clone());
                }
                self.inquiry.note_proof(now, proof);
                // Drops may have waited for this proof.
                desk.look_at_tablets();
            }
            Err(missing) => {
                let (count, first) = (missing.len(), missing.first().map(Missing::to_string));
                if self.inquiry.note_missing(now, missing) {
                    let first = first.unwrap_or_default();
                    let text = format!("{id} of {} waits, {count} missing: {first}", record.crashed);
                    desk.outbox.report(Level::Warn, text);
                }
                self.wake_at(self.inquiry.ask_again_at());
            }
        }
    }
}
