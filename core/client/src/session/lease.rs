//! The session's lease, and the numbers that it has given to mutations and to updates at the coordinator.
//!
//! The first mutation or update opens a lease. Later ones renew it when a third of its term has passed. When
//! the lease is over, operations that were sent under it and may have had their effect end as unknown. All
//! others go on under the next lease.
//!
//! Protocol: docs/protocols/exactly-once.md, rules 5 and 10.

use super::Session;
use super::running::{Running, State, Wanted};
use crate::operation::{Operation, OperationId, Repeat};
use crate::outcome::{Outcome, Reply};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, LeaseId, Sequence, Status};
use std::collections::BTreeSet;
use std::time::Duration;

/// The most numbers from the oldest in use to the newest. Servers remember twice as many of one lease.
const SPAN_MAX: u64 = 32_768;

#[derive(Debug, Default)]
pub(super) struct Lease {
    /// None: there is no lease.
    id: LeaseId,
    /// The lease surely lives until then.
    until: Instant,
    renew_at: Instant,
    sequence_last: Sequence,
    /// Numbers under which a request may be sent again.
    unfinished: BTreeSet<Sequence>,
}

impl Lease {
    pub fn acknowledge(&mut self, (lease, sequence): (LeaseId, Sequence)) {
        if lease == self.id {
            self.unfinished.remove(&sequence);
        }
    }

    fn next(&mut self) -> Sequence {
        self.sequence_last = self.sequence_last.next();
        self.unfinished.insert(self.sequence_last);
        self.sequence_last
    }

    /// The lease, and the lowest number that may still be sent under it.
    pub fn identity(&self) -> (LeaseId, Sequence) {
        (self.id, self.floor())
    }

    fn floor(&self) -> Sequence {
        self.unfinished.first().copied().unwrap_or(self.sequence_last.next())
    }

    fn renewed(&mut self, asked: Instant, term_millis: u64) {
        let term = Duration::from_millis(term_millis);
        self.until = self.until.max(asked + term);
        self.renew_at = asked + term / 3;
    }
}

impl Session {
    /// Whether an operation must wait for a lease before it is sent.
    pub(super) fn needs_lease(&self, now: Instant, id: OperationId) -> bool {
        let is_numbered = self.running[&id].operation.repeat() == Repeat::Numbered;
        is_numbered && (self.lease.id.is_none() || now >= self.lease.until)
    }

    /// Whether so many numbers lie above the oldest one in use that servers could refuse to remember more.
    pub(super) fn must_hold_back(&self, id: OperationId) -> bool {
        let running = &self.running[&id];
        let is_new = running.operation.repeat() == Repeat::Numbered && running.number.is_none();
        is_new
            && self.lease.sequence_last.raw() - self.lease.floor().raw().min(self.lease.sequence_last.raw())
                >= SPAN_MAX
    }

    /// A request was sent under the lease: has the lease renewed in time.
    pub(super) fn renew_if_due(&mut self, now: Instant) {
        let is_due = !self.lease.id.is_none() && now >= self.lease.renew_at;
        if is_due && !self.fetches.contains_key(&Wanted::Lease) {
            self.fetch(now, Wanted::Lease, now);
        }
    }

    /// The lease, as long as mutations can surely be sent under it.
    pub fn live_lease(&self, now: Instant) -> Option<LeaseId> {
        (!self.lease.id.is_none() && now < self.lease.until).then_some(self.lease.id)
    }

    /// Opens a lease, or renews it in time, before a mutation asks for it. To be called now and then.
    pub fn keep_lease(&mut self, now: Instant, effects: &mut Effects) {
        let is_wanted = self.lease.id.is_none() || now >= self.lease.renew_at;
        if is_wanted && !self.fetches.contains_key(&Wanted::Lease) {
            self.fetch(now, Wanted::Lease, now);
            self.run_ready(now, effects);
        }
    }

    /// Some process says that the lease is over. The next `keep_lease` asks the coordinator.
    pub fn doubt_lease(&mut self, now: Instant, lease: LeaseId) {
        if self.lease.id == lease {
            self.lease.renew_at = self.lease.renew_at.min(now);
        }
    }

    pub(super) fn lease_operation(&self) -> Operation {
        if self.lease.id.is_none() {
            let term_millis = u64::try_from(self.config.lease_term.as_millis()).unwrap_or(u64::MAX);
            Operation::OpenLease { term_millis }
        } else {
            Operation::RenewLease { lease: self.lease.id }
        }
    }

    /// The lease and the numbers of an attempt. An operation that has a number keeps it.
    pub(super) fn number(&mut self, id: OperationId) -> (LeaseId, Sequence, Sequence) {
        let running = self.running.get_mut(&id).expect("it runs");
        if running.operation.repeat() != Repeat::Numbered {
            return (LeaseId::NONE, Sequence::NONE, Sequence::NONE);
        }
        let lease = &mut self.lease;
        let (id, sequence) = *running.number.get_or_insert_with(|| (lease.id, lease.next()));
        (id, sequence, lease.floor())
    }

    /// An attempt was refused. If no other attempt is open, none has had an effect or can still have one, so
    /// the next attempt has another number.
    pub(super) fn renumber(&mut self, id: OperationId) {
        let running = self.running.get_mut(&id).expect("it runs");
        if (!running.fate_unknown || planted(Defect::NumberGivenUp))
            && let Some(number) = running.number.take()
        {
            running.fate_unknown = false;
            self.lease.acknowledge(number);
        }
    }

    pub(super) fn on_lease_fetched(&mut self, now: Instant, fetch: &Running, outcome: &Outcome) {
        match (&fetch.operation, outcome) {
            (_, Outcome::Done(Reply::LeaseOpened(opened))) if self.lease.id.is_none() => {
                self.lease = Lease { id: opened.lease, ..Lease::default() };
                self.lease.renewed(fetch.started, opened.term_millis);
            }
            (Operation::RenewLease { lease }, Outcome::Done(Reply::LeaseRenewed(renewed)))
                if self.lease.id == *lease =>
            {
                self.lease.renewed(fetch.started, renewed.term_millis);
            }
            (Operation::RenewLease { lease }, Outcome::Refused { status: Status::LeaseOver, .. }) => {
                self.lose_lease(now, *lease);
            }
            _ => {}
        }
    }

    /// A lease is over. An operation that may have had its effect under it ends as unknown, and is never sent
    /// again.
    pub(super) fn lose_lease(&mut self, now: Instant, lease: LeaseId) {
        if self.lease.id == lease {
            self.lease = Lease::default();
        }
        let is_of = |running: &Running| running.number.is_some_and(|(theirs, _)| theirs == lease);
        for id in self.running.those(is_of) {
            let running = self.running.get_mut(&id).expect("it was found running");
            if running.fate_unknown || matches!(running.state, State::Calling(_)) {
                let detail = format!(
                    "the client's lease {lease} was over before the operation was answered: it was not heard of by \
                     the coordinator for a whole term"
                );
                self.end(now, id, Outcome::Unknown { detail, token: None });
            } else {
                running.number = None;
            }
        }
    }
}
