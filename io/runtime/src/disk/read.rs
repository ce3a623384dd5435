//! Reads a part of a file. A segment that the page cache does not have is read past it, straight into the
//! memory from which it is used.
//!
//! Such a transfer begins and ends at whole blocks, in the file and in memory, so the wanted bytes lie
//! somewhere in the middle. Memory is reused without clearing: bytes of earlier reads stay in it until they
//! are overwritten, and are never exposed.
//!
//! Not here: the source of the memory (`files`). Catalogue: F11.

use super::work::{BLOCK_BYTES, is_invalid};
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;

/// Shorter reads go through the page cache.
pub(super) const DIRECT_BYTES_MIN: usize = 256 * 1024;

/// How much more memory than bytes a read past the page cache takes.
pub(super) const DIRECT_SLACK_BYTES: usize = 3 * BLOCK_BYTES;

/// The bytes that a read has brought: those of `memory` from `from` on.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReadBytes {
    memory: Vec<u8>,
    from: usize,
}

impl ReadBytes {
    /// The bytes alone.
    pub fn into_vec(mut self) -> Vec<u8> {
        self.memory.drain(..self.from);
        self.memory
    }

    /// The memory, to be used again.
    pub fn into_memory(self) -> Vec<u8> {
        self.memory
    }
}

impl Deref for ReadBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.from..]
    }
}

/// Reads up to `bytes`, fewer only at the end of the file.
pub(super) fn read(
    file: &File,
    direct: Option<&File>,
    (offset, bytes): (u64, u32),
    memory: impl FnOnce() -> Vec<u8>,
) -> io::Result<ReadBytes> {
    // Memory is taken only for bytes that the file has, however many were asked for.
    let there = file.metadata()?.len().saturating_sub(offset).min(u64::from(bytes));
    let there = usize::try_from(there).expect("at most a u32");
    let is_large = there >= DIRECT_BYTES_MIN;
    match direct.filter(|_| is_large && !is_cached(file, offset, there)) {
        Some(direct) => read_direct(file, direct, (offset, there), memory()),
        None => {
            let mut memory = if is_large { memory() } else { Vec::new() };
            memory.resize(there, 0);
            let filled = fill(file, offset, &mut memory)?;
            memory.truncate(filled);
            Ok(ReadBytes { memory, from: 0 })
        }
    }
}

/// Reads in whole blocks as far as that goes, the rest through the page cache: all of it where the device's blocks are
/// larger than any known.
pub(super) fn read_direct(
    file: &File,
    direct: &File,
    (offset, bytes): (u64, usize),
    mut memory: Vec<u8>,
) -> io::Result<ReadBytes> {
    // The first block may begin before the wanted bytes.
    let skip = (offset % BLOCK_BYTES as u64) as usize;
    let first = offset - skip as u64;
    let whole = (skip + bytes).next_multiple_of(BLOCK_BYTES);
    memory.resize(whole + BLOCK_BYTES, 0);
    let start = memory.as_ptr().align_offset(BLOCK_BYTES);
    let blocks = &mut memory[start..start + whole];
    let mut filled = 0;
    while filled < skip + bytes {
        let count = match direct.read_at(&mut blocks[filled..], first + filled as u64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_invalid(&error) => 0,
            other => other?,
        };
        filled += count;
        if count == 0 || !count.is_multiple_of(BLOCK_BYTES) {
            break;
        }
    }
    let mut filled = filled.clamp(skip, skip + bytes);
    filled += fill(file, first + filled as u64, &mut blocks[filled..skip + bytes])?;
    memory.truncate(start + filled);
    Ok(ReadBytes { memory, from: start + skip })
}

/// How many of the bytes there are.
fn fill(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Whether the first and the last byte are in the page cache, so that the rest is likely to be.
fn is_cached(file: &File, offset: u64, bytes: usize) -> bool {
    let is_there = |offset| {
        let mut byte = [0];
        let mut into = [io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, &mut into, offset, ReadWriteFlags::NOWAIT) == Ok(1)
    };
    is_there(offset) && is_there(offset + bytes as u64 - 1)
}
