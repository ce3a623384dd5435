//! The free frames and buffers, and the wiping of those that become free.
//!
//! A freed frame is used again only when its wiped head is on the device, so that an old certificate never stands
//! before new bytes.
//!
//! Not here: more frames (growth).

use crate::device::DeviceStep;
use crate::disk::{SyncWaiter, Task};
use crate::keys::ReplicaNumber;
use crate::place::{HEAD_BYTES, Place};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Frames that exist on the device.
    pub frames: u32,
    /// The most frames: the configured maximum, or more if replicas found in buffers at the start need frames.
    pub frames_max: u32,
    pub buffers: u32,
    free_frames: BTreeSet<u32>,
    free_buffers: BTreeSet<u32>,
    /// Frames that cannot be read.
    pub frames_bad: u32,
    /// Frames whose wiping is not on the device yet.
    pub frames_wiping: u32,
}

impl Space {
    /// Notes that the frames up to `count` exist now. The new ones are free.
    pub fn grown(&mut self, count: u32) {
        self.free_frames.extend(self.frames..count);
        self.frames = self.frames.max(count);
    }

    pub fn take_frame(&mut self) -> Option<u32> {
        self.free_frames.pop_first()
    }

    /// Allows as many frames as `count` beyond those in use, whatever the configured maximum is.
    pub fn spare_frames(&mut self, count: u32) {
        let used = self.frames - self.free_frames.len() as u32;
        self.frames_max = self.frames_max.max(used.saturating_add(count));
    }

    /// Takes a buffer. `None` if no more than `spared` are free.
    pub fn take_buffer(&mut self, spared: u32) -> Option<u32> {
        if self.free_buffers.len() <= spared as usize {
            return None;
        }
        self.free_buffers.pop_first()
    }

    pub fn free_frame(&mut self, frame: u32) {
        assert!(frame < self.frames);
        assert!(self.free_frames.insert(frame), "a frame is freed once");
    }

    /// Frees a buffer. A buffer beyond the configured count, left by an earlier life, is not used again.
    pub fn free_buffer(&mut self, buffer: u32) {
        if buffer < self.buffers {
            assert!(self.free_buffers.insert(buffer), "a buffer is freed once");
        }
    }

    pub fn frames_free(&self) -> u32 {
        self.free_frames.len() as u32
    }

    pub fn frames_used(&self) -> u64 {
        u64::from(self.frames) - self.free_frames.len() as u64
    }

    /// Wipes the head of a place: the replica that was there no longer exists.
    pub fn wipe(&mut self, replica: Option<ReplicaNumber>, place: Place, step: &mut DeviceStep<'_>) {
        if matches!(place, Place::Frame(_)) {
            self.frames_wiping += 1;
        }
        let offset = place.head_offset(step.config.segment_bytes);
        let zeroes = [0; HEAD_BYTES as usize];
        step.disk.write(Task::Wipe { replica, place }, place.file(), offset, &zeroes, step.effects);
    }

    pub fn on_wiped(&mut self, place: Place, step: &mut DeviceStep<'_>) {
        match place {
            Place::Frame(frame) => step.disk.wait_for_sync(SyncWaiter::FrameWiped(frame)),
            Place::Buffer(buffer) => self.free_buffer(buffer),
        }
    }

    /// The wiped head of a frame is on the device.
    pub fn on_wipe_synced(&mut self, frame: u32) {
        self.frames_wiping -= 1;
        self.free_frame(frame);
    }

    /// The number of new replicas for which there are frames, or will be when the frame file has grown as far as it
    /// may.
    pub fn frames_left(&self) -> u64 {
        // Lowering the maximum takes no frames away.
        u64::from(self.frames_max).saturating_sub(self.frames_used()).max(u64::from(self.frames_free()))
    }
}
