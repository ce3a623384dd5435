//! The index against models, and at its bounds. Catalogue: C2.

use super::*;
use ramhold_base::hash::index_hash;
use ramhold_base::{KeyHash, Rng, TableId};
use std::collections::BTreeMap;

fn insert(index: &mut Index, hash: u64, at: u64) {
    try_insert(index, hash, at).unwrap();
}

/// Inserts in one of the two ways, by `vacancy` or by `prepare`.
fn try_insert(index: &mut Index, hash: u64, at: u64) -> Result<(), IndexFull> {
    if at.is_multiple_of(2)
        && let Some(vacancy) = index.vacancy(hash)?
    {
        assert!(index.find(hash, Some).is_none());
        index.fill(vacancy, hash, What::Object, Reference(at));
        return Ok(());
    }
    index.prepare(hash)?;
    index.insert(hash, What::Object, Reference(at));
    Ok(())
}

/// The references that an undisturbed walk sees that begins now.
fn walk(index: &mut Index, step: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let (buckets, next) = index.advance(from, step);
        buckets.into_iter().for_each(|number| index.entries_of(number, &mut seen));
        cursor = next;
    }
    let mut seen: Vec<u64> = seen.iter().map(|(_, at)| at.0).collect();
    seen.sort_unstable();
    seen
}

/// The parameters of one model test.
struct Scenario {
    seed: u64,
    bytes_max: u64,
    hash_of: fn(&mut Rng) -> u64,
    is_refused: bool,
}

/// Runs random operations against a map from reference to hash, in phases that grow and phases that shrink.
fn agrees_with_a_map(scenario: &Scenario) {
    let Scenario { seed, bytes_max, hash_of, is_refused } = *scenario;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut index = Index::new(1 << 20, bytes_max);
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut refused, mut shrunk, mut count_before) = (0, 0, index.bucket_count());
    let mut has_not_grown = true;
    for step in 0..60_000_u64 {
        let from = rng.below(2 << 22);
        let known = model.range(from..).next().or(model.iter().next()).map(|(at, hash)| (*at, *hash));
        let inserts_of_ten = if step / 10_000 % 2 == 0 { 7 } else { 1 };
        match (rng.below(10), known) {
            (choice, _) if choice < inserts_of_ten => {
                let hash = hash_of(&mut rng);
                match try_insert(&mut index, hash, step) {
                    Ok(()) => _ = model.insert(step, hash),
                    Err(IndexFull) => refused += 1,
                }
            }
            (9, Some((at, hash))) => {
                let moved = at + (1 << 22);
                assert!(!index.holds(hash, Reference(moved)));
                assert!(index.spot(hash, Reference(moved)).is_none());
                if rng.chance(1, 2) {
                    index.replace(hash, Reference(at), What::Object, Reference(moved));
                } else {
                    let spot = index.spot(hash, Reference(at)).expect("it is held");
                    index.repoint(spot, Reference(at), Reference(moved));
                }
                assert!(index.holds(hash, Reference(moved)));
                assert!(!index.holds(hash, Reference(at)));
                model.remove(&at);
                model.insert(moved, hash);
            }
            (_, Some((at, hash))) => {
                index.remove(hash, Reference(at));
                model.remove(&at);
            }
            (_, None) => {}
        }
        shrunk += u64::from(index.bucket_count() < count_before);
        has_not_grown &= index.bucket_count() <= count_before;
        count_before = index.bucket_count();
        if step % 500 == 0 {
            index.check_invariants();
            for (at, hash) in &model {
                let found = index.find(*hash, |other| (other.0 == *at).then_some(()));
                assert!(found.is_some(), "reference {at} of seed {seed}");
            }
        }
        if step % 5000 == 0 {
            assert!(walk(&mut index, 7).iter().eq(model.keys()));
        }
    }
    assert_eq!(index.entry_count(), model.len() as u64);
    assert_eq!(refused > 0, is_refused, "refused {refused}");
    assert!(shrunk > 0 || has_not_grown);
    // A refused insertion works again after removals.
    for (at, hash) in std::mem::take(&mut model) {
        index.remove(hash, Reference(at));
    }
    index.check_invariants();
    assert_eq!(index.bucket_count(), 1 << index.level_first);
    let hash = hash_of(&mut rng);
    assert_eq!(index.prepare(hash), Ok(()));
}

// C2
#[test]
fn agrees_with_a_map_while_it_grows_and_shrinks() {
    for seed in 0..4 {
        agrees_with_a_map(&Scenario { seed, bytes_max: 1 << 20, hash_of: Rng::u64, is_refused: false });
    }
}

// C2
#[test]
fn stays_correct_when_all_keys_fall_into_one_bucket() {
    agrees_with_a_map(&Scenario { seed: 10, bytes_max: 1 << 20, hash_of: |_| 77, is_refused: true });
    agrees_with_a_map(&Scenario {
        seed: 11,
        bytes_max: 1 << 20,
        hash_of: |rng| rng.below(2) << 63 | 5,
        is_refused: true,
    });
}

// C2
#[test]
fn refuses_at_its_bound_and_takes_up_again() {
    for (seed, bytes_max) in [(20, INDEX_BYTES_MIN + 1024), (21, 1 << 13), (22, 1 << 14)] {
        agrees_with_a_map(&Scenario { seed, bytes_max, hash_of: Rng::u64, is_refused: true });
    }
    agrees_with_a_map(&Scenario { seed: 23, bytes_max: INDEX_BYTES_MIN, hash_of: |_| 3, is_refused: true });
}

// C2
#[test]
fn an_entry_takes_less_than_twelve_bytes_at_any_size_from_a_million() {
    let mut index = Index::new(1 << 30, 1 << 40);
    let mut rng = Rng::new(1);
    let mut worst = 0;
    // The count more than doubles once: from one doubling of the table to the next, the bytes per entry repeat.
    for at in 0..2_200_000 {
        insert(&mut index, rng.u64(), at);
        if at > 1_000_000 && at % 10_000 == 0 {
            worst = worst.max(index.bytes() * 1000 / index.entry_count());
        }
    }
    println!("worst: {worst} thousandths of a byte per entry");
    assert!(worst < 12_000, "{worst}");
}

/// Thousandths of a byte of the index per entry, without the last chunk of the base buckets and that of the overflow
/// buckets: these have the same size whatever the index holds, and are half empty on average.
fn per_entry(index: &Index) -> u64 {
    (index.bytes() - 2 * (BUCKET_BYTES << CHUNK_SHIFT_MAX)) * 1000 / index.entry_count()
}

// C2, F4
#[test]
fn what_is_expected_is_grown_for_and_given_back_if_it_does_not_come() {
    let mut index = Index::new(1 << 28, 1 << 40);
    let mut rng = Rng::new(3);
    let mut entries: Vec<(u64, u64)> = Vec::new();
    for round in 0..4_u64 {
        // Four of five expected entries come, then two of five, then all, then none.
        let (coming, expected): (u64, u64) =
            [(400_000, 500_000), (200_000, 500_000), (300_000, 300_000), (0, 900_000)][round as usize];
        for batch in 0..(coming / 32).max(4000) {
            let before = index.bucket_count();
            index.expect(index.entry_count() + expected - coming.min(batch * 32));
            index.make_way(32);
            assert!(index.bucket_count() - before <= 32 + 4, "a batch pays for its own buckets");
            for _ in 0..32.min(coming) {
                let entry = (rng.u64(), entries.len() as u64);
                insert(&mut index, entry.0, entry.1);
                entries.push(entry);
            }
        }
        assert!(8 * index.bucket_count() >= index.entry_count() + u64::min(expected - coming, 32 * 8 * 4000));
        index.check_invariants();
        index.expect(0);
        while index.shrink(4096) {}
        let now = per_entry(&index);
        println!("round {round}: {now} thousandths of a byte per entry");
        assert!(now < 13_000, "{now}");
        index.check_invariants();
        assert!(entries.iter().all(|(hash, at)| index.holds(*hash, Reference(*at))));
    }
}

// C2, F4
#[test]
fn expecting_too_much_takes_no_memory_from_what_comes() {
    for bytes_max in [1 << 16, 1 << 18, 1 << 20] {
        let [plain, expecting] = [0, u64::from(u32::MAX)].map(|expected| {
            let mut index = Index::new(1 << 28, bytes_max);
            let mut rng = Rng::new(4);
            index.expect(expected);
            let mut count = 0;
            while {
                index.make_way(32);
                (0..32).all(|_| try_insert(&mut index, rng.u64(), 2 * count + 1).is_ok())
            } {
                count += 32;
            }
            index.check_invariants();
            index.entry_count()
        });
        println!("{bytes_max}: {plain} entries, expecting more {expecting}");
        assert!(expecting * 20 >= plain * 19);
    }
}

// C2
#[test]
fn memory_falls_with_the_entries_and_growing_works_again() {
    let mut index = Index::new(1 << 28, 1 << 40);
    let mut rng = Rng::new(2);
    let mut entries = Vec::new();
    for round in 0..2 {
        while entries.len() < 1_000_000 {
            let at = entries.len() as u64 + (round << 30);
            let hash = rng.u64();
            insert(&mut index, hash, at);
            entries.push((hash, at));
        }
        index.check_invariants();
        rng.shuffle(&mut entries);
        let mut worst = 0;
        for (hash, at) in entries.drain(100_000..).rev() {
            index.remove(hash, Reference(at));
            worst = worst.max(per_entry(&index));
        }
        let now = per_entry(&index);
        println!("round {round}: {now} thousandths of a byte per entry, on the way {worst}");
        assert!(now <= 14_000, "{now}");
        assert!(worst <= 14_000, "{worst}");
        index.check_invariants();
        for (hash, at) in &entries {
            assert!(index.holds(*hash, Reference(*at)));
        }
    }
}

// C2
#[test]
fn memory_falls_when_a_walk_takes_entries_out() {
    let mut index = Index::new(1 << 28, 1 << 40);
    let mut rng = Rng::new(3);
    (0..500_000).for_each(|at| insert(&mut index, rng.u64(), at));
    let mut entries = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let (buckets, next) = index.advance(from, 64);
        for number in buckets {
            index.entries_of(number, &mut entries);
            for (_, at) in entries.drain(..).filter(|(_, at)| at.0 % 10 != 0) {
                index.remove_from(number, at);
            }
        }
        cursor = next;
    }
    // The steps that the last removals have paid for are taken by the insertions that follow.
    assert!(index.steps_owed > 0);
    (500_000..502_500).for_each(|at| insert(&mut index, rng.u64(), at * 10));
    assert_eq!(index.steps_owed, 0);
    let now = per_entry(&index);
    println!("{now} thousandths of a byte per entry");
    assert!(now <= 14_000, "{now}");
    index.check_invariants();
    assert!(walk(&mut index, 64).into_iter().eq((0..50_000).chain(500_000..502_500).map(|at| at * 10)));
}

// C2
#[test]
fn a_count_that_goes_up_and_down_by_a_tenth_moves_nothing() {
    let mut index = Index::new(1 << 20, 1 << 30);
    let mut rng = Rng::new(4);
    let hashes: Vec<u64> = (0..100_000).map(|_| rng.u64()).collect();
    hashes.iter().zip(0..).for_each(|(hash, at)| insert(&mut index, *hash, at));
    let before = index.bucket_count();
    for _ in 0..3 {
        (90_000..100_000).for_each(|at| index.remove(hashes[at as usize], Reference(at)));
        assert_eq!(index.bucket_count(), before);
        (90_000..100_000).for_each(|at| insert(&mut index, hashes[at as usize], at));
        assert_eq!(index.bucket_count(), before);
    }
}

/// A hash and its reference.
type Entry = (u64, u64);

/// Walks with `step` buckets at a time and `change`s the index between steps. Every entry that stays must be seen.
fn walk_sees_what_stays(seed: u64, step: u64, change: impl Fn(&mut Index, &mut Rng, &mut Vec<Entry>)) {
    println!("seed {seed}, {step} buckets at a time");
    let mut rng = Rng::new(seed);
    let mut index = Index::new(1 << 20, 1 << 24);
    let stay: Vec<Entry> = (0..1000).map(|at| (rng.u64(), at)).collect();
    let mut come_and_go: Vec<Entry> = (1000..20_000).map(|at| (rng.u64(), at)).collect();
    stay.iter().chain(&come_and_go).for_each(|(hash, at)| insert(&mut index, *hash, *at));
    let mut seen = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let (buckets, next) = index.advance(from, step);
        buckets.into_iter().for_each(|number| index.entries_of(number, &mut seen));
        change(&mut index, &mut rng, &mut come_and_go);
        cursor = next;
    }
    index.check_invariants();
    for (_, wanted) in stay {
        assert!(seen.iter().any(|(_, at)| at.0 == wanted), "{wanted}");
    }
}

fn grow(index: &mut Index, rng: &mut Rng, entries: &mut Vec<Entry>) {
    for _ in 0..20 {
        let (hash, at) = (rng.u64(), rng.below(1 << 40) + (1 << 40));
        insert(index, hash, at);
        entries.push((hash, at));
    }
}

fn shrink(index: &mut Index, rng: &mut Rng, entries: &mut Vec<Entry>) {
    for _ in 0..60.min(entries.len()) {
        let (hash, at) = entries.swap_remove(rng.below(entries.len() as u64) as usize);
        index.remove(hash, Reference(at));
    }
}

// C2
#[test]
fn a_walk_sees_every_entry_that_was_there_while_the_index_grows() {
    (0..3).for_each(|seed| walk_sees_what_stays(seed, 4, grow));
}

// C2
#[test]
fn a_walk_sees_every_entry_that_was_there_while_the_index_shrinks() {
    (10..13).for_each(|seed| walk_sees_what_stays(seed, 4, shrink));
    (13..16).for_each(|seed| walk_sees_what_stays(seed, 1, shrink));
}

// C2
#[test]
fn a_walk_sees_every_entry_that_was_there_while_the_index_goes_up_and_down() {
    (20..26).for_each(|seed| {
        walk_sees_what_stays(seed, 3, |index, rng, entries| {
            for _ in 0..rng.below(40) {
                if index.entry_count() > 18_000 || rng.chance(1, 2) {
                    shrink(index, rng, entries);
                } else {
                    (0..3).for_each(|_| grow(index, rng, entries));
                }
            }
        });
    });
}

// C2
#[test]
fn chains_stay_short_under_hashes_that_an_attacker_chooses_without_the_secret() {
    type Pattern = fn(u64) -> u64;
    let patterns: [(&str, Pattern); 5] = [
        ("sequential", |number| number),
        ("one prefix", |number| 0xDEAD_BEEF << 32 | number),
        ("one ending of 32 bits", |number| number << 32 | 0xBEEF),
        ("multiples of a large power of two", |number| number << 44),
        ("strides of the golden ratio", |number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
    ];
    for secret in [0x1234_5678_9ABC_DEF1, 3 << 61 | 77] {
        for (name, pattern) in patterns {
            let mut index = Index::new(1 << 28, 1 << 40);
            let mut longest = 0;
            for number in 0..1_000_000 {
                let hash = index_hash(secret, TableId(7), KeyHash(pattern(number)));
                insert(&mut index, hash, number);
                // The loads at the begin, in the middle and at the end of one doubling of the table.
                if [600_000, 700_000, 800_000, 900_000, 999_999].contains(&number) {
                    let chains = (0..index.bucket_count()).map(|bucket| index.chain_entry_count(bucket));
                    longest = longest.max(1 + chains.map(overflow_count_of).max().unwrap());
                }
            }
            println!("{name}, secret {secret:x}: longest chain of {longest} buckets");
            assert!(longest <= 6, "{name}: {longest}");
        }
    }
}

// C2
#[test]
fn a_chain_that_somebody_aims_at_is_refused_at_its_bound_and_harms_no_other() {
    let mut index = Index::new(1 << 20, 1 << 30);
    let mut rng = Rng::new(5);
    let mut count = 0;
    while count < 1000 && index.prepare(42).is_ok() {
        index.insert(42, What::Object, Reference(count));
        count += 1;
    }
    assert_eq!(overflow_count_of(count) + 1, CHAIN_BUCKETS_MAX);
    assert_eq!(overflow_count_of(count + 1) + 1, CHAIN_BUCKETS_MAX + 1);
    index.check_invariants();
    // A second chain, which shrinking would merge with the first.
    let bucket = 42 & ((1 << index.level_first) - 1);
    let others = std::iter::repeat_with(|| rng.u64()).filter(|hash| hash & ((1 << LEVEL_MIN) - 1) != bucket);
    let others: Vec<u64> = others.take(20_000).collect();
    others.iter().zip(1 << 20..).for_each(|(hash, at)| insert(&mut index, *hash, at));
    let full = (0..20).rev().map(|bit| 42 ^ 1 << bit).find(|hash| {
        index.bucket_of(*hash) != index.bucket_of(42) && hash & ((1 << index.level_first) - 1) == bucket
    });
    let full = full.expect("the table has been split");
    let mut at = 1 << 30;
    while at < (1 << 30) + 1000 && index.prepare(full).is_ok() {
        index.insert(full, What::Object, Reference(at));
        at += 1;
    }
    others.iter().zip(1 << 20..).for_each(|(hash, at)| index.remove(*hash, Reference(at)));
    index.check_invariants();
    assert!(index.bucket_count() > index.entry_count(), "they would have been merged");
    (0..count).for_each(|at| index.remove(42, Reference(at)));
    (1 << 30..at).for_each(|at| index.remove(full, Reference(at)));
    index.check_invariants();
    index.steps_owed = u64::MAX;
    index.shrink(u64::MAX);
    assert_eq!(index.bucket_count(), 1 << index.level_first);
}

// C2
#[test]
fn repointing_keeps_what_the_reference_leads_to() {
    let mut index = Index::new(1 << 20, 1 << 24);
    index.prepare(9).unwrap();
    index.insert(9, What::Tombstone, Reference(0));
    let spot = index.spot(9, Reference(0)).expect("it is held");
    index.repoint(spot, Reference(0), Reference(5));
    assert!(index.spot(9, Reference(0)).is_none());
    let mut entries = Vec::new();
    index.entries_of(index.bucket_of(9), &mut entries);
    assert_eq!(entries, [(What::Tombstone, Reference(5))]);
    assert_ne!(index.touch(9), 0);
}

/// An index that is full: 10,000 hashes in a row were refused.
fn full(seed: u64, bytes_max: u64) -> (Index, Vec<u64>, Rng) {
    println!("seed {seed}, {bytes_max} bytes");
    let mut rng = Rng::new(seed);
    let mut index = Index::new(1 << 28, bytes_max);
    let (mut hashes, mut refused) = (Vec::new(), 0);
    while refused < 10_000 {
        let hash = rng.u64();
        match try_insert(&mut index, hash, hashes.len() as u64) {
            Ok(()) => hashes.push(hash),
            Err(IndexFull) => refused += 1,
        }
    }
    (index, hashes, rng)
}

/// Enters hashes into a new index as a start does, in several orders. Returns how often it took memory beyond the bound.
fn enter_again(rng: &mut Rng, hashes: &mut [u64], bytes_max: u64) -> u32 {
    let mut lent = 0;
    for ahead in [1, 50, 1000] {
        rng.shuffle(hashes);
        let mut again = Index::new(1 << 28, bytes_max);
        for (at, hash) in hashes.iter().enumerate() {
            if at.is_multiple_of(ahead) {
                again.make_way(ahead as u64);
            }
            assert_eq!(again.prepare_again(*hash), Ok(()), "after {at} of {}", hashes.len());
            again.insert(*hash, What::Object, Reference(at as u64));
        }
        again.check_invariants();
        lent += u32::from(again.lent_bytes > 0);
        println!("{} entries, {} ahead: {} of {bytes_max} bytes", hashes.len(), ahead, again.bytes());
    }
    lent
}

// C2, I6: a start enters what an index held that was full, segment by segment, and in the order of the segments.
#[test]
fn a_full_index_takes_its_entries_again_in_any_order() {
    let mut lent = 0;
    for (seed, bytes_max) in [4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20].into_iter().enumerate() {
        let (_, mut hashes, mut rng) = full(seed as u64, bytes_max);
        lent += enter_again(&mut rng, &mut hashes, bytes_max);
    }
    assert!(lent > 0, "each order takes as little memory");
}

// C2, I6: a rebuilding enters what others hold, and the next start enters all of it in another order.
#[test]
fn a_full_index_takes_what_others_hold_and_leaves_memory_for_the_next_start() {
    for (seed, bytes_max) in [1 << 22, 1 << 24].into_iter().enumerate() {
        let (mut index, mut hashes, mut rng) = full(seed as u64, bytes_max);
        let (before, mut refused) = (hashes.len(), 0);
        while refused < 10_000 {
            let hash = rng.u64();
            match index.prepare_recovered(hash) {
                Ok(()) => {
                    index.insert(hash, What::Object, Reference(hashes.len() as u64));
                    hashes.push(hash);
                }
                Err(IndexFull) => refused += 1,
            }
        }
        index.check_invariants();
        assert!(index.bytes() > bytes_max && index.bytes() <= bytes_max + bytes_max / 16);
        assert!(hashes.len() > before + before / 50, "{} more than {before}", hashes.len() - before);
        enter_again(&mut rng, &mut hashes, bytes_max);
    }
}
