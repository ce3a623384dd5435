//! Buckets of one cache line, and the meaning of the bits of a slot.
//!
//! ```text
//!   63          44 43 42 41                     0
//!  +--------------+-----+------------------------+   what: 0 empty, 1 object, 2 tombstone (in replay), 3 link
//!  |     tag      | what|  place in the region   |   a link's place is the number of an overflow bucket
//!  +--------------+-----+------------------------+
//! ```
//!
//! An empty slot is zero.

use crate::Reference;

pub(super) const SLOT_COUNT: usize = 8;
/// The slot that becomes a link when a ninth entry comes.
pub(super) const LINK_SLOT: usize = SLOT_COUNT - 1;
pub(super) const PLACE_BITS: u32 = 42;
pub(super) const TAG_SHIFT: u32 = PLACE_BITS + 2;
pub(super) const TAG_BITS: u32 = 64 - TAG_SHIFT;
pub(super) const BUCKET_BYTES: u64 = size_of::<Bucket>() as u64;
/// Buckets allocated at once, as a power of two: 256 KiB. So zeroing them is no pause, and little memory is idle. Yet a
/// chunk is large enough for allocators to give it back to the system when it is freed.
pub(super) const CHUNK_SHIFT_MAX: u32 = 12;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;
const WHAT_SHIFT: u32 = PLACE_BITS;

const _: () = assert!(BUCKET_BYTES == 64);

/// The sort of entry that a slot refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Object,
    /// A tombstone that replay must remember until it is finished.
    Tombstone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Empty,
    Entry(What, Reference),
    Link(u64),
}

#[repr(align(64))]
#[derive(Clone, Copy, Default)]
pub(super) struct Bucket {
    pub(super) slots: [u64; SLOT_COUNT],
}

impl Bucket {
    /// The number of slots in use, which are the first ones.
    #[inline]
    pub(super) fn filled(&self) -> usize {
        // The number is practically random. Counting all slots leaves the processor no branch to predict.
        self.slots.iter().map(|slot| usize::from(*slot != 0)).sum()
    }
}

#[inline]
pub(super) fn entry(tag: u64, what: What, at: Reference) -> u64 {
    assert!(at.0 <= PLACE_MASK);
    let what = match what {
        What::Object => 1,
        What::Tombstone => 2,
    };
    tag << TAG_SHIFT | what << WHAT_SHIFT | at.0
}

#[inline]
pub(super) fn link(number: u64) -> u64 {
    assert!(number <= PLACE_MASK);
    3 << WHAT_SHIFT | number
}

#[inline]
pub(super) fn content(slot: u64) -> Content {
    match slot >> WHAT_SHIFT & 3 {
        0 => Content::Empty,
        1 => Content::Entry(What::Object, reference(slot)),
        2 => Content::Entry(What::Tombstone, reference(slot)),
        _ => Content::Link(slot & PLACE_MASK),
    }
}

#[inline]
pub(super) fn reference(slot: u64) -> Reference {
    Reference(slot & PLACE_MASK)
}

#[inline]
pub(super) fn is_entry(slot: u64) -> bool {
    matches!(content(slot), Content::Entry(..))
}

/// Whether a slot holds this reference.
#[inline]
pub(super) fn is_entry_of(slot: u64, at: Reference) -> bool {
    slot & PLACE_MASK == at.0 && is_entry(slot)
}

/// The same entry at another place.
pub(super) fn moved(slot: u64, to: Reference) -> u64 {
    assert!(to.0 <= PLACE_MASK);
    slot & !PLACE_MASK | to.0
}

#[inline]
pub(super) fn link_of(slot: u64) -> Option<u64> {
    match content(slot) {
        Content::Link(number) => Some(number),
        Content::Empty | Content::Entry(..) => None,
    }
}

/// Buckets in chunks, so that growing copies nothing and shrinking gives memory back.
pub(super) struct Buckets {
    chunks: Vec<Box<[Bucket]>>,
    chunk_shift: u32,
}

impl Buckets {
    pub(super) fn new(chunk_shift: u32) -> Buckets {
        Buckets { chunks: Vec::new(), chunk_shift }
    }

    pub(super) fn chunk_shift(&self) -> u32 {
        self.chunk_shift
    }

    pub(super) fn count(&self) -> u64 {
        (self.chunks.len() as u64) << self.chunk_shift
    }

    pub(super) fn grow(&mut self) {
        self.chunks.push(vec![Bucket::default(); 1 << self.chunk_shift].into_boxed_slice());
    }

    /// Gives the last chunk back to the allocator.
    pub(super) fn shrink(&mut self) {
        self.chunks.pop().expect("there is a chunk to give back");
    }

    #[inline]
    pub(super) fn at(&self, number: u64) -> &Bucket {
        &self.chunks[(number >> self.chunk_shift) as usize][number as usize & ((1 << self.chunk_shift) - 1)]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, number: u64) -> &mut Bucket {
        &mut self.chunks[(number >> self.chunk_shift) as usize]
            [number as usize & ((1 << self.chunk_shift) - 1)]
    }
}
