//! Takes over the segments of a brick's own log after a restart, as they stand on its device.
//!
//! The log keeps its segments' ids and bytes, so nothing is written anew. Segments may come in any order: the index
//! leads to the record with the highest stamp. All other records are dead here, and the caller hears of their stamps:
//! they belong into the applied set.
//!
//! Memory suffices: a segment takes as many seglets as it took before the restart, provided that segments of a brick
//! are not compacted.
//!
//! Invariants:
//! - a segment is verified as a whole before any of it is adopted;
//! - no id is given out again that was ever found.
//!
//! Not here: finding the newest head and reading segments (core/brick). Catalogue: I6.

use crate::index::bucket::What;
use crate::log::Log;
use crate::memory::Floor;
use crate::profile::Counted;
use crate::segment::NewSegment;
use crate::{Entry, EntryReader, QuorumRecord, Reference, opening};
use ramhold_base::checksum::crc;
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

/// The records of a segment, as `check` has found them.
#[derive(Clone, Copy, Default)]
struct Contents {
    records: u64,
    entries: u32,
    stamp_newest: u64,
}

/// The placement hash of a table's key. `None`: the key is not held here.
pub type HeldHashOf<'a> = &'a dyn Fn(TableId, &[u8]) -> Option<KeyHash>;

impl Log {
    /// Makes sure that no id up to this one is given out.
    pub fn skip_segments(&mut self, up_to: SegmentId) {
        self.segment_last = self.segment_last.max(up_to);
    }

    /// Adds a closed segment of this log to a stream that has no head yet. `bytes` are all its bytes. `superseded` hears
    /// of each stamp to which the index does not refer after this segment. `hash_of` has no hash for keys that the brick
    /// does not hold any more: their records are dead. The bound rises to that of the segment.
    /// Returns the number of records.
    pub fn adopt(
        &mut self,
        stream: StreamId,
        id: SegmentId,
        bytes: &[u8],
        hash_of: HeldHashOf<'_>,
        superseded: &mut dyn FnMut(TableId, KeyHash, Stamp),
    ) -> Result<u64, NotAdopted> {
        assert!(self.head_segment(stream).is_none(), "segments are adopted before the first head");
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
        let (contents, opening_bytes) = check(bytes)?;
        let new = NewSegment { id, stream, side: None, created: header.created };
        let made = self.memory.create(new, bytes.len() as u32, Floor(0));
        let slot = made.map_err(|_| NotAdopted::OutOfMemory)?;
        self.memory.append_checked(slot, bytes, contents.entries, crc(bytes));
        let segment = self.memory.segments.at_mut(slot);
        (segment.closed, segment.is_survivor) = (true, true);
        (segment.opening_bytes, segment.stamp_newest) = (opening_bytes, contents.stamp_newest);
        self.skip_segments(id);
        self.join_stream(stream, id);
        self.index.make_way(contents.records);
        for entry in EntryReader::new(bytes) {
            let (offset, entry) = entry.expect("checked before");
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
        Ok(contents.records)
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
                self.index.prepare(place).map_err(|_| NotAdopted::IndexFull)?;
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

/// Verifies all entries of a brick's segment. Returns its contents and the bytes of its opening.
fn check(bytes: &[u8]) -> Result<(Contents, u32), NotAdopted> {
    let (mut contents, mut opening_bytes) = (Contents::default(), 0);
    for entry in EntryReader::new(bytes) {
        let (offset, entry) = entry.map_err(|corrupt| NotAdopted::Corrupt { offset: corrupt.offset })?;
        contents.entries += 1;
        match entry {
            Entry::QuorumRecord(record) => {
                contents.records += 1;
                contents.stamp_newest = contents.stamp_newest.max(record.stamp.time);
            }
            Entry::SegmentHeader(_) | Entry::Digest(_) | Entry::SafeVersion(_) | Entry::TabletStats(_)
                if contents.records == 0 =>
            {
                opening_bytes = (offset + entry.entry_bytes()) as u32;
            }
            _ => return Err(NotAdopted::Corrupt { offset }),
        }
    }
    Ok((contents, opening_bytes))
}
