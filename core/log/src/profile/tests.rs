//! Profiles compared with the entries that they count.

use super::*;
use ramhold_base::Rng;

const TABLE: TableId = TableId(5);
const BUCKET_BYTES: u64 = 4000;
const SEGMENT_BYTES: u64 = 2000;
const ARRAYS: u64 = 200;

/// The entries of one table beside its profile.
struct Model {
    profiles: Profiles,
    entries: Vec<Counted>,
    segment: u64,
    filled: u64,
}

/// Half of the hashes are anywhere, half close together, as those of keys with few tags.
fn hash(rng: &mut Rng) -> KeyHash {
    KeyHash(if rng.chance(1, 2) { rng.u64() } else { 0x1234_5600_0000_0000 | rng.u64() >> 26 })
}

impl Model {
    fn new() -> Model {
        let mut profiles = Profiles::new(ARRAYS * ARRAY_BYTES, BUCKET_BYTES);
        profiles.begin(TABLE, SegmentId(2));
        Model { profiles, entries: Vec::new(), segment: 1, filled: 0 }
    }

    fn append(&mut self, hash: KeyHash, bytes: u32) {
        self.filled += u64::from(bytes);
        if self.filled > SEGMENT_BYTES {
            (self.segment, self.filled) = (self.segment + 1, u64::from(bytes));
        }
        let entry = Counted { table: TABLE, hash, bytes, segment: SegmentId(self.segment) };
        let next = SegmentId(self.segment + 1);
        if !self.profiles.add(&entry, next) {
            self.profiles.begin(TABLE, next);
        }
        self.entries.push(entry);
    }

    fn remove(&mut self, at: usize) -> Counted {
        let entry = self.entries.swap_remove(at);
        self.profiles.take_off(&entry);
        entry
    }

    /// The weight of all entries but those in segments that are older than the profile.
    fn exact(&self, first: u64, last: u64) -> Weight {
        let root = self.profiles.root(TABLE).map(|place| self.profiles.roots[place].array);
        let birth = root.map_or(SegmentId(u64::MAX), |array| self.profiles.arrays[array].birth);
        let counted = self.entries.iter().filter(|entry| entry.segment >= birth);
        let within = counted.filter(|entry| (first..=last).contains(&entry.hash.0));
        within
            .fold(Weight::default(), |sum, entry| sum.plus(Weight { bytes: entry.bytes.into(), records: 1 }))
    }

    fn rows(&self, grain: u64) -> Vec<TabletStat> {
        let mut rows = Vec::new();
        let sum =
            self.profiles.rows(TABLE, KeyHash(0), KeyHash(u64::MAX), Weight::of_bytes(grain), &mut rows);
        assert_eq!(sum, self.exact(0, u64::MAX));
        rows
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a TabletStat>) -> Weight {
    rows.fold(Weight::default(), |sum, row| sum.plus(Weight { bytes: row.bytes, records: row.records }))
}

// F3
#[test]
fn what_is_there_lies_between_what_rows_say_whatever_comes_goes_and_is_moved() {
    let mut deepest = 0;
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        for _ in 0..40 {
            for _ in 0..rng.below(200) {
                let (hash, bytes) = (hash(&mut rng), rng.between(1, 200) as u32);
                model.append(hash, bytes);
            }
            for _ in 0..rng.below(150).min(model.entries.len() as u64) {
                let at = rng.below(model.entries.len() as u64) as usize;
                let entry = model.remove(at);
                if rng.chance(1, 3) {
                    model.append(entry.hash, entry.bytes); // Cleaning moves it.
                }
            }
            model.profiles.check(model.entries.iter().copied());
            let rows = model.rows(rng.between(1, 20_000));
            for _ in 0..10 {
                let (a, b) = (hash(&mut rng), hash(&mut rng));
                let (first, last) = (a.min(b), a.max(b));
                let exact = model.exact(first.0, last.0);
                let least = sum(rows.iter().filter(|row| first <= row.first && row.last <= last));
                let most = sum(rows.iter().filter(|row| row.first <= last && first <= row.last));
                assert!(least.fits(exact) && exact.fits(most), "seed {seed}: {least:?} {exact:?} {most:?}");
            }
            assert!(model.profiles.bytes() <= ARRAYS * ARRAY_BYTES, "seed {seed}");
        }
        deepest = deepest.max(model.profiles.arrays.len() - model.profiles.free.len());
        while !model.entries.is_empty() {
            model.remove(0);
        }
        assert!(model.profiles.is_empty(), "seed {seed}: what counts nothing is not kept");
        assert_eq!(model.profiles.free.len(), model.profiles.arrays.len(), "seed {seed}");
    }
    assert!(deepest > 4, "buckets were refined: {deepest}");
}

// F3
#[test]
fn what_is_not_known_is_what_buckets_may_hold_and_open_segments() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        for _ in 0..20_000 {
            let hash = hash(&mut rng);
            model.append(hash, 50);
        }
        let rows = model.rows(1);
        // For each bucket on the path to the edge of a stretch: its bound, and the room of the segment that was open
        // when the array below the bucket was made.
        let slack = BUCKET_BYTES + 50 + SEGMENT_BYTES;
        for _ in 0..200 {
            let edge = hash(&mut rng);
            let crossing = rows.iter().filter(|row| row.first < edge && edge <= row.last);
            let unknown = sum(crossing).bytes;
            assert!(unknown <= slack * 6, "seed {seed}: {unknown}");
        }
    }
}

// F3
#[test]
fn a_profile_that_may_not_grow_counts_on_as_it_is() {
    for arrays in [0, 1, 3] {
        let mut rng = Rng::new(arrays);
        let mut model = Model::new();
        model.profiles = Profiles::new(arrays * ARRAY_BYTES, BUCKET_BYTES);
        for _ in 0..5_000 {
            let hash = hash(&mut rng);
            model.append(hash, 50);
        }
        assert_eq!(model.profiles.bytes(), arrays * ARRAY_BYTES);
        model.profiles.check(model.entries.iter().copied());
        assert_eq!(sum(model.rows(1).iter()), model.exact(0, u64::MAX));
    }
}
