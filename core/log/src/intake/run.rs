//! Copies plain objects together that are adjacent in their source.
//!
//! The index leads to each object at once, at the place where it will be. The bytes of all objects of a run are copied
//! later in one piece. The checksum of the segment is computed from the checksums of the objects, which have just been
//! verified, so no byte is read again for it.
//!
//! Invariants:
//! - nothing is read at a place of a run before the run is copied: a key that may be one of the run's ends the run;
//! - the places of a run lie in the room that its segment already has.

use super::Coming;
use crate::index::bucket::What;
use crate::log::{Log, Purpose};
use crate::profile::Counted;
use crate::segment::Slot;
use crate::{AppendRefusal, SideId};
use ramhold_base::SegmentId;
use ramhold_base::checksum::{crc_append, crc_joined};

pub(super) struct Run {
    side: SideId,
    slot: Slot,
    segment: SegmentId,
    /// The offset in the segment at which the run starts.
    offset: u32,
    /// Bytes for which the segment has room from `offset` on.
    room: u32,
    /// Where the run begins and ends in the bytes that are taken in.
    start: usize,
    end: usize,
    entry_count: u32,
    /// The checksum that the segment will have.
    crc: u32,
}

impl Log {
    /// Makes the index lead from the key of a plain object to its future place, at the end of a run. False if the key
    /// may be in this log already; then nothing has changed.
    #[inline]
    pub(super) fn lead(
        &mut self,
        coming: &Coming,
        bytes: &[u8],
        run: &mut Option<Run>,
    ) -> Result<bool, AppendRefusal> {
        let vacancy = self.index.vacancy(coming.place).map_err(|_| AppendRefusal::OutOfMemory)?;
        let Some(vacancy) = vacancy else { return Ok(false) };
        if !run.as_ref().is_some_and(|run| run.takes(coming)) {
            self.copy_run(run, bytes);
            *run = Some(self.begin_run(coming)?);
        }
        let run = run.as_mut().expect("begun just now");

        // From here on nothing can fail.
        let at = self.memory.reference(run.slot, run.offset + run.len());
        run.add(coming, &bytes[coming.start..coming.end]);
        let Coming { table, hash, .. } = *coming;
        let object = Counted { table, hash, bytes: coming.entry_bytes(), segment: run.segment };
        self.raise_replayed(coming.version);
        if let Some(end) = coming.expires {
            self.may_expire = true;
            self.index.lower_end(coming.place, end);
        }
        self.index.fill(vacancy, coming.place, What::Object, at);
        self.counters.add(&object, self.segment_last.next());
        self.forgive(coming.place);
        Ok(true)
    }

    fn begin_run(&mut self, coming: &Coming) -> Result<Run, AppendRefusal> {
        let bytes = coming.end - coming.start;
        let slot = self.side_room(coming.side, bytes, self.floor(Purpose::Recovery))?;
        let segment = self.memory.segments.at(slot);
        Ok(Run {
            side: coming.side,
            slot,
            segment: segment.id,
            offset: segment.len_bytes,
            room: self.memory.room(slot),
            start: coming.start,
            end: coming.start,
            entry_count: 0,
            crc: segment.crc,
        })
    }

    /// Copies the objects of a run, to which the index leads already.
    pub(super) fn copy_run(&mut self, run: &mut Option<Run>, bytes: &[u8]) {
        let Some(run) = run.take() else { return };
        self.memory.append_checked(run.slot, &bytes[run.start..run.end], run.entry_count, run.crc);
        let segment = self.memory.segments.at_mut(run.slot);
        segment.live_bytes += run.len();
        segment.live_count += run.entry_count;
        segment.indexed_count += run.entry_count;
    }
}

impl Run {
    fn len(&self) -> u32 {
        (self.end - self.start) as u32
    }

    /// Whether this entry can be the next one of the run.
    #[inline]
    fn takes(&self, coming: &Coming) -> bool {
        coming.start == self.end && coming.side == self.side && self.len() + coming.entry_bytes() <= self.room
    }

    #[inline]
    fn add(&mut self, coming: &Coming, entry: &[u8]) {
        let (stored, covered) = entry.split_first_chunk::<4>().expect("an entry has a header");
        self.crc = crc_joined(crc_append(self.crc, stored), u32::from_le_bytes(*stored), covered.len());
        self.end = coming.end;
        self.entry_count += 1;
    }
}
