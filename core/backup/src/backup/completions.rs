//! Completions of disk effects: the part that each of them is for, and the treatment of errors.
//!
//! An error of writing, copying or syncing fails the device for good. The exception is a reservation of frames that
//! finds no room (growth). A read error concerns only what was read.

use crate::Backup;
use crate::disk::{SyncWaiter, Task};
use crate::keys::DivisionKey;
use crate::life::Stop;
use crate::recovery_read::Lent;
use crate::superblock::Superblock;
use ramhold_base::{DiskError, DiskToken, Effects, Instant, Level};
use ramhold_wire::View;

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
        match self.device.disk.finish(token, result, effects) {
            Some((task, Ok(bytes))) => self.on_done(now, task, bytes, effects),
            Some((task, Err(error))) => self.on_disk_error(now, task, &error, effects),
            None => {}
        }
        self.advance(now, view, effects);
    }

    fn on_done(&mut self, now: Instant, task: Task, bytes: &[u8], effects: &mut Effects) {
        let has_failed = self.has_failed();
        let step = &mut self.device.step(now, effects);
        let (replicas, space) = (&mut self.replicas, &mut self.space);
        match task {
            Task::Data { .. } | Task::Slot(_) | Task::FlushSlot(_) | Task::FramesSync if has_failed => {}
            Task::DivisionRead(key) => self.on_division_read(now, key, Some(bytes), effects),
            Task::SuperblockRead => {
                if let Err(reason) = self.superblock_file.on_read(bytes, step) {
                    self.life.refuse_to_start(reason);
                }
            }
            Task::SuperblockFoundSync => self.superblock_file.read_buffer_id(step),
            Task::SuperblockWrite => self.superblock_file.on_written(step),
            Task::SuperblockSync => self.superblock_file.on_durable(step),
            Task::BufferIdRead => {
                let found = self.superblock_file.on_buffer_id_read(bytes, step);
                self.start.on_buffers_found(found, step.config);
            }
            Task::BuffersReserve => self.superblock_file.on_buffers_reserved(step),
            Task::BufferIdWrite => self.superblock_file.on_buffer_id_written(),
            Task::HeadRead(place) => self.start.scan.on_head_read(place, Some(bytes), step),
            Task::VerifyRead(place) => {
                self.start.scan.on_verify_read(place, Some(bytes), step.directory.buffer_id);
            }
            Task::FramesReserve { count } => self.growth.on_reserved(count, space, step),
            Task::Data { replica, operation } => replicas.on_data_written(replica, operation, step),
            Task::Slot(replica) => replicas.on_slot_written(replica, step),
            Task::FlushCopy(replica) => replicas[replica].on_flush_copied(step),
            Task::FlushSlot(replica) => step.disk.wait_for_sync(SyncWaiter::FlushSlot(replica)),
            Task::FramesSync => self.on_frames_synced(now, effects),
            Task::Wipe { replica, place } => {
                space.on_wiped(place, step);
                replica.into_iter().for_each(|number| replicas.on_wiped(number, &mut self.works, step));
            }
            Task::OpeningRead(replica) => {
                self.fences.openings.on_read(replica, Some(bytes), replicas, step);
            }
            Task::MasterRead { read } => self.replica_reads.on_read(read, Some(bytes), replicas, step),
        }
    }

    fn on_division_read(
        &mut self,
        now: Instant,
        key: DivisionKey,
        bytes: Option<&[u8]>,
        effects: &mut Effects,
    ) {
        let step = &mut self.device.step(now, effects);
        let mut lent = Lent { replicas: &mut self.replicas, works: &mut self.works, step };
        self.divisions.on_read(key, bytes, &mut lent);
    }

    fn on_frames_synced(&mut self, now: Instant, effects: &mut Effects) {
        for waiter in self.device.disk.synced() {
            let step = &mut self.device.step(now, effects);
            let replicas = &mut self.replicas;
            match waiter {
                SyncWaiter::Data(replica) => replicas[replica].on_data_synced(step),
                SyncWaiter::FlushData(replica) => replicas[replica].on_flush_data_synced(step),
                SyncWaiter::FlushSlot(replica) => replicas.on_flushed(replica, step),
                SyncWaiter::FrameWiped(frame) => self.space.on_wipe_synced(frame),
                SyncWaiter::Start => self.start.on_synced(),
                SyncWaiter::Stop => {
                    let superblock = step.directory.superblock.expect("who serves has a superblock");
                    self.superblock_file.want(Superblock { clean: true, ..superblock });
                    self.life.stop = Some(Stop::Marking);
                }
            }
        }
    }

    fn on_disk_error(&mut self, now: Instant, task: Task, error: &DiskError, effects: &mut Effects) {
        let text = match error {
            DiskError::Full { .. } => "no space left on the device",
            DiskError::Failed(text) => text.as_str(),
        };
        let is_serving = self.is_serving();
        let step = &mut self.device.step(now, effects);
        let replicas = &mut self.replicas;
        match task {
            Task::FramesReserve { count } if let DiskError::Full { free_bytes } = error => {
                self.growth.on_refused(count, *free_bytes, &self.space, step);
            }
            Task::SuperblockRead => {
                self.life.refuse_to_start(format!("the superblock cannot be read: {text}"));
            }
            Task::SuperblockFoundSync | Task::SuperblockWrite | Task::SuperblockSync if !is_serving => {
                self.life.refuse_to_start(format!("the superblock cannot be written: {text}"));
            }
            Task::BuffersReserve if !is_serving => {
                self.life.refuse_to_start(format!("no room for the buffers: {text}"));
            }
            Task::BufferIdRead => {
                let found = self.superblock_file.on_buffer_id_read(&[], step);
                self.start.on_buffers_found(found, step.config);
            }
            Task::HeadRead(place) => self.start.scan.on_head_read(place, None, step),
            Task::VerifyRead(place) => {
                self.start.scan.on_verify_read(place, None, step.directory.buffer_id);
            }
            Task::OpeningRead(replica) => self.fences.openings.on_read(replica, None, replicas, step),
            Task::DivisionRead(key) => self.on_division_read(now, key, None, effects),
            Task::MasterRead { read } => self.replica_reads.on_read(read, None, replicas, step),
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
    fn fail(&mut self, reason: String, effects: &mut Effects) {
        if self.has_failed() {
            return;
        }
        effects.report(Level::Error, format!("the backup's device has failed: {reason}"));
        if !self.is_serving() {
            self.life.refuse_to_start(reason.clone());
        }
        self.device.disk.fail(reason);
        self.replicas.fail(effects);
        self.fences.fail(effects);
        self.divisions.fail(effects);
        self.works.fail();
        self.replica_reads.fail(effects);
    }
}
