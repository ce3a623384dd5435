//! Directories of one test: on the device and in memory, removed when the test is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

pub struct Scratch {
    dir: PathBuf,
    buffer_dir: PathBuf,
}

impl Scratch {
    pub fn new() -> Scratch {
        let name = format!("ramhold-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let scratch = Scratch { dir: std::env::temp_dir().join(&name), buffer_dir: Path::new("/dev/shm").join(name) };
        fs::create_dir_all(&scratch.dir).expect("a temporary directory can be made");
        scratch
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
    /// After a failure the logs stay for whoever looks into it.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.buffer_dir);
        if std::thread::panicking() {
            eprintln!("kept for a look: {}", self.dir.display());
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
