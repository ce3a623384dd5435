//! Walks over the entries of a segment's bytes.
//!
//! The bytes come from a device or the network, so every checksum is verified. The first damaged entry ends the walk,
//! because nothing after it can be found.
//!
//! Catalogue: C1, F9.

use crate::{Damage, Entry};

/// An iterator over the entries of `bytes`, which must end where an entry ends. Yields each entry with its offset.
#[derive(Clone, Debug)]
pub struct EntryReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// The place where bytes stopped being entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CorruptEntry {
    /// The offset at which the damaged entry starts.
    pub offset: usize,
    pub damage: Damage,
}

impl<'a> EntryReader<'a> {
    pub fn new(bytes: &'a [u8]) -> EntryReader<'a> {
        EntryReader { bytes, offset: 0 }
    }
}

impl<'a> Iterator for EntryReader<'a> {
    type Item = Result<(usize, Entry<'a>), CorruptEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let rest = self.bytes.get(offset..).filter(|rest| !rest.is_empty())?;
        match Entry::decode(rest) {
            Ok((entry, entry_bytes)) => {
                self.offset += entry_bytes;
                Some(Ok((offset, entry)))
            }
            Err(damage) => {
                self.offset = self.bytes.len();
                Some(Err(CorruptEntry { offset, damage }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::{Rng, Version};

    // F9
    #[test]
    fn a_damaged_entry_ends_the_walk() {
        let mut bytes = Vec::new();
        (1..=3).for_each(|version| Entry::SafeVersion(Version(version)).encode(&mut bytes));
        assert_eq!(EntryReader::new(&bytes).filter(Result::is_ok).count(), 3);
        bytes[20] ^= 1;
        let seen: Vec<_> = EntryReader::new(&bytes).collect();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1], Err(CorruptEntry { offset: 16, damage: Damage::Checksum }));
    }

    // F9
    #[test]
    fn hostile_bytes_never_panic() {
        let mut rng = Rng::new(11);
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = (0..rng.below(200)).map(|_| rng.u64() as u8).collect();
            // Lengths that fit are rare by chance: make some.
            if bytes.len() > 8 {
                bytes[6] = 0;
                bytes[5] = 0;
            }
            assert!(EntryReader::new(&bytes).count() <= bytes.len());
        }
    }
}
