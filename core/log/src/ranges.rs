//! The owners of keys: ranges of placement hashes of tables, looked up for one record after the other.
//!
//! Invariants: ranges of one table do not overlap, and use the same placement hash.

use crate::HashRange;
use ramhold_base::hash::{Placement, PlacementHasher};
use ramhold_base::{KeyHash, TableId};
use std::fmt;

/// The owner of the keys of each range.
pub struct Ranges<T> {
    /// Sorted by table.
    tables: Vec<TableRanges<T>>,
}

struct TableRanges<T> {
    table: TableId,
    placement: Placement,
    hasher: PlacementHasher,
    /// Sorted by hash: first, last, owner.
    ranges: Vec<(KeyHash, KeyHash, T)>,
}

impl<T> fmt::Debug for Ranges<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: usize = self.tables.iter().map(|table| table.ranges.len()).sum();
        write!(f, "{count} ranges of {} tables", self.tables.len())
    }
}

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges { tables: Vec::new() }
    }
}

impl<T: Copy> Ranges<T> {
    /// `None` if ranges overlap, a range ends before it begins, or one table has two placement hashes.
    pub fn new(ranges: impl IntoIterator<Item = (HashRange, Placement, T)>) -> Option<Ranges<T>> {
        let mut sorted: Vec<_> = ranges.into_iter().collect();
        sorted.sort_unstable_by_key(|(range, ..)| (range.table, range.first));
        let mut tables: Vec<TableRanges<T>> = Vec::new();
        for (range, placement, whose) in sorted {
            if tables.last().is_none_or(|last| last.table != range.table) {
                let hasher = PlacementHasher::new(placement);
                tables.push(TableRanges { table: range.table, placement, hasher, ranges: Vec::new() });
            }
            let table = tables.last_mut().expect("pushed just now");
            let is_apart = table.ranges.last().is_none_or(|(_, last, _)| *last < range.first);
            if !is_apart || range.first > range.last || table.placement != placement {
                return None;
            }
            table.ranges.push((range.first, range.last, whose));
        }
        Some(Ranges { tables })
    }

    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.ranges.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The placement hash of a key and its owner. `None` if the key is in no range.
    #[inline]
    pub fn of_key(&self, table: TableId, key: &[u8]) -> Option<(KeyHash, T)> {
        let table = self.table(table)?;
        let hash = table.hasher.hash(key);
        Some((hash, table.of(hash)?))
    }

    #[inline]
    pub fn of_hash(&self, table: TableId, hash: KeyHash) -> Option<T> {
        self.table(table)?.of(hash)
    }

    #[inline]
    fn table(&self, table: TableId) -> Option<&TableRanges<T>> {
        match &*self.tables {
            [only] => (only.table == table).then_some(only),
            several => {
                let at = several.binary_search_by_key(&table, |ranges| ranges.table).ok()?;
                several.get(at)
            }
        }
    }
}

impl<T: Copy> TableRanges<T> {
    #[inline]
    fn of(&self, hash: KeyHash) -> Option<T> {
        let behind = self.ranges.partition_point(|(first, ..)| *first <= hash);
        let (_, last, whose) = self.ranges.get(behind.checked_sub(1)?)?;
        (hash <= *last).then_some(*whose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::hash::PlacementSeed;

    const PLACEMENT: Placement = Placement { seed: PlacementSeed(7), slots: false };

    fn range(table: u32, first: u64, last: u64) -> HashRange {
        HashRange { table: TableId(table), first: KeyHash(first), last: KeyHash(last) }
    }

    // F4
    #[test]
    fn every_hash_belongs_to_the_range_that_holds_it() {
        let given = [(range(2, 0, u64::MAX), 1), (range(1, 20, 29), 2), (range(1, 0, 9), 3)];
        let ranges = Ranges::new(given.map(|(range, whose)| (range, PLACEMENT, whose))).unwrap();
        assert_eq!(ranges.len(), 3);
        let cases = [
            (1, 0, Some(3)),
            (1, 9, Some(3)),
            (1, 10, None),
            (1, 20, Some(2)),
            (1, 29, Some(2)),
            (1, 30, None),
        ];
        for (table, hash, whose) in cases {
            assert_eq!(ranges.of_hash(TableId(table), KeyHash(hash)), whose, "{table} {hash}");
        }
        let (hash, whose) = ranges.of_key(TableId(2), b"key").unwrap();
        assert_eq!((hash, whose), (PlacementHasher::new(PLACEMENT).hash(b"key"), 1));
        assert_eq!(ranges.of_key(TableId(3), b"key"), None);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let other = Placement { seed: PlacementSeed(8), slots: false };
        let new = |ranges: &[(HashRange, Placement)]| Ranges::new(ranges.iter().map(|(r, p)| (*r, *p, ())));
        assert!(new(&[(range(1, 0, 9), PLACEMENT), (range(1, 9, 10), PLACEMENT)]).is_none());
        assert!(new(&[(range(1, 9, 0), PLACEMENT)]).is_none());
        assert!(new(&[(range(1, 0, 9), PLACEMENT), (range(1, 10, 20), other)]).is_none());
        assert!(new(&[]).unwrap().is_empty());
    }
}
