//! The directory in memory where acknowledged writes wait to be flushed.
//!
//! A backup knows that the machine has not lost its power from the survival of its buffer file, so the file
//! must lie in tmpfs. The default is a directory of this user below /dev/shm, from which nobody else can take
//! anything.

use crate::failure::Failure;
use crate::memory::MemoryPlan;
use crate::size::bytes_text;
use ramhold_backup::Buffers;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_runtime::{BufferRoom, StartError, try_reserve_buffers};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const SHARED_MEMORY: &str = "/dev/shm";
/// Abandoned directories beyond this number are only counted.
const ABANDONED_NAMED: usize = 4;
/// The file in a default directory that names the data directory it belongs to.
const OWNER: &str = "owner";
/// File systems that are gone with the power, by the magic numbers of statfs(2).
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

pub struct BufferPlace {
    path: PathBuf,
    /// The data directory, without links.
    dir: PathBuf,
    /// Chosen by this program, so that it may also be removed by it.
    is_default: bool,
}

impl BufferPlace {
    /// `dir` is the data directory without links; its default buffers have a name made from it.
    pub fn new(named: Option<&Path>, dir: &Path) -> Result<BufferPlace, Failure> {
        let (path, is_default) = match named {
            Some(path) => (path.to_owned(), false),
            None => {
                let name = PlacementHasher::new(PlacementSeed(0)).hash(dir.as_os_str().as_bytes()).0;
                (own_directory()?.join(format!("{name:016x}")), true)
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::local(&path, &error).about("--buffer-dir"))?;
        if is_default {
            // The file names the owner for a later finder. Without it, the directory must be identified by
            // hand.
            let _ = fs::write(path.join(OWNER), dir.as_os_str().as_bytes());
        }
        let kind = rustix::fs::statfs(&path)
            .map_err(|error| Failure::local(&path, &error.into()).about("--buffer-dir"))?
            .f_type;
        let kind = u64::try_from(kind).expect("magic numbers are positive");
        if kind != TMPFS && kind != RAMFS {
            return Err(Failure::usage(format!(
                "--buffer-dir {} is not in memory (tmpfs), so a server could not tell after a power cut that its buffers \
                 are lost; use a directory below {SHARED_MEMORY}",
                path.display()
            )));
        }
        Ok(BufferPlace { path, dir: dir.to_owned(), is_default })
    }

    /// Why this process does not start. Its data directory is named: its user may never have heard of that of the buffers.
    pub fn start_failed(&self, error: &StartError) -> Failure {
        match error {
            StartError::InUse { path } if self.is_default && *path != self.dir => {
                let error = StartError::InUse { path: self.dir.clone() };
                Failure::usage(format!("{error} (its buffers are in {})", path.display()))
            }
            error => Failure::usage(error.to_string()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Memory that the buffer file of an earlier life holds already.
    pub fn held_bytes(&self) -> u64 {
        // Blocks of stat(2) have 512 bytes, whatever block size the file system uses.
        fs::metadata(self.path.join("buffers")).map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Takes the space now, so that no write can fail for the lack of it; or says that there is none to take.
    pub fn reserve(&self, memory: &MemoryPlan) -> Result<Buffers, Failure> {
        if memory.buffer_count == 0 {
            return Ok(Buffers::InFrames);
        }
        match try_reserve_buffers(&self.path, memory.buffer_bytes) {
            Ok(BufferRoom::Reserved) => Ok(Buffers::Reserved { count: memory.buffer_count }),
            Ok(BufferRoom::TooSmall { available }) => {
                crate::output::tell(&format!(
                    "ramhold: {} has room for {}, but the buffers need {}; \
                     acknowledged writes wait in the page cache of the frames instead",
                    self.path.display(),
                    bytes_text(available),
                    bytes_text(memory.buffer_bytes)
                ));
                Ok(Buffers::InFrames)
            }
            Err(error) => Err(self.start_failed(&error)),
        }
    }

    /// After a clean stop everything is on the device and the memory can go back. A directory that was named stays.
    pub fn give_back(&self) {
        // A server that starts on this directory meanwhile holds the lock file. Its buffers must stay.
        let is_free = fs::File::open(self.path.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok());
        if !is_free {
            return;
        }
        // Files that cannot be removed are used again at the next start.
        let _ = fs::remove_file(self.path.join("buffers"));
        if self.is_default {
            let _ = fs::remove_file(self.path.join("lock"));
            let _ = fs::remove_file(self.path.join(OWNER));
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Memory held by buffers of servers that were killed and whose data directories are gone since: nobody will come to
/// give it back. They are told of and not removed, since a data directory may only not be mounted yet.
pub fn tell_abandoned() {
    if let Some(told) = own_directory().ok().and_then(|directory| abandoned_in(&directory)) {
        crate::output::tell(&format!("ramhold: {told}"));
    }
}

fn abandoned_in(directory: &Path) -> Option<String> {
    let mut held_bytes = 0;
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let path = entry.path();
        let Ok(owner) = fs::read(path.join(OWNER)) else { continue };
        // The lock is tried only if the data directory is gone, so no server can be about to start with it.
        let is_gone = !Path::new(OsStr::from_bytes(&owner)).exists();
        if is_gone && fs::File::open(path.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok()) {
            held_bytes += fs::metadata(path.join("buffers")).map_or(0, |metadata| metadata.blocks() * 512);
            paths.push(path.display().to_string());
        }
    }
    if held_bytes == 0 {
        return None;
    }
    paths.sort();
    let others = paths.len().saturating_sub(ABANDONED_NAMED);
    paths.truncate(ABANDONED_NAMED);
    let more = if others > 0 { format!("\n         and {others} more like it") } else { String::new() };
    Some(format!(
        "{} of memory are held by buffers of servers whose data directories do not exist any more; \
         if these directories will not come back, free the memory with: rm -r {}{more}",
        bytes_text(held_bytes),
        paths.join(" ")
    ))
}

/// The directory of this user in /dev/shm. That is open to all users, so what stands there is looked at first.
fn own_directory() -> Result<PathBuf, Failure> {
    let user = rustix::process::getuid().as_raw();
    let path = Path::new(SHARED_MEMORY).join(format!("ramhold-{user}"));
    let failed = |error: &io::Error| {
        Failure::local(&path, error)
            .about("no place for buffers; name a directory in memory (tmpfs) with --buffer-dir")
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(&error)),
    }
    let found = fs::symlink_metadata(&path).map_err(|error| failed(&error))?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(Failure::usage(format!(
            "{} is not a directory that belongs to this user alone; remove it, or name another with --buffer-dir",
            path.display()
        )));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Roles;

    #[test]
    fn the_default_place_is_in_memory_and_depends_on_the_data_directory() {
        let dir = std::env::temp_dir().join(format!("ramhold-place-{}", std::process::id()));
        let place = BufferPlace::new(None, &dir).unwrap();
        assert!(place.path().starts_with(SHARED_MEMORY));
        assert_eq!(BufferPlace::new(None, &dir).unwrap().path(), place.path());
        let other = BufferPlace::new(None, &dir.join("x")).unwrap();
        assert_ne!(other.path(), place.path());
        let memory = MemoryPlan::new(512 << 20, Roles { master: true, backup: true }, None).unwrap();
        assert_eq!(place.held_bytes(), 0);
        assert_eq!(place.reserve(&memory).unwrap(), Buffers::Reserved { count: memory.buffer_count });
        assert!(place.held_bytes() >= memory.buffer_bytes);
        place.give_back();
        assert!(!place.path().exists());
        fs::remove_dir_all(other.path()).unwrap();
    }

    #[test]
    fn buffers_whose_data_directory_is_gone_are_told_of_and_stay() {
        let directory = Path::new(SHARED_MEMORY).join(format!("ramhold-abandoned-{}", std::process::id()));
        let data = directory.join("data");
        for name in ["here", "gone", "used"] {
            let path = directory.join(name);
            fs::create_dir_all(&path).unwrap();
            let owner = if name == "here" { data.clone() } else { directory.join("nowhere") };
            fs::write(path.join(OWNER), owner.as_os_str().as_bytes()).unwrap();
            fs::write(path.join("lock"), "").unwrap();
            fs::write(path.join("buffers"), vec![1; 1 << 20]).unwrap();
        }
        fs::create_dir_all(&data).unwrap();
        let lock = fs::File::open(directory.join("used/lock")).unwrap();
        lock.try_lock().unwrap();
        let told = abandoned_in(&directory).unwrap();
        let gone = directory.join("gone");
        assert!(
            told.starts_with("1.0 MiB of memory") && told.ends_with(&format!("rm -r {}", gone.display())),
            "{told}"
        );
        fs::remove_dir_all(&gone).unwrap();
        assert_eq!(abandoned_in(&directory), None);
        drop(lock);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_place_on_a_device_is_refused() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/place-on-device");
        let Err(refused) = BufferPlace::new(Some(&dir), &dir) else {
            // If the build directory is in memory, this test proves nothing about devices.
            return;
        };
        assert!(refused.text().contains("is not in memory"), "{}", refused.text());
        fs::remove_dir(dir).unwrap();
    }
}
