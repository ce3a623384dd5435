//! A replica that the own backup has found at its start.

use ramhold_base::{Epoch, SegmentId, StreamId};

/// A replica of this brick's log on its own backup, from an earlier life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundReplica {
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    /// Certified bytes.
    pub length: u32,
    pub side: bool,
    pub closed: bool,
    /// It may hold less than was acknowledged.
    pub cut: bool,
    pub corrupt: bool,
}
