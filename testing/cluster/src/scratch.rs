//! Directories of one test, on the device and in memory. They are removed when the test is over.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

pub struct Scratch {
    dir: PathBuf,
    buffer_dir: PathBuf,
    is_kept: bool,
}

impl Scratch {
    pub fn new() -> Scratch {
        let name = format!("ramhold-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(&name);
        let scratch = Scratch { dir, buffer_dir: Path::new("/dev/shm").join(name), is_kept: false };
        fs::create_dir_all(&scratch.dir).expect("a temporary directory can be made");
        scratch
    }

    /// Leaves everything behind.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn buffer_dir(&self) -> &Path {
        &self.buffer_dir
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_kept {
            eprintln!("kept: {} and {}", self.dir.display(), self.buffer_dir.display());
            return;
        }
        let _ = fs::remove_dir_all(&self.buffer_dir);
        remove_default_buffers(&self.dir);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes the default buffer files, in memory, that killed servers below this directory have left.
fn remove_default_buffers(dir: &Path) {
    let of_users = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let of_users = of_users.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"ramhold-"));
    for buffers in of_users.flat_map(|user| fs::read_dir(user.path()).into_iter().flatten().flatten()) {
        let owner = fs::read(buffers.path().join("owner")).unwrap_or_default();
        if Path::new(OsStr::from_bytes(&owner)).starts_with(dir) {
            let _ = fs::remove_dir_all(buffers.path());
        }
    }
}
