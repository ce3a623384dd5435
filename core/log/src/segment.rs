//! The shard's record of each of its segments, and how segments are found by id.
//!
//! Segments stand in dense slots, so that a seglet can name its segment in 32 bits.

use crate::SideId;
use crate::tombstones::TombstoneCounts;
use ramhold_base::map::FastMap;
use ramhold_base::{ClusterTime, Position, SegmentId, StreamId};

/// A segment of the shard's log.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    pub id: SegmentId,
    pub stream: StreamId,
    /// The side log that the segment belongs to, until the side log is entered into the stream.
    pub side: Option<SideId>,
    pub created: ClusterTime,
    /// Nothing is appended to the segment any more.
    pub closed: bool,
    /// Bytes appended.
    pub len_bytes: u32,
    /// CRC32C of all bytes appended.
    pub crc: u32,
    /// Bytes of the opening: the header, and in a head the digest, the safe version and the statistics.
    pub opening_bytes: u32,
    /// Entries of every kind. In a compacted segment the entries of the opening are not counted.
    pub entry_count: u32,
    /// Bytes of live objects, of results that are not acknowledged, and of tombstones while the highest segment that
    /// they name counts. The number is an estimate: it is a little too low when only a lower segment still counts.
    pub live_bytes: u32,
    /// How many entries `live_bytes` counts.
    pub live_count: u32,
    /// The part of `live_bytes` that is tombstones.
    pub tombstone_bytes: u32,
    /// The part of `live_bytes` that is results.
    pub result_bytes: u32,
    pub(crate) tombstones: TombstoneCounts,
    /// The highest time of the stamps of its quorum records; 0 if it has none.
    pub stamp_newest: u64,
    /// Entries that the index refers to. The segment cannot be freed before this is 0.
    pub indexed_count: u32,
    /// A cleaning pass works on the segment.
    pub in_pass: bool,
    /// The segment was compacted: its replicas may be longer than the segment in memory.
    pub is_compacted: bool,
    /// A replica may be made from this segment only when the stream is on the devices up to this position. Entries that
    /// compaction left out are dead because of something before this position.
    pub copy_after: Position,
    /// The compacted copy of the segment with the same id, until it takes that segment's place.
    pub is_image: bool,
    /// A source of a pass that is entered: no later digest names the segment.
    pub is_leaving: bool,
    /// Made by a combined pass, or by a recovery while the dead log stays: everything in it was durable before.
    pub is_survivor: bool,
    /// The segment holds copies that do not count yet, and must not be cleaned.
    pub is_kept: bool,
    /// Damaged entries without any replica were taken out: `tombstones` may count some that are gone.
    pub has_losses: bool,
    /// Bytes of this segment's tombstones that are taken for dead, although a lower segment that they name may still
    /// need them.
    pub doubtful_bytes: u32,
    /// Bytes of needed tombstones, in all segments, whose highest named segment is this one.
    pub pinned_bytes: u64,
    pub(crate) seglets: Vec<u32>,
}

/// The properties that a segment is made with.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub(crate) id: SegmentId,
    pub(crate) stream: StreamId,
    pub(crate) side: Option<SideId>,
    pub(crate) created: ClusterTime,
}

impl SegmentInfo {
    pub(crate) fn new(new: NewSegment, seglet_count_max: u32) -> SegmentInfo {
        let NewSegment { id, stream, side, created } = new;
        SegmentInfo {
            id,
            stream,
            side,
            created,
            closed: false,
            len_bytes: 0,
            crc: 0,
            opening_bytes: 0,
            entry_count: 0,
            live_bytes: 0,
            live_count: 0,
            tombstone_bytes: 0,
            result_bytes: 0,
            tombstones: TombstoneCounts::default(),
            stamp_newest: 0,
            indexed_count: 0,
            in_pass: false,
            is_compacted: false,
            copy_after: Position::default(),
            is_image: false,
            is_leaving: false,
            is_survivor: false,
            is_kept: false,
            has_losses: false,
            doubtful_bytes: 0,
            pinned_bytes: 0,
            // The full capacity now, so that appending never allocates.
            seglets: Vec::with_capacity(seglet_count_max as usize),
        }
    }

    /// Seglets that the segment takes in memory.
    pub fn seglet_count(&self) -> u32 {
        self.seglets.len() as u32
    }
}

/// A segment's place in the table; used again after the segment is freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Slot(pub(crate) u32);

/// All segments of the shard.
#[derive(Default)]
pub(crate) struct Segments {
    slots: Vec<Option<SegmentInfo>>,
    free: Vec<Slot>,
    by_id: FastMap<SegmentId, Slot>,
}

impl Segments {
    pub(crate) fn insert(&mut self, segment: SegmentInfo) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Slot(self.slots.len() as u32 - 1)
        });
        let before = self.by_id.insert(segment.id, slot);
        assert!(before.is_none(), "segment ids are given out once");
        assert!(self.slots[slot.0 as usize].replace(segment).is_none());
        slot
    }

    /// Adds an image. Its id still leads to the segment that it is an image of.
    pub(crate) fn insert_image(&mut self, segment: SegmentInfo) -> Slot {
        let id = segment.id;
        let before = self.by_id.remove(&id).expect("an image has a segment");
        let image = self.insert(segment);
        self.by_id.insert(id, before);
        image
    }

    /// Makes the segment's id lead to its image, and takes the segment out.
    pub(crate) fn swap_image(&mut self, segment: Slot, image: Slot) -> SegmentInfo {
        let before = self.remove(segment);
        let after = self.at_mut(image);
        assert!(after.is_image && after.id == before.id);
        after.is_image = false;
        after.is_compacted = true;
        after.pinned_bytes = before.pinned_bytes;
        self.by_id.insert(before.id, image);
        before
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> SegmentInfo {
        let segment =
            self.slots[slot.0 as usize].take().expect("a slot is held until its segment is removed");
        self.by_id.remove(&segment.id);
        self.free.push(slot);
        segment
    }

    pub(crate) fn slot(&self, id: SegmentId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn at(&self, slot: Slot) -> &SegmentInfo {
        self.slots[slot.0 as usize].as_ref().expect("a slot is held until its segment is removed")
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> &mut SegmentInfo {
        self.slots[slot.0 as usize].as_mut().expect("a slot is held until its segment is removed")
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SegmentInfo> {
        self.slots.iter_mut().flatten()
    }

    /// The order has no meaning.
    pub(crate) fn iter_slots(&self) -> impl Iterator<Item = (Slot, &SegmentInfo)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, segment)| Some((Slot(slot as u32), segment.as_ref()?)))
    }

    /// The order has no meaning.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.slots.iter().flatten()
    }
}
