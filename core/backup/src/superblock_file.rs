//! The superblock file, and the id that ties the buffer file to it: read at the start, written when the identity
//! changes.
//!
//! The superblock is read first, because a server needs its identity to enlist. Then the buffer id tells whether the
//! buffers are those of the last life.
//!
//! Invariants:
//! - if the buffers are gone, their id is used again only if the last life ended with everything on the device;
//! - a superblock is written when the buffer file that it names is ready;
//! - one copy of the superblock is on the device before the other is written, also when a process died between them.
//!
//! Bytes: docs/formats/replica.md. Catalogue: D1.

use crate::device::DeviceStep;
use crate::disk::Task;
use crate::place::HEAD_BYTES;
use crate::superblock::{COPY_BYTES, Found, Superblock, decode_buffer_id, encode_buffer_id};
use ramhold_base::{ClusterId, DirectoryId, DiskFile, Level, Mark, Rng, ServerId};

/// The origin of the buffers that were found at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BuffersFound {
    OfLastLife,
    /// The contents of the buffer file are not from this directory's last life. `are_lost`: that life had buffers, and did
    /// not end with everything on the device.
    Foreign {
        are_lost: bool,
    },
}

#[derive(Debug)]
pub(crate) struct SuperblockFile {
    /// Chooses the ids of the directory and of the buffers.
    rng: Rng,
    /// The next contents of the file, except its sequence and buffer id.
    wanted: Option<Superblock>,
    writing: Option<Superblock>,
    is_buffer_file_ready: bool,
}

impl SuperblockFile {
    pub fn new(rng: Rng) -> SuperblockFile {
        SuperblockFile { rng, wanted: None, writing: None, is_buffer_file_ready: false }
    }

    pub fn read(&self, step: &mut DeviceStep<'_>) {
        let bytes = 2 * COPY_BYTES as u32;
        step.disk.read(Task::SuperblockRead, DiskFile::Superblock, 0, bytes, step.effects);
    }

    /// The error is the reason why this directory cannot be used.
    pub fn on_read(&mut self, bytes: &[u8], step: &mut DeviceStep<'_>) -> Result<(), String> {
        let ours = step.config.segment_bytes;
        match Superblock::find(bytes) {
            Found::Unusable(reason) => Err(reason),
            Found::Newest(Superblock { segment_bytes: theirs, .. }) if theirs != ours => {
                Err(format!("the data directory was made for segments of {theirs} bytes, not {ours}"))
            }
            Found::Newest(found) => {
                step.directory.superblock = Some(found);
                step.disk.sync(Task::SuperblockFoundSync, DiskFile::Superblock, step.effects);
                Ok(())
            }
            Found::New => {
                let directory = DirectoryId(self.rng.id());
                let first = Superblock {
                    sequence: 1,
                    directory,
                    cluster: ClusterId::NONE,
                    server: ServerId::NONE,
                    buffer_id: 0,
                    segment_bytes: ours,
                    clean: false,
                };
                self.write(first, step);
                self.read_buffer_id(step);
                Ok(())
            }
        }
    }

    pub fn want(&mut self, superblock: Superblock) {
        self.wanted = Some(superblock);
    }

    /// Whether everything that was wanted is on the device.
    pub fn is_durable(&self) -> bool {
        self.wanted.is_none() && self.writing.is_none()
    }

    /// Writes the wanted superblock as soon as the buffer file that it names is ready.
    pub fn advance(&mut self, step: &mut DeviceStep<'_>) {
        if self.writing.is_none()
            && self.is_buffer_file_ready
            && let Some(before) = step.directory.superblock
            && let Some(wanted) = self.wanted.take()
        {
            let (sequence, buffer_id) = (before.sequence + 1, step.directory.buffer_id);
            self.write(Superblock { sequence, buffer_id, ..wanted }, step);
        }
    }

    fn write(&mut self, superblock: Superblock, step: &mut DeviceStep<'_>) {
        assert!(self.writing.is_none());
        self.writing = Some(superblock);
        let (offset, bytes) = (superblock.offset(), superblock.encode());
        step.disk.write(Task::SuperblockWrite, DiskFile::Superblock, offset, &bytes, step.effects);
    }

    pub fn on_written(&self, step: &mut DeviceStep<'_>) {
        step.effects.mark(Mark::BackupSuperblockWritten);
        step.disk.sync(Task::SuperblockSync, DiskFile::Superblock, step.effects);
    }

    pub fn on_durable(&mut self, step: &mut DeviceStep<'_>) {
        let written = self.writing.take().expect("this sync was for a superblock");
        step.directory.superblock = Some(written);
        // Sequences rise from life to life, even above those of wiped slots that may come back.
        step.directory.used_sequence(written.server.raw().min(u64::from(u32::MAX)) << 32);
    }

    pub fn read_buffer_id(&self, step: &mut DeviceStep<'_>) {
        step.disk.read(Task::BufferIdRead, DiskFile::Buffers, 0, HEAD_BYTES, step.effects);
    }

    /// Chooses the buffer id of this life.
    pub fn on_buffer_id_read(&mut self, bytes: &[u8], step: &mut DeviceStep<'_>) -> BuffersFound {
        let last = step.directory.superblock;
        let known = last.map_or(0, |superblock| superblock.buffer_id);
        let is_clean = last.is_some_and(|superblock| superblock.clean);
        let are_of_last_life = known != 0 && decode_buffer_id(bytes) == Some(known);
        let id = if are_of_last_life || (is_clean && known != 0) { known } else { self.rng.id() };
        step.directory.buffer_id = id;
        let are_lost = known != 0 && id != known;
        if are_lost {
            step.effects.report(
                Level::Warn,
                "the buffers of the last life are gone: replicas not on the device are cut",
            );
        }
        if are_of_last_life { BuffersFound::OfLastLife } else { BuffersFound::Foreign { are_lost } }
    }

    pub fn on_buffers_reserved(&self, step: &mut DeviceStep<'_>) {
        let bytes = encode_buffer_id(step.directory.buffer_id);
        step.disk.write(Task::BufferIdWrite, DiskFile::Buffers, 0, &bytes, step.effects);
    }

    pub fn on_buffer_id_written(&mut self) {
        self.is_buffer_file_ready = true;
    }
}
