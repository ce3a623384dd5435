//! Every processor busy for a long time under a light load: no server is declared dead for being slow.
//!
//! As many threads as there are processors spin at the priority of the servers, so each server waits its turn whenever
//! it has something to do. The share of idle time shows that the threads did spin.

use crate::bench::Bench;
use ramhold_cluster_tests::{Failure, Load, Pace, pass};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

/// Between two operations of each of the load's four clients.
const PACE: Duration = Duration::from_millis(20);
/// Between two operations of a session that records a history: less than 100 MB of history in an hour.
const SESSION_PAUSE: Duration = Duration::from_millis(100);
const TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// A thread looks for its end once in this many steps: some microseconds.
const STEPS: u64 = 10_000;
/// If processors were idle for a larger share of the time, the part did not do what it is for.
const IDLE_SHARE_MOST: f64 = 0.05;

/// Verdicts and suspicions since the start of the cluster.
#[derive(Clone, Copy)]
struct Verdicts {
    deaths: u64,
    cleared: u64,
}

impl Bench {
    pub fn busy(&mut self, minutes: u64) -> Result<(), Failure> {
        let time = Duration::from_secs(60 * minutes);
        let before = self.verdicts()?;
        let load = Load::start(&self.cluster, "busy", 3, 1)?;
        load.set_pace(Pace::Closed(PACE));
        load.wait_acknowledged(500)?;
        let mut recording = self.recordings.start(&self.cluster, "busy", SESSION_PAUSE)?;
        load.take_longest_wait();
        let (idle, spinners) = (ProcessorTime::now()?, Spinners::start()?);
        let (began, mut last, mut longest) = (Instant::now(), before, Duration::ZERO);
        while began.elapsed() < time {
            pass(TOLD_INTERVAL.min(time.saturating_sub(began.elapsed())))?;
            let (now, waited) = (self.verdicts()?, load.take_longest_wait());
            longest = longest.max(waited);
            let minute = began.elapsed().as_secs_f64() / 60.0;
            let text = format!(
                "{}, {} writes, longest wait {} ms",
                now.since(before),
                load.acknowledged(),
                waited.as_millis()
            );
            self.row("busy", &format!("{minute:.0} of {minutes} min"), &text);
            if now.deaths > last.deaths {
                self.mend()?;
            }
            last = now;
        }
        let idle_share = ProcessorTime::now()?.idle_share_since(idle);
        let threads = spinners.threads.len();
        drop(spinners);
        let told = last.since(before);
        recording.note("every processor busy", "all", began, &told)?;
        let table = load.table();
        let journal = load.stop()?;
        let lost = journal.compare(&self.cluster, table)?.len() + journal.violations.len();
        let text = format!(
            "{told}, {lost} of {} writes lost, longest wait {} ms, processors idle for {:.1} %",
            journal.writes,
            longest.as_millis(),
            100.0 * idle_share
        );
        self.row("busy", &format!("{threads} threads spin for {minutes} min"), &text);
        self.expect(last.deaths == before.deaths, "a server was declared dead while processors were busy");
        self.expect(lost == 0, "writes were lost while processors were busy");
        self.expect(idle_share <= IDLE_SHARE_MOST, "the processors were not busy");
        self.judge("busy", recording)
    }

    fn verdicts(&self) -> Result<Verdicts, Failure> {
        let cleared = self.cluster.status()?.cleared.iter().map(|report| report.count).sum();
        Ok(Verdicts { deaths: self.deaths()?, cleared })
    }
}

impl Verdicts {
    fn since(self, before: Verdicts) -> String {
        // A server that dies takes its wrong suspicions out of the count.
        let cleared = self.cleared.saturating_sub(before.cleared);
        format!("{} declared dead, {cleared} suspected and cleared", self.deaths - before.deaths)
    }
}

/// A thread for each processor that takes all the time it gets, until this is dropped.
struct Spinners {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    fn start() -> Result<Spinners, Failure> {
        let count = available_parallelism().map_err(|error| Failure(format!("processors: {error}")))?;
        let stops = Arc::new(AtomicBool::new(false));
        let spin = || {
            let stops = Arc::clone(&stops);
            std::thread::spawn(move || {
                while !stops.load(Ordering::Relaxed) {
                    (0..STEPS).for_each(|step| {
                        black_box(step);
                    });
                }
            })
        };
        let threads = (0..count.get()).map(|_| spin()).collect();
        Ok(Spinners { stops, threads })
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The time of all processors together since the machine started, in the kernel's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessorTime {
    all: u64,
    idle: u64,
}

impl ProcessorTime {
    fn now() -> Result<ProcessorTime, Failure> {
        let path = "/proc/stat";
        let told = std::fs::read_to_string(path).map_err(|error| Failure(format!("{path}: {error}")))?;
        ProcessorTime::parse(&told).ok_or_else(|| Failure(format!("{path} tells no times")))
    }

    /// The first line: user, nice, system, idle, waiting for a device, interrupts, soft interrupts, taken by the host.
    /// Later fields are parts of the first two.
    fn parse(stat: &str) -> Option<ProcessorTime> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let times: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        Some(ProcessorTime { all: times.iter().sum(), idle: times.get(3)? + times.get(4)? })
    }

    fn idle_share_since(self, before: ProcessorTime) -> f64 {
        (self.idle - before.idle) as f64 / (self.all - before.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_idle_time_counts_waits_for_devices() {
        let before = ProcessorTime::parse("cpu  100 50 20 300 10 0 5 5 40 0\ncpu0 1\n").unwrap();
        assert_eq!(before, ProcessorTime { all: 490, idle: 310 });
        let after = ProcessorTime::parse("cpu  160 50 20 330 20 0 5 5 90 0\n").unwrap();
        assert!((after.idle_share_since(before) - 0.4).abs() < 1e-9);
        assert_eq!(ProcessorTime::parse("intr 1"), None);
    }
}
