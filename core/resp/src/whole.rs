//! Natural numbers of any size, with the operations that reading and writing decimals needs.

use std::cmp::Ordering;

/// Digits to the base 2^32, the lowest first, without zeros at the top.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Whole(Vec<u32>);

impl From<u64> for Whole {
    fn from(value: u64) -> Whole {
        let mut whole = Whole(vec![value as u32, (value >> 32) as u32]);
        whole.trim();
        whole
    }
}

impl Whole {
    /// Number of digits, to a base of at most 16, that together fit into 32 bits.
    pub const DIGITS_AT_ONCE: usize = 7;

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bit_count(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    /// `self * factor + more`.
    pub fn multiply_add(&mut self, factor: u32, more: u32) {
        let mut carry = u64::from(more);
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// `self * base ^ exponent`; the base is at most 16.
    pub fn multiply_by_power(&mut self, base: u32, exponent: u64) {
        let step = Whole::DIGITS_AT_ONCE as u64;
        (0..exponent / step).for_each(|_| self.multiply_add(base.pow(step as u32), 0));
        self.multiply_add(base.pow((exponent % step) as u32), 0);
    }

    pub fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        self.multiply_add(1 << (bits % 32), 0);
        if bits >= 32 {
            self.0.splice(0..0, std::iter::repeat_n(0, bits / 32));
        }
    }

    /// Subtracts `other`, which must not be larger.
    pub fn subtract(&mut self, other: &Whole) {
        let mut borrow = 0i64;
        for (index, digit) in self.0.iter_mut().enumerate() {
            let taken = i64::from(other.0.get(index).copied().unwrap_or(0));
            let rest = i64::from(*digit) - taken + borrow;
            *digit = rest as u32;
            borrow = rest >> 32;
        }
        assert_eq!(borrow, 0, "no more is taken away than there is");
        self.trim();
    }

    pub fn decimal(&self) -> String {
        // Parts of nine decimal digits each, the lowest first.
        let mut parts: Vec<u32> = Vec::new();
        for digit in self.0.iter().rev() {
            let mut carry = u64::from(*digit);
            for part in &mut parts {
                carry += u64::from(*part) << 32;
                *part = (carry % 1_000_000_000) as u32;
                carry /= 1_000_000_000;
            }
            while carry > 0 {
                parts.push((carry % 1_000_000_000) as u32);
                carry /= 1_000_000_000;
            }
        }
        let top = parts.pop().unwrap_or(0).to_string();
        parts.iter().rev().fold(top, |text, part| format!("{text}{part:09}"))
    }
}

impl PartialOrd for Whole {
    fn partial_cmp(&self, other: &Whole) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Whole {
    fn cmp(&self, other: &Whole) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_counts_as_u128_does(one in any::<u128>(), two in any::<u64>(), shift in 0usize..60) {
            let of = |value: u128| {
                let mut whole = Whole::from((value >> 64) as u64);
                for digit in [(value >> 32) as u32, value as u32] {
                    whole.multiply_add(1 << 31, 0);
                    whole.multiply_add(2, digit);
                }
                whole
            };
            prop_assert_eq!(of(one).decimal(), one.to_string());
            prop_assert_eq!(of(one).bit_count(), 128 - one.leading_zeros() as usize);
            prop_assert_eq!(of(one).cmp(&Whole::from(two)), one.cmp(&u128::from(two)));
            let mut shifted = Whole::from(two);
            shifted.shift_left(shift);
            prop_assert_eq!(shifted.decimal(), (u128::from(two) << shift).to_string());
            if one >= u128::from(two) {
                let mut rest = of(one);
                rest.subtract(&Whole::from(two));
                prop_assert_eq!(rest.decimal(), (one - u128::from(two)).to_string());
            }
        }
    }
}
