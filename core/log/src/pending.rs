//! The list of the segments of a brick's log that a start has found and has not taken over yet.
//!
//! Not here: the log that awaits them (`awaiting`). Catalogue: I6.

use crate::Summary;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{SegmentId, StreamId};
use std::collections::BTreeMap;

/// A segment that is to be adopted later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Awaited {
    pub stream: StreamId,
    pub bytes: u32,
    pub summary: Summary,
}

/// The segments that are pending, of all streams.
#[derive(Default)]
pub(crate) struct Pending {
    segments: BTreeMap<SegmentId, Awaited>,
    /// The highest of their newest stamps. `None`: there are none.
    newest: Option<u64>,
    /// The sum of their entries.
    entries: u64,
}

impl Pending {
    /// Adds a segment. Panics if it is there.
    pub(crate) fn add(&mut self, id: SegmentId, awaited: Awaited) {
        self.newest = self.newest.max(Some(awaited.summary.stamp_newest));
        self.entries += u64::from(awaited.summary.entry_count);
        assert!(self.segments.insert(id, awaited).is_none(), "a segment is awaited once");
    }

    pub(crate) fn remove(&mut self, id: SegmentId) {
        let Some(gone) = self.segments.remove(&id) else { return };
        self.entries -= u64::from(gone.summary.entry_count);
        self.newest = self.segments.values().map(|awaited| awaited.summary.stamp_newest).max();
    }

    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// The number of the segments, and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        let bytes = self.segments.values().map(|awaited| u64::from(awaited.bytes));
        (self.segments.len(), bytes.sum())
    }

    pub(crate) fn get(&self, id: SegmentId) -> Option<Awaited> {
        self.segments.get(&id).copied()
    }

    /// The entries for which the index holds places back.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// The pending segments that the next digest of a stream names.
    pub(crate) fn named(&self, stream: StreamId) -> impl Iterator<Item = (SegmentId, Summary)> {
        let own = self.segments.iter().filter(move |(_, awaited)| awaited.stream == stream);
        own.filter(|_| !planted(Defect::QuorumPendingForgotten)).map(|(id, awaited)| (*id, awaited.summary))
    }
}

impl Awaited {
    /// Whether a segment of so many bytes, with this content, may be the one that was awaited.
    pub(crate) fn covers(&self, bytes: usize, summary: Summary) -> bool {
        bytes <= self.bytes as usize
            && summary.stamp_newest <= self.summary.stamp_newest
            && summary.entry_count <= self.summary.entry_count
    }
}
