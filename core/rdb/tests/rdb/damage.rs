//! Damaged files: told, never a panic, never more memory than the bytes that there are.

use crate::{ALL, items};
use ramhold_rdb::{Fault, read_dump};

#[test]
fn a_file_cut_off_anywhere_is_told_as_cut_off() {
    for length in 0..ALL.len() {
        let error = items(&ALL[..length]).unwrap_err();
        assert!(matches!(error.fault, Fault::Truncated), "{length}: {error}");
        assert!(error.offset <= length as u64);
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut bytes = ALL.to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            // The version may become another known one: then the checksum tells.
            assert!(items(&bytes).is_err(), "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn random_bytes_behind_a_head_are_never_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..200_000 {
        let mut bytes = b"REDIS0012".to_vec();
        for _ in 0..random() % 64 {
            // Opcodes, types and lengths more often than chance would have them.
            bytes.push(match random() % 4 {
                0 => (random() % 26) as u8,
                1 => 240 + (random() % 16) as u8,
                2 => [0x80, 0x81, 0xc0, 0xc1, 0xc2, 0xc3][(random() % 6) as usize],
                _ => random() as u8,
            });
        }
        let _ = items(&bytes);
        let _ = read_dump(&bytes[9..], 1000);
    }
}
