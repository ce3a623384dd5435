//! Tarzan: whether a brick behaves in the course of time unlike the others, by one statistic.
//!
//! The last samples of each brick become a string of bits: above the median of all samples of the *other* bricks, or not.
//! How often each short word is in the string is compared with the other bricks. A brick whose value is always high, or
//! that swings where the others are steady, has other words than they have.
//!
//! ```text
//!   samples  3 9 4 8 9 9   others' median 5   bits 0 1 0 1 1 1   words 0 1 00 01 10 11
//!   score = max over words of |frequency - reference| / max(reference, 0.05),   reference: the others' median frequency
//! ```
//!
//! The score is a ratio of whole numbers, so all come to the same verdict.
//!
//! Not here: which bricks have enough samples (`anomaly`). Source: DSTORE04 7, with relative units. Catalogue: I6.

use crate::mad::median_doubled;

/// Samples of each brick: 50 seconds of reports.
pub const SAMPLE_COUNT: usize = 100;
/// The words that are shorter than k = 3, as bits and length.
const WORDS: [(u64, usize); 6] = [(0b0, 1), (0b1, 1), (0b00, 2), (0b01, 2), (0b10, 2), (0b11, 2)];
/// The least frequency that counts as reference: 1 of so many.
const FLOOR: u128 = 20;

/// How unlike a brick is: `unlike / like`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Score {
    unlike: u128,
    like: u128,
}

impl Score {
    const NONE: Score = Score { unlike: 0, like: 1 };

    /// Above 1.5, which was found by simulation: 0.5, the paper's number in unknown units, is passed by chance.
    pub fn flags(self) -> bool {
        2 * self.unlike > 3 * self.like
    }

    /// For people.
    pub fn permille(self) -> u64 {
        u64::try_from(1000 * self.unlike / self.like).unwrap_or(u64::MAX)
    }

    fn max(self, other: Score) -> Score {
        if other.unlike * self.like > self.unlike * other.like { other } else { self }
    }
}

type Samples = [u64; SAMPLE_COUNT];

/// How often each word is in the string of a brick's bits.
fn words(samples: &Samples, median_doubled: u128) -> [u64; WORDS.len()] {
    let is_high = |sample: &u64| 2 * u128::from(*sample) > median_doubled;
    let bits: Vec<u64> = samples.iter().map(|sample| u64::from(is_high(sample))).collect();
    WORDS.map(|(word, length)| {
        let value = |window: &[u64]| window.iter().fold(0, |value, bit| value << 1 | bit);
        bits.windows(length).filter(|window| value(window) == word).count() as u64
    })
}

/// The score of a brick among others. Without others nothing is unlike.
pub fn score(brick: &Samples, others: &[&Samples]) -> Score {
    if others.is_empty() {
        return Score::NONE;
    }
    let mut all: Vec<u64> = others.iter().flat_map(|samples| samples.iter().copied()).collect();
    let median = median_doubled(&mut all);
    let own = words(brick, median);
    let theirs: Vec<[u64; WORDS.len()]> = others.iter().map(|samples| words(samples, median)).collect();
    let mut score = Score::NONE;
    for (at, (_, length)) in WORDS.iter().enumerate() {
        let mut counts: Vec<u64> = theirs.iter().map(|counts| counts[at]).collect();
        let (reference_doubled, own) = (median_doubled(&mut counts), u128::from(own[at]));
        let places = (SAMPLE_COUNT - length + 1) as u128;
        // |c - r| / max(r, n / 20), with 2 r: both sides times 2 x 20.
        let unlike = FLOOR * (2 * own).abs_diff(reference_doubled);
        let like = (FLOOR * reference_doubled).max(2 * places);
        score = score.max(Score { unlike, like });
    }
    score
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;

    fn among(series: &[Samples], brick: usize) -> Score {
        let others: Vec<&Samples> =
            series.iter().enumerate().filter(|(at, _)| *at != brick).map(|(_, samples)| samples).collect();
        score(&series[brick], &others)
    }

    fn alternating() -> Samples {
        std::array::from_fn(|at| at as u64 % 2)
    }

    /// The numbers of dstore_golden: six alternating series score 0, and one among them that is always high 20.
    // I6
    #[test]
    fn the_golden_series_have_the_golden_scores() {
        let mut series = vec![alternating(); 6];
        assert_eq!(among(&series, 0).permille(), 0);
        series[5] = [1; SAMPLE_COUNT];
        assert_eq!(among(&series, 5).permille(), 20_000);
        assert!(among(&series, 5).flags());
        assert!(!among(&series, 0).flags(), "the others are alike");
        let bits = [0, 1, 1, 0].map(|bit| bit * 2);
        let samples: Samples = std::array::from_fn(|at| if at < 4 { bits[at] } else { 0 });
        assert_eq!(words(&samples, 2)[..2], [98, 2]);
        assert_eq!(words(&samples, 2)[2..], [96, 1, 1, 1]);
    }

    // I6
    #[test]
    fn chance_alone_flags_hardly_anybody_and_neither_order_nor_unit_matters() {
        let mut rng = Rng::new(1);
        let mut flagged = 0;
        for _ in 0..200 {
            let series: Vec<Samples> =
                (0..6).map(|_| std::array::from_fn(|_| 1000 + rng.below(400))).collect();
            flagged += (0..6).filter(|brick| among(&series, *brick).flags()).count();
            let scaled: Vec<Samples> =
                series.iter().map(|samples| samples.map(|sample| sample * 1_000_003)).collect();
            let mut shuffled: Vec<Samples> = series[1..].to_vec();
            rng.shuffle(&mut shuffled);
            shuffled.insert(0, series[0]);
            assert_eq!(among(&series, 0), among(&scaled, 0));
            assert_eq!(among(&series, 0), among(&shuffled, 0));
        }
        assert!(flagged < 12, "{flagged} of 1,200");
    }

    // I6
    #[test]
    fn a_brick_that_is_low_or_swings_slowly_is_unlike_those_that_alternate() {
        let mut series = vec![alternating(); 6];
        series[2] = [0; SAMPLE_COUNT];
        assert!(among(&series, 2).flags());
        series[2] = std::array::from_fn(|at| at as u64 / 10 % 2);
        assert!(among(&series, 2).flags(), "as often high, but for long");
        assert_eq!(score(&series[2], &[]), Score::NONE);
    }
}
