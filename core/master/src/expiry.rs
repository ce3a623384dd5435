//! Removes objects whose time to live is over, also when nobody asks for them.
//!
//! Readers and writers that meet such an object remove it first (`expire_if_over`). All others are found by the log, which
//! knows when the next one ends, and removed in slices: at most `SLICE_OBJECTS` per `SLICE_INTERVAL` while there are
//! requests, and slice after slice while there are none. Either way an object ends as if a client had removed it.
//!
//! Slices wait while a log is replayed here, because clients wait for that, and while `REMOVALS_MAX` removals of a stream
//! are not durable yet, so that a stream that stands still gathers no more of them.
//!
//! Not here: finding ended objects (log), what a removal is (`objects`). Rules: docs/protocols/cleaning.md, "Expiry".
//! Catalogue: A12.

use crate::Master;
use crate::tablets::TabletState;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Effects, Instant, Level, Status};
use ramhold_log::EndedKey;
use ramhold_wire::View;
use std::time::Duration;

/// Objects that a slice removes, but for the rest of its last bucket; and buckets that it looks at. A removal takes one to
/// two microseconds, a look one.
const SLICE_OBJECTS: usize = 64;
const SLICE_BUCKETS: usize = 64;
/// Between slices while there are requests: removals then take a fifth of the shard's time, a quarter at most.
const SLICE_INTERVAL: Duration = Duration::from_micros(500);
/// Removals of one stream that may wait for their replicas. Readers of absent keys look through them.
const REMOVALS_MAX: usize = 1024;
/// How long slices are put off, and an object that could not be removed is left alone.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Expiry {
    /// The next slice is then.
    at: Option<Instant>,
    /// For which end that was worked out.
    planned_for: Option<ClusterTime>,
    /// No slice before this.
    not_before: Instant,
    /// Requests that had come when the last slice was done.
    requests: u64,
    found: Vec<EndedKey>,
}

impl Master {
    pub(crate) fn expiry_deadline(&self) -> Option<Instant> {
        self.expiry.at
    }

    /// Works out when the next slice is to be, if objects end earlier than was known.
    #[inline]
    pub(crate) fn plan_expiry(&mut self, now: Instant, view: &View) {
        let first = self.log.first_end();
        if first != self.expiry.planned_for {
            self.plan_expiry_for(now, first, view);
        }
    }

    fn plan_expiry_for(&mut self, now: Instant, first: Option<ClusterTime>, view: &View) {
        self.expiry.planned_for = first;
        self.expiry.at = first.map(|end| {
            let left = Duration::from_millis(end.0.saturating_sub(view.time(now).0));
            (now + left).max(self.expiry.not_before)
        });
    }

    /// A slice, if one is due.
    pub(crate) fn expire_when_due(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        if self.expiry.at.is_some_and(|at| at <= now) {
            let pause = self.expire_slice(now, view, effects);
            self.expiry.not_before = now + pause;
        }
        // Worked out anew in any case: the cluster time may have been told anew.
        self.plan_expiry_for(now, self.log.first_end(), view);
    }

    /// Removes what is over in the next buckets, and tells how long the next slice has to wait.
    fn expire_slice(&mut self, now: Instant, view: &View, effects: &mut Effects) -> Duration {
        if !self.replays.is_empty()
            || self.parked.values().any(|parked| parked.removal_count() >= REMOVALS_MAX)
        {
            return PAUSE;
        }
        let time = view.time(now);
        let again = ClusterTime(time.0.saturating_add(PAUSE.as_millis() as u64));
        let mut ended = std::mem::take(&mut self.expiry.found);
        for _ in 0..SLICE_BUCKETS {
            if ended.len() >= SLICE_OBJECTS || !self.log.find_ended(time, again, &mut ended) {
                break;
            }
        }
        if planted(Defect::ExpiredKept) {
            ended.clear();
        }
        let before = self.cleaning.counters.expired;
        for (table, key) in ended.drain(..) {
            // Without a tablet here it is about to leave the index.
            let Some((tablet, hash)) = self.tablets.find(table, &key) else { continue };
            let outcome = match tablet.state {
                TabletState::Serving => self.expire_if_over(now, &tablet, table, hash, &key, view, effects),
                TabletState::Recovering | TabletState::Taking => Err(Status::NotReady),
            };
            if outcome.is_err() {
                self.log.look_again(table, hash, again);
            }
        }
        if self.cleaning.counters.expired > before {
            effects.report(Level::Debug, "mark:expired_unasked");
        }
        self.expiry.found = ended;
        let requests = self.counters.reads + self.counters.writes;
        let is_idle = std::mem::replace(&mut self.expiry.requests, requests) == requests;
        if is_idle { Duration::ZERO } else { SLICE_INTERVAL }
    }
}
