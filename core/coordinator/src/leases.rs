//! Leases of clients: which are alive, and from when on one is over.
//!
//! The record of a lease is in the store from before anybody is told of the lease until the lease is over. Renewals are
//! in memory alone. The answer that a lease is alive waits until the store has confirmed the term (`confirmed`). A
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

use crate::clock::millis;
use crate::confirmed::{Answer, Confirmed};
use crate::desk::Desk;
use crate::records::{Key, LeaseRecord};
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

    /// Gives every lease a whole term from now on.
    pub(crate) fn resume(&mut self, now: Instant, desk: &Desk) {
        *self = Leases { updates_dropped: self.updates_dropped, ..Leases::default() };
        for record in desk.state.leases.values() {
            self.renew(record.id, now + Duration::from_millis(record.term_millis));
            self.update_count += record.updates.len();
        }
    }

    pub(crate) fn on_lease_open(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: &LeaseOpen,
    ) -> Result<(), Status> {
        if desk.state.leases.len() >= LEASE_COUNT_MAX {
            return Err(Status::TooMany);
        }
        let (least, most) = (millis(desk.config.lease_term_min), millis(desk.config.lease_term_max));
        let term_millis = message.term_millis.clamp(least, most);
        desk.state.meta.leases = desk.state.meta.leases.next();
        let lease = desk.state.meta.leases;
        desk.state.leases.insert(lease, LeaseRecord::new(lease, term_millis));
        desk.outbox.touch(Key::Meta);
        desk.outbox.touch(Key::Lease(lease));
        self.renew(lease, now + Duration::from_millis(term_millis));
        desk.outbox.reply_with(to, header, &LeaseOpened { lease, term_millis });
        Ok(())
    }

    pub(crate) fn on_lease_renew(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: &LeaseRenew,
    ) -> Result<(), Status> {
        let record = desk.state.leases.get(&message.lease).ok_or(Status::LeaseOver)?;
        let term_millis = record.term_millis;
        self.renew(record.id, now + Duration::from_millis(term_millis));
        desk.outbox.reply_with(to, header, &LeaseRenewed { term_millis });
        Ok(())
    }

    pub(crate) fn answer_lease_check(
        &self,
        now: Instant,
        desk: &mut Desk,
        confirmed: &mut Confirmed,
        to: Peer,
        header: &Header,
        message: &LeaseCheck,
    ) -> Result<(), Status> {
        if message.leases.len() > LEASE_CHECK_COUNT_MAX {
            return Err(Status::TooMany);
        }
        let live = message.leases.iter().filter_map(|lease| {
            let end = self.ends.get(lease)?;
            let more = if planted(Defect::LeaseToldTooLong) { 10_000 } else { 0 };
            Some(LiveLease { lease: *lease, millis: millis(end.since(now)) + more })
        });
        let last = desk.state.meta.leases;
        let never = message.leases.iter().copied().filter(|lease| *lease > last).collect();
        let checked = LeasesChecked { live: live.collect(), never };
        if planted(Defect::DeposedTellsLeases) {
            desk.outbox.reply_with(to, header, &checked);
            return Ok(());
        }
        // Masters rely on this answer under later coordinators, too.
        confirmed.answer(desk, to, header, Answer::Leases(checked));
        Ok(())
    }

    /// Ends the leases whose term has passed.
    pub(crate) fn advance(&mut self, now: Instant, desk: &mut Desk) {
        for _ in 0..ENDED_COUNT_MAX {
            let Some((end, lease)) = self.by_end.first().copied() else { return };
            if end > now {
                return;
            }
            self.by_end.pop_first();
            self.ends.remove(&lease);
            let record = desk.state.leases.remove(&lease);
            self.update_count -= record.map_or(0, |record| record.updates.len());
            desk.outbox.touch(Key::Lease(lease));
            desk.outbox.mark(Mark::LeaseOver);
        }
    }
}
