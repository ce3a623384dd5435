//! A small file system of its own, to be filled and emptied while servers run on it.
//!
//! The file system is a tmpfs. It refuses a reservation that does not fit, like any other file system, and
//! mounting it needs no device. Only root may mount. The test changes the size while the file system is
//! mounted, because a file that takes the room would take memory too.

use crate::waiting::Failure;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The limit of attempts at a size, since a server's own growth may overtake it.
const TRIES: u32 = 20;

/// Mounted until it is dropped. Declare it before the cluster that runs on it.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    pub fn mount(bytes: u64) -> Result<SmallDisk, Failure> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ramhold-small-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|error| failure("make", &path, &error))?;
        let size = format!("size={bytes}");
        if let Err(failure) = run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"], &path) {
            let _ = fs::remove_dir(&path);
            return Err(failure);
        }
        Ok(SmallDisk { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Resizes the file system so that about this many bytes are free, whatever its size was before.
    pub fn leave_free(&self, bytes: u64) -> Result<(), Failure> {
        let mut last = None;
        for _ in 0..TRIES {
            let space = rustix::fs::statvfs(&self.path)
                .map_err(|error| failure("look at", &self.path, &error.into()))?;
            let used = (space.f_blocks - space.f_bfree) * space.f_frsize;
            match run("mount", &["-o", &format!("remount,size={}", used + bytes)], &self.path) {
                Ok(()) => return Ok(()),
                Err(failure) => last = Some(failure),
            }
        }
        Err(last.expect("it was tried"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        match run("umount", &["--lazy"], &self.path) {
            Ok(()) => drop(fs::remove_dir(&self.path)),
            Err(failure) => eprintln!("{failure}"),
        }
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> Result<(), Failure> {
    let output = Command::new(program)
        .args(arguments)
        .arg(path)
        .output()
        .map_err(|error| failure(program, path, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure(format!("{program} {}: {text}", path.display())))
}

fn failure(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure(format!("cannot {what} {}: {error}", path.display()))
}
