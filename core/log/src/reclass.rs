//! Moves the keys of a range from one stream of the shard to another, while every key stays readable.
//!
//! First a walk over the index gathers the hashes of the range's keys, while reads and writes go on; keys that come
//! meanwhile are noted. Then stretches of the range are moved one after the other, while the caller changes nothing in
//! them. The objects and results of a stretch are copied into a side log of the other stream; the index does not lead
//! to the copies yet. When the caller says that the copies count, the index is led to them.
//!
//! Invariants:
//! - until the copies count, the index leads to the entries in the old stream, and cleaning treats these as always;
//! - a key has at most one copy in a side log, so that a later tombstone names all segments of its stream that hold an
//!   object of the key;
//! - no segment with copies that do not count yet is cleaned.
//!
//! Not here: when copies count, who may write meanwhile (master). Rules: docs/protocols/reclassing.md. Catalogue: A8,
//! D2.

use crate::index::Cursor;
use crate::index::bucket::What;
use crate::log::{AppendRefusal, Log, Purpose};
use crate::moving::HashOf;
use crate::profile::Counted;
use crate::{Entry, HashRange, Kind, Object, OlderList, Reference, SideId};
use ramhold_base::hash::{SLOT_COUNT, first_hash_of, slot_of_hash};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, LeaseId, SegmentId, Sequence};
use std::ops::ControlFlow;

/// Hashes gathered at a time, which take 8 MiB. A range with more keys is gathered in several rounds.
pub const GATHER_COUNT_MAX: usize = 1 << 20;
/// Bytes of verified entries after which a step of a walk ends; only its last bucket may exceed them.
const STEP_BYTES: u64 = 2 * 1024 * 1024;

/// Why copying stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyStop {
    /// There is no memory: abandon the stretch, and try again when there is some.
    NoMemory,
    /// This entry is damaged: repair it, then go on.
    Damaged(Reference),
}

/// The range that is being moved.
#[derive(Debug)]
pub(crate) struct Reclassing {
    /// The gathered range that is not moved yet.
    range: HashRange,
    by_slots: bool,
    count_max: usize,
    /// The position where the walk goes on. `None`: the walk is over, and the hashes are in order.
    walk: Option<u64>,
    hashes: Vec<KeyHash>,
    /// Hashes of keys that came since the gathering began.
    fresh: Vec<KeyHash>,
    stretch: Option<Stretch>,
}

/// The part of the range that is being copied, in which the caller changes nothing.
#[derive(Debug)]
struct Stretch {
    range: HashRange,
    hashes: Vec<KeyHash>,
    side: SideId,
    segments: Vec<SegmentId>,
    /// The number of hashes whose objects have been copied, and whether the results have been.
    copied: usize,
    has_results: bool,
    /// Hashes and copies of objects, and the number of copies to which the index leads.
    objects: Vec<(KeyHash, Reference)>,
    led: usize,
    results: Vec<(LeaseId, Sequence, Reference, u32)>,
}

impl Reclassing {
    /// The last hash before this one at which the range may be cut. `None` if there is none.
    fn cut_before(&self, hash: KeyHash) -> Option<KeyHash> {
        let begin = if self.by_slots { first_hash_of(slot_of_hash(hash)) } else { hash };
        (begin > self.range.first).then(|| KeyHash(begin.0 - 1))
    }

    /// The first hash from this one on at which the range may be cut.
    fn cut_from(&self, hash: KeyHash) -> KeyHash {
        match slot_of_hash(hash) + 1 {
            _ if !self.by_slots => hash,
            SLOT_COUNT => self.range.last,
            next => KeyHash(first_hash_of(next).0 - 1).min(self.range.last),
        }
    }

    /// Bounds the noted keys: many may come while a stretch or the walk waits for long. If there is a stretch, the
    /// range behind it is given up, and gathered anew later. If not, the end of the range that the walk gathers is
    /// given up.
    fn bound_fresh(&mut self) {
        if self.fresh.len() <= 2 * self.count_max {
            return;
        }
        match &self.stretch {
            Some(stretch) => {
                self.range.last = stretch.range.last;
                (self.hashes, self.fresh) = (Vec::new(), Vec::new());
            }
            None => self.put_in_order(),
        }
    }

    /// Sorts the gathered hashes, and gives up the end of the range if there are too many.
    fn put_in_order(&mut self) {
        self.hashes.append(&mut self.fresh);
        self.hashes.sort_unstable();
        self.hashes.dedup();
        if self.hashes.len() > self.count_max {
            let half = self.hashes[self.count_max / 2];
            let last = self.cut_before(half).unwrap_or_else(|| self.cut_from(half));
            self.range.last = last;
            self.hashes.retain(|hash| *hash <= last);
        }
    }
}

impl Log {
    /// Begins to gather the keys of a range, at most `count_max`. Keys that were gathered before are forgotten. The
    /// range of a table by slots is cut between slots only.
    pub fn begin_gather(&mut self, range: HashRange, by_slots: bool, count_max: usize) {
        assert!(self.reclassing.as_ref().is_none_or(|before| before.stretch.is_none()));
        self.reclassing = Some(Reclassing {
            range,
            by_slots,
            count_max: count_max.max(2),
            walk: Some(0),
            hashes: Vec::new(),
            fresh: Vec::new(),
            stretch: None,
        });
    }

    /// Goes on with at most `bucket_count` buckets. `Ok(true)`: all keys are gathered. `Err`: this entry is damaged,
    /// and may be of the range; repeat the step when the entry is repaired.
    pub fn gather_step(&mut self, bucket_count: u64, hash_of: HashOf<'_>) -> Result<bool, Reference> {
        let mut left = STEP_BYTES;
        for _ in 0..bucket_count {
            let Some(from) = self.reclassing.as_ref().expect("gathering has begun").walk else { break };
            let bytes = self.gather_bucket(from, hash_of)?;
            if bytes >= left {
                break;
            }
            left -= bytes;
        }
        let reclassing = self.reclassing.as_mut().expect("gathering has begun");
        if reclassing.hashes.len() + reclassing.fresh.len() > 2 * reclassing.count_max
            || reclassing.walk.is_none()
        {
            reclassing.put_in_order();
        }
        Ok(reclassing.walk.is_none())
    }

    /// Returns the bytes of the entries in the bucket.
    fn gather_bucket(&mut self, from: u64, hash_of: HashOf<'_>) -> Result<u64, Reference> {
        let range = self.reclassing.as_ref().expect("gathering has begun").range;
        let (mut damaged, mut bytes) = (None, 0);
        let mut met = Vec::new();
        let next = self.sweep(Cursor::at(from), 1, |log, _, what, at| {
            if what != What::Object {
                return ControlFlow::Continue(());
            }
            let Some(record) = log.memory.intact_record(at) else {
                damaged = Some(at);
                return ControlFlow::Continue(());
            };
            bytes += u64::from(record.entry_bytes);
            if record.table == range.table {
                let hash = match record.key.contiguous() {
                    Some(key) => hash_of(record.table, key),
                    None => hash_of(record.table, &record.key.to_vec()),
                };
                if range.contains(range.table, hash) {
                    met.push(hash);
                }
            }
            ControlFlow::Continue(())
        });
        if let Some(at) = damaged {
            return Err(at);
        }
        let reclassing = self.reclassing.as_mut().expect("gathering has begun");
        reclassing.hashes.append(&mut met);
        reclassing.walk = next.map(Cursor::position);
        Ok(bytes)
    }

    /// Notes a key that was not in this log before.
    #[inline]
    pub(crate) fn note_new_key(&mut self, table: ramhold_base::TableId, hash: KeyHash) {
        if let Some(reclassing) = &mut self.reclassing
            && reclassing.range.contains(table, hash)
            && !planted(Defect::ReclassedWithoutFresh)
        {
            reclassing.fresh.push(hash);
            reclassing.bound_fresh();
        }
    }

    /// The range that is gathered and not moved yet, if any is left.
    pub fn gathered(&self) -> Option<HashRange> {
        self.reclassing.as_ref().map(|reclassing| reclassing.range)
    }

    /// Begins the next stretch of the gathered range, with about `count` keys, whose copies go into this side log.
    /// Returns the stretch. From now on the caller changes nothing in it.
    pub fn begin_stretch(&mut self, side: SideId, count: usize) -> HashRange {
        let reclassing = self.reclassing.as_mut().expect("gathering has begun");
        assert!(reclassing.walk.is_none() && reclassing.stretch.is_none());
        // The hashes were in order. The keys that have come since are put in their places.
        if !reclassing.fresh.is_empty() {
            reclassing.hashes.append(&mut reclassing.fresh);
            reclassing.hashes.sort_unstable();
            reclassing.hashes.dedup();
        }
        let whole = reclassing.range;
        let last = match reclassing.hashes.get(count.max(1)) {
            Some(beyond) => reclassing.cut_before(*beyond).unwrap_or_else(|| reclassing.cut_from(*beyond)),
            None => whole.last,
        };
        let taken = reclassing.hashes.partition_point(|hash| *hash <= last);
        let rest = reclassing.hashes.split_off(taken);
        let hashes = std::mem::replace(&mut reclassing.hashes, rest);
        let range = HashRange { last, ..whole };
        reclassing.stretch = Some(Stretch {
            range,
            hashes,
            side,
            segments: Vec::new(),
            copied: 0,
            has_results: false,
            objects: Vec::new(),
            led: 0,
            results: Vec::new(),
        });
        range
    }

    /// Copies the objects of the next `hash_count` hashes of the stretch, and finally its results. `Ok(true)`: all are
    /// copied, and the side log is closed.
    pub fn copy_step(&mut self, hash_count: usize, hash_of: HashOf<'_>) -> Result<bool, CopyStop> {
        for _ in 0..hash_count {
            let stretch = self.stretch();
            let Some(hash) = stretch.hashes.get(stretch.copied).copied() else {
                self.copy_results()?;
                let side = self.stretch().side;
                self.close_side(side);
                let segments = self.side_segments(side).collect();
                self.stretch_mut().segments = segments;
                return Ok(true);
            };
            self.copy_objects(hash, hash_of)?;
            self.stretch_mut().copied += 1;
        }
        Ok(false)
    }

    fn stretch(&self) -> &Stretch {
        self.reclassing
            .as_ref()
            .and_then(|reclassing| reclassing.stretch.as_ref())
            .expect("a stretch has begun")
    }

    fn stretch_mut(&mut self) -> &mut Stretch {
        self.reclassing
            .as_mut()
            .and_then(|reclassing| reclassing.stretch.as_mut())
            .expect("a stretch has begun")
    }

    fn copy_objects(&mut self, hash: KeyHash, hash_of: HashOf<'_>) -> Result<(), CopyStop> {
        let (table, side) = (self.stretch().range.table, self.stretch().side);
        let mut entries = Vec::new();
        self.index.find(self.place(table, hash), |at| -> Option<()> {
            entries.push(at);
            None
        });
        // All objects are read before the first is copied, so that a damaged one is met again after its repair.
        let mut own = Vec::new();
        for at in entries {
            let record = self.memory.intact_record(at).ok_or(CopyStop::Damaged(at))?;
            let is_own = record.kind == Kind::Object
                && record.table == table
                && hash_of(table, &record.key.to_vec()) == hash;
            if is_own {
                own.push(at);
            }
        }
        for at in own {
            let to = self.copy_object(side, at)?;
            self.stretch_mut().objects.push((hash, to));
        }
        Ok(())
    }

    fn copy_object(&mut self, side: SideId, at: Reference) -> Result<Reference, CopyStop> {
        let record = self.memory.record(at);
        let (bytes, has_older) = (record.entry_bytes, record.has_older);
        let floor = self.floor(Purpose::Ordinary);
        let offset;
        let slot;
        if has_older {
            // The object names segments of the old stream, which mean nothing in the new one.
            let (key, value) = (record.key.to_vec(), record.value.to_vec());
            let (table, version, time, expires) = (record.table, record.version, record.time, record.expires);
            let object = Object { table, version, time, expires, key: &key, value: &value };
            let entry = Entry::Object(object, OlderList::NONE);
            slot = self.side_room(side, entry.entry_bytes(), floor).map_err(refused)?;
            offset = self.memory.append(slot, &entry);
        } else {
            slot = self.side_room(side, bytes as usize, floor).map_err(refused)?;
            let (from, from_offset) = self.memory.locate(at);
            offset = self.memory.append_copy(slot, from, from_offset, bytes, 1);
        }
        Ok(self.memory.reference(slot, offset))
    }

    fn copy_results(&mut self) -> Result<(), CopyStop> {
        if self.stretch().has_results || planted(Defect::ReclassedWithoutResults) {
            return Ok(());
        }
        let (range, side) = (self.stretch().range, self.stretch().side);
        let found = self.results.of_range(range);
        for (.., at, bytes) in &found {
            let (slot, offset) = self.memory.locate(*at);
            self.memory.intact_result(slot, offset, *bytes).ok_or(CopyStop::Damaged(*at))?;
        }
        for (lease, sequence, at, bytes) in found {
            let floor = self.floor(Purpose::Ordinary);
            let slot = self.side_room(side, bytes as usize, floor).map_err(refused)?;
            let (from, offset) = self.memory.locate(at);
            let offset = self.memory.append_copy(slot, from, offset, bytes, 1);
            let to = self.memory.reference(slot, offset);
            self.stretch_mut().results.push((lease, sequence, to, bytes));
        }
        self.stretch_mut().has_results = true;
        Ok(())
    }

    /// Protects the segments of the side log from cleaning until the copies count. Called when the side log is about to
    /// be entered into its stream.
    pub fn keep_stretch(&mut self) {
        self.mark_kept(true);
    }

    fn mark_kept(&mut self, is_kept: bool) {
        let stretch = self.reclassing.as_ref().and_then(|reclassing| reclassing.stretch.as_ref());
        for id in stretch.map(|stretch| stretch.segments.clone()).unwrap_or_default() {
            if let Some(slot) = self.memory.segments.slot(id) {
                self.memory.segments.at_mut(slot).is_kept = is_kept;
            }
        }
    }

    /// Makes the copies of results count from now on.
    pub fn lead_to_results(&mut self) {
        let range = self.stretch().range;
        for (lease, sequence, to, bytes) in std::mem::take(&mut self.stretch_mut().results) {
            // The result may have been acknowledged meanwhile.
            if self.results.is_in(lease, sequence, range) {
                self.discount_result_of(lease, sequence);
                self.results.repoint(lease, sequence, to);
                let (slot, _) = self.memory.locate(to);
                self.count_result(slot, bytes);
            }
        }
    }

    /// Makes the index lead to the next `count` copies. `Ok(true)`: it leads to all of them, and the stretch is over.
    /// `Err`: this entry is damaged; repeat the step when the entry is repaired.
    pub fn lead_step(&mut self, count: usize) -> Result<bool, Reference> {
        for _ in 0..count {
            let stretch = self.stretch();
            let Some((hash, to)) = stretch.objects.get(stretch.led).copied() else {
                self.end_stretch();
                return Ok(true);
            };
            self.lead_to(hash, to)?;
            self.stretch_mut().led += 1;
        }
        Ok(false)
    }

    fn lead_to(&mut self, hash: KeyHash, to: Reference) -> Result<(), Reference> {
        let Some(record) = self.memory.intact_record(to) else {
            // The copy was damaged and had no replica. The entry in the old stream is served as long as this server
            // lives.
            let is_lost = self.memory.segment_of(to).has_losses;
            return if is_lost { Ok(()) } else { Err(to) };
        };
        let (table, key, bytes) = (record.table, record.key.to_vec(), record.entry_bytes);
        let found = match self.lookup(table, hash, &key) {
            Ok(Some(found)) if found.at != to => (found.at, found.entry_bytes()),
            Ok(_) | Err(crate::Unreadable::Lost) => return Ok(()),
            Err(crate::Unreadable::Damaged(at)) => return Err(at),
        };
        let (at, bytes_before) = found;
        let spot = self.index.spot(self.place(table, hash), at).expect("it was found there");
        let (to_slot, _) = self.memory.locate(to);
        let segment = self.memory.segments.at_mut(to_slot);
        segment.live_bytes += bytes;
        segment.live_count += 1;
        segment.indexed_count += 1;
        let now = Counted { table, hash, bytes, segment: segment.id };
        let (from_slot, _) = self.memory.locate(at);
        let segment = self.memory.segments.at_mut(from_slot);
        segment.live_bytes -= bytes_before;
        segment.live_count -= 1;
        segment.indexed_count -= 1;
        let before = Counted { bytes: bytes_before, segment: segment.id, ..now };
        self.index.repoint(spot, at, to);
        self.counters.moved(&before, &now, self.segment_last.next());
        Ok(())
    }

    /// Ends the stretch. Copies to which the index does not lead are dead.
    pub fn end_stretch(&mut self) {
        self.mark_kept(false);
        let Some(reclassing) = &mut self.reclassing else { return };
        let Some(stretch) = reclassing.stretch.take() else { return };
        match stretch.range.last.0.checked_add(1).filter(|_| stretch.range.last < reclassing.range.last) {
            Some(next) => reclassing.range.first = KeyHash(next),
            None => self.reclassing = None,
        }
    }

    /// Ends the reclassing. Copies that do not count are dead.
    pub fn end_reclassing(&mut self) {
        self.mark_kept(false);
        self.reclassing = None;
    }
}

fn refused(refusal: AppendRefusal) -> CopyStop {
    match refusal {
        // The entry fits a segment, because it was written before.
        AppendRefusal::HeadFull | AppendRefusal::OutOfMemory | AppendRefusal::TooLarge => CopyStop::NoMemory,
        AppendRefusal::Unreadable(_) => unreachable!("room is made without reading"),
    }
}
