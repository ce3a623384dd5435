//! How much of the figures is made, and on how many processors.

use std::sync::Mutex;

/// How figures are made.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    pub seed: u64,
    /// Fewer points, shorter times, fewer seeds.
    pub is_small: bool,
    pub threads: usize,
}

impl Making {
    /// Simulates all of these, some at a time. Each is a world of its own, so their order makes no difference.
    pub fn side_by_side<T: Sync, R: Send>(&self, all: &[T], simulate: impl Fn(&T) -> R + Sync) -> Vec<R> {
        let next = Mutex::new(0);
        let results: Mutex<Vec<Option<R>>> = Mutex::new(all.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    loop {
                        let at = {
                            let mut next = next.lock().expect("nobody panics with it");
                            *next += 1;
                            *next - 1
                        };
                        let Some(one) = all.get(at) else { return };
                        let result = simulate(one);
                        results.lock().expect("nobody panics with it")[at] = Some(result);
                    }
                });
            }
        });
        let results = results.into_inner().expect("nobody panics with it");
        results.into_iter().map(|result| result.expect("each was simulated")).collect()
    }
}
