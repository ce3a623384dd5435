//! Leases of clients: which are alive, and from when on one is over.
//!
//! The record of a lease is in the store from before anybody is told of the lease until the lease is over. Renewals are
//! in memory alone. The answer that a lease is alive waits until the store has confirmed the term (`reign`). A
//! coordinator that has just started, or was stopped for a while, cannot know which clients have tried to renew. So it
//! gives every lease a whole term.
//!
//! Invariants:
//! - ids rise and are never given out twice;
//! - a lease that any master was told to be alive for some time is not over before that time has passed here;
//! - the answer "over" leaves when the removal of the record is durable: like every answer, it waits in the outbox.
//!
//! Not here: what masters do with these answers; the results in the same record (`updates`).
//! Protocol: docs/protocols/exactly-once.md. Catalogue: A3.

use crate::machine::{Coordinator, millis};
use crate::records::{Key, LeaseRecord};
use crate::reign::Answer;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, LeaseId, Mark, Peer, Status};
use ramhold_wire::Header;
use ramhold_wire::lease::{
    LEASE_CHECK_COUNT_MAX, LeaseCheck, LeaseOpen, LeaseOpened, LeaseRenew, LeaseRenewed, LeasesChecked,
    LiveLease,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most leases; bounds memory and store to some tens of megabytes.
const LEASE_COUNT_MAX: usize = 262_144;
/// The most leases that are removed in one step; more wait for the next step.
const ENDED_COUNT_MAX: usize = 1000;

/// The instant at which each lease ends if it is not renewed.
#[derive(Default)]
pub(crate) struct Leases {
    ends: BTreeMap<LeaseId, Instant>,
    by_end: BTreeSet<(Instant, LeaseId)>,
    /// The number of results of updates in the records of all leases.
    pub update_count: usize,
    /// The number of updates that were dropped because there was no room for their results.
    pub updates_dropped: u64,
}

impl Leases {
    fn renew(&mut self, lease: LeaseId, end: Instant) {
        if let Some(before) = self.ends.insert(lease, end) {
            self.by_end.remove(&(before, lease));
        }
        self.by_end.insert((end, lease));
    }

    /// When the next lease ends.
    pub fn wake(&self) -> Instant {
        self.by_end.first().map_or(Instant::FAR, |(end, _)| *end)
    }
}

impl Coordinator {
    /// Gives every lease a whole term from now on.
    pub(crate) fn resume_leases(&mut self, now: Instant) {
        self.leases = Leases { updates_dropped: self.leases.updates_dropped, ..Leases::default() };
        for record in self.desk.state.leases.values() {
            self.leases.renew(record.id, now + Duration::from_millis(record.term_millis));
            self.leases.update_count += record.updates.len();
        }
    }

    pub(crate) fn on_lease_open(
        &mut self,
        now: Instant,
        to: Peer,
        header: &Header,
        message: &LeaseOpen,
    ) -> Result<(), Status> {
        if self.desk.state.leases.len() >= LEASE_COUNT_MAX {
            return Err(Status::TooMany);
        }
        let (least, most) =
            (millis(self.desk.config.lease_term_min), millis(self.desk.config.lease_term_max));
        let term_millis = message.term_millis.clamp(least, most);
        self.desk.state.meta.leases = self.desk.state.meta.leases.next();
        let lease = self.desk.state.meta.leases;
        self.desk.state.leases.insert(lease, LeaseRecord::new(lease, term_millis));
        self.desk.outbox.touch(Key::Meta);
        self.desk.outbox.touch(Key::Lease(lease));
        self.leases.renew(lease, now + Duration::from_millis(term_millis));
        self.desk.outbox.reply_with(to, header, &LeaseOpened { lease, term_millis });
        Ok(())
    }

    pub(crate) fn on_lease_renew(
        &mut self,
        now: Instant,
        to: Peer,
        header: &Header,
        message: &LeaseRenew,
    ) -> Result<(), Status> {
        let record = self.desk.state.leases.get(&message.lease).ok_or(Status::LeaseOver)?;
        let term_millis = record.term_millis;
        self.leases.renew(record.id, now + Duration::from_millis(term_millis));
        self.desk.outbox.reply_with(to, header, &LeaseRenewed { term_millis });
        Ok(())
    }

    pub(crate) fn answer_lease_check(
        &mut self,
        now: Instant,
        to: Peer,
        header: &Header,
        message: &LeaseCheck,
    ) -> Result<(), Status> {
        if message.leases.len() > LEASE_CHECK_COUNT_MAX {
            return Err(Status::TooMany);
        }
        let live = message.leases.iter().filter_map(|lease| {
            let end = self.leases.ends.get(lease)?;
            let more = if planted(Defect::LeaseToldTooLong) { 10_000 } else { 0 };
            Some(LiveLease { lease: *lease, millis: millis(end.since(now)) + more })
        });
        let last = self.desk.state.meta.leases;
        let never = message.leases.iter().copied().filter(|lease| *lease > last).collect();
        let checked = LeasesChecked { live: live.collect(), never };
        if planted(Defect::DeposedTellsLeases) {
            self.desk.outbox.reply_with(to, header, &checked);
            return Ok(());
        }
        // Masters rely on this answer under later coordinators, too.
        self.answer_confirmed(to, header, Answer::Leases(checked));
        Ok(())
    }

    /// Ends the leases whose term has passed.
    pub(crate) fn advance_leases(&mut self, now: Instant) {
        for _ in 0..ENDED_COUNT_MAX {
            let Some((end, lease)) = self.leases.by_end.first().copied() else { return };
            if end > now {
                return;
            }
            self.leases.by_end.pop_first();
            self.leases.ends.remove(&lease);
            let record = self.desk.state.leases.remove(&lease);
            self.leases.update_count -= record.map_or(0, |record| record.updates.len());
            self.desk.outbox.touch(Key::Lease(lease));
            self.desk.outbox.mark(Mark::LeaseOver);
        }
    }
}
