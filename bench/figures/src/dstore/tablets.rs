//! The tablets of a simulated table: which bricks hold which hashes.

use super::names::{TABLE, address, id};
use ramhold_base::KeyHash;
use ramhold_wire::control::Address;
use ramhold_wire::quorum::{BrickPlace, BrickTablet};

/// A range of hashes and the places of its bricks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tablet {
    pub first: u64,
    pub last: u64,
    pub bricks: Vec<usize>,
    pub epoch: u64,
}

impl Tablet {
    pub fn range(&self) -> (u64, u64) {
        (self.first, self.last)
    }

    /// The number of its hashes.
    pub fn size(&self) -> u128 {
        u128::from(self.last - self.first) + 1
    }

    pub fn has(&self, hash: KeyHash) -> bool {
        (self.first..=self.last).contains(&hash.0)
    }

    /// Whether all hashes of the other one are this one's.
    pub fn holds(&self, other: &Tablet) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// As the coordinator describes it.
    pub fn described(&self) -> BrickTablet {
        let mut places: Vec<usize> = self.bricks.clone();
        places.sort_unstable();
        let place = |place: usize| BrickPlace { brick: id(place), address: Address(address(place)) };
        BrickTablet {
            table: TABLE,
            first: KeyHash(self.first),
            last: KeyHash(self.last),
            epoch: self.epoch,
            bricks: places.into_iter().map(place).collect(),
            joined: Vec::new(),
            giving: None,
        }
    }

    /// The lower and the upper half of the hashes.
    pub fn halves(&self) -> [(u64, u64); 2] {
        let middle = self.first + (self.last - self.first) / 2;
        [(self.first, middle), (middle + 1, self.last)]
    }

    /// The tablet's name as the paper prints it: the leading bits of its hashes, the first one last.
    pub fn suffix(&self) -> String {
        let length = 64 - self.size().ilog2();
        (0..length).rev().map(|bit| if self.first >> (63 - bit) & 1 == 1 { '1' } else { '0' }).collect()
    }
}

/// `count` tablets of equal size, `each` bricks for every one, no brick in two.
pub fn even(count: usize, each: usize) -> Vec<Tablet> {
    let size = (1u128 << 64) / count as u128;
    (0..count)
        .map(|at| {
            let first = (at as u128 * size) as u64;
            let last = if at + 1 == count { u64::MAX } else { ((at as u128 + 1) * size - 1) as u64 };
            Tablet { first, last, bricks: (at * each..(at + 1) * each).collect(), epoch: 1 }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tablets_cover_all_hashes_and_have_the_papers_names() {
        for count in [1, 2, 3, 9] {
            let tablets = even(count, 3);
            assert_eq!((tablets[0].first, tablets[count - 1].last), (0, u64::MAX));
            assert!(tablets.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
        }
        let half = |tablet: &Tablet, at: usize| {
            let (first, last) = tablet.halves()[at];
            Tablet { first, last, ..tablet.clone() }
        };
        let all = &even(1, 3)[0];
        let zero = half(all, 0);
        let two = half(&zero, 1);
        let suffixes = [all, &zero, &half(all, 1), &half(&zero, 0), &two, &half(&two, 0), &half(&two, 1)];
        assert_eq!(suffixes.map(Tablet::suffix), ["", "0", "1", "00", "10", "010", "110"]);
    }
}
