//! The two hashes of a key.
//!
//! The *placement hash* decides which tablet owns a key. It is rapidhash v3, seeded per table, stable for
//! ever and known to clients (test vectors: testing/vectors/placement_hash.hex). The *index hash* decides the
//! key's place in an index, and the order of scans. It mixes the placement hash with a secret of the
//! cluster's servers, so that a client that knows the placement seed cannot aim at one bucket.
//!
//! In a table *by slots* the top 14 bits of the placement hash are the key's *slot* in the sense of Redis
//! Cluster. Keys with the same hash tag are neighbours there, and clients that know slots find the owner of a
//! key by themselves. Test vectors: testing/vectors/slot.hex. Source: Redis cluster specification, "Key
//! distribution model", "Hash tags".

use crate::{KeyHash, TableId};

/// The number of slots: a key's slot is the CRC16 of its hash tag modulo this number.
pub const SLOT_COUNT: u16 = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;
/// The bits of a placement hash below its slot.
const BELOW_SLOT_BITS: u32 = u64::BITS - SLOT_BITS;

/// Whether ranges in order, each told by its first and its last hash, cover another one without a gap and without more.
pub fn covers(
    pieces: impl IntoIterator<Item = (KeyHash, KeyHash)>,
    (first, last): (KeyHash, KeyHash),
) -> bool {
    let mut next = Some(first.0);
    for (from, to) in pieces {
        if next != Some(from.0) || to < from {
            return false;
        }
        next = to.0.checked_add(1);
    }
    next == last.0.checked_add(1)
}

/// A table's seed for the placement hash; random, made with the table, sent to clients with its tablets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, minicbor::Encode, minicbor::Decode)]
#[cbor(transparent)]
pub struct PlacementSeed(#[n(0)] pub u64);

/// The parameters of a table's placement hash. They never change while the table exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Placement {
    pub seed: PlacementSeed,
    /// The top 14 bits of a hash are the key's slot; the other bits are those of the hash without slots.
    pub slots: bool,
}

impl From<PlacementSeed> for Placement {
    fn from(seed: PlacementSeed) -> Placement {
        Placement { seed, slots: false }
    }
}

/// The secrets of one table's placement hash, computed once from its seed.
#[derive(Clone, Copy)]
pub struct PlacementHasher {
    secrets: rapidhash::v3::RapidSecrets,
    slots: bool,
}

impl PlacementHasher {
    pub fn new(placement: impl Into<Placement>) -> PlacementHasher {
        let Placement { seed, slots } = placement.into();
        PlacementHasher { secrets: rapidhash::v3::RapidSecrets::seed(seed.0), slots }
    }

    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = rapidhash::v3::rapidhash_v3_seeded(key, &self.secrets);
        if self.slots {
            KeyHash(first_hash_of(slot_of(key)).0 | hash & ((1 << BELOW_SLOT_BITS) - 1))
        } else {
            KeyHash(hash)
        }
    }
}

/// The lowest hash of a slot, below [`SLOT_COUNT`], in a table by slots. The slot's hashes end where the next
/// slot's begin.
pub fn first_hash_of(slot: u16) -> KeyHash {
    assert!(slot < SLOT_COUNT);
    KeyHash(u64::from(slot) << BELOW_SLOT_BITS)
}

/// The slot of a hash of a table by slots.
pub fn slot_of_hash(hash: KeyHash) -> u16 {
    (hash.0 >> BELOW_SLOT_BITS) as u16
}

/// A key's slot: CRC16 (XMODEM) of its hash tag modulo [`SLOT_COUNT`]. The tag is the text between the first
/// `{` and the first `}` behind it. If there are no such braces, or nothing is between them, the tag is the
/// whole key.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let inside = key.iter().position(|byte| *byte == b'{').map(|open| &key[open + 1..]);
    let tag = inside.and_then(|rest| rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close]));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC16 XMODEM: polynomial 0x1021, initial value 0, nothing reflected.
fn crc16(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let crc = words.iter().fold(0, |crc: u16, [a, b, c, d]| {
        let [high, low] = crc.to_be_bytes();
        let of = |table: usize, byte: u8| CRC16[table][usize::from(byte)];
        of(3, a ^ high) ^ of(2, b ^ low) ^ of(1, *c) ^ of(0, *d)
    });
    rest.iter().fold(crc, |crc: u16, byte| {
        let [high, low] = crc.to_be_bytes();
        u16::from_be_bytes([low, 0]) ^ CRC16[0][usize::from(high ^ byte)]
    })
}

/// `CRC16[n][byte]` is the remainder of `byte` with `n` zero bytes behind it.
static CRC16: [[u16; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut table = 0;
        while table < 4 {
            let mut bit = 0;
            while bit < 8 {
                crc = crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
                bit += 1;
            }
            tables[table][byte] = crc;
            table += 1;
        }
        byte += 1;
    }
    tables
};

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

    // I4
    #[test]
    fn ranges_cover_another_one_without_gaps_overlaps_and_more() {
        let all = (0, u64::MAX);
        let half = u64::MAX / 2;
        let is_covered = |pieces: &[(u64, u64)], range: (u64, u64)| {
            let hashes = |(first, last)| (KeyHash(first), KeyHash(last));
            covers(pieces.iter().copied().map(hashes), hashes(range))
        };
        assert!(is_covered(&[all], all) && is_covered(&[(0, half), (half + 1, u64::MAX)], all));
        assert!(is_covered(&[(5, 6), (7, 9)], (5, 9)));
        assert!(!is_covered(&[], all) && !is_covered(&[], (5, 9)));
        assert!(!is_covered(&[(0, half)], all) && !is_covered(&[(half + 1, u64::MAX)], all));
        assert!(!is_covered(&[(0, half), (half + 2, u64::MAX)], all), "a gap");
        assert!(!is_covered(&[(0, half), (half, u64::MAX)], all), "one is there twice");
        assert!(!is_covered(&[all, all], all) && !is_covered(&[(5, 10)], (5, 9)));
        assert!(!is_covered(&[(5, 4), (5, 9)], (5, 9)), "an empty range is none");
    }

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

    fn bytes_of(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
    }

    /// B3: Redis clients must agree on the slot of a key.
    #[test]
    fn slots_are_those_of_redis_cluster() {
        let vectors = include_str!("../../../testing/vectors/slot.hex");
        let mut count = 0;
        for line in vectors.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (key, slot) = line.split_once(' ').unwrap();
            let key = bytes_of(key.trim_start_matches("key="));
            assert_eq!(slot_of(&key), slot.parse::<u16>().unwrap(), "{line}");
            count += 1;
        }
        assert!(count >= 10);
    }

    // B3
    #[test]
    fn a_table_by_slots_has_the_slot_on_top_and_the_rest_as_without() {
        let seed = PlacementSeed(7);
        let (by_slots, plain) =
            (PlacementHasher::new(Placement { seed, slots: true }), PlacementHasher::new(seed));
        for key in [&b"foo"[..], b"", b"{user1000}.following", &[0; 300]] {
            let hash = by_slots.hash(key);
            assert_eq!(slot_of_hash(hash), slot_of(key));
            assert_eq!(hash.0 << SLOT_BITS, plain.hash(key).0 << SLOT_BITS);
            assert!(first_hash_of(slot_of(key)) <= hash);
        }
        assert_eq!(first_hash_of(SLOT_COUNT - 1).0, u64::MAX << BELOW_SLOT_BITS);
    }

    #[test]
    fn index_hash_depends_on_secret_and_table() {
        let h = KeyHash(42);
        assert_ne!(index_hash(1, TableId(1), h), index_hash(2, TableId(1), h));
        assert_ne!(index_hash(1, TableId(1), h), index_hash(1, TableId(2), h));
    }
}
