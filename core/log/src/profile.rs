//! The distribution of a large table's bytes and records over its hashes, finer than one number per tablet.
//!
//! A table's profile is a tree of arrays of 256 buckets. The first eight bits of a hash choose a bucket of the root,
//! the next eight bits a bucket of the array below it, and so on. A bucket that has outgrown its bounds gets an array
//! below it. Entries that were counted before stay counted in the bucket, because their hashes are no longer known:
//! they lie somewhere in the bucket. A table without any tablet that has outgrown a bucket has no tree.
//!
//! The *birth* of an array is the first segment id that was not given out when the array was made. An entry is counted
//! by the deepest array whose birth is not above the entry's segment. This rule has three effects:
//! - When an entry dies or moves, the array that counted it is found, however the tree has grown meanwhile.
//! - Entries that cleaning moves are then counted as finely as new ones.
//! - An array may be given up at any time: a later search for it finds no array, or one that was born later.
//!
//! A tree belongs to a table and not to a tablet, so that cutting and joining tablets does not affect it.
//!
//! Invariants:
//! - a bucket's numbers are those of all its entries, the array below it included;
//! - nothing is subtracted that was not added: each array counts exactly the live entries for which it is the deepest,
//!   and those that were lost;
//! - an array that counts nothing any more is not kept, and there are never more arrays than were allowed.
//!
//! Not here: the weight of whole tablets (`stats`), the information for recoveries (`will`). Catalogue: C3, F3.
//! Source: SOSP11 3.9.

use crate::TabletStat;
use ramhold_base::{KeyHash, SegmentId, TableId};

const BUCKET_COUNT: usize = 256;
const BITS: u32 = 8;
const LEVELS_MAX: u32 = u64::BITS / BITS;
/// The memory of an array with its place in two lists, whose capacity may be twice their length.
pub(crate) const ARRAY_BYTES: u64 =
    (BUCKET_COUNT * size_of::<Bucket>() + 2 * (size_of::<Array>() + 4)) as u64;
/// The ratio of the bounds of bytes and records: 600 MB go with 3 million records.
const BYTES_PER_RECORD: u64 = 200;

/// The bytes and the number of whole entries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Weight {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

impl Weight {
    /// A number of bytes, and the number of records that goes with it.
    pub(crate) fn of_bytes(bytes: u64) -> Weight {
        Weight { bytes, records: bytes / BYTES_PER_RECORD }
    }

    pub(crate) fn plus(self, other: Weight) -> Weight {
        Weight { bytes: self.bytes + other.bytes, records: self.records + other.records }
    }

    /// The difference, at least zero: at the edges of tablets, buckets are counted twice.
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

/// The properties of an object by which it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) table: TableId,
    pub(crate) hash: KeyHash,
    /// Bytes of the whole entry.
    pub(crate) bytes: u32,
    /// The segment that holds the entry.
    pub(crate) segment: SegmentId,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Bucket {
    bytes: u64,
    /// The number of records, and in the lower 24 bits the index in `arrays` of the array below, plus one; 0 if none.
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
    /// Records that the tree counts.
    records: u64,
}

/// The trees of all tables of a shard that are large enough to have one.
pub(crate) struct Profiles {
    /// A bucket with more than this gets an array below it.
    bucket: Weight,
    array_count_max: usize,
    /// Sorted by table.
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
    /// Arrays take at most `bytes_max`. A bucket should hold no more than `bucket_bytes`, and no more records than go
    /// with those.
    pub(crate) fn new(bytes_max: u64, bucket_bytes: u64) -> Profiles {
        let array_count_max = (bytes_max / ARRAY_BYTES).min(CHILD - 1) as usize;
        let bucket = Weight::of_bytes(bucket_bytes);
        Profiles { bucket, array_count_max, roots: Vec::new(), arrays: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The most that a bucket may hold, and a tablet without a profile.
    pub(crate) fn bucket(&self) -> Weight {
        self.bucket
    }

    pub(crate) fn has(&self, table: TableId) -> bool {
        self.root(table).is_some()
    }

    /// The memory of all arrays that were ever made.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrays.len() as u64 * ARRAY_BYTES
    }

    /// Begins a profile, because a tablet has outgrown a bucket. Entries in segments from `next` on are counted. `next`
    /// is the first segment id that is not given out yet.
    #[cold]
    pub(crate) fn begin(&mut self, table: TableId, next: SegmentId) {
        let Err(place) = self.roots.binary_search_by_key(&table, |root| root.table) else { return };
        if let Some(array) = self.make(next) {
            self.roots.insert(place, Root { table, array, records: 0 });
        }
    }

    /// Ends the profile of a table that is no longer tracked.
    pub(crate) fn end(&mut self, table: TableId) {
        if let Some(place) = self.root(table) {
            let root = self.roots.remove(place);
            self.give_up(root.array);
        }
    }

    /// Ends all profiles, because an entry has gone and the array that counted it is unknown. Profiles begin anew with
    /// later entries.
    pub(crate) fn end_all(&mut self) {
        for root in std::mem::take(&mut self.roots) {
            self.give_up(root.array);
        }
    }

    /// Counts an entry that has become live. `next` is the first segment id that is not given out yet. Returns whether
    /// the table has a profile.
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

    /// Subtracts an entry that has died or leaves its segment.
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

    /// Makes an empty array, if one more is allowed.
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

    /// Gives up the highest array that counts nothing any more on the path to a hash.
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

    /// Takes an array and all arrays below it out of their tree.
    fn give_up(&mut self, array: usize) {
        let mut left = vec![array];
        while let Some(at) = left.pop() {
            let buckets = &mut self.arrays[at].buckets;
            left.extend(buckets.iter().filter_map(Bucket::child));
            buckets.fill(Bucket::default());
            self.free.push(at);
        }
    }

    /// Appends rows, in no order, for the hashes from `first` to `last` of a table. Each row tells the weight that lies
    /// somewhere between two hashes. Returns the sum of the rows. A bucket of at most `grain` is not divided. It is
    /// joined with adjacent buckets as long as they are at most `grain` together.
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

    /// Panics when the trees are not sound, or do not count exactly these objects, which are all live ones.
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

/// Collects rows, and joins those of adjacent buckets.
struct Rows<'a> {
    table: TableId,
    span: (u64, u64),
    grain: Weight,
    pending: Option<((u64, u64), Weight)>,
    out: &'a mut Vec<TabletStat>,
}

impl Rows<'_> {
    /// Takes the next bucket in the order of hashes.
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
