//! A hash map whose order is the same in every run: it has a fixed hasher, for look-ups on the hot path.
//!
//! Never iterate over one where the order could reach an effect; use `BTreeMap` there.

use std::hash::{BuildHasherDefault, Hasher};

/// A fast map for keys that are ids (not chosen by clients).
#[expect(clippy::disallowed_types, reason = "this is the one place that gives it a fixed hasher")]
pub type FastMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<IdHasher>>;

#[derive(Default, Clone)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }
}
