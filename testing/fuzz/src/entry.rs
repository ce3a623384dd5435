//! Entries of the log, as they lie in segments on backups' devices.
//!
//! Promised:
//! - An entry has one encoding only, so an entry that was read is written as the same bytes.
//! - A walk over a segment goes on with each step and stays within the segment.
//!
//! The checksum rejects random input, so every input is tried with right checksums, too.

use crate::memory;
use ramhold_base::checksum::crc;
use ramhold_log::{Entry, EntryReader};

/// The bits of an entry's second word that tell its length behind the header.
const BODY_BYTES_MASK: u32 = 0x00FF_FFFF;
const HEADER_BYTES: usize = 8;

pub fn run(input: &[u8]) {
    walk(input);
    walk(&with_checksums(input));
}

fn walk(bytes: &[u8]) {
    let mut end = 0;
    let mut entries = EntryReader::new(bytes);
    loop {
        let (next, held) = memory::peak(|| entries.next());
        assert_eq!(held, 0, "reading takes no memory");
        match next {
            None => return,
            Some(Err(corrupt)) => {
                assert_eq!(corrupt.offset, end);
                assert!(entries.next().is_none(), "nothing behind what is damaged is found");
                return;
            }
            Some(Ok((offset, entry))) => {
                assert_eq!(offset, end);
                let mut again = Vec::new();
                entry.encode(&mut again);
                assert_eq!(again.len(), entry.entry_bytes());
                assert_eq!(
                    bytes.get(end..end + again.len()),
                    Some(&again[..]),
                    "one encoding only: {entry:?}"
                );
                assert_eq!(Entry::decode(&again).map(|(entry, _)| entry), Ok(entry));
                end += again.len();
            }
        }
    }
}

/// The same entries, each with the right checksum.
fn with_checksums(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let mut rest = &mut bytes[..];
    while let Some(word) = rest.get(4..HEADER_BYTES) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let length = HEADER_BYTES + (word & BODY_BYTES_MASK) as usize;
        let Some((entry, behind)) = rest.split_at_mut_checked(length) else { break };
        let sum = crc(&entry[4..]);
        entry[..4].copy_from_slice(&sum.to_le_bytes());
        rest = behind;
    }
    bytes
}
