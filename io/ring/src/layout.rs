//! The words of two rings in one memory (docs/formats/shared-memory.md).

use std::fmt;

/// The words before the data of a ring. Words that different sides write are 128 bytes apart: processors fetch lines of
/// 64 bytes in pairs.
pub const CONTROL_WORDS: usize = 64;
/// Words ever written, by the sender.
pub(crate) const TAIL: usize = 0;
/// Words ever read, by the receiver.
pub(crate) const HEAD: usize = 16;
/// Set by a receiver that is about to sleep, reset by the sender that wakes it.
pub(crate) const ASLEEP: usize = 32;
/// Set by a sender that waits for room, reset by the receiver that makes some.
pub(crate) const WAITS: usize = 48;

/// The data of a ring: a power of two of words within these bounds. Few for loom, which follows each of them.
pub const DATA_WORDS_MIN: usize = if cfg!(feature = "loom") { 4 } else { 64 };
pub const DATA_WORDS_MAX: usize = 128 * 1024;

/// The words of both rings with so many words of data each.
#[must_use]
pub const fn pair_words(data_words: usize) -> usize {
    2 * (CONTROL_WORDS + data_words)
}

/// A full ring holds at least so many chunks. One of loom's small rings may be full with one.
pub(crate) const CHUNKS_MIN: usize = if cfg!(feature = "loom") { 1 } else { 4 };

/// The other side has stored something that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the other process has broken the shared memory")
    }
}

impl std::error::Error for Broken {}

/// The words of data in each ring of a memory of so many words; none: it is no memory of two rings.
#[must_use]
pub fn data_words(words: usize) -> Option<usize> {
    let data_words = (words / 2).checked_sub(CONTROL_WORDS)?;
    let fits = pair_words(data_words) == words
        && data_words.is_power_of_two()
        && (DATA_WORDS_MIN..=DATA_WORDS_MAX).contains(&data_words);
    fits.then_some(data_words)
}

/// A chunk begins with a word that holds its length in bytes; the bytes follow, in whole words.
pub(crate) const fn chunk_words(bytes: usize) -> usize {
    1 + bytes.div_ceil(8)
}
