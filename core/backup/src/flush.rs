//! Flushes buffers to the device, and ends the backup in order.
//!
//! Data older than the flush interval, and all data of closed replicas, is copied into its frame. After a sync the
//! certificate follows, and after another sync the replica is on the device. A replica without a buffer only needs the
//! sync. A replica that is completely on the device and takes no more appends, because it is closed or from an earlier
//! life, gives its buffer back.
//!
//! Invariants:
//! - a certificate goes to the device after the data that it covers;
//! - there is one flush per replica at a time, and at most `FLUSH_COUNT_MAX` (16) in all. Flushes for which an answer
//!   waits begin beyond that bound as well.
//!
//! Protocol: docs/protocols/replication.md, "Flushing". Catalogue: D1.

use crate::Backup;
use crate::disk::{SyncWaiter, Task};
use crate::keys::ReplicaNumber;
use crate::place::Place;
use crate::replica::Flush;
use crate::superblock::Superblock;
use ramhold_base::{Effects, Instant, Mark};

/// Flushes at a time: enough to fill a device's queue and to share its syncs.
const FLUSH_COUNT_MAX: u32 = 16;
/// The due instant of a flush for which an answer waits: before all others.
const AWAITED: Instant = Instant::ZERO;

/// The progress of an ordered stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Flushing,
    Syncing,
    Marking,
    Done,
}

impl Backup {
    /// Begins an ordered stop: flushes all replicas, then marks the directory as clean. Requests that come meanwhile
    /// are answered with `NotReady`.
    pub fn stop(&mut self, now: Instant, effects: &mut Effects) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(if self.is_serving { Stop::Flushing } else { Stop::Done });
        if self.failed.is_none() {
            let numbers: Vec<ReplicaNumber> = self.replicas.keys().copied().collect();
            numbers.into_iter().for_each(|number| self.want_flush(now, number));
            self.advance_flushes(now, effects);
            self.advance_stop(effects);
            self.disk.advance(effects);
        }
    }

    /// Whether an ordered stop is complete. It is also complete when the device has failed.
    pub fn is_stopped(&self) -> bool {
        self.stopping.is_some_and(|stop| stop == Stop::Done || self.failed.is_some())
    }

    pub(crate) fn advance_stop(&mut self, effects: &mut Effects) {
        match self.stopping {
            Some(Stop::Flushing) => {
                let is_done = self.replicas.keys().all(|number| !self.is_flush_needed(*number));
                let is_quiet = self.replicas.values().all(|replica| replica.operations.is_empty());
                if is_done && is_quiet && self.flush_count == 0 {
                    self.stopping = Some(Stop::Syncing);
                    self.disk.wait_for_sync(SyncWaiter::Stop);
                }
            }
            Some(Stop::Marking) => {
                let is_written = self.superblock_wanted.is_none() && self.superblock_writing.is_none();
                if is_written {
                    assert!(self.superblock.is_some_and(|superblock| superblock.clean));
                    self.stopping = Some(Stop::Done);
                }
            }
            Some(Stop::Syncing | Stop::Done) | None => {}
        }
        self.advance_superblock(effects);
    }

    pub(crate) fn on_stop_synced(&mut self) {
        let superblock = self.superblock.expect("who serves has a superblock");
        self.superblock_wanted = Some(Superblock { clean: true, ..superblock });
        self.stopping = Some(Stop::Marking);
    }

    /// The next flush, if one may begin. Flushes for which an answer waits come first, and do not wait for others.
    pub(crate) fn next_flush(&self) -> Option<(Instant, ReplicaNumber)> {
        let first = self.flush_due.first().copied()?;
        let is_awaited = first.0 == AWAITED;
        (self.is_scanned && (is_awaited || self.flush_count < FLUSH_COUNT_MAX)).then_some(first)
    }

    fn is_flush_needed(&self, number: ReplicaNumber) -> bool {
        let replica = &self.replicas[&number];
        let is_behind = !replica.stored.is_certified_like(&replica.flushed);
        // No more appends go to its buffer, so the replica may leave the buffer.
        let is_final = self.stopping.is_some() || replica.found;
        let is_partial = is_final && replica.buffer.is_some() && !replica.flushed_for_good;
        replica.stored.certificate.is_some()
            && !replica.freeing
            && !replica.corrupt
            && (is_behind || is_partial)
    }

    /// Schedules a flush of a replica, if some of it is not on the device.
    pub(crate) fn want_flush(&mut self, now: Instant, number: ReplicaNumber) {
        if !self.is_flush_needed(number) {
            return;
        }
        let replica = self.replicas.get_mut(&number).expect("it was there above");
        if replica.flush.is_some() {
            return; // The end of this flush checks again.
        }
        let is_urgent = replica.stored.closed || replica.found || self.stopping.is_some();
        let due = match () {
            () if replica.synced && !replica.found => AWAITED,
            () if is_urgent => now,
            () => now + self.config.flush_interval,
        };
        if replica.flush_due.is_some_and(|before| before <= due) {
            return;
        }
        if let Some(before) = replica.flush_due.replace(due) {
            self.flush_due.remove(&(before, number));
        }
        self.flush_due.insert((due, number));
    }

    pub(crate) fn advance_flushes(&mut self, now: Instant, effects: &mut Effects) {
        while let Some((due, number)) = self.next_flush().filter(|(due, _)| *due <= now) {
            self.flush_due.remove(&(due, number));
            self.replicas.get_mut(&number).expect("what is due exists").flush_due = None;
            self.begin_flush(now, number, effects);
        }
    }

    fn begin_flush(&mut self, now: Instant, number: ReplicaNumber, effects: &mut Effects) {
        if !self.is_flush_needed(number) {
            return;
        }
        let replica = self.replicas.get_mut(&number).expect("it was there above");
        let Some(frame) = replica.frame else {
            // The replica was found in a buffer, and the device has no room for it yet: try again after an interval.
            let due = now + self.config.flush_interval;
            replica.flush_due = Some(due);
            self.flush_due.insert((due, number));
            return;
        };
        let target = replica.stored;
        let goes_on = !target.closed && !replica.found && self.stopping.is_none();
        let interim = replica.buffer.is_some() && goes_on;
        replica.flush = Some(Flush { target, interim });
        self.flush_count += 1;
        let Some(buffer) = replica.buffer else {
            replica.ring.syncing = replica.ring.newest;
            self.disk.wait_for_sync(SyncWaiter::FlushSlot(number));
            return;
        };
        let from = replica.flushed.certified();
        if target.certified() == from {
            self.write_flush_slot(number, effects);
            return;
        }
        let at =
            |place: Place| (place.file(), place.data_offset(self.config.segment_bytes) + u64::from(from));
        let (source, device) = (at(Place::Buffer(buffer)), at(Place::Frame(frame)));
        self.disk.copy(Task::FlushCopy(number), source, device, target.certified() - from, effects);
    }

    pub(crate) fn on_flush_copied(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        effects.mark(Mark::BackupFlushCopied);
        self.disk.wait_for_sync(SyncWaiter::FlushData(number));
    }

    pub(crate) fn on_flush_data_synced(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        effects.mark(Mark::BackupFlushDataSynced);
        self.write_flush_slot(number, effects);
    }

    fn write_flush_slot(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        let replica = &self.replicas[&number];
        let flush = replica.flush.expect("this step belongs to a flush");
        let place = Place::Frame(replica.frame.expect("a flush has a frame"));
        let said = (flush.target, flush.interim);
        let slot =
            self.write_slot(Task::FlushSlot(number), number, said, (place, replica.frame_ring), effects);
        self.replicas.get_mut(&number).expect("it was there above").frame_ring.syncing = Some(slot);
    }

    /// A flush is complete: a certificate and all bytes that it covers are on the device.
    pub(crate) fn on_flushed(&mut self, now: Instant, number: ReplicaNumber, effects: &mut Effects) {
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it is flushed");
        let flush = replica.flush.take().expect("this step belongs to a flush");
        if replica.buffer.is_some() {
            replica.frame_ring.durable = replica.frame_ring.syncing.take();
            replica.frame_ring.newest = replica.frame_ring.durable;
        } else {
            replica.ring.durable = replica.ring.syncing.take();
        }
        replica.flushed = flush.target;
        replica.flushed_for_good = !flush.interim;
        self.flush_count -= 1;
        self.settling.insert(number);
        self.answer_synced(number, effects);
        effects.mark(Mark::BackupFlushCertified);
        self.want_flush(now, number);
    }

    /// Wipes freed replicas and gives back buffers that are no longer needed, as soon as no operation under way needs
    /// them.
    pub(crate) fn settle(&mut self, effects: &mut Effects) {
        for number in std::mem::take(&mut self.settling) {
            let Some(replica) = self.replicas.get_mut(&number).filter(|replica| replica.is_quiet()) else {
                continue;
            };
            if replica.freeing && replica.wiping == 0 {
                let buffer = replica.buffer.map(Place::Buffer);
                let frame = replica.frame.map(Place::Frame);
                replica.wiping = u8::from(buffer.is_some()) + u8::from(frame.is_some());
                effects.mark(Mark::BackupReplicaFreed);
                for place in buffer.into_iter().chain(frame) {
                    self.wipe(Some(number), place, effects);
                }
            } else if !replica.freeing
                && (replica.flushed.closed || (replica.found && replica.flushed_for_good))
                && replica.flushed.is_certified_like(&replica.stored)
            {
                replica.ring = if replica.buffer.is_some() { replica.frame_ring } else { replica.ring };
                if let Some(buffer) = replica.buffer.take() {
                    effects.mark(Mark::BackupBufferGivenBack);
                    self.wipe(None, Place::Buffer(buffer), effects);
                }
            }
        }
    }

    /// Forgets a replica. Its places are wiped when no operation under way needs them any more.
    pub(crate) fn free(&mut self, number: ReplicaNumber) {
        let replica = self.replicas.get_mut(&number).expect("what is freed exists");
        assert!(!replica.freeing);
        replica.freeing = true;
        // No master waits for an answer about a freed replica.
        replica.unsynced.clear();
        let key = replica.key;
        if let Some(due) = replica.flush_due.take() {
            self.flush_due.remove(&(due, number));
        }
        for map in [&mut self.present, &mut self.found] {
            if map.get(&key) == Some(&number) {
                map.remove(&key);
            }
        }
        self.settling.insert(number);
    }
}
