//! Which frames and buffers are free.
//!
//! A frame that was freed is used again only when its wiped head is on the device, so that an old certificate never
//! meets new bytes.
//!
//! Not here: more frames (growth).

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Frames that exist on the device.
    pub frames: u32,
    /// No more frames than this: the configuration's maximum, or what was found at the start.
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
    /// The frames up to `count` exist now; the new ones are free.
    pub fn grown(&mut self, count: u32) {
        self.free_frames.extend(self.frames..count);
        self.frames = self.frames.max(count);
    }

    pub fn take_frame(&mut self) -> Option<u32> {
        self.free_frames.pop_first()
    }

    /// None when no more than `spared` are left.
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

    /// A buffer beyond the configured count, left by an earlier life, is not used again.
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
