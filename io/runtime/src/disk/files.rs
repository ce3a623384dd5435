//! The directories and files of one backup, and the locks that keep other processes out.
//!
//! A directory belongs to one process at a time. Its `lock` file is held until the process ends, however it
//! ends.

use super::mapped::Mapped;
use super::read::{DIRECT_BYTES_MIN, DIRECT_SLACK_BYTES};
use super::work::reserve;
use crate::StartError;
use crate::space::is_full;
use ramhold_base::DiskFile;
use ramhold_base::limits::SEGMENT_BYTES;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// Where a backup keeps its files. Both directories are made when they are missing; they may be the same.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// On the device: `superblock` and `frames`.
    pub data_dir: PathBuf,
    /// In memory or on the device: `buffers`.
    pub buffer_dir: PathBuf,
}

/// The open files of one backup, with the locks on their directories.
pub struct DiskFiles {
    superblock: File,
    frames: File,
    /// The same past the page cache, where the file system can do that.
    frames_direct: Option<File>,
    buffers: File,
    /// The same as memory, once its space is reserved and where it is memory.
    buffers_mapped: OnceLock<Mapped>,
    /// Memory of reads that nobody needs any more.
    spare: Mutex<Vec<Vec<u8>>>,
    /// Memory of writes that are done.
    written: Mutex<Vec<Vec<u8>>>,
    _locks: Vec<File>,
}

/// Two copies of a page each.
const SUPERBLOCK_BYTES: u64 = 2 * 4096;

/// As many segments as a recovery lets go at once, and reads again soon.
const SPARE_COUNT_MAX: usize = 8;
/// Appends that go straight to their frames, since all buffers are in use, and wait for their thread.
const WRITTEN_COUNT_MAX: usize = 8;
/// The memory of smaller writes is not kept.
const WRITTEN_BYTES_MIN: usize = 64 * 1024;

impl DiskFiles {
    pub(crate) fn file(&self, file: DiskFile) -> &File {
        match file {
            DiskFile::Superblock => &self.superblock,
            DiskFile::Frames => &self.frames,
            DiskFile::Buffers => &self.buffers,
        }
    }

    /// For large reads and writes of whole blocks.
    pub(crate) fn direct(&self, file: DiskFile) -> Option<&File> {
        match file {
            DiskFile::Frames => self.frames_direct.as_ref(),
            DiskFile::Superblock | DiskFile::Buffers => None,
        }
    }

    /// The file as memory.
    pub(crate) fn mapped(&self, file: DiskFile) -> Option<&Mapped> {
        match file {
            DiskFile::Buffers => self.buffers_mapped.get(),
            DiskFile::Superblock | DiskFile::Frames => None,
        }
    }

    /// So many bytes of a file have their space.
    pub(crate) fn reserved(&self, file: DiskFile, bytes: u64) {
        if file == DiskFile::Buffers
            && let Some(mapped) = Mapped::of(&self.buffers, bytes)
        {
            // A second reservation keeps the first mapping. Bytes beyond that mapping are written with system
            // calls.
            let _ = self.buffers_mapped.set(mapped);
        }
    }

    /// Takes memory back that a read had brought, so that the next need not get it page by page from the system.
    pub(crate) fn recycle(&self, memory: Vec<u8>) {
        if memory.capacity() < DIRECT_BYTES_MIN {
            return;
        }
        let mut spare = self.spare.lock().expect("nobody panics with it");
        if spare.len() < SPARE_COUNT_MAX {
            spare.push(memory);
        }
    }

    /// Has the system find memory for one more large read, if there is room for it in `bytes_max`: page by page while a
    /// recovery waits, it would cost more than all else that a read does. How much was found; at the end all that is left.
    pub(crate) fn find_memory(&self, bytes_max: u64) -> u64 {
        let bytes = SEGMENT_BYTES as usize + DIRECT_SLACK_BYTES;
        let is_full = self.spare.lock().expect("nobody panics with it").len() >= SPARE_COUNT_MAX;
        if is_full || bytes_max < bytes as u64 {
            return bytes_max;
        }
        // The bytes are not zero: the system only promises zeroed pages, and allocates them at the first
        // write.
        self.recycle(vec![1; bytes]);
        bytes as u64
    }

    /// Memory for a large read, with whatever stands in it.
    pub(crate) fn memory(&self) -> Vec<u8> {
        self.spare.lock().expect("nobody panics with it").pop().unwrap_or_default()
    }

    /// Memory for what is to be written by another thread.
    pub(crate) fn write_memory(&self) -> Vec<u8> {
        let mut memory = self.written.lock().expect("nobody panics with it").pop().unwrap_or_default();
        memory.clear();
        memory
    }

    /// Takes memory back whose bytes are written.
    pub(crate) fn recycle_written(&self, memory: Vec<u8>) {
        let mut written = self.written.lock().expect("nobody panics with it");
        if written.len() < WRITTEN_COUNT_MAX && memory.capacity() >= WRITTEN_BYTES_MIN {
            written.push(memory);
        }
    }

    #[cfg(test)]
    pub(crate) fn of(superblock: File, frames: File, buffers: File) -> DiskFiles {
        DiskFiles {
            superblock,
            frames,
            frames_direct: None,
            buffers,
            buffers_mapped: OnceLock::new(),
            spare: Mutex::default(),
            written: Mutex::default(),
            _locks: Vec::new(),
        }
    }
}

/// Makes the directories, locks them, and opens the files, making them when they are missing.
pub fn open_disk(config: &DiskConfig) -> Result<DiskFiles, StartError> {
    let data_dir = make_directory(&config.data_dir)?;
    let buffer_dir = make_directory(&config.buffer_dir)?;
    let mut locks = vec![lock_directory(&data_dir)?];
    if buffer_dir != data_dir {
        locks.push(lock_directory(&buffer_dir)?);
    }
    let superblock = open_file(&data_dir.join("superblock"))?;
    // The space is reserved because a later life and a clean end write the superblock, however full the
    // device is then.
    reserve(&superblock, SUPERBLOCK_BYTES).map_err(|error| full(&data_dir, error))?;
    let frames = open_file(&data_dir.join("frames"))?;
    let frames_direct = open_direct(&data_dir.join("frames"));
    let buffers = open_file(&buffer_dir.join("buffers"))?;
    // Without a durable name, a file would be missing after a loss of power, even if its contents were
    // synced.
    sync_directory(&data_dir)?;
    sync_directory(&buffer_dir)?;
    Ok(DiskFiles {
        superblock,
        frames,
        frames_direct,
        buffers,
        buffers_mapped: OnceLock::new(),
        spare: Mutex::default(),
        written: Mutex::default(),
        _locks: locks,
    })
}

/// Makes a directory for this user alone, its name durable, and gives its path without links.
fn make_directory(path: &Path) -> Result<PathBuf, StartError> {
    let failed = |error| StartError::Directory { path: path.to_owned(), error };
    if !path.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    }
    let path = path.canonicalize().map_err(failed)?;
    // We may have the right to use the parent, but not to open it.
    if let Some(parent) = path.parent().and_then(|parent| File::open(parent).ok()) {
        parent.sync_all().map_err(failed)?;
    }
    Ok(path)
}

/// Takes the directory for this process, making it when it is missing. Freed when the file is dropped.
pub(crate) fn lock_directory(path: &Path) -> Result<File, StartError> {
    let path = make_directory(path)?;
    let lock = open_file(&path.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::InUse { path }),
        Err(TryLockError::Error(error)) => Err(StartError::File { path: path.join("lock"), error }),
    }
}

pub(crate) fn open_file(path: &Path) -> Result<File, StartError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| StartError::File { path: path.to_owned(), error })
}

/// A file that is there, for transfers past the page cache; `None` where that is not to be had.
fn open_direct(path: &Path) -> Option<File> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).expect("flags of open fit C's int");
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()
}

fn full(path: &Path, error: std::io::Error) -> StartError {
    if is_full(&error) {
        StartError::Full { path: path.to_owned() }
    } else {
        StartError::File { path: path.join("superblock"), error }
    }
}

fn sync_directory(path: &Path) -> Result<(), StartError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| StartError::Directory { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn config(scratch: &Scratch) -> DiskConfig {
        DiskConfig { data_dir: scratch.path().join("a/data"), buffer_dir: scratch.path().join("buffers") }
    }

    #[test]
    fn directories_are_made_and_belong_to_one_process() {
        let scratch = Scratch::new();
        let config = config(&scratch);
        let first = open_disk(&config).unwrap();
        assert!(config.data_dir.join("frames").is_file());
        assert!(config.buffer_dir.join("buffers").is_file());
        let refused = open_disk(&config).err().unwrap();
        assert!(refused.to_string().contains("in use by another ramhold process"), "{refused}");
        drop(first);
        open_disk(&config).unwrap();
    }

    #[test]
    fn a_shared_buffer_directory_is_refused_too() {
        let scratch = Scratch::new();
        let first = config(&scratch);
        let second = DiskConfig { data_dir: scratch.path().join("b"), ..first.clone() };
        let _held = open_disk(&first).unwrap();
        assert!(matches!(open_disk(&second), Err(StartError::InUse { path }) if path.ends_with("buffers")));
    }

    #[test]
    fn one_directory_may_serve_for_both() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("both");
        open_disk(&DiskConfig { data_dir: dir.clone(), buffer_dir: dir }).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("file"), b"").unwrap();
        let dir = scratch.path().join("file/below");
        let refused =
            open_disk(&DiskConfig { data_dir: dir.clone(), buffer_dir: dir.clone() }).err().unwrap();
        assert!(refused.to_string().contains(dir.to_str().unwrap()), "{refused}");
    }

    // F11
    #[test]
    fn memory_for_large_reads_is_found_ahead_up_to_a_bound() {
        let scratch = Scratch::new();
        let files = open_disk(&config(&scratch)).unwrap();
        let segment = u64::from(SEGMENT_BYTES) + DIRECT_SLACK_BYTES as u64;
        assert_eq!(files.find_memory(segment - 1), segment - 1, "none is found that no segment fits into");
        assert_eq!(files.memory().capacity(), 0);
        assert_eq!(files.find_memory(5 * segment), segment);
        let memory = files.memory();
        assert!(memory.len() > SEGMENT_BYTES as usize);
        files.recycle(memory);
        let found = (0..2 * SPARE_COUNT_MAX).filter(|_| files.find_memory(100 * segment) == segment).count();
        assert_eq!(found, SPARE_COUNT_MAX - 1);
        assert_eq!(files.find_memory(100 * segment), 100 * segment, "there is enough: no more is looked for");
    }
}
