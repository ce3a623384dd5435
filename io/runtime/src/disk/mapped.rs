//! The buffer file as memory: one copy makes the bytes that a backup receives outlive the process.
//!
//! A shared mapping of a file on tmpfs consists of the file's own pages. Bytes stored there are in the file
//! at once. They stay there when the process is killed, as they would after a write. A flush passes the pages
//! to the device as they are.
//!
//! A process that touches a mapped page that the file has lost is ended by SIGBUS. So only a file on tmpfs
//! whose space is reserved is mapped: each of its pages can be allocated, and can be read unless swap is
//! broken. If somebody truncates the file under a running server, that server ends, and the cluster survives
//! this. With system calls, a write would instead lengthen the file again and leave holes where there was
//! data, and nobody would notice.
//!
//! Invariants:
//! - no page of the mapping is beyond the reserved length of the file;
//! - nobody reads bytes here while somebody writes them: a backup flushes only certified bytes, which never
//!   change, and gives a buffer to another replica only when no work under way needs the buffer.
//!
//! Not here: certificates (`work`), which a kill must not tear, so they are written with system calls; file
//! systems on devices, whose pages can fail to be read, so buffers there are written with system calls.

use ramhold_base::past_caches::copy_past_caches;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::fs::File;

/// The kernel's number of tmpfs (linux/magic.h).
const TMPFS_MAGIC: i64 = 0x0102_1994;

pub(crate) struct Mapped {
    start: *mut u8,
    bytes: usize,
}

#[expect(unsafe_code, reason = "the mapping is shared by the loop and the disk threads")]
// SAFETY: the memory is mapped for the lifetime of this value, for all threads alike. The invariant above
// says which bytes a thread may touch.
unsafe impl Send for Mapped {}
#[expect(unsafe_code, reason = "the mapping is shared by the loop and the disk threads")]
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The first `bytes` of a file whose space is reserved; `None` where that is no memory, or cannot be mapped.
    pub(crate) fn of(file: &File, bytes: u64) -> Option<Mapped> {
        let is_memory = rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == TMPFS_MAGIC);
        let is_there = file.metadata().is_ok_and(|found| found.len() >= bytes);
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0 && is_memory && is_there)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        #[expect(unsafe_code, reason = "a copy of every replicated byte less than with system calls")]
        // SAFETY: the kernel chooses the address, so nothing else is mapped there. Nobody else has the
        // address.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, file, 0) };
        let mapped = Mapped { start: start.ok()?.cast(), bytes };
        // The pages are allocated already, and are mapped here all at once. Mapping them one by one, each at
        // its first write, would cost more than all the copies into them. Kernels before 5.14 do not know
        // this advice, and map each page at its first write.
        #[expect(unsafe_code, reason = "see the top")]
        // SAFETY: the range was mapped just now. Populating its pages does not change their contents.
        let _ = unsafe { rustix::mm::madvise(start.ok()?, bytes, Advice::LinuxPopulateWrite) };
        Some(mapped)
    }

    fn holds(&self, offset: u64, bytes: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        (offset.checked_add(bytes)? <= self.bytes).then_some(offset)
    }

    /// Puts bytes into the file; false, and nothing is done, when not all of them are within what is mapped.
    #[must_use]
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> bool {
        let Some(offset) = self.holds(offset, data.len()) else { return false };
        #[expect(unsafe_code, reason = "see the top")]
        // SAFETY: `holds` checked just now that the range is within the mapping, and any byte is a `u8`.
        // Nobody else has the address except `bytes`, whose slices go only to the kernel. By the invariant
        // above, these slices cover other bytes.
        let place = unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), data.len()) };
        // The copy bypasses the processor's caches, because the next reader of these bytes is the device.
        copy_past_caches(place, data);
        true
    }

    /// Bytes of the file where they lie, if they are mapped; for the kernel to read.
    pub(crate) fn bytes(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let offset = self.holds(offset, bytes)?;
        #[expect(unsafe_code, reason = "see the top")]
        // SAFETY: the range is within the mapping, which lives as long as `self`. Any byte is a `u8`. By the
        // invariant above, nobody writes there meanwhile.
        Some(unsafe { std::slice::from_raw_parts(self.start.add(offset), bytes) })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "see the top")]
        // SAFETY: the memory was mapped with this length, and no slice of it outlives `self`.
        let done = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
        debug_assert!(done.is_ok(), "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    /// A file without a name on tmpfs, as long as `bytes`; none where there is no such file system.
    fn file(bytes: u64) -> Option<File> {
        let path = Path::new("/dev/shm").join(format!("ramhold-mapped-{}-{bytes}", std::process::id()));
        let file = crate::disk::open_file(&path).ok()?;
        std::fs::remove_file(&path).unwrap();
        crate::disk::reserve(&file, bytes).unwrap();
        Some(file)
    }

    // D1: bytes stored in the mapping are in the file at once, and no other bytes of the file change.
    #[test]
    fn what_is_written_is_in_the_file_and_nothing_else() {
        let Some(file) = file(3 * 4096) else { return };
        let mapped = Mapped::of(&file, 3 * 4096).expect("this is tmpfs");
        let mut model = vec![0; 3 * 4096];
        let mut rng = ramhold_base::Rng::new(5);
        for round in 0..200 {
            let from = rng.below(model.len() as u64) as usize;
            let bytes = rng.below((model.len() - from) as u64 + 1) as usize;
            let data: Vec<u8> = (0..bytes).map(|_| rng.u64() as u8).collect();
            assert!(mapped.write(from as u64, &data));
            model[from..from + bytes].copy_from_slice(&data);
            let mut found = vec![0; model.len()];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == model, "round {round}");
            assert!(mapped.bytes(from as u64, bytes) == Some(&model[from..from + bytes]));
        }
        file.write_all_at(b"by a system call", 4090).unwrap();
        assert_eq!(mapped.bytes(4090, 16), Some(&b"by a system call"[..]));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let Some(file) = file(8192) else { return };
        assert!(Mapped::of(&file, 8193).is_none(), "the file is shorter");
        assert!(Mapped::of(&file, 0).is_none());
        let mapped = Mapped::of(&file, 4096).expect("this is tmpfs");
        assert!(mapped.write(4095, b"x"));
        assert!(!mapped.write(4095, b"xy"));
        assert!(!mapped.write(u64::MAX, b"x"));
        assert_eq!(mapped.bytes(4095, 1), Some(&b"x"[..]));
        assert_eq!(mapped.bytes(4096, 1), None);
        assert_eq!(mapped.bytes(1, usize::MAX), None);
    }

    #[test]
    fn a_file_on_a_device_is_not_mapped() {
        let scratch = crate::scratch::Scratch::new();
        let file = crate::disk::open_file(&scratch.path().join("buffers")).unwrap();
        crate::disk::reserve(&file, 4096).unwrap();
        let is_memory = rustix::fs::fstatfs(&file).unwrap().f_type == TMPFS_MAGIC;
        assert_eq!(Mapped::of(&file, 4096).is_some(), is_memory);
    }
}
