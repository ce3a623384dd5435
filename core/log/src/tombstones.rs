//! Counts, for each segment, the tombstones that are needed because of another segment.
//!
//! A tombstone is needed while a segment that it names counts. To know dead tombstones without scanning, each segment
//! counts its tombstones by the *highest* segment that they name, their *source*. The source holds the newest version
//! that the tombstone ends, and is the first of the named segments to be cleaned only when it is mostly dead. When a
//! segment is freed, the tombstones that waited for it are taken off the counts of the segments that hold them.
//!
//! The counts are an estimate, for choosing segments to clean. A tombstone whose source is gone is taken for dead,
//! although it may name a lower segment that still counts. Cleaning checks each tombstone that it meets. A tombstone
//! that it moves names the remaining segments only, so that it is counted again from then on.
//!
//! Invariants:
//! - a segment's counts are exactly its tombstones whose source is in memory, by source;
//! - `tombstone_bytes` is their sum, and `live_bytes` and `live_count` contain it.
//!
//! Not here: choosing segments (`choose`), moving tombstones (`moving`). Catalogue: C4, C5, C6.

use crate::log::Log;
use crate::segment::Slot;
use crate::{Entry, EntryReader, OlderList, Reference, SegmentInfo, Tombstone};
use ramhold_base::SegmentId;
use std::collections::BTreeMap;

/// The tombstones in one segment, counted by source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TombstoneCounts {
    /// Sorted by source; no count is 0. There are at most as many sources as tombstones, and usually far fewer.
    waiting: Vec<Waiting>,
}

/// Tombstones of one segment that wait for the same source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Waiting {
    source: SegmentId,
    bytes: u32,
    count: u32,
}

impl TombstoneCounts {
    fn add(&mut self, source: SegmentId, bytes: u32) {
        match self.find(source) {
            Ok(at) => {
                self.waiting[at].bytes += bytes;
                self.waiting[at].count += 1;
            }
            Err(at) => self.waiting.insert(at, Waiting { source, bytes, count: 1 }),
        }
    }

    fn take_off(&mut self, source: SegmentId, bytes: u32) {
        let at = self.find(source).expect("a counted tombstone is taken off once");
        self.waiting[at].bytes -= bytes;
        self.waiting[at].count -= 1;
        if self.waiting[at].count == 0 {
            self.waiting.remove(at);
        }
    }

    fn take_source(&mut self, source: SegmentId) -> Option<Waiting> {
        self.find(source).ok().map(|at| self.waiting.remove(at))
    }

    pub(crate) fn count(&self) -> u32 {
        self.waiting.iter().map(|waiting| waiting.count).sum()
    }

    fn find(&self, source: SegmentId) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&source, |waiting| waiting.source)
    }
}

impl Log {
    /// Whether a recovery could still read this segment of this log: it is in memory, entered or not.
    pub(crate) fn counts(&self, segment: SegmentId) -> bool {
        self.memory.segments.slot(segment).is_some()
    }

    /// Whether a tombstone that names these segments must be kept.
    pub(crate) fn is_needed(&self, segments: &OlderList) -> bool {
        segments.iter().any(|segment| self.counts(segment))
    }

    /// Counts a tombstone that was appended to a segment.
    pub(crate) fn count_tombstone(&mut self, slot: Slot, tombstone: &Tombstone<'_>) {
        let Some(source) = tombstone.segments.highest() else { return };
        assert!(self.counts(source), "a new tombstone names segments that count");
        let bytes = tombstone.entry_bytes() as u32;
        let segment = self.memory.segments.at_mut(slot);
        segment.live_bytes += bytes;
        segment.live_count += 1;
        segment.tombstone_bytes += bytes;
        segment.tombstones.add(source, bytes);
        self.pinned_by(source).pinned_bytes += u64::from(bytes);
    }

    /// Takes one tombstone off the counts of its segment, if it is counted there.
    pub(crate) fn discount_tombstone(&mut self, slot: Slot, at: Reference) {
        let bytes = self.memory.record(at).entry_bytes;
        let source = self.memory.older(at).highest().filter(|source| self.counts(*source));
        if let Some(source) = source {
            let segment = self.memory.segments.at_mut(slot);
            segment.live_bytes -= bytes;
            segment.live_count -= 1;
            segment.tombstone_bytes -= bytes;
            segment.tombstones.take_off(source, bytes);
            self.pinned_by(source).pinned_bytes -= u64::from(bytes);
        }
    }

    fn pinned_by(&mut self, source: SegmentId) -> &mut SegmentInfo {
        let slot = self.memory.segments.slot(source).expect("the caller has seen that it counts");
        self.memory.segments.at_mut(slot)
    }

    /// Updates the counts after a segment was freed: takes the tombstones that waited for it off all counts, and its
    /// own tombstones off the `pinned_bytes` of their sources. Looks at every segment, and at no entry.
    pub(crate) fn forget_tombstones_of(&mut self, gone: &SegmentInfo) {
        let source = gone.id;
        for waiting in &gone.tombstones.waiting {
            if self.counts(waiting.source) {
                self.pinned_by(waiting.source).pinned_bytes -= u64::from(waiting.bytes);
            }
        }
        for segment in self.memory.segments.iter_mut() {
            if let Some(Waiting { bytes, count, .. }) = segment.tombstones.take_source(source) {
                segment.live_bytes -= bytes;
                segment.live_count -= count;
                segment.tombstone_bytes -= bytes;
                segment.doubtful_bytes += bytes;
            }
        }
    }

    /// Panics when a segment's counts differ from its entries. `object_counts` are the numbers of objects in the index
    /// and of results, by segment. Reads the whole log.
    pub(crate) fn check_tombstones(&self, object_counts: &BTreeMap<Slot, u32>) {
        let mut bytes = Vec::new();
        let mut pinned = BTreeMap::<SegmentId, u64>::new();
        for (slot, segment) in self.memory.segments.iter_slots() {
            bytes.clear();
            self.memory.pieces(slot, 0, segment.len_bytes).append_to(&mut bytes);
            let mut counts = TombstoneCounts::default();
            // A tombstone that a pass has moved is counted in its new segment, though its bytes still stand in the
            // source. A lost tombstone leaves the counts with its segment.
            if (segment.in_pass && !segment.is_image) || segment.has_losses {
                counts = segment.tombstones.clone();
                bytes.clear();
                for Waiting { source, bytes, .. } in &counts.waiting {
                    *pinned.entry(*source).or_default() += u64::from(*bytes);
                }
            }
            for entry in EntryReader::new(&bytes) {
                let (_, entry) = entry.expect("our own memory holds whole entries");
                if let Entry::Tombstone(tombstone) = entry
                    && let Some(source) = tombstone.segments.highest()
                    && self.counts(source)
                {
                    assert!(self.is_needed(&tombstone.segments));
                    counts.add(source, tombstone.entry_bytes() as u32);
                    *pinned.entry(source).or_default() += tombstone.entry_bytes() as u64;
                }
            }
            assert_eq!(segment.tombstones, counts);
            let sum = |of: fn(&Waiting) -> u32| counts.waiting.iter().map(of).sum::<u32>();
            assert_eq!(segment.tombstone_bytes, sum(|waiting| waiting.bytes));
            let object_count = object_counts.get(&slot).copied().unwrap_or_default();
            assert_eq!(segment.live_count, object_count + sum(|waiting| waiting.count));
        }
        for segment in self.memory.segments.iter().filter(|segment| !segment.is_image) {
            assert_eq!(segment.pinned_bytes, pinned.get(&segment.id).copied().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;

    // C5
    #[test]
    fn counts_agree_with_a_map() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut counts = TombstoneCounts::default();
            let mut model = BTreeMap::<SegmentId, Vec<u32>>::new();
            for _ in 0..300 {
                let source = SegmentId(rng.between(1, 12));
                match rng.below(10) {
                    0 => {
                        let taken = counts.take_source(source).map(|it| (it.bytes, it.count));
                        let known = model.remove(&source);
                        assert_eq!(taken, known.map(|it| (it.iter().sum(), it.len() as u32)), "seed {seed}");
                    }
                    1..=3 => {
                        if let Some(list) = model.get_mut(&source) {
                            counts.take_off(source, list.pop().expect("empty lists are taken out"));
                            model.retain(|_, list| !list.is_empty());
                        }
                    }
                    _ => {
                        let bytes = rng.between(20, 100) as u32;
                        counts.add(source, bytes);
                        model.entry(source).or_default().push(bytes);
                    }
                }
                let sums = model.iter().map(|(source, list)| (*source, list.iter().sum(), list.len() as u32));
                assert!(counts.waiting.iter().map(|it| (it.source, it.bytes, it.count)).eq(sums));
            }
        }
    }
}
