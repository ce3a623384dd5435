//! All recoveries that are at work, and what they share.
//!
//! Not here: their steps (`steps`), their room (`room`, `turns`), logs that are kept (`kept`).
//! Protocol: docs/protocols/recovery.md.

use crate::desk::Desk;
use crate::read_leases::ReadLeases;
use crate::recovery::Recovery;
use crate::rooms::Rooms;
use crate::watching::Watches;
use ramhold_base::{Instant, RecoveryId};
use std::collections::BTreeMap;

pub(crate) struct Recoveries {
    /// One per crashed server, and one per kept log that is asked for.
    pub open: BTreeMap<RecoveryId, Recovery>,
    pub wake_at: Instant,
    /// A dead log may be kept for no piece any more.
    pub kept_changed: bool,
    pub cold_until: Instant,
    pub rooms: Rooms,
    /// Watches of recoveries that are not over, or whose replicas are not freed.
    pub watches: Watches,
}

/// Whether a recovery goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Open,
    Over,
}

impl Default for Recoveries {
    fn default() -> Recoveries {
        Recoveries {
            open: BTreeMap::new(),
            wake_at: Instant::FAR,
            kept_changed: true,
            cold_until: Instant::ZERO,
            rooms: Rooms::default(),
            watches: Watches::default(),
        }
    }
}

impl Recoveries {
    pub fn resume(&mut self, now: Instant, desk: &Desk, read_leases: &mut ReadLeases) {
        for record in desk.state.recoveries.values().filter(|record| !record.done) {
            let lease_until = read_leases.granted_until(record.crashed);
            self.open.insert(record.id, Recovery::new(now, lease_until));
        }
        self.cold_until = now + desk.config.cold_start_wait;
        self.wake_at = Instant::ZERO;
    }

    /// A server was declared dead, which may answer reads until `lease_until`.
    pub fn begin(&mut self, now: Instant, id: RecoveryId, lease_until: Instant) {
        self.open.insert(id, Recovery::new(now, lease_until));
        self.watches.watch(now, id);
    }

    /// All recoveries look at everything again.
    pub fn wake_all(&mut self) {
        for recovery in self.open.values_mut() {
            recovery.check_done = true;
            recovery.wake = Instant::ZERO;
        }
        self.kept_changed = true;
        self.wake_at = Instant::ZERO;
    }

    pub fn wake_one(&mut self, id: RecoveryId, at: Instant) {
        if let Some(recovery) = self.open.get_mut(&id) {
            recovery.wake_at(at);
            self.wake_at = self.wake_at.min(at);
        }
    }

    pub fn wake_waiting(&mut self) {
        for recovery in self.open.values_mut().filter(|recovery| recovery.is_waiting()) {
            recovery.wake = Instant::ZERO;
            self.wake_at = Instant::ZERO;
        }
    }

    /// A dead log is let go, so its replicas will be freed.
    pub fn room_may_be_free(&mut self) {
        self.rooms.is_scarce = false;
        self.wake_waiting();
    }

    /// When some recovery is to be advanced.
    pub fn wake(&self, desk: &Desk) -> Instant {
        if desk.notes.recoveries { Instant::ZERO } else { self.wake_at }
    }
}
