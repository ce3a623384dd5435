//! Ranks with a likelihood of 1 by k^0.99, as YCSB draws them.
//!
//! The formula is the one of Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD
//! 1994. YCSB uses it, so figures compare with YCSB's only with this one, approximations included. The sum in
//! it is exact up to a bound, and an integral beyond (Euler and Maclaurin; nine digits).
//!
//! Not here: the object of a rank (load/choice, log/keys).

use ramhold_base::Rng;

/// The exponent that YCSB uses.
const THETA: f64 = 0.99;
/// So many terms of the sum are added up one by one.
const TERM_COUNT: u64 = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks below `count`, which is not 0.
    pub fn new(count: u64) -> Zipf {
        let zeta = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - self::zeta(2) / zeta);
        Zipf { count, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// From 0, the most likely one.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        // 53 bits, as many as a float holds.
        let chance = (rng.u64() >> 11) as f64 / (1u64 << 53) as f64;
        let at = chance * self.zeta;
        if at < 1.0 {
            return 0;
        }
        if at < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.eta * chance - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }
}

/// The sum of 1 by k^0.99 for k from 1 to `count`.
fn zeta(count: u64) -> f64 {
    let added = count.min(TERM_COUNT);
    let sum: f64 = (1..=added).map(|k| (k as f64).powf(-THETA)).sum();
    if count == added {
        return sum;
    }
    let (from, to) = (added as f64, count as f64);
    let integral = (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
    sum + integral + 0.5 * (to.powf(-THETA) - from.powf(-THETA))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_beyond_the_bound_is_right() {
        let slowly: f64 = (1..=1_000_000u32).map(|k| f64::from(k).powf(-THETA)).sum();
        assert!((zeta(1_000_000) - slowly).abs() < 1e-8, "{} {slowly}", zeta(1_000_000));
    }

    #[test]
    fn ranks_are_as_likely_as_they_are_to_be() {
        const COUNT: u64 = 100_000;
        const DRAWN: u32 = 200_000;
        let (zipf, mut rng) = (Zipf::new(COUNT), Rng::new(11));
        let mut drawn: Vec<u64> = (0..DRAWN).map(|_| zipf.rank(&mut rng)).collect();
        drawn.sort_unstable();
        for first in [1, 2, 10, 100, 1000, 10_000, 50_000] {
            let below = drawn.partition_point(|rank| *rank < first) as f64 / f64::from(DRAWN);
            let expected = zeta(first) / zeta(COUNT);
            // The formula is an approximation: 0.24 instead of 0.23 for the first ten.
            assert!((below - expected).abs() < 0.02, "first {first}: {below} instead of {expected}");
        }
        assert!(drawn.iter().all(|rank| *rank < COUNT));
    }

    #[test]
    fn few_objects_are_no_special_case() {
        for count in 1..=4 {
            let (zipf, mut rng) = (Zipf::new(count), Rng::new(count));
            let mut seen = vec![false; count as usize];
            (0..10_000).for_each(|_| seen[zipf.rank(&mut rng) as usize] = true);
            assert!(seen.iter().all(|seen| *seen), "{count}: {seen:?}");
        }
    }
}
