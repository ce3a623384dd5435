//! Chooses the live object that is overwritten next.

use crate::commands::bench::zipf::Zipf;
use clap::ValueEnum;
use ramhold_base::Rng;

/// How often which key is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Keys {
    /// All objects equally often.
    Uniform,
    /// The k-th most popular key in proportion to 1 / k^0.99; popular keys lie anywhere.
    Zipf,
    /// A tenth of the keys gets nine tenths of the writes.
    HotCold,
}

impl Keys {
    pub fn name(self) -> &'static str {
        match self {
            Keys::Uniform => "uniform",
            Keys::Zipf => "zipf",
            Keys::HotCold => "hot-cold",
        }
    }
}

/// Chooses among `count` objects. Popularity has nothing to do with the order in which they were written.
pub struct Chooser {
    count: u64,
    keys: Keys,
    rng: Rng,
    /// Coprime with `count`: multiplying by it scatters ranks over all objects, each to one of its own.
    scatter: u64,
    zipf: Zipf,
}

impl Chooser {
    /// `count` is at least 1.
    pub fn new(keys: Keys, count: u64, seed: u64) -> Chooser {
        let scatter = (count / 2 + count / 9..).find(|n| is_coprime(*n, count)).expect("there is a prime");
        let zipf = if keys == Keys::Zipf { Zipf::new(count) } else { Zipf::new(1) };
        Chooser { count, keys, rng: Rng::new(seed), scatter, zipf }
    }

    pub fn next(&mut self) -> u64 {
        let rank = match self.keys {
            Keys::Uniform => return self.rng.below(self.count),
            Keys::Zipf => self.zipf.rank(&mut self.rng),
            Keys::HotCold => {
                let hot = (self.count / 10).max(1);
                if hot == self.count || self.rng.chance(9, 10) {
                    self.rng.below(hot)
                } else {
                    hot + self.rng.below(self.count - hot)
                }
            }
        };
        (u128::from(rank) * u128::from(self.scatter) % u128::from(self.count)) as u64
    }
}

fn is_coprime(a: u64, b: u64) -> bool {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 11;
    const THETA: f64 = 0.99;

    fn counts(keys: Keys, count: u64, draws: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(keys, count, SEED);
        let mut counts = vec![0; count as usize];
        for _ in 0..draws {
            counts[chooser.next() as usize] += 1;
        }
        counts.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        counts
    }

    #[test]
    fn uniform_keys_come_equally_often() {
        let counts = counts(Keys::Uniform, 100, 100_000);
        assert!(counts[0] < 1_150 && counts[99] > 850, "seed {SEED}: {counts:?}");
    }

    #[test]
    fn a_tenth_of_the_keys_is_hot() {
        let counts = counts(Keys::HotCold, 1000, 100_000);
        let hot: u64 = counts[..100].iter().sum();
        assert!((88_000..92_000).contains(&hot), "seed {SEED}: {hot}");
        assert!(counts[999] > 0, "seed {SEED}");
    }

    #[test]
    fn the_popularity_of_zipf_falls_with_the_rank() {
        let counts = counts(Keys::Zipf, 1000, 100_000);
        let zeta: f64 = (1..=1000).map(|k| f64::from(k).powf(-THETA)).sum();
        for rank in [1u32, 2, 10, 100] {
            let expected = 100_000.0 * f64::from(rank).powf(-THETA) / zeta;
            let seen = counts[rank as usize - 1] as f64;
            assert!((seen / expected - 1.0).abs() < 0.3, "seed {SEED}, rank {rank}: {seen}, not {expected}");
        }
    }

    #[test]
    fn popular_keys_do_not_lie_together_and_few_keys_work_too() {
        let mut chooser = Chooser::new(Keys::HotCold, 1000, SEED);
        let high = (0..1000).filter(|_| chooser.next() >= 500).count();
        assert!((300..700).contains(&high), "seed {SEED}: {high}");
        for keys in [Keys::Uniform, Keys::Zipf, Keys::HotCold] {
            for count in [1, 2, 3] {
                let mut chooser = Chooser::new(keys, count, SEED);
                assert!((0..100).all(|_| chooser.next() < count), "seed {SEED}");
            }
        }
    }
}
