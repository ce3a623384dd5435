//! The two hashes of a key.
//!
//! The *placement hash* decides which tablet owns a key: rapidhash v3, seeded per table, stable for ever and known to
//! clients (test vectors: testing/vectors/placement_hash.hex). The *index hash* decides the place in an index, and the
//! order of scans: a further mix with a secret of the cluster's servers, so that who knows the placement seed cannot aim
//! at one bucket.

use crate::{KeyHash, TableId};

/// A table's seed for the placement hash; random, made with the table, sent to clients with its tablets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, minicbor::Encode, minicbor::Decode)]
#[cbor(transparent)]
pub struct PlacementSeed(#[n(0)] pub u64);

/// The secrets of one table's placement hash, worked out once from its seed.
#[derive(Clone, Copy)]
pub struct PlacementHasher {
    secrets: rapidhash::v3::RapidSecrets,
}

impl PlacementHasher {
    pub fn new(seed: PlacementSeed) -> PlacementHasher {
        PlacementHasher { secrets: rapidhash::v3::RapidSecrets::seed(seed.0) }
    }

    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(rapidhash::v3::rapidhash_v3_seeded(key, &self.secrets))
    }
}

/// The place of (table, placement hash) in a process's index.
pub fn index_hash(secret: u64, table: TableId, hash: KeyHash) -> u64 {
    let a = hash.0 ^ secret;
    let b = (u64::from(table.0) << 32 | u64::from(table.0)) ^ 0x9E37_79B9_7F4A_7C15 ^ secret.rotate_left(32);
    fold(fold(a, 0xD6E8_FEB8_6659_FD93) ^ b, 0xA076_1D64_78BD_642F ^ secret)
}

/// Multiplies to 128 bits and folds the halves together.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B3: clients of any version and language must agree on the owner of a key.
    #[test]
    fn placement_hash_is_pinned() {
        let vectors = include_str!("../../../testing/vectors/placement_hash.hex");
        let mut count = 0;
        for line in vectors.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let seed = u64::from_str_radix(fields[0], 16).unwrap();
            let key_hex = fields[1].trim_start_matches("key=");
            let key: Vec<u8> = (0..key_hex.len() / 2)
                .map(|i| u8::from_str_radix(&key_hex[2 * i..2 * i + 2], 16).unwrap())
                .collect();
            let want = u64::from_str_radix(fields[2], 16).unwrap();
            assert_eq!(PlacementHasher::new(PlacementSeed(seed)).hash(&key).0, want, "{line}");
            count += 1;
        }
        assert!(count >= 8);
    }

    #[test]
    fn index_hash_depends_on_secret_and_table() {
        let h = KeyHash(42);
        assert_ne!(index_hash(1, TableId(1), h), index_hash(2, TableId(1), h));
        assert_ne!(index_hash(1, TableId(1), h), index_hash(1, TableId(2), h));
    }
}
