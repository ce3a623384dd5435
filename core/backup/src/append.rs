//! Appends: checked against the replica, written, and answered when they outlive the process.
//!
//! A message is checked as a whole (accept) before anything is changed.
//!
//! Protocol: docs/protocols/replication.md. Catalogue: D1, D6, D8.

mod accept;

use crate::append::accept::{Accepted, accept, decode_append, is_reopened};
use crate::device::DeviceStep;
use crate::disk::{SyncWaiter, Task};
use crate::growth::Growth;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::operations::{Certifying, Operation};
use crate::replica::{Reason, Replica};
use crate::replicas::Replicas;
use crate::request::{Asker, Request};
use crate::space::Space;
use ramhold_base::{Effects, Instant, Mark, Status};
use ramhold_wire::Header;
use ramhold_wire::data::{AppendReply, AppendRequest};
use ramhold_wire::frame;

/// One part in this many of the buffers is not given to side segments.
const SPARED_PART: u32 = 4;

/// More of a replica is stored now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stored {
    /// A certificate slot for it differs from the one before.
    Changed,
    Same,
}

impl Replicas {
    /// Returns the replica. The error is the answer to a message that was refused. A message that was taken is answered
    /// later.
    pub fn append(
        &mut self,
        key: ReplicaKey,
        request: &Request<'_>,
        (space, growth): (&mut Space, &Growth),
        step: &mut DeviceStep<'_>,
    ) -> Result<ReplicaNumber, Status> {
        let header = request.header;
        let append = decode_append(header, request.body, step.config.segment_bytes)?;
        let present = self.present().get(&key).copied();
        let (number, accepted) = match present {
            Some(number) if !is_reopened(&self[number], header, &append) => {
                let replica = &mut self[number];
                let accepted = accept(replica, header, &append);
                let ends_among_them =
                    append.certificate.is_some_and(|it| it.length < replica.accepted.length);
                // If a checksum is wrong, it is unknown which of the bytes are.
                let is_dropping = accepted == Err(Status::CorruptReplica)
                    || (accepted == Err(Status::OutOfOrder) && ends_among_them);
                if is_dropping {
                    replica.drop_uncertified();
                }
                (number, accepted?)
            }
            before => {
                if !append.open {
                    return Err(Status::UnknownReplica);
                }
                let blank = Replica::new(key);
                let accepted = accept(&blank, header, &append)?;
                (self.open(blank, before, &append, (space, growth), step)?, accepted)
            }
        };
        self[number].apply(accepted, &append, request.asker(), step);
        self.advance_operations(number, step);
        Ok(number)
    }

    /// Gives a new replica a frame and, if one is free, a buffer. A replica that it replaces stays until the new one
    /// has a certificate.
    fn open(
        &mut self,
        mut replica: Replica,
        before: Option<ReplicaNumber>,
        append: &AppendRequest<'_>,
        (space, growth): (&mut Space, &Growth),
        step: &mut DeviceStep<'_>,
    ) -> Result<ReplicaNumber, Status> {
        let config = step.config;
        let Some(frame) = space.take_frame() else {
            let is_coming = growth.is_under_way() || space.frames_wiping > 0;
            return Err(if is_coming { Status::Retry } else { Status::OpenRefused });
        };
        // With all buffers in use the replica is written straight into its frame: slower to flush, just as safe.
        // Side segments leave some buffers to heads, because clients wait for heads.
        let spared = if append.side { config.buffer_count() / SPARED_PART } else { 0 };
        let buffer = if config.buffer_count() > 0 { space.take_buffer(spared) } else { None };
        if let Some(before) = before {
            self.replace(step.now, before);
        }
        replica.opened.incarnation = step.directory.next_sequence();
        replica.opened.side = append.side;
        replica.opened.synced = append.synced && !(config.buffers_survive_power && buffer.is_some());
        replica.places.frame = Some(frame);
        replica.places.buffer = buffer;
        step.effects.mark(Mark::BackupOpened);
        Ok(self.insert_present(replica))
    }

    pub fn on_data_written(&mut self, number: ReplicaNumber, operation: u64, step: &mut DeviceStep<'_>) {
        self[number].operations.data_written(operation);
        step.effects.mark(Mark::BackupDataWritten);
        self.advance_operations(number, step);
    }

    fn advance_operations(&mut self, number: ReplicaNumber, step: &mut DeviceStep<'_>) {
        if let Some(stored) = self[number].advance_operations(step) {
            self.on_stored(number, stored, step.now);
        }
    }

    pub fn on_slot_written(&mut self, number: ReplicaNumber, step: &mut DeviceStep<'_>) {
        let stored = self[number].on_slot_written(step);
        self.on_stored(number, stored, step.now);
        self.advance_operations(number, step);
    }

    fn on_stored(&mut self, number: ReplicaNumber, stored: Stored, now: Instant) {
        self.settling.insert(number);
        match stored {
            Stored::Changed => self.want_flush(now, number),
            Stored::Same => {}
        }
        self.free_older(number);
    }

    /// Answers the appends that waited for the device, after more of their replica is on it.
    pub fn answer_synced(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        self[number].answer_synced(effects);
        self.free_older(number);
    }

    /// A master no longer needs a replica. Idempotent.
    pub fn free_for_master(&mut self, header: &Header) -> Result<(), Status> {
        let key = ReplicaKey::of(header);
        if let Some(number) = self.found().get(&key).copied()
            && self[number].accepted.epoch <= header.epoch
        {
            self.free(number, Reason::NotNeeded);
        }
        if let Some(number) = self.present().get(&key).copied() {
            if self[number].accepted.epoch > header.epoch {
                return Err(Status::StaleEpoch);
            }
            self.free(number, Reason::NotNeeded);
        }
        Ok(())
    }

    /// Answers all appends, because the device has failed.
    pub fn fail(&mut self, effects: &mut Effects) {
        for replica in self.iter_mut() {
            let reply = replica.reply(replica.stored.length);
            for asker in replica.operations.fail() {
                answer(&asker, Status::DeviceFailed, &reply, effects);
            }
        }
    }
}

impl Replica {
    /// Forgets bytes beyond the last certificate, so that the master sends them again.
    fn drop_uncertified(&mut self) {
        self.accepted.length = self.accepted.certified();
        self.crc = self.accepted.certificate_crc();
    }

    fn apply(
        &mut self,
        accepted: Accepted,
        append: &AppendRequest<'_>,
        asker: Asker,
        step: &mut DeviceStep<'_>,
    ) {
        let Accepted { held, crc, write_at, skip } = accepted;
        let slot_needed = held.certificate.is_some() && !held.is_certified_like(&self.accepted);
        let data = &append.data[skip..];
        if held.epoch > self.accepted.epoch && self.accepted.certificate.is_some() {
            step.effects.mark(Mark::BackupEpochRaised);
        }
        if self.operations.count() == 0 {
            self.opened.epoch = held.epoch;
        }
        self.accepted = held;
        self.crc = crc;
        let operation = self.operations.push(Operation {
            data_written: data.is_empty(),
            slot_needed,
            after: held,
            certifies: append.certificate.is_some(),
            asker,
        });
        if !data.is_empty() {
            let place = self.places.newest();
            let offset = place.data_offset(step.config.segment_bytes) + u64::from(write_at);
            let task = Task::Data { replica: self.number, operation };
            // The data is the end of the message. Skipped bytes are at the begin of the data.
            step.disk.write_message_end(task, place.file(), offset, data.len(), step.effects);
        }
    }

    /// Certifies or answers the operations whose data is written. `None` if nothing more is stored by this.
    fn advance_operations(&mut self, step: &mut DeviceStep<'_>) -> Option<Stored> {
        if self.operations.certifying != Certifying::Idle {
            return None;
        }
        let count = self.operations.written_count();
        if count == 0 {
            return None;
        }
        if !self.operations.need_slot(count) {
            return Some(self.answer_operations(count, step.effects));
        }
        if self.opened.synced && self.places.buffer.is_none() {
            // If one sync covered both, a crash could leave a certificate without its bytes, which looks like damage.
            self.operations.certifying = Certifying::DataSyncing { count };
            step.disk.wait_for_sync(SyncWaiter::Data(self.number));
        } else {
            self.certify(count, step);
        }
        None
    }

    /// The data that a certificate waited for is on the device. The replica is synced and is written straight into its
    /// frame.
    pub fn on_data_synced(&mut self, step: &mut DeviceStep<'_>) {
        let Certifying::DataSyncing { count } = self.operations.certifying else {
            panic!("this sync was for its data");
        };
        self.certify(count, step);
    }

    fn certify(&mut self, count: usize, step: &mut DeviceStep<'_>) {
        let after = self.operations.after(count);
        let at = (self.places.newest(), self.places.ring);
        let slot = self.write_slot(Task::Slot(self.number), (after, false), at, step);
        self.operations.certifying = Certifying::SlotWriting { count, slot };
    }

    fn on_slot_written(&mut self, step: &mut DeviceStep<'_>) -> Stored {
        let Certifying::SlotWriting { count, slot } = self.operations.certifying else {
            panic!("this write was for its certificate");
        };
        self.operations.certifying = Certifying::Idle;
        self.places.ring.newest = Some(slot);
        step.effects.mark(Mark::BackupCertificateWritten);
        self.answer_operations(count, step.effects)
    }

    /// The first `count` operations now outlive the process.
    fn answer_operations(&mut self, count: usize, effects: &mut Effects) -> Stored {
        let stored = self.operations.after(count);
        let has_changed = !stored.is_certified_like(&self.stored);
        self.stored = stored;
        let reply = self.reply(stored.length);
        for _ in 0..count {
            let operation = self.operations.take_stored();
            if self.has_reached(&operation) {
                answer(&operation.asker, Status::Ok, &reply, effects);
            } else {
                self.operations.unsynced.push_back(operation);
            }
        }
        if stored.certificate.is_some() && has_changed { Stored::Changed } else { Stored::Same }
    }

    fn answer_synced(&mut self, effects: &mut Effects) {
        let reply = self.reply(self.stored.length);
        while let Some(operation) = self.operations.unsynced.front().filter(|it| self.has_reached(it)) {
            answer(&operation.asker, Status::Ok, &reply, effects);
            self.operations.unsynced.pop_front();
        }
    }
}

fn answer(asker: &Asker, status: Status, reply: &AppendReply, effects: &mut Effects) {
    effects.send_with(asker.peer(), |out| {
        frame::write(out, &asker.header.answer(status), |out| reply.encode(out));
    });
}
