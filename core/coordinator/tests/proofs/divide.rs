//! A division covers exactly the tablets, and its parts are within the bounds.

use proptest::prelude::*;
use ramhold_base::hash::{PlacementSeed, SLOT_COUNT, first_hash_of};
use ramhold_base::{KeyHash, SegmentId, ShardId, StreamId, TableId};
use ramhold_coordinator::{Bounds, DeadTablet, Spare, cut_on, divide};
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{PartitionRange, TabletStat};

const BOUNDS: Bounds =
    Bounds { bytes_wanted: 1_000_000, bytes_max: 1_000_000, records_max: 10_000, segment_bytes: 4096 };

fn tablet(table: u32, first: u64, last: u64, stats: &[(u64, u64)]) -> DeadTablet {
    let table = TableId(table);
    let range = PartitionRange {
        partition: 0,
        table,
        seed: PlacementSeed(u64::from(table.0)),
        first: KeyHash(first),
        last: KeyHash(last),
        shard: ShardId(0),
        stream: StreamId(1),
        first_segment: SegmentId(1),
        durability: Durability::Buffered,
        replicas: 3,
        slots: false,
    };
    let stat = |(bytes, records): &(u64, u64)| TabletStat {
        table,
        first: KeyHash(first),
        last: KeyHash(last),
        bytes: *bytes,
        records: *records,
    };
    DeadTablet { range, stats: stats.iter().map(stat).collect() }
}

// F3
#[test]
fn small_tablets_share_a_partition_and_large_ones_are_cut() {
    let small = [tablet(1, 0, 99, &[(10, 1)]), tablet(2, 0, 99, &[(10, 1)]), tablet(3, 5, 5, &[])];
    let ranges = divide(&small, &BOUNDS);
    assert_eq!(ranges.len(), 3);
    assert!(ranges.iter().all(|r| r.partition == 0));
    let large = [tablet(1, 0, u64::MAX, &[(5_000_000, 10)])];
    let ranges = divide(&large, &BOUNDS);
    assert_eq!(ranges.len(), 6, "five would leave no room for what came after the statistics");
    assert_eq!(ranges.last().unwrap().partition, 5);
    let many = [tablet(1, 0, u64::MAX, &[(10, 100_000)])];
    assert!(divide(&many, &BOUNDS).len() >= 10);
    assert_eq!(divide(&[], &BOUNDS), []);
}

// H2, H3: the new owner can keep one range with each of its neighbourhoods.
#[test]
fn partitions_are_cut_on_for_their_new_owners() {
    let tablets = [tablet(1, 0, u64::MAX, &[(4_000_000, 10)]), tablet(2, 0, 99, &[(50_000, 1)])];
    let divided = divide(&tablets, &BOUNDS);
    let spare = |most: u64| Spare { all: 1000, tables: [(TableId(1), most), (TableId(2), most)].into() };
    let finer = cut_on(&divided, &tablets, 6, 100_000, &mut spare(1000));
    let of = |partition| finer.iter().filter(move |range| range.partition == partition);
    let partitions = divided.last().unwrap().partition;
    for partition in 0..partitions {
        assert_eq!(of(partition).count(), 6, "{finer:?}");
    }
    let covered = |ranges: &[PartitionRange]| {
        let mut ends: Vec<_> = ranges.iter().map(|r| (r.table, r.first, r.last)).collect();
        ends.sort_unstable();
        ends
    };
    for pair in covered(&finer).windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        assert_eq!(pair[0].2.0 + 1, pair[1].1.0);
    }
    assert_eq!((covered(&finer)[0].1, covered(&finer).last().unwrap().2), (KeyHash(0), KeyHash(99)));
    let small = finer.iter().filter(|range| range.table == TableId(2));
    assert_eq!(small.count(), 1, "a small range is not cut");
    assert_eq!(covered(&cut_on(&divided, &tablets, 6, 100_000, &mut spare(0))), covered(&divided));
    // The spare ranges are there once, for all homes together.
    let mut seven = spare(7);
    assert_eq!(cut_on(&divided, &tablets, 6, 100_000, &mut seven).len(), divided.len() + 7);
    assert_eq!(cut_on(&divided, &tablets, 6, 100_000, &mut seven).len(), divided.len());
}

// F3: a tablet whose weight lies in one corner.
#[test]
fn uneven_statistics_are_cut_where_they_are_heavy() {
    let mut corner = tablet(1, 0, u64::MAX, &[(0, 0)]);
    corner.stats.push(TabletStat {
        table: TableId(1),
        first: KeyHash(0),
        last: KeyHash(u64::MAX / 64),
        bytes: 3_000_000,
        records: 30,
    });
    let ranges = divide(&[corner.clone()], &BOUNDS);
    let heavy: Vec<u32> = ranges.iter().filter(|r| r.first.0 < u64::MAX / 64).map(|r| r.partition).collect();
    assert!(heavy.len() >= 4, "{heavy:?}");
    assert!(heavy.windows(2).all(|w| w[0] != w[1]));
}

/// As many tablets as cuts leave of the slots, with what each weighs.
fn by_slots(cuts: &std::collections::BTreeSet<u16>, weights: &[(u64, u64)]) -> Vec<DeadTablet> {
    let firsts: Vec<u16> = [0].into_iter().chain(cuts.iter().copied()).collect();
    let lasts = cuts.iter().map(|cut| first_hash_of(*cut).0 - 1).chain([u64::MAX]);
    let tablet_of = |((first, last), weight): ((&u16, u64), &(u64, u64))| {
        let mut tablet = tablet(1, first_hash_of(*first).0, last, &[*weight]);
        tablet.range.slots = true;
        tablet
    };
    firsts.iter().zip(lasts).zip(weights).map(tablet_of).collect()
}

fn is_at_slots(first: KeyHash, last: KeyHash) -> bool {
    let below = u64::MAX / u64::from(SLOT_COUNT);
    first.0 & below == 0 && last.0 & below == below
}

// B3
#[test]
fn a_slot_is_never_cut_however_heavy() {
    let heavy = by_slots(&[1, 2].into(), &[(50_000_000, 1), (0, 0), (50_000_000, 1)]);
    let ranges = divide(&heavy, &BOUNDS);
    assert!(ranges.len() > 40);
    assert!(ranges.iter().all(|range| range.slots && is_at_slots(range.first, range.last)));
    assert_eq!(ranges.iter().filter(|range| range.last < first_hash_of(1)).count(), 1);
}

proptest! {
    // F3, B3
    #[test]
    fn tables_by_slots_are_cut_between_slots(
        cuts in proptest::collection::btree_set(1u16..SLOT_COUNT, 0..12),
        weights in proptest::collection::vec((0u64..20_000_000, 0u64..200_000), 13),
    ) {
        let ranges = divide(&by_slots(&cuts, &weights), &BOUNDS);
        let mut next = Some(0u64);
        for range in &ranges {
            prop_assert_eq!(next, Some(range.first.0));
            prop_assert!(is_at_slots(range.first, range.last));
            next = range.last.0.checked_add(1);
        }
        prop_assert_eq!(next, None);
    }

    // F3
    #[test]
    fn a_division_covers_exactly_the_tablets_within_the_bounds(
        cuts in proptest::collection::btree_set(any::<u64>(), 0..12),
        weights in proptest::collection::vec((0u64..20_000_000, 0u64..200_000), 13),
    ) {
        let mut tablets = Vec::new();
        let mut first = 0;
        for (index, last) in cuts.iter().copied().chain([u64::MAX]).enumerate() {
            if last >= first {
                tablets.push(tablet(1, first, last, &weights[index..=index]));
            }
            if last == u64::MAX {
                break;
            }
            first = last + 1;
        }
        let ranges = divide(&tablets, &BOUNDS);
        let mut next = Some(0u64);
        for range in &ranges {
            prop_assert_eq!(next, Some(range.first.0));
            prop_assert!(range.first <= range.last);
            next = range.last.0.checked_add(1);
        }
        prop_assert_eq!(next, None);
        prop_assert!(ranges.windows(2).all(|w| w[1].partition - w[0].partition <= 1));
        let partitions = ranges.last().unwrap().partition + 1;
        for partition in 0..partitions {
            let mut bytes = 0.0;
            let mut records = 0.0;
            let mut splittable = false;
            for range in ranges.iter().filter(|r| r.partition == partition) {
                let owner = tablets.iter().find(|t| t.range.first <= range.first && range.last <= t.range.last);
                let owner = owner.unwrap();
                let width = |r: &PartitionRange| (r.last.0 - r.first.0) as f64 + 1.0;
                let share = width(range) / width(&owner.range);
                bytes += owner.stats[0].bytes as f64 * share;
                records += owner.stats[0].records as f64 * share;
                splittable |= range.first < range.last;
            }
            let within = bytes <= BOUNDS.bytes_max as f64 && records <= BOUNDS.records_max as f64;
            prop_assert!(within || !splittable, "{bytes} bytes, {records} records");
        }
    }
}

/// The objects of a tablet, and the rows of its master's profile that describe them.
struct Known {
    objects: Vec<(u64, u64)>,
    rows: Vec<TabletStat>,
}

impl Known {
    /// A tree of rows over hashes: what is not in a bucket of its own is told of the whole that it lies in somewhere.
    fn of(objects: Vec<(u64, u64)>, bucket_bytes: u64, blurred_of: u64) -> Known {
        let mut rows = Vec::new();
        tell(&objects, 0, 0, bucket_bytes, blurred_of, &mut rows);
        Known { objects, rows }
    }

    fn bytes(&self, first: KeyHash, last: KeyHash) -> (u64, u64) {
        let within = self.objects.iter().filter(|(hash, _)| (first.0..=last.0).contains(hash));
        within.fold((0, 0), |sum, (_, bytes)| (sum.0 + bytes, sum.1 + 1))
    }
}

fn tell(
    objects: &[(u64, u64)],
    from: u64,
    level: u32,
    bucket_bytes: u64,
    blurred_of: u64,
    rows: &mut Vec<TabletStat>,
) {
    let width_bits = 64 - 8 * level;
    let last = from | u64::MAX.checked_shr(8 * level).unwrap_or(0);
    let row = |bytes, records| TabletStat {
        table: TableId(1),
        first: KeyHash(from),
        last: KeyHash(last),
        bytes,
        records,
    };
    let bytes: u64 = objects.iter().map(|(_, bytes)| bytes).sum();
    if bytes <= bucket_bytes || level == 7 {
        return rows.extend((bytes > 0).then(|| row(bytes, objects.len() as u64)));
    }
    // The first of them were counted here, before there was anything below.
    let mut blurred = 0;
    let count = objects.iter().take_while(|(_, bytes)| {
        blurred += bytes;
        blurred <= blurred_of
    });
    let (early, late) = objects.split_at(count.count());
    rows.push(row(early.iter().map(|(_, bytes)| bytes).sum(), early.len() as u64));
    for index in 0..256_u64 {
        let begin = from | index << (width_bits - 8);
        let end = begin | (u64::MAX >> (8 * (level + 1)));
        let below: Vec<(u64, u64)> =
            late.iter().copied().filter(|(hash, _)| (begin..=end).contains(hash)).collect();
        tell(&below, begin, level + 1, bucket_bytes, blurred_of, rows);
    }
}

/// Partitions with what they come to hold.
fn held(known: &Known, ranges: &[PartitionRange]) -> std::collections::BTreeMap<u32, (u64, u64)> {
    let mut partitions = std::collections::BTreeMap::new();
    for range in ranges {
        let (bytes, records) = known.bytes(range.first, range.last);
        let sum: &mut (u64, u64) = partitions.entry(range.partition).or_default();
        *sum = (sum.0 + bytes, sum.1 + records);
    }
    partitions
}

fn largest(known: &Known, ranges: &[PartitionRange]) -> u64 {
    held(known, ranges).values().map(|(bytes, _)| *bytes).max().expect("there is a partition")
}

/// So many objects of which most are close together: in one 65,536th of the hashes.
fn skewed(seed: u64, count: u64) -> Vec<(u64, u64)> {
    let mut rng = ramhold_base::Rng::new(seed);
    let hash = |rng: &mut ramhold_base::Rng| match rng.below(10) {
        0 => rng.u64(),
        _ => 0xABCD << 48 | rng.u64() >> 16,
    };
    (0..count).map(|_| (hash(&mut rng), rng.between(100, 2000))).collect()
}

// F3, A8
#[test]
fn a_skewed_tablet_is_cut_by_its_profile_so_that_every_partition_is_within_the_bounds() {
    for seed in 0..20 {
        let known = Known::of(skewed(seed, 8_000), 40_000, 60_000);
        let total: u64 = known.rows.iter().map(|row| row.bytes).sum();
        assert_eq!(total, known.bytes(KeyHash(0), KeyHash(u64::MAX)).0, "seed {seed}");
        let mut whole = tablet(1, 0, u64::MAX, &[]);
        whole.stats = known.rows.clone();
        let ranges = divide(&[whole], &BOUNDS);
        let partitions = held(&known, &ranges);
        for (bytes, records) in partitions.values() {
            assert!(
                *bytes <= BOUNDS.bytes_max && *records <= BOUNDS.records_max,
                "seed {seed}: {partitions:?}"
            );
        }
        // Pessimism and grain cost some partitions more, not many.
        let needed = total.div_ceil(BOUNDS.bytes_max);
        assert!(
            partitions.len() as u64 <= needed * 3 / 2 + 1,
            "seed {seed}: {} of {needed}",
            partitions.len()
        );

        // With nothing but the total most of it is in one.
        let ranges = divide(&[tablet(1, 0, u64::MAX, &[(total, 8_000)])], &BOUNDS);
        assert!(largest(&known, &ranges) > total / 2, "seed {seed}");
    }
}

// F3, B3
#[test]
fn slots_that_are_heavy_are_apart_from_each_other() {
    for seed in 0..20 {
        let mut rng = ramhold_base::Rng::new(seed);
        // Eight neighbouring slots hold most; none of them more than a partition may.
        let hash = |rng: &mut ramhold_base::Rng| match rng.below(10) {
            0 => rng.u64(),
            _ => first_hash_of(1000 + rng.below(8) as u16).0 | rng.u64() >> 14,
        };
        let objects = (0..5_000).map(|_| (hash(&mut rng), rng.between(500, 1500))).collect();
        let known = Known::of(objects, 40_000, 20_000);
        let mut whole = tablet(1, 0, u64::MAX, &[]);
        whole.range.slots = true;
        whole.stats = known.rows.clone();
        let ranges = divide(&[whole], &BOUNDS);
        assert!(ranges.iter().all(|range| is_at_slots(range.first, range.last)), "seed {seed}");
        assert!(largest(&known, &ranges) <= BOUNDS.bytes_max, "seed {seed}: {:?}", held(&known, &ranges));
    }
}

// F3
#[test]
fn masters_that_share_a_skewed_tablet_have_about_as_much_each() {
    for seed in 0..20 {
        let known = Known::of(skewed(seed, 8_000), 40_000, 60_000);
        let mut whole = tablet(1, 0, u64::MAX, &[]);
        whole.stats = known.rows.clone();
        let total = known.bytes(KeyHash(0), KeyHash(u64::MAX)).0;
        let share = total / 5 * 17 / 16 + u64::from(BOUNDS.segment_bytes);
        let bounds = Bounds { bytes_wanted: share, bytes_max: 10_000_000, ..BOUNDS };
        let ranges = divide(&[whole], &bounds);
        let partitions = held(&known, &ranges);
        assert_eq!(partitions.len(), 5, "seed {seed}: {partitions:?}");
        assert!(largest(&known, &ranges) <= share * 5 / 4, "seed {seed}: {partitions:?}");
    }
}

// F3, A8: what a will says is older than the tablets, or wrong.
#[test]
fn whatever_rows_say_the_tablets_are_covered() {
    let mut rng = ramhold_base::Rng::new(7);
    for round in 0..300 {
        let mut cuts: Vec<u64> = (0..rng.below(6)).map(|_| rng.u64()).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let firsts: Vec<u64> = [0].into_iter().chain(cuts).collect();
        let rows: Vec<TabletStat> = (0..rng.below(30))
            .map(|_| {
                let (a, b) = (rng.u64(), rng.u64());
                // Some end before they begin; some weigh more than there is memory in the world.
                let (first, last) = if rng.chance(1, 10) { (a, b) } else { (a.min(b), a.max(b)) };
                let mut amount = || if rng.chance(1, 10) { u64::MAX } else { rng.below(3_000_000) };
                TabletStat {
                    table: TableId(1),
                    first: KeyHash(first),
                    last: KeyHash(last),
                    bytes: amount(),
                    records: amount(),
                }
            })
            .collect();
        let mut tablets = Vec::new();
        for (index, first) in firsts.iter().enumerate() {
            let last = firsts.get(index + 1).map_or(u64::MAX, |next| next - 1);
            let mut one = tablet(1, *first, last, &[]);
            one.stats = rows.clone();
            tablets.push(one);
        }
        let ranges = divide(&tablets, &BOUNDS);
        let mut next = Some(0);
        for range in &ranges {
            assert_eq!(next, Some(range.first.0), "round {round}");
            next = range.last.0.checked_add(1);
        }
        assert_eq!(next, None, "round {round}");
        assert!(ranges.len() <= 32_768 + tablets.len() * 62, "round {round}: {}", ranges.len());
    }
}
