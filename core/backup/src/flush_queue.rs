//! The replicas that are to be flushed, in the order in which they are due.
//!
//! Invariant: at most `FLUSH_COUNT_MAX` (16) flushes are under way. Flushes for which an answer waits begin beyond that
//! bound as well.
//!
//! Not here: the steps of a flush (flush).

use crate::keys::ReplicaNumber;
use crate::replica::{Flush, Replica};
use ramhold_base::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

/// Flushes at a time: enough to fill a device's queue and to share its syncs.
const FLUSH_COUNT_MAX: u32 = 16;
/// The due instant of a flush for which an answer waits: before all others.
const AWAITED: Instant = Instant::ZERO;

#[derive(Debug)]
pub(crate) struct FlushQueue {
    /// The time that data of an open replica may wait for its flush.
    interval: Duration,
    /// Replicas to be flushed, with the instants when they are due.
    due: BTreeSet<(Instant, ReplicaNumber)>,
    under_way: u32,
    /// The backup ends: no replica takes appends any more, so all leave their buffers.
    is_ending: bool,
}

impl FlushQueue {
    pub fn new(interval: Duration) -> FlushQueue {
        FlushQueue { interval, due: BTreeSet::new(), under_way: 0, is_ending: false }
    }

    /// From now on every replica is to be completely on the device.
    pub fn end(&mut self) {
        self.is_ending = true;
    }

    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    pub fn is_needed(&self, replica: &Replica) -> bool {
        let is_behind = !replica.stored.is_certified_like(&replica.flushed);
        // No more appends go to its buffer, so the replica may leave the buffer.
        let is_final = self.is_ending || replica.found;
        let is_partial = is_final && replica.places.buffer.is_some() && !replica.flushing.is_for_good;
        replica.stored.certificate.is_some()
            && !replica.is_leaving()
            && !replica.corrupt
            && (is_behind || is_partial)
    }

    /// Schedules a flush of a replica, if some of it is not on the device.
    pub fn want(&mut self, now: Instant, replica: &mut Replica) {
        if !self.is_needed(replica) {
            return;
        }
        if replica.flushing.under_way.is_some() {
            return; // The end of this flush checks again.
        }
        let is_urgent = replica.stored.closed || replica.found || self.is_ending;
        let due = match () {
            () if replica.opened.synced && !replica.found => AWAITED,
            () if is_urgent => now,
            () => now + self.interval,
        };
        if replica.flushing.due.is_some_and(|before| before <= due) {
            return;
        }
        self.forget(replica);
        self.enter(due, replica);
    }

    fn enter(&mut self, due: Instant, replica: &mut Replica) {
        replica.flushing.due = Some(due);
        self.due.insert((due, replica.number));
    }

    pub fn forget(&mut self, replica: &mut Replica) {
        if let Some(due) = replica.flushing.due.take() {
            self.due.remove(&(due, replica.number));
        }
    }

    /// Tries again to flush a replica, after an interval.
    pub fn postpone(&mut self, now: Instant, replica: &mut Replica) {
        self.enter(now + self.interval, replica);
    }

    /// The next flush, if one may begin. Flushes for which an answer waits come first, and do not wait for others.
    fn next(&self) -> Option<(Instant, ReplicaNumber)> {
        let first = self.due.first().copied()?;
        let is_awaited = first.0 == AWAITED;
        (is_awaited || self.under_way < FLUSH_COUNT_MAX).then_some(first)
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.next().map(|(due, _)| due)
    }

    /// The replica whose flush is due and may begin.
    pub fn next_due(&self, now: Instant) -> Option<ReplicaNumber> {
        self.next().filter(|(due, _)| *due <= now).map(|(_, number)| number)
    }

    /// Chooses what a flush that begins now brings to the device.
    pub fn begin(&mut self, replica: &Replica) -> Flush {
        self.under_way += 1;
        let target = replica.stored;
        let goes_on = !target.closed && !replica.found && !self.is_ending;
        Flush { target, interim: replica.places.buffer.is_some() && goes_on }
    }

    pub fn finished(&mut self) {
        self.under_way -= 1;
    }
}
