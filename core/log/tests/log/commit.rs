//! Objects of several keys in one group: all of it or nothing.

use crate::harness::*;
use ramhold_base::{KeyHash, Rng, Version};
use ramhold_log::{AppendRefusal, Entry, EntryReader, LogConfig, Object, Tombstone};
use std::collections::BTreeMap;

/// The effect of a commit: its version, and its keys with the values written, or none for a removed key.
type Committed = (Version, Vec<(Key, Option<Vec<u8>>)>);

/// The newest entry of each key in segments: its version, and its value unless it is a removal.
fn newest(
    segments: &[Vec<u8>],
    is_meant: impl Fn(KeyHash) -> bool,
) -> BTreeMap<Key, (Version, Option<Vec<u8>>)> {
    let mut newest: BTreeMap<Key, (Version, Option<Vec<u8>>)> = BTreeMap::new();
    for entry in entries(segments) {
        let (table, key, version, value) = match entry {
            Entry::Object(Object { table, key, version, value, .. }, _) => (table, key, version, Some(value)),
            Entry::Tombstone(Tombstone { table, key, version, .. }) => (table, key, version, None),
            _ => continue,
        };
        if !is_meant(hash_of(table, key)) {
            continue;
        }
        let there = newest.entry((table, key.to_vec())).or_default();
        if version > there.0 {
            *there = (version, value.map(<[u8]>::to_vec));
        }
    }
    newest
}

/// The parts of the last segment that a certificate may cover: a backup holds no other, whatever it was sent.
fn cuts(segment: &[u8], ends: &[u32]) -> Vec<u32> {
    let at_entries = EntryReader::new(segment).map(|entry| entry.unwrap().0 as u32);
    let cuts = at_entries.map(|cut| ends.iter().copied().filter(|end| *end <= cut).max().unwrap_or_default());
    cuts.chain([segment.len() as u32]).collect()
}

// D9, A10
#[test]
fn wherever_the_head_is_cut_a_commit_is_there_whole_or_not_at_all() {
    let mut seen = [0, 0];
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut harness = Harness::new(config(256 * 1024));
        harness.has_results = seed % 2 == 0;
        harness.roll(STREAM).unwrap();
        harness.roll(OTHER).unwrap();
        // Some objects to replace, each of a version of its own.
        for number in 0..30 {
            harness.write(TABLES[number % 2], format!("key{number}").as_bytes(), b"old").unwrap();
        }
        let mut head = harness.log.head_segment(STREAM).unwrap();
        let (mut ends, mut committed): (Vec<u32>, Vec<Committed>) = (vec![0], Vec::new());
        for _ in 0..40 {
            let changes = harness.random_changes(STREAM, &mut rng);
            let written = harness.commit(STREAM, &changes).unwrap();
            if written.position.segment != head {
                head = written.position.segment;
                (ends, committed) = (vec![0], Vec::new());
            }
            assert_eq!(written.position.offset, harness.log.segment(head).unwrap().len_bytes);
            ends.push(written.position.offset);
            let version = changes.iter().map(|(key, _)| harness.versions[key]).max().unwrap();
            committed.push((version, changes));
        }
        let whole = segments(&harness.log);
        let (last, closed) = {
            let ids: Vec<_> = harness.log.stream_segments(STREAM).collect();
            assert_eq!(ids.last(), Some(&head));
            (&whole[ids.len() - 1], &whole[..ids.len() - 1])
        };
        for cut in cuts(last, &ends) {
            let mut segments = closed.to_vec();
            segments.push(last[..cut as usize].to_vec());
            // Two recovery masters, each with half of the hashes, from the same end.
            let halves = [true, false].map(|low| newest(&segments, |hash| (hash.0 >> 63 == 0) == low));
            for (version, changes) in &committed {
                let has = |((table, key), value): &(Key, Option<Vec<u8>>)| {
                    let half = &halves[(hash_of(*table, key).0 >> 63) as usize];
                    half.get(&(*table, key.clone())).is_some_and(|(newest, there)| {
                        assert!(newest != version || there == value);
                        newest >= version
                    })
                };
                let count = changes.iter().filter(|change| has(change)).count();
                assert!(count == 0 || count == changes.len(), "seed {seed}: {count} of {changes:?} at {cut}");
                seen[usize::from(count > 0)] += 1;
            }
        }
        harness.check();
    }
    assert!(seen[0] > 1000 && seen[1] > 1000, "{seen:?}");
}

// C7
#[test]
fn a_commit_that_finds_no_room_changes_nothing() {
    let mut refused = [0, 0];
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        // In half of the runs the index is full first.
        let is_index_small = seed % 2 == 0;
        let index_bytes_max = if is_index_small { 2048 } else { INDEX_BYTES };
        let mut harness = Harness::new(LogConfig { index_bytes_max, ..config(64 * 1024) });
        for number in 0..10_000 {
            let mut changes = harness.random_changes(STREAM, &mut rng);
            let new = (0..rng.below(20)).map(|key| format!("{number} {key}").into_bytes());
            changes.extend(new.map(|key| ((TABLES[0], key), Some(b"new".to_vec()))));
            match harness.commit(STREAM, &changes) {
                Ok(_) => {}
                Err(AppendRefusal::OutOfMemory) => {
                    refused[usize::from(is_index_small)] += 1;
                    harness.check();
                    if rng.chance(1, 10) {
                        break;
                    }
                }
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
    }
    assert!(refused.iter().all(|count| *count > 20), "{refused:?}");
}

// A2
#[test]
fn a_commit_of_more_than_half_a_segment_is_refused() {
    let mut harness = Harness::new(config(64 * 1024));
    let half = harness.log.group_bytes_max() as usize;
    let of = |bytes: usize| {
        let key = |number: u8| (TABLES[0], vec![number]);
        vec![(key(1), Some(vec![1; bytes / 2])), (key(2), Some(vec![2; bytes - bytes / 2]))]
    };
    assert_eq!(harness.commit(STREAM, &of(half)), Err(AppendRefusal::TooLarge));
    harness.check();
    harness.commit(STREAM, &of(half - 100)).unwrap();
    harness.check();
}
