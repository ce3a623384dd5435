//! Folds everything that happens in a world into one number.
//!
//! Two runs of one seed must end with the same number (J3). If they do not, something other than the seed
//! influenced a run.
//!
//! Not here: resistance to an adversary; the hash only has to notice differences.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    hash: u64,
    notes: u64,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace { hash: 0xCBF2_9CE4_8422_2325, notes: 0 }
    }
}

impl Trace {
    pub fn note(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
        self.notes += 1;
    }

    pub fn note_bytes(&mut self, bytes: &[u8]) {
        self.note(fingerprint(bytes));
    }

    /// The hash of all notes so far.
    pub fn hash(&self) -> u64 {
        self.hash ^ self.notes
    }

    pub fn notes(&self) -> u64 {
        self.notes
    }
}

/// A 64-bit hash of bytes and their length, the same in every run.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hash = MULTIPLIER;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks_exact gives eight bytes"));
        hash = (hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(31);
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER).rotate_left(31);
    // The length comes at the end. At the beginning it would be one with the first word, and a longer value
    // could stand for another.
    hash = (hash ^ bytes.len() as u64).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_content_and_length_all_count() {
        let of = |words: &[u64]| {
            let mut trace = Trace::default();
            words.iter().for_each(|w| trace.note(*w));
            trace.hash()
        };
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
        assert_ne!(of(&[0]), of(&[0, 0]));
        assert_ne!(fingerprint(b""), fingerprint(b"\0"));
        assert_ne!(fingerprint(b"12345678"), fingerprint(b"12345679"));
        // Seeds 200009 and 210722: a value whose tag and length differ from another's in the same bits.
        let (longer, shorter) = ([0, 2, 0, 0, 0, 3, 0, 0, 0], [1, 2, 0, 0, 0, 3, 0, 0]);
        assert_ne!(fingerprint(&longer), fingerprint(&shorter));
    }
}
