//! How many bricks a key has, and how many must answer.

use ramhold_base::planted::{Defect, planted};
use std::fmt;

/// The most bricks of a key.
pub const BRICK_COUNT_MAX: u8 = 7;

/// N, W and R of a table. They never follow from who is known or alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    bricks: u8,
    write: u8,
    read: u8,
}

/// Why three numbers are no quorum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAQuorum {
    /// N is not 1 to 7.
    Bricks(u8),
    /// W or R is 0, or above N.
    OutOfRange,
    /// W + R <= N: a read may miss a write.
    ReadsMissWrites,
    /// 2 W <= N: two writes may miss each other.
    WritesMissWrites,
}

impl fmt::Display for NotAQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAQuorum::Bricks(bricks) => {
                write!(f, "a quorum table has 1 to {BRICK_COUNT_MAX} bricks for each key, not {bricks}")
            }
            NotAQuorum::OutOfRange => {
                write!(f, "write and read quorum are at least 1 and at most the bricks")
            }
            NotAQuorum::ReadsMissWrites => {
                write!(f, "write and read quorum together must be more than the bricks, or reads miss writes")
            }
            NotAQuorum::WritesMissWrites => {
                write!(
                    f,
                    "the write quorum must be more than half of the bricks, or a write is lost to another"
                )
            }
        }
    }
}

impl std::error::Error for NotAQuorum {}

impl Thresholds {
    pub fn new(bricks: u8, write: u8, read: u8) -> Result<Thresholds, NotAQuorum> {
        if !(1..=BRICK_COUNT_MAX).contains(&bricks) {
            return Err(NotAQuorum::Bricks(bricks));
        }
        if !(1..=bricks).contains(&write) || !(1..=bricks).contains(&read) {
            return Err(NotAQuorum::OutOfRange);
        }
        if write + read <= bricks {
            return Err(NotAQuorum::ReadsMissWrites);
        }
        if 2 * write <= bricks && !planted(Defect::QuorumWritesMissWrites) {
            return Err(NotAQuorum::WritesMissWrites);
        }
        Ok(Thresholds { bricks, write, read })
    }

    /// More than half, for both.
    pub fn majority(bricks: u8) -> Result<Thresholds, NotAQuorum> {
        Thresholds::new(bricks, bricks / 2 + 1, bricks / 2 + 1)
    }

    pub fn bricks(self) -> usize {
        usize::from(self.bricks)
    }

    pub fn write(self) -> usize {
        usize::from(self.write)
    }

    pub fn read(self) -> usize {
        usize::from(self.read)
    }

    /// With this many refusals a write can never be committed: fewer than W bricks are left. With R below W more are
    /// wanted, because a brick that refuses may forget and be rebuilt from R others. Of those, one must have refused, too.
    pub fn refusals(self) -> usize {
        self.bricks() - self.write().min(self.read()) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I1: Q6 is the third one, footnote 4 of the paper.
    #[test]
    fn numbers_that_are_no_quorum_are_refused() {
        assert_eq!(Thresholds::new(8, 5, 5), Err(NotAQuorum::Bricks(8)));
        assert_eq!(Thresholds::new(0, 0, 0), Err(NotAQuorum::Bricks(0)));
        assert_eq!(Thresholds::new(3, 1, 3), Err(NotAQuorum::WritesMissWrites));
        assert_eq!(Thresholds::new(3, 2, 1), Err(NotAQuorum::ReadsMissWrites));
        assert_eq!(Thresholds::new(3, 4, 3), Err(NotAQuorum::OutOfRange));
        for bricks in 1..=7 {
            let all = Thresholds::majority(bricks).expect("a majority is a quorum");
            assert_eq!(all.refusals() + all.write(), all.bricks() + 1);
        }
        assert_eq!(Thresholds::new(3, 3, 1).map(Thresholds::refusals), Ok(3));
        assert_eq!(Thresholds::new(3, 2, 3).map(Thresholds::refusals), Ok(2));
    }
}
