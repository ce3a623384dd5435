//! The processor time and the memory that this process uses.
//!
//! Not here: what is made of it (core/brick compares bricks by it). Catalogue: I6.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Processor time of all threads since the start of the process.
    pub processor: Duration,
    /// Memory that the process holds now. 0: the system does not tell.
    pub memory_bytes: u64,
}

impl Usage {
    /// Two system calls, and some tens of microseconds.
    pub fn now() -> Usage {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        let memory = fs::read_to_string("/proc/self/status").ok().and_then(|text| resident(&text));
        Usage { processor: Duration::new(seconds, nanos), memory_bytes: memory.unwrap_or_default() }
    }
}

/// A line of `/proc/self/status`: `VmRSS:     1234 kB`.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6
    #[test]
    fn work_takes_processor_time_and_memory() {
        let before = Usage::now();
        assert!(before.memory_bytes > 100_000, "{before:?}");
        let filled: Vec<u8> = (0..32 << 20).map(|at: u32| at as u8 | 1).collect();
        let after = Usage::now();
        assert!(filled.iter().all(|byte| *byte > 0) && after.processor > before.processor);
        assert!(after.memory_bytes > before.memory_bytes + (20 << 20), "{before:?} {after:?}");
        assert_eq!(resident("VmPeak:  9 kB\nVmRSS:\t  12 kB\nThreads: 1\n"), Some(12 * 1024));
        assert_eq!(resident("VmPeak:  9 kB\n"), None);
    }
}
