//! The processor time and the memory that this process uses, and the time for which it waits for a processor.
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
        let memory = fs::read_to_string("/proc/self/status").ok().and_then(|text| resident(&text));
        Usage { processor: processor_time(), memory_bytes: memory.unwrap_or_default() }
    }
}

/// Processor time of all threads since the start of the process.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// For how long the calling thread was ready to run while others had the processors, since its start. `None`: the
/// system does not tell. Three system calls, and some microseconds.
pub(crate) fn waited() -> Option<Duration> {
    waited_of(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The nanoseconds on a processor, those of waiting for one, and the number of turns on it.
fn waited_of(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().nth(1)?.parse().ok()?))
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
    fn the_time_of_waiting_is_the_second_number() {
        assert_eq!(waited_of("510237 1297324 2\n"), Some(Duration::from_nanos(1_297_324)));
        assert_eq!((waited_of(""), waited_of("1 x 2")), (None, None));
    }

    #[test]
    fn work_takes_processor_time_and_memory() {
        let before = Usage::now();
        assert!(before.memory_bytes > 100_000, "{before:?}");
        let filled: Vec<u8> = (0..256 << 20).map(|at: u32| at as u8 | 1).collect();
        let after = Usage::now();
        assert!(filled.iter().all(|byte| *byte > 0) && after.processor > before.processor);
        assert!(after.memory_bytes > before.memory_bytes + (128 << 20), "{before:?} {after:?}");
        assert_eq!(resident("VmPeak:  9 kB\nVmRSS:\t  12 kB\nThreads: 1\n"), Some(12 * 1024));
        assert_eq!(resident("VmPeak:  9 kB\n"), None);
    }
}
