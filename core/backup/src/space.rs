//! The free frames and buffers.
//!
//! A freed frame is used again only when its wiped head is on the device, so that an old certificate never stands
//! before new bytes.
//!
//! Not here: more frames (growth).

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

    /// Takes a buffer. `None` if no more than `spared` are free.
    pub fn take_buffer(&mut self, spared: u32) -> Option<u32> {
        if self.free_buffers.len() <= spared as usize {
            return None;
        }
        self.free_buffers.pop_first()
    }

    pub fn has_frame(&self) -> bool {
        !self.free_frames.is_empty()
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
}
