//! Finds buckets with objects whose time to live is over, without reading the other buckets.
//!
//! Every base bucket has a *bound*: no object in its chain ends earlier. A bound may be too early, because overwriting
//! or removing an object leaves the bound alone; reading the bucket makes it exact. So each bucket costs eight bytes,
//! however often its objects are written. A bucket is read in vain at most once for each overwrite or removal of an
//! object with an end.
//!
//! Bounds are kept in chunks, with the earliest bound of each group of buckets and of each chunk beside them. So
//! finding a bucket that is due reads three short runs of memory. A chunk without any bound does not exist, so tables
//! whose objects never end cost nothing.
//!
//! Invariant: the earliest bounds of groups, chunks and the whole are exactly those of their buckets.
//!
//! Not here: reading the objects, which the index cannot (`expiry`). Catalogue: A12.

use ramhold_base::ClusterTime;

/// Buckets of a group, whose earliest bound is kept beside them.
const GROUP_BUCKETS: usize = 64;
const NEVER: ClusterTime = ClusterTime(u64::MAX);

struct Chunk {
    groups: Box<[ClusterTime]>,
    buckets: Box<[ClusterTime]>,
}

impl Chunk {
    fn new(bucket_count: usize) -> Chunk {
        let never = |count| vec![NEVER; count].into_boxed_slice();
        Chunk { groups: never(bucket_count.div_ceil(GROUP_BUCKETS)), buckets: never(bucket_count) }
    }

    fn group(&self, group: usize) -> &[ClusterTime] {
        let end = self.buckets.len().min((group + 1) * GROUP_BUCKETS);
        &self.buckets[group * GROUP_BUCKETS..end]
    }
}

pub(super) struct Ends {
    chunks: Vec<Option<Chunk>>,
    chunk_shift: u32,
    /// The earliest bound of each chunk.
    firsts: Vec<ClusterTime>,
    first: ClusterTime,
}

impl Ends {
    /// Bounds in chunks of `2^chunk_shift` buckets.
    pub(super) fn new(chunk_shift: u32) -> Ends {
        Ends { chunks: Vec::new(), chunk_shift, firsts: Vec::new(), first: NEVER }
    }

    pub(super) fn bytes(&self) -> u64 {
        let bounds = self.chunks.iter().flatten().map(|chunk| chunk.groups.len() + chunk.buckets.len());
        (bounds.sum::<usize>() * size_of::<ClusterTime>()) as u64
    }

    /// The earliest bound of all.
    #[inline]
    pub(super) fn first(&self) -> Option<ClusterTime> {
        Some(self.first).filter(|first| *first != NEVER)
    }

    /// A bucket whose bound is not after `now`.
    pub(super) fn due(&self, now: ClusterTime) -> Option<u64> {
        if self.first > now || self.first == NEVER {
            return None;
        }
        let is_due = |bound: &ClusterTime| *bound <= now;
        let at = self.firsts.iter().position(is_due).expect("the earliest of all is one of a chunk");
        let chunk = self.chunks[at].as_ref().expect("a chunk with a bound exists");
        let group = chunk.groups.iter().position(is_due).expect("the earliest of a chunk is one of a group");
        let bucket =
            chunk.group(group).iter().position(is_due).expect("the earliest of a group is one of a bucket");
        Some(((at << self.chunk_shift) + group * GROUP_BUCKETS + bucket) as u64)
    }

    /// Notes that an object that ends at `end` comes into this bucket.
    pub(super) fn lower(&mut self, number: u64, end: ClusterTime) {
        if end < self.bound(number) {
            self.put(number, end);
        }
    }

    /// Notes that no object in this bucket ends before `end`. `None` if no object ends at all.
    pub(super) fn set(&mut self, number: u64, end: Option<ClusterTime>) {
        self.put(number, end.unwrap_or(NEVER));
    }

    /// Notes that some of a bucket's entries have moved to another bucket, which held none.
    #[inline]
    pub(super) fn split(&mut self, from: u64, to: u64) {
        if self.first != NEVER {
            self.put(to, self.bound(from));
        }
    }

    /// Notes that all of a bucket's entries have moved to another bucket.
    #[inline]
    pub(super) fn merge(&mut self, from: u64, to: u64) {
        if self.first != NEVER {
            let bound = self.bound(from);
            self.lower(to, bound);
            self.put(from, NEVER);
        }
    }

    pub(super) fn bound(&self, number: u64) -> ClusterTime {
        let (at, within) = self.place(number);
        self.chunks.get(at).and_then(Option::as_ref).map_or(NEVER, |chunk| chunk.buckets[within])
    }

    fn place(&self, number: u64) -> (usize, usize) {
        ((number >> self.chunk_shift) as usize, number as usize & ((1 << self.chunk_shift) - 1))
    }

    fn put(&mut self, number: u64, bound: ClusterTime) {
        let before = self.bound(number);
        if bound == before {
            return;
        }
        let (at, within) = self.place(number);
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
            self.firsts.resize(at + 1, NEVER);
        }
        let chunk = self.chunks[at].get_or_insert_with(|| Chunk::new(1 << self.chunk_shift));
        chunk.buckets[within] = bound;
        let group = within / GROUP_BUCKETS;
        chunk.groups[group] = earliest_with(chunk.groups[group], before, bound, chunk.group(group));
        let first = earliest_with(self.firsts[at], before, bound, &chunk.groups);
        if first == NEVER {
            self.chunks[at] = None;
        }
        self.firsts[at] = first;
        self.first = earliest_with(self.first, before, bound, &self.firsts);
    }

    pub(super) fn check_invariants(&self, bucket_count: u64) {
        let earliest = |bounds: &[ClusterTime]| bounds.iter().min().copied().unwrap_or(NEVER);
        assert_eq!(self.first, earliest(&self.firsts));
        assert_eq!(self.chunks.len(), self.firsts.len());
        for (at, (chunk, first)) in self.chunks.iter().zip(&self.firsts).enumerate() {
            let Some(chunk) = chunk else {
                assert_eq!(*first, NEVER);
                continue;
            };
            assert!(*first != NEVER);
            assert_eq!(*first, earliest(&chunk.groups));
            for group in 0..chunk.groups.len() {
                assert_eq!(chunk.groups[group], earliest(chunk.group(group)));
            }
            let bounded = chunk.buckets.iter().rposition(|bound| *bound != NEVER).expect("it has a bound");
            assert!((((at << self.chunk_shift) + bounded) as u64) < bucket_count);
        }
    }
}

/// The earliest of `all`, after one of them has changed from `before` to `bound`. `earliest` was the earliest before.
fn earliest_with(
    earliest: ClusterTime,
    before: ClusterTime,
    bound: ClusterTime,
    all: &[ClusterTime],
) -> ClusterTime {
    if bound <= earliest {
        bound
    } else if before > earliest {
        earliest
    } else {
        all.iter().min().copied().unwrap_or(NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;
    use std::collections::BTreeMap;

    // A12
    #[test]
    fn the_due_buckets_are_those_of_a_plain_map() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let shift = 4 + seed as u32 % 9;
            let mut ends = Ends::new(shift);
            let mut model: BTreeMap<u64, ClusterTime> = BTreeMap::new();
            for _ in 0..3000 {
                let number = rng.below(3 << shift);
                let end = ClusterTime(rng.below(1000));
                match rng.below(5) {
                    0 | 1 => {
                        ends.lower(number, end);
                        model.entry(number).and_modify(|bound| *bound = (*bound).min(end)).or_insert(end);
                    }
                    2 => {
                        let end = (rng.below(2) == 0).then_some(end);
                        ends.set(number, end);
                        model.remove(&number);
                        model.extend(end.map(|end| (number, end)));
                    }
                    3 => {
                        let to = number + (1 << shift);
                        ends.set(to, None);
                        ends.split(number, to);
                        model.remove(&to);
                        model.extend(model.get(&number).copied().map(|bound| (to, bound)));
                    }
                    _ => {
                        let to = number / 2;
                        if to == number {
                            continue;
                        }
                        ends.merge(number, to);
                        if let Some(bound) = model.remove(&number) {
                            model.entry(to).and_modify(|own| *own = (*own).min(bound)).or_insert(bound);
                        }
                    }
                }
                assert_eq!(ends.first(), model.values().min().copied(), "seed {seed}");
                let due = ends.due(end);
                let expected = model.iter().find(|(_, bound)| **bound <= end).map(|(number, _)| *number);
                assert_eq!(due, expected, "seed {seed}");
            }
            ends.check_invariants(u64::MAX);
            for number in model.keys() {
                ends.set(*number, None);
            }
            assert_eq!((ends.bytes(), ends.first()), (0, None), "nothing is kept for nothing");
        }
    }
}
