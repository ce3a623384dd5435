//! Walks slowly over the closed segments and verifies every entry, so that damage is found before the entry is read.
//!
//! Dead entries are verified like live ones, because the next entry can only be found behind an intact one. A step
//! stops at the first damage of a segment, and the next step goes on with the next segment. That is enough: a repair
//! verifies the whole segment, and the next round comes to it again.
//!
//! Not here: the treatment of damage (`repair`, `loss`), pace (master). Catalogue: C8.

use crate::log::Log;
use crate::memory::Memory;
use crate::segment::{SegmentInfo, Slot};
use ramhold_base::SegmentId;

/// How far a round has come. Begin with the default one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubCursor {
    segment: SegmentId,
    offset: u32,
    /// Length and checksum of the segment when the offset was an entry's: a compaction changes both.
    seen: (u32, u32),
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scrubbed {
    pub bytes: u64,
    /// The segment and the offset of a damaged entry, if one was found.
    pub damaged: Option<(SegmentId, u32)>,
    /// Every segment has been verified, and the cursor is at the begin again.
    pub is_round_over: bool,
}

impl Log {
    /// Verifies entries until `bytes` bytes are verified, an entry is damaged, or the round is over.
    pub fn scrub_step(&self, cursor: &mut ScrubCursor, bytes: u64) -> Scrubbed {
        let mut scrubbed = Scrubbed::default();
        loop {
            let Some((slot, segment)) = self.closed_from(cursor.segment) else {
                *cursor = ScrubCursor::default();
                scrubbed.is_round_over = true;
                return scrubbed;
            };
            let seen = (segment.len_bytes, segment.crc);
            if (cursor.segment, cursor.seen) != (segment.id, seen) {
                *cursor = ScrubCursor { segment: segment.id, offset: 0, seen };
            }
            while cursor.offset < segment.len_bytes {
                if scrubbed.bytes >= bytes {
                    return scrubbed;
                }
                let Some((_, entry_bytes)) = self.memory.intact_entry(slot, cursor.offset) else {
                    scrubbed.damaged = Some((segment.id, cursor.offset));
                    *cursor = ScrubCursor { segment: segment.id.next(), ..ScrubCursor::default() };
                    return scrubbed;
                };
                cursor.offset += entry_bytes;
                scrubbed.bytes += u64::from(entry_bytes);
            }
            *cursor = ScrubCursor { segment: segment.id.next(), ..ScrubCursor::default() };
        }
    }

    /// The closed segment with the lowest id from `id` on.
    fn closed_from(&self, id: SegmentId) -> Option<(Slot, &SegmentInfo)> {
        let closed = self.memory.segments.iter_slots().filter(|(_, s)| s.closed && !s.is_image && s.id >= id);
        closed.min_by_key(|(_, segment)| segment.id)
    }

    /// The offset of the first damaged entry of a segment in memory, or of the image that is made of it. Reads all of
    /// the segment.
    pub fn damage_in(&self, id: SegmentId) -> Option<u32> {
        self.slots_of(id).into_iter().find_map(|slot| {
            let segment = self.memory.segments.at(slot);
            if self.memory.is_whole(slot) { None } else { self.damage_before(slot, segment.len_bytes) }
        })
    }

    /// Flips one bit of a segment in memory, as a cosmic ray would. For tests only.
    #[doc(hidden)]
    pub fn flip_bit(&mut self, id: SegmentId, offset: u32, bit: u8) {
        let slot = self.memory.segments.slot(id).expect("only segments in memory can be damaged");
        let byte = self.memory.pieces(slot, offset, offset + 1).to_vec()[0];
        self.memory.overwrite(slot, offset, &[byte ^ 1 << bit]);
    }

    /// The offset of the first damaged entry before `end`.
    pub(crate) fn damage_before(&self, slot: Slot, end: u32) -> Option<u32> {
        let mut offset = 0;
        while offset < end {
            match self.memory.intact_entry(slot, offset) {
                Some((_, bytes)) => offset += bytes,
                None => return Some(offset),
            }
        }
        None
    }

    /// The slots of the segment and of the image that is made of it.
    pub(crate) fn slots_of(&self, id: SegmentId) -> Vec<Slot> {
        let all = self.memory.segments.iter_slots().filter(|(_, segment)| segment.id == id);
        all.map(|(slot, _)| slot).collect()
    }
}

impl Memory {
    /// Whether a segment's bytes are those that were appended.
    pub(crate) fn is_whole(&self, slot: Slot) -> bool {
        let segment = self.segments.at(slot);
        let pieces = self.pieces(slot, 0, segment.len_bytes);
        pieces.into_iter().fold(0, ramhold_base::checksum::crc_append) == segment.crc
    }
}
