//! The resources of this host: space on file systems, memory, open files.

use crate::StartError;
use crate::disk::{lock_directory, open_file, reserve};
use rustix::fs::StatVfs;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The outcome of the wish to have room for buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferRoom {
    /// The file `buffers` has at least the asked length, and its space is taken.
    Reserved,
    /// The file system can hold a file `buffers` of about this many bytes, which is less than asked.
    TooSmall { available: u64 },
}

/// Bytes that this user may still write to the file system that holds `path`.
pub fn free_space(path: &Path) -> io::Result<u64> {
    Ok(available(&rustix::fs::statvfs(path)?))
}

/// The same for the file system that holds an open file.
pub(crate) fn free_bytes(file: &File) -> io::Result<u64> {
    Ok(available(&rustix::fs::fstatvfs(file)?))
}

fn available(space: &StatVfs) -> u64 {
    space.f_bavail.saturating_mul(space.f_frsize)
}

/// Makes `buffer_dir` and in it the file `buffers` of at least `bytes`, its space reserved.
/// The directory is locked meanwhile and free again afterwards.
pub fn try_reserve_buffers(buffer_dir: &Path, bytes: u64) -> Result<BufferRoom, StartError> {
    let _lock = lock_directory(buffer_dir)?;
    let path = buffer_dir.join("buffers");
    let file = open_file(&path)?;
    let failed = |error: io::Error| StartError::File { path: path.clone(), error };
    match reserve(&file, bytes) {
        Ok(()) => Ok(BufferRoom::Reserved),
        Err(error) if is_full(&error) => {
            let held = file.metadata().map_err(failed)?.len();
            Ok(BufferRoom::TooSmall {
                available: free_space(buffer_dir).map_err(failed)?.saturating_add(held),
            })
        }
        Err(error) => Err(failed(error)),
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}

/// Bytes of memory that this process may still take: what the kernel says is available, or less when a control group
/// that holds this process allows less. `None` when the kernel does not tell.
pub fn memory_available() -> Option<u64> {
    let host = memory_of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let allowed = group_directories(&groups).iter().filter_map(|directory| room_in_group(directory)).min();
    Some(allowed.map_or(host, |allowed| allowed.min(host)))
}

fn memory_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The directories of the memory control groups that hold this process, from the innermost outwards;
/// `text` is that of /proc/self/cgroup, in which version 2 is the line `0::/path` and version 1 names its controllers.
fn group_directories(text: &str) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            names if names.split(',').any(|name| name == "memory") => Path::new("/sys/fs/cgroup/memory"),
            _ => continue,
        };
        let below = Path::new(path.trim_start_matches('/'));
        directories.extend(below.ancestors().map(|part| root.join(part)));
    }
    directories
}

/// The memory that one group still allows: its limit less its use. File caches that can be dropped are no use.
fn room_in_group(directory: &Path) -> Option<u64> {
    let number =
        |name: &str| -> Option<u64> { fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok() };
    // The text "max" means no limit. It does not parse as a number, so the result is `None`.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
    let droppable = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok());
    Some(limit.saturating_sub(used.saturating_sub(droppable.unwrap_or(0))))
}

/// Raises the number of files that this process may have open as far as it is allowed to itself, and answers with it.
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // `None` from the kernel means no limit.
    let (current, maximum) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if raised.is_ok() { maximum } else { current }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn buffers_are_reserved_or_the_room_is_told() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("buffers");
        assert_eq!(try_reserve_buffers(&dir, 1 << 20).unwrap(), BufferRoom::Reserved);
        assert_eq!(fs::metadata(dir.join("buffers")).unwrap().len(), 1 << 20);
        let BufferRoom::TooSmall { available } = try_reserve_buffers(&dir, 1 << 60).unwrap() else {
            panic!()
        };
        assert!(available >= 1 << 20);
        assert!(available < 1 << 60);
        assert_eq!(fs::metadata(dir.join("buffers")).unwrap().len(), 1 << 20);
    }

    #[test]
    fn the_host_has_some_memory() {
        assert!(memory_available().unwrap() > 1 << 20);
        assert!(raise_file_limit() >= 64);
    }

    #[test]
    fn meminfo_is_understood() {
        assert_eq!(
            memory_of_meminfo("MemTotal: 9 kB\nMemAvailable:   24412240 kB\n"),
            Some(24_412_240 * 1024)
        );
        assert_eq!(memory_of_meminfo("MemTotal: 9 kB\n"), None);
        assert_eq!(memory_of_meminfo("MemAvailable: lots kB\n"), None);
    }

    #[test]
    fn groups_are_looked_at_from_the_innermost_outwards() {
        let of = |text: &str| -> Vec<String> {
            group_directories(text).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(of("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
        assert_eq!(of("4:cpu:/x\n3:memory,x:/y\nodd"), ["/sys/fs/cgroup/memory/y", "/sys/fs/cgroup/memory/"]);
    }

    #[test]
    fn the_room_in_a_group_counts_droppable_caches() {
        let scratch = Scratch::new();
        let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
        assert_eq!(room_in_group(scratch.path()), None);
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        assert_eq!(room_in_group(scratch.path()), Some(300));
        write("memory.stat", "anon 1\ninactive_file 200\n");
        assert_eq!(room_in_group(scratch.path()), Some(500));
        write("memory.max", "max\n");
        assert_eq!(room_in_group(scratch.path()), None);
    }
}
