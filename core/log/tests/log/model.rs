//! Random histories against a map.

use crate::harness::*;
use ramhold_base::Rng;
use ramhold_log::{Geometry, LogConfig, SoughtKey, opening};

// C1, C2, C3, C4
#[test]
fn random_histories_agree_with_a_map() {
    let mut split_values = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut harness = Harness::new(config(256 * 1024));
        harness.has_results = seed.is_multiple_of(2);
        let mut refused = 0;
        for step in 0..6000 {
            refused += u32::from(!harness.step(&mut rng));
            if step % 300 == 0 {
                harness.check();
            }
        }
        harness.check();
        assert!(refused > 0, "the history is long enough to fill the memory");
        for (table, key) in harness.model.keys() {
            let found = harness.log.lookup(*table, hash_of(*table, key), key).unwrap().unwrap();
            split_values += u32::from(found.value.contiguous().is_none());
        }
    }
    assert!(split_values > 0, "some value lies in seglets that are apart");
}

/// The digest of the newest head names the stream's segments; every other entry can be read back as it was written.
// C1, D9
#[test]
fn a_new_head_names_the_segments_of_its_own_stream() {
    let mut rng = Rng::new(77);
    let mut harness = Harness::new(config(256 * 1024));
    for _ in 0..800 {
        harness.step(&mut rng);
    }
    for stream in [STREAM, OTHER] {
        let id = harness.roll(stream).unwrap();
        assert_eq!(harness.log.next_segment_id(), id.next());
        let opening = opening::parse(&segment_bytes(&harness.log, id)).unwrap();
        assert_eq!(opening.header.segment, id);
        assert_eq!(opening.header.stream, stream);
        assert!(opening.digest.unwrap().into_iter().eq(harness.log.stream_segments(stream)));
        assert_eq!(opening.safe_version, Some(harness.log.safe_version()));
        assert_eq!(opening.stats, harness.log.will());
        for segment in harness.log.stream_segments(stream) {
            assert_eq!(harness.log.segment(segment).unwrap().closed, segment != id);
        }
    }
}

// A5, E1
#[test]
fn keys_that_are_looked_up_together_are_found_unless_their_entry_crosses_seglets() {
    let geometry = Geometry { segment_bytes: 1 << 20, seglet_bytes: 1 << 16 };
    let mut harness = Harness::new(LogConfig {
        geometry,
        index_bytes_max: 1 << 20,
        reserve_bytes: 1 << 18,
        ..config(8 << 20)
    });
    [STREAM, OTHER].into_iter().for_each(|stream| _ = harness.roll(stream).unwrap());
    for round in 0..2 {
        for number in 0..3000u32 {
            harness.write(TABLES[0], &number.to_le_bytes(), &vec![round; number as usize % 150]).unwrap();
        }
    }
    let found = harness.check_together();
    assert!((2980..3000).contains(&found), "{found} of 3000 in 16 seglets or so");
    let absent = SoughtKey { table: TABLES[0], hash: hash_of(TABLES[0], b"absent"), key: b"absent" };
    harness.log.lookup_together(&[absent], |_, _| panic!("nothing is there"));
}
