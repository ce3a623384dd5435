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

use crate::cut::{DeadTablet, Limits, Load, Part, cut, even_cuts, weight_of};
use crate::weight::{Weight, less_reserve};
use ramhold_base::hash::slot_of_hash;
use ramhold_base::{KeyHash, TableId};
use ramhold_wire::recovery::PartitionRange;
use std::collections::BTreeMap;

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

/// Cuts the ranges of each partition on, so that their new owner can have one in each of so many parts. No range that
/// results is below `bytes_min`, unless it was before. `spare`: how many more ranges each table may have.
pub fn cut_on(
    ranges: &[PartitionRange],
    tablets: &[DeadTablet],
    parts: u64,
    bytes_min: u64,
    mut spare: impl FnMut(TableId) -> u64,
) -> Vec<PartitionRange> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for range in ranges {
        *counts.entry(range.partition).or_default() += 1;
    }
    let mut left: BTreeMap<TableId, u64> = BTreeMap::new();
    let mut all_left = (RANGE_COUNT_MAX as u64).saturating_sub(ranges.len() as u64);
    let mut finer = Vec::new();
    for range in ranges {
        let (first, last) = (range.first.0, range.last.0);
        let of = tablets.iter().find(|tablet| {
            tablet.range.table == range.table
                && tablet.range.first <= range.first
                && range.last <= tablet.range.last
        });
        let stats = of.map_or(&[][..], |tablet| &tablet.stats);
        let left = left.entry(range.table).or_insert_with(|| spare(range.table));
        let places = match range.slots {
            true => u64::from(slot_of_hash(range.last) - slot_of_hash(range.first)),
            false => last - first,
        };
        let count = parts.div_ceil(counts[&range.partition]);
        let count = count.min(weight_of(stats, first, last).bytes / bytes_min.max(1)).max(1);
        let count = count.min(places.saturating_add(1)).min(left.saturating_add(1)).min(all_left + 1);
        *left -= count - 1;
        all_left -= count - 1;
        let mut begin = first;
        for next in even_cuts(stats, (first, last), range.slots, count) {
            finer.push(PartitionRange { first: KeyHash(begin), last: KeyHash(next - 1), ..*range });
            begin = next;
        }
        finer.push(PartitionRange { first: KeyHash(begin), ..*range });
    }
    finer
}
