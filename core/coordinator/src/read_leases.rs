//! Read leases that the coordinator grants, where the backups of a master's head cannot.
//!
//! A grant promises not to open the master's tablets elsewhere for a while. It is kept in memory alone: a coordinator
//! that starts takes it that everybody was granted one just before. So one that has been deposed must grant nothing:
//! each grant waits until the store, asked after the request came, still has the own term.
//!
//! Invariants:
//! - nobody is granted anything who is not Up when the store has answered;
//! - at most one question to the store is under way; requests that come meanwhile wait for the next.
//!
//! Protocol: docs/protocols/read-leases.md. Catalogue: F8, J2.

use crate::machine::Coordinator;
use crate::membership::sender_of;
use crate::state::TERM_KEY;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Instant, Peer, ServerId, Status, StoreRequest, StoreToken};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use std::collections::BTreeMap;

/// Who asks, over which connection and with what.
type Asking = BTreeMap<ServerId, (ConnId, Header)>;

#[derive(Default, Debug)]
pub(crate) struct ReadLeases {
    /// Until then whoever was granted something by a coordinator of before may rely on it.
    before: Instant,
    /// Until when each server may rely on what it was granted.
    granted: BTreeMap<ServerId, Instant>,
    waiting: Asking,
    confirming: Option<(StoreToken, Asking)>,
}

impl Coordinator {
    pub(crate) fn resume_read_leases(&mut self, now: Instant) {
        let before = if planted(Defect::StartGrantsNothing) { now } else { now + READ_LEASE };
        self.read_leases = ReadLeases { before, ..ReadLeases::default() };
    }

    /// Servers that are dead and, as this coordinator decides by its clock, cannot answer reads any more, whether or not
    /// their tablets are served elsewhere yet.
    pub fn read_leases_over(&self, now: Instant) -> impl Iterator<Item = ServerId> {
        let over = self.recoveries.iter().filter(move |(_, recovery)| recovery.is_lease_over(now));
        over.filter_map(|(id, _)| self.state.recoveries.get(id).map(|record| record.crashed))
    }

    pub(crate) fn on_read_lease(
        &mut self,
        now: Instant,
        from: ConnId,
        header: &Header,
    ) -> Result<(), Status> {
        let server = sender_of(header)?;
        self.read_leases.waiting.insert(server, (from, *header));
        if planted(Defect::DeposedGrants) {
            let waiting = std::mem::take(&mut self.read_leases.waiting);
            self.grant(now, waiting);
        }
        self.confirm_term();
        Ok(())
    }

    fn confirm_term(&mut self) {
        if self.read_leases.confirming.is_none() && !self.read_leases.waiting.is_empty() {
            let token = self.outbox.store(StoreRequest::Get { key: TERM_KEY.into() });
            self.read_leases.confirming = Some((token, std::mem::take(&mut self.read_leases.waiting)));
        }
    }

    /// The store has told what it has as the term.
    pub(crate) fn on_term_confirmed(
        &mut self,
        now: Instant,
        token: StoreToken,
        found: &[(String, u64, Vec<u8>)],
    ) {
        let Some((_, asking)) = self.read_leases.confirming.take_if(|(expected, _)| *expected == token)
        else {
            return;
        };
        if found.first().is_none_or(|(_, version, _)| *version != self.outbox.term_version) {
            return self.deposed("another coordinator has taken over");
        }
        self.grant(now, asking);
        self.confirm_term();
    }

    fn grant(&mut self, now: Instant, asking: Asking) {
        for (server, (conn, header)) in asking {
            if self.state.is_up(server) {
                self.read_leases.granted.insert(server, now + READ_LEASE);
                self.outbox.reply_with(Peer::Conn(conn), &header, &Empty {});
            } else {
                self.outbox.reply(Peer::Conn(conn), &header, Status::Fenced);
            }
        }
    }

    /// Until when this server, which is not granted anything any more, may rely on what coordinators have granted it.
    pub(crate) fn granted_until(&mut self, server: ServerId) -> Instant {
        let granted = self.read_leases.granted.remove(&server).unwrap_or_default();
        granted.max(self.read_leases.before)
    }
}
