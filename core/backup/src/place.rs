//! The layout of the frame file and of the buffer file.
//!
//! Both files hold places of the same layout: a head with certificate slots, then room for one segment's data. The
//! buffer file has a page with its id before the first place.

use ramhold_base::DiskFile;

/// The head of a place: one page, so that data is aligned.
pub(crate) const HEAD_BYTES: u32 = 4096;
/// The size of a certificate slot: one sector.
pub(crate) const SLOT_BYTES: usize = 512;
/// Certificate slots of a head: three that may have to be kept, and one to write next.
pub(crate) const SLOT_COUNT: u8 = 4;

const _: () = assert!(SLOT_COUNT as u32 * SLOT_BYTES as u32 <= HEAD_BYTES);

/// The size of a place.
pub(crate) fn place_bytes(segment_bytes: u32) -> u64 {
    u64::from(HEAD_BYTES) + u64::from(segment_bytes)
}

/// Room for one replica: frames on the device, buffers in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    Frame(u32),
    Buffer(u32),
}

impl Place {
    pub fn file(self) -> DiskFile {
        match self {
            Place::Frame(_) => DiskFile::Frames,
            Place::Buffer(_) => DiskFile::Buffers,
        }
    }

    pub fn head_offset(self, segment_bytes: u32) -> u64 {
        match self {
            Place::Frame(index) => u64::from(index) * place_bytes(segment_bytes),
            Place::Buffer(index) => u64::from(HEAD_BYTES) + u64::from(index) * place_bytes(segment_bytes),
        }
    }

    pub fn slot_offset(self, segment_bytes: u32, slot: u8) -> u64 {
        assert!(slot < SLOT_COUNT);
        self.head_offset(segment_bytes) + u64::from(slot) * SLOT_BYTES as u64
    }

    pub fn data_offset(self, segment_bytes: u32) -> u64 {
        self.head_offset(segment_bytes) + u64::from(HEAD_BYTES)
    }
}
