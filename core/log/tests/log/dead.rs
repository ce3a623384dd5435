//! Overwritten and removed objects stay dead, whichever segments are gone.

use crate::harness::*;
use crate::replay::replay_shuffled;
use ramhold_base::{Rng, SegmentId, TableId, Version};
use ramhold_log::{
    Entry, EntryReader, Log, OBJECT_OLDER_COUNT_MAX, Object, OlderList, TOMBSTONE_OLDER_COUNT_MAX,
};
use std::collections::BTreeMap;

const TABLE: TableId = TABLES[0];

/// The versions of a key that lie in the log: objects with their segments and lists, and what tombstones end.
#[derive(Default)]
struct Versions {
    objects: Vec<(SegmentId, Version, OlderList)>,
    tombstones: Vec<(Version, OlderList)>,
}

fn versions(log: &Log) -> BTreeMap<Key, Versions> {
    let mut keys = BTreeMap::<Key, Versions>::new();
    for id in segment_ids(log) {
        let bytes = segment_bytes(log, id);
        for entry in EntryReader::new(&bytes) {
            match entry.unwrap().1 {
                Entry::Object(Object { table, version, key, .. }, older) => {
                    let known = keys.entry((table, key.to_vec())).or_default();
                    known.objects.push((id, version, older));
                }
                Entry::Tombstone(tombstone) => {
                    let known = keys.entry((tombstone.table, tombstone.key.to_vec())).or_default();
                    known.tombstones.push((tombstone.version, tombstone.segments));
                }
                Entry::SegmentHeader(_)
                | Entry::Digest(_)
                | Entry::SafeVersion(_)
                | Entry::TabletStats(_)
                | Entry::RpcResult(_)
                | Entry::QuorumRecord(_)
                | Entry::Summaries(_) => {}
            }
        }
    }
    keys
}

fn segment_ids(log: &Log) -> Vec<SegmentId> {
    [STREAM, OTHER].into_iter().flat_map(|stream| log.stream_segments(stream)).collect()
}

/// Every dead object that lies in the log is named, with its segment: by a tombstone of its version or a higher one,
/// or by the live object of its key. And live objects name nothing else.
pub fn check_dead(harness: &Harness) {
    for (key, known) in versions(&harness.log) {
        let live = harness.model.get(&key).map(|(version, _)| *version);
        let list =
            known.objects.iter().find(|(_, version, _)| Some(*version) == live).map(|(.., list)| *list);
        assert_eq!(list.is_some(), live.is_some());
        for (segment, version, _) in &known.objects {
            let is_ended = |(end, segments): &(Version, OlderList)| {
                end >= version && segments.iter().any(|named| named == *segment)
            };
            let is_buried = known.tombstones.iter().any(is_ended);
            if live == Some(*version) {
                assert!(known.tombstones.iter().all(|(end, _)| end < version), "{key:?} {version:?}");
            } else {
                let is_named = list.is_some_and(|list| list.iter().any(|named| named == *segment));
                assert!(is_buried || is_named, "{key:?} {version:?} in {segment:?}");
            }
        }
        for named in list.iter().flat_map(OlderList::iter).filter(|id| harness.log.segment(*id).is_some()) {
            let is_older = |(segment, version, _): &(SegmentId, Version, OlderList)| {
                *segment == named && Some(*version) < live
            };
            assert!(known.objects.iter().any(is_older), "{key:?} names {named:?}");
        }
    }
}

/// A closed segment may go when nothing in it lives: no object, and no tombstone that names another segment that
/// still counts. (A cleaner would move these.)
fn may_go(log: &Log, id: SegmentId) -> bool {
    let segment = log.segment(id).unwrap();
    let bytes = segment_bytes(log, id);
    let mut entries = EntryReader::new(&bytes).map(|entry| entry.unwrap().1);
    segment.closed
        && segment.indexed_count == 0
        && entries.all(|entry| match entry {
            Entry::Tombstone(tombstone) => {
                tombstone.segments.iter().all(|named| named == id || log.segment(named).is_none())
            }
            _ => true,
        })
}

/// Frees every segment that may go; returns how many.
fn free_all(log: &mut Log) -> usize {
    let mut count = 0;
    while let Some(id) = segment_ids(log).into_iter().find(|id| may_go(log, *id)) {
        log.free_segment(id);
        count += 1;
    }
    count
}

/// A recovery of the log's segments finds exactly the objects of the model.
fn check_recovery(harness: &Harness, rng: &mut Rng) {
    let mut recovered = Harness::new(config(2 * 1024 * 1024));
    replay_shuffled(&harness.log, &mut recovered, rng);
    recovered.model = harness.model.clone();
    // Versions of removed keys whose entries are all gone are kept by the safe version in the head's opening.
    recovered.versions = harness.versions.clone();
    recovered.check();
}

// C4, C5
#[test]
fn random_histories_with_freed_segments_recover_to_the_same_objects() {
    let (mut freed, mut overflows) = (0, 0);
    for seed in 0..25 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut harness = Harness::new(config(512 * 1024));
        let pin_chance = rng.below(12);
        for step in 0..2500 {
            harness.step(&mut rng);
            // Keys that are written once hold their segments, and the older versions in them.
            if rng.chance(pin_chance, 200) {
                let _ = harness.write(stream_table(&mut rng), format!("pin{step}").as_bytes(), b"");
            }
            let pinned = harness.model.keys().find(|(_, key)| key.starts_with(b"pin")).cloned();
            if let Some((table, key)) = pinned.filter(|_| rng.chance(1, 100)) {
                let _ = harness.remove(table, &key);
            }
            let candidate = rng.pick(&segment_ids(&harness.log)).copied();
            if let Some(id) = candidate.filter(|id| rng.chance(1, 4) && may_go(&harness.log, *id)) {
                harness.log.free_segment(id);
                freed += 1;
            }
            if step % 250 == 0 {
                harness.check();
                check_dead(&harness);
            }
        }
        // Every head's opening has the safe version of now.
        harness.roll(STREAM).unwrap();
        harness.roll(OTHER).unwrap();
        harness.check();
        check_dead(&harness);
        check_recovery(&harness, &mut rng);
        overflows += versions(&harness.log)
            .values()
            .flat_map(|known| &known.tombstones)
            .filter(|(_, segments)| segments.count() >= OBJECT_OLDER_COUNT_MAX)
            .count();
    }
    assert!(freed > 500, "freed {freed}");
    assert!(overflows > 50, "long lists {overflows}");
}

fn stream_table(rng: &mut Rng) -> TableId {
    *rng.pick(&TABLES).unwrap()
}

/// A key has a version in each of many segments, of which random ones are held by other keys. Once it is removed, it
/// stays removed, whichever of the others are freed; and when nothing is held any more, its tombstones go too.
// C4, C5
#[test]
fn a_removed_key_stays_removed_while_any_segment_with_an_older_version_counts() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut harness = Harness::new(config(256 * 1024));
        let segment_count = rng.between(2, 25);
        let hold_chance = rng.below(5);
        let mut held = Vec::new();
        for number in 0..segment_count {
            harness.roll(STREAM).unwrap();
            for _ in 0..rng.between(1, 2) {
                harness.write(TABLE, b"key", &number.to_le_bytes()).unwrap();
            }
            if number == 0 || rng.chance(hold_chance, 4) {
                harness.write(TABLE, format!("holds{number}").as_bytes(), b"").unwrap();
                held.push(SegmentId(number + 1));
            }
            if rng.chance(1, 4) {
                free_all(&mut harness.log);
            }
            check_dead(&harness);
        }
        harness.remove(TABLE, b"key").unwrap();
        harness.roll(STREAM).unwrap();
        harness.roll(OTHER).unwrap();
        free_all(&mut harness.log);
        assert!(held.iter().all(|id| harness.log.segment(*id).is_some()));
        check_dead(&harness);
        check_recovery(&harness, &mut rng);

        for (table, key) in harness.model.keys().cloned().collect::<Vec<Key>>() {
            harness.remove(table, &key).unwrap();
            harness.roll(STREAM).unwrap();
            free_all(&mut harness.log);
            check_recovery(&harness, &mut rng);
        }
        assert_eq!(segment_ids(&harness.log).len(), 2, "only the heads are left");
        harness.check();
    }
}

/// The same step by step, with the bytes that lists take.
// C4, C5
#[test]
fn an_overwrite_names_up_to_eight_segments_and_then_leaves_them_to_a_tombstone() {
    let mut harness = Harness::new(config(256 * 1024));
    let names = |ids: std::ops::RangeInclusive<u64>| ids.map(SegmentId).collect::<OlderList>();
    for number in 1..=20 {
        harness.roll(STREAM).unwrap();
        harness.write(TABLE, b"key", b"value").unwrap();
        harness.write(TABLE, format!("holds{number}").as_bytes(), b"").unwrap();
        let known = &versions(&harness.log)[&(TABLE, b"key".to_vec())];
        let (segment, version, list) = *known.objects.last().unwrap();
        assert_eq!((segment, version), (SegmentId(number), Version(number)));
        let (list_expected, tombstones): (_, &[(Version, OlderList)]) = match number {
            1 => (OlderList::NONE, &[]),
            2..=9 => (names(1..=number - 1), &[]),
            10..=17 => (names(9..=number - 1), &[(Version(9), names(1..=8))]),
            _ => (names(17..=number - 1), &[(Version(9), names(1..=8)), (Version(17), names(9..=16))]),
        };
        assert_eq!(list, list_expected, "object {number}");
        assert_eq!(known.tombstones, tombstones, "object {number}");
        if number == 17 {
            let mut fork = Harness::new(config(256 * 1024));
            replay_shuffled(&harness.log, &mut fork, &mut Rng::new(0));
            (fork.model, fork.versions) = (harness.model.clone(), harness.versions.clone());
            fork.check();
        }
    }
    check_dead(&harness);
    harness.check();
}

// C4
#[test]
fn a_remove_names_the_object_s_segment_beyond_its_eight() {
    let mut harness = Harness::new(config(256 * 1024));
    for number in 1..=9 {
        harness.roll(STREAM).unwrap();
        harness.write(TABLE, b"key", b"value").unwrap();
        harness.write(TABLE, format!("holds{number}").as_bytes(), b"").unwrap();
    }
    harness.remove(TABLE, b"key").unwrap();
    let known = &versions(&harness.log)[&(TABLE, b"key".to_vec())];
    let [(version, segments)] = known.tombstones[..] else { panic!("one tombstone for all versions") };
    assert_eq!(version, Version(10));
    assert_eq!(segments.count(), TOMBSTONE_OLDER_COUNT_MAX);
    assert!(segments.iter().eq((1..=9).map(SegmentId)));
    check_dead(&harness);
    harness.check();
}

/// Segments that do not count any more are not named, so that lists stay short.
// C5
#[test]
fn what_is_freed_leaves_lists_and_counts() {
    let mut harness = Harness::new(config(256 * 1024));
    harness.roll(STREAM).unwrap();
    harness.write(TABLE, b"holds", b"").unwrap();
    for _ in 0..30 {
        harness.write(TABLE, b"key", b"value").unwrap();
        harness.roll(STREAM).unwrap();
        free_all(&mut harness.log);
        let found = harness.log.lookup(TABLE, hash_of(TABLE, b"key"), b"key").unwrap().unwrap();
        assert!(found.entry_bytes() <= 22 + 3 + 5 + 8 + 11);
    }
    // Its tombstone names the segment of the last version, which then goes, and the first, which stays.
    harness.remove(TABLE, b"key").unwrap();
    let head = harness.log.head_segment(STREAM).unwrap();
    let info = harness.log.segment(head).unwrap();
    assert!(info.tombstone_bytes > 0);
    assert_eq!(info.tombstone_bytes, info.live_bytes);
    harness.roll(STREAM).unwrap();
    assert_eq!(free_all(&mut harness.log), 1);
    let info = harness.log.segment(head).expect("the first segment still counts");
    assert_eq!((info.tombstone_bytes, info.live_bytes, info.live_count), (0, 0, 0), "an estimate");
    harness.check();
    check_dead(&harness);
}
