//! A file system of its own on a loop device, which can be held up: while it is frozen, every write and every sync on it
//! waits, and reads go on.
//!
//! Making one needs root, `mkfs.ext4`, `mount` and `fsfreeze`. If one of them is missing, the error says which.

use crate::namespace::output;
use crate::waiting::Failure;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Inode tables are made at once, so that the kernel writes nothing by itself later.
const MAKE: &[&str] = &["-q", "-F", "-N", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];

/// Mounted until it is dropped. Declare it before the cluster that runs on it.
pub struct LoopDisk {
    path: PathBuf,
    image: PathBuf,
}

impl LoopDisk {
    pub fn mount(bytes: u64) -> Result<LoopDisk, Failure> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ramhold-loop-{}-{number}", std::process::id()));
        let disk = LoopDisk { image: path.with_extension("image"), path };
        fs::create_dir_all(&disk.path).map_err(|error| failure("make", &disk.path, &error))?;
        let sized = fs::File::create(&disk.image).and_then(|file| file.set_len(bytes));
        sized.map_err(|error| failure("make", &disk.image, &error))?;
        let image = disk.image.to_string_lossy();
        let made = output("mkfs.ext4", &[MAKE, &[&*image]].concat(), None);
        let mounted = made.and_then(|_| output("mount", &["-o", "loop", &image, &disk.text()], None));
        match mounted {
            Ok(_) => Ok(disk),
            Err(failure) => {
                disk.remove();
                // It is not mounted.
                std::mem::forget(disk);
                Err(failure)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Holds up all writes and syncs until the result is dropped, or this process is gone.
    pub fn freeze(&self) -> Result<Frozen, Failure> {
        // The shell thaws it when its input ends, so also when this process was killed.
        let script = "fsfreeze --freeze \"$1\" && echo frozen && read end; fsfreeze --unfreeze \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&self.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut frozen =
            Frozen { shell: command.spawn().map_err(|error| failure("freeze", &self.path, &error))? };
        let mut told = String::new();
        let stdout = frozen.shell.stdout.take().expect("it was asked for");
        let read = BufReader::new(stdout).read_line(&mut told);
        read.map_err(|error| failure("freeze", &self.path, &error))?;
        if told.is_empty() {
            return Err(Failure(format!("fsfreeze: {} cannot be frozen", self.path.display())));
        }
        Ok(frozen)
    }

    /// Sectors of 512 bytes that the device has written since it was made.
    pub fn sectors_written(&self) -> Result<u64, Failure> {
        let device = fs::metadata(&self.path).map_err(|error| failure("look at", &self.path, &error))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let path = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        let told = fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))?;
        let sectors = told.split_whitespace().nth(6).and_then(|field| field.parse().ok());
        sectors.ok_or_else(|| Failure(format!("{} tells no sectors", path.display())))
    }

    fn text(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    fn remove(&self) {
        let _ = fs::remove_dir(&self.path);
        let _ = fs::remove_file(&self.image);
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        match output("umount", &["--lazy", &self.text()], None) {
            Ok(_) => self.remove(),
            Err(failure) => eprintln!("{failure}"),
        }
    }
}

/// A file system that is held up. Declare it after the cluster that runs on it: no process that waits for it can end.
pub struct Frozen {
    shell: Child,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

fn failure(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("cannot {what} {}: {error}", path.display()))
}
