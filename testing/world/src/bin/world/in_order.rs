//! Runs seeds on all processors, and tells their results in the order of the seeds.
//!
//! A seed's run has no state but its own, so its trace is the same beside others. The text and the sums follow
//! from the seeds alone, too: where a set ends early, results of later seeds are thrown away.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs `work` for each seed. `take` has the results one by one, until it breaks off.
pub fn in_order<T: Send>(
    seeds: Range<u64>,
    work: impl Fn(u64) -> T + Sync,
    mut take: impl FnMut(u64, T) -> ControlFlow<()>,
) {
    let (next, is_over) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let run = |sender: mpsc::Sender<(u64, T)>| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end
                || is_over.load(Ordering::Relaxed)
                || sender.send((seed, work(seed))).is_err()
            {
                return;
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    thread::scope(|scope| {
        for _ in 0..threads.min(seeds.end.saturating_sub(seeds.start)) {
            let sender = sender.clone();
            scope.spawn(|| run(sender));
        }
        drop(sender);
        let (mut early, mut due) = (BTreeMap::new(), seeds.start);
        for (seed, result) in receiver {
            early.insert(seed, result);
            while let Some(result) = early.remove(&due) {
                if take(due, result).is_break() {
                    is_over.store(true, Ordering::Relaxed);
                    return;
                }
                due += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    // J1
    #[test]
    fn results_come_in_the_order_of_their_seeds_until_they_are_enough() {
        // The first seed ends after the second one, if there is a thread for that.
        let (is_second_over, told) = (Mutex::new(false), Condvar::new());
        let work = |seed: u64| {
            let mut is_over = is_second_over.lock().expect("nobody panics with it");
            if seed == 4 {
                *is_over = true;
                told.notify_all();
            }
            if seed == 3 && thread::available_parallelism().is_ok_and(|threads| threads.get() > 1) {
                let limit = Duration::from_secs(30);
                let (_guard, waited) = told
                    .wait_timeout_while(is_over, limit, |is_over| !*is_over)
                    .expect("nobody panics with it");
                assert!(!waited.timed_out(), "seeds run side by side");
            }
            seed * 2
        };
        let mut taken = Vec::new();
        in_order(3..20, work, |seed, result| {
            taken.push((seed, result));
            if seed == 11 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(taken, (3..12).map(|seed| (seed, seed * 2)).collect::<Vec<_>>());
        in_order(5..5, work, |_, _| panic!("there are no seeds"));
    }
}
