//! Counts the bytes and records of the live objects of each tablet, as objects come and go.
//!
//! Invariant: a range is tracked from before its first key enters the index. So no object is subtracted that was not
//! added.
//!
//! Not here: the walk by which parts of a range are counted anew (`recount`), the distribution of a large range's
//! objects over its hashes (`profile`). Catalogue: A8, C3, F3.

use crate::TabletStat;
use crate::profile::{Counted, Profiles, Weight};
use ramhold_base::hash::index_hash;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, SegmentId, TableId};
use std::ops::Range;

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
    range: HashRange,
    bytes: u64,
    records: u64,
}

/// Sorted by table and hash: lookups are quick, and new ranges are rare.
type Counters = Vec<Counter>;

/// The counters of all tracked ranges, which do not overlap, and the profiles of their tables.
pub(crate) struct TabletCounters {
    ranges: Counters,
    recount: Option<Recount>,
    pub(crate) profiles: Profiles,
}

/// The parts into which ranges of one table are to be cut. A walk in the order of positions counts them anew. Objects
/// at positions below `reached` are in the counters, and each change of their keys is counted. Objects at higher
/// positions are counted when the walk comes to them, as they are then.
struct Recount {
    table: TableId,
    /// The secret of the index hash, from which positions are computed.
    secret: u64,
    reached: u64,
    parts: Counters,
}

impl Recount {
    fn counter(&mut self, table: TableId, hash: KeyHash) -> Option<&mut Counter> {
        let is_passed = || index_hash(self.secret, table, hash).reverse_bits() < self.reached;
        if table != self.table || !(planted(Defect::RecountedTwice) || is_passed()) {
            return None;
        }
        counter_in(&mut self.parts, table, hash)
    }
}

impl TabletCounters {
    pub(crate) fn new(profiles: Profiles) -> TabletCounters {
        TabletCounters { ranges: Counters::new(), recount: None, profiles }
    }

    pub(crate) fn track(&mut self, range: HashRange) {
        assert!(range.first <= range.last);
        assert!(self.counter(range.table, range.first).is_none(), "tracked ranges do not overlap");
        let within = within(&self.ranges, range);
        assert!(within.is_empty(), "tracked ranges do not overlap");
        self.ranges.insert(within.start, Counter::empty(range));
    }

    pub(crate) fn untrack(&mut self, range: HashRange) {
        let place = self.ranges.binary_search_by_key(&range, |counter| counter.range);
        self.ranges.remove(place.expect("only a tracked range is untracked, and whole"));
        if within(&self.ranges, HashRange::whole(range.table)).is_empty() {
            self.profiles.end(range.table);
        }
    }

    /// An object has become live. `next` is the first segment id that is not given out yet.
    #[inline]
    pub(crate) fn add(&mut self, object: &Counted, next: SegmentId) {
        let is_large = self.add_to_ranges(object);
        if !self.profiles.add(object, next) && is_large {
            self.profiles.begin(object.table, next);
        }
    }

    pub(crate) fn take_off(&mut self, object: &Counted) {
        self.take_off_ranges(object);
        self.profiles.take_off(object);
    }

    /// A live object has moved to another entry.
    pub(crate) fn moved(&mut self, from: &Counted, to: &Counted, next: SegmentId) {
        if from.bytes != to.bytes {
            self.take_off_ranges(from);
            self.add_to_ranges(to);
        }
        if !planted(Defect::ProfileNotMoved) {
            self.profiles.take_off(from);
            self.profiles.add(to, next);
        }
    }

    /// Counts an object in its range. Returns whether the range is larger than a bucket of a profile may be.
    #[inline]
    fn add_to_ranges(&mut self, object: &Counted) -> bool {
        let Counted { table, hash, bytes, .. } = *object;
        let bucket = self.profiles.bucket();
        let is_large = self.counter(table, hash).is_some_and(|counter| {
            counter.add(bytes);
            !counter.weight().fits(bucket)
        });
        if let Some(counter) = self.recount.as_mut().and_then(|recount| recount.counter(table, hash)) {
            counter.add(bytes);
        }
        is_large
    }

    fn take_off_ranges(&mut self, object: &Counted) {
        let Counted { table, hash, bytes, .. } = *object;
        if let Some(counter) = self.counter(table, hash) {
            counter.take_off(bytes);
        }
        if let Some(counter) = self.recount.as_mut().and_then(|recount| recount.counter(table, hash)) {
            counter.take_off(bytes);
        }
    }

    /// Begins to count the parts of tracked ranges of a table anew. An earlier recount is over.
    pub(crate) fn begin_recount(&mut self, table: TableId, parts: &[HashRange], secret: u64) {
        let mut parts: Counters = parts.iter().copied().map(Counter::empty).collect();
        parts.sort_unstable_by_key(|part| part.range);
        self.recount = Some(Recount { table, secret, reached: 0, parts });
    }

    pub(crate) fn end_recount(&mut self) {
        self.recount = None;
    }

    /// The position from which the recount's walk goes on.
    pub(crate) fn recounted(&self) -> Option<u64> {
        self.recount.as_ref().map(|recount| recount.reached)
    }

    /// Counts the objects between the position that the recount has reached and this one. `None` means the end.
    pub(crate) fn met(&mut self, objects: &[(KeyHash, u32)], reached: Option<u64>) {
        let Some(recount) = &mut self.recount else { return };
        for (hash, bytes) in objects {
            if let Some(counter) = counter_in(&mut recount.parts, recount.table, *hash) {
                counter.add(*bytes);
            }
        }
        recount.reached = reached.unwrap_or(u64::MAX);
    }

    /// Replaces the tracked ranges of a finished recount by its parts. Objects that were lost are in none of the parts.
    pub(crate) fn cut(&mut self) {
        let Some(recount) = self.recount.take() else { return };
        self.ranges.retain(|whole| within(&recount.parts, whole.range).is_empty());
        self.ranges.extend(recount.parts);
        self.ranges.sort_unstable_by_key(|counter| counter.range);
    }

    /// Joins the tracked ranges within `range` into one.
    pub(crate) fn join(&mut self, range: HashRange) {
        let mut one = Counter::empty(range);
        let within = within(&self.ranges, range);
        let place = within.start;
        for part in self.ranges.drain(within) {
            assert!(part.range.last <= range.last, "ranges are joined whole");
            one.bytes += part.bytes;
            one.records += part.records;
        }
        self.ranges.insert(place, one);
    }

    /// The number of tracked ranges.
    pub(crate) fn count(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TabletStat> {
        self.ranges.iter().map(|counter| {
            let Counter { range: HashRange { table, first, last }, bytes, records } = *counter;
            TabletStat { table, first, last, bytes, records }
        })
    }

    /// The records of a range, if exactly this range is tracked.
    pub(crate) fn records(&self, range: HashRange) -> Option<u64> {
        let place = self.ranges.binary_search_by_key(&range, |counter| counter.range).ok()?;
        Some(self.ranges[place].records)
    }

    /// The same ranges, empty and without profiles.
    pub(crate) fn emptied(&self) -> TabletCounters {
        let ranges = self.ranges.iter().map(|counter| Counter::empty(counter.range)).collect();
        TabletCounters { ranges, ..TabletCounters::new(Profiles::new(0, u64::MAX)) }
    }

    #[inline]
    fn counter(&mut self, table: TableId, hash: KeyHash) -> Option<&mut Counter> {
        counter_in(&mut self.ranges, table, hash)
    }
}

#[inline]
fn counter_in(counters: &mut [Counter], table: TableId, hash: KeyHash) -> Option<&mut Counter> {
    let behind = behind(counters, table, hash);
    counters.get_mut(behind.checked_sub(1)?).filter(|counter| counter.range.contains(table, hash))
}

/// The index after all counters that begin at this hash or before it.
#[inline]
fn behind(counters: &[Counter], table: TableId, hash: KeyHash) -> usize {
    counters.partition_point(|counter| (counter.range.table, counter.range.first) <= (table, hash))
}

/// The counters that begin within a range.
fn within(counters: &[Counter], range: HashRange) -> Range<usize> {
    let HashRange { table, first, last } = range;
    let start =
        counters.partition_point(|counter| (counter.range.table, counter.range.first) < (table, first));
    start..behind(counters, table, last)
}

impl Counter {
    fn empty(range: HashRange) -> Counter {
        Counter { range, bytes: 0, records: 0 }
    }

    fn weight(&self) -> Weight {
        Weight { bytes: self.bytes, records: self.records }
    }

    fn add(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.records += 1;
    }

    fn take_off(&mut self, bytes: u32) {
        let (bytes, records) = (self.bytes.checked_sub(u64::from(bytes)), self.records.checked_sub(1));
        self.bytes = bytes.expect("a range is tracked from before its first key");
        self.records = records.expect("a range is tracked from before its first key");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C3
    #[test]
    fn only_the_range_that_holds_the_hash_counts() {
        let mut counters = TabletCounters::new(Profiles::new(0, u64::MAX));
        let range = |table, first, last| HashRange {
            table: TableId(table),
            first: KeyHash(first),
            last: KeyHash(last),
        };
        let object = |table, hash, bytes| Counted {
            table: TableId(table),
            hash: KeyHash(hash),
            bytes,
            segment: SegmentId(1),
        };
        counters.track(range(1, 0, 9));
        counters.track(range(1, 20, 29));
        counters.track(range(2, 0, u64::MAX));
        for (table, hash) in [(1, 9), (1, 10), (1, 20), (1, 30), (2, 10), (3, 10)] {
            counters.add(&object(table, hash, 100), SegmentId(2));
        }
        counters.add(&object(2, 10, 50), SegmentId(2));
        counters.take_off(&object(2, 10, 100));
        let seen: Vec<(u64, u64)> = counters.iter().map(|stat| (stat.bytes, stat.records)).collect();
        assert_eq!(seen, [(100, 1), (100, 1), (50, 1)]);
        counters.untrack(range(1, 20, 29));
        assert_eq!(counters.iter().count(), 2);
    }
}
