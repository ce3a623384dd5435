//! The operations of a load and the distribution of their objects: the caller's own, or one of YCSB's six.
//!
//! Source: Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, and the core workloads of
//! that program. Two things differ, for every store alike. A write replaces the whole value, since no store
//! here has fields. A scan reads objects with consecutive numbers in one multi-operation, since tables have
//! no order of keys.

use super::link::Kind;
use clap::ValueEnum;
use ramhold_base::Rng;
use std::fmt;

/// The most objects that a scan reads; it reads 1 to so many, evenly.
pub const SCAN_COUNT_MAX: u64 = 100;

/// The share of each kind of operation in percent, in the order of `Kind::ALL`. Together they are 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    shares: [u8; Kind::ALL.len()],
}

/// How likely an object is to be chosen.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// All objects alike.
    Uniform,
    /// A few objects most of the time, spread over the table: rank k with a likelihood of 1 by k^0.99.
    Zipfian,
    /// The newest objects most of the time, otherwise like zipfian.
    Latest,
}

/// A core workload of YCSB.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ycsb {
    /// 50 % reads, 50 % writes; zipfian.
    A,
    /// 95 % reads, 5 % writes; zipfian.
    B,
    /// Reads; zipfian.
    C,
    /// 95 % reads, 5 % inserts; latest.
    D,
    /// 95 % scans, 5 % inserts; zipfian.
    E,
    /// 50 % reads, 50 % reads with a write of the same object; zipfian.
    F,
}

impl fmt::Display for Distribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
        })
    }
}

impl Mix {
    const fn of(read: u8, write: u8, insert: u8, modify: u8, scan: u8) -> Mix {
        assert!(read + write + insert + modify + scan == 100);
        Mix { shares: [read, write, insert, modify, scan] }
    }

    /// Reads, and otherwise writes. `percent` is at most 100.
    pub const fn reads(percent: u8) -> Mix {
        Mix::of(percent, 100 - percent, 0, 0, 0)
    }

    pub fn percent(&self, kind: Kind) -> u8 {
        self.shares[kind as usize]
    }

    pub fn pick(&self, rng: &mut Rng) -> Kind {
        let mut roll = rng.below(100);
        for (kind, share) in Kind::ALL.into_iter().zip(self.shares) {
            match roll.checked_sub(u64::from(share)) {
                None => return kind,
                Some(rest) => roll = rest,
            }
        }
        unreachable!("the shares are 100 in all")
    }
}

impl Ycsb {
    pub fn mix(self) -> Mix {
        match self {
            Ycsb::A => Mix::reads(50),
            Ycsb::B => Mix::reads(95),
            Ycsb::C => Mix::reads(100),
            Ycsb::D => Mix::of(95, 0, 5, 0, 0),
            Ycsb::E => Mix::of(0, 0, 5, 0, 95),
            Ycsb::F => Mix::of(50, 0, 0, 50, 0),
        }
    }

    pub fn distribution(self) -> Distribution {
        match self {
            Ycsb::D => Distribution::Latest,
            Ycsb::A | Ycsb::B | Ycsb::C | Ycsb::E | Ycsb::F => Distribution::Zipfian,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_as_often_as_their_shares_say() {
        const COUNT: u32 = 100_000;
        for workload in [Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::D, Ycsb::E, Ycsb::F] {
            let (mix, mut rng) = (workload.mix(), Rng::new(3));
            let mut counts = [0u32; Kind::ALL.len()];
            (0..COUNT).for_each(|_| counts[mix.pick(&mut rng) as usize] += 1);
            for kind in Kind::ALL {
                let (share, expected) = (counts[kind as usize], u32::from(mix.percent(kind)) * COUNT / 100);
                assert!(share.abs_diff(expected) < COUNT / 100, "{workload:?} {kind:?}: {share}");
                assert_eq!(share == 0, expected == 0, "{workload:?} {kind:?}");
            }
        }
    }
}
