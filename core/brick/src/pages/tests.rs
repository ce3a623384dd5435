//! Pages of a tablet in an index that it shares with others, and pages in whose way something is.

use super::*;
use crate::rebuild::tests::state;
use crate::start::tests::{STREAM, TABLE, store_in, store_of};
use ramhold_base::{ClusterTime, KeyHash, SegmentId, Stamp, TableId};
use ramhold_log::{AppendRefusal, Geometry, Purpose, Reference};

pub const OTHER: TableId = TableId(2);
/// More keys of another table than a page walks over.
pub const MANY: u64 = 24_000;

pub fn tables() -> Tables {
    Tables::of(&state())
}

pub fn range() -> HashRange {
    state().tablets[0].range()
}

pub fn key_of(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn put_in(store: &mut Store, place: (TableId, KeyHash), key: &[u8], stamp: Stamp) -> Reference {
    put_value(store, place, key, stamp, b"v")
}

fn put_value(
    store: &mut Store,
    place: (TableId, KeyHash),
    key: &[u8],
    stamp: Stamp,
    value: &[u8],
) -> Reference {
    let record = QuorumRecord { table: place.0, stamp, expires: None, key, value: Some(value) };
    loop {
        let log = &mut store.shard.log;
        match log.store(STREAM, Purpose::Ordinary, place.1, &record, None) {
            Ok(_) => {}
            Err(AppendRefusal::HeadFull) => {
                log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
                continue;
            }
            Err(other) => panic!("{other:?}"),
        }
        return log.newest(place.0, place.1, key).expect("intact").expect("just stored").at;
    }
}

/// Stores a new key of another table.
pub fn put_other(store: &mut Store, number: u64) {
    let hash = KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    put_in(store, (OTHER, hash), &key_of(number), Stamp { time: 5, session: 2 });
}

/// Stores a new key.
pub fn put(store: &mut Store, tables: &Tables, key: &[u8], stamp: Stamp) -> Reference {
    let hash = tables.hash(TABLE, key).expect("the table is known");
    put_in(store, (TABLE, hash), key, stamp)
}

/// A log with so many keys of the tablet, and so many of another table.
pub fn filled(tables: &Tables, own: u64, others: u64) -> Store {
    let mut store = store_of(4 << 20, 1 << 20);
    store.shard.log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
    (0..others).for_each(|other| put_other(&mut store, other));
    for key in 0..own {
        put(&mut store, tables, &key_of(key), Stamp { time: 5, session: 2 });
    }
    store
}

/// Flips a bit of an entry. Doing it twice repairs it.
pub fn flip(store: &mut Store, at: Reference) -> SegmentId {
    let (segment, offset) = store.shard.log.place_of(at);
    store.shard.log.flip_bit(segment, offset + 20, 3);
    segment
}

/// All pages of the tablet: the number of keys of each one, and the keys.
fn pages(store: &mut Store, tables: &Tables) -> (Vec<usize>, Vec<PageRecord>) {
    let (mut counts, mut records) = (Vec::new(), Vec::new());
    let mut from = Some(0);
    while let Some(at) = from {
        let wanted = PageWanted::Stamps { from: at, on_device: false };
        let (page, next) = tell(store, tables, range(), &wanted).expect("nothing is damaged");
        assert!(next.is_none_or(|next| next > at), "it goes on");
        counts.push(page.len());
        records.extend(page);
        from = next;
    }
    (counts, records)
}

// I6: rule 87. A brick that walks over all that it holds in one step is silent meanwhile.
#[test]
fn a_page_of_a_small_tablet_ends_after_a_piece_of_the_index() {
    let tables = tables();
    let mut store = filled(&tables, 10, MANY);
    let (counts, records) = pages(&mut store, &tables);
    assert!(counts.len() > 1, "{counts:?}");
    assert!(records.is_sorted_by_key(|record| record.position));
    let mut keys: Vec<_> = records.into_iter().map(|record| record.key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq((0..10).map(key_of)), "each key once");
}

// I6: rule 87.
#[test]
fn a_page_ends_with_its_keys() {
    let tables = tables();
    let mut store = filled(&tables, 3000, 0);
    let (counts, records) = pages(&mut store, &tables);
    assert_eq!((counts.len(), records.len()), (3, 3000));
    assert!(
        counts[..2].iter().all(|count| (PAGE_KEYS_MAX..PAGE_KEYS_MAX + 50).contains(count)),
        "{counts:?}"
    );
}

// I6: rule 87. The checksums of large values take the time, and the page tells none of them.
#[test]
fn a_page_ends_after_some_bytes_of_whatever_it_walks_over() {
    const VALUE_BYTES: usize = 7000;
    let tables = tables();
    for table in [TABLE, OTHER] {
        let geometry = Geometry { segment_bytes: 256 * 1024, seglet_bytes: 16 * 1024 };
        let mut store = store_in(geometry, 16 << 20, 1 << 20);
        store.shard.log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
        for number in 0..1500 {
            let key = key_of(number);
            let place = match table {
                TABLE => (TABLE, tables.hash(TABLE, &key).expect("the table is known")),
                _ => (OTHER, KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            };
            let stamp = Stamp { time: 5, session: 2 };
            put_value(&mut store, place, &key, stamp, &vec![7; VALUE_BYTES]);
        }
        let (counts, records) = pages(&mut store, &tables);
        assert_eq!(records.len(), if table == TABLE { 1500 } else { 0 });
        // Ten megabytes, four in a page; some keys more are in the last piece of each.
        assert_eq!(counts.len(), 3, "{counts:?}");
        let most = WALK_BYTES_MAX as usize / VALUE_BYTES + 50;
        assert!(counts.iter().all(|count| *count <= most), "{counts:?}");
    }
}

// I6: rule 88. Nobody can repair what is only told to be somewhere.
#[test]
fn a_page_names_the_damaged_entry_that_is_in_its_way() {
    let tables = tables();
    let mut store = filled(&tables, 10, 10);
    let own = tables.hash(TABLE, &key_of(3)).expect("the table is known");
    let own = store.shard.log.newest(TABLE, own, &key_of(3)).expect("intact").expect("stored").at;
    let other = store.shard.log.newest(OTHER, KeyHash(0), &key_of(0)).expect("intact").expect("stored").at;
    let values = PageWanted::Values { keys: (0..10).map(|key| PageKey(key_of(key))).collect() };
    let stamps = PageWanted::Stamps { from: 0, on_device: false };
    for (at, wanted) in [(own, &stamps), (other, &stamps), (own, &values)] {
        flip(&mut store, at);
        let told = tell(&mut store, &tables, range(), wanted);
        assert!(matches!(told, Err(Unreadable::Damaged(found)) if found == at), "{wanted:?}: {told:?}");
        flip(&mut store, at);
        assert_eq!(tell(&mut store, &tables, range(), wanted).expect("it is whole").0.len(), 10);
    }
}

// I6: rule 89. A log asserts that a record is possible.
#[test]
fn a_page_counts_only_if_a_log_can_hold_all_of_it() {
    let stamp = Stamp { time: 5, session: 2 };
    let fine = PageRecord {
        position: 0,
        key: vec![1; KEY_BYTES_MAX],
        stamp,
        value: Some(vec![2; VALUE_BYTES_MAX]),
        expires: None,
        is_tombstone: false,
    };
    let page = |second: &PageRecord| {
        let records = vec![fine.clone(), second.clone()];
        is_possible(&TabletPageTold { epoch: 1, votes: true, records, next: None, is_joining: false })
    };
    assert!(page(&fine));
    assert!(!page(&PageRecord { key: vec![1; KEY_BYTES_MAX + 1], ..fine.clone() }));
    assert!(!page(&PageRecord { value: Some(vec![2; VALUE_BYTES_MAX + 1]), ..fine.clone() }));
    for (time, session) in [(0, 2), (5, 0), (u64::MAX, 2)] {
        assert!(!page(&PageRecord { stamp: Stamp { time, session }, ..fine.clone() }), "{time} {session}");
    }
}
