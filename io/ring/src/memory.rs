//! Memory that two processes have mapped: a file without a name, whose descriptor goes over a Unix socket.
//!
//! A process that touches a mapped page that the file has lost is ended by SIGBUS. So the file is sealed against a
//! change of its length before it is handed over, and whoever is handed one looks at the seals, the length and the kind
//! of file system before mapping it: only files of the kernel's own tmpfs have seals and give a page for every touch. The
//! other process can give pages back under the mapping; the next touch then takes a new one, for which the system must
//! have memory, as for any other page.
//!
//! Invariants: the mapping is as long as the words it shows, and stays for as long as anybody holds it.

use crate::layout::{self, data_words, pair_words};
use crate::word::Word;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::Arc;

/// The kernel's number of tmpfs (linux/magic.h).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Words that another process may change at any time.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Mapping>);

#[derive(Debug)]
struct Mapping {
    start: *mut Word,
    words: usize,
}

#[expect(unsafe_code, reason = "the mapping may go to another thread, like the atomic words in it")]
// SAFETY: the memory is mapped for all threads alike until this value is dropped, and is used as atomic words only.
unsafe impl Send for Mapping {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Why memory that was handed over is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadMemory {
    /// Its length can change, or it is no memory at all.
    Unsealed,
    /// It does not hold two rings, or larger ones than may be.
    Length,
    /// The kernel does not map it.
    Refused(Errno),
}

impl Memory {
    /// New memory for two rings with so many words of data each (a power of two within the bounds), and the descriptor
    /// to hand over.
    pub fn new(data_words: usize) -> rustix::io::Result<(Memory, OwnedFd)> {
        let words = pair_words(data_words);
        if layout::data_words(words).is_none() {
            return Err(Errno::INVAL);
        }
        let file = rustix::fs::memfd_create("ramhold", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, 8 * words as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Memory(Arc::new(Mapping::of(&file, words)?)), file))
    }

    /// Memory that somebody else has made, with at most so many words of data in each ring.
    pub fn handed(file: &OwnedFd, data_words_max: usize) -> Result<Memory, BadMemory> {
        let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| BadMemory::Unsealed)?;
        let is_memory = rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == TMPFS_MAGIC);
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) || !is_memory {
            return Err(BadMemory::Unsealed);
        }
        let length = rustix::fs::fstat(file).map_err(BadMemory::Refused)?.st_size;
        let words =
            usize::try_from(length).ok().filter(|bytes| bytes.is_multiple_of(8)).map(|bytes| bytes / 8);
        let fits = |words: &usize| data_words(*words).is_some_and(|data_words| data_words <= data_words_max);
        let words = words.filter(fits).ok_or(BadMemory::Length)?;
        Ok(Memory(Arc::new(Mapping::of(file, words).map_err(BadMemory::Refused)?)))
    }
}

impl AsRef<[Word]> for Memory {
    fn as_ref(&self) -> &[Word] {
        #[expect(unsafe_code, reason = "the words lie in a mapping that another process has too")]
        // SAFETY: `start` is the beginning of a mapping of `words` words, which is page-aligned, readable and writable,
        // and stays until `self.0` is dropped, which outlives the slice. All access of this process goes through atomic
        // words. The file cannot become shorter, because it is sealed.
        unsafe {
            std::slice::from_raw_parts(self.0.start, self.0.words)
        }
    }
}

impl Mapping {
    fn of(file: impl AsFd, words: usize) -> rustix::io::Result<Mapping> {
        // Populated: the first use of a page costs more than a thousand words.
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        #[expect(unsafe_code, reason = "the kernel's interface")]
        // SAFETY: the kernel chooses the address, so nothing else is mapped there. Nobody else has the address.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 8 * words, access, flags, file, 0) }?;
        Ok(Mapping { start: start.cast(), words })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the kernel's interface")]
        // SAFETY: this is the range that was mapped, and the last holder of it goes: no slice is left.
        let unmapped = unsafe { rustix::mm::munmap(self.start.cast(), 8 * self.words) };
        debug_assert!(unmapped.is_ok());
    }
}
