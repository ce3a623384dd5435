//! The median absolute deviation: which of some bricks is unlike the others now, by one statistic.
//!
//! A value is flagged if it is further from the median than 3.5 x 1.4826 x MAD, and than half of the median. The first
//! part is the usual test for outliers. The second leaves alone what differs little although all others are alike.
//!
//! The paper's threshold of 0.5 cannot be meant in units of the MAD: half of all bricks are that far from the median.
//!
//! Medians of an even number of values are halves, so everything is calculated in multiples, exactly.
//!
//! Source: DSTORE04 7. Catalogue: I6.

/// 3.5 x 1.4826, times 10,000.
const DEVIATIONS: u128 = 51_891;

/// Twice the median: the sum of the two values in the middle, which may be the same one. `values` is put in another order.
pub(crate) fn median_doubled<T: Copy + Ord + Into<u128>>(values: &mut [T]) -> u128 {
    assert!(!values.is_empty(), "a median is of something");
    let (upper, lower) = (values.len() / 2, (values.len() - 1) / 2);
    let (below, middle, _) = values.select_nth_unstable(upper);
    let middle: u128 = (*middle).into();
    if lower == upper {
        return 2 * middle;
    }
    let before = below.iter().max().expect("there are two in the middle");
    (*before).into() + middle
}

/// The median of some values, and their median absolute deviation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Twice the median.
    median_doubled: u128,
    /// Four times the deviation.
    deviation_fourfold: u128,
}

impl Spread {
    /// `values` must not be empty.
    pub fn of(values: &[u64]) -> Spread {
        let median_doubled = self::median_doubled(&mut values.to_vec());
        let mut deviations: Vec<u128> =
            values.iter().map(|value| (2 * u128::from(*value)).abs_diff(median_doubled)).collect();
        Spread { median_doubled, deviation_fourfold: self::median_doubled(&mut deviations) }
    }

    /// Whether a value is unlike the others.
    pub fn flags(&self, value: u64) -> bool {
        let doubled = (2 * u128::from(value)).abs_diff(self.median_doubled);
        // 2 d x 2 > 5.1891 x 4 MAD, and 2 d > m / 2 x 2.
        let is_far = doubled.saturating_mul(20_000) > DEVIATIONS.saturating_mul(self.deviation_fourfold);
        is_far && 2 * doubled > self.median_doubled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;

    fn flagged(values: &[u64]) -> Vec<u64> {
        let spread = Spread::of(values);
        values.iter().copied().filter(|value| spread.flags(*value)).collect()
    }

    /// The table of dstore_golden.
    // I6
    #[test]
    fn the_golden_values_are_flagged_and_no_others() {
        let spread = |median_doubled, deviation_fourfold| Spread { median_doubled, deviation_fourfold };
        assert_eq!(Spread::of(&[10, 11, 9, 10, 12, 40]), spread(21, 4));
        assert_eq!(flagged(&[10, 11, 9, 10, 12, 40]), [40]);
        assert_eq!(Spread::of(&[10, 10, 10, 10, 10, 14]), spread(20, 0));
        assert_eq!(flagged(&[10, 10, 10, 10, 10, 14]), [], "40 % are less than half");
        assert_eq!(flagged(&[10, 10, 10, 10, 10, 16]), [16]);
        assert_eq!(flagged(&[0, 0, 0, 0, 0, 3]), [3]);
        assert_eq!(
            flagged(&[10, 11, 9, 10, 12, 13]),
            [],
            "the bare threshold of the paper flags three of these"
        );
        assert_eq!(flagged(&[20, 21, 19, 20, 2]), [2], "too little is unlike, too");
    }

    // I6
    #[test]
    fn less_than_half_are_flagged_and_neither_order_nor_unit_matters() {
        let mut rng = Rng::new(1);
        for _ in 0..3000 {
            let count = rng.between(4, 30) as usize;
            let scale = [1, 3, 1000, 1 << 40][rng.below(4) as usize];
            let mut values: Vec<u64> = (0..count)
                .map(|_| if rng.chance(1, 6) { rng.below(5000) } else { 90 + rng.below(20) })
                .collect();
            let found = flagged(&values);
            assert!(found.len() * 2 <= count, "{found:?} of {values:?}");
            rng.shuffle(&mut values);
            let mut shuffled = flagged(&values);
            let mut sorted = found.clone();
            shuffled.sort_unstable();
            sorted.sort_unstable();
            assert_eq!(shuffled, sorted);
            let scaled: Vec<u64> = values.iter().map(|value| value * scale).collect();
            assert_eq!(flagged(&scaled).len(), found.len());
        }
        assert_eq!(flagged(&[u64::MAX, 0, u64::MAX, u64::MAX]), [0]);
    }
}
