//! Pages of stamps that are late or many, and own keys that are damaged.

use super::*;
use crate::pages::tell;
use crate::pages::tests::{MANY, filled, flip, key_of, put, range};

const OLDER: Stamp = Stamp { time: 5, session: 2 };

// I6: rule 87. The answer to the question before does not count, so the patience grows, or it would never end.
#[test]
fn a_page_of_stamps_that_is_late_has_longer_the_next_time() {
    let mut it = Harness::new(10, 100);
    for patience in [500, 1000, 2000, 2000] {
        assert_eq!(std::mem::take(&mut it.calls).len(), 2);
        it.wait(patience - 1);
        assert!(it.calls.is_empty(), "{patience}: they may still be answered");
        it.wait(1);
    }
    it.wait(1900);
    it.tell_stamps();
    assert!(it.asked().is_some(), "the stretch is decided");
}

// I6: rules 16, 87. Where nobody votes, the pages of all are needed, and one may come long after the other.
#[test]
fn a_page_without_a_vote_stays_until_a_late_one_has_come() {
    let mut it = Harness::new(10, 100);
    it.wait(500);
    let calls = it.calls.split_off(2);
    let page = TabletPageTold { votes: false, ..it.page(&it.keys, false) };
    it.wait(100);
    for call in &calls {
        it.rebuilding.on_page(it.now, call.to, call.number, Ok(page.clone()));
        it.calls.clear();
        it.wait(600);
    }
    assert!(it.asked().is_some(), "the stretch is decided");
}

// I6: rule 88.
#[test]
fn an_own_key_that_is_damaged_is_repaired_and_not_looked_at_all_the_time() {
    let mut it = Harness::new(10, 100);
    let at = put(&mut it.store, &it.tables, &it.keys[3], OLDER);
    let segment = flip(&mut it.store, at);
    it.tell_stamps();
    assert!(it.asked().is_none() && it.store.shard.scrub.is_damaged(segment));
    assert_eq!(it.rebuilding.deadline(), Some(it.now + PAUSE));
    flip(&mut it.store, at);
    it.wait(50);
    assert!(it.asked().is_some(), "the stretch is decided");
}

// I6: rule 88. The same, when the key is damaged after it was decided.
#[test]
fn an_own_key_that_is_damaged_before_it_is_replaced_is_repaired() {
    let mut it = Harness::new(10, 100);
    let at = put(&mut it.store, &it.tables, &it.keys[3], OLDER);
    it.tell_stamps();
    let (keys, call) = it.asked().expect("the stretch is decided");
    let segment = flip(&mut it.store, at);
    it.tell_values(&keys, &call);
    assert!(!it.rebuilding.is_closing() && it.store.shard.scrub.is_damaged(segment));
    flip(&mut it.store, at);
    it.wait(50);
    assert!(it.rebuilding.is_closing());
}

// I6: rule 87. This brick holds millions of keys of other tables, and its siblings do not.
#[test]
fn a_small_tablet_is_rebuilt_in_stretches_that_end_after_a_piece_of_the_own_index() {
    let mut it = Harness::new(0, 1);
    it.keys = (0..20).map(key_of).collect();
    it.store = filled(&it.tables, 0, MANY);
    let mut sibling = filled(&it.tables, 20, 0);
    let mut asked = 0;
    while !it.rebuilding.is_closing() {
        for call in std::mem::take(&mut it.calls) {
            asked += usize::from(matches!(call.ask.wanted, PageWanted::Stamps { .. }));
            let told = tell(&mut sibling, &it.tables, range(), &call.ask.wanted);
            let (records, next) = told.expect("nothing is damaged");
            assert_eq!(next, None);
            let page = TabletPageTold { epoch: 1, votes: true, records, next, is_joining: false };
            it.rebuilding.on_page(it.now, call.to, call.number, Ok(page));
        }
        it.go_on();
    }
    assert!(asked >= 4, "{asked} pages of stamps");
    assert_eq!(it.stored(), 20);
}

// I6: rule 87. Nobody's page is waited for between its stretches.
#[test]
fn a_brick_without_siblings_decides_one_stretch_in_a_step() {
    let mut it = Harness::new(0, 1);
    it.store = filled(&it.tables, 3000, 0);
    let tablet = TabletState { siblings: Vec::new(), ..state().tablets.remove(0) };
    let alone = Thresholds::majority(1).expect("a quorum");
    it.rebuilding = Rebuilding::new(&tablet, STREAM, alone, 0);
    let mut steps = 0;
    while !it.rebuilding.is_closing() {
        it.wait(1);
        steps += 1;
        assert_eq!(it.rebuilding.deadline(), Some(it.now + SEARCH_PAUSE));
    }
    assert_eq!(steps, 3);
}

// I6: rule 89. A key of another tablet that this brick holds would be replaced, or dropped.
#[test]
fn a_key_that_is_not_of_the_tablet_is_not_taken_from_a_sibling() {
    let mut it = Harness::new(10, 100);
    let half = KeyHash(u64::MAX / 2);
    it.rebuilding.range.last = half;
    it.tell_stamps();
    let (keys, _) = it.asked().expect("some are missing");
    let is_in = |key: &Key| it.tables.hash(TABLE, key).is_some_and(|hash| hash <= half);
    assert!(keys.iter().all(is_in), "{keys:?}");
    assert_eq!(keys.len(), it.keys.iter().filter(|key| is_in(key)).count());
}
