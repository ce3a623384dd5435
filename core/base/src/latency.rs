//! Durations, counted in buckets.
//!
//! There are two buckets for each doubling, from a microsecond to eight seconds, so that a quantile read from
//! them is at most half too high (above two microseconds). Counting costs a division by a constant and two
//! additions.
//!
//! Invariant: a bucket only grows, and the sum of the buckets is the count.
//!
//! Not here: quantiles. The reader of the counts computes them.

use std::time::Duration;

/// The last bucket has no bound.
pub const LATENCY_BUCKET_COUNT: usize = 47;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latencies {
    buckets: [u64; LATENCY_BUCKET_COUNT],
    sum_nanos: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { buckets: [0; LATENCY_BUCKET_COUNT], sum_nanos: 0 }
    }
}

impl Latencies {
    pub fn count(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)] += 1;
        self.sum_nanos = self.sum_nanos.saturating_add(nanos);
    }

    /// Counts `count` events that took no time.
    pub fn count_at_once(&mut self, count: u64) {
        self.buckets[0] += count;
    }

    pub fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn sum_nanos(&self) -> u64 {
        self.sum_nanos
    }

    /// For each bucket its bound in microseconds, which still belongs to the bucket, and its count. The last
    /// one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        self.buckets.iter().enumerate().map(|(index, count)| (bound_micros(index), *count))
    }
}

/// The bounds are 1, 2, 3, 4, 6, 8, 12, 16 and so on.
fn bound_micros(index: usize) -> Option<u64> {
    match index {
        0 => Some(1),
        index if index + 1 == LATENCY_BUCKET_COUNT => None,
        index if index.is_multiple_of(2) => Some(3 << (index / 2 - 1)),
        index => Some(2 << (index / 2)),
    }
}

fn bucket(nanos: u64) -> usize {
    // Whole microseconds below the duration, so that a bound belongs to its own bucket.
    let below = nanos.saturating_sub(1) / 1000;
    if below < 2 {
        return below as usize;
    }
    let power = below.ilog2();
    let upper_half = (below >> (power - 1)) & 1;
    (2 * power as usize + upper_half as usize).min(LATENCY_BUCKET_COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket_and_what_is_above_to_the_next() {
        let bounds: Vec<u64> = (0..LATENCY_BUCKET_COUNT).filter_map(bound_micros).collect();
        assert_eq!(bounds[..9], [1, 2, 3, 4, 6, 8, 12, 16, 24]);
        assert_eq!((bounds.len(), bounds[45]), (LATENCY_BUCKET_COUNT - 1, 8_388_608));
        for (index, bound) in bounds.iter().enumerate() {
            assert_eq!(bucket(bound * 1000), index, "{bound} us");
            assert_eq!(bucket(bound * 1000 + 1), index + 1, "above {bound} us");
        }
        assert_eq!([0, 1, 1000].map(bucket), [0, 0, 0]);
        assert_eq!(bucket(u64::MAX), LATENCY_BUCKET_COUNT - 1);
    }

    #[test]
    fn what_is_counted_is_in_one_bucket_and_in_the_sum() {
        let mut latencies = Latencies::default();
        latencies.count(Duration::from_micros(5));
        latencies.count(Duration::from_secs(60));
        latencies.count_at_once(3);
        assert_eq!((latencies.total(), latencies.sum_nanos()), (5, 60_000_005_000));
        let filled: Vec<_> = latencies.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(Some(1), 3), (Some(6), 1), (None, 1)]);
        latencies.count(Duration::MAX);
        assert_eq!(latencies.sum_nanos(), u64::MAX);
    }
}
