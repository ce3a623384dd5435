//! A log or an index that is full, and that has room again later.

use super::*;
use crate::pages::tests::{OTHER, put_other};
use crate::start::tests::store_of;
use ramhold_log::Cursor;
use ramhold_wire::brick_status::BrickLimit;

impl Harness {
    /// All values that are asked for are told, as far as there is room.
    fn tell_all(&mut self) {
        self.tell_stamps();
        while let Some((keys, call)) = self.asked() {
            self.tell_values(&keys, &call);
        }
    }

    fn own_obstacle(&self) -> Option<RebuildObstacle> {
        self.rebuilding.hindrance().map(|hindrance| match hindrance {
            Hindrance::Own(obstacle) => obstacle,
            Hindrance::Pages(siblings) => panic!("{siblings:?}"),
        })
    }

    /// It tries again after a second, and is stuck all the same after five: another tablet may go first.
    fn try_in_vain(&mut self, obstacle: RebuildObstacle) {
        let stored = self.stored();
        for second in 1..=6 {
            assert_eq!(self.own_obstacle(), Some(obstacle), "second {second}");
            assert_eq!(self.rebuilding.deadline(), Some(self.now + ROOM_PAUSE));
            self.wait(999);
            assert!(self.calls.is_empty(), "it waits for a second");
            self.wait(1);
            self.tell_all();
        }
        assert!(self.rebuilding.is_stuck(self.now) && self.stored() == stored);
    }
}

/// An index with so few places, half of them taken by another table.
fn with_small_index() -> Harness {
    let mut it = Harness::new(880, 1);
    it.store = store_of(1 << 20, 1 << 14);
    it.store.shard.log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
    (0..850).for_each(|other| put_other(&mut it.store, other));
    it
}

// I6, C2: rule 97. Nothing but the index is full, so cleaning is no help.
#[test]
fn a_rebuilding_without_places_in_the_index_says_so_and_goes_on_when_there_are_some() {
    let mut it = with_small_index();
    it.tell_all();
    let before = it.stored();
    assert!((100..880).contains(&before), "{before} are stored");
    it.try_in_vain(RebuildObstacle::Index);
    assert_eq!(it.store.full(), Some(BrickLimit::Index));
    // The other table is dropped.
    let other = HashRange { table: OTHER, first: KeyHash(0), last: KeyHash(u64::MAX) };
    let hash_of = |_: &[u8]| KeyHash(0);
    let dropped = it.store.shard.log.drop_range_step(other, Cursor::default(), u64::MAX, &hash_of);
    assert_eq!(dropped, Ok(None));
    it.wait(1000);
    it.tell_all();
    assert!(it.rebuilding.is_closing() && it.rebuilding.hindrance().is_none());
    assert_eq!(it.stored(), 880);
    assert_eq!(it.store.full(), None, "further keys have been stored");
}

// I6, C6: rule 97. A value that is stored here already must be removed here as well, or nothing gets free.
#[test]
fn a_rebuilding_without_memory_says_so_and_stores_what_frees_some() {
    let mut it = Harness::new(60, 6000);
    it.tell_all();
    let before = it.stored();
    assert!(before > 20 && before < 60, "{before} are stored");
    it.try_in_vain(RebuildObstacle::Memory);
    assert_eq!(it.store.full(), Some(BrickLimit::Memory));
    it.are_removed = true;
    it.times.extend(it.keys.iter().map(|key| (key.clone(), TIME + 1)));
    let end = it.now + ALL_AGAIN;
    let are_gone = |it: &Harness| it.here().iter().all(|(_, time)| *time == TIME + 1);
    while !are_gone(&it) {
        assert!(it.now <= end, "it goes on by itself");
        it.wait(1000);
        if !it.calls.is_empty() {
            it.tell_all();
        }
    }
    assert!(it.stored() >= before);
}

// I6: rule 98.
#[test]
fn siblings_that_refuse_pages_or_do_not_tell_them_are_known_until_they_tell_one() {
    let mut it = Harness::new(10, 100);
    let calls = std::mem::take(&mut it.calls);
    it.rebuilding.on_page(it.now, calls[0].to, calls[0].number, Err(Some(Status::Retry)));
    it.wait(500);
    let refused = [(calls[0].to, Some(Status::Retry)), (calls[1].to, None)];
    assert_eq!(it.rebuilding.hindrance(), Some(Hindrance::Pages(BTreeMap::from(refused))));
    it.calls.sort_by_key(|call| call.number);
    let newest = it.calls.split_off(it.calls.len() - 2);
    it.calls = newest;
    it.tell_stamps();
    assert_eq!(it.rebuilding.hindrance(), None);
}
