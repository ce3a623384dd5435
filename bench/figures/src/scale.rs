//! A log that is simulated small and weighed large.
//!
//! Every segment of the simulation is a real one with real entries, only small; it *stands for* one or more segments of
//! 8 MiB. What a byte of log costs (devices, network, processor) is charged for all the bytes that it stands for. Messages,
//! rounds, scheduling, placement, division and order are what the code makes of it: of each kind there are as many as
//! there would be, if a segment stands for one. If it stands for more, to keep large clusters within memory and
//! patience, what a message about a segment costs is charged as often, and the pipeline is coarser than it would be.

use ramhold_base::limits::SEGMENT_BYTES;

/// Bytes of a value in the simulation; with its result and their headers some 150 bytes of log.
pub const VALUE_BYTES: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Of a segment of the simulation.
    pub segment_bytes: u32,
    /// Segments that it stands for.
    pub segments: u32,
    /// Of each of those.
    pub real_bytes: u32,
}

/// Segments of a simulated log. With as many a digest takes a sixth of the last ones, and a twelfth on the average.
const SEGMENT_COUNT_MAX: f64 = 1400.0;

/// Usual: fine enough for every figure with up to a hundred recovery masters.
pub const FINE: Scale = Scale { segment_bytes: 64 * 1024, segments: 1, real_bytes: SEGMENT_BYTES };

impl Scale {
    /// A byte of log in the simulation stands for so many.
    pub fn bytes(&self) -> f64 {
        f64::from(self.segments) * f64::from(self.real_bytes) / f64::from(self.segment_bytes)
    }

    /// What so many bytes are in the simulation.
    pub fn down(&self, bytes: f64) -> u64 {
        (bytes / self.bytes()).round().max(1.0) as u64
    }

    /// The same, coarser: each segment stands for so many.
    pub const fn coarse(segments: u32) -> Scale {
        Scale { segments, ..FINE }
    }

    /// As fine as a log of so many bytes may be: a head's digest names every segment, and is to be a small part of it.
    pub fn of(data: f64) -> Scale {
        Scale::coarse((data / f64::from(SEGMENT_BYTES) / SEGMENT_COUNT_MAX).ceil().max(1.0) as u32)
    }

    /// So many things of which there is one per segment of 8 MiB.
    pub fn down_count(&self, count: u32) -> u32 {
        (count / self.segments).max(1)
    }
}
