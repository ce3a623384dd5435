//! The minimum time that this machine needs for the bytes of a recovery.

use crate::failure::Failure;
use crate::size::bytes_text;
use ramhold_base::checksum::crc;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// As large as what a backup answers, far larger than the processor's caches in all.
const CHUNK_BYTES: usize = 1 << 20;
const MEMORY_BYTES: usize = 256 << 20;
const LOOPBACK_BYTES: usize = 512 << 20;
const DEVICE_BYTES: usize = 256 << 20;
const DEVICE_WRITE_BYTES: usize = 8 << 20;

/// The terms, as measured, and what was weighed with them.
pub struct Floor {
    loopback_nanos: f64,
    checksum_nanos: f64,
    copy_nanos: f64,
    device_bytes_per_second: f64,
    processors: usize,
    fetched: u64,
    replicated: u64,
    /// Bytes that have to leave the buffers.
    flushed: u64,
}

impl Floor {
    pub fn measure(dir: &Path) -> Result<Floor, Failure> {
        let from = vec![1; MEMORY_BYTES];
        let mut to = vec![2; MEMORY_BYTES];
        let checksum_nanos = nanos_per_byte(MEMORY_BYTES, || {
            black_box(from.chunks(CHUNK_BYTES).fold(0, |sum, chunk| sum ^ crc(chunk)));
        });
        let copy_nanos = nanos_per_byte(MEMORY_BYTES, || {
            for (to, from) in to.chunks_mut(CHUNK_BYTES).zip(from.chunks(CHUNK_BYTES)) {
                to.copy_from_slice(from);
            }
            black_box(&to);
        });
        Ok(Floor {
            loopback_nanos: loopback()?,
            checksum_nanos,
            copy_nanos,
            device_bytes_per_second: device(dir)?,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            fetched: 0,
            replicated: 0,
            flushed: 0,
        })
    }

    pub fn weigh(&mut self, fetched: u64, replicas: u64, buffer_bytes: u64) {
        self.fetched = fetched;
        self.replicated = fetched * replicas;
        self.flushed = self.replicated.saturating_sub(buffer_bytes);
    }

    fn cpu_seconds(&self) -> f64 {
        let sent = (self.fetched + self.replicated) as f64 * self.loopback_nanos;
        let worked = self.fetched as f64 * (self.checksum_nanos + self.copy_nanos);
        (sent + worked) / 1e9 / self.processors as f64
    }

    /// Seconds to fetch and take in alone.
    pub fn fetching_seconds(&self) -> f64 {
        let each = self.loopback_nanos + self.checksum_nanos + self.copy_nanos;
        self.fetched as f64 * each / 1e9 / self.processors as f64
    }

    fn device_seconds(&self) -> f64 {
        self.flushed as f64 / self.device_bytes_per_second
    }

    pub fn seconds(&self) -> f64 {
        self.cpu_seconds().max(self.device_seconds())
    }

    pub fn lines(&self) -> Vec<String> {
        vec![
            format!(
                "floor, CPU   {:.3} s: ({} fetched + {} replicated) x {:.3} ns/B loopback + fetched x ({:.3} checksum + \
                 {:.3} copy) ns/B, over {} processors",
                self.cpu_seconds(),
                bytes_text(self.fetched),
                bytes_text(self.replicated),
                self.loopback_nanos,
                self.checksum_nanos,
                self.copy_nanos,
                self.processors
            ),
            format!(
                "floor, disk  {:.3} s: {} that the buffers do not hold, at {}/s with fdatasync",
                self.device_seconds(),
                bytes_text(self.flushed),
                bytes_text(self.device_bytes_per_second as u64)
            ),
        ]
    }

    pub fn json(&self) -> serde_json::Value {
        json!({
            "cpu_seconds": self.cpu_seconds(),
            "device_seconds": self.device_seconds(),
            "fetched_bytes": self.fetched,
            "replicated_bytes": self.replicated,
            "flushed_bytes": self.flushed,
            "loopback_nanos_per_byte": self.loopback_nanos,
            "checksum_nanos_per_byte": self.checksum_nanos,
            "copy_nanos_per_byte": self.copy_nanos,
            "device_bytes_per_second": self.device_bytes_per_second,
            "processors": self.processors,
        })
    }
}

/// CPU time of the whole process, in nanoseconds.
fn process_cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn nanos_per_byte(bytes: usize, work: impl FnOnce()) -> f64 {
    let before = process_cpu_nanos();
    work();
    (process_cpu_nanos() - before) / bytes as f64
}

/// Time of sender and receiver together.
fn loopback() -> Result<f64, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("measuring the loopback: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let mut near = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let (mut far, _) = listener.accept().map_err(failed)?;
    ramhold_runtime::do_not_pace(&near);
    let chunk = vec![3; CHUNK_BYTES];
    let mut into = vec![0; CHUNK_BYTES];
    let before = process_cpu_nanos();
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(move || -> std::io::Result<()> {
            for _ in 0..LOOPBACK_BYTES / CHUNK_BYTES {
                near.write_all(&chunk)?;
            }
            Ok(())
        });
        let mut left = LOOPBACK_BYTES;
        while left > 0 {
            match far.read(&mut into)? {
                0 => break,
                count => left -= count,
            }
        }
        sender.join().expect("the sender does not panic")
    });
    sent.map_err(failed)?;
    Ok((process_cpu_nanos() - before) / LOOPBACK_BYTES as f64)
}

/// Bytes per second that are on the device for certain.
fn device(dir: &Path) -> Result<f64, Failure> {
    let path = dir.join("floor");
    let failed = |error: std::io::Error| Failure::local(&path, &error);
    let file = File::create(&path).map_err(failed)?;
    let chunk = vec![4; DEVICE_WRITE_BYTES];
    let began = Instant::now();
    for offset in (0..DEVICE_BYTES).step_by(DEVICE_WRITE_BYTES) {
        file.write_all_at(&chunk, offset as u64).map_err(failed)?;
        file.sync_data().map_err(failed)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(DEVICE_BYTES as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    // F11
    #[test]
    fn the_longer_of_both_floors_counts() {
        let mut floor = Floor {
            loopback_nanos: 0.5,
            checksum_nanos: 0.1,
            copy_nanos: 0.1,
            device_bytes_per_second: 1e9,
            processors: 2,
            fetched: 0,
            replicated: 0,
            flushed: 0,
        };
        floor.weigh(1_000_000_000, 3, 4_000_000_000);
        assert!((floor.seconds() - 1.1).abs() < 1e-9, "{}", floor.seconds());
        floor.weigh(1_000_000_000, 3, 500_000_000);
        assert!((floor.seconds() - 2.5).abs() < 1e-9, "{}", floor.seconds());
    }
}
