//! Segments in memory: bytes in seglets of one region, and entries found by their physical place.
//!
//! The region is passed in as a whole and never grows. A segment takes seglets one at a time as it fills, and gives
//! back whole ones. Entries may cross the boundaries of seglets. The seglets of a segment need not be adjacent.
//!
//! Invariants:
//! - a seglet is free or belongs to exactly one segment, at one place of its chain;
//! - bytes before a segment's length never change while the segment is in memory, except that `repair` restores damaged
//!   bytes and `loss` overwrites them;
//! - a segment's checksum covers exactly its bytes up to its length.
//!
//! Not here: the relations of entries to each other (`log`), which of them are live.
//! Catalogue: C1.

use crate::entry::{Entry, HEADER_BYTES, RECORD_PREFIX_BYTES_MAX, RESULT_BYTES_MAX, RecordPrefix, Word};
use crate::free::FreeSeglets;
use crate::prefetch::fetch_all;
use crate::segment::{NewSegment, SegmentInfo, Segments, Slot};
use crate::{AppendRefusal, Geometry, Kind, OlderList, Pieces, RpcResult};
use ramhold_base::checksum::crc_append;
use ramhold_base::past_caches::copy_past_caches;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Position, Stamp, TableId, Version};

/// The physical place of an entry in the shard's region. Valid while the entry's segment is in memory and not cleaned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reference(pub(crate) u64);

/// An object, a tombstone or a quorum record in this log's memory.
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) table: TableId,
    /// For a quorum record: the time of its stamp.
    pub(crate) version: Version,
    pub(crate) time: u32,
    pub(crate) expires: Option<ClusterTime>,
    /// Whether the record names segments. `Memory::older` reads them separately, so that a look-up does not pay for
    /// them.
    pub(crate) has_older: bool,
    pub(crate) entry_bytes: u32,
    pub(crate) key: Pieces<'a>,
    pub(crate) value: Pieces<'a>,
}

/// The number of seglets that an append must leave free if it takes a seglet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Floor(pub(crate) u32);

#[derive(Clone, Copy)]
struct Seglet {
    owner: Slot,
    /// Its index in the owner's chain.
    ordinal: u32,
}

/// The unit in which the system provides memory.
const PAGE_BYTES: usize = 4096;
/// So many bytes of an entry are fetched ahead. The processor fetches the following ones by itself.
const FETCHED_BYTES: usize = 192;
const NOBODY: Slot = Slot(u32::MAX);

pub(crate) struct Memory {
    region: Vec<u8>,
    segment_bytes: u32,
    seglet_shift: u32,
    seglets: Vec<Seglet>,
    free: FreeSeglets,
    /// Free seglets that are held back for segments that are still to come.
    promised: u32,
    /// The end of the part of the region that `touch_ahead` has written to, or that it left out as given out already.
    touched: usize,
    pub(crate) segments: Segments,
}

impl Memory {
    pub(crate) fn new(geometry: Geometry, region: Vec<u8>) -> Memory {
        let seglet_count = u32::try_from(region.len() as u64 / u64::from(geometry.seglet_bytes))
            .expect("the configuration bounds the number of seglets");
        Memory {
            region,
            segment_bytes: geometry.segment_bytes,
            seglet_shift: geometry.seglet_bytes.trailing_zeros(),
            seglets: vec![Seglet { owner: NOBODY, ordinal: 0 }; seglet_count as usize],
            free: FreeSeglets::new(seglet_count, geometry.seglets_per_segment()),
            promised: 0,
            touched: 0,
            segments: Segments::default(),
        }
    }

    pub(crate) fn into_region(self) -> Vec<u8> {
        self.region
    }

    /// The untouched bytes among the first `ahead` bytes after all seglets that were ever given out.
    pub(crate) fn untouched_bytes(&self, ahead: u64) -> u64 {
        let untaken = u64::from(self.free.untaken()) << self.seglet_shift;
        let end = untaken.saturating_add(ahead).min(self.region.len() as u64);
        end.saturating_sub(untaken.max(self.touched as u64))
    }

    /// Writes to each page of the next `bytes` untouched bytes, so that the system has provided memory for them before
    /// they are needed.
    pub(crate) fn touch_ahead(&mut self, bytes: u64) {
        let untaken = (self.free.untaken() as usize) << self.seglet_shift;
        let start = self.touched.max(untaken);
        let end = self.region.len().min(start + bytes as usize);
        // No seglet was given out from here on, so the bytes have no meaning.
        self.region[start..end].iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 0);
        self.touched = end;
    }

    /// Free seglets that nothing is promised to.
    pub(crate) fn free_count(&self) -> u32 {
        self.free.count() - self.promised
    }

    /// Holds so many seglets back. False: they are not free.
    pub(crate) fn promise(&mut self, seglet_count: u32) -> bool {
        let is_free = self.free_count() >= seglet_count;
        self.promised += if is_free { seglet_count } else { 0 };
        is_free
    }

    /// Seglets that were held back may be taken.
    pub(crate) fn keep_promise(&mut self, seglet_count: u32) {
        self.promised -= seglet_count;
    }

    pub(crate) fn seglet_count(&self) -> u32 {
        self.seglets.len() as u32
    }

    fn seglet_bytes(&self) -> u32 {
        1 << self.seglet_shift
    }

    /// Makes an empty segment, if there is room for its first `bytes`.
    pub(crate) fn create(
        &mut self,
        new: NewSegment,
        bytes: u32,
        floor: Floor,
    ) -> Result<Slot, AppendRefusal> {
        assert!(bytes <= self.segment_bytes);
        if !self.may_take(bytes.div_ceil(self.seglet_bytes()), floor) {
            return Err(AppendRefusal::OutOfMemory);
        }
        let seglet_count_max = self.segment_bytes >> self.seglet_shift;
        let slot = self.segments.insert(SegmentInfo::new(new, seglet_count_max));
        self.reserve(slot, bytes, floor)?;
        Ok(slot)
    }

    /// Makes room for `bytes` more in the segment. Answers `HeadFull` only if there is memory for a new head.
    pub(crate) fn reserve(&mut self, slot: Slot, bytes: u32, floor: Floor) -> Result<(), AppendRefusal> {
        let segment = self.segments.at(slot);
        assert!(!segment.closed);
        let end = u64::from(segment.len_bytes) + u64::from(bytes);
        if end > u64::from(self.segment_bytes) {
            let refusal =
                if self.may_take(1, floor) { AppendRefusal::HeadFull } else { AppendRefusal::OutOfMemory };
            return Err(refusal);
        }
        let wanted = (end as u32).div_ceil(self.seglet_bytes()).saturating_sub(segment.seglet_count());
        if wanted > 0 && !self.may_take(wanted, floor) {
            return Err(AppendRefusal::OutOfMemory);
        }
        let segment = self.segments.at_mut(slot);
        for _ in 0..wanted {
            let seglet = self.free.take(segment.seglets.last().copied()).expect("counted before");
            self.seglets[seglet as usize] = Seglet { owner: slot, ordinal: segment.seglet_count() };
            segment.seglets.push(seglet);
        }
        Ok(())
    }

    /// Gives back seglets that were reserved and not used.
    pub(crate) fn unreserve(&mut self, slot: Slot) {
        let segment = self.segments.at_mut(slot);
        let used = segment.len_bytes.div_ceil(1 << self.seglet_shift);
        for seglet in segment.seglets.drain(used as usize..) {
            self.seglets[seglet as usize] = Seglet { owner: NOBODY, ordinal: 0 };
            self.free.give_back(seglet);
        }
    }

    fn may_take(&self, seglet_count: u32, floor: Floor) -> bool {
        u64::from(self.free_count()) >= u64::from(seglet_count) + u64::from(floor.0)
    }

    /// Appends an entry for which room was made. Returns its offset in the segment.
    #[inline]
    pub(crate) fn append(&mut self, slot: Slot, entry: &Entry<'_>) -> u32 {
        self.append_runs(slot, entry.parts().runs())
    }

    #[inline]
    fn append_runs<const N: usize>(&mut self, slot: Slot, runs: [&[u8]; N]) -> u32 {
        let start = self.segments.at(slot).len_bytes;
        for run in runs.into_iter().filter(|run| !run.is_empty()) {
            self.put(slot, run);
            let segment = self.segments.at_mut(slot);
            segment.crc = crc_append(segment.crc, run);
        }
        self.segments.at_mut(slot).entry_count += 1;
        start
    }

    /// Appends whole entries for which room was made. `crc` is the checksum that the segment then has. The copy
    /// bypasses the caches, because the entries will not be read soon.
    pub(crate) fn append_checked(&mut self, slot: Slot, entries: &[u8], entry_count: u32, crc: u32) {
        self.put_by(slot, entries, copy_past_caches);
        let segment = self.segments.at_mut(slot);
        segment.entry_count += entry_count;
        segment.crc = crc;
    }

    /// Appends bytes for which room was made, without counting an entry or updating the checksum.
    #[inline]
    fn put(&mut self, slot: Slot, bytes: &[u8]) {
        self.put_by(slot, bytes, <[u8]>::copy_from_slice);
    }

    #[inline]
    fn put_by(&mut self, slot: Slot, bytes: &[u8], copy: impl Fn(&mut [u8], &[u8])) {
        let segment = self.segments.at_mut(slot);
        let mut rest = bytes;
        while !rest.is_empty() {
            let ordinal = (segment.len_bytes >> self.seglet_shift) as usize;
            let within = segment.len_bytes & ((1 << self.seglet_shift) - 1);
            let room = (1 << self.seglet_shift) - within;
            let (now, later) = rest.split_at(rest.len().min(room as usize));
            let at = (u64::from(segment.seglets[ordinal]) << self.seglet_shift) + u64::from(within);
            copy(&mut self.region[at as usize..at as usize + now.len()], now);
            segment.len_bytes += now.len() as u32;
            rest = later;
        }
    }

    /// The bytes for which a segment has room.
    pub(crate) fn room(&self, slot: Slot) -> u32 {
        let segment = self.segments.at(slot);
        (segment.seglet_count() << self.seglet_shift).min(self.segment_bytes) - segment.len_bytes
    }

    /// Appends bytes `offset..offset + bytes` of another segment, for which room was made. They are `entry_count` whole
    /// entries. Returns the offset at which they start.
    pub(crate) fn append_copy(
        &mut self,
        to: Slot,
        from: Slot,
        offset: u32,
        bytes: u32,
        entry_count: u32,
    ) -> u32 {
        let mask = self.seglet_bytes() - 1;
        let start = self.segments.at(to).len_bytes;
        let (mut source, mut rest) = (offset, bytes);
        while rest > 0 {
            let src = self.reference(from, source).0 as usize;
            let segment = self.segments.at_mut(to);
            let within = segment.len_bytes & mask;
            let seglet = segment.seglets[(segment.len_bytes >> self.seglet_shift) as usize];
            let at = ((u64::from(seglet) << self.seglet_shift) + u64::from(within)) as usize;
            let run = rest.min(mask + 1 - within).min(mask + 1 - (source & mask));
            self.region.copy_within(src..src + run as usize, at);
            segment.crc = crc_append(segment.crc, &self.region[at..at + run as usize]);
            segment.len_bytes += run;
            source += run;
            rest -= run;
        }
        let segment = self.segments.at_mut(to);
        segment.entry_count += entry_count;
        start
    }

    /// Makes an empty image of a segment, with room for `bytes`, found by references only.
    pub(crate) fn create_image(&mut self, slot: Slot, bytes: u32, floor: Floor) -> Option<Slot> {
        if !self.may_take(bytes.div_ceil(self.seglet_bytes()), floor) {
            return None;
        }
        let of = self.segments.at(slot);
        let new = NewSegment { id: of.id, stream: of.stream, side: None, created: of.created };
        let mut image = SegmentInfo::new(new, self.segment_bytes >> self.seglet_shift);
        image.is_image = true;
        image.is_survivor = of.is_survivor;
        image.in_pass = true;
        image.opening_bytes = bytes;
        let image = self.segments.insert_image(image);
        self.reserve(image, bytes, floor).expect("counted before");
        Some(image)
    }

    /// Makes the segment's id lead to its image, and gives the segment's seglets back.
    pub(crate) fn swap_image(&mut self, segment: Slot, image: Slot) {
        let before = self.segments.swap_image(segment, image);
        self.give_back(&before);
    }

    /// The kind and length in the header of the entry at an offset, not verified. `None` if the kind is unknown or the
    /// length exceeds the segment.
    #[inline]
    pub(crate) fn entry_head(&self, slot: Slot, offset: u32) -> Option<(Kind, u32)> {
        let room = self.segments.at(slot).len_bytes.checked_sub(offset)?;
        if (room as usize) < HEADER_BYTES {
            return None;
        }
        let at = self.reference(slot, offset);
        let word = match self.rest_of_seglet(at).first_chunk::<HEADER_BYTES>() {
            Some(header) => word_of(header),
            None => {
                let mut header = [0; HEADER_BYTES];
                copy_pieces(&self.pieces(slot, offset, offset + HEADER_BYTES as u32), &mut header);
                word_of(&header)
            }
        };
        let bytes = word.entry_bytes() as u32;
        (bytes <= room).then_some((word.kind()?, bytes))
    }

    /// Whether the checksum of an entry holds. The entry takes `bytes` bytes of the segment from `offset` on.
    #[inline]
    pub(crate) fn is_sealed(&self, slot: Slot, offset: u32, bytes: u32) -> bool {
        if let Some(entry) = self.rest_of_seglet(self.reference(slot, offset)).get(..bytes as usize) {
            return is_sealed(entry);
        }
        let mut stored = [0; 4];
        copy_pieces(&self.pieces(slot, offset, offset + 4), &mut stored);
        let crc = self.pieces(slot, offset + 4, offset + bytes).into_iter().fold(0, crc_append);
        crc == u32::from_le_bytes(stored)
    }

    /// The kind and length of the entry at an offset, if its checksum holds.
    pub(crate) fn intact_entry(&self, slot: Slot, offset: u32) -> Option<(Kind, u32)> {
        self.entry_head(slot, offset).filter(|(_, bytes)| self.is_sealed(slot, offset, *bytes))
    }

    /// Reads from the first two cache lines of an entry, as `Index::touch`: the value has no meaning.
    #[inline]
    pub(crate) fn touch(&self, at: Reference) -> u8 {
        let second = (at.0 as usize + 64).min(self.region.len() - 1);
        self.region[at.0 as usize] ^ self.region[second]
    }

    /// Begins to fetch the first cache lines of an entry, and does not wait for them.
    #[inline]
    pub(crate) fn fetch(&self, at: Reference) {
        let at = at.0 as usize;
        fetch_all(&self.region[at..self.region.len().min(at + FETCHED_BYTES)]);
    }

    /// The bytes from a place to the end of its seglet.
    #[inline]
    fn rest_of_seglet(&self, at: Reference) -> &[u8] {
        let start = at.0 as usize;
        let seglet_end = (start | (self.seglet_bytes() as usize - 1)) + 1;
        &self.region[start..seglet_end]
    }

    /// Overwrites bytes of a segment from `offset` on.
    pub(crate) fn overwrite(&mut self, slot: Slot, offset: u32, bytes: &[u8]) {
        assert!(offset as usize + bytes.len() <= self.segments.at(slot).len_bytes as usize);
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let room = (self.seglet_bytes() - (offset & (self.seglet_bytes() - 1))) as usize;
            let (now, later) = rest.split_at(rest.len().min(room));
            let at = self.reference(slot, offset).0 as usize;
            self.region[at..at + now.len()].copy_from_slice(now);
            offset += now.len() as u32;
            rest = later;
        }
    }

    /// Gives the segment's seglets back.
    pub(crate) fn free_segment(&mut self, slot: Slot) -> SegmentInfo {
        let segment = self.segments.remove(slot);
        self.give_back(&segment);
        segment
    }

    fn give_back(&mut self, segment: &SegmentInfo) {
        for seglet in &segment.seglets {
            self.seglets[*seglet as usize] = Seglet { owner: NOBODY, ordinal: 0 };
            self.free.give_back(*seglet);
        }
    }

    /// Bytes `from..to` of a segment.
    pub(crate) fn pieces(&self, slot: Slot, from: u32, to: u32) -> Pieces<'_> {
        let segment = self.segments.at(slot);
        assert!(to <= segment.len_bytes);
        Pieces::of(&self.region, &segment.seglets, self.seglet_shift, from, to)
    }

    /// The physical place of an offset below the segment's length, or in the room behind it.
    pub(crate) fn reference(&self, slot: Slot, offset: u32) -> Reference {
        let seglet = self.segments.at(slot).seglets[(offset >> self.seglet_shift) as usize];
        let within = offset & (self.seglet_bytes() - 1);
        Reference((u64::from(seglet) << self.seglet_shift) + u64::from(within))
    }

    /// The segment of a physical place, and the offset in that segment.
    #[inline]
    pub(crate) fn locate(&self, at: Reference) -> (Slot, u32) {
        let seglet = self.seglets[(at.0 >> self.seglet_shift) as usize];
        assert!(seglet.owner != NOBODY, "a reference leads into a segment");
        let within = at.0 as u32 & (self.seglet_bytes() - 1);
        (seglet.owner, (seglet.ordinal << self.seglet_shift) + within)
    }

    pub(crate) fn segment_of(&self, at: Reference) -> &SegmentInfo {
        self.segments.at(self.locate(at).0)
    }

    /// The end of an entry, as a position in its stream.
    pub(crate) fn end_of(&self, at: Reference, entry_bytes: u32) -> Position {
        let (slot, offset) = self.locate(at);
        Position { segment: self.segments.at(slot).id, offset: offset + entry_bytes }
    }

    /// The object or tombstone at a place. Its checksum must have been verified in this turn.
    #[inline]
    pub(crate) fn record(&self, at: Reference) -> Record<'_> {
        self.try_record(at).expect("an intact entry that is referred to is a whole record")
    }

    /// The object or tombstone at a place, if its checksum holds.
    #[inline]
    pub(crate) fn intact_record(&self, at: Reference) -> Option<Record<'_>> {
        let here = self.rest_of_seglet(at);
        if let Some(header) = here.first_chunk::<HEADER_BYTES>()
            && let Some(entry) = here.get(..word_of(header).entry_bytes())
        {
            let is_sealed = is_sealed(entry) || planted(Defect::DamageServed);
            return if is_sealed { contiguous_record(word_of(header), entry) } else { None };
        }
        let (slot, offset) = self.locate(at);
        self.intact_entry(slot, offset)?;
        self.record_across_seglets(at)
    }

    /// The object or tombstone at a place, if its checksum holds and it does not cross seglets.
    #[inline]
    pub(crate) fn intact_record_here(&self, at: Reference) -> Option<Record<'_>> {
        let here = self.rest_of_seglet(at);
        let word = word_of(here.first_chunk::<HEADER_BYTES>()?);
        let entry = here
            .get(..word.entry_bytes())
            .filter(|entry| is_sealed(entry) || planted(Defect::DamageServed))?;
        contiguous_record(word, entry)
    }

    /// The object or tombstone at a place, not verified: no field may be believed.
    #[inline]
    pub(crate) fn try_record(&self, at: Reference) -> Option<Record<'_>> {
        let here = self.rest_of_seglet(at);
        if let Some(header) = here.first_chunk::<HEADER_BYTES>()
            && let Some(entry) = here.get(..word_of(header).entry_bytes())
        {
            return contiguous_record(word_of(header), entry);
        }
        self.record_across_seglets(at)
    }

    #[cold]
    fn record_across_seglets(&self, at: Reference) -> Option<Record<'_>> {
        let (slot, start) = self.locate(at);
        let (_, bytes) = self.entry_head(slot, start)?;
        self.with_prefix(slot, start, |word, prefix, _| {
            let key_start = start + prefix.key_start as u32;
            let key_end = key_start + prefix.key_bytes as u32;
            let value = self.pieces(slot, key_end, start + bytes);
            record(word, prefix, self.pieces(slot, key_start, key_end), value)
        })
    }

    /// The result of `bytes` bytes at an offset, if its checksum holds.
    pub(crate) fn intact_result(&self, slot: Slot, offset: u32, bytes: u32) -> Option<RpcResult> {
        let mut entry = [0; RESULT_BYTES_MAX];
        let entry = entry.get_mut(..bytes as usize)?;
        copy_pieces(&self.pieces(slot, offset, offset + bytes), entry);
        match Entry::decode(entry) {
            Ok((Entry::RpcResult(result), taken)) if taken == bytes as usize => Some(result),
            _ => None,
        }
    }

    /// The segments that the object or tombstone at a place names. Its checksum must have been verified in this turn.
    pub(crate) fn older(&self, at: Reference) -> OlderList {
        let here = self.rest_of_seglet(at);
        let older = if let Some(header) = here.first_chunk::<HEADER_BYTES>()
            && let Some(entry) = here.get(..word_of(header).entry_bytes())
        {
            RecordPrefix::read(word_of(header), entry).map(|prefix| prefix.older(entry))
        } else {
            let (slot, start) = self.locate(at);
            self.with_prefix(slot, start, |_, prefix, bytes| prefix.older(bytes))
        };
        older.expect("an intact entry that is referred to is a whole record")
    }

    /// The stamp of the quorum record at a place, and whether it is a tombstone. Its checksum must have been verified in
    /// this turn.
    pub(crate) fn stamp(&self, at: Reference) -> (Stamp, bool) {
        let here = self.rest_of_seglet(at);
        let stamp = if let Some(header) = here.first_chunk::<HEADER_BYTES>()
            && let Some(entry) = here.get(..word_of(header).entry_bytes())
        {
            let word = word_of(header);
            RecordPrefix::read(word, entry).map(|prefix| (prefix.stamp(entry), word.is_deleted()))
        } else {
            let (slot, start) = self.locate(at);
            self.with_prefix(slot, start, |word, prefix, bytes| (prefix.stamp(bytes), word.is_deleted()))
        };
        stamp.expect("an intact entry that is referred to is a whole record")
    }

    /// Copies the start of an entry that may cross seglets, and shows it to `view` if the entry is a record.
    fn with_prefix<T>(
        &self,
        slot: Slot,
        start: u32,
        view: impl FnOnce(Word, &RecordPrefix, &[u8]) -> T,
    ) -> Option<T> {
        let mut header = [0; HEADER_BYTES];
        copy_pieces(&self.pieces(slot, start, start + HEADER_BYTES as u32), &mut header);
        let word = word_of(&header);
        let mut bytes = [0; RECORD_PREFIX_BYTES_MAX];
        let bytes = &mut bytes[..word.entry_bytes().min(RECORD_PREFIX_BYTES_MAX)];
        copy_pieces(&self.pieces(slot, start, start + bytes.len() as u32), bytes);
        RecordPrefix::read(word, bytes).map(|prefix| view(word, &prefix, bytes))
    }

    /// Panics when a seglet is lost or owned twice. The cost is proportional to the number of seglets.
    pub(crate) fn check_invariants(&self) {
        let mut owned = 0;
        for (slot, segment) in self.segments.iter_slots() {
            assert!(segment.seglet_count() == segment.len_bytes.div_ceil(self.seglet_bytes()));
            assert!(segment.live_bytes <= segment.len_bytes);
            assert!(segment.live_count <= segment.entry_count);
            assert!(segment.tombstone_bytes + segment.result_bytes <= segment.live_bytes);
            for (ordinal, seglet) in segment.seglets.iter().enumerate() {
                let entry = self.seglets[*seglet as usize];
                assert!(entry.owner == slot);
                assert!(entry.ordinal as usize == ordinal);
                assert!(!self.free.is_free(*seglet));
                owned += 1;
            }
        }
        assert_eq!(owned + self.free.count(), self.seglet_count());
        assert!(self.promised <= self.free.count());
    }
}

#[inline]
fn word_of(header: &[u8; HEADER_BYTES]) -> Word {
    let [.., a, b, c, d] = *header;
    Word(u32::from_le_bytes([a, b, c, d]))
}

/// Whether the checksum of an entry holds. `entry` is the whole entry.
#[inline]
fn is_sealed(entry: &[u8]) -> bool {
    let (stored, covered) = entry.split_first_chunk::<4>().expect("an entry has a header");
    crc_append(0, covered) == u32::from_le_bytes(*stored)
}

#[inline(always)]
fn contiguous_record(word: Word, entry: &[u8]) -> Option<Record<'_>> {
    let prefix = RecordPrefix::read(word, entry)?;
    let (key, value) = entry[prefix.key_start..].split_at(prefix.key_bytes);
    Some(record(word, &prefix, Pieces::one(key), Pieces::one(value)))
}

#[inline(always)]
fn record<'a>(word: Word, prefix: &RecordPrefix, key: Pieces<'a>, value: Pieces<'a>) -> Record<'a> {
    Record {
        kind: word.kind().expect("the prefix was read by its kind"),
        table: prefix.table,
        version: prefix.version,
        time: prefix.time,
        expires: prefix.expires,
        has_older: prefix.older_bytes > 0,
        entry_bytes: word.entry_bytes() as u32,
        key,
        value,
    }
}

fn copy_pieces(pieces: &Pieces<'_>, mut out: &mut [u8]) {
    for piece in pieces {
        let (now, later) = out.split_at_mut(piece.len());
        now.copy_from_slice(piece);
        out = later;
    }
}
