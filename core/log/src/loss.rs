//! Gives up the damaged entries of a segment that has no replicas.
//!
//! A walk over the index finds the live entries of the segment. Damaged ones leave the index, and the bits of their
//! hashes that the index knew are kept. So a look-up of such a key is refused instead of answered with "not found",
//! until the key is written or removed. Then the damaged stretches are overwritten with tombstones that name nothing,
//! so that later walks over the segment find their way.
//!
//! Invariants:
//! - an intact entry that the index refers to stays;
//! - afterwards the segment is whole, and its counts are exact but for its tombstones.
//!
//! The statistics of the tablet go on counting a lost object, because its tablet is unknown.
//! Rules: docs/protocols/cleaning.md. Catalogue: C8.

use crate::index::Cursor;
use crate::log::Log;
use crate::moving::HashOf;
use crate::segment::Slot;
use crate::{Entry, OlderList, Reference, Tombstone};
use ramhold_base::{KeyHash, SegmentId, TableId, Version};
use std::ops::ControlFlow;

/// The longest and the shortest tombstone that overwrites damage, in bytes. Every gap of at least the shortest can be
/// filled with such tombstones. No record is shorter than the shortest.
const FILLER_BYTES_MAX: u32 = 40_000;
const FILLER_BYTES_MIN: u32 = 20;

/// The state of giving up a segment's damaged entries.
#[derive(Clone, Debug)]
pub struct Lost {
    segment: SegmentId,
    cursor: Option<Cursor>,
    /// Offsets of the intact entries to which the index referred.
    intact: Vec<u32>,
    /// Objects that have left the index.
    pub objects: u64,
}

impl Lost {
    pub fn new(segment: SegmentId) -> Lost {
        Lost { segment, cursor: Some(Cursor::default()), intact: Vec::new(), objects: 0 }
    }
}

impl Log {
    /// Whether a segment's damaged entries can be given up now: it is closed, and in no side log.
    pub fn may_lose(&self, id: SegmentId) -> bool {
        self.segment(id).is_some_and(|segment| segment.closed && segment.side.is_none())
    }

    /// Goes on by `bucket_count` buckets of the index. Returns whether everything is done. `hash_of` is the placement
    /// hash of a table's key.
    pub fn lose_step(&mut self, lost: &mut Lost, bucket_count: u64, hash_of: HashOf<'_>) -> bool {
        let Some(slot) = self.memory.segments.slot(lost.segment) else { return true };
        let Some(cursor) = lost.cursor else { return true };
        lost.cursor = self.sweep(cursor, bucket_count, |log, bucket, _, at| {
            let (owner, offset) = log.memory.locate(at);
            if owner != slot {
                return ControlFlow::Continue(());
            }
            if log.memory.intact_record(at).is_some() {
                lost.intact.push(offset);
            } else {
                let bits = log.index.known_bits_of(bucket, at);
                log.lost.insert(bits);
                log.index.remove_from(bucket, at);
                lost.objects += 1;
            }
            ControlFlow::Continue(())
        });
        if lost.cursor.is_some() {
            return false;
        }
        lost.intact.sort_unstable();
        lost.intact.dedup();
        if lost.intact.iter().any(|offset| self.memory.intact_entry(slot, *offset).is_none()) {
            // An entry was damaged after the walk saw it.
            *lost = Lost { objects: lost.objects, ..Lost::new(lost.segment) };
            return false;
        }
        self.overwrite_damage(slot, &lost.intact);
        self.count_again(slot, &lost.intact, hash_of);
        true
    }

    /// Whether a key may have been lost, by its place in the index.
    #[inline]
    pub(crate) fn is_lost(&self, place: u64) -> bool {
        !self.lost.is_empty() && self.lost.contains(&self.index.known_bits(place))
    }

    /// Notes that a key has a known state again, even if an entry of it was lost.
    #[inline]
    pub(crate) fn forgive(&mut self, place: u64) {
        if !self.lost.is_empty() {
            self.lost.remove(&self.index.known_bits(place));
        }
    }

    /// Notes that a key was removed that may be lost according to `lookup`. From now on the key is absent.
    pub fn forgive_key(&mut self, table: TableId, hash: KeyHash) {
        self.forgive(self.place(table, hash));
    }

    /// Overwrites the bytes from each damaged entry to the next live one with tombstones that name nothing.
    fn overwrite_damage(&mut self, slot: Slot, intact: &[u32]) {
        let segment = self.memory.segments.at(slot);
        let (end, opening_bytes) = (segment.len_bytes, segment.opening_bytes);
        let mut offset = 0;
        while offset < end {
            if let Some((_, bytes)) = self.memory.intact_entry(slot, offset) {
                offset += bytes;
                continue;
            }
            // The opening is short, and only backups and recoveries read it, which this stream does not have: all of it
            // is overwritten.
            let (from, to) = if offset < opening_bytes {
                (0, opening_bytes)
            } else {
                (offset, intact.iter().copied().find(|start| *start > offset).unwrap_or(end))
            };
            self.fill(slot, from, to);
            offset = to;
        }
        let pieces = self.memory.pieces(slot, 0, end);
        let crc = pieces.into_iter().fold(0, ramhold_base::checksum::crc_append);
        let segment = self.memory.segments.at_mut(slot);
        segment.crc = crc;
        segment.has_losses = true;
    }

    fn fill(&mut self, slot: Slot, mut from: u32, to: u32) {
        while from < to {
            let gap = to - from;
            assert!(gap >= FILLER_BYTES_MIN, "no record is shorter than a tombstone without a key");
            let bytes = if gap < FILLER_BYTES_MAX + FILLER_BYTES_MIN { gap } else { FILLER_BYTES_MAX };
            let key = vec![0; (bytes - FILLER_BYTES_MIN) as usize];
            let (table, version, segments) = (TableId(0), Version(1), OlderList::NONE);
            let mut encoded = Vec::with_capacity(bytes as usize);
            Entry::Tombstone(Tombstone { table, version, time: 0, segments, key: &key }).encode(&mut encoded);
            self.memory.overwrite(slot, from, &encoded);
            from += bytes;
        }
    }

    /// Counts the entries of a segment to which the index refers. Some may have died or moved since the walk saw them.
    fn count_again(&mut self, slot: Slot, intact: &[u32], hash_of: HashOf<'_>) {
        let (mut live_bytes, mut live_count) = (0, 0);
        for offset in intact {
            let at: Reference = self.memory.reference(slot, *offset);
            let record = self.memory.record(at);
            let hash = hash_of(record.table, &record.key.to_vec());
            if self.index.holds(self.place(record.table, hash), at) {
                live_bytes += record.entry_bytes;
                live_count += 1;
            }
        }
        let segment = self.memory.segments.at_mut(slot);
        assert!(segment.result_bytes == 0, "what has no replicas has no results in the log");
        segment.live_bytes = segment.tombstone_bytes + live_bytes;
        segment.live_count = segment.tombstones.count() + live_count;
        segment.indexed_count = live_count;
    }
}
