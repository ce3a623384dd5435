//! The overflow buckets of chains: which of them are in use, and which memory can be given back.
//!
//! The lowest free bucket of the lowest chunk that has one is taken first, so that the buckets in use gather at the
//! front. Buckets from `number_wanted` on are to be moved forward by the caller, which knows the chains. A last chunk
//! without a bucket in use can then be released. One bit per bucket tells whether it is in use, which takes two
//! thousandths of the memory.
//!
//! Not here: the contents of the buckets, and the links that lead to them.

use super::bucket::{Bucket, Buckets, CHUNK_SHIFT_MAX};

const CHUNK_WORDS: usize = (1 << CHUNK_SHIFT_MAX) / 64;
/// Free buckets beside those of the last chunk may be one in this many of the buckets in use, so that chunks do not
/// come and go all the time.
const SPARE_PART: u64 = 16;

pub(super) struct Overflow {
    buckets: Buckets,
    chunks: Vec<Chunk>,
    /// One bit for each chunk: whether it has a free bucket.
    roomy: Vec<u64>,
    /// All words of `roomy` before this one are zero.
    roomy_first: usize,
    used_count: u64,
}

struct Chunk {
    used_count: u64,
    /// One bit for each bucket: whether it is in use. Beyond a chunk's end all bits are set.
    used: [u64; CHUNK_WORDS],
}

impl Overflow {
    pub(super) fn new(chunk_shift: u32) -> Overflow {
        assert!(chunk_shift <= CHUNK_SHIFT_MAX);
        Overflow {
            buckets: Buckets::new(chunk_shift),
            chunks: Vec::new(),
            roomy: Vec::new(),
            roomy_first: 0,
            used_count: 0,
        }
    }

    /// The number of buckets, in use or not.
    pub(super) fn count(&self) -> u64 {
        self.buckets.count()
    }

    pub(super) fn free_count(&self) -> u64 {
        self.count() - self.used_count
    }

    pub(super) fn grow(&mut self) {
        let number = self.chunks.len();
        self.buckets.grow();
        let size = 1 << self.buckets.chunk_shift();
        let used = std::array::from_fn(|word| match size - size.min(word * 64) {
            0 => u64::MAX,
            count @ 1..64 => u64::MAX << count,
            _ => 0,
        });
        self.chunks.push(Chunk { used_count: 0, used });
        if self.roomy.len() == number / 64 {
            self.roomy.push(0);
        }
        self.set_roomy(number);
    }

    /// Takes a bucket that is not in use, emptied. `None` if there is none.
    pub(super) fn take(&mut self) -> Option<u64> {
        let words = &self.roomy[self.roomy_first..];
        self.roomy_first += words.iter().position(|word| *word != 0)?;
        let chunk_number = self.roomy_first * 64 + self.roomy[self.roomy_first].trailing_zeros() as usize;
        let chunk = &mut self.chunks[chunk_number];
        let word = chunk.used.iter().position(|word| *word != u64::MAX).expect("the chunk has room");
        let bit = chunk.used[word].trailing_ones();
        chunk.used[word] |= 1 << bit;
        chunk.used_count += 1;
        self.used_count += 1;
        if chunk.used_count == 1 << self.buckets.chunk_shift() {
            self.roomy[chunk_number / 64] &= !(1 << (chunk_number % 64));
        }
        let within = word as u64 * 64 + u64::from(bit);
        let number = ((chunk_number as u64) << self.buckets.chunk_shift()) + within;
        *self.at_mut(number) = Bucket::default();
        Some(number)
    }

    pub(super) fn give_back(&mut self, number: u64) {
        let chunk_number = (number >> self.buckets.chunk_shift()) as usize;
        let within = number as usize & ((1 << self.buckets.chunk_shift()) - 1);
        let chunk = &mut self.chunks[chunk_number];
        assert!(chunk.used[within / 64] >> (within % 64) & 1 == 1, "only what is in use is given back");
        chunk.used[within / 64] &= !(1 << (within % 64));
        chunk.used_count -= 1;
        self.used_count -= 1;
        self.set_roomy(chunk_number);
    }

    /// Buckets from this number on should move forward. Below it there is room for all of them.
    pub(super) fn number_wanted(&self) -> u64 {
        self.chunk_count_wanted() << self.buckets.chunk_shift()
    }

    /// Gives the last chunk back to the allocator if it is not wanted and nothing in it is in use.
    pub(super) fn release_last(&mut self) -> bool {
        if self.chunks.len() as u64 <= self.chunk_count_wanted()
            || self.chunks.last().is_none_or(|chunk| chunk.used_count > 0)
        {
            return false;
        }
        self.chunks.pop();
        self.buckets.shrink();
        let number = self.chunks.len();
        self.roomy[number / 64] &= !(1 << (number % 64));
        self.roomy.truncate(number.div_ceil(64));
        true
    }

    #[inline]
    pub(super) fn at(&self, number: u64) -> &Bucket {
        self.buckets.at(number)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, number: u64) -> &mut Bucket {
        self.buckets.at_mut(number)
    }

    /// Panics when the counts, the bits and the number of buckets that chains use do not agree.
    pub(super) fn check_invariants(&self, linked: &[u64]) {
        let size = 1 << self.buckets.chunk_shift();
        assert_eq!(self.used_count, linked.len() as u64);
        assert_eq!(self.used_count, self.chunks.iter().map(|chunk| chunk.used_count).sum());
        for number in linked {
            let chunk = &self.chunks[(number >> self.buckets.chunk_shift()) as usize];
            let within = *number as usize & (size - 1);
            assert!(chunk.used[within / 64] >> (within % 64) & 1 == 1);
        }
        for (number, chunk) in self.chunks.iter().enumerate() {
            let ones: usize = chunk.used.iter().map(|word| word.count_ones() as usize).sum();
            assert_eq!(ones, chunk.used_count as usize + CHUNK_WORDS * 64 - size);
            let is_roomy = self.roomy[number / 64] >> (number % 64) & 1 == 1;
            assert_eq!(is_roomy, chunk.used_count < size as u64);
        }
        assert!(self.roomy.iter().take(self.roomy_first).all(|word| *word == 0));
    }

    fn chunk_count_wanted(&self) -> u64 {
        ((self.used_count + self.used_count / SPARE_PART) >> self.buckets.chunk_shift()) + 1
    }

    fn set_roomy(&mut self, chunk_number: usize) {
        self.roomy[chunk_number / 64] |= 1 << (chunk_number % 64);
        self.roomy_first = self.roomy_first.min(chunk_number / 64);
    }
}
