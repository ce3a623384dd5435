//! A log that is simulated small and weighed large.
//!
//! Every segment of the simulation is a real segment with real entries, only smaller. It *stands for* one or
//! more segments of 8 MiB. The cost of each simulated byte of log (devices, network, processor) is charged
//! for all the bytes that it stands for.
//!
//! Messages, rounds, scheduling, placement, division and order are made by the real code. If a segment stands
//! for one segment, there are as many of each kind as in a full-size cluster. Larger factors keep large
//! clusters within memory and patience. Then the cost of a message about a segment is charged once for each
//! segment that it stands for, and the pipeline is coarser than the real one.

use ramhold_base::limits::SEGMENT_BYTES;

/// Bytes of a value in the simulation; with its result and their headers some 150 bytes of log.
pub const VALUE_BYTES: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Bytes of a segment of the simulation.
    pub segment_bytes: u32,
    /// Segments that it stands for.
    pub segments: u32,
    /// Bytes of each of those.
    pub real_bytes: u32,
}

/// Segments of a simulated log. At this limit a digest takes a sixth of the last segments, and a twelfth on
/// the average.
const SEGMENT_COUNT_MAX: f64 = 1400.0;

/// Usual: fine enough for every figure with up to a hundred recovery masters.
pub const FINE: Scale = Scale { segment_bytes: 64 * 1024, segments: 1, real_bytes: SEGMENT_BYTES };

impl Scale {
    /// The bytes that one byte of log in the simulation stands for.
    pub fn bytes(&self) -> f64 {
        f64::from(self.segments) * f64::from(self.real_bytes) / f64::from(self.segment_bytes)
    }

    /// The number of simulated bytes that stand for `bytes` bytes.
    pub fn down(&self, bytes: f64) -> u64 {
        (bytes / self.bytes()).round().max(1.0) as u64
    }

    /// The same, coarser: each segment stands for `segments` segments.
    pub const fn coarse(segments: u32) -> Scale {
        Scale { segments, ..FINE }
    }

    /// As fine as a log of `data` bytes may be. A head's digest names every segment, and must be a small part
    /// of the head.
    pub fn of(data: f64) -> Scale {
        Scale::coarse((data / f64::from(SEGMENT_BYTES) / SEGMENT_COUNT_MAX).ceil().max(1.0) as u32)
    }

    /// The simulated count of things of which there is one per segment of 8 MiB.
    pub fn down_count(&self, count: u32) -> u32 {
        (count / self.segments).max(1)
    }
}
