//! Disk operations: the purpose of every token, shared syncs, reads that are tried again.
//!
//! One sync of the frame file serves all waiters whose writes were complete before it began. A read error counts after
//! `READ_TRIES` (3) tries, because the bytes may be the last copy.
//!
//! Not here: the part that a completion is for, and the treatment of errors (backup/completions).

use crate::keys::{DivisionKey, ReplicaNumber};
use crate::place::Place;
use ramhold_base::{DiskData, DiskError, DiskFile, DiskToken, Effect, Effects, Level, Status};
use std::collections::BTreeMap;

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
    DivisionRead(DivisionKey),
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
    /// Why the device has failed: from then on nothing on it can be trusted.
    failed: Option<String>,
    tasks: BTreeMap<DiskToken, Task>,
    readings: BTreeMap<DiskToken, Reading>,
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

    /// A disk effect is complete. Returns its purpose and result. `None` if the result is an error of a read that is
    /// tried again.
    pub fn finish<'a>(
        &mut self,
        token: DiskToken,
        result: Result<&'a [u8], DiskError>,
        effects: &mut Effects,
    ) -> Option<(Task, Result<&'a [u8], DiskError>)> {
        let task = self.tasks.remove(&token).expect("a token comes back once");
        let reading = self.readings.remove(&token);
        match (result, reading) {
            (Err(error), Some(reading)) if reading.tries < READ_TRIES => {
                let Reading { file, offset, .. } = reading;
                effects.report(
                    Level::Warn,
                    format!("reading {file:?} at {offset} failed: {error:?}; once more"),
                );
                self.read_for(task, Reading { tries: reading.tries + 1, ..reading }, effects);
                None
            }
            (result, _) => Some((task, result)),
        }
    }

    /// The sync of the frame file is complete. Returns those who waited for it.
    pub fn synced(&mut self) -> Vec<SyncWaiter> {
        self.is_syncing = false;
        std::mem::take(&mut self.sync_covered)
    }

    /// The device has failed for good.
    pub fn fail(&mut self, reason: String) {
        self.failed.get_or_insert(reason);
    }

    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    pub fn check(&self) -> Result<(), Status> {
        if self.has_failed() { Err(Status::DeviceFailed) } else { Ok(()) }
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
