//! The capacity and the read speed of the device below the data directory.

use crate::failure::Failure;
use crate::memory::PLACE_BYTES;
use crate::size::bytes_text;
use ramhold_base::limits::REPLICA_COUNT_DEFAULT;
use rustix::fs::Advice;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The read speed that is assumed when measuring failed: a disk of the paper's time, MB/s.
const READ_SPEED_DEFAULT: u32 = 200;
/// Long enough that the device's own latency hardly counts, short enough not to delay a start: 0.1 s at 160 MB/s.
const PROBE_BYTES: usize = 16 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// Makes the data directory for this user alone; gives its path without links.
pub fn make_dir(dir: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| Failure::local(dir, &error).about("--dir");
    if !dir.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    dir.canonicalize().map_err(failed)
}

/// The kinds of data directories. A directory is of one kind for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Server,
    Brick,
    Coordinator,
}

/// Refuses a directory of a brick for a server, one of a coordinator for both, and theirs for a coordinator. A brick finds a
/// directory of a server by itself. A directory that has been both goes on as what it was.
pub fn check_kind(dir: &Path, wanted: Kind) -> Result<(), Failure> {
    let has_store = dir.join("store").exists();
    if wanted == Kind::Coordinator {
        return match dir.join("superblock").exists() && !has_store {
            true => Err(Failure::usage(format!(
                "{} is the data directory of a server or a brick; a coordinator needs one of its own: give another --dir",
                dir.display()
            ))),
            false => Ok(()),
        };
    }
    let bytes = match File::open(dir.join("superblock")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_store => {
            return Err(Failure::usage(format!(
                "{} is the directory of a coordinator's state; give another --dir",
                dir.display()
            )));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::local(dir, &error).about("--dir")),
        Ok(file) => {
            let mut bytes = Vec::new();
            let read = file.take(BRICK_STATE_END).read_to_end(&mut bytes);
            read.map_err(|error| Failure::local(dir, &error).about("--dir"))?;
            bytes
        }
    };
    let is_brick = ramhold_node::is_brick_directory(&bytes);
    if wanted == Kind::Server && is_brick {
        return Err(Failure::usage(format!(
            "{} is the directory of a brick; start it with --brick, or give another --dir",
            dir.display()
        )));
    }
    Ok(())
}

/// The end of a brick's state in the file `superblock`.
const BRICK_STATE_END: u64 = 2 << 20;

/// Frames without which a backup is of little use. When every server is a master, each backup holds, on average, R replicas
/// of open heads and R of the heads that follow them.
pub const FRAMES_MIN: u32 = 2 * REPLICA_COUNT_DEFAULT as u32;
pub const FRAMES_MIN_BYTES: u64 = FRAMES_MIN as u64 * PLACE_BYTES;

/// Bytes that the frames in a data directory take already.
pub fn held_bytes(dir: &Path) -> u64 {
    // Blocks of stat(2) have 512 bytes, whatever block size the file system uses.
    fs::metadata(dir.join("frames")).map_or(0, |metadata| metadata.blocks() * 512)
}

/// How many frames `disk_bytes` are, when the file system has that much room. A directory with frames is needed for what
/// they hold: its server starts however full the file system is, and takes more frames when there is room.
pub fn frames_max(dir: &Path, disk_bytes: u64) -> Result<u32, Failure> {
    let free =
        ramhold_runtime::free_space(dir).map_err(|error| Failure::local(dir, &error).about("--dir"))?;
    // The space that the frames already hold counts as room.
    let held = held_bytes(dir);
    let room = free.saturating_add(held);
    if held >= PLACE_BYTES && disk_bytes > room {
        let _ = writeln!(
            io::stderr(),
            "ramhold: --disk {} is more than the file system of {} has room for now ({}); free space there, or give less \
             --disk; until then the server takes no more replicas than fit",
            bytes_text(disk_bytes),
            dir.display(),
            bytes_text(room)
        );
    } else if room < FRAMES_MIN_BYTES {
        return Err(Failure::usage(format!(
            "the file system of {} has {} free, but a server needs {} for its first {FRAMES_MIN} frames; free space there, \
             or give another --dir or --no-backup",
            dir.display(),
            bytes_text(room),
            bytes_text(FRAMES_MIN_BYTES)
        )));
    } else if disk_bytes > room {
        return Err(Failure::usage(format!(
            "--disk {} is more than the file system of {} has room for ({}); give less --disk, or another --dir",
            bytes_text(disk_bytes),
            dir.display(),
            bytes_text(room)
        )));
    }
    match u32::try_from(disk_bytes / PLACE_BYTES) {
        Ok(count) if count < FRAMES_MIN => Err(Failure::usage(format!(
            "--disk {} is too little: a server needs {FRAMES_MIN} frames; give at least {}, or --no-backup",
            bytes_text(disk_bytes),
            bytes_text(FRAMES_MIN_BYTES)
        ))),
        Ok(count) => Ok(count),
        Err(_) => {
            Err(Failure::usage(format!("--disk {} is more than a server can use", bytes_text(disk_bytes))))
        }
    }
}

/// How fast the device reads; decides which backup is asked first for a segment.
pub struct ReadSpeed {
    pub megabytes_per_second: u32,
    is_measured: bool,
}

impl ReadSpeed {
    /// Measured once per directory: written, dropped from the page cache, read back. Kept in a file, because a later
    /// start may share the device with recoveries. In a virtual machine the host's cache may answer, and servers that
    /// start together on one device measure what is left of it: it is a rough figure, and only compared to others'.
    pub fn of(dir: &Path) -> ReadSpeed {
        let kept = dir.join("read_speed");
        let known = fs::read_to_string(&kept)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|speed| *speed > 0);
        if let Some(megabytes_per_second) = known {
            return ReadSpeed { megabytes_per_second, is_measured: true };
        }
        match measure(&dir.join("read_speed.probe")) {
            Ok(megabytes_per_second) => {
                // Without the file, the speed is measured again at the next start.
                let _ = fs::write(&kept, format!("{megabytes_per_second}\n"));
                ReadSpeed { megabytes_per_second, is_measured: true }
            }
            Err(_) => ReadSpeed { megabytes_per_second: READ_SPEED_DEFAULT, is_measured: false },
        }
    }

    pub fn text(&self) -> String {
        let how = if self.is_measured { "measured" } else { "assumed" };
        format!("{} MB/s ({how})", self.megabytes_per_second)
    }
}

fn measure(probe: &Path) -> io::Result<u32> {
    let speed = write_and_read(probe);
    fs::remove_file(probe)?;
    speed
}

fn write_and_read(probe: &Path) -> io::Result<u32> {
    let mut piece = vec![0; PIECE_BYTES];
    // The bytes are not all zero: a device may answer a read of zeroes without reading.
    for (index, byte) in piece.iter_mut().enumerate() {
        *byte = (index.wrapping_mul(0x9E37_79B1) >> 13) as u8;
    }
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(probe)?;
    for _ in 0..PROBE_BYTES / PIECE_BYTES {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut file = File::open(probe)?;
    let start = Instant::now();
    while file.read(&mut piece)? > 0 {}
    let seconds = start.elapsed().as_secs_f64().max(1e-6);
    let megabytes = PROBE_BYTES as f64 / 1e6 / seconds;
    Ok((megabytes as u32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6
    #[test]
    fn a_directory_is_of_one_kind() {
        let dir = std::env::temp_dir().join(format!("ramhold-kinds-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let refused = |kind| check_kind(&dir, kind).err().map(|failure| failure.text().to_owned());
        let all = [Kind::Server, Kind::Brick, Kind::Coordinator];
        assert!(all.into_iter().all(|kind| refused(kind).is_none()), "an empty one may become anything");
        fs::create_dir(dir.join("store")).unwrap();
        for kind in [Kind::Server, Kind::Brick] {
            let text = refused(kind).unwrap();
            assert!(
                text.ends_with("is the directory of a coordinator's state; give another --dir"),
                "{text}"
            );
        }
        assert_eq!(refused(Kind::Coordinator), None);
        // A directory that has been both since before goes on.
        fs::write(dir.join("superblock"), b"").unwrap();
        assert!(all.into_iter().all(|kind| refused(kind).is_none()));
        fs::remove_dir(dir.join("store")).unwrap();
        let text = refused(Kind::Coordinator).unwrap();
        assert!(text.contains("is the data directory of a server or a brick"), "{text}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_device_is_measured_once() {
        let dir =
            make_dir(&std::env::temp_dir().join(format!("ramhold-device-{}", std::process::id()))).unwrap();
        let first = ReadSpeed::of(&dir);
        assert!(first.is_measured);
        fs::write(dir.join("read_speed"), "77\n").unwrap();
        assert_eq!(ReadSpeed::of(&dir).text(), "77 MB/s (measured)");
        assert!(!dir.join("read_speed.probe").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_disk_that_is_not_there_is_refused_with_the_figure() {
        let dir = std::env::temp_dir();
        let refused = frames_max(&dir, 1 << 60).unwrap_err();
        assert!(refused.text().contains("has room for"), "{}", refused.text());
        let refused = frames_max(&dir, FRAMES_MIN_BYTES - 1).unwrap_err();
        assert!(refused.text().contains("give at least 48.0 MiB"), "{}", refused.text());
        assert_eq!(frames_max(&dir, FRAMES_MIN_BYTES + 5).unwrap(), FRAMES_MIN);
    }
}
