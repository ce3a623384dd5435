//! Disk operations: the purpose of every token, shared syncs, and the treatment of errors.
//!
//! One sync of the frame file serves all waiters whose writes were complete before it began.
//!
//! An error of writing, copying or syncing fails the device for good. The exception is a reservation of frames that
//! finds no room (`growth`). A read error concerns only what was read. It counts after `READ_TRIES` (3) tries, because
//! the bytes may be the last copy.

use crate::Backup;
use crate::certificate::Ring;
use crate::keys::{DivisionKey, ReplicaNumber};
use crate::place::{HEAD_BYTES, Place};
use crate::replica::{Held, Operation, Stamp};
use ramhold_base::{
    ClusterId, DiskData, DiskError, DiskFile, DiskToken, Effect, Effects, Instant, Level, Status,
};
use ramhold_wire::View;

/// The purpose of a disk effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    SuperblockRead,
    /// Syncs the superblock that was found. It may be in the system's memory only: the process that wrote it may have
    /// died before its sync.
    SuperblockFoundSync,
    SuperblockWrite,
    SuperblockSync,
    BufferIdRead,
    BuffersReserve,
    BufferIdWrite,
    HeadRead(Place),
    VerifyRead(Place),
    FramesReserve {
        count: u32,
    },
    Data {
        replica: ReplicaNumber,
        operation: u64,
    },
    Slot(ReplicaNumber),
    FlushCopy(ReplicaNumber),
    FlushSlot(ReplicaNumber),
    FramesSync,
    /// Wipes a head: that of a replica that is freed, or one that belongs to no replica.
    Wipe {
        replica: Option<ReplicaNumber>,
        place: Place,
    },
    OpeningRead(ReplicaNumber),
    DivisionRead {
        replica: ReplicaNumber,
        key: DivisionKey,
    },
    /// Reads a replica for its own master.
    MasterRead {
        read: u64,
    },
}

/// The waiters for a sync of the frame file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncWaiter {
    Data(ReplicaNumber),
    FlushData(ReplicaNumber),
    FlushSlot(ReplicaNumber),
    FrameWiped(u32),
    Start,
    Stop,
}

/// Tries after which a failing read counts as an error.
const READ_TRIES: u32 = 3;

/// A read under way.
#[derive(Clone, Copy, Debug)]
struct Reading {
    file: DiskFile,
    offset: u64,
    bytes: u32,
    tries: u32,
}

/// The disk operations under way, and the one sync of the frame file.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    tasks: std::collections::BTreeMap<DiskToken, Task>,
    readings: std::collections::BTreeMap<DiskToken, Reading>,
    next: u64,
    sync_waiting: Vec<SyncWaiter>,
    sync_covered: Vec<SyncWaiter>,
    is_syncing: bool,
}

impl Disk {
    fn token(&mut self, task: Task) -> DiskToken {
        let token = DiskToken(self.next);
        self.next += 1;
        self.tasks.insert(token, task);
        token
    }

    pub fn write(&mut self, task: Task, file: DiskFile, offset: u64, data: &[u8], effects: &mut Effects) {
        let token = self.token(task);
        effects.disk_write(token, file, offset, data);
    }

    /// Writes the last `bytes` bytes of the message that is being handled.
    pub fn write_message_end(
        &mut self,
        task: Task,
        file: DiskFile,
        offset: u64,
        bytes: usize,
        effects: &mut Effects,
    ) {
        let token = self.token(task);
        effects.push(Effect::DiskWrite { token, file, offset, data: DiskData::FrameEnd(bytes) });
    }

    pub fn read(&mut self, task: Task, file: DiskFile, offset: u64, bytes: u32, effects: &mut Effects) {
        self.read_for(task, Reading { file, offset, bytes, tries: 1 }, effects);
    }

    fn read_for(&mut self, task: Task, reading: Reading, effects: &mut Effects) {
        let token = self.token(task);
        self.readings.insert(token, reading);
        let Reading { file, offset, bytes, .. } = reading;
        effects.push(Effect::DiskRead { token, file, offset, bytes });
    }

    pub fn copy(
        &mut self,
        task: Task,
        (from, from_offset): (DiskFile, u64),
        (to, to_offset): (DiskFile, u64),
        bytes: u32,
        effects: &mut Effects,
    ) {
        let token = self.token(task);
        effects.push(Effect::DiskCopy { token, from, from_offset, to, to_offset, bytes });
    }

    pub fn reserve(&mut self, task: Task, file: DiskFile, bytes: u64, effects: &mut Effects) {
        let token = self.token(task);
        effects.push(Effect::DiskReserve { token, file, bytes });
    }

    pub fn sync(&mut self, task: Task, file: DiskFile, effects: &mut Effects) {
        let token = self.token(task);
        effects.push(Effect::DiskSync { token, file });
    }

    /// Notifies the waiter when every write to the frame file that is complete now is on the device.
    pub fn wait_for_sync(&mut self, waiter: SyncWaiter) {
        self.sync_waiting.push(waiter);
    }

    /// Begins a sync if there is a waiter and no sync is under way.
    pub fn advance(&mut self, effects: &mut Effects) {
        if !self.is_syncing && !self.sync_waiting.is_empty() {
            self.is_syncing = true;
            self.sync_covered = std::mem::take(&mut self.sync_waiting);
            self.sync(Task::FramesSync, DiskFile::Frames, effects);
        }
    }
}

impl Backup {
    /// A disk effect is complete. A read returns its bytes.
    pub fn on_disk(
        &mut self,
        now: Instant,
        token: DiskToken,
        result: Result<&[u8], DiskError>,
        view: &View,
        effects: &mut Effects,
    ) {
        let task = self.disk.tasks.remove(&token).expect("a token comes back once");
        let reading = self.disk.readings.remove(&token);
        match result {
            Err(error) if reading.is_some_and(|reading| reading.tries < READ_TRIES) => {
                let reading = reading.expect("looked at just now");
                let text =
                    format!("reading {:?} at {} failed: {error:?}; once more", reading.file, reading.offset);
                effects.report(Level::Warn, text);
                self.disk.read_for(task, Reading { tries: reading.tries + 1, ..reading }, effects);
            }
            Ok(bytes) => self.on_done(now, task, bytes, effects),
            Err(error) => self.on_disk_error(now, task, &error, effects),
        }
        self.advance(now, view, effects);
    }

    fn on_done(&mut self, now: Instant, task: Task, bytes: &[u8], effects: &mut Effects) {
        match task {
            Task::DivisionRead { replica, key } => {
                self.on_division_read(now, replica, key, Some(bytes), effects)
            }
            Task::SuperblockRead => self.on_superblock_read(bytes, effects),
            Task::SuperblockFoundSync => self.read_buffer_id(effects),
            Task::SuperblockWrite => self.on_superblock_written(effects),
            Task::SuperblockSync => self.on_superblock_durable(),
            Task::BufferIdRead => self.on_buffer_id_read(bytes, effects),
            Task::BuffersReserve => self.on_buffers_reserved(effects),
            Task::BufferIdWrite => self.on_buffer_id_written(),
            Task::HeadRead(place) => self.on_head_read(place, Some(bytes), effects),
            Task::VerifyRead(place) => self.on_verify_read(place, Some(bytes)),
            Task::FramesReserve { count } => self.on_frames_reserved(now, count),
            Task::Data { replica, operation } => self.on_data_written(now, replica, operation, effects),
            Task::Slot(replica) => self.on_slot_written(now, replica, effects),
            Task::FlushCopy(replica) => self.on_flush_copied(replica, effects),
            Task::FlushSlot(_) | Task::FramesSync if self.failed.is_some() => {}
            Task::FlushSlot(replica) => self.disk.wait_for_sync(SyncWaiter::FlushSlot(replica)),
            Task::FramesSync => self.on_frames_synced(now, effects),
            Task::Wipe { replica, place } => self.on_wiped(now, replica, place),
            Task::OpeningRead(replica) => self.on_opening_read(replica, Some(bytes), effects),
            Task::MasterRead { read } => self.on_master_read(read, Some(bytes), effects),
        }
    }

    fn on_frames_synced(&mut self, now: Instant, effects: &mut Effects) {
        self.disk.is_syncing = false;
        for waiter in std::mem::take(&mut self.disk.sync_covered) {
            match waiter {
                SyncWaiter::Data(replica) => self.on_data_synced(replica, effects),
                SyncWaiter::FlushData(replica) => self.on_flush_data_synced(replica, effects),
                SyncWaiter::FlushSlot(replica) => self.on_flushed(now, replica, effects),
                SyncWaiter::FrameWiped(frame) => {
                    self.space.frames_wiping -= 1;
                    self.space.free_frame(frame);
                }
                SyncWaiter::Start => self.on_start_synced(),
                SyncWaiter::Stop => self.on_stop_synced(),
            }
        }
    }

    fn on_disk_error(&mut self, now: Instant, task: Task, error: &DiskError, effects: &mut Effects) {
        let text = match error {
            DiskError::Full { .. } => "no space left on the device",
            DiskError::Failed(text) => text.as_str(),
        };
        match task {
            Task::FramesReserve { count } if let DiskError::Full { free_bytes } = error => {
                self.on_frames_refused(now, count, *free_bytes, effects);
            }
            Task::SuperblockRead => self.refuse_to_start(format!("the superblock cannot be read: {text}")),
            Task::SuperblockFoundSync | Task::SuperblockWrite | Task::SuperblockSync if !self.is_serving => {
                self.refuse_to_start(format!("the superblock cannot be written: {text}"));
            }
            Task::BuffersReserve if !self.is_serving => {
                self.refuse_to_start(format!("no room for the buffers: {text}"));
            }
            Task::BufferIdRead => self.on_buffer_id_read(&[], effects),
            Task::HeadRead(place) => self.on_head_read(place, None, effects),
            Task::VerifyRead(place) => self.on_verify_read(place, None),
            Task::OpeningRead(replica) => self.on_opening_read(replica, None, effects),
            Task::DivisionRead { replica, key } => self.on_division_read(now, replica, key, None, effects),
            Task::MasterRead { read } => self.on_master_read(read, None, effects),
            Task::SuperblockFoundSync
            | Task::SuperblockWrite
            | Task::SuperblockSync
            | Task::BuffersReserve
            | Task::BufferIdWrite
            | Task::FramesReserve { .. }
            | Task::Data { .. }
            | Task::Slot(_)
            | Task::FlushCopy(_)
            | Task::FlushSlot(_)
            | Task::FramesSync
            | Task::Wipe { .. } => self.fail(format!("{task:?}: {text}"), effects),
        }
    }

    /// Fails the device: from now on nothing here can be trusted, and everything is answered with `DeviceFailed`.
    pub(crate) fn fail(&mut self, reason: String, effects: &mut Effects) {
        if self.failed.is_some() {
            return;
        }
        effects.report(Level::Error, format!("the backup's device has failed: {reason}"));
        if !self.is_serving {
            self.refuse_to_start(reason.clone());
        }
        self.failed = Some(reason);
        for replica in self.replicas.values_mut() {
            let reply = replica.reply(replica.stored.length);
            for operation in replica.unsynced.drain(..).chain(replica.operations.drain(..)) {
                let Operation { header, from, .. } = operation;
                Backup::answer_append(&header, from, Status::DeviceFailed, &reply, effects);
            }
            replica.slot_writing = None;
            replica.data_syncing = None;
        }
        self.fail_fences(effects);
        self.fail_divisions(effects);
        self.fail_replica_reads(effects);
    }

    /// Wipes the head of a place: the replica that was there no longer exists.
    pub(crate) fn wipe(&mut self, replica: Option<ReplicaNumber>, place: Place, effects: &mut Effects) {
        if matches!(place, Place::Frame(_)) {
            self.space.frames_wiping += 1;
        }
        let offset = place.head_offset(self.config.segment_bytes);
        let zeroes = [0; HEAD_BYTES as usize];
        self.disk.write(Task::Wipe { replica, place }, place.file(), offset, &zeroes, effects);
    }

    fn on_wiped(&mut self, now: Instant, replica: Option<ReplicaNumber>, place: Place) {
        match place {
            Place::Frame(frame) => self.disk.wait_for_sync(SyncWaiter::FrameWiped(frame)),
            Place::Buffer(buffer) => self.space.free_buffer(buffer),
        }
        let Some(number) = replica else { return };
        let replica = self.replicas.get_mut(&number).expect("a replica stays until its heads are wiped");
        replica.wiping -= 1;
        if replica.freeing && replica.wiping == 0 {
            let (dead, bytes) = (replica.key.log.server, u64::from(replica.stored.certified()));
            let is_removed = replica.master_removed;
            self.replicas.remove(&number);
            if is_removed && let Some(work) = self.works.known(dead) {
                work.free.end(now, Some(bytes));
            }
        }
    }

    /// Writes a certificate slot for `held` at a place. Returns the slot's number.
    pub(crate) fn write_slot(
        &mut self,
        task: Task,
        number: ReplicaNumber,
        (held, interim): (Held, bool),
        (place, ring): (Place, Ring),
        effects: &mut Effects,
    ) -> u8 {
        let stamp = Stamp {
            sequence: self.next_sequence(),
            cluster: self.superblock.map_or(ClusterId::NONE, |superblock| superblock.cluster),
            buffer_id: self.buffer_id,
            interim,
        };
        let bytes =
            self.replicas[&number].slot(&held, place, stamp).expect("only what is certified is written");
        let index = ring.next();
        let offset = place.slot_offset(self.config.segment_bytes, index);
        self.disk.write(task, place.file(), offset, &bytes.encode(), effects);
        index
    }
}
