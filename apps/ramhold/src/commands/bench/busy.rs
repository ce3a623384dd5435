//! An overloaded machine: threads that compute all the time, and the time that a thread waits for its turn.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at the clock; what a server's loop waits for is rarer.
const TICK: Duration = Duration::from_millis(1);

/// Threads of normal priority that never wait. To the scheduler a thread is what a process is; these end with us.
pub struct Busy {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    gap_nanos: AtomicU64,
}

impl Busy {
    /// `count` threads that compute, and one that sleeps for a millisecond at a time and tells how late it woke.
    pub fn start(count: u16) -> std::io::Result<Busy> {
        let mut busy = Busy { shared: Arc::default(), threads: Vec::new() };
        for _ in 0..count {
            busy.spawn("ramhold-busy", compute)?;
        }
        busy.spawn("ramhold-ticks", watch)?;
        Ok(busy)
    }

    fn spawn(&mut self, name: &str, work: fn(&Shared)) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        self.threads.push(Builder::new().name(name.to_owned()).spawn(move || work(&shared))?);
        Ok(())
    }

    /// The longest time so far that a thread which wanted to run had to wait.
    pub fn longest_gap(&self) -> Duration {
        Duration::from_nanos(self.shared.gap_nanos.load(Ordering::Relaxed))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn compute(shared: &Shared) {
    let mut number = 1u64;
    while !shared.stops.load(Ordering::Relaxed) {
        number = black_box(number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7));
    }
}

fn watch(shared: &Shared) {
    while !shared.stops.load(Ordering::Relaxed) {
        let began = Instant::now();
        std::thread::sleep(TICK);
        let late = began.elapsed().saturating_sub(TICK);
        shared.gap_nanos.fetch_max(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
