//! Looks at the entries of a segment, and moves those that are needed to another segment.
//!
//! Both kinds of cleaning share this. Entries are looked at in batches. First all keys of a batch are hashed and their
//! buckets of the index touched, so that cache misses overlap. Then each entry is judged, and moved if it is needed. An
//! entry is copied byte by byte; only if its list of older segments has become shorter is it encoded anew.
//!
//! Invariants:
//! - an entry is judged only after its checksum has been verified, and moved in the same turn;
//! - the index refers to the copy from the moment that it exists, so that no key is missing in between.
//!
//! Not here: which segments (`choose`), in what order and into what (`combine`, `compact`).
//! Rules: docs/protocols/cleaning.md. Catalogue: C4, C5, C6, C8.

use crate::index::Spot;
use crate::log::Log;
use crate::profile::Counted;
use crate::segment::Slot;
use crate::{Alive, Entry, Kind, Object, OlderList, Reference, Tombstone};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, KeyHash, LeaseId, SegmentId, Sequence, TableId};
use std::hint::black_box;

/// Entries whose index buckets are fetched together.
const BATCH: usize = 32;

/// The placement hash of a table's key.
pub type HashOf<'a> = &'a dyn Fn(TableId, &[u8]) -> KeyHash;

/// The result of a slice of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The granted work is used up.
    Working,
    /// Every entry has been looked at.
    Done,
    /// The next object has expired: remove it, or let it be moved by granting `expired_stay`.
    Expired(Reference),
    /// The memory held back for cleaning is in use: go on when another pass has ended.
    NoMemory,
    /// The entry at this offset is damaged: repair it, then go on.
    Damaged { segment: SegmentId, offset: u32 },
}

/// The limits of one slice.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Bytes to move, with `LOOK_COST` for each entry that is looked at.
    pub work: u64,
    pub now: ClusterTime,
    /// Move the next entry even if it has expired, instead of handing it out.
    pub expired_stay: bool,
}

/// The work of a pass so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    pub entries_seen: u64,
    pub entries: u64,
    pub bytes: u64,
}

/// The cost of looking at an entry, in bytes moved.
pub const LOOK_COST: u64 = 64;

/// A place in a segment from which entries are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) slot: Slot,
    pub(crate) offset: u32,
    end: u32,
    /// The time of the next entry, in seconds of cluster time; `u32::MAX` if there is no entry left.
    pub(crate) time: u32,
}

/// An entry whose checksum has been verified.
#[derive(Clone, Copy)]
struct Seen {
    at: Reference,
    bytes: u32,
    kind: Kind,
    table: TableId,
    hash: KeyHash,
    place: u64,
    expires: Option<ClusterTime>,
    has_older: bool,
    /// For a result, the lease and the sequence that it belongs to.
    result: Option<(LeaseId, Sequence)>,
}

fn is_indexed(kind: Kind) -> bool {
    kind.row().alive == Alive::WhileIndexed
}

impl Source {
    pub(crate) fn is_done(&self) -> bool {
        self.offset >= self.end
    }
}

impl Log {
    /// All entries of a closed segment but those of its opening.
    pub(crate) fn source(&self, slot: Slot) -> Source {
        let segment = self.memory.segments.at(slot);
        let mut source = Source { slot, offset: segment.opening_bytes, end: segment.len_bytes, time: 0 };
        self.set_time(&mut source);
        source
    }

    /// Looks at one batch of a source's entries, up to the first that is younger than `until`, and moves the needed
    /// ones into the segment that `room` returns. Returns the reason if it stopped early, `None` if the batch is done.
    pub(crate) fn move_batch(
        &mut self,
        source: &mut Source,
        until: u32,
        grant: &mut Grant,
        moved: &mut Moved,
        hash_of: HashOf<'_>,
        room: &mut dyn FnMut(&mut Log, u32) -> Option<Slot>,
    ) -> Option<Step> {
        let mut batch = [const { None }; BATCH];
        let (count, is_damaged) = self.look(source, until, hash_of, &mut batch);
        let mut stopped = None;
        for seen in batch[..count].iter().flatten() {
            if let Err(step) = self.judge(source, seen, grant, moved, room) {
                stopped = Some(step);
                break;
            }
            // `expired_stay` was granted only for the entry that had stopped the pass.
            grant.expired_stay = false;
            source.offset += seen.bytes;
            moved.entries_seen += 1;
            grant.work = grant.work.saturating_sub(LOOK_COST);
        }
        self.set_time(source);
        if is_damaged && stopped.is_none() {
            let segment = self.memory.segments.at(source.slot).id;
            stopped = Some(Step::Damaged { segment, offset: source.offset });
        }
        stopped
    }

    /// Fills a batch. Returns the number of its entries, and whether the entry behind them is damaged. Not even the
    /// length of a damaged entry is believed.
    fn look(
        &self,
        source: &Source,
        until: u32,
        hash_of: HashOf<'_>,
        out: &mut [Option<Seen>; BATCH],
    ) -> (usize, bool) {
        let (mut count, mut offset) = (0, source.offset);
        let mut is_damaged = false;
        while count < BATCH && offset < source.end {
            let at = self.memory.reference(source.slot, offset);
            let Some((kind, bytes)) = self.memory.entry_head(source.slot, offset) else {
                is_damaged = true;
                break;
            };
            let record = self.memory.try_record(at);
            // The entry is looked at later, and verified then.
            if count > 0 && record.as_ref().is_some_and(|record| record.time > until) {
                break;
            }
            let is_record = matches!(kind, Kind::Object | Kind::Tombstone | Kind::QuorumRecord);
            let is_sealed = self.memory.is_sealed(source.slot, offset, bytes) || planted(Defect::DamageMoved);
            if !is_sealed || (is_record && record.is_none()) {
                is_damaged = true;
                break;
            }
            let result = match kind {
                Kind::RpcResult => self.memory.intact_result(source.slot, offset, bytes),
                _ => None,
            };
            let mut seen = Seen {
                at,
                bytes,
                kind,
                table: TableId(0),
                hash: KeyHash(0),
                place: 0,
                expires: None,
                has_older: false,
                result: result.map(|result| (result.lease, result.sequence)),
            };
            if let Some(record) = record {
                (seen.table, seen.has_older) = (record.table, record.has_older);
                if is_indexed(kind) {
                    seen.hash = match record.key.contiguous() {
                        Some(key) => hash_of(record.table, key),
                        None => hash_of(record.table, &record.key.to_vec()),
                    };
                    seen.place = self.place(record.table, seen.hash);
                    // A value of a quorum table ends for all its bricks, not here.
                    seen.expires = record.expires.filter(|_| kind == Kind::Object);
                }
            }
            out[count] = Some(seen);
            count += 1;
            offset += bytes;
        }
        // Two loops of their own, so short that the processor has all misses of a batch under way at once: first for
        // the buckets, then for the buckets that they link to.
        let places =
            || out[..count].iter().flatten().filter(|seen| is_indexed(seen.kind)).map(|seen| seen.place);
        black_box(places().fold(0, |sum, place| sum ^ self.index.touch(place)));
        black_box(places().fold(0, |sum, place| sum ^ self.index.touch_next(place)));
        (count, is_damaged)
    }

    /// Moves the entry at the front of a source if it is needed.
    fn judge(
        &mut self,
        source: &Source,
        seen: &Seen,
        grant: &mut Grant,
        moved: &mut Moved,
        room: &mut dyn FnMut(&mut Log, u32) -> Option<Slot>,
    ) -> Result<(), Step> {
        let spot = match seen.kind.row().alive {
            Alive::WhileIndexed => match self.index.spot(seen.place, seen.at) {
                Some(spot) => Some(spot),
                None => return Ok(()),
            },
            Alive::WhileItsSegmentCounts => None,
            Alive::WhileUnacknowledged => return self.judge_result(source, seen, grant, moved, room),
            Alive::InItsSegment => return Ok(()),
        };
        let named = if seen.has_older { self.memory.older(seen.at) } else { OlderList::NONE };
        let counts = |segment: &SegmentId| self.counts(*segment);
        let kept = if named.iter().all(|segment| counts(&segment)) {
            named
        } else {
            named.iter().filter(counts).collect()
        };
        if spot.is_none() && (kept.is_empty() || planted(Defect::TombstoneDropped)) {
            return Ok(());
        }
        if !grant.expired_stay && seen.expires.is_some_and(|end| end <= grant.now) {
            return Err(Step::Expired(seen.at));
        }
        let dropped = named.encoded().len() - kept.encoded().len();
        let to = room(self, seen.bytes - dropped as u32).ok_or(Step::NoMemory)?;
        match spot {
            Some(spot) => self.move_object(source, seen, spot, (dropped > 0).then_some(kept), to),
            None => self.move_tombstone(source, seen, kept, to),
        }
        moved.entries += 1;
        moved.bytes += u64::from(seen.bytes);
        grant.work = grant.work.saturating_sub(u64::from(seen.bytes));
        Ok(())
    }

    /// Moves a result if its client may still ask for it.
    fn judge_result(
        &mut self,
        source: &Source,
        seen: &Seen,
        grant: &mut Grant,
        moved: &mut Moved,
        room: &mut dyn FnMut(&mut Log, u32) -> Option<Slot>,
    ) -> Result<(), Step> {
        let alive =
            seen.result.filter(|(lease, sequence)| self.results.refers_to(*lease, *sequence, seen.at));
        if planted(Defect::ResultNotMoved) {
            return Ok(());
        }
        let Some((lease, sequence)) = alive else { return Ok(()) };
        let to = room(self, seen.bytes).ok_or(Step::NoMemory)?;
        let offset = self.memory.append_copy(to, source.slot, source.offset, seen.bytes, 1);
        self.results.repoint(lease, sequence, self.memory.reference(to, offset));
        self.count_result(to, seen.bytes);
        let from = self.memory.segments.at_mut(source.slot);
        from.live_bytes -= seen.bytes;
        from.live_count -= 1;
        from.result_bytes -= seen.bytes;
        moved.entries += 1;
        moved.bytes += u64::from(seen.bytes);
        grant.work = grant.work.saturating_sub(u64::from(seen.bytes));
        Ok(())
    }

    /// `kept` is the rest of the object's list, if the list has become shorter.
    fn move_object(&mut self, source: &Source, seen: &Seen, spot: Spot, kept: Option<OlderList>, to: Slot) {
        let offset = match kept {
            None => self.memory.append_copy(to, source.slot, source.offset, seen.bytes, 1),
            Some(older) => {
                let record = self.memory.record(seen.at);
                let (key, value) = (record.key.to_vec(), record.value.to_vec());
                let (table, version, time, expires) =
                    (record.table, record.version, record.time, record.expires);
                let object = Object { table, version, time, expires, key: &key, value: &value };
                self.memory.append(to, &Entry::Object(object, older))
            }
        };
        let new = self.memory.reference(to, offset);
        let stamp_newest = self.memory.segments.at(source.slot).stamp_newest;
        let segment = self.memory.segments.at_mut(to);
        let bytes = segment.len_bytes - offset;
        let moved = Counted { table: seen.table, hash: seen.hash, bytes, segment: segment.id };
        segment.stamp_newest = segment.stamp_newest.max(stamp_newest);
        segment.live_bytes += bytes;
        segment.live_count += 1;
        segment.indexed_count += 1;
        let from = self.memory.segments.at_mut(source.slot);
        from.live_bytes -= seen.bytes;
        from.live_count -= 1;
        from.indexed_count -= 1;
        let before = Counted { bytes: seen.bytes, segment: from.id, ..moved };
        self.index.repoint(spot, seen.at, new);
        self.counters.moved(&before, &moved, self.segment_last.next());
    }

    fn move_tombstone(&mut self, source: &Source, seen: &Seen, segments: OlderList, to: Slot) {
        let record = self.memory.record(seen.at);
        let key = record.key.to_vec();
        let (table, version, time) = (record.table, record.version, record.time);
        self.discount_tombstone(source.slot, seen.at);
        self.append_tombstone(to, &Tombstone { table, version, time, segments, key: &key });
    }

    fn set_time(&self, source: &mut Source) {
        source.time = if source.is_done() {
            u32::MAX
        } else {
            // The time is not verified: it only decides whose turn it is. An entry that is no record has its turn at
            // once.
            let at = self.memory.reference(source.slot, source.offset);
            self.memory.try_record(at).map_or(0, |record| record.time)
        };
    }
}
