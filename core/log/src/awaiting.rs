//! Awaits segments of a brick's log that a start has found and has not taken over yet, while the log is written to already.
//!
//! The head that named them tells the newest stamp of each. Whatever is stored above the highest of these, the *floor*, is
//! newer than everything that is not in memory.
//!
//! Invariants:
//! - every digest names the pending segments, too: a start that comes before they are taken over finds them again;
//! - memory and places of the index are held back for them: nothing that is written meanwhile takes their room.
//!
//! Not here: taking them over (`adopt`), and what is answered meanwhile (core/brick). Protocol: docs/protocols/quorum.md,
//! rules 76, 77. Catalogue: I6.

use crate::adopt::NotAdopted;
use crate::log::{Log, OutOfMemory};
use crate::{Awaited, Summary};
use ramhold_base::SegmentId;

impl Log {
    /// Makes the heads of this log, which is a brick's, tell the newest stamp of each segment that they name.
    pub fn tell_summaries(&mut self) {
        self.tells_summaries = true;
    }

    /// Names a segment in the digests of its stream from now on, and holds its room back until it is adopted.
    pub fn await_segment(&mut self, id: SegmentId, awaited: Awaited) -> Result<(), OutOfMemory> {
        assert!(self.segment(id).is_none(), "a segment that is in memory is not awaited");
        if !self.memory.promise(self.in_seglets(awaited.bytes)) {
            return Err(OutOfMemory);
        }
        self.pending.add(id, awaited);
        Ok(())
    }

    /// Whether there is memory for ordinary appends beside segments of so many bytes each. Without it the log must be cleaned,
    /// and so be in memory as a whole, before it takes anything.
    pub fn may_await(&self, segments: impl Iterator<Item = u32>) -> bool {
        let seglets: u64 = segments.map(|bytes| u64::from(self.in_seglets(bytes))).sum();
        u64::from(self.memory.free_count()) > seglets + u64::from(self.reserve.0)
    }

    /// Gives the memory free that is held back for a segment: it is taken to memory now.
    pub(crate) fn give_room(&mut self, id: SegmentId) {
        if let Some(awaited) = self.pending.get(id) {
            self.memory.keep_promise(self.in_seglets(awaited.bytes));
        }
    }

    /// A segment is in memory and in the index.
    pub(crate) fn end_awaited(&mut self, id: SegmentId) {
        self.pending.remove(id);
    }

    /// The segments that are awaited, with the number of their bytes.
    pub fn awaited(&self) -> (usize, u64) {
        self.pending.size()
    }

    /// The floor: no record in a segment that is awaited has a stamp with a later time. `None`: everything is in memory.
    pub fn floor_of_awaited(&self) -> Option<u64> {
        self.pending.newest()
    }

    /// The summary that a head gives of a closed segment in memory.
    pub(crate) fn summary(&self, id: SegmentId) -> Option<Summary> {
        let segment = self.segment(id)?;
        Some(Summary { stamp_newest: segment.stamp_newest, entry_count: segment.entry_count })
    }

    /// Whether the bytes of an awaited segment are what was told of it.
    pub(crate) fn check_awaited(&self, id: SegmentId, bytes: usize, told: Summary) -> Result<(), NotAdopted> {
        match self.pending.get(id) {
            Some(awaited) if !awaited.covers(bytes, told) => Err(NotAdopted::Corrupt { offset: 0 }),
            _ => Ok(()),
        }
    }
}
