//! A write that is on the device when the call returns.
//!
//! It goes over bytes that are there already, so that neither the length of the file nor its extents change:
//! the least that a durable write can take, and what a backup does in its frames.

use super::echo::Trip;
use hdrhistogram::Histogram;
use rustix::fs::fdatasync;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FILE_BYTES: usize = 64 << 20;
const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 8 << 20;

pub struct Written {
    pub small: Trip,
    pub large: Trip,
}

pub fn measure(dir: &Path, time: Duration) -> Result<Written, String> {
    let path = dir.join(format!("ramhold-limits-{}", std::process::id()));
    let text = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::create_new(&path).map_err(text)?;
    let _removed = Removed(path.clone());
    file.write_all_at(&vec![1; FILE_BYTES], 0).map_err(text)?;
    file.sync_all().map_err(text)?;
    let small = writes(&file, SMALL_BYTES, time).map_err(text)?;
    let large = writes(&file, LARGE_BYTES, time).map_err(text)?;
    Ok(Written { small, large })
}

/// Writes one after the other, through the file again and again.
fn writes(file: &File, bytes: usize, time: Duration) -> std::io::Result<Trip> {
    let mut times = Histogram::<u64>::new(3).map_err(std::io::Error::other)?;
    let content = vec![2; bytes];
    let began = Instant::now();
    for at in (0..FILE_BYTES).step_by(bytes).cycle() {
        if began.elapsed() >= time && !times.is_empty() {
            break;
        }
        let start = Instant::now();
        file.write_all_at(&content, at as u64)?;
        fdatasync(file)?;
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        times.record(nanos.max(1)).map_err(std::io::Error::other)?;
    }
    Ok(Trip::of(&times))
}

/// Removes the file at the end.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
