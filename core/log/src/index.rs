//! Finds the place of a key's entry in the log from the key's hash.
//!
//! Linear hashing over buckets of one cache line: eight slots, the last of which becomes a link to an overflow
//! bucket when a ninth entry comes. The table grows and shrinks by one bucket at a time (`resize`), so that there is
//! no pause and no second table. A slot holds a reference and a *tag*: the bits of the hash just above those that the
//! smallest table uses. Splitting takes its bits from the tag and so never touches the log.
//!
//! Invariants:
//! - a chain has no holes: every slot before its last entry is full, links stand only in slot 7, and an overflow
//!   bucket holds at least two entries, so that the number of buckets follows from the number of entries;
//! - no chain is longer than `CHAIN_BUCKETS_MAX`, so that every operation is bounded, whatever the hashes are;
//! - memory stays within its bound: at the bound chains grow longer, then insertions are refused. There are two
//!   exceptions. When the first objects with a time to live come into a full index, the eight bytes for each base
//!   bucket (`ends`) are added to the bound. Entries of a log that is taken over may take an eighth more;
//! - after a successful `prepare` before an append, the `insert` after it cannot fail;
//! - a walk sees every entry that is in the index from the walk's begin to its end, whatever happens between its steps.
//!
//! Not here: comparing keys (the caller does, in the log). Catalogue: C2.

pub(crate) mod bucket;
mod ends;
mod overflow;
mod resize;
#[cfg(test)]
mod tests;

use crate::Reference;
use crate::prefetch::fetch;
use bucket::{
    BUCKET_BYTES, Bucket, Buckets, CHUNK_SHIFT_MAX, Content, LINK_SLOT, PLACE_BITS, SLOT_COUNT, TAG_BITS,
    TAG_SHIFT, What, content, entry, is_entry, is_entry_of, link, link_of, moved,
};
use ends::Ends;
use overflow::Overflow;
use ramhold_base::ClusterTime;
use ramhold_base::planted::{Defect, planted};

const LEVEL_MIN: u32 = 4;
/// Steps of shrinking that each removed entry pays for. Merging alone needs one step for seven removals. With one step
/// for each, the hand goes once round all buckets while a seventh of the entries is removed.
const REMOVE_STEPS: u64 = 1;
/// The most steps that an insertion or a removal takes: a removal's own, and some of those that a walk has left over.
const STEPS_MAX: u64 = 4;
/// The most buckets of a chain. With hashes that nobody chose on purpose, chains have five at most. 64 buckets hold 449
/// entries, and a search through them takes some ten microseconds.
const CHAIN_BUCKETS_MAX: u64 = 64;

/// A start may take one part in so many of the index's memory beyond its bound.
const LENT_PART: u64 = 8;

/// The log memory that references can address: 4 TiB.
pub(crate) const REGION_BYTES_MAX: u64 = 1 << PLACE_BITS;
/// The least memory of an index: its smallest table and one chunk of overflow buckets.
pub(crate) const INDEX_BYTES_MIN: u64 = 2 * (BUCKET_BYTES << LEVEL_MIN);

/// The index has reached the bound of its memory, or the chain of this hash has reached `CHAIN_BUCKETS_MAX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexFull;

/// How far a walk over all buckets has come.
///
/// A cursor is a place among all hashes, ordered by their bits from the lowest to the highest. In this order the hashes
/// of one bucket are adjacent, splitting a bucket cuts its stretch in two, and merging two buckets joins adjacent
/// stretches. So all entries before the cursor have been visited and all entries behind it will be, however the table
/// changes between steps. If a merge joins two stretches across the cursor, some entries are visited twice. The index
/// does not know of the walks under way: there may be several, and a walk may be given up in the middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor(u64);

impl Cursor {
    pub(crate) fn at(position: u64) -> Cursor {
        Cursor(position)
    }

    pub(crate) fn position(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Base(u64),
    Overflow(u64),
}

/// The first entry of a hash, as far as its own bucket knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum First {
    Entry(Reference),
    /// It may be in an overflow bucket.
    MayBeBehind,
    None,
}

/// The place for the next entry of a chain. Valid until the index changes.
#[derive(Clone, Copy)]
pub(crate) struct Vacancy {
    /// The last bucket of the chain, and the number of its slots that are filled.
    last: Place,
    filled: usize,
}

/// The place of an entry. Valid until the index changes otherwise than by `repoint`.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    place: Place,
    slot: usize,
}

pub(crate) struct Index {
    base: Buckets,
    overflow: Overflow,
    /// Lower bounds of the times at which objects end, for each base bucket's chain.
    ends: Ends,
    level_first: u32,
    level: u32,
    /// Buckets below this number are already split at this level.
    split_next: u64,
    entry_count: u64,
    /// The number of entries that the index is expected to have soon.
    expected_count: u64,
    bytes_max: u64,
    /// Bytes beyond that, for entries of a log that was taken over.
    lent_bytes: u64,
    /// The base bucket whose overflow buckets are moved forward next.
    hand: u64,
    /// Steps of shrinking that removed entries have paid for, and that are still to be taken.
    steps_owed: u64,
    scratch: Vec<u64>,
}

impl Index {
    /// An index for references below `region_bytes`, of at most `bytes_max` bytes.
    pub(crate) fn new(region_bytes: u64, bytes_max: u64) -> Index {
        assert!(region_bytes <= REGION_BYTES_MAX);
        assert!(bytes_max >= INDEX_BYTES_MIN);
        // The smallest table takes a thousandth of the log's memory. That is small enough not to matter, and large
        // enough that the tag keeps ten bits to tell entries apart even in the largest table that such a log can fill.
        let mut level = (region_bytes.max(1).ilog2()).saturating_sub(16).max(LEVEL_MIN);
        while 2 * (BUCKET_BYTES << level) > bytes_max {
            level -= 1;
        }
        let chunk_shift = level.min(CHUNK_SHIFT_MAX);
        let mut base = Buckets::new(chunk_shift);
        while base.count() < 1 << level {
            base.grow();
        }
        Index {
            base,
            overflow: Overflow::new(chunk_shift),
            ends: Ends::new(chunk_shift),
            level_first: level,
            level,
            split_next: 0,
            entry_count: 0,
            expected_count: 0,
            bytes_max,
            lent_bytes: 0,
            hand: 0,
            steps_owed: 0,
            scratch: Vec::new(),
        }
    }

    /// Memory of all buckets, in use or not, and of the bounds of their objects' ends.
    pub(crate) fn bytes(&self) -> u64 {
        self.bucket_bytes() + self.ends.bytes()
    }

    fn bucket_bytes(&self) -> u64 {
        (self.base.count() + self.overflow.count()) * BUCKET_BYTES
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.entry_count
    }

    pub(crate) fn bucket_count(&self) -> u64 {
        (1 << self.level) + self.split_next
    }

    /// Asks `answer` about every entry whose tag is that of `hash` until it has an answer.
    #[inline]
    pub(crate) fn find<T>(&self, hash: u64, mut answer: impl FnMut(Reference) -> Option<T>) -> Option<T> {
        let tag = self.tag(hash);
        let mut bucket = self.base.at(self.bucket_of(hash));
        loop {
            for slot in bucket.slots {
                if slot >> TAG_SHIFT == tag
                    && let Content::Entry(_, at) = content(slot)
                    && let Some(found) = answer(at)
                {
                    return Some(found);
                }
            }
            match content(bucket.slots[LINK_SLOT]) {
                Content::Link(next) => bucket = self.overflow.at(next),
                Content::Empty | Content::Entry(..) => return None,
            }
        }
    }

    /// The first entry that `find` asks about, if it is in the hash's own bucket.
    #[inline]
    pub(crate) fn first(&self, hash: u64) -> First {
        let (tag, slots) = (self.tag(hash), &self.base.at(self.bucket_of(hash)).slots);
        // The place of the tag is practically random. A mask of all slots leaves the processor one branch to predict.
        let alike =
            slots.iter().rev().fold(0u32, |mask, slot| mask << 1 | u32::from(slot >> TAG_SHIFT == tag));
        let slot = slots.get(alike.trailing_zeros() as usize).copied().unwrap_or_default();
        match content(slot) {
            Content::Entry(_, at) => First::Entry(at),
            Content::Empty if link_of(slots[LINK_SLOT]).is_none() => First::None,
            Content::Empty | Content::Link(_) => First::MayBeBehind,
        }
    }

    /// The first slot of the hash's bucket. A caller that is about to look up several hashes reads it for all of them
    /// first, so that the processor fetches their cache lines at the same time. The value has no meaning.
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> u64 {
        self.base.at(self.bucket_of(hash)).slots[0]
    }

    /// As `touch`, for the overflow bucket that the hash's bucket links to, if there is one.
    #[inline]
    pub(crate) fn touch_next(&self, hash: u64) -> u64 {
        link_of(self.base.at(self.bucket_of(hash)).slots[LINK_SLOT])
            .map_or(0, |next| self.overflow.at(next).slots[0])
    }

    /// Begins to fetch the hash's bucket, and does not wait for it.
    #[inline]
    pub(crate) fn fetch(&self, hash: u64) {
        fetch(self.base.at(self.bucket_of(hash)));
    }

    /// As `fetch`, for the overflow bucket that the hash's bucket links to, if there is one.
    #[inline]
    pub(crate) fn fetch_next(&self, hash: u64) {
        if let Some(next) = link_of(self.base.at(self.bucket_of(hash)).slots[LINK_SLOT]) {
            fetch(self.overflow.at(next));
        }
    }

    /// Whether the index holds exactly this reference under this hash.
    #[inline]
    pub(crate) fn holds(&self, hash: u64, at: Reference) -> bool {
        self.spot(hash, at).is_some()
    }

    /// The place at which the index holds exactly this reference under this hash, if it does.
    #[inline]
    pub(crate) fn spot(&self, hash: u64, at: Reference) -> Option<Spot> {
        self.position(self.bucket_of(hash), at).map(|(place, slot)| Spot { place, slot })
    }

    /// The bits of a hash that are known from a slot and the number of its bucket.
    #[inline]
    pub(crate) fn known_bits(&self, hash: u64) -> u64 {
        hash & ((1 << (self.level_first + TAG_BITS)) - 1)
    }

    /// The known bits of the hash of a reference that is in the chain of bucket number `number`.
    pub(crate) fn known_bits_of(&self, number: u64, at: Reference) -> u64 {
        let (place, slot) = self.position(number, at).expect("whoever asks has just seen it");
        let tag = self.bucket(place).slots[slot] >> TAG_SHIFT;
        number & ((1 << self.level_first) - 1) | tag << self.level_first
    }

    /// Whether so many more entries surely have places, if nobody chose their hashes on purpose: half of all slots hold
    /// them, however they fall into chains.
    pub(crate) fn has_places(&self, count: u64) -> bool {
        let slots = self.bytes_max / BUCKET_BYTES * SLOT_COUNT as u64;
        self.entry_count.saturating_add(count) <= slots / 2
    }

    /// Makes room for one insertion of this hash.
    pub(crate) fn prepare(&mut self, hash: u64) -> Result<(), IndexFull> {
        let (mut last, mut chain_buckets) = (Place::Base(self.bucket_of(hash)), 1);
        while let Some(next) = link_of(self.bucket(last).slots[LINK_SLOT]) {
            last = Place::Overflow(next);
            chain_buckets += 1;
        }
        self.room_behind(last, chain_buckets)
    }

    /// Makes room for one insertion of an entry that was in an index of the same size before. In another order the same
    /// entries may take somewhat more memory.
    pub(crate) fn prepare_again(&mut self, hash: u64) -> Result<(), IndexFull> {
        match planted(Defect::IndexFullAtStart) {
            true => self.prepare(hash),
            false => self.prepare_lent(hash, (self.bytes_max / LENT_PART).max(self.chunk_bytes())),
        }
    }

    /// Makes room for one insertion of an entry that is in the indexes of other logs already. It takes half as much beyond the
    /// bound as a start may: the next start takes the same entries in another order. An index of less than 16
    /// chunks has nothing to lend.
    pub(crate) fn prepare_recovered(&mut self, hash: u64) -> Result<(), IndexFull> {
        match planted(Defect::IndexFullWhenRebuilt) {
            true => self.prepare(hash),
            false => self.prepare_lent(hash, self.bytes_max / LENT_PART / 2),
        }
    }

    /// Makes room for one insertion, with so much memory beyond the bound if need be.
    fn prepare_lent(&mut self, hash: u64, lent_bytes: u64) -> Result<(), IndexFull> {
        let prepared = self.prepare(hash);
        if prepared.is_ok() {
            return prepared;
        }
        let bytes_max = self.bytes_max;
        self.lent_bytes = self.lent_bytes.max(lent_bytes);
        self.bytes_max += lent_bytes;
        let prepared = self.prepare(hash);
        self.bytes_max = bytes_max;
        prepared
    }

    /// The place at which an insertion of this hash would put its entry, with room made for it. `None` if there is an
    /// entry that may be of the same key.
    #[inline]
    pub(crate) fn vacancy(&mut self, hash: u64) -> Result<Option<Vacancy>, IndexFull> {
        let tag = self.tag(hash);
        let (mut last, mut chain_buckets) = (Place::Base(self.bucket_of(hash)), 1);
        loop {
            let bucket = self.bucket(last);
            if bucket.slots.iter().any(|slot| slot >> TAG_SHIFT == tag && is_entry(*slot)) {
                return Ok(None);
            }
            let Some(next) = link_of(bucket.slots[LINK_SLOT]) else { break };
            last = Place::Overflow(next);
            chain_buckets += 1;
        }
        self.room_behind(last, chain_buckets)?;
        Ok(Some(Vacancy { last, filled: self.bucket(last).filled() }))
    }

    /// Inserts a reference that is not in the index yet, at a vacancy.
    #[inline]
    pub(crate) fn fill(&mut self, vacancy: Vacancy, hash: u64, what: What, at: Reference) {
        let slot = entry(self.tag(hash), what, at);
        match vacancy {
            Vacancy { last, filled: SLOT_COUNT } => _ = self.push_behind(last, slot),
            Vacancy { last, filled } => self.bucket_mut(last).slots[filled] = slot,
        }
        self.inserted();
    }

    /// Inserts a reference that is not in the index yet, after `prepare`.
    pub(crate) fn insert(&mut self, hash: u64, what: What, at: Reference) {
        let slot = entry(self.tag(hash), what, at);
        self.push(Place::Base(self.bucket_of(hash)), slot);
        self.inserted();
    }

    /// Puts another reference in the place of one that is in the index.
    pub(crate) fn replace(&mut self, hash: u64, old: Reference, what: What, new: Reference) {
        let slot = entry(self.tag(hash), what, new);
        let (place, at) = self.position(self.bucket_of(hash), old).expect("what is replaced is in the index");
        self.bucket_mut(place).slots[at] = slot;
    }

    /// Puts another reference in the place of one that is in the index. The sort of entry that it refers to stays.
    #[inline]
    pub(crate) fn repoint(&mut self, spot: Spot, old: Reference, new: Reference) {
        let slot = &mut self.bucket_mut(spot.place).slots[spot.slot];
        assert!(is_entry_of(*slot, old), "the index has not changed since the spot was looked for");
        *slot = moved(*slot, new);
    }

    /// Takes out a reference that is in the index.
    pub(crate) fn remove(&mut self, hash: u64, at: Reference) {
        self.remove_from(self.bucket_of(hash), at);
        self.shrink(STEPS_MAX);
    }

    /// No object that the index holds ends before this time. `None` if no object ends at all.
    #[inline]
    pub(crate) fn first_end(&self) -> Option<ClusterTime> {
        self.ends.first()
    }

    /// The number of a bucket that may hold an expired object. Valid until the next insertion or removal.
    pub(crate) fn due(&self, now: ClusterTime) -> Option<u64> {
        self.ends.due(now)
    }

    /// Notes that an object of this hash that ends at `end` is in the index, or is about to be inserted.
    #[inline]
    pub(crate) fn lower_end(&mut self, hash: u64, end: ClusterTime) {
        self.ends.lower(self.bucket_of(hash), end);
    }

    /// Notes that no object of bucket number `number` ends before `end`. `None` if no object ends at all.
    pub(crate) fn set_end(&mut self, number: u64, end: Option<ClusterTime>) {
        self.ends.set(number, end);
    }

    /// The time before which no object of bucket number `number` ends.
    pub(crate) fn end_of(&self, number: u64) -> ClusterTime {
        self.ends.bound(number)
    }

    /// Appends all references of the chain of bucket number `number`.
    pub(crate) fn entries_of(&self, number: u64, out: &mut Vec<(What, Reference)>) {
        let mut bucket = self.base.at(number);
        loop {
            for slot in bucket.slots {
                match content(slot) {
                    Content::Entry(what, at) => out.push((what, at)),
                    Content::Link(_) | Content::Empty => {}
                }
            }
            match content(bucket.slots[LINK_SLOT]) {
                Content::Link(next) => bucket = self.overflow.at(next),
                Content::Empty | Content::Entry(..) => return,
            }
        }
    }

    /// Takes out a reference that is in the chain of bucket number `number`. The buckets keep their numbers: the next
    /// removal or step of a walk makes the table smaller.
    pub(crate) fn remove_from(&mut self, number: u64, at: Reference) {
        let hole = self.position(number, at).expect("what is removed is in the index");
        // The chain's last entry fills the hole. If one entry is left in an overflow bucket, it replaces the link.
        let (mut before_last, mut last) = (None, Place::Base(number));
        while let Some(next) = link_of(self.bucket(last).slots[LINK_SLOT]) {
            before_last = Some(last);
            last = Place::Overflow(next);
        }
        let bucket = self.bucket_mut(last);
        let filled = bucket.filled();
        let mover = std::mem::take(&mut bucket.slots[filled - 1]);
        if hole != (last, filled - 1) {
            self.bucket_mut(hole.0).slots[hole.1] = mover;
        }
        if let (Place::Overflow(number), Some(before)) = (last, before_last)
            && filled == 2
        {
            self.bucket_mut(before).slots[LINK_SLOT] = self.overflow.at(number).slots[0];
            self.overflow.give_back(number);
        }
        self.entry_count -= 1;
        self.steps_owed += REMOVE_STEPS;
    }

    /// The buckets that a walk visits next, at most `count`, and the cursor with which it goes on, if it is not over.
    /// Begin with the default cursor. The numbers are valid until the next `insert`, `remove` or `advance`.
    ///
    /// Makes the table smaller first. It takes as many steps as the walk would pay for if it removed every entry of the
    /// buckets that it visits.
    pub(crate) fn advance(&mut self, cursor: Cursor, count: u64) -> (Vec<u64>, Option<Cursor>) {
        let count = count.clamp(1, self.bucket_count());
        self.shrink(count * SLOT_COUNT as u64);
        let mut numbers = Vec::new();
        let mut next = Some(cursor.0);
        while let Some(position) = next
            && (numbers.len() as u64) < count
        {
            let number = self.bucket_of(position.reverse_bits());
            let bits = self.level + u32::from(number < self.split_next || number >> self.level == 1);
            numbers.push(number);
            next = (position | u64::MAX >> bits).checked_add(1);
        }
        // The buckets lie far apart. One read from each lets the processor fetch their cache lines together.
        std::hint::black_box(numbers.iter().fold(0, |sum, number| sum ^ self.base.at(*number).slots[0]));
        (numbers, next.map(Cursor))
    }

    /// Panics when a chain has holes or is too long, an entry stands in the wrong bucket, or a count is wrong. Costs a
    /// full walk.
    pub(crate) fn check_invariants(&self) {
        let (mut entries, mut linked) = (0, Vec::new());
        for number in 0..self.bucket_count() {
            let mut bucket = self.base.at(number);
            let linked_before = linked.len() as u64;
            let entries_before = entries;
            loop {
                let filled = bucket.slots.iter().position(|slot| *slot == 0).unwrap_or(SLOT_COUNT);
                assert!(bucket.slots[filled..].iter().all(|slot| *slot == 0));
                for slot in &bucket.slots[..filled] {
                    if let Content::Entry(..) = content(*slot) {
                        entries += 1;
                        let known = self.level_first;
                        let low = number & ((1 << known) - 1) | (slot >> TAG_SHIFT) << known;
                        assert_eq!(self.bucket_of(low), number);
                    }
                }
                assert!(
                    bucket.slots[..LINK_SLOT].iter().all(|slot| !matches!(content(*slot), Content::Link(_)))
                );
                let Content::Link(next) = content(bucket.slots[LINK_SLOT]) else { break };
                linked.push(next);
                bucket = self.overflow.at(next);
                assert!(bucket.slots[1] != 0);
            }
            let overflow_count = linked.len() as u64 - linked_before;
            assert_eq!(overflow_count, overflow_count_of(entries - entries_before));
            assert!(overflow_count < CHAIN_BUCKETS_MAX);
        }
        assert_eq!(entries, self.entry_count);
        linked.sort_unstable();
        assert!(linked.windows(2).all(|pair| pair[0] < pair[1]));
        self.overflow.check_invariants(&linked);
        assert!(self.base.count() - self.bucket_count() < 1 << self.base.chunk_shift());
        assert!(self.bucket_bytes() <= self.bytes_max + self.lent_bytes);
        self.ends.check_invariants(self.bucket_count());
    }

    #[inline]
    fn bucket_of(&self, hash: u64) -> u64 {
        let low = hash & ((1 << self.level) - 1);
        if low < self.split_next { hash & ((2 << self.level) - 1) } else { low }
    }

    #[inline]
    fn tag(&self, hash: u64) -> u64 {
        hash >> self.level_first & ((1 << TAG_BITS) - 1)
    }

    #[inline]
    fn bucket(&self, place: Place) -> &Bucket {
        match place {
            Place::Base(number) => self.base.at(number),
            Place::Overflow(number) => self.overflow.at(number),
        }
    }

    #[inline]
    fn bucket_mut(&mut self, place: Place) -> &mut Bucket {
        match place {
            Place::Base(number) => self.base.at_mut(number),
            Place::Overflow(number) => self.overflow.at_mut(number),
        }
    }

    #[inline]
    fn position(&self, number: u64, at: Reference) -> Option<(Place, usize)> {
        let mut place = Place::Base(number);
        loop {
            let bucket = self.bucket(place);
            if let Some(found) = bucket.slots.iter().position(|slot| is_entry_of(*slot, at)) {
                return Some((place, found));
            }
            place = Place::Overflow(link_of(bucket.slots[LINK_SLOT])?);
        }
    }

    /// Makes room for one more entry in the chain of `chain_buckets` buckets that ends with `last`.
    #[inline]
    fn room_behind(&mut self, last: Place, chain_buckets: u64) -> Result<(), IndexFull> {
        if self.bucket(last).slots[LINK_SLOT] == 0
            || (chain_buckets < CHAIN_BUCKETS_MAX && self.overflow.free_count() > 0)
        {
            return Ok(());
        }
        if chain_buckets >= CHAIN_BUCKETS_MAX || !self.may_grow() {
            return Err(IndexFull);
        }
        self.overflow.grow();
        Ok(())
    }

    #[inline]
    fn inserted(&mut self) {
        self.entry_count += 1;
        self.grow_step();
        self.shrink(STEPS_MAX);
    }

    /// Puts an entry at the end of the chain that the bucket at `place` is in. Returns the last bucket of the chain.
    fn push(&mut self, place: Place, slot: u64) -> Place {
        let mut last = place;
        while let Some(next) = link_of(self.bucket(last).slots[LINK_SLOT]) {
            last = Place::Overflow(next);
        }
        let bucket = self.bucket_mut(last);
        if let Some(free) = bucket.slots.iter().position(|slot| *slot == 0) {
            bucket.slots[free] = slot;
            return last;
        }
        self.push_behind(last, slot)
    }

    /// Puts an entry behind the last bucket of a chain, which is full. Returns the new last bucket.
    fn push_behind(&mut self, last: Place, slot: u64) -> Place {
        let next = self.overflow.take().expect("room for what is pushed is made before");
        let displaced = std::mem::replace(&mut self.bucket_mut(last).slots[LINK_SLOT], link(next));
        let overflow = self.overflow.at_mut(next);
        overflow.slots[0] = displaced;
        overflow.slots[1] = slot;
        Place::Overflow(next)
    }

    fn chunk_bytes(&self) -> u64 {
        BUCKET_BYTES << self.base.chunk_shift()
    }
}

/// The number of overflow buckets of a chain with `entry_count` entries.
fn overflow_count_of(entry_count: u64) -> u64 {
    entry_count.saturating_sub(SLOT_COUNT as u64).div_ceil(LINK_SLOT as u64)
}
