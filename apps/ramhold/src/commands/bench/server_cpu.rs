//! The processor time that server processes of this machine use during a measurement.
//!
//! It is what the kernel charges to the processes, its own work for their sockets included. A server that
//! polls also uses time while it looks for work and finds none. Servers tell that time on their pages of
//! metrics: the rest was for work. Where nobody tells it, processor time per operation means little unless
//! the server is busy, so the share of a processor is told besides.

use super::server_page::counter;
use crate::failure::Failure;
use std::time::Duration;

/// Processor time for which a server's loop looked for work and found none.
const IDLE: &str = "ramhold_loop_idle_seconds_total";

/// The unit in which Linux tells a process's time, whatever it counts in itself.
const TICK: Duration = Duration::from_millis(10);

/// The processes, and their processor time when the measurement began.
pub struct ServerCpu<'a> {
    pids: &'a [u32],
    /// Addresses of pages of metrics; none: idle time is not asked for.
    pages: &'a [String],
    before: Duration,
    idle_before: Duration,
}

/// Processor time of the processes together.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    pub time: Duration,
    /// The part of it in which they looked for work and found none, if they tell it.
    pub idle: Option<Duration>,
    pub elapsed: Duration,
}

impl<'a> ServerCpu<'a> {
    /// Begins to count. `None` without processes.
    pub fn begin(pids: &'a [u32], pages: &'a [String]) -> Result<Option<ServerCpu<'a>>, Failure> {
        if pids.is_empty() {
            return Ok(None);
        }
        let idle_before = idle_of(pages)?;
        Ok(Some(ServerCpu { pids, pages, before: time_of(pids)?, idle_before }))
    }

    /// The processor time since the beginning, which is so long ago.
    pub fn end(&self, elapsed: Duration) -> Result<Used, Failure> {
        let time = time_of(self.pids)?.saturating_sub(self.before);
        let idle = match self.pages {
            [] => None,
            pages => Some(idle_of(pages)?.saturating_sub(self.idle_before)),
        };
        Ok(Used { time, idle, elapsed })
    }
}

impl Used {
    /// The time for work alone, if it is known.
    pub fn work(&self) -> Option<Duration> {
        Some(self.time.saturating_sub(self.idle?))
    }

    /// Percent of one processor; two that are busy all the time are 200.
    pub fn percent(&self) -> f64 {
        100.0 * self.time.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Microseconds for each of so many operations.
pub fn micros_per(time: Duration, operations: u64) -> f64 {
    time.as_secs_f64() * 1e6 / operations.max(1) as f64
}

fn idle_of(pages: &[String]) -> Result<Duration, Failure> {
    let idle = |address: &String| {
        let seconds = counter(address, IDLE)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Failure::usage(format!("--server-admin {address}: {IDLE} is {seconds}")))
    };
    pages.iter().map(idle).sum()
}

fn time_of(pids: &[u32]) -> Result<Duration, Failure> {
    let time = |pid: &u32| {
        let path = format!("/proc/{pid}/stat");
        let wrong = |why: String| Failure::usage(format!("--server-pid {pid}: {path}: {why}"));
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        ticks(&text).map(|ticks| TICK * ticks).ok_or_else(|| wrong("it tells no times".to_owned()))
    };
    pids.iter().map(time).sum()
}

/// Fields 14 and 15, behind the program's name in brackets, which may have anything in it.
fn ticks(stat: &str) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(") ")?;
    let mut times = behind.split(' ').skip(11).map(|field| field.parse::<u32>().ok());
    times.next()??.checked_add(times.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    // E2
    #[test]
    fn time_is_the_process_s_own_and_the_kernel_s_for_it() {
        assert_eq!(ticks("7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 5 6 20 0 1 0 99"), Some(42));
        assert_eq!(ticks("7 (a) S 1"), None);
        let own = [std::process::id()];
        let began = ServerCpu::begin(&own, &[]).unwrap().expect("a process");
        let from = std::time::Instant::now();
        // The kernel counts in ticks.
        while time_of(&own).unwrap() < began.before + 5 * TICK {
            std::hint::black_box(from.elapsed());
        }
        let used = began.end(Duration::from_millis(500)).unwrap();
        assert!(used.time >= 5 * TICK && used.percent() >= 10.0, "{used:?}");
        assert!(micros_per(used.time, 1000) >= 50.0 && used.work().is_none(), "{used:?}");
        let idle = Some(2 * TICK);
        assert_eq!(Used { time: 5 * TICK, idle, ..used }.work(), Some(3 * TICK));
    }

    // E2
    #[test]
    fn a_process_that_is_not_there_is_named() {
        assert!(ServerCpu::begin(&[], &[]).unwrap().is_none());
        let Err(failure) = ServerCpu::begin(&[u32::MAX], &[]) else { panic!("nobody has this number") };
        assert!(failure.text().contains("--server-pid 4294967295"), "{}", failure.text());
    }
}
