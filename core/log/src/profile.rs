//! Where the bytes and records of large tables lie among their hashes, finer than one number per tablet.
//!
//! A table's profile is a tree of arrays of 256 buckets: the root's are told apart by the first eight bits of a hash, those of
//! an array below a bucket by the next eight. A bucket that has grown past its bounds gets an array below it. What was
//! counted before stays where it is, since nobody knows its hashes any more: of that part one only knows that it lies
//! somewhere in the bucket. A table none of whose tablets has outgrown a bucket has no tree.
//!
//! Which array counts an entry is decided by the segment that the entry is in: the deepest whose *birth*, the first segment
//! id that was not given out when it was made, is not above it. So whatever takes the entry away or moves it finds where it
//! was counted, however the tree has grown meanwhile, and what cleaning moves comes to be known as finely as what is new.
//! It also makes it safe to give an array up at any time: who looks for it later finds none, or one that was born later.
//!
//! The tree is the table's and not the tablet's, so that cutting and joining tablets does not concern it.
//!
//! Invariants:
//! - a bucket's numbers are those of all its entries, the array below it included;
//! - nothing is taken off that was not put on: each array counts exactly the live entries that it is the deepest for, and
//!   what was lost;
//! - an array that counts nothing any more is not kept, and never more arrays are made than were allowed.
//!
//! Not here: what whole tablets weigh (`stats`), what recoveries are told (`will`). Catalogue: C3, F3. Source: SOSP11 3.9.

use crate::TabletStat;
use ramhold_base::{KeyHash, SegmentId, TableId};

const BUCKET_COUNT: usize = 256;
const BITS: u32 = 8;
const LEVELS_MAX: u32 = u64::BITS / BITS;
/// What an array takes with its place in two lists, which may have room for as many again.
pub(crate) const ARRAY_BYTES: u64 =
    (BUCKET_COUNT * size_of::<Bucket>() + 2 * (size_of::<Array>() + 4)) as u64;
/// 600 MB go with 3 million records: a bucket's share of records.
const BYTES_PER_RECORD: u64 = 200;

/// Bytes of whole entries, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Weight {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

impl Weight {
    /// So many bytes and their share of records.
    pub(crate) fn of_bytes(bytes: u64) -> Weight {
        Weight { bytes, records: bytes / BYTES_PER_RECORD }
    }

    pub(crate) fn plus(self, other: Weight) -> Weight {
        Weight { bytes: self.bytes + other.bytes, records: self.records + other.records }
    }

    /// Nothing less than nothing: at the edges of tablets buckets are counted twice.
    pub(crate) fn less(self, other: Weight) -> Weight {
        Weight {
            bytes: self.bytes.saturating_sub(other.bytes),
            records: self.records.saturating_sub(other.records),
        }
    }

    pub(crate) fn fits(self, limit: Weight) -> bool {
        self.bytes <= limit.bytes && self.records <= limit.records
    }
}

/// An object, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) table: TableId,
    pub(crate) hash: KeyHash,
    /// Of the whole entry.
    pub(crate) bytes: u32,
    /// Where the entry is.
    pub(crate) segment: SegmentId,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Bucket {
    bytes: u64,
    /// Its records, and in the lower 24 bits its array in `arrays` plus one; 0: none.
    records_and_child: u64,
}

const CHILD_BITS: u32 = 24;
const RECORD: u64 = 1 << CHILD_BITS;
const CHILD: u64 = RECORD - 1;

impl Bucket {
    fn records(&self) -> u64 {
        self.records_and_child >> CHILD_BITS
    }

    fn weight(&self) -> Weight {
        Weight { bytes: self.bytes, records: self.records() }
    }

    #[inline]
    fn child(&self) -> Option<usize> {
        (self.records_and_child & CHILD).checked_sub(1).map(|child| child as usize)
    }

    fn set_child(&mut self, child: Option<usize>) {
        self.records_and_child = self.records_and_child & !CHILD | child.map_or(0, |child| child as u64 + 1);
    }
}

struct Array {
    birth: SegmentId,
    buckets: Box<[Bucket; BUCKET_COUNT]>,
}

struct Root {
    table: TableId,
    array: usize,
    /// All that it counts.
    records: u64,
}

/// The trees of all tables of a shard that are large enough to have one.
pub(crate) struct Profiles {
    /// A bucket beyond this gets an array below it.
    bucket: Weight,
    array_count_max: usize,
    /// Rising.
    roots: Vec<Root>,
    arrays: Vec<Array>,
    /// Arrays that are in no tree; all their buckets are empty.
    free: Vec<usize>,
}

#[inline]
fn bucket_of(hash: KeyHash, level: u32) -> usize {
    ((hash.0 >> (u64::BITS - BITS * (level + 1))) & 0xFF) as usize
}

/// The first and the last hash of a bucket of an array whose first hash is `from`.
fn span_of(from: u64, index: usize, level: u32) -> (u64, u64) {
    let first = from | (index as u64) << (u64::BITS - BITS * (level + 1));
    (first, first | u64::MAX.checked_shr(BITS * (level + 1)).unwrap_or(0))
}

impl Profiles {
    /// Arrays take at most `bytes_max`; a bucket is to hold no more than `bucket_bytes`, and no more records than go with that.
    pub(crate) fn new(bytes_max: u64, bucket_bytes: u64) -> Profiles {
        let array_count_max = (bytes_max / ARRAY_BYTES).min(CHILD - 1) as usize;
        let bucket = Weight::of_bytes(bucket_bytes);
        Profiles { bucket, array_count_max, roots: Vec::new(), arrays: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// What a bucket may hold, and a tablet without a profile.
    pub(crate) fn bucket(&self) -> Weight {
        self.bucket
    }

    pub(crate) fn has(&self, table: TableId) -> bool {
        self.root(table).is_some()
    }

    /// What all arrays that were ever made take.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrays.len() as u64 * ARRAY_BYTES
    }

    /// A tablet has outgrown a bucket: what comes to be in segments from `next` on, which no segment is yet, is counted.
    #[cold]
    pub(crate) fn begin(&mut self, table: TableId, next: SegmentId) {
        let Err(place) = self.roots.binary_search_by_key(&table, |root| root.table) else { return };
        if let Some(array) = self.make(next) {
            self.roots.insert(place, Root { table, array, records: 0 });
        }
    }

    /// Nobody asks for this table any more.
    pub(crate) fn end(&mut self, table: TableId) {
        if let Some(place) = self.root(table) {
            let root = self.roots.remove(place);
            self.give_up(root.array);
        }
    }

    /// An entry went without anybody knowing where it was counted: what comes from now on is counted anew.
    pub(crate) fn end_all(&mut self) {
        for root in std::mem::take(&mut self.roots) {
            self.give_up(root.array);
        }
    }

    /// An entry has come to live. `next` is the first segment id that is not given out yet. Whether the table has a profile.
    #[inline]
    pub(crate) fn add(&mut self, entry: &Counted, next: SegmentId) -> bool {
        let Some(place) = self.root(entry.table) else { return false };
        let root = &mut self.roots[place];
        let (mut at, mut level) = (root.array, 0);
        if self.arrays[at].birth > entry.segment {
            return true;
        }
        root.records += 1;
        loop {
            let index = bucket_of(entry.hash, level);
            let bucket = &mut self.arrays[at].buckets[index];
            bucket.bytes += u64::from(entry.bytes);
            bucket.records_and_child += RECORD;
            let weight = bucket.weight();
            match bucket.child() {
                Some(child) if self.arrays[child].birth <= entry.segment => (at, level) = (child, level + 1),
                Some(_) => return true,
                None => {
                    if !weight.fits(self.bucket) {
                        self.refine(at, level, index, next);
                    }
                    return true;
                }
            }
        }
    }

    /// An entry has died, or leaves its segment.
    #[inline]
    pub(crate) fn take_off(&mut self, entry: &Counted) {
        let Some(place) = self.root(entry.table) else { return };
        let why = "what is taken off was put on";
        let root = &mut self.roots[place];
        let (mut at, mut level) = (root.array, 0);
        if self.arrays[at].birth > entry.segment {
            return;
        }
        root.records = root.records.checked_sub(1).expect(why);
        let mut has_emptied = root.records == 0;
        loop {
            let index = bucket_of(entry.hash, level);
            let bucket = &mut self.arrays[at].buckets[index];
            bucket.bytes = bucket.bytes.checked_sub(u64::from(entry.bytes)).expect(why);
            bucket.records_and_child = bucket.records_and_child.checked_sub(RECORD).expect(why);
            let Some(child) = bucket.child() else { break };
            has_emptied |= bucket.records() == 0;
            if self.arrays[child].birth > entry.segment {
                break;
            }
            (at, level) = (child, level + 1);
        }
        if has_emptied {
            self.collapse(place, entry.hash);
        }
    }

    #[inline]
    fn root(&self, table: TableId) -> Option<usize> {
        match &self.roots[..] {
            [] => None,
            [root] => (root.table == table).then_some(0),
            roots => roots.binary_search_by_key(&table, |root| root.table).ok(),
        }
    }

    #[cold]
    fn refine(&mut self, at: usize, level: u32, index: usize, next: SegmentId) {
        if level + 1 < LEVELS_MAX
            && let Some(child) = self.make(next)
        {
            self.arrays[at].buckets[index].set_child(Some(child));
        }
    }

    /// An empty array, if there may be another one.
    fn make(&mut self, birth: SegmentId) -> Option<usize> {
        if let Some(place) = self.free.pop() {
            self.arrays[place].birth = birth;
            return Some(place);
        }
        if self.arrays.len() >= self.array_count_max {
            return None;
        }
        self.arrays.push(Array { birth, buckets: Box::new([Bucket::default(); BUCKET_COUNT]) });
        Some(self.arrays.len() - 1)
    }

    /// Gives up the highest array on the way to a hash that counts nothing any more.
    #[cold]
    fn collapse(&mut self, place: usize, hash: KeyHash) {
        if self.roots[place].records == 0 {
            let root = self.roots.remove(place);
            return self.give_up(root.array);
        }
        let (mut at, mut level) = (self.roots[place].array, 0);
        loop {
            let bucket = &mut self.arrays[at].buckets[bucket_of(hash, level)];
            let Some(child) = bucket.child() else { return };
            if bucket.records() == 0 {
                bucket.set_child(None);
                return self.give_up(child);
            }
            (at, level) = (child, level + 1);
        }
    }

    /// Takes an array and all below it out of its tree.
    fn give_up(&mut self, array: usize) {
        let mut left = vec![array];
        while let Some(at) = left.pop() {
            let buckets = &mut self.arrays[at].buckets;
            left.extend(buckets.iter().filter_map(Bucket::child));
            buckets.fill(Bucket::default());
            self.free.push(at);
        }
    }

    /// Appends what is known of the hashes from `first` to `last` of a table, as rows that each tell what lies somewhere
    /// between two hashes, in no order; sums it up. A bucket of no more than `grain` is not looked into, and goes with its
    /// neighbours as long as they are no more than that together.
    pub(crate) fn rows(
        &self,
        table: TableId,
        first: KeyHash,
        last: KeyHash,
        grain: Weight,
        out: &mut Vec<TabletStat>,
    ) -> Weight {
        let Some(place) = self.root(table) else { return Weight::default() };
        let mut rows = Rows { table, span: (first.0, last.0), grain, pending: None, out };
        self.rows_in(self.roots[place].array, 0, 0, &mut rows)
    }

    fn rows_in(&self, at: usize, level: u32, from: u64, rows: &mut Rows<'_>) -> Weight {
        let mut sum = Weight::default();
        for (index, bucket) in self.arrays[at].buckets.iter().enumerate() {
            let weight = bucket.weight();
            let (first, last) = span_of(from, index, level);
            if weight.records == 0 || last < rows.span.0 || rows.span.1 < first {
                continue;
            }
            let span = (first.max(rows.span.0), last.min(rows.span.1));
            match bucket.child() {
                Some(child) if !weight.fits(rows.grain) => {
                    rows.flush();
                    let own = weight.less(self.total(child));
                    let inside = self.rows_in(child, level + 1, first, rows);
                    rows.push(span, own);
                    sum = sum.plus(inside).plus(own);
                }
                Some(_) | None => {
                    rows.take(span, weight);
                    sum = sum.plus(weight);
                }
            }
        }
        rows.flush();
        sum
    }

    fn total(&self, at: usize) -> Weight {
        self.arrays[at].buckets.iter().map(Bucket::weight).fold(Weight::default(), Weight::plus)
    }

    /// Panics when the trees do not count exactly these objects, which are all that live, or are not whole.
    pub(crate) fn check(&self, objects: impl Iterator<Item = Counted>) {
        assert!(self.roots.is_sorted_by_key(|root| root.table));
        let mut anew: Vec<Option<Box<[Weight; BUCKET_COUNT]>>> = self.arrays.iter().map(|_| None).collect();
        let empty = || Box::new([Weight::default(); BUCKET_COUNT]);
        for root in &self.roots {
            let mut left = vec![root.array];
            while let Some(at) = left.pop() {
                assert!(anew[at].replace(empty()).is_none(), "an array is in one place of one tree");
                left.extend(self.arrays[at].buckets.iter().filter_map(Bucket::child));
            }
        }
        assert_eq!(anew.iter().flatten().count() + self.free.len(), self.arrays.len());
        assert!(self.arrays.len() <= self.array_count_max);
        for entry in objects {
            let Some(place) = self.root(entry.table) else { continue };
            let (mut at, mut level) = (self.roots[place].array, 0);
            while self.arrays[at].birth <= entry.segment {
                let index = bucket_of(entry.hash, level);
                let weights = anew[at].as_mut().expect("what is below a root is in its tree");
                weights[index] = weights[index].plus(Weight { bytes: entry.bytes.into(), records: 1 });
                let Some(child) = self.arrays[at].buckets[index].child() else { break };
                (at, level) = (child, level + 1);
            }
        }
        for (array, anew) in self.arrays.iter().zip(&anew) {
            let empty = empty();
            let anew = anew.as_ref().unwrap_or(&empty);
            assert!(
                array.buckets.iter().map(Bucket::weight).eq(anew.iter().copied()),
                "a bucket is miscounted"
            );
        }
        for root in &self.roots {
            assert_eq!(root.records, self.total(root.array).records);
        }
    }
}

/// Rows as they come, those of neighbours together.
struct Rows<'a> {
    table: TableId,
    span: (u64, u64),
    grain: Weight,
    pending: Option<((u64, u64), Weight)>,
    out: &'a mut Vec<TabletStat>,
}

impl Rows<'_> {
    /// The next bucket in the order of hashes.
    fn take(&mut self, (first, last): (u64, u64), weight: Weight) {
        if let Some(((begin, _), filled)) = self.pending {
            let together = filled.plus(weight);
            if together.fits(self.grain) {
                self.pending = Some(((begin, last), together));
                return;
            }
        }
        self.flush();
        self.pending = Some(((first, last), weight));
    }

    fn flush(&mut self) {
        if let Some((span, weight)) = self.pending.take() {
            self.push(span, weight);
        }
    }

    fn push(&mut self, (first, last): (u64, u64), weight: Weight) {
        let Weight { bytes, records } = weight;
        if records > 0 || bytes > 0 {
            self.out.push(TabletStat {
                table: self.table,
                first: KeyHash(first),
                last: KeyHash(last),
                bytes,
                records,
            });
        }
    }
}

#[cfg(test)]
mod tests;
