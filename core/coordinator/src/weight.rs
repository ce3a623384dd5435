//! Weights of stretches of hashes, and stretches of equal width.

use ramhold_base::KeyHash;
use ramhold_base::hash::{SLOT_COUNT, first_hash_of, slot_of_hash};

/// The bound with room left for `reserve`, but never less than half of it.
pub(crate) fn less_reserve(bound: u64, reserve: u64) -> u64 {
    (bound - reserve.min(bound / 2)).max(1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Weight {
    pub bytes: u64,
    pub records: u64,
}

impl Weight {
    pub fn plus(self, other: Weight) -> Weight {
        Weight {
            bytes: self.bytes.saturating_add(other.bytes),
            records: self.records.saturating_add(other.records),
        }
    }

    pub fn fits(self, limit: Weight) -> bool {
        self.bytes <= limit.bytes && self.records <= limit.records
    }

    /// The lesser of both, for bytes and for records.
    pub fn least(self, other: Weight) -> Weight {
        Weight { bytes: self.bytes.min(other.bytes), records: self.records.min(other.records) }
    }

    pub fn divided(self, by: u64) -> Weight {
        Weight { bytes: self.bytes / by, records: self.records / by }
    }

    /// The limit with room left for `reserve`, but never less than half of it.
    pub fn less_half(self, reserve: Weight) -> Weight {
        Weight {
            bytes: less_reserve(self.bytes, reserve.bytes),
            records: less_reserve(self.records, reserve.records),
        }
    }
}

/// The `index`-th of `count` equal parts of the slots from that of `first` to that of `last`; there must be at least
/// `count` slots.
pub(crate) fn part_at_slots(first: u64, last: u64, index: u64, count: u64) -> (u64, u64) {
    let slot = |hash| u64::from(slot_of_hash(KeyHash(hash)));
    let (from, to) = part(slot(first), slot(last), index, count);
    let first_of = |slot: u64| first_hash_of(u16::try_from(slot).expect("a part of a range of slots")).0;
    let behind = (to + 1 < u64::from(SLOT_COUNT)).then(|| first_of(to + 1));
    (first_of(from), behind.map_or(u64::MAX, |behind| behind - 1))
}

/// The `index`-th of `count` equal parts of the hashes from `first` to `last`.
pub(crate) fn part(first: u64, last: u64, index: u64, count: u64) -> (u64, u64) {
    let width = u128::from(last - first) + 1;
    let at = |index: u64| {
        width / u128::from(count) * u128::from(index)
            + width % u128::from(count) * u128::from(index) / u128::from(count)
    };
    let from = u128::from(first) + at(index);
    let to = u128::from(first) + at(index + 1) - 1;
    let fits = "a part of a range of hashes is a range of hashes";
    (u64::try_from(from).expect(fits), u64::try_from(to).expect(fits))
}
