//! Read leases that the coordinator grants, where the backups of a master's head cannot.
//!
//! A grant promises not to open the master's tablets elsewhere for a while. Grants are kept in memory alone: a
//! coordinator that starts assumes that every server was granted a lease just before. So a coordinator that has been
//! deposed must grant nothing: each grant waits until the store has confirmed the term (`confirmed`).
//!
//! Invariant: a server that is not Up when the store has answered is granted nothing.
//!
//! Protocol: docs/protocols/read-leases.md. Catalogue: F8, J2.

use crate::confirmed::{Answer, Confirmed};
use crate::desk::Desk;
use crate::streams::sender_of;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Peer, ServerId, Status};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use std::collections::BTreeMap;

#[derive(Default, Debug)]
pub(crate) struct ReadLeases {
    /// Until this instant a server may rely on a lease that an earlier coordinator granted.
    before: Instant,
    /// The instant until which each server may rely on what it was granted.
    granted: BTreeMap<ServerId, Instant>,
}

impl ReadLeases {
    pub(crate) fn resume(&mut self, now: Instant) {
        let before = if planted(Defect::StartGrantsNothing) { now } else { now + READ_LEASE };
        *self = ReadLeases { before, ..ReadLeases::default() };
    }

    pub(crate) fn on_read_lease(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        confirmed: &mut Confirmed,
        to: Peer,
        header: &Header,
    ) -> Result<(), Status> {
        let server = sender_of(header)?;
        if planted(Defect::DeposedGrants) {
            self.grant(now, desk, server, to, header);
        }
        confirmed.answer(desk, to, header, Answer::ReadLease);
        Ok(())
    }

    pub(crate) fn grant(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        server: ServerId,
        to: Peer,
        header: &Header,
    ) {
        if desk.state.is_up(server) {
            self.granted.insert(server, now + READ_LEASE);
            desk.outbox.reply_with(to, header, &Empty {});
        } else {
            desk.outbox.reply(to, header, Status::Fenced);
        }
    }

    /// The instant until which this server may rely on what coordinators have granted it. It is granted nothing any
    /// more.
    pub(crate) fn granted_until(&mut self, server: ServerId) -> Instant {
        let granted = self.granted.remove(&server).unwrap_or_default();
        granted.max(self.before)
    }
}
