//! One disk effect, executed with plain system calls.
//!
//! Segments are written to the frames and read from them past the page cache. Nobody reads them again soon,
//! and pages for them would cost more processor time than all the rest of a flush. Parts that are not whole
//! blocks, and all small transfers, go through the page cache. The kernel keeps both views of the file
//! consistent.

use super::mapped::Mapped;
use super::read::{ReadBytes, read};
use super::{DiskFiles, Lane};
use crate::space::free_bytes;
use ramhold_base::{DiskData, DiskError, DiskFile, DiskToken, Effect};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes moved in one system call of a copy or of writing zeros.
const CHUNK_BYTES: usize = 1024 * 1024;
/// The same of a copy from where the bytes lie in memory: a whole segment, since a virtual machine leaves its processor for
/// each request to its device.
const MAPPED_CHUNK_BYTES: usize = 8 * 1024 * 1024;
/// The alignment of transfers past the page cache, in the file and in memory: a multiple of any device's block size.
pub(super) const BLOCK_BYTES: usize = 4096;

thread_local! {
    /// The memory of this thread's transfers past the page cache.
    static CHUNK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lets `use_it` have a chunk of memory that is aligned to blocks.
fn with_chunk<R>(use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    CHUNK.with_borrow_mut(|memory| {
        memory.resize(CHUNK_BYTES + BLOCK_BYTES, 0);
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        use_it(&mut memory[start..start + CHUNK_BYTES])
    })
}

/// The part of a write that the next life may find, when the process was killed in the middle of the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhenKilled {
    /// All or nothing, if it lies within a page: a certificate.
    Whole,
    /// Any part of it: data that nothing certifies yet.
    Torn,
}

impl WhenKilled {
    pub(crate) fn of(data: &DiskData) -> WhenKilled {
        match data {
            DiskData::Own(_) => WhenKilled::Whole,
            DiskData::FrameEnd(_) => WhenKilled::Torn,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Work<'a> {
    Write { file: DiskFile, offset: u64, data: Cow<'a, [u8]>, when_killed: WhenKilled },
    Read { file: DiskFile, offset: u64, bytes: u32 },
    Copy { from: DiskFile, from_offset: u64, to: DiskFile, to_offset: u64, bytes: u32 },
    Sync { file: DiskFile },
    Reserve { file: DiskFile, bytes: u64 },
}

impl Work<'_> {
    pub(crate) fn lane(&self) -> Lane {
        let at_once_or = |file: DiskFile, otherwise: Lane| match file {
            DiskFile::Buffers => Lane::AtOnce,
            DiskFile::Superblock | DiskFile::Frames => otherwise,
        };
        match self {
            Work::Read { file, .. } => at_once_or(*file, Lane::Reading),
            Work::Write { file: DiskFile::Frames, .. } => Lane::Appending,
            Work::Write { file, .. } | Work::Sync { file } | Work::Reserve { file, .. } => {
                at_once_or(*file, Lane::Writing)
            }
            Work::Copy { from: DiskFile::Buffers, to: DiskFile::Buffers, .. } => Lane::AtOnce,
            Work::Copy { .. } => Lane::Writing,
        }
    }

    /// For another thread; bytes of somebody else are copied into `memory`.
    pub(crate) fn into_owned(self, memory: impl FnOnce() -> Vec<u8>) -> Work<'static> {
        match self {
            Work::Write { file, offset, data: Cow::Borrowed(data), when_killed } => {
                let mut memory = memory();
                memory.extend_from_slice(data);
                Work::Write { file, offset, data: Cow::Owned(memory), when_killed }
            }
            Work::Write { file, offset, data: Cow::Owned(data), when_killed } => {
                Work::Write { file, offset, data: Cow::Owned(data), when_killed }
            }
            Work::Read { file, offset, bytes } => Work::Read { file, offset, bytes },
            Work::Copy { from, from_offset, to, to_offset, bytes } => {
                Work::Copy { from, from_offset, to, to_offset, bytes }
            }
            Work::Sync { file } => Work::Sync { file },
            Work::Reserve { file, bytes } => Work::Reserve { file, bytes },
        }
    }

    /// Memory that is of no use any more when it is done.
    pub(crate) fn into_memory(self) -> Option<Vec<u8>> {
        match self {
            Work::Write { data: Cow::Owned(data), .. } => Some(data),
            _ => None,
        }
    }

    /// Does it; the bytes are those of a read, else none.
    pub(crate) fn perform(&self, files: &DiskFiles) -> Result<ReadBytes, DiskError> {
        let none = |()| ReadBytes::default();
        let done = match self {
            Work::Write { file, offset, data, when_killed } => {
                // A kill can interrupt a store into memory at any byte, but a system call only between pages.
                let mapped = files.mapped(*file).filter(|_| *when_killed == WhenKilled::Torn);
                if mapped.is_some_and(|mapped| mapped.write(*offset, data)) {
                    Ok(none(()))
                } else {
                    files.file(*file).write_all_at(data, *offset).map(none)
                }
            }
            Work::Read { file, offset, bytes } => {
                read(files.file(*file), files.direct(*file), (*offset, *bytes), || files.memory())
            }
            Work::Copy { from, from_offset, to, to_offset, bytes } => {
                let from = (files.file(*from), files.mapped(*from), *from_offset);
                let to = (files.file(*to), files.direct(*to), *to_offset);
                copy(from, to, *bytes).map(none)
            }
            Work::Sync { file } => files.file(*file).sync_data().map(none),
            Work::Reserve { file, bytes } => reserve(files.file(*file), *bytes).map(|()| {
                files.reserved(*file, *bytes);
                none(())
            }),
        };
        done.map_err(|error| disk_error(self, files, &error))
    }

    fn name(&self) -> (&'static str, DiskFile) {
        match self {
            Work::Write { file, .. } => ("write", *file),
            Work::Read { file, .. } => ("read", *file),
            Work::Copy { to, .. } => ("copy", *to),
            Work::Sync { file } => ("sync", *file),
            Work::Reserve { file, .. } => ("reserve", *file),
        }
    }
}

impl DiskFiles {
    /// Does a disk effect on the caller's thread and answers with its completion; the bytes are those of a read. For
    /// programs that drive a backup without a loop. `own` are the bytes of the effects, `frame` is what the step was given.
    /// `None`: it is no disk effect.
    pub fn perform(
        &self,
        effect: &Effect,
        own: &[u8],
        frame: &[u8],
    ) -> Option<(DiskToken, Result<Vec<u8>, DiskError>)> {
        let (token, work) = match *effect {
            Effect::DiskWrite { token, file, offset, ref data } => {
                let when_killed = WhenKilled::of(data);
                let data = Cow::Borrowed(data.of(own, frame));
                (token, Work::Write { file, offset, data, when_killed })
            }
            Effect::DiskRead { token, file, offset, bytes } => (token, Work::Read { file, offset, bytes }),
            Effect::DiskCopy { token, from, from_offset, to, to_offset, bytes } => {
                (token, Work::Copy { from, from_offset, to, to_offset, bytes })
            }
            Effect::DiskSync { token, file } => (token, Work::Sync { file }),
            Effect::DiskReserve { token, file, bytes } => (token, Work::Reserve { file, bytes }),
            Effect::Send { .. }
            | Effect::Close { .. }
            | Effect::Hear { .. }
            | Effect::Store { .. }
            | Effect::Secret { .. }
            | Effect::Mark(_)
            | Effect::Report { .. }
            | Effect::Named { .. }
            | Effect::Exit { .. } => return None,
        };
        Some((token, work.perform(self).map(ReadBytes::into_vec)))
    }
}

fn disk_error(work: &Work<'_>, files: &DiskFiles, error: &io::Error) -> DiskError {
    let (what, file) = work.name();
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // FBIG: the file would be larger than this system or this process may have.
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            DiskError::Full { free_bytes: free_bytes(files.file(file)).unwrap_or(0) }
        }
        _ => DiskError::Failed(format!("{what} of {file:?}: {error}")),
    }
}

pub(super) fn is_invalid(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

fn copy(
    (from, mapped, from_offset): (&File, Option<&Mapped>, u64),
    (to, direct, to_offset): (&File, Option<&File>, u64),
    bytes: u32,
) -> io::Result<()> {
    let bytes = bytes as usize;
    with_chunk(|buffer| {
        let mut done = 0;
        while done < bytes {
            let at = to_offset + done as u64;
            let to_block = (at.next_multiple_of(BLOCK_BYTES as u64) - at) as usize;
            let left = bytes - done;
            // First up to the next whole block, then whole blocks, then the rest.
            let chunk_of = |most: usize| match (direct, left.min(most) / BLOCK_BYTES * BLOCK_BYTES) {
                (Some(_), _) if to_block > 0 => (to_block.min(left), false),
                (Some(_), whole) if whole > 0 => (whole, true),
                _ => (left.min(CHUNK_BYTES), false),
            };
            let (mut chunk, mut is_whole) = chunk_of(MAPPED_CHUNK_BYTES);
            let there = mapped.and_then(|mapped| mapped.bytes(from_offset + done as u64, chunk));
            let is_aligned = |bytes: &&[u8]| !is_whole || bytes.as_ptr().align_offset(BLOCK_BYTES) == 0;
            let source = match there.filter(is_aligned) {
                Some(there) => there,
                None => {
                    (chunk, is_whole) = chunk_of(CHUNK_BYTES);
                    from.read_exact_at(&mut buffer[..chunk], from_offset + done as u64)?;
                    &buffer[..chunk]
                }
            };
            let written = match direct.filter(|_| is_whole) {
                Some(direct) => direct.write_all_at(source, at),
                None => Err(Errno::INVAL.into()),
            };
            match written {
                Err(error) if is_invalid(&error) => {
                    to.write_all_at(source, at)?;
                }
                other => other?,
            }
            done += chunk;
        }
        Ok(())
    })
}

/// Makes the file at least `bytes` long with its space reserved, or fails and leaves its length as it was.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let length = file.metadata()?.len();
    if bytes == 0 {
        return Ok(());
    }
    let reserved = loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break write_zeros(file, length, bytes),
            other => break other.map_err(io::Error::from),
        }
    };
    if reserved.is_err() && file.metadata()?.len() > length {
        file.set_len(length)?;
    }
    reserved
}

/// For file systems that cannot reserve: what is written has its space.
fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK_BYTES];
    let mut at = from;
    while at < to {
        let chunk = usize::try_from(to - at).map_or(CHUNK_BYTES, |rest| rest.min(CHUNK_BYTES));
        file.write_all_at(&zeros[..chunk], at)?;
        at += chunk as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::read::read_direct;
    use super::*;
    use crate::disk::open_file;
    use crate::scratch::Scratch;
    use std::fs::OpenOptions;
    use std::path::Path;

    fn files(scratch: &Scratch, frames: &Path) -> DiskFiles {
        let frames =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(frames).unwrap();
        let superblock = open_file(&scratch.path().join("superblock")).unwrap();
        let buffers = open_file(&scratch.path().join("buffers")).unwrap();
        DiskFiles::of(superblock, frames, buffers)
    }

    fn write(file: DiskFile, offset: u64, data: &[u8]) -> Work<'_> {
        Work::Write { file, offset, data: Cow::Borrowed(data), when_killed: WhenKilled::Torn }
    }

    #[test]
    fn what_was_written_is_read_and_copied() {
        let scratch = Scratch::new();
        let files = files(&scratch, &scratch.path().join("frames"));
        let long: Vec<u8> = (0..CHUNK_BYTES * 2 + 77).map(|i| (i * 7) as u8).collect();
        write(DiskFile::Buffers, 10, &long).perform(&files).unwrap();
        let bytes = long.len() as u32;
        let (from, to) = (DiskFile::Buffers, DiskFile::Frames);
        Work::Copy { from, from_offset: 10, to, to_offset: 5, bytes }.perform(&files).unwrap();
        Work::Sync { file: DiskFile::Frames }.perform(&files).unwrap();
        let read = Work::Read { file: DiskFile::Frames, offset: 5, bytes }.perform(&files).unwrap();
        assert!(*read == *long);
    }

    #[test]
    fn a_disk_effect_is_performed_without_a_loop() {
        let scratch = Scratch::new();
        let files = files(&scratch, &scratch.path().join("frames"));
        let (token, file) = (DiskToken(7), DiskFile::Frames);
        let write = Effect::DiskWrite { token, file, offset: 2, data: DiskData::Own(1..3) };
        assert_eq!(files.perform(&write, b"abcd", b""), Some((token, Ok(Vec::new()))));
        let write = Effect::DiskWrite { token, file, offset: 4, data: DiskData::FrameEnd(2) };
        assert_eq!(files.perform(&write, b"abcd", b"a frame"), Some((token, Ok(Vec::new()))));
        let read = Effect::DiskRead { token, file, offset: 2, bytes: 9 };
        assert_eq!(files.perform(&read, b"", b""), Some((token, Ok(b"bcme".to_vec()))));
        let past_the_end =
            Effect::DiskCopy { token, from: file, from_offset: 9, to: file, to_offset: 0, bytes: 1 };
        assert!(matches!(files.perform(&past_the_end, b"", b""), Some((_, Err(DiskError::Failed(_))))));
        assert_eq!(files.perform(&Effect::Named { server: ramhold_base::ServerId(1) }, b"", b""), None);
    }

    #[test]
    fn a_read_is_short_only_at_the_end() {
        let scratch = Scratch::new();
        let files = files(&scratch, &scratch.path().join("frames"));
        write(DiskFile::Frames, 0, b"abcdef").perform(&files).unwrap();
        let read = |offset, bytes| {
            Work::Read { file: DiskFile::Frames, offset, bytes }.perform(&files).unwrap().into_vec()
        };
        assert_eq!(read(2, 3), b"cde");
        assert_eq!(read(4, u32::MAX), b"ef");
        assert_eq!(read(6, 10), b"");
        assert_eq!(read(u64::MAX / 2, 10), b"");
    }

    #[test]
    fn a_copy_from_beyond_the_end_fails() {
        let scratch = Scratch::new();
        let files = files(&scratch, &scratch.path().join("frames"));
        let (from, to) = (DiskFile::Buffers, DiskFile::Frames);
        let result = Work::Copy { from, from_offset: 0, to, to_offset: 0, bytes: 1 }.perform(&files);
        assert!(matches!(result, Err(DiskError::Failed(_))), "{result:?}");
    }

    // D1: a copy past the page cache writes the same bytes as a copy through it, wherever the copy begins and
    // ends.
    #[test]
    fn transfers_past_the_page_cache_are_exact() {
        let scratch = Scratch::new();
        let config = crate::DiskConfig { data_dir: scratch.path().into(), buffer_dir: scratch.path().into() };
        transfers_are_exact(&crate::open_disk(&config).unwrap());
    }

    // D1: the same holds for buffers that are mapped.
    #[test]
    fn transfers_from_mapped_buffers_are_exact() {
        let scratch = Scratch::new();
        let memory = Path::new("/dev/shm").join(format!("ramhold-test-{}", std::process::id()));
        let config = crate::DiskConfig { data_dir: scratch.path().into(), buffer_dir: memory.clone() };
        let Ok(files) = crate::open_disk(&config) else { return };
        Work::Reserve { file: DiskFile::Buffers, bytes: 4 << 20 }.perform(&files).unwrap();
        assert!(files.mapped(DiskFile::Buffers).is_some());
        std::fs::remove_dir_all(&memory).unwrap();
        transfers_are_exact(&files);
    }

    fn transfers_are_exact(files: &DiskFiles) {
        let long: Vec<u8> = (0..3 * CHUNK_BYTES + 9 * BLOCK_BYTES).map(|i| (i * 31 / 7) as u8).collect();
        write(DiskFile::Buffers, 0, &long).perform(files).unwrap();
        let mut model = vec![0xEE; long.len() + 4 * BLOCK_BYTES];
        write(DiskFile::Frames, 0, &model).perform(files).unwrap();
        let mut rng = ramhold_base::Rng::new(3);
        for round in 0..60 {
            let scale = rng.between(1, 22);
            let bytes = rng.below(1 << scale).clamp(1, long.len() as u64) as usize;
            let from = rng.below((long.len() - bytes) as u64 + 1) as usize;
            let mut to = rng.below((model.len() - bytes) as u64 + 1) as usize;
            if rng.chance(1, 2) {
                to = to / BLOCK_BYTES * BLOCK_BYTES;
            }
            let copy = Work::Copy {
                from: DiskFile::Buffers,
                from_offset: from as u64,
                to: DiskFile::Frames,
                to_offset: to as u64,
                bytes: bytes as u32,
            };
            copy.perform(files).unwrap();
            model[to..to + bytes].copy_from_slice(&long[from..from + bytes]);
            let at = rng.below(model.len() as u64) as usize;
            let bytes = rng.below(model.len() as u64) as usize;
            let read = Work::Read { file: DiskFile::Frames, offset: at as u64, bytes: bytes as u32 };
            let end = model.len().min(at + bytes);
            let read = read.perform(files).unwrap();
            assert!(*read == model[at..end], "round {round}: {at} {bytes}");
            files.recycle(read.into_memory());
            if let Some(direct) = files.direct(DiskFile::Frames).filter(|_| end > at) {
                // This reads past the page cache, whatever the page cache has.
                let file = files.file(DiskFile::Frames);
                let read = read_direct(file, direct, (at as u64, end - at), files.memory()).unwrap();
                assert!(*read == model[at..end], "round {round}: {at} {bytes}");
                files.recycle(read.into_memory());
            }
        }
    }

    // D2: a full device is distinguished from a broken one.
    #[test]
    fn a_full_device_is_full() {
        let scratch = Scratch::new();
        let files = files(&scratch, Path::new("/dev/full"));
        let full = write(DiskFile::Frames, 0, b"x").perform(&files);
        assert!(matches!(full, Err(DiskError::Full { .. })), "{full:?}");
        let more_than_any_disk = Work::Reserve { file: DiskFile::Buffers, bytes: 1 << 60 };
        let Err(DiskError::Full { free_bytes }) = more_than_any_disk.perform(&files) else { panic!() };
        assert!((1..1 << 60).contains(&free_bytes), "what the device has: {free_bytes}");
        assert_eq!(files.file(DiskFile::Buffers).metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_reservation_keeps_what_is_there() {
        let scratch = Scratch::new();
        let files = files(&scratch, &scratch.path().join("frames"));
        write(DiskFile::Frames, 0, b"abc").perform(&files).unwrap();
        Work::Reserve { file: DiskFile::Frames, bytes: 100_000 }.perform(&files).unwrap();
        Work::Reserve { file: DiskFile::Frames, bytes: 10 }.perform(&files).unwrap();
        let read = Work::Read { file: DiskFile::Frames, offset: 0, bytes: 200_000 }.perform(&files).unwrap();
        assert_eq!(read.len(), 100_000);
        assert_eq!(&read[..4], b"abc\0");
        let zeroed = files.file(DiskFile::Superblock);
        zeroed.write_all_at(b"xyz", 0).unwrap();
        write_zeros(zeroed, 3, CHUNK_BYTES as u64 + 9).unwrap();
        assert_eq!(zeroed.metadata().unwrap().len(), CHUNK_BYTES as u64 + 9);
        assert_eq!(read_first(zeroed), b"xyz\0");
    }

    fn read_first(file: &File) -> Vec<u8> {
        read(file, None, (0, 4), Vec::new).unwrap().into_vec()
    }

    #[test]
    fn only_work_on_buffers_alone_is_done_at_once() {
        let copy = |from, to| Work::Copy { from, from_offset: 0, to, to_offset: 0, bytes: 1 }.lane();
        assert_eq!(copy(DiskFile::Buffers, DiskFile::Frames), Lane::Writing);
        assert_eq!(copy(DiskFile::Buffers, DiskFile::Buffers), Lane::AtOnce);
        assert_eq!(write(DiskFile::Buffers, 0, b"").lane(), Lane::AtOnce);
        assert_eq!(write(DiskFile::Superblock, 0, b"").lane(), Lane::Writing);
        assert_eq!(Work::Read { file: DiskFile::Frames, offset: 0, bytes: 1 }.lane(), Lane::Reading);
    }
}
