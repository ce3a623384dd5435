//! Pages of values that come one after the other, late, or for a log that is full.

mod room;
mod stretches;

use super::*;
use crate::question::Key;
use crate::start::tests::{ME, STREAM, TABLE, store};
use crate::state::{BrickState, SiblingState, StreamState, TableState};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{ClusterId, ClusterTime, Effects, KeyHash, Stamp};
use ramhold_log::{Purpose, QuorumRecord, Reference};
use ramhold_wire::View;
use ramhold_wire::bricks::{PageRecord, PageWanted};
use ramhold_wire::control::Address;
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::WriteProtocol;

/// The siblings. If both have the same, one of them is asked for all values.
const SIBLINGS: [ServerId; 2] = [ServerId(4), ServerId(5)];

pub fn state() -> BrickState {
    let sibling = |brick| SiblingState {
        brick,
        address: Address("127.0.0.1:1".parse().expect("an address")),
        joined: 1,
        is_missing: false,
    };
    let table = TableState {
        table: TABLE,
        name: "carts".into(),
        seed: PlacementSeed(5),
        slots: false,
        bricks: 3,
        write_quorum: 2,
        read_quorum: 2,
        durability: Durability::Buffered,
        protocol: WriteProtocol::Adaptive,
    };
    let tablet = TabletState {
        table: TABLE,
        first: KeyHash(0),
        last: KeyHash(u64::MAX),
        epoch: 1,
        siblings: SIBLINGS.map(sibling).to_vec(),
        votes: false,
        joined: 1,
        is_joining: false,
        giving: None,
    };
    BrickState {
        cluster: ClusterId(1),
        brick: ME,
        index_secret: 5,
        life: 1,
        mark: 1,
        tables: vec![table],
        tablets: vec![tablet],
        lives: Vec::new(),
        streams: vec![StreamState { stream: STREAM, durability: Durability::Buffered }],
        taken: 0,
        place: 0,
        was_moved: false,
        left: Vec::new(),
        others: Vec::new(),
    }
}

/// A brick that has forgotten all its keys, and siblings that have them.
struct Harness {
    store: Store,
    tables: Tables,
    rebuilding: Rebuilding,
    view: View,
    now: Instant,
    keys: Vec<Key>,
    value_bytes: usize,
    /// The times of the stamps that siblings have, of keys with another one than all others.
    times: BTreeMap<Key, u64>,
    /// The siblings have removed them all.
    are_removed: bool,
    /// Values that siblings have told.
    told: usize,
    calls: Vec<Call>,
}

/// The time of the stamps that siblings have.
const TIME: u64 = 9;

fn stamp(time: u64) -> Stamp {
    Stamp { time, session: 2 }
}

impl Harness {
    fn new(keys: usize, value_bytes: usize) -> Harness {
        let state = state();
        let mut store = store();
        store.shard.log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
        let thresholds = Thresholds::majority(3).expect("a quorum");
        let mut harness = Harness {
            store,
            tables: Tables::of(&state),
            rebuilding: Rebuilding::new(&state.tablets[0], STREAM, thresholds, 0),
            view: View::new("127.0.0.1:2".parse().expect("an address")),
            now: Instant::ZERO,
            keys: (0..keys).map(|key| format!("key{key:03}").into_bytes()).collect(),
            value_bytes,
            times: BTreeMap::new(),
            are_removed: false,
            told: 0,
            calls: Vec::new(),
        };
        harness.go_on();
        harness
    }

    fn go_on(&mut self) {
        let Harness { store, tables, rebuilding, view, now, calls, .. } = self;
        let mut effects = Effects::new();
        let step = &mut Step { now: *now, view, effects: &mut effects };
        let me = Me { life: 1, mark: 1, time: 1 << 40 };
        assert_eq!(rebuilding.advance(step, (store, tables), me, calls), Outcome::Working);
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.go_on();
    }

    /// The records of some keys as a sibling tells them.
    fn page(&self, keys: &[Key], has_values: bool) -> TabletPageTold {
        let record = |key: &Key| PageRecord {
            position: 0,
            key: key.clone(),
            stamp: stamp(self.times.get(key).copied().unwrap_or(TIME)),
            value: (has_values && !self.are_removed).then(|| vec![7; self.value_bytes]),
            expires: None,
            is_tombstone: self.are_removed,
        };
        let records = keys.iter().map(record).collect();
        TabletPageTold { epoch: 1, votes: true, records, next: None, is_joining: false }
    }

    /// Both siblings tell their stamps.
    fn tell_stamps(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        assert_eq!(calls.len(), 2, "{calls:?}");
        for call in calls {
            assert!(matches!(call.ask.wanted, PageWanted::Stamps { from: 0, .. }), "{call:?}");
            let page = self.page(&self.keys, false);
            self.rebuilding.on_page(self.now, call.to, call.number, Ok(page));
        }
        self.go_on();
    }

    /// The keys that are asked for now, and the question.
    fn asked(&mut self) -> Option<(Vec<Key>, Call)> {
        let call = self.calls.pop()?;
        assert!(self.calls.is_empty(), "one holder has them all");
        let PageWanted::Values { keys } = &call.ask.wanted else { panic!("{call:?}") };
        Some((keys.iter().map(|key| key.0.clone()).collect(), call))
    }

    fn tell_values(&mut self, keys: &[Key], call: &Call) {
        self.told += keys.len();
        let page = self.page(keys, true);
        self.rebuilding.on_page(self.now, call.to, call.number, Ok(page));
        self.go_on();
    }

    /// This brick had a record before it forgot.
    fn has(&mut self, key: usize, time: u64) {
        let (key, value) = (&self.keys[key], vec![7; self.value_bytes]);
        let hash = self.tables.hash(TABLE, key).expect("the table is known");
        let record =
            QuorumRecord { table: TABLE, stamp: stamp(time), expires: None, key, value: Some(&value) };
        let stored = self.store.shard.log.store(STREAM, Purpose::Ordinary, hash, &record, None);
        stored.expect("there is room");
    }

    /// The places and the times of the records that are here now.
    fn here(&self) -> Vec<(Reference, u64)> {
        let newest = |key: &Key| {
            let hash = self.tables.hash(TABLE, key).expect("the table is known");
            let newest = self.store.shard.log.newest(TABLE, hash, key).expect("intact");
            newest.map(|newest| (newest.at, newest.stamp.time))
        };
        self.keys.iter().filter_map(newest).collect()
    }

    fn stored(&self) -> usize {
        self.here().len()
    }
}

// I6: rule 82.
#[test]
fn values_are_stored_as_they_come_and_it_is_not_stuck_meanwhile() {
    let mut it = Harness::new(20, 100);
    it.tell_stamps();
    for done in 1..=20 {
        let (keys, call) = it.asked().expect("some are missing");
        assert_eq!(keys.len(), 21 - done);
        it.wait(400);
        assert!(!it.rebuilding.is_stuck(it.now), "after {done} pages");
        it.tell_values(&keys[..1], &call);
        assert_eq!(it.stored(), done);
    }
    assert!(it.asked().is_none() && it.rebuilding.is_closing());
}

// I6: rule 82. A page that is late costs what it holds, and later ones may take longer.
#[test]
fn a_late_page_costs_nothing_that_has_come_before() {
    let mut it = Harness::new(10, 100);
    it.tell_stamps();
    let (keys, call) = it.asked().expect("all are missing");
    it.tell_values(&keys[..4], &call);
    let (rest, late) = it.asked().expect("six are missing");
    it.wait(600);
    it.tell_stamps();
    let (again, call) = it.asked().expect("six are missing");
    assert_eq!((&again, rest.len()), (&rest, 6), "those that have come are not asked for again");
    it.rebuilding.on_page(it.now, late.to, late.number, Err(None));
    it.wait(700);
    it.tell_values(&again, &call);
    assert_eq!(it.stored(), 10, "the link is slow, and the page in time for that");
    assert!(it.rebuilding.is_closing());
}

// I6: rule 82. A holder that is silent is found to be so all the same.
#[test]
fn a_page_of_values_is_not_awaited_for_ever() {
    let mut it = Harness::new(10, 100);
    it.tell_stamps();
    for patience in [500, 1000, 2000, 2000] {
        let (_, call) = it.asked().expect("all are missing");
        it.wait(patience - 1);
        assert!(it.calls.is_empty(), "{call:?} may still be answered");
        it.wait(1);
        it.tell_stamps();
    }
}

// I6: rule 82. Memory holds a page, however much is missing.
#[test]
fn nothing_is_asked_for_while_there_is_no_room_for_what_has_come() {
    let mut it = Harness::new(60, 6000);
    it.tell_stamps();
    while let Some((keys, call)) = it.asked() {
        it.tell_values(&keys[..keys.len().min(2)], &call);
        assert!(it.told - it.stored() <= 2, "{} were told, {} are stored", it.told, it.stored());
    }
    assert!(it.stored() > 20 && it.stored() < 60, "the log is full with {}", it.stored());
    it.wait(100);
    assert!(it.asked().is_none() && !it.rebuilding.is_closing(), "there is no room yet");
}

// I6: rule 82. This brick had three writes before the others. Their sessions go on: of the first key the sibling gets the same
// one when the stretch is decided, of the second none, of the third a newer one.
#[test]
fn what_a_sibling_gets_meanwhile_may_be_here_already() {
    let mut it = Harness::new(4, 100);
    (0..3).for_each(|key| it.has(key, 11));
    let before = it.here();
    it.tell_stamps();
    let (keys, call) = it.asked().expect("the sibling's are missing");
    assert_eq!(keys, it.keys);
    it.times.extend([(keys[0].clone(), 11), (keys[2].clone(), 13)]);
    it.tell_values(&keys, &call);
    let (here, times): (Vec<Reference>, Vec<u64>) = it.here().into_iter().unzip();
    assert_eq!(times, [11, TIME, 13, TIME]);
    assert_eq!(here[0], before[0].0, "it was here, and is not stored again");
    let dropped = it.store.dropped[&TABLE].keys().expect("they are few");
    assert!(dropped.iter().eq([&keys[1]]), "{dropped:?}");
    assert!(it.rebuilding.is_closing());
}

// I6: rule 82. A write in between may have been acknowledged, and the decision knows nothing of it.
#[test]
#[should_panic(expected = "nobody writes to a tablet that is rebuilt")]
fn a_write_between_decision_and_storing_ends_the_process() {
    let mut it = Harness::new(1, 100);
    it.tell_stamps();
    let (keys, call) = it.asked().expect("it is missing");
    it.has(0, 11);
    it.tell_values(&keys, &call);
}
