//! How long to wait before the next attempt: doubling from a least to a most, with jitter, so that clients
//! spread out.

use ramhold_base::Rng;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub least: Duration,
    pub most: Duration,
}

impl Backoff {
    /// The wait after this many setbacks in a row: between half of `least * 2^(setbacks-1)` and the whole of
    /// it, and never more than `most`. Zero after no setback.
    pub fn wait(self, setbacks: u32, rng: &mut Rng) -> Duration {
        if setbacks == 0 {
            return Duration::ZERO;
        }
        let doublings = (setbacks - 1).min(31);
        jittered(self.least.saturating_mul(1 << doublings).min(self.most), rng)
    }
}

/// A random time between half of `whole` and `whole`, so that clients that failed together do not come back
/// together.
pub fn jittered(whole: Duration, rng: &mut Rng) -> Duration {
    let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rng.between(nanos / 2, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_are_never_below_half() {
        // B5
        let backoff = Backoff { least: Duration::from_millis(1), most: Duration::from_millis(200) };
        let mut rng = Rng::new(5);
        assert_eq!(backoff.wait(0, &mut rng), Duration::ZERO);
        for setbacks in 1..200 {
            let whole = Duration::from_millis(1 << (setbacks - 1).min(20)).min(backoff.most);
            let wait = backoff.wait(setbacks, &mut rng);
            assert!(wait <= whole, "{setbacks}: {wait:?}");
            assert!(wait >= whole / 2, "{setbacks}: {wait:?}");
        }
        assert!(backoff.wait(u32::MAX, &mut rng) <= backoff.most);
    }
}
