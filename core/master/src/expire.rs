//! Removes objects whose time to live is over, also when nobody asks for them.
//!
//! A reader or writer that meets such an object removes it first (`expire_if_over`). The log finds all other expired
//! objects, because it knows when the next one ends. They are removed in slices: at most `SLICE_OBJECTS` per
//! `SLICE_INTERVAL` while there are requests, and slice after slice while there are none. In each case an object ends
//! as if a client had removed it.
//!
//! Slices wait while a log is replayed here for a partition that is not live, because clients wait for that. They also
//! wait where there is no room for a removal: the cleaner makes room by itself, and removes the expired objects that it
//! meets. A stream with `REMOVALS_MAX` removals that are not durable yet gets no more of them. So a stream that stands
//! still gathers no more removals, and other streams go on.
//!
//! Not here: finding expired objects (log), what a removal is (`objects`). Rules: docs/protocols/cleaning.md, "Expiry".
//! Catalogue: A12.

use crate::expiry::{Over, is_past_for_all};
use crate::service::Service;
use crate::tablets::{Tablet, TabletState};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, KeyHash, Mark, Status, TableId};
use ramhold_wire::Step;
use ramhold_wire::data::KeyRequest;
use std::time::Duration;

/// A slice removes up to `SLICE_OBJECTS` objects, and the rest of its last bucket. It looks at up to `SLICE_BUCKETS`
/// buckets. A removal takes one to two microseconds, a look one.
const SLICE_OBJECTS: usize = 64;
const SLICE_BUCKETS: usize = 64;
/// Bytes that a slice reads: each object of a bucket is read whole, to know that its end of life is not damaged.
const SLICE_BYTES: u64 = 256 * 1024;
/// The pause between slices while there are requests. Removals then take a fifth of the shard's time, a quarter at
/// most.
const SLICE_INTERVAL: Duration = Duration::from_micros(500);
/// The most removals of one stream that may wait for their replicas. Readers of absent keys look through them.
const REMOVALS_MAX: usize = 1024;
/// How long slices are put off, and how long an object that could not be removed is left alone.
const PAUSE: Duration = Duration::from_millis(100);
/// How long an object is left alone if its removal could not become durable. The time is so long that the objects of
/// other streams have their turns, however many objects wait.
const BLOCKED_PAUSE: Duration = Duration::from_secs(10);
/// The pause after a slice that met a stream with too many removals, or a blocked one. A device takes milliseconds for
/// the removals.
const CROWDED_PAUSE: Duration = Duration::from_millis(2);

impl Service {
    /// Like `expire_if_over`, for a request that only reads. If there is no room for a removal, or the removal could
    /// not become durable, the object stays. It is told as absent (`true`) when its end of life is past for every
    /// server that may own it later.
    pub fn expire_for_reader(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        request: &KeyRequest<'_>,
        hash: KeyHash,
    ) -> Result<bool, Status> {
        let (table, key) = (request.table, request.key);
        // Nearly all reads return here.
        let end = self.shard.log.peek_expiry(table, hash, key);
        if end.is_none_or(|end| end > step.view.time(step.now)) {
            return Ok(false);
        }
        if !self.shard.is_blocked(step.now, tablet.stream) {
            match self.expire_if_over(step, tablet, table, hash, key) {
                Err(Status::Retry) => {}
                ended => return ended.map(|()| false),
            }
        }
        let found = match self.shard.log.lookup(table, hash, key) {
            Ok(found) => found.and_then(|found| Some((found.expires?, found.position()))),
            Err(unreadable) => return Err(self.unreadable(step, unreadable)),
        };
        match found {
            None => Ok(false),
            Some((end, _)) if end > step.view.time(step.now) => Ok(false),
            // The object itself must be durable: if it were lost, its predecessor would come back with the next owner.
            Some((end, at))
                if is_past_for_all(end, step.now, step.view)
                    && at <= self.shard.replicator.durable(tablet.stream) =>
            {
                Ok(true)
            }
            Some(_) => Err(Status::Retry),
        }
    }

    /// Takes out an expired object with a tombstone. The object was found in this step.
    pub fn take_out_over(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        table: TableId,
        hash: KeyHash,
        key: &[u8],
        Over { at, version, end, position }: Over,
    ) -> Result<(), Status> {
        let removal = (at, self.next_version(tablet, Some(version)), None);
        self.take_out(step, tablet, table, hash, key, removal)?;
        if let Some(parked) = self.answers.parked.get_mut(&tablet.stream).filter(|_| !tablet.unreplicated) {
            parked.was_over(end, position);
        }
        self.shard.cleaning.counters.expired += 1;
        step.effects.mark(Mark::Expired);
        Ok(())
    }

    /// Runs a slice, if one is due.
    pub fn expire_when_due(&mut self, step: &mut Step<'_>) {
        let pause = self.expiry.is_due(step.now).then(|| self.expire_slice(step));
        self.expiry.next(step.now, pause, &self.shard.log, step.view);
    }

    /// Puts a slice off that is due.
    pub fn put_off_expiry(&mut self, step: &Step<'_>) {
        let pause = self.expiry.is_due(step.now).then_some(PAUSE);
        self.expiry.next(step.now, pause, &self.shard.log, step.view);
    }

    /// Removes the expired objects of the next buckets. Returns how long the next slice has to wait.
    fn expire_slice(&mut self, step: &mut Step<'_>) -> Duration {
        let time = step.view.time(step.now);
        let again = ClusterTime(time.0.saturating_add(PAUSE.as_millis() as u64));
        let much_later = ClusterTime(time.0.saturating_add(BLOCKED_PAUSE.as_millis() as u64));
        let mut ended = std::mem::take(&mut self.expiry.found);
        let mut read_bytes = 0;
        for _ in 0..SLICE_BUCKETS {
            if ended.len() >= SLICE_OBJECTS || read_bytes >= SLICE_BYTES {
                break;
            }
            let Some(bytes) = self.shard.log.find_ended(time, again, &mut ended) else { break };
            read_bytes += bytes;
        }
        if planted(Defect::ExpiredKept) {
            ended.clear();
        }
        let before = self.shard.cleaning.counters.expired;
        let (mut is_crowded, mut has_room) = (false, true);
        for (table, key) in ended.drain(..) {
            // An object without a tablet here is about to leave the index.
            let Some((tablet, hash)) = self.tablets.find(table, &key) else { continue };
            // The removal would not be durable, and everybody who waits for all of the stream would wait for it too.
            if self.shard.is_blocked(step.now, tablet.stream) {
                self.shard.log.look_again(table, hash, much_later);
                is_crowded = true;
                continue;
            }
            let removal_count =
                self.answers.parked.get(&tablet.stream).map_or(0, |parked| parked.removal_count());
            let is_full = removal_count >= REMOVALS_MAX;
            is_crowded |= is_full;
            let may_leave = tablet.state == TabletState::Serving && !self.tablets.blocks(table, hash);
            if is_full || !may_leave || !has_room {
                self.shard.log.look_again(table, hash, again);
                continue;
            }
            // Nobody waits for this removal, so no cleaning begins for it.
            self.shard.cleaning_runs = true;
            let outcome = self.expire_if_over(step, &tablet, table, hash, &key);
            self.shard.cleaning_runs = false;
            if outcome.is_err() {
                has_room = false;
                self.shard.log.look_again(table, hash, again);
            }
        }
        if self.shard.cleaning.counters.expired > before {
            step.effects.mark(Mark::ExpiredUnasked);
        }
        self.expiry.found = ended;
        let requests = self.counters.reads + self.counters.writes;
        let is_idle = std::mem::replace(&mut self.expiry.requests, requests) == requests;
        match (has_room, is_crowded, is_idle) {
            (false, ..) => PAUSE,
            (true, true, _) => CROWDED_PAUSE,
            (true, false, true) => Duration::ZERO,
            (true, false, false) => SLICE_INTERVAL,
        }
    }
}
