//! CPU times and memory of this process, from the kernel's accounting.

use ramhold_base::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// CPU time of this thread, in nanoseconds.
pub fn cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).expect("CPU time is not negative");
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).expect("nanoseconds of a second are not negative")
}

/// The shard's clock: it stands still while the machines around the shard work, which in a cluster work beside it.
#[derive(Default)]
pub struct Clock {
    elsewhere_nanos: u64,
    elsewhere_cpu_nanos: u64,
}

impl Clock {
    pub fn now(&self) -> Instant {
        Instant(ramhold_runtime::now().0 - self.elsewhere_nanos)
    }

    /// CPU time of this thread that was not spent elsewhere, in nanoseconds.
    pub fn cpu_nanos(&self) -> u64 {
        cpu_nanos() - self.elsewhere_cpu_nanos
    }

    /// Work that is not the shard's.
    pub fn elsewhere<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (began, cpu_began) = (ramhold_runtime::now(), cpu_nanos());
        let done = work();
        self.elsewhere_nanos += ramhold_runtime::now().0 - began.0;
        self.elsewhere_cpu_nanos += cpu_nanos() - cpu_began;
        done
    }
}

/// This process's share of the memory that is resident (Pss), in bytes.
pub fn resident_bytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    pss(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "smaps_rollup tells no Pss"))
}

fn pss(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_elsewhere_takes_no_time_of_the_shard() {
        let mut clock = Clock::default();
        let (began, cpu_began) = (clock.now(), clock.cpu_nanos());
        let mut sum = 0u64;
        let spent = clock.elsewhere(|| {
            let from = cpu_nanos();
            while cpu_nanos() - from < 20_000_000 {
                sum = sum.wrapping_add(std::hint::black_box(1));
            }
            cpu_nanos() - from
        });
        assert!(clock.cpu_nanos() - cpu_began < spent / 2);
        assert!(clock.now() >= began);
        assert!(sum > 0);
    }

    #[test]
    fn the_share_of_resident_memory_is_read() {
        assert_eq!(
            pss("5500-7ff0 ---p 00000000 00:00 0   [rollup]\nRss:  9 kB\nPss:     1234 kB\n"),
            Some(1_263_616)
        );
        assert_eq!(pss("Pss_Dirty: 5 kB\n"), None);
        assert!(resident_bytes().unwrap() > 100_000);
    }
}
