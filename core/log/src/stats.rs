//! What the live objects of each tablet weigh, counted as they come and go.
//!
//! Invariant: a range is tracked from before its first key enters the index, so that nothing is taken off that was
//! not put on.
//!
//! Catalogue: C3, F3.

use crate::TabletStat;
use ramhold_base::{KeyHash, TableId};
use std::collections::BTreeMap;

/// The keys of a table whose placement hashes are in `first..=last`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HashRange {
    pub table: TableId,
    pub first: KeyHash,
    /// Inclusive.
    pub last: KeyHash,
}

impl HashRange {
    /// All keys of a table.
    pub fn whole(table: TableId) -> HashRange {
        HashRange { table, first: KeyHash(0), last: KeyHash(u64::MAX) }
    }

    pub fn contains(&self, table: TableId, hash: KeyHash) -> bool {
        table == self.table && hash >= self.first && hash <= self.last
    }
}

struct Counter {
    last: KeyHash,
    bytes: u64,
    records: u64,
}

/// The counters of all tracked ranges; they do not overlap.
#[derive(Default)]
pub(crate) struct TabletCounters {
    ranges: BTreeMap<(TableId, KeyHash), Counter>,
}

impl TabletCounters {
    pub(crate) fn track(&mut self, range: HashRange) {
        assert!(range.first <= range.last);
        let next = self.ranges.range((range.table, range.first)..).next();
        if let Some(((table, first), _)) = next {
            assert!(*table != range.table || *first > range.last, "tracked ranges do not overlap");
        }
        assert!(self.counter(range.table, range.first).is_none(), "tracked ranges do not overlap");
        self.ranges.insert((range.table, range.first), Counter { last: range.last, bytes: 0, records: 0 });
    }

    pub(crate) fn untrack(&mut self, range: HashRange) {
        let counter =
            self.ranges.remove(&(range.table, range.first)).expect("only a tracked range is untracked");
        assert!(counter.last == range.last, "a range is untracked whole");
    }

    pub(crate) fn add(&mut self, table: TableId, hash: KeyHash, bytes: u32) {
        if let Some(counter) = self.counter(table, hash) {
            counter.bytes += u64::from(bytes);
            counter.records += 1;
        }
    }

    pub(crate) fn take_off(&mut self, table: TableId, hash: KeyHash, bytes: u32) {
        if let Some(counter) = self.counter(table, hash) {
            let (bytes, records) =
                (counter.bytes.checked_sub(u64::from(bytes)), counter.records.checked_sub(1));
            counter.bytes = bytes.expect("a range is tracked from before its first key");
            counter.records = records.expect("a range is tracked from before its first key");
        }
    }

    /// Ranges that are tracked.
    pub(crate) fn count(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TabletStat> {
        self.ranges.iter().map(|((table, first), counter)| {
            let Counter { last, bytes, records } = *counter;
            TabletStat { table: *table, first: *first, last, bytes, records }
        })
    }

    /// The records of a range that is tracked as it is.
    pub(crate) fn records(&self, range: HashRange) -> Option<u64> {
        let counter = self.ranges.get(&(range.table, range.first))?;
        (counter.last == range.last).then_some(counter.records)
    }

    /// The same ranges, with nothing in them.
    pub(crate) fn emptied(&self) -> TabletCounters {
        let empty = |counter: &Counter| Counter { last: counter.last, bytes: 0, records: 0 };
        TabletCounters { ranges: self.ranges.iter().map(|(key, counter)| (*key, empty(counter))).collect() }
    }

    fn counter(&mut self, table: TableId, hash: KeyHash) -> Option<&mut Counter> {
        let before = self.ranges.range_mut(..=(table, hash)).next_back();
        before
            .filter(|((owner, _), counter)| *owner == table && hash <= counter.last)
            .map(|(_, counter)| counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C3
    #[test]
    fn only_the_range_that_holds_the_hash_counts() {
        let mut counters = TabletCounters::default();
        let range = |table, first, last| HashRange {
            table: TableId(table),
            first: KeyHash(first),
            last: KeyHash(last),
        };
        counters.track(range(1, 0, 9));
        counters.track(range(1, 20, 29));
        counters.track(range(2, 0, u64::MAX));
        for (table, hash) in [(1, 9), (1, 10), (1, 20), (1, 30), (2, 10), (3, 10)] {
            counters.add(TableId(table), KeyHash(hash), 100);
        }
        counters.add(TableId(2), KeyHash(10), 50);
        counters.take_off(TableId(2), KeyHash(10), 100);
        let seen: Vec<(u64, u64)> = counters.iter().map(|stat| (stat.bytes, stat.records)).collect();
        assert_eq!(seen, [(100, 1), (100, 1), (50, 1)]);
        counters.untrack(range(1, 20, 29));
        assert_eq!(counters.iter().count(), 2);
    }
}
