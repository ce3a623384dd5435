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
//! below the bounds, unless they were cut on; tablets of tables by slots begin and end at slots.
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

/// How many more ranges there may be.
#[derive(Clone, Debug, Default)]
pub struct Spare {
    /// In all.
    pub all: u64,
    /// The number for each table; none for a table that is not named.
    pub tables: BTreeMap<TableId, u64>,
}

impl Spare {
    /// That many in one plan.
    pub fn of_plan(tables: BTreeMap<TableId, u64>) -> Spare {
        Spare { all: RANGE_COUNT_MAX as u64, tables }
    }

    /// Takes as many as are there, at most `wanted`.
    fn take(&mut self, table: TableId, wanted: u64) -> u64 {
        let left = self.tables.entry(table).or_default();
        let taken = wanted.min(*left).min(self.all);
        *left -= taken;
        self.all -= taken;
        taken
    }
}

/// Cuts ranges on, so that each partition has `parts` of them, or more, if that much is spare. By what the heads tell no
/// range that is cut has less than `bytes_min` for each of its parts; how even these are is left to the statistics.
pub fn cut_on(
    ranges: &[PartitionRange],
    tablets: &[DeadTablet],
    parts: u64,
    bytes_min: u64,
    spare: &mut Spare,
) -> Vec<PartitionRange> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for range in ranges {
        *counts.entry(range.partition).or_default() += 1;
    }
    // Ranges are in the order of the tablets.
    let mut tablets = tablets.iter().peekable();
    let mut finer = Vec::new();
    for range in ranges {
        let (first, last) = (range.first.0, range.last.0);
        let is_of = |tablet: &DeadTablet| {
            let of = &tablet.range;
            of.table == range.table && of.first <= range.first && range.last <= of.last
        };
        while tablets.next_if(|tablet| !is_of(tablet)).is_some() {}
        let stats = tablets.peek().map_or(&[][..], |tablet| &tablet.stats);
        let places = match range.slots {
            true => u64::from(slot_of_hash(range.last) - slot_of_hash(range.first)),
            false => last - first,
        };
        let by_weight = weight_of(stats, first, last).bytes / bytes_min.max(1);
        let more = parts.div_ceil(counts[&range.partition]).min(by_weight).saturating_sub(1).min(places);
        let count = 1 + spare.take(range.table, more);
        let mut begin = first;
        for next in even_cuts(stats, (first, last), range.slots, count) {
            finer.push(PartitionRange { first: KeyHash(begin), last: KeyHash(next - 1), ..*range });
            begin = next;
        }
        finer.push(PartitionRange { first: KeyHash(begin), ..*range });
    }
    finer
}
