//! Takes over the segments of a brick's own log after a restart, as they stand on its device.
//!
//! The log keeps its segments' ids and bytes, so nothing is written anew. Segments may come in any order: the index
//! leads to the record with the highest stamp. All other records are dead here, and the caller hears of their stamps:
//! they belong into the applied set. Segments that are awaited (`pending`) may come when the log is written to already.
//!
//! Memory suffices: a segment takes as many seglets as it took before the restart, provided that segments of a brick
//! are not compacted.
//!
//! Invariants:
//! - a segment is verified as a whole before any of it is adopted;
//! - no id is given out again that was ever found.
//!
//! Not here: finding the newest head and reading segments (core/brick). Catalogue: I6.

use crate::entry::split;
use crate::index::bucket::What;
use crate::log::Log;
use crate::memory::Floor;
use crate::profile::Counted;
use crate::segment::{NewSegment, Slot};
use crate::{Entry, EntryReader, QuorumRecord, Reference, Summary, opening};
use ramhold_base::checksum::{crc_append, crc_joined};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, SegmentId, Stamp, StreamId, TableId};

/// Why a segment was not adopted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAdopted {
    /// The bytes are not those of this segment of this log. Nothing has changed.
    Foreign,
    /// From this offset on the bytes are not entries of a brick. Nothing has changed.
    Corrupt { offset: usize },
    /// There is no memory for the segment. Nothing has changed.
    OutOfMemory,
    /// The index has no place for a key. The log must not be used.
    IndexFull,
    /// An entry that was adopted before is damaged in memory. The log must not be used.
    Damaged,
}

/// The contents of a segment, as far as it is verified.
#[derive(Clone, Copy, Default, Debug)]
struct Contents {
    records: u64,
    entries: u32,
    stamp_newest: u64,
    opening_bytes: u32,
    /// CRC32C of all bytes.
    crc: u32,
}

/// A segment that is being adopted: all of it is verified at first, then it is taken to memory, then its records are entered
/// into the index one after the other.
#[derive(Debug)]
pub struct Adopting {
    new: NewSegment,
    contents: Contents,
    /// `None`: it is not verified yet.
    slot: Option<Slot>,
    /// The entries before this offset are done.
    offset: usize,
}

/// The placement hash of a table's key. `None`: the key is not held here.
pub type HeldHashOf<'a> = &'a dyn Fn(TableId, &[u8]) -> Option<KeyHash>;

impl Log {
    /// Makes sure that no id up to this one is given out.
    pub fn skip_segments(&mut self, up_to: SegmentId) {
        self.segment_last = self.segment_last.max(up_to);
    }

    /// Adds a closed segment of this log to a stream that has no head yet, or that awaits it. `bytes` are all its bytes.
    /// `superseded` hears of each stamp to which the index does not refer after this segment. `hash_of` has no hash for
    /// keys that the brick does not hold any more: their records are dead. The bound rises to that of the segment.
    /// Returns the number of records.
    pub fn adopt(
        &mut self,
        stream: StreamId,
        id: SegmentId,
        bytes: &[u8],
        hash_of: HeldHashOf<'_>,
        superseded: &mut dyn FnMut(TableId, KeyHash, Stamp),
    ) -> Result<u64, NotAdopted> {
        let mut adopting = self.begin_adopt(stream, id, bytes)?;
        while !self.adopt_slice(&mut adopting, bytes, usize::MAX, hash_of, superseded)? {}
        Ok(adopting.contents.records)
    }

    /// Begins to adopt a segment, as `adopt` does at once. The floor stays where it is until the last slice is done.
    pub fn begin_adopt(&self, stream: StreamId, id: SegmentId, bytes: &[u8]) -> Result<Adopting, NotAdopted> {
        let is_awaited = self.pending.get(id).is_some_and(|awaited| awaited.stream == stream);
        assert!(
            is_awaited || self.head_segment(stream).is_none(),
            "others are adopted before the first head"
        );
        assert!(self.segment(id).is_none(), "a segment is adopted once");
        let header = opening::parse(bytes).ok_or(NotAdopted::Foreign)?.header;
        let is_ours = header.cluster == self.config.cluster
            && header.log == self.config.log
            && header.segment == id
            && header.stream == stream
            && bytes.len() <= self.config.geometry.segment_bytes as usize;
        if !is_ours {
            return Err(NotAdopted::Foreign);
        }
        let new = NewSegment { id, stream, side: None, created: header.created };
        Ok(Adopting { new, contents: Contents::default(), slot: None, offset: 0 })
    }

    /// Takes a segment to memory whose bytes are verified.
    fn place_adopted(&mut self, adopting: &Adopting, bytes: &[u8]) -> Result<Slot, NotAdopted> {
        let NewSegment { id, stream, created, .. } = adopting.new;
        let Contents { records, entries: entry_count, stamp_newest, opening_bytes, crc } = adopting.contents;
        self.check_awaited(id, bytes.len(), Summary { stamp_newest, entry_count })?;
        self.give_room(id);
        let new = NewSegment { id, stream, side: None, created };
        let made = self.memory.create(new, bytes.len() as u32, Floor(0));
        let slot = made.map_err(|_| NotAdopted::OutOfMemory)?;
        self.memory.append_checked(slot, bytes, entry_count, crc);
        let segment = self.memory.segments.at_mut(slot);
        (segment.closed, segment.is_survivor) = (true, true);
        (segment.opening_bytes, segment.stamp_newest) = (opening_bytes, stamp_newest);
        self.skip_segments(id);
        self.join_stream(stream, id);
        self.index.make_way(records);
        Ok(slot)
    }

    /// Goes on for at most so many entries of a segment, in its present stage. `bytes` are those with which it was begun.
    /// Returns whether all is done.
    pub fn adopt_slice(
        &mut self,
        adopting: &mut Adopting,
        bytes: &[u8],
        count_max: usize,
        hash_of: HeldHashOf<'_>,
        superseded: &mut dyn FnMut(TableId, KeyHash, Stamp),
    ) -> Result<bool, NotAdopted> {
        let Some(slot) = adopting.slot else {
            adopting.offset = adopting.contents.verify(bytes, adopting.offset, count_max)?;
            if adopting.offset == bytes.len() {
                (adopting.slot, adopting.offset) = (Some(self.place_adopted(adopting, bytes)?), 0);
            }
            return Ok(false);
        };
        for _ in 0..count_max {
            // The checksums were verified before: that would be a large part of the time that a start takes.
            let Some((word, body)) = split(&bytes[adopting.offset..]) else {
                self.end_awaited(adopting.new.id);
                return Ok(true);
            };
            let offset = adopting.offset;
            adopting.offset += body.len();
            let kind = word.kind().expect("checked before");
            let entry = Entry::decode_body(kind, word, body).expect("checked before");
            match &entry {
                Entry::QuorumRecord(record) => {
                    let at = self.memory.reference(slot, offset as u32);
                    let Some(hash) = hash_of(record.table, record.key) else { continue };
                    self.adopt_record(at, hash, record, superseded)?;
                }
                Entry::SafeVersion(bound) => self.raise_bound(bound.0),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Makes the index lead to an adopted record, if it is the newest of its key.
    fn adopt_record(
        &mut self,
        at: Reference,
        hash: KeyHash,
        record: &QuorumRecord<'_>,
        superseded: &mut dyn FnMut(TableId, KeyHash, Stamp),
    ) -> Result<(), NotAdopted> {
        let (table, bytes) = (record.table, record.entry_bytes() as u32);
        let present = self.newest(table, hash, record.key).map_err(|_| NotAdopted::Damaged)?;
        let present = present.map(|present| (present.at, present.stamp));
        let mut superseded = |stamp: Stamp| {
            if !planted(Defect::QuorumAppliedNotRebuilt) {
                superseded(table, hash, stamp);
            }
        };
        let place = self.place(table, hash);
        match present {
            // A cleaning pass had copied it.
            Some((_, stamp)) if stamp == record.stamp => return Ok(()),
            Some((_, stamp)) if stamp > record.stamp && !planted(Defect::QuorumOlderAdopted) => {
                superseded(record.stamp);
                return Ok(());
            }
            Some((before, stamp)) => {
                superseded(stamp);
                let dead = self.dead(before);
                self.index.replace(place, before, What::Object, at);
                self.bury(table, hash, &dead);
            }
            None => {
                self.index.prepare_again(place).map_err(|_| NotAdopted::IndexFull)?;
                self.index.insert(place, What::Object, at);
                self.note_new_key(table, hash);
            }
        }
        self.count_record(at, bytes, record);
        self.note_end(place, record.expires);
        let segment = self.memory.segment_of(at).id;
        self.counters.add(&Counted { table, hash, bytes, segment }, self.next_segment_id());
        Ok(())
    }
}

impl Contents {
    /// Verifies at most so many entries of a brick's segment from an offset on. Returns where to go on.
    fn verify(&mut self, bytes: &[u8], from: usize, count_max: usize) -> Result<usize, NotAdopted> {
        let mut end = from;
        for entry in EntryReader::new(&bytes[from..]).take(count_max) {
            let (_, entry) =
                entry.map_err(|corrupt| NotAdopted::Corrupt { offset: from + corrupt.offset })?;
            let offset = end;
            end += entry.entry_bytes();
            self.entries += 1;
            self.crc = crc_with(self.crc, &bytes[offset..end]);
            match entry {
                Entry::QuorumRecord(record) => {
                    self.records += 1;
                    self.stamp_newest = self.stamp_newest.max(record.stamp.time);
                }
                Entry::SegmentHeader(_)
                | Entry::Digest(_)
                | Entry::SafeVersion(_)
                | Entry::TabletStats(_)
                | Entry::Summaries(_)
                    if self.records == 0 =>
                {
                    self.opening_bytes = end as u32;
                }
                // The bound was told once more (`tell_bound`).
                Entry::SafeVersion(_) => {}
                _ => return Err(NotAdopted::Corrupt { offset }),
            }
        }
        Ok(end)
    }
}

/// From this length on it is faster to join two checksums than to calculate one of an entry anew.
const JOIN_BYTES_MIN: usize = 512;

/// The checksum of bytes with this one, followed by an entry whose own checksum was verified.
fn crc_with(so_far: u32, entry: &[u8]) -> u32 {
    match entry.split_first_chunk::<4>() {
        Some((stored, covered)) if covered.len() >= JOIN_BYTES_MIN => {
            crc_joined(crc_append(so_far, stored), u32::from_le_bytes(*stored), covered.len())
        }
        _ => crc_append(so_far, entry),
    }
}
