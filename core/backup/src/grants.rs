//! The read leases that this backup may have granted: with every append that it accepted, and in the life before.
//!
//! Protocol: docs/protocols/read-leases.md. Catalogue: F8, J2.

use ramhold_base::limits::READ_LEASE;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, ServerId};
use ramhold_wire::{Standing, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// When this life began, and when it last accepted an append from each server. Each of these may have granted a read
/// lease: that server may answer reads for `READ_LEASE` from then on.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    began: Instant,
    accepted: BTreeMap<ServerId, Instant>,
}

impl Grants {
    pub fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    /// An append from this server was accepted.
    pub fn note(&mut self, now: Instant, server: ServerId) {
        self.accepted.insert(server, now);
    }

    pub fn forget_removed(&mut self, view: &View) {
        self.accepted.retain(|server, _| view.list.standing(*server) != Standing::Removed);
    }

    /// The time left of the read lease that this backup may have granted, in this life or the one before.
    pub fn left(&self, now: Instant, server: ServerId) -> Duration {
        let accepted = self.accepted.get(&server).copied().unwrap_or_default();
        let began = if planted(Defect::RestartGrantsNothing) { Instant::ZERO } else { self.began };
        (accepted.max(began) + READ_LEASE).since(now)
    }
}
