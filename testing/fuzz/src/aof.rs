//! Append-only files of Redis.
//!
//! Promised:
//! - Commands follow one another without a gap.
//! - A file that is cut anywhere gives the same commands up to the one that is cut. That command is reported
//!   as cut off.
//! - If the protocol's parser takes bytes for requests of arrays, this reader reads them as the same words.

use crate::cuts::Cut;
use crate::memory;
use ramhold_rdb::aof::{Commands, Next, read_manifest};
use ramhold_rdb::{Error, Text};

const WORD_BYTES_MAX: u64 = 4096;
/// A word takes 32 bytes in a list that doubles. The shortest word has six bytes with its framing.
const HELD_PER_BYTE: usize = 20;
const HELD_ALWAYS: usize = 16 * 1024;

/// The commands, the offset of each, and the end of the file's reading.
type Read = (Vec<(u64, Vec<Text>)>, Result<Next, Error>);

fn read(bytes: &[u8]) -> Read {
    let mut commands = Commands::new(bytes, WORD_BYTES_MAX);
    let mut found = Vec::new();
    loop {
        let (next, held) = memory::peak(|| commands.next_command());
        assert!(held <= HELD_ALWAYS + HELD_PER_BYTE * bytes.len(), "{held} bytes held for {}", bytes.len());
        match next {
            Ok(Next::Command { offset, words }) => {
                assert!(!words.is_empty());
                assert!(found.last().is_none_or(|(before, _)| *before < offset));
                found.push((offset, words));
            }
            end => return (found, end),
        }
    }
}

pub fn run(input: &[u8]) {
    let cut = Cut::of(input);
    let (whole, how) = read(cut.bytes);
    for end in cut.ends {
        let (part, how_part) = read(&cut.bytes[..end]);
        assert!(part.len() <= whole.len() && part[..] == whole[..part.len()], "cut at {end}");
        match how_part {
            Ok(Next::CutOff { offset }) => assert!(offset < end as u64),
            Ok(_) => {}
            Err(error) => {
                let whole = how.as_ref().err().map(Error::to_string);
                assert_eq!(whole, Some(error.to_string()), "cut at {end}");
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(cut.bytes)
        && let Ok(parts) = read_manifest(text)
    {
        assert!(parts.iter().all(|part| !part.name.is_empty()));
    }
}
