//! Cuts a dead server's tablets into partitions that one recovery master each can take over.
//!
//! Pure: tablets and the statistics of their streams' heads go in, ranges with partition numbers come out. A tablet is
//! cut into equal hash ranges until each is below the bounds; ranges are then packed in order into partitions below
//! the same bounds. A tablet of a table by slots is cut between slots only, so the smallest part is a slot, however heavy.
//! What was written since the statistics is at most one segment, so room for one is left in each.
//!
//! Invariants: the ranges cover exactly the tablets; every tablet has at least one; a partition of several ranges is
//! below the bounds; tablets of tables by slots begin and end at slots.
//!
//! Protocol: docs/protocols/recovery.md, 4. Catalogue: F3. Source: SOSP11 3.5.

use ramhold_base::KeyHash;
use ramhold_base::hash::{SLOT_COUNT, first_hash_of, slot_of_hash};
use ramhold_wire::recovery::{PartitionRange, TabletStat};

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub bytes_max: u64,
    pub records_max: u64,
    /// What a head may hold beyond its statistics.
    pub segment_bytes: u32,
}

impl Bounds {
    /// What a partition has at most by the statistics.
    pub fn bytes_told(&self) -> u64 {
        less_reserve(self.bytes_max, u64::from(self.segment_bytes))
    }
}

/// A tablet to recover, and what is known of its weight.
#[derive(Clone, Debug)]
pub struct DeadTablet {
    /// Its whole range; the partition number is not used.
    pub range: PartitionRange,
    /// Of its table, in its stream; may cover more or less than the tablet.
    pub stats: Vec<TabletStat>,
}

impl DeadTablet {
    /// What there is of it in its log, in bytes.
    pub fn bytes(&self) -> u64 {
        weight_of(&self.stats, self.range.first.0, self.range.last.0).bytes
    }
}

/// One plan has at most so many ranges (unless there are more tablets): all of them travel in one message.
const RANGE_COUNT_MAX: usize = 32_768;
/// The smallest entry that is worth counting; bounds the records of an unknown part of a segment.
const ENTRY_BYTES: u64 = 64;

/// The ranges in order of tables and hashes as given, with partitions numbered from 0.
pub fn divide(tablets: &[DeadTablet], bounds: &Bounds) -> Vec<PartitionRange> {
    let limit = Weight {
        bytes: bounds.bytes_told(),
        records: less_reserve(bounds.records_max, u64::from(bounds.segment_bytes) / ENTRY_BYTES),
    };
    let pieces_max = (RANGE_COUNT_MAX / tablets.len().max(1)).max(1) as u64;
    let mut ranges = Vec::new();
    let mut partition = 0;
    let mut filled: Option<Weight> = None;
    for tablet in tablets {
        for (first, last) in cut(tablet, limit, pieces_max) {
            let weight = weight_of(&tablet.stats, first, last);
            let together = filled.map(|f| f.plus(weight));
            filled = match together {
                Some(together) if together.fits(limit) => Some(together),
                Some(_) => {
                    partition += 1;
                    Some(weight)
                }
                None => Some(weight),
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

/// Leaves room for `reserve`, but never gives up more than half.
fn less_reserve(bound: u64, reserve: u64) -> u64 {
    (bound - reserve.min(bound / 2)).max(1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Weight {
    bytes: u64,
    records: u64,
}

impl Weight {
    fn plus(self, other: Weight) -> Weight {
        Weight {
            bytes: self.bytes.saturating_add(other.bytes),
            records: self.records.saturating_add(other.records),
        }
    }

    fn fits(self, limit: Weight) -> bool {
        self.bytes <= limit.bytes && self.records <= limit.records
    }
}

/// Equal parts of a tablet, as few as keep each below the limit; or as many as are allowed.
fn cut(tablet: &DeadTablet, limit: Weight, pieces_max: u64) -> Vec<(u64, u64)> {
    let (first, last) = (tablet.range.first.0, tablet.range.last.0);
    let whole = weight_of(&tablet.stats, first, last);
    let part = if tablet.range.slots { part_at_slots } else { part };
    let pieces_max = if tablet.range.slots {
        u64::from(slot_of_hash(tablet.range.last) - slot_of_hash(tablet.range.first)) + 1
    } else {
        (last - first).saturating_add(1)
    }
    .min(pieces_max);
    let needed = whole.bytes.div_ceil(limit.bytes).max(whole.records.div_ceil(limit.records));
    let mut pieces = needed.clamp(1, pieces_max);
    loop {
        let parts: Vec<(u64, u64)> = (0..pieces).map(|i| part(first, last, i, pieces)).collect();
        // Hashes are spread evenly within one statistic, but statistics may differ along the tablet.
        let all_fit = parts.iter().all(|(first, last)| weight_of(&tablet.stats, *first, *last).fits(limit));
        if all_fit || pieces == pieces_max {
            return parts;
        }
        pieces = pieces.saturating_mul(2).min(pieces_max);
    }
}

/// The `index`-th of `count` equal parts of the slots from that of `first` to that of `last`, of which there are as many.
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

/// The share of each statistic that lies in the range, rounded up.
fn weight_of(stats: &[TabletStat], first: u64, last: u64) -> Weight {
    let mut sum = Weight::default();
    for stat in stats {
        let from = stat.first.0.max(first);
        let to = stat.last.0.min(last);
        if from > to || stat.last < stat.first {
            continue;
        }
        let width = u128::from(stat.last.0 - stat.first.0) + 1;
        let shared = u128::from(to - from) + 1;
        sum = sum.plus(Weight {
            bytes: share(stat.bytes, shared, width),
            records: share(stat.records, shared, width),
        });
    }
    sum
}

/// `amount * shared / width`, rounded up; `shared <= width <= 2^64`.
fn share(amount: u64, shared: u128, width: u128) -> u64 {
    if shared == width {
        return amount;
    }
    // Both are below 2^64 now, so the product fits.
    let product = u128::from(amount) * shared;
    u64::try_from(product.div_ceil(width)).unwrap_or(u64::MAX)
}
