//! Cuts a dead server's tablets into partitions, each of which one recovery master can take over.
//!
//! Pure: the input is the tablets and what the heads of their streams tell of their weight; the output is ranges with
//! partition numbers. A tablet is cut until each range is below the bounds. Ranges are then packed in order into
//! partitions below the same bounds. A tablet of a table by slots is cut between slots only, so the smallest part is a
//! slot, however heavy. At most one segment was written since the head was opened, so each partition leaves room for
//! one.
//!
//! The tablets alone say what is recovered. If their weight is wrong or old, partitions are uneven, no more.
//!
//! Invariants: the ranges cover exactly the tablets; every tablet has at least one; a partition of several ranges is
//! below the bounds; tablets of tables by slots begin and end at slots.
//!
//! Not here: where a tablet is cut (`cut`). Protocol: docs/protocols/recovery.md, 4. Catalogue: F3. Source: SOSP11 3.5.

use crate::cut::{Limits, Load, Part, cut, weight_of};
use ramhold_base::KeyHash;
use ramhold_base::hash::{SLOT_COUNT, first_hash_of, slot_of_hash};
use ramhold_wire::recovery::{PartitionRange, TabletStat};

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The bytes that a partition is to have, if nothing else speaks against it; at most `bytes_max`.
    pub bytes_wanted: u64,
    /// The bytes that a partition may have, however unevenly those lie that are not known exactly.
    pub bytes_max: u64,
    pub records_max: u64,
    /// The bytes that a head may hold beyond its statistics.
    pub segment_bytes: u32,
}

impl Bounds {
    /// The bytes that a partition is to have at most, by what the heads tell.
    pub fn bytes_told(&self) -> u64 {
        less_reserve(self.bytes_wanted, u64::from(self.segment_bytes))
    }
}

/// A tablet to recover, with what is known of its weight.
#[derive(Clone, Debug)]
pub struct DeadTablet {
    /// Its whole range; the partition number is not used.
    pub range: PartitionRange,
    /// The statistics of its table, in its stream; they may cover more or less than the tablet.
    pub stats: Vec<TabletStat>,
}

impl DeadTablet {
    /// The bytes that its log has of this tablet, by the statistics.
    pub fn bytes(&self) -> u64 {
        weight_of(&self.stats, self.range.first.0, self.range.last.0).bytes
    }
}

/// One plan has at most this many ranges (unless there are more tablets), because all of them travel in one message.
const RANGE_COUNT_MAX: usize = 32_768;
/// The smallest entry that is worth counting; it bounds the records of an unknown part of a segment.
const ENTRY_BYTES: u64 = 64;

/// Divides tablets. The ranges are in the order of tables and hashes as given, with partitions numbered from 0.
pub fn divide(tablets: &[DeadTablet], bounds: &Bounds) -> Vec<PartitionRange> {
    let limit = |bytes| Weight {
        bytes: less_reserve(bytes, u64::from(bounds.segment_bytes)),
        records: less_reserve(bounds.records_max, u64::from(bounds.segment_bytes) / ENTRY_BYTES),
    };
    let limits = Limits { wanted: limit(bounds.bytes_wanted), most: limit(bounds.bytes_max) };
    let pieces_max = (RANGE_COUNT_MAX / tablets.len().max(1)).max(1) as u64;
    let mut ranges = Vec::new();
    let mut partition = 0;
    let mut filled: Option<Load> = None;
    for tablet in tablets {
        for Part { first, last, load } in cut(tablet, limits, pieces_max) {
            let together = filled.map(|f| f.plus(load));
            filled = match together {
                Some(together) if together.fits(limits) => Some(together),
                Some(_) => {
                    partition += 1;
                    Some(load)
                }
                None => Some(load),
            };
            ranges.push(PartitionRange {
                partition,
                first: KeyHash(first),
                last: KeyHash(last),
                ..tablet.range
            });
        }
    }
    ranges
}

/// The bound with room left for `reserve`, but never less than half of it.
fn less_reserve(bound: u64, reserve: u64) -> u64 {
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
