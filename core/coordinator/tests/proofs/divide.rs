//! A division covers exactly the tablets, and its parts are within the bounds.

use proptest::prelude::*;
use ramhold_base::hash::{PlacementSeed, SLOT_COUNT, first_hash_of};
use ramhold_base::{KeyHash, SegmentId, ShardId, StreamId, TableId};
use ramhold_coordinator::{Bounds, DeadTablet, divide};
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{PartitionRange, TabletStat};

const BOUNDS: Bounds = Bounds { bytes_max: 1_000_000, records_max: 10_000, segment_bytes: 4096 };

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
