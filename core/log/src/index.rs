//! Finds the place of a key's entry in the log from the key's hash.
//!
//! Linear hashing over buckets of one cache line: eight slots, the last of which becomes a link to an overflow
//! bucket when a ninth comes. The table grows by splitting one bucket whenever an insertion passes the load it aims
//! at, so that there is no pause and no second table. A slot holds a reference and a *tag*: the bits of the hash just
//! above those that the smallest table uses. Splitting takes its bits from the tag and so never touches the log.
//!
//! Invariants:
//! - a chain has no holes: every slot before its last entry is full, links stand only in slot 7;
//! - memory stays within its bound: beyond it chains grow longer, then insertions are refused;
//! - `prepare` before an append means that the `insert` after it cannot fail.
//!
//! Not here: comparing keys (the caller does, in the log). Shrinking: TODO when memory moves between index and log.
//! Catalogue: C2.

pub(crate) mod bucket;

use crate::Reference;
use bucket::{
    BUCKET_BYTES, Bucket, Buckets, Content, LINK_SLOT, PLACE_BITS, SLOT_COUNT, TAG_BITS, TAG_SHIFT, What,
    content, entry, link, link_of, reference,
};

/// Entries per bucket above which the table grows. With eight, four buckets of ten have overflowed and an entry takes
/// 11.4 to 11.8 bytes; with less, slots stand empty, with more, look-ups walk.
const LOAD_MAX: u64 = 8;
/// Buckets allocated at once, as a power of two: 64 KiB, so that zeroing them is no pause and little is idle.
const CHUNK_SHIFT_MAX: u32 = 10;
const LEVEL_MIN: u32 = 4;

/// Log memory beyond this cannot be referred to: 4 TiB.
pub(crate) const REGION_BYTES_MAX: u64 = 1 << PLACE_BITS;
/// An index cannot work with less than its smallest table and one chunk of overflow buckets.
pub(crate) const INDEX_BYTES_MIN: u64 = 2 * (BUCKET_BYTES << LEVEL_MIN);

/// The index has reached the bound of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexFull;

/// How far a walk over all buckets has come. Entries move to later buckets only, so a walk misses none of those that
/// were there when it began, however much the index grows meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor(u64);

#[derive(Clone, Copy)]
enum Place {
    Base(u64),
    Overflow(u64),
}

pub(crate) struct Index {
    base: Buckets,
    overflow: Buckets,
    /// Free overflow buckets: the first; each names the next in its slot 0, as a link.
    overflow_free: Option<u64>,
    /// Overflow buckets that were never used start here.
    overflow_next: u64,
    level_first: u32,
    level: u32,
    /// Buckets below this are split already at this level.
    split_next: u64,
    entry_count: u64,
    bytes_max: u64,
    scratch: Vec<u64>,
}

impl Index {
    /// An index for references below `region_bytes`, of at most `bytes_max` bytes.
    pub(crate) fn new(region_bytes: u64, bytes_max: u64) -> Index {
        assert!(region_bytes <= REGION_BYTES_MAX);
        assert!(bytes_max >= INDEX_BYTES_MIN);
        // The smallest table is a thousandth of the log's memory: small enough not to matter, large enough that the
        // tag keeps ten bits to tell entries apart even in the largest table that such a log can fill.
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
            overflow: Buckets::new(chunk_shift),
            overflow_free: None,
            overflow_next: 0,
            level_first: level,
            level,
            split_next: 0,
            entry_count: 0,
            bytes_max,
            scratch: Vec::new(),
        }
    }

    /// Memory that the index holds, in use or not.
    pub(crate) fn bytes(&self) -> u64 {
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

    /// Makes sure that one insertion of this hash has a place.
    pub(crate) fn prepare(&mut self, hash: u64) -> Result<(), IndexFull> {
        if self.overflow_free.is_some() || self.overflow_next < self.overflow.count() {
            return Ok(());
        }
        if self.may_grow(&self.overflow) {
            self.overflow.grow();
            return Ok(());
        }
        let (_, bucket) = self.chain_end(self.bucket_of(hash));
        if bucket.slots[LINK_SLOT] == 0 { Ok(()) } else { Err(IndexFull) }
    }

    /// Inserts a reference that is not in the index yet, after `prepare`.
    pub(crate) fn insert(&mut self, hash: u64, what: What, at: Reference) {
        let slot = entry(self.tag(hash), what, at);
        self.push(self.bucket_of(hash), slot);
        self.entry_count += 1;
        if self.entry_count > LOAD_MAX * self.bucket_count() {
            self.split_one();
        }
    }

    /// Puts another reference in the place of one that is in the index.
    pub(crate) fn replace(&mut self, hash: u64, old: Reference, what: What, new: Reference) {
        let slot = entry(self.tag(hash), what, new);
        let (place, at) = self.position(self.bucket_of(hash), old).expect("what is replaced is in the index");
        self.bucket_mut(place).slots[at] = slot;
    }

    /// Takes out a reference that is in the index.
    pub(crate) fn remove(&mut self, hash: u64, at: Reference) {
        self.remove_from(self.bucket_of(hash), at);
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

    /// Takes out a reference that is in the chain of bucket number `number`.
    pub(crate) fn remove_from(&mut self, number: u64, at: Reference) {
        let (place, hole) = self.position(number, at).expect("what is removed is in the index");
        // The chain's last entry fills the hole.
        let (before_last, last) = self.chain_last(number);
        let bucket = self.bucket_mut(last);
        let filled = bucket.slots.iter().position(|slot| *slot == 0).unwrap_or(SLOT_COUNT);
        let mover = std::mem::take(&mut bucket.slots[filled - 1]);
        if let (Place::Overflow(number), Some(before)) = (last, before_last)
            && filled == 1
        {
            self.bucket_mut(before).slots[LINK_SLOT] = 0;
            self.give_back(number);
        }
        if reference(mover) != at {
            self.bucket_mut(place).slots[hole] = mover;
        }
        self.entry_count -= 1;
    }

    /// The buckets that a walk visits next, at most `count`, and where it goes on, if anywhere.
    pub(crate) fn advance(&self, cursor: Cursor, count: u64) -> (std::ops::Range<u64>, Option<Cursor>) {
        let end = cursor.0.saturating_add(count.max(1)).min(self.bucket_count());
        (cursor.0..end, (end < self.bucket_count()).then_some(Cursor(end)))
    }

    /// Panics when a chain has holes, an entry stands in the wrong bucket, or a count is wrong. Costs a full walk.
    pub(crate) fn check_invariants(&self) {
        let (mut entries, mut linked) = (0, 0);
        for number in 0..self.bucket_count() {
            let mut bucket = self.base.at(number);
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
                linked += 1;
                bucket = self.overflow.at(next);
                assert!(bucket.slots[0] != 0);
            }
        }
        assert_eq!(entries, self.entry_count);
        let mut free = 0;
        let mut next = self.overflow_free;
        while let Some(number) = next {
            free += 1;
            next = link_of(self.overflow.at(number).slots[0]);
        }
        assert_eq!(linked + free, self.overflow_next);
        assert!(self.bytes() <= self.bytes_max);
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

    fn bucket(&self, place: Place) -> &Bucket {
        match place {
            Place::Base(number) => self.base.at(number),
            Place::Overflow(number) => self.overflow.at(number),
        }
    }

    fn bucket_mut(&mut self, place: Place) -> &mut Bucket {
        match place {
            Place::Base(number) => self.base.at_mut(number),
            Place::Overflow(number) => self.overflow.at_mut(number),
        }
    }

    /// The last bucket of a chain and the one before it.
    fn chain_last(&self, number: u64) -> (Option<Place>, Place) {
        let (mut before, mut last) = (None, Place::Base(number));
        while let Some(next) = link_of(self.bucket(last).slots[LINK_SLOT]) {
            before = Some(last);
            last = Place::Overflow(next);
        }
        (before, last)
    }

    fn chain_end(&self, number: u64) -> (Place, &Bucket) {
        let (_, last) = self.chain_last(number);
        (last, self.bucket(last))
    }

    fn position(&self, number: u64, at: Reference) -> Option<(Place, usize)> {
        let mut place = Place::Base(number);
        loop {
            let bucket = self.bucket(place);
            let is_it = |slot: &u64| matches!(content(*slot), Content::Entry(_, other) if other == at);
            if let Some(found) = bucket.slots.iter().position(is_it) {
                return Some((place, found));
            }
            place = Place::Overflow(link_of(bucket.slots[LINK_SLOT])?);
        }
    }

    /// Puts an entry at the end of a chain.
    fn push(&mut self, number: u64, slot: u64) {
        let (last, bucket) = self.chain_end(number);
        if let Some(free) = bucket.slots.iter().position(|slot| *slot == 0) {
            self.bucket_mut(last).slots[free] = slot;
            return;
        }
        let next = self.take_overflow();
        let displaced = std::mem::replace(&mut self.bucket_mut(last).slots[LINK_SLOT], link(next));
        let overflow = self.overflow.at_mut(next);
        *overflow = Bucket::default();
        overflow.slots[0] = displaced;
        overflow.slots[1] = slot;
    }

    fn take_overflow(&mut self) -> u64 {
        match self.overflow_free {
            Some(number) => {
                self.overflow_free = link_of(self.overflow.at(number).slots[0]);
                number
            }
            None => {
                assert!(self.overflow_next < self.overflow.count(), "an insertion is prepared");
                self.overflow_next += 1;
                self.overflow_next - 1
            }
        }
    }

    fn give_back(&mut self, number: u64) {
        let bucket = self.overflow.at_mut(number);
        *bucket = Bucket::default();
        bucket.slots[0] = self.overflow_free.map_or(0, link);
        self.overflow_free = Some(number);
    }

    /// Splits the next bucket, unless memory or the tag's bits have run out: then chains grow instead.
    fn split_one(&mut self) {
        let tag_bit = self.level - self.level_first;
        let target = self.bucket_count();
        if tag_bit >= TAG_BITS || (target >= self.base.count() && !self.may_grow(&self.base)) {
            return;
        }
        if target >= self.base.count() {
            self.base.grow();
        }
        let source = self.split_next;
        let mut slots = std::mem::take(&mut self.scratch);
        self.take_chain(source, &mut slots);
        self.split_next += 1;
        if self.split_next == 1 << self.level {
            self.level += 1;
            self.split_next = 0;
        }
        // Two chains of the same entries never need more overflow buckets than the one of before, which are free now.
        for slot in slots.drain(..) {
            let moves = slot >> (TAG_SHIFT + tag_bit) & 1 == 1;
            self.push(if moves { target } else { source }, slot);
        }
        self.scratch = slots;
    }

    /// Empties a chain into `slots`.
    fn take_chain(&mut self, number: u64, slots: &mut Vec<u64>) {
        let mut bucket = std::mem::take(self.base.at_mut(number));
        loop {
            let next = link_of(bucket.slots[LINK_SLOT]);
            let entries = if next.is_some() { LINK_SLOT } else { SLOT_COUNT };
            slots.extend(bucket.slots[..entries].iter().filter(|slot| **slot != 0));
            let Some(next) = next else { return };
            bucket = *self.overflow.at(next);
            self.give_back(next);
        }
    }

    fn may_grow(&self, buckets: &Buckets) -> bool {
        self.bytes() + (BUCKET_BYTES << buckets.chunk_shift()) <= self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;
    use std::collections::BTreeMap;

    /// Runs random operations against a map from reference to hash.
    fn agrees_with_a_map(seed: u64, bytes_max: u64, hash_of: impl Fn(&mut Rng) -> u64) {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut index = Index::new(1 << 20, bytes_max);
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        let mut refused = 0;
        for step in 0..20_000_u64 {
            let known = model
                .iter()
                .nth(rng.below(model.len().max(1) as u64 / 8 + 1) as usize)
                .map(|(a, b)| (*a, *b));
            match (rng.below(4), known) {
                (0, Some((at, hash))) => {
                    index.remove(hash, Reference(at));
                    model.remove(&at);
                }
                (1, Some((at, hash))) => {
                    let moved = at + (1 << 21);
                    index.replace(hash, Reference(at), What::Object, Reference(moved));
                    model.remove(&at);
                    model.insert(moved, hash);
                }
                _ => {
                    let hash = hash_of(&mut rng);
                    match index.prepare(hash) {
                        Ok(()) => {
                            index.insert(hash, What::Object, Reference(step));
                            model.insert(step, hash);
                        }
                        Err(IndexFull) => refused += 1,
                    }
                }
            }
            if step % 500 == 0 {
                index.check_invariants();
                for (at, hash) in &model {
                    let found = index.find(*hash, |other| (other.0 == *at).then_some(()));
                    assert!(found.is_some(), "reference {at} of seed {seed}");
                }
            }
        }
        assert_eq!(index.entry_count(), model.len() as u64);
        let mut seen = Vec::new();
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let (buckets, next) = index.advance(from, 7);
            buckets.for_each(|number| index.entries_of(number, &mut seen));
            cursor = next;
        }
        let mut seen: Vec<u64> = seen.iter().map(|(_, at)| at.0).collect();
        seen.sort_unstable();
        assert!(seen.iter().eq(model.keys()));
        assert_eq!(refused > 0, bytes_max < 1 << 16, "refused {refused}");
        // What was refused for lack of memory works again after removals.
        for (at, hash) in std::mem::take(&mut model) {
            index.remove(hash, Reference(at));
        }
        index.check_invariants();
        let hash = hash_of(&mut rng);
        assert_eq!(index.prepare(hash), Ok(()));
    }

    // C2
    #[test]
    fn agrees_with_a_map_while_it_grows() {
        for seed in 0..4 {
            agrees_with_a_map(seed, 1 << 20, Rng::u64);
        }
    }

    // C2
    #[test]
    fn stays_correct_when_all_keys_fall_into_one_bucket() {
        agrees_with_a_map(10, 1 << 20, |_| 77);
        agrees_with_a_map(11, 1 << 20, |rng| rng.below(2) << 63 | 5);
    }

    // C2
    #[test]
    fn refuses_at_its_bound_and_takes_up_again() {
        for seed in 20..23 {
            agrees_with_a_map(seed, INDEX_BYTES_MIN + 1024, Rng::u64);
        }
        agrees_with_a_map(23, INDEX_BYTES_MIN, |_| 3);
    }

    // C2
    #[test]
    fn an_entry_takes_less_than_twelve_bytes_at_any_size_from_a_million() {
        let mut index = Index::new(1 << 30, 1 << 40);
        let mut rng = Rng::new(1);
        let mut worst = 0;
        // A doubling of the table: what an entry takes repeats from there.
        for at in 0..2_200_000 {
            let hash = rng.u64();
            index.prepare(hash).unwrap();
            index.insert(hash, What::Object, Reference(at));
            if at > 1_000_000 && at % 10_000 == 0 {
                worst = worst.max(index.bytes() * 1000 / index.entry_count());
            }
        }
        println!("worst: {worst} thousandths of a byte per entry");
        assert!(worst < 12_000, "{worst}");
    }

    // C2
    #[test]
    fn a_walk_sees_every_entry_that_was_there_while_the_index_grows() {
        let mut index = Index::new(1 << 20, 1 << 24);
        let mut rng = Rng::new(3);
        let mut insert = |index: &mut Index, at: u64| {
            let hash = rng.u64();
            index.prepare(hash).unwrap();
            index.insert(hash, What::Object, Reference(at));
        };
        (0..1000).for_each(|at| insert(&mut index, at));
        let mut seen = Vec::new();
        let mut cursor = Some(Cursor::default());
        let mut at = 1000;
        while let Some(from) = cursor {
            let (buckets, next) = index.advance(from, 4);
            buckets.for_each(|number| index.entries_of(number, &mut seen));
            (at..at + 20).for_each(|at| insert(&mut index, at));
            at += 20;
            cursor = next;
        }
        for wanted in 0..1000 {
            assert!(seen.iter().any(|(_, at)| at.0 == wanted), "{wanted}");
        }
    }
}
