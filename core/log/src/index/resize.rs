//! Makes the table larger and smaller online, one bucket at a time, and compacts its memory.
//!
//! An insertion that makes the load exceed `LOAD_MAX` splits one bucket. A removal that makes the load fall below
//! `LOAD_MIN` merges the last bucket back into the one that it was split from. The tag keeps the bits, so neither
//! touches the log. Between the two loads nothing happens, so a count that goes up and down a little moves nothing.
//!
//! A caller that takes in many entries grows the table by the batch, ahead of the expected entries. So the chains of
//! several buckets are fetched together, and most are split while they are short. If the expected entries do not come,
//! buckets are merged again.
//!
//! Chains lead to overflow buckets, but nothing leads from an overflow bucket to its chain. So while too much memory is
//! free, a hand goes round the base buckets, one per step. It moves overflow buckets that lie behind the wanted memory
//! forward. When the hand has gone round once, the chunks behind the wanted memory are free.
//!
//! Removed entries pay for the steps. The steps that a walk's removals pay for are taken in the walk's next step, or by
//! later insertions and removals. Every step is bounded: chains have a maximum, and two chains that together would
//! exceed it are not merged.

use super::bucket::{BUCKET_BYTES, Bucket, LINK_SLOT, SLOT_COUNT, TAG_BITS, TAG_SHIFT, link, link_of};
use super::{CHAIN_BUCKETS_MAX, Index, Place, overflow_count_of};
use crate::prefetch::fetch;
use std::ops::Range;

/// Entries per bucket above which the table grows. With eight, four buckets of ten have overflowed and an entry takes
/// 11.4 to 11.8 bytes. With fewer, slots stay empty; with more, look-ups follow links.
const LOAD_MAX: u64 = 8;
/// Entries per bucket below which the table shrinks. It is an eighth below `LOAD_MAX`, so the number of entries must
/// change by an eighth before growing turns into shrinking.
const LOAD_MIN: u64 = 7;
/// Buckets whose chains are fetched together before they are split.
const TOGETHER: u64 = 16;

/// The last bucket of a chain that is being written, and the number of its slots that are filled.
struct End {
    place: Place,
    bucket: Bucket,
    filled: usize,
}

impl End {
    fn new(number: u64) -> End {
        End { place: Place::Base(number), bucket: Bucket::default(), filled: 0 }
    }
}

impl Index {
    /// Splits the next bucket when there are too many entries. If memory or the tag's bits have run out, chains grow
    /// instead.
    #[inline]
    pub(super) fn grow_step(&mut self) {
        if self.entry_count > LOAD_MAX * self.bucket_count() {
            self.split();
        }
    }

    /// Whether there is memory, and an unused bit of the tag, for splitting the next bucket.
    fn may_split(&self) -> bool {
        self.level - self.level_first < TAG_BITS
            && (self.bucket_count() < self.base.count() || self.may_grow())
    }

    /// Splits the next bucket, if it may be.
    fn split(&mut self) {
        if !self.may_split() {
            return;
        }
        let (tag_bit, target) = (self.level - self.level_first, self.bucket_count());
        if target >= self.base.count() {
            self.base.grow();
        }
        let source = self.split_next;
        self.ends.split(source, target);
        let mut slots = std::mem::take(&mut self.scratch);
        self.take_chain(source, &mut slots);
        self.split_next += 1;
        if self.split_next == 1 << self.level {
            self.level += 1;
            self.split_next = 0;
        }
        // Two chains of the same entries never need more overflow buckets than the one chain before, whose overflow
        // buckets are free now.
        let mut ends = [End::new(source), End::new(target)];
        for slot in slots.drain(..) {
            let end = &mut ends[(slot >> (TAG_SHIFT + tag_bit) & 1) as usize];
            if end.filled == SLOT_COUNT {
                self.go_on(end);
            }
            end.bucket.slots[end.filled] = slot;
            end.filled += 1;
        }
        ends.into_iter().for_each(|end| *self.bucket_mut(end.place) = end.bucket);
        self.scratch = slots;
    }

    /// Puts an empty overflow bucket behind one that is full.
    #[cold]
    fn go_on(&mut self, end: &mut End) {
        let next = self.overflow.take().expect("room for what is pushed is made before");
        let displaced = std::mem::replace(&mut end.bucket.slots[LINK_SLOT], link(next));
        *self.bucket_mut(end.place) = end.bucket;
        *end = End { place: Place::Overflow(next), bucket: Bucket::default(), filled: 1 };
        end.bucket.slots[0] = displaced;
    }

    /// Tells the index how many entries it is expected to have in the end. The table grows ahead of them (`make_way`),
    /// and does not become smaller than they need. Buckets beyond that are to be merged again.
    pub(crate) fn expect(&mut self, entry_count: u64) {
        self.expected_count = entry_count;
        let bucket_count_max = entry_count.max(self.entry_count).div_ceil(LOAD_MIN);
        self.steps_owed = self.steps_owed.max(self.bucket_count().saturating_sub(bucket_count_max));
    }

    /// Makes the table as large as it will be with `count` more entries. If still more entries are expected, the table
    /// grows ahead for them, by at most one bucket for each of the `count` entries: splitting a bucket that holds
    /// little costs little, and chains stay short meanwhile.
    pub(crate) fn make_way(&mut self, count: u64) {
        self.grow_for(self.entry_count + count);
        // The rest of the memory must suffice for overflow buckets, however many entries come.
        if self.base.count() * BUCKET_BYTES + self.chunk_bytes() <= self.bytes_max / 3 * 2 {
            self.grow_for(self.expected_count.min(LOAD_MAX * (self.bucket_count() + count)));
        }
    }

    /// Makes the table as large as `entry_count` entries need it, as far as memory allows.
    pub(crate) fn grow_for(&mut self, entry_count: u64) {
        while entry_count > LOAD_MAX * self.bucket_count() && self.may_split() {
            let count = entry_count.div_ceil(LOAD_MAX) - self.bucket_count();
            let end = (1 << self.level).min(self.split_next + count.min(TOGETHER));
            self.fetch_chains(self.split_next..end);
            for _ in self.split_next..end {
                self.split();
            }
        }
    }

    /// Begins to fetch the first two buckets of each of these chains, all together.
    fn fetch_chains(&self, numbers: Range<u64>) {
        numbers.clone().for_each(|number| fetch(self.base.at(number)));
        numbers.for_each(|number| {
            if let Some(next) = link_of(self.base.at(number).slots[LINK_SLOT]) {
                fetch(self.overflow.at(next));
            }
        });
    }

    /// Takes the steps of shrinking that are owed, at most `steps_max`. False if no more are owed.
    #[inline]
    pub(crate) fn shrink(&mut self, steps_max: u64) -> bool {
        if self.steps_owed > 0 {
            self.shrink_some(steps_max);
        }
        self.steps_owed > 0
    }

    fn shrink_some(&mut self, steps_max: u64) {
        for _ in 0..steps_max.min(self.steps_owed) {
            self.steps_owed -= 1;
            if !self.shrink_step() {
                self.steps_owed = 0;
                return;
            }
        }
    }

    /// Makes the table smaller by a bucket and its memory by a chunk, if they are too large. False if there was nothing
    /// to do.
    fn shrink_step(&mut self) -> bool {
        let merged = self.merge_last();
        let is_scattered = self.overflow.count() > self.overflow.number_wanted();
        if is_scattered {
            self.move_chain_forward();
            self.overflow.release_last();
        }
        merged || is_scattered
    }

    pub(super) fn may_grow(&self) -> bool {
        self.bytes() + self.chunk_bytes() <= self.bytes_max
    }

    /// Merges the last bucket into the one that it was split from, if there are too few entries. Does nothing if there
    /// is no memory for the overflow buckets of the longer chain, or if that chain would be too long.
    fn merge_last(&mut self) -> bool {
        let count = self.bucket_count();
        if self.entry_count.max(self.expected_count) >= LOAD_MIN * count || count == 1 << self.level_first {
            return false;
        }
        let (level, target) = match self.split_next {
            0 => (self.level - 1, (1 << (self.level - 1)) - 1),
            next => (self.level, next - 1),
        };
        let source = count - 1;
        let entry_counts = [source, target].map(|number| self.chain_entry_count(number));
        let overflow_count = overflow_count_of(entry_counts[0] + entry_counts[1]);
        if 1 + overflow_count > CHAIN_BUCKETS_MAX {
            return false;
        }
        let freed = entry_counts.map(overflow_count_of).iter().sum();
        if self.overflow.free_count() < overflow_count.saturating_sub(freed) {
            if !self.may_grow() {
                return false;
            }
            self.overflow.grow();
        }
        self.ends.merge(source, target);
        let mut slots = std::mem::take(&mut self.scratch);
        self.take_chain(source, &mut slots);
        (self.level, self.split_next) = (level, target);
        let mut end = Place::Base(target);
        for slot in slots.drain(..) {
            end = self.push(end, slot);
        }
        self.scratch = slots;
        if self.base.count() - (1 << self.base.chunk_shift()) >= source {
            self.base.shrink();
        }
        true
    }

    /// Moves those overflow buckets of one chain that lie behind the wanted memory forward.
    fn move_chain_forward(&mut self) {
        let wanted = self.overflow.number_wanted();
        self.hand = if self.hand < self.bucket_count() { self.hand } else { 0 };
        let mut place = Place::Base(self.hand);
        while let Some(mut next) = link_of(self.bucket(place).slots[LINK_SLOT]) {
            if next >= wanted {
                let free = self.overflow.take().expect("there is room below what is wanted");
                assert!(free < wanted);
                *self.overflow.at_mut(free) = *self.overflow.at(next);
                self.overflow.give_back(next);
                self.bucket_mut(place).slots[LINK_SLOT] = link(free);
                next = free;
            }
            place = Place::Overflow(next);
        }
        self.hand += 1;
    }

    pub(super) fn chain_entry_count(&self, number: u64) -> u64 {
        let (mut count, mut bucket): (u64, &Bucket) = (0, self.base.at(number));
        while let Some(next) = link_of(bucket.slots[LINK_SLOT]) {
            count += LINK_SLOT as u64;
            bucket = self.overflow.at(next);
        }
        count + bucket.slots.iter().filter(|slot| **slot != 0).count() as u64
    }

    /// Empties a chain into `slots`.
    fn take_chain(&mut self, number: u64, slots: &mut Vec<u64>) {
        let mut bucket = std::mem::take(self.base.at_mut(number));
        while let Some(next) = link_of(bucket.slots[LINK_SLOT]) {
            slots.extend_from_slice(&bucket.slots[..LINK_SLOT]);
            bucket = *self.overflow.at(next);
            self.overflow.give_back(next);
        }
        // All slots are copied and the empty ones dropped again, so that the processor has no branch to predict.
        let empty = SLOT_COUNT - bucket.filled();
        slots.extend_from_slice(&bucket.slots);
        slots.truncate(slots.len() - empty);
    }
}
