//! Ranges that are cut and joined while keys come and go, the index grows and shrinks, and entries move.
//!
//! Catalogue: A6, A8, C3.

use crate::harness::{Harness, STREAM, TABLES, config, hash_of};
use ramhold_base::{KeyHash, Rng};
use ramhold_log::{HashRange, TabletStat};

const TABLE: ramhold_base::TableId = TABLES[0];

fn parts(cuts: &[u64]) -> Vec<HashRange> {
    let mut first = 0;
    let mut parts = Vec::new();
    for cut in cuts {
        parts.push(HashRange { table: TABLE, first: KeyHash(first), last: KeyHash(cut - 1) });
        first = *cut;
    }
    parts.push(HashRange { table: TABLE, first: KeyHash(first), last: KeyHash(u64::MAX) });
    parts
}

/// The counts of the log are those that a walk finds, for the table that is cut and for all others.
fn assert_exact(harness: &Harness, ranges: usize, seed: u64) {
    let counted: Vec<TabletStat> = harness.log.stats().collect();
    assert_eq!(counted, harness.log.count_anew(&hash_of), "seed {seed}");
    assert_eq!(counted.iter().filter(|stat| stat.table == TABLE).count(), ranges, "seed {seed}");
}

fn churn(harness: &mut Harness, rng: &mut Rng, keys: u64) {
    for _ in 0..rng.below(40) {
        let key = rng.below(keys).to_le_bytes();
        let table = *rng.pick(&TABLES[..2]).unwrap();
        let is_there = harness.model.contains_key(&(table, key.to_vec()));
        if is_there && rng.chance(1, 2) {
            harness.remove(table, &key).unwrap();
        } else {
            harness.write(table, &key, &vec![7; rng.below(60) as usize]).unwrap();
        }
    }
}

#[test]
fn ranges_are_cut_exactly_whatever_happens_during_the_walk() {
    let mut slices = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut harness = Harness::new(config(1 << 20));
        harness.roll(STREAM).unwrap();
        let keys = rng.between(50, 600);
        for _ in 0..8 {
            churn(&mut harness, &mut rng, keys);
        }
        let mut cuts: Vec<u64> = (0..rng.between(1, 6)).map(|_| rng.id()).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let parts = parts(&cuts);
        if rng.chance(1, 4) {
            // One that is given up leaves nothing.
            harness.log.begin_recount(TABLE, &parts);
            let _ = harness.log.recount_step(TABLE, 3, &|key| hash_of(TABLE, key));
            harness.log.end_recount();
            churn(&mut harness, &mut rng, keys);
            assert_exact(&harness, 1, seed);
        }
        harness.log.begin_recount(TABLE, &parts);
        while !harness.log.recount_step(TABLE, rng.between(1, 3), &|key| hash_of(TABLE, key)).unwrap() {
            churn(&mut harness, &mut rng, keys);
            assert_exact(&harness, 1, seed);
            slices += 1;
        }
        harness.log.divide(&parts);
        assert_exact(&harness, parts.len(), seed);
        churn(&mut harness, &mut rng, keys);
        assert_exact(&harness, parts.len(), seed);
        harness.log.divide(&[HashRange::whole(TABLE)]);
        assert_exact(&harness, 1, seed);
        churn(&mut harness, &mut rng, keys);
        assert_exact(&harness, 1, seed);
    }
    assert!(slices > 200, "walks have slices, with changes in between");
}
