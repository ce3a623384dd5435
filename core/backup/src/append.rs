//! Appends: checked against the replica, written, and answered when they outlive the process.
//!
//! A message is checked as a whole before anything is changed. Bytes that are already held are skipped. If a
//! certificate of the message ends among the uncertified bytes that are held, these bytes are dropped: their checksum
//! up to that point is no longer known, and uncertified bytes do not exist.
//!
//! Protocol: docs/protocols/replication.md. Catalogue: D1, D6, D8.

use crate::Backup;
use crate::disk::{SyncWaiter, Task};
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::{Held, Operation, Replica};
use ramhold_base::checksum::crc_append;
use ramhold_base::limits::APPEND_BYTES_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Mark, Peer, Status};
use ramhold_wire::data::{AppendReply, AppendRequest};
use ramhold_wire::{Header, View, frame};

/// The most appends to one replica that wait for the disk. More are refused with `TooMany`.
const OPERATION_COUNT_MAX: usize = 256;
/// One part in this many of the buffers is not given to side segments.
const SPARED_PART: u32 = 4;

/// The state of a replica after an accepted append.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Accepted {
    held: Held,
    crc: u32,
    /// The offset at which the new bytes are written, and the number of bytes of the message's data before them.
    write_at: u32,
    skip: usize,
}

impl Backup {
    pub(crate) fn on_append(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        let key = ReplicaKey::of(header);
        if let Err(status) = self.try_append(now, key, header, body, from, view, effects) {
            let held = self.present.get(&key).map(|number| &self.replicas[number]);
            let reply = held.map_or(AppendReply::default(), |replica| replica.reply(replica.accepted.length));
            let full = self.full(now).filter(|_| status == Status::OpenRefused);
            effects.send_with(Peer::Conn(from), |out| {
                frame::write(out, &header.answer(status), |out| {
                    reply.encode(out);
                    full.iter().for_each(|full| AppendReply::encode_full(full, out));
                });
            });
        }
    }

    fn try_append(
        &mut self,
        now: Instant,
        key: ReplicaKey,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_sender(header, view)?;
        if header.sender.is_none() {
            return Err(Status::NotInCluster);
        }
        self.check_device()?;
        let request = self.decode_append(header, body)?;
        let (number, accepted) = match self.present.get(&key).copied() {
            Some(number) if !is_reopened(&self.replicas[&number], header, &request) => {
                let replica = &self.replicas[&number];
                let accepted = accept(replica, header, &request);
                let ends_among_them =
                    request.certificate.is_some_and(|it| it.length < replica.accepted.length);
                let is_dropping = match accepted {
                    Err(Status::OutOfOrder) => ends_among_them,
                    // It is unknown which of the bytes are wrong.
                    Err(Status::CorruptReplica) => true,
                    _ => false,
                };
                if is_dropping {
                    self.drop_uncertified(number);
                }
                (number, accepted?)
            }
            before => {
                if !request.open {
                    return Err(Status::UnknownReplica);
                }
                let blank = Replica::new(key, 0, None, None);
                let accepted = accept(&blank, header, &request)?;
                (self.open(now, key, before, &request, effects)?, accepted)
            }
        };
        self.accepted.insert(header.sender, now);
        self.apply(now, number, accepted, &request, (header, from), effects);
        Ok(())
    }

    fn decode_append<'a>(&self, header: &Header, body: &'a [u8]) -> Result<AppendRequest<'a>, Status> {
        let request = AppendRequest::decode(body)?;
        let end = u64::from(request.offset) + request.data.len() as u64;
        let is_named = !header.segment.is_none() && !header.stream.is_none();
        let is_sized =
            end <= u64::from(self.config.segment_bytes) && request.data.len() <= APPEND_BYTES_MAX as usize;
        let is_open_sound = !request.open || request.offset == 0;
        let is_close_sound = !request.close || request.certificate.is_some();
        if is_named && is_sized && is_open_sound && is_close_sound {
            Ok(request)
        } else {
            Err(Status::BadRequest)
        }
    }

    /// Gives a new replica a frame and, if one is free, a buffer. A replica that it replaces stays until the new one
    /// has a certificate.
    fn open(
        &mut self,
        now: Instant,
        key: ReplicaKey,
        before: Option<ReplicaNumber>,
        request: &AppendRequest<'_>,
        effects: &mut Effects,
    ) -> Result<ReplicaNumber, Status> {
        let needs_buffer = self.config.buffer_count() > 0;
        if !self.space.has_frame() {
            let is_coming = self.growth.is_under_way() || self.space.frames_wiping > 0;
            return Err(if is_coming { Status::Retry } else { Status::OpenRefused });
        }
        let frame = self.space.take_frame();
        // With all buffers in use the replica is written straight into its frame: slower to flush, just as safe.
        // Side segments leave some buffers to heads, because clients wait for heads.
        let spared = if request.side { self.config.buffer_count() / SPARED_PART } else { 0 };
        let buffer = if needs_buffer { self.space.take_buffer(spared) } else { None };
        if let Some(before) = before {
            self.replace(now, key, before);
        }
        let number = self.next_number();
        let incarnation = self.next_sequence();
        let mut replica = Replica::new(key, incarnation, buffer, frame);
        replica.side = request.side;
        replica.synced = request.synced && !(self.config.buffers_survive_power && buffer.is_some());
        self.replicas.insert(number, replica);
        self.present.insert(key, number);
        effects.mark(Mark::BackupOpened);
        Ok(number)
    }

    /// Makes room for a new replica in the place of `before`. If `before` was itself replacing an older replica, it has
    /// no certificate that counts, and the older one is kept: recovery may need it. A replica's first certificate
    /// covers all that its master had. So the older replica is freed as soon as the new one has a certificate that
    /// counts, and not before.
    fn replace(&mut self, now: Instant, key: ReplicaKey, before: ReplicaNumber) {
        if self.found.contains_key(&key) {
            return self.free(before);
        }
        self.present.remove(&key);
        self.found.insert(key, before);
        self.replicas.get_mut(&before).expect("named replicas exist").found = true;
        self.want_flush(now, before);
    }

    /// Forgets bytes beyond the last certificate, so that the master sends them again.
    fn drop_uncertified(&mut self, number: ReplicaNumber) {
        let replica = self.replicas.get_mut(&number).expect("named replicas exist");
        replica.accepted.length = replica.accepted.certified();
        replica.crc = replica.accepted.certificate_crc();
    }

    fn apply(
        &mut self,
        now: Instant,
        number: ReplicaNumber,
        accepted: Accepted,
        request: &AppendRequest<'_>,
        (header, from): (&Header, ConnId),
        effects: &mut Effects,
    ) {
        let replica = self.replicas.get_mut(&number).expect("named replicas exist");
        let slot_needed =
            accepted.held.certificate.is_some() && !accepted.held.is_certified_like(&replica.accepted);
        let data = &request.data[accepted.skip..];
        let operation = replica.operations_over + replica.operations.len() as u64;
        if accepted.held.epoch > replica.accepted.epoch && replica.accepted.certificate.is_some() {
            effects.mark(Mark::BackupEpochRaised);
        }
        if replica.append_count() == 0 {
            replica.opened_epoch = accepted.held.epoch;
        }
        replica.accepted = accepted.held;
        replica.crc = accepted.crc;
        replica.operations.push_back(Operation {
            data_written: data.is_empty(),
            slot_needed,
            after: accepted.held,
            certifies: request.certificate.is_some(),
            header: *header,
            from,
        });
        if !data.is_empty() {
            let place = replica.place();
            let offset = place.data_offset(self.config.segment_bytes) + u64::from(accepted.write_at);
            let task = Task::Data { replica: number, operation };
            // The data is the end of the message. Skipped bytes are at the begin of the data.
            self.disk.write_message_end(task, place.file(), offset, data.len(), effects);
        }
        self.advance_operations(now, number, effects);
    }

    pub(crate) fn on_data_written(
        &mut self,
        now: Instant,
        number: ReplicaNumber,
        operation: u64,
        effects: &mut Effects,
    ) {
        if self.failed.is_some() {
            return;
        }
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it is written");
        let index = operation - replica.operations_over;
        replica.operations[index as usize].data_written = true;
        effects.mark(Mark::BackupDataWritten);
        self.advance_operations(now, number, effects);
    }

    /// Certifies and answers the operations whose data is written.
    fn advance_operations(&mut self, now: Instant, number: ReplicaNumber, effects: &mut Effects) {
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it has operations");
        if replica.slot_writing.is_some() || replica.data_syncing.is_some() {
            return;
        }
        let count = replica.operations.iter().take_while(|operation| operation.data_written).count();
        if count == 0 {
            return;
        }
        if !replica.operations.iter().take(count).any(|operation| operation.slot_needed) {
            self.answer_operations(now, number, count, effects);
        } else if replica.synced && replica.buffer.is_none() {
            // If one sync covered both, a crash could leave a certificate without its bytes, which looks like damage.
            replica.data_syncing = Some(count);
            self.disk.wait_for_sync(SyncWaiter::Data(number));
        } else {
            self.certify(number, count, effects);
        }
    }

    /// The data of the operations for which `data_syncing` waits is on the device. The replica is synced and is written
    /// straight into its frame.
    pub(crate) fn on_data_synced(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it is written");
        let count = replica.data_syncing.take().expect("this sync was for its data");
        self.certify(number, count, effects);
    }

    fn certify(&mut self, number: ReplicaNumber, count: usize, effects: &mut Effects) {
        let replica = &self.replicas[&number];
        let after = replica.operations[count - 1].after;
        let at = (replica.place(), replica.ring);
        let slot = self.write_slot(Task::Slot(number), number, (after, false), at, effects);
        self.replicas.get_mut(&number).expect("it was there above").slot_writing = Some((count, slot));
    }

    pub(crate) fn on_slot_written(&mut self, now: Instant, number: ReplicaNumber, effects: &mut Effects) {
        if self.failed.is_some() {
            return;
        }
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it is written");
        let (count, slot) = replica.slot_writing.take().expect("this write was for it");
        replica.ring.newest = Some(slot);
        effects.mark(Mark::BackupCertificateWritten);
        self.answer_operations(now, number, count, effects);
        self.advance_operations(now, number, effects);
    }

    /// The first `count` operations now outlive the process.
    fn answer_operations(
        &mut self,
        now: Instant,
        number: ReplicaNumber,
        count: usize,
        effects: &mut Effects,
    ) {
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it has operations");
        let stored = replica.operations[count - 1].after;
        let has_changed = !stored.is_certified_like(&replica.stored);
        replica.stored = stored;
        replica.operations_over += count as u64;
        let reply = replica.reply(stored.length);
        for operation in replica.operations.drain(..count).collect::<Vec<_>>() {
            if replica.has_reached(&operation) {
                Backup::answer_append(&operation.header, operation.from, Status::Ok, &reply, effects);
            } else {
                replica.unsynced.push_back(operation);
            }
        }
        self.settling.insert(number);
        if stored.certificate.is_some() && has_changed {
            self.want_flush(now, number);
        }
        self.free_older(number);
    }

    /// Frees the replica that this one replaces, if this one has a certificate that counts.
    fn free_older(&mut self, number: ReplicaNumber) {
        let replica = &self.replicas[&number];
        if replica.counts()
            && self.present.get(&replica.key) == Some(&number)
            && let Some(older) = self.found.get(&replica.key).copied()
        {
            self.free(older);
        }
    }

    /// Answers the appends that waited for the device, after more of their replica is on it.
    pub(crate) fn answer_synced(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it is flushed");
        let reply = replica.reply(replica.stored.length);
        while let Some(operation) = replica.unsynced.front().filter(|it| replica.has_reached(it)) {
            Backup::answer_append(&operation.header, operation.from, Status::Ok, &reply, effects);
            replica.unsynced.pop_front();
        }
        self.free_older(number);
    }

    pub(crate) fn answer_append(
        header: &Header,
        to: ConnId,
        status: Status,
        reply: &AppendReply,
        effects: &mut Effects,
    ) {
        effects.send_with(Peer::Conn(to), |out| {
            frame::write(out, &header.answer(status), |out| reply.encode(out));
        });
    }

    /// A master no longer needs a replica. Idempotent.
    pub(crate) fn on_replica_free(
        &mut self,
        header: &Header,
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        let status = self.try_replica_free(header, view).err().unwrap_or(Status::Ok);
        ramhold_wire::reply(effects, Peer::Conn(from), header, status);
    }

    fn try_replica_free(&mut self, header: &Header, view: &View) -> Result<(), Status> {
        self.check_sender(header, view)?;
        if header.sender.is_none() {
            return Err(Status::NotInCluster);
        }
        self.check_device()?;
        let key = ReplicaKey::of(header);
        if let Some(number) = self.found.get(&key).copied()
            && self.replicas[&number].accepted.epoch <= header.epoch
        {
            self.free(number);
        }
        if let Some(number) = self.present.get(&key).copied() {
            if self.replicas[&number].accepted.epoch > header.epoch {
                return Err(Status::StaleEpoch);
            }
            self.free(number);
        }
        Ok(())
    }
}

/// Whether a message opens a segment anew, from its begin, although a replica of it is here, because that replica has
/// an older epoch or is damaged.
fn is_reopened(replica: &Replica, header: &Header, request: &AppendRequest<'_>) -> bool {
    let is_newer = !request.raise_epoch && header.epoch > replica.accepted.epoch;
    let is_damaged = replica.corrupt && header.epoch >= replica.accepted.epoch;
    request.open && (is_newer || is_damaged)
}

/// The state of the replica after this message, or the reason why the message is refused.
fn accept(replica: &Replica, header: &Header, request: &AppendRequest<'_>) -> Result<Accepted, Status> {
    let before = replica.accepted;
    let is_unchecked = replica.incarnation == 0 || planted(Defect::OldEpochTaken);
    if !is_unchecked && (header.epoch < before.epoch || (header.epoch > before.epoch && !request.raise_epoch))
    {
        return Err(Status::StaleEpoch);
    }
    let end = request.offset + request.data.len() as u32;
    if before.closed && end > before.length {
        return Err(Status::NotAllowed);
    }
    if request.close && end < before.certified() {
        return Err(Status::NotAllowed);
    }
    if replica.corrupt {
        return Err(Status::CorruptReplica);
    }
    if replica.operations.len() + replica.unsynced.len() >= OPERATION_COUNT_MAX {
        return Err(Status::TooMany);
    }
    // The certificate ends among uncertified bytes: start again from the last certificate.
    let certified = before.certified();
    let drops = request.certificate.is_some_and(|certificate| {
        certificate.length < before.length && (certificate.length > certified || request.close)
    });
    let (length, crc) =
        if drops { (certified, before.certificate_crc()) } else { (before.length, replica.crc) };
    if request.offset > length {
        return Err(Status::OutOfOrder);
    }
    let skip = ((length - request.offset) as usize).min(request.data.len());
    let epoch = if planted(Defect::OldEpochTaken) { before.epoch.max(header.epoch) } else { header.epoch };
    let mut held = Held { length: length.max(end), epoch, ..before };
    let crc = crc_append(crc, &request.data[skip..]);
    if let Some(certificate) = request.certificate {
        let known = if certificate.length == held.length { Some(crc) } else { None };
        let known = if certificate.length == certified && before.certificate.is_some() {
            before.certificate.map(|before| before.crc)
        } else {
            known
        };
        // A certificate that is shorter than the present one comes from an old message, and changes nothing.
        if known.is_some_and(|known| known != certificate.crc) {
            return Err(Status::CorruptReplica);
        }
        if certificate.length > certified || before.certificate.is_none() {
            held.certificate = Some(certificate);
        }
    }
    held.closed |= request.close;
    if request.open {
        held.primary = request.primary;
    }
    Ok(Accepted { held, crc, write_at: length, skip })
}
