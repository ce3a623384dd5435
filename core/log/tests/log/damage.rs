//! Damage to a segment's bytes is found.

use crate::harness::*;
use ramhold_base::checksum::crc;
use ramhold_log::EntryReader;

fn small_segment() -> (Vec<u8>, u32) {
    let mut harness = Harness::new(config(64 * 1024));
    harness.write(TABLES[0], b"key", b"value").unwrap();
    harness.write(TABLES[0], b"key", b"other value").unwrap();
    harness.remove(TABLES[0], b"key").unwrap();
    let id = harness.log.head_segment(STREAM).unwrap();
    (segment_bytes(&harness.log, id), harness.log.segment(id).unwrap().crc)
}

// C1, F9
#[test]
fn every_flipped_bit_is_found_by_the_entries_and_by_the_segment() {
    let (bytes, segment_crc) = small_segment();
    assert_eq!(crc(&bytes), segment_crc);
    assert!(EntryReader::new(&bytes).all(|entry| entry.is_ok()));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(EntryReader::new(&damaged).any(|entry| entry.is_err()), "bit {bit}");
        assert_ne!(crc(&damaged), segment_crc, "bit {bit}");
    }
}

// F9
#[test]
fn a_cut_segment_ends_with_its_last_whole_entry() {
    let (bytes, _) = small_segment();
    let ends: Vec<usize> =
        EntryReader::new(&bytes).map(|entry| entry.unwrap()).map(|(at, e)| at + e.entry_bytes()).collect();
    for cut in 0..bytes.len() {
        let whole = EntryReader::new(&bytes[..cut]).filter(Result::is_ok).count();
        assert_eq!(whole, ends.iter().filter(|end| **end <= cut).count());
        let is_clean = cut == 0 || ends.contains(&cut);
        assert_eq!(EntryReader::new(&bytes[..cut]).all(|entry| entry.is_ok()), is_clean);
    }
}
