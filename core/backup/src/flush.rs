//! Flushes replicas to the device.
//!
//! Data older than the flush interval, and all data of closed replicas, is copied into its frame. After a sync the
//! certificate follows, and after another sync the replica is on the device. A replica without a buffer only needs the
//! sync.
//!
//! Invariants:
//! - a certificate goes to the device after the data that it covers;
//! - there is one flush per replica at a time.
//!
//! Not here: which replica is flushed next (flush_queue), buffers that are given back (settle).
//!
//! Protocol: docs/protocols/replication.md, "Flushing". Catalogue: D1.

use crate::device::DeviceStep;
use crate::disk::{SyncWaiter, Task};
use crate::keys::ReplicaNumber;
use crate::place::Place;
use crate::replica::{Flush, Replica};
use crate::replicas::Replicas;
use ramhold_base::Mark;

impl Replicas {
    /// Begins the flushes that are due.
    pub fn advance_flushes(&mut self, step: &mut DeviceStep<'_>) {
        while let Some(number) = self.queue.next_due(step.now) {
            let (replica, queue) = self.with_queue(number);
            queue.forget(replica);
            if !queue.is_needed(replica) {
                continue;
            }
            match replica.places.frame {
                Some(frame) => {
                    let flush = queue.begin(replica);
                    replica.begin_flush(frame, flush, step);
                }
                // The replica was found in a buffer, and the device has no room for it yet.
                None => queue.postpone(step.now, replica),
            }
        }
    }

    /// A flush is complete: a certificate and all bytes that it covers are on the device.
    pub fn on_flushed(&mut self, number: ReplicaNumber, step: &mut DeviceStep<'_>) {
        self[number].end_flush();
        self.queue.finished();
        self.settling.insert(number);
        self.answer_synced(number, step.effects);
        step.effects.mark(Mark::BackupFlushCertified);
        self.want_flush(step.now, number);
    }

    /// Whether all that was ever accepted is on the device.
    pub fn are_flushed(&self) -> bool {
        let is_done = self.iter().all(|replica| !self.queue.is_needed(replica));
        let is_quiet = self.iter().all(|replica| replica.operations.are_stored());
        is_done && is_quiet && self.queue.under_way() == 0
    }

    /// The backup ends: every replica is to be completely on the device.
    pub fn flush_all(&mut self, step: &mut DeviceStep<'_>) {
        let numbers: Vec<ReplicaNumber> = self.iter().map(|replica| replica.number).collect();
        numbers.into_iter().for_each(|number| self.want_flush(step.now, number));
        self.advance_flushes(step);
    }
}

impl Replica {
    fn begin_flush(&mut self, frame: u32, flush: Flush, step: &mut DeviceStep<'_>) {
        self.flushing.under_way = Some(flush);
        let Some(buffer) = self.places.buffer else {
            self.places.ring.syncing = self.places.ring.newest;
            step.disk.wait_for_sync(SyncWaiter::FlushSlot(self.number));
            return;
        };
        let from = self.flushed.certified();
        let bytes = flush.target.certified() - from;
        if bytes == 0 {
            self.write_flush_slot(step);
            return;
        }
        let segment_bytes = step.config.segment_bytes;
        let at = |place: Place| (place.file(), place.data_offset(segment_bytes) + u64::from(from));
        let (source, device) = (at(Place::Buffer(buffer)), at(Place::Frame(frame)));
        let task = Task::FlushCopy(self.number);
        step.disk.copy(task, source, device, bytes, step.effects);
    }

    pub fn on_flush_copied(&self, step: &mut DeviceStep<'_>) {
        step.effects.mark(Mark::BackupFlushCopied);
        step.disk.wait_for_sync(SyncWaiter::FlushData(self.number));
    }

    pub fn on_flush_data_synced(&mut self, step: &mut DeviceStep<'_>) {
        step.effects.mark(Mark::BackupFlushDataSynced);
        self.write_flush_slot(step);
    }

    fn write_flush_slot(&mut self, step: &mut DeviceStep<'_>) {
        let flush = self.flushing.under_way.expect("this step belongs to a flush");
        let place = Place::Frame(self.places.frame.expect("a flush has a frame"));
        let said = (flush.target, flush.interim);
        let at = (place, self.places.frame_ring);
        let slot = self.write_slot(Task::FlushSlot(self.number), said, at, step);
        self.places.frame_ring.syncing = Some(slot);
    }

    fn end_flush(&mut self) {
        let flush = self.flushing.under_way.take().expect("this step belongs to a flush");
        let places = &mut self.places;
        if places.buffer.is_some() {
            places.frame_ring.durable = places.frame_ring.syncing.take();
            places.frame_ring.newest = places.frame_ring.durable;
        } else {
            places.ring.durable = places.ring.syncing.take();
        }
        self.flushed = flush.target;
        self.flushing.is_for_good = !flush.interim;
    }
}
