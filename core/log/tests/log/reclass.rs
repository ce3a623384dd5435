//! Ranges that go from one stream to another while keys come and go.
//!
//! Catalogue: A8, D2.

use crate::harness::{
    Harness, Model, OTHER, STREAM, TABLES, config, entries, entry_hash, expires_of, hash_of, segment_bytes,
};
use ramhold_base::{ClusterTime, KeyHash, Rng, SegmentId, StreamId};
use ramhold_log::{CopyStop, Cursor, Entry, Geometry, HashRange, Log, LogConfig, SideId};

const TABLE: ramhold_base::TableId = TABLES[0];

/// Writes and removes, but for keys of a stretch that is being moved.
fn churn(harness: &mut Harness, rng: &mut Rng, keys: u64, still: Option<HashRange>) {
    for _ in 0..rng.below(30) {
        let key = rng.below(keys).to_le_bytes();
        let table = *rng.pick(&TABLES[..2]).unwrap();
        if still.is_some_and(|range| range.contains(table, hash_of(table, &key))) {
            continue;
        }
        let is_there = harness.model.contains_key(&(table, key.to_vec()));
        if is_there && rng.chance(1, 2) {
            harness.remove(table, &key).unwrap();
        } else {
            harness.write(table, &key, &vec![rng.u64() as u8; rng.below(60) as usize]).unwrap();
        }
    }
}

fn gather(harness: &mut Harness, rng: &mut Rng, keys: u64, count_max: usize) {
    let first = harness.moved.map_or(KeyHash(0), |moved| KeyHash(moved.last.0 + 1));
    let rest = HashRange { table: TABLE, first, last: KeyHash(u64::MAX) };
    harness.log.begin_gather(rest, false, count_max);
    while !harness.log.gather_step(rng.between(1, 9), &hash_of).unwrap() {
        churn(harness, rng, keys, None);
    }
    assert_eq!(harness.log.gathered().unwrap().first, first);
}

fn abandon(log: &mut Log, side: SideId) {
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        cursor = log.abandon_side_step(side, from, 5, &hash_of);
    }
    log.end_stretch();
}

/// Moves one stretch of what is gathered, or gives it up before it counts.
fn move_stretch(harness: &mut Harness, rng: &mut Rng, keys: u64) {
    let side = harness.log.open_side_for_survivors(OTHER, ClusterTime(0));
    let stretch = harness.log.begin_stretch(side, rng.between(1, 80) as usize);
    while !harness.log.copy_step(rng.between(1, 9) as usize, &hash_of).unwrap() {
        churn(harness, rng, keys, Some(stretch));
    }
    harness.log.check_invariants();
    if rng.chance(1, 6) {
        abandon(&mut harness.log, side);
        harness.log.end_reclassing();
        return harness.check();
    }
    harness.log.keep_stretch();
    harness.log.enter_side(side);
    harness.roll(OTHER).unwrap();
    churn(harness, rng, keys, Some(stretch));
    let kept = harness.log.segments().filter(|segment| segment.is_kept).count();
    assert!(
        kept > 0
            || harness.log.object_count(HashRange::whole(TABLE)) == Some(0)
            || is_empty(harness, stretch)
    );
    harness.log.lead_to_results();
    harness.moved = Some(HashRange { first: KeyHash(0), ..stretch });
    while !harness.log.lead_step(rng.between(1, 9) as usize).unwrap() {
        harness.log.check_invariants();
        churn(harness, rng, keys, Some(stretch));
    }
    assert_eq!(harness.log.segments().filter(|segment| segment.is_kept).count(), 0);
    harness.check();
}

fn is_empty(harness: &Harness, range: HashRange) -> bool {
    !harness.model.keys().any(|(table, key)| range.contains(*table, hash_of(*table, key)))
}

/// The log that a recovery makes of the range's entries in a stream, from a segment on.
fn replayed(log: &Log, stream: StreamId, first: SegmentId, range: HashRange) -> Log {
    let mut other = Harness::new(config(8 << 20));
    let side = other.log.open_side(STREAM, ClusterTime(0));
    let ids = log.stream_segments(stream).filter(|id| *id >= first);
    let bytes: Vec<Vec<u8>> = ids.map(|id| segment_bytes(log, id)).collect();
    for entry in entries(&bytes) {
        let hash = entry_hash(&entry);
        let is_own = match &entry {
            Entry::Object(object, _) => range.contains(object.table, hash),
            Entry::Tombstone(tombstone) => range.contains(tombstone.table, hash),
            Entry::RpcResult(result) => range.contains(result.table, hash),
            _ => false,
        };
        if is_own {
            other.log.replay(side, &entry, hash).unwrap();
        }
    }
    other.finish_replay(side);
    other.log
}

/// A log holds exactly what the model has in a range, and the results.
fn assert_holds(log: &Log, harness: &Harness, range: HashRange, seed: u64) {
    let is_own = |table, key: &[u8]| range.contains(table, hash_of(table, key));
    let own: Model = harness
        .model
        .iter()
        .filter(|((table, key), _)| is_own(*table, key))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for ((table, key), (version, value)) in &own {
        let found = log.lookup(*table, hash_of(*table, key), key).unwrap();
        let found = found.unwrap_or_else(|| panic!("seed {seed}: {key:?} is not there"));
        assert_eq!((found.version, found.expires), (*version, expires_of(*version)), "seed {seed}");
        assert_eq!(found.value.to_vec(), *value, "seed {seed}");
    }
    assert_eq!(
        log.usage().index_entry_count,
        own.len() as u64,
        "seed {seed}: nothing that was removed is back"
    );
}

/// Objects and results that have moved are in the other stream.
fn assert_moved(harness: &Harness, first: SegmentId, seed: u64) {
    let Some(moved) = harness.moved else { return };
    let other = replayed(&harness.log, OTHER, first, moved);
    assert_holds(&other, harness, moved, seed);
    for (lease, sequence) in harness.results.keys() {
        let is_own = harness.log.results_in(moved).any(|own| own == (*lease, *sequence));
        let is_there = other.result(*lease, *sequence).is_some();
        assert_eq!(is_there, is_own, "seed {seed}: the result of {lease} {sequence}");
    }
}

// A8, D2
#[test]
fn a_range_goes_to_another_stream_whatever_is_written_meanwhile() {
    let mut abandoned = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        // Without cleaning a stream has many segments, which a digest must have room for.
        let geometry = Geometry { segment_bytes: 16 * 1024, seglet_bytes: 1024 };
        let mut harness = Harness::new(LogConfig { geometry, ..config(16 << 20) });
        harness.has_results = true;
        harness.roll(STREAM).unwrap();
        harness.roll(OTHER).unwrap();
        let keys = rng.between(20, 400);
        for _ in 0..8 {
            churn(&mut harness, &mut rng, keys, None);
        }
        let first = harness.log.next_segment_id();
        let count_max = rng.between(4, 300) as usize;
        while harness.moved.is_none_or(|moved| moved.last < KeyHash(u64::MAX)) {
            if harness.log.gathered().is_none() {
                gather(&mut harness, &mut rng, keys, count_max);
            }
            let before = harness.moved;
            move_stretch(&mut harness, &mut rng, keys);
            abandoned += u32::from(harness.moved == before);
            // Before the clients go on, too: they soon ask for none of these results any more.
            assert_moved(&harness, first, seed);
            churn(&mut harness, &mut rng, keys, None);
            harness.check();
            assert_moved(&harness, first, seed);
        }
        assert_eq!(harness.log.gathered(), None);
    }
    assert!(abandoned > 3, "{abandoned} stretches were given up");
}

// A8
#[test]
fn a_stretch_without_memory_is_given_up_and_leaves_nothing() {
    let mut harness = Harness::new(config(96 * 1024));
    harness.roll(STREAM).unwrap();
    harness.roll(OTHER).unwrap();
    let mut number = 0_u64;
    while harness.log.usage().free_bytes > 24 * 1024 {
        number += 1;
        harness.write(TABLE, &number.to_le_bytes(), &[5; 200]).unwrap();
    }
    let free = harness.log.usage().free_bytes;
    harness.log.begin_gather(HashRange::whole(TABLE), false, 10_000);
    while !harness.log.gather_step(7, &hash_of).unwrap() {}
    let side = harness.log.open_side_for_survivors(OTHER, ClusterTime(0));
    assert_eq!(harness.log.begin_stretch(side, 10_000), HashRange::whole(TABLE));
    let stopped = loop {
        match harness.log.copy_step(3, &hash_of) {
            Ok(false) => {}
            other => break other,
        }
    };
    assert_eq!(stopped, Err(CopyStop::NoMemory));
    abandon(&mut harness.log, side);
    harness.log.end_reclassing();
    assert_eq!(harness.log.usage().free_bytes, free);
    harness.check();
}

// A8
#[test]
fn keys_that_come_while_a_stretch_waits_are_bounded() {
    let mut harness = Harness::new(config(4 << 20));
    harness.roll(STREAM).unwrap();
    harness.roll(OTHER).unwrap();
    for number in 0..50_u64 {
        harness.write(TABLE, &number.to_le_bytes(), b"old").unwrap();
    }
    harness.log.begin_gather(HashRange::whole(TABLE), false, 60);
    while !harness.log.gather_step(7, &hash_of).unwrap() {}
    let side = harness.log.open_side_for_survivors(OTHER, ClusterTime(0));
    let stretch = harness.log.begin_stretch(side, 5);
    for number in 1000..1400_u64 {
        if !stretch.contains(TABLE, hash_of(TABLE, &number.to_le_bytes())) {
            harness.write(TABLE, &number.to_le_bytes(), b"new").unwrap();
        }
    }
    assert_eq!(harness.log.gathered(), Some(stretch), "the rest is gathered anew");
    while !harness.log.copy_step(9, &hash_of).unwrap() {}
    abandon(&mut harness.log, side);
    assert_eq!(harness.log.gathered(), None);
    harness.check();
}

// A8, A10
#[test]
fn a_table_by_slots_is_cut_between_slots_only() {
    use ramhold_base::hash::{first_hash_of, slot_of_hash};
    let mut harness = Harness::new(config(1 << 20));
    harness.roll(STREAM).unwrap();
    harness.roll(OTHER).unwrap();
    let table = TABLES[1];
    for number in 0..500_u64 {
        harness.write(table, format!("{{{number}}}k").as_bytes(), b"v").unwrap();
    }
    harness.log.begin_gather(HashRange::whole(table), true, 40);
    while !harness.log.gather_step(7, &hash_of).unwrap() {}
    let gathered = harness.log.gathered().unwrap();
    assert!(gathered.last < KeyHash(u64::MAX), "it was too much for one turn");
    let ends_a_slot = |last: KeyHash| first_hash_of(slot_of_hash(last) + 1).0 == last.0 + 1;
    assert!(ends_a_slot(gathered.last));
    let side = harness.log.open_side_for_survivors(OTHER, ClusterTime(0));
    let stretch = harness.log.begin_stretch(side, 5);
    assert!(ends_a_slot(stretch.last) && stretch.last < gathered.last);
}
