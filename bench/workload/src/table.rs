//! The table of workloads: the first sizes, the share that is deleted, and the sizes after that.

use std::fmt;
use std::str::FromStr;

/// Bytes of every key.
pub const KEY_BYTES: u32 = 30;

/// Sizes of values in bytes: even over `min..=max`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sizes {
    pub min: u32,
    pub max: u32,
}

impl Sizes {
    const fn fixed(bytes: u32) -> Sizes {
        Sizes { min: bytes, max: bytes }
    }

    const fn uniform(min: u32, max: u32) -> Sizes {
        Sizes { min, max }
    }

    /// Mean bytes of a value, rounded down.
    pub const fn mean(self) -> u32 {
        self.min.midpoint(self.max)
    }
}

/// A row of the table; `Fill` only fills, with the sizes of W1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Workload {
    Fill,
    W1,
    W2,
    W3,
    W4,
    W5,
    W6,
    W7,
    W8,
}

impl Workload {
    pub const ALL: [Workload; 9] = [
        Workload::Fill,
        Workload::W1,
        Workload::W2,
        Workload::W3,
        Workload::W4,
        Workload::W5,
        Workload::W6,
        Workload::W7,
        Workload::W8,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Workload::Fill => "fill",
            Workload::W1 => "W1",
            Workload::W2 => "W2",
            Workload::W3 => "W3",
            Workload::W4 => "W4",
            Workload::W5 => "W5",
            Workload::W6 => "W6",
            Workload::W7 => "W7",
            Workload::W8 => "W8",
        }
    }

    /// Sizes of the values that fill the store.
    pub const fn before(self) -> Sizes {
        match self {
            Workload::Fill | Workload::W1 | Workload::W2 | Workload::W3 => Sizes::fixed(100),
            Workload::W4 | Workload::W5 => Sizes::uniform(100, 150),
            Workload::W6 => Sizes::uniform(100, 200),
            Workload::W7 => Sizes::uniform(1000, 2000),
            Workload::W8 => Sizes::uniform(50, 150),
        }
    }

    /// The number of objects, of a hundred of the full store, that are deleted at random before the sizes
    /// change.
    pub const fn deleted_percent(self) -> u32 {
        match self {
            Workload::Fill | Workload::W1 | Workload::W2 | Workload::W4 => 0,
            Workload::W3 | Workload::W5 | Workload::W7 | Workload::W8 => 90,
            Workload::W6 => 50,
        }
    }

    /// Sizes of the values that replace the first ones; none when nothing is replaced.
    pub const fn after(self) -> Option<Sizes> {
        match self {
            Workload::Fill => None,
            Workload::W1 => Some(Sizes::fixed(100)),
            Workload::W2 | Workload::W3 => Some(Sizes::fixed(130)),
            Workload::W4 | Workload::W5 => Some(Sizes::uniform(200, 250)),
            Workload::W6 => Some(Sizes::uniform(1000, 2000)),
            Workload::W7 => Some(Sizes::uniform(1500, 2500)),
            Workload::W8 => Some(Sizes::uniform(5000, 15_000)),
        }
    }

    /// Bytes of key and value of the largest object that the workload writes.
    pub fn object_bytes_max(self) -> u64 {
        let after = self.after().map_or(0, |sizes| sizes.max);
        u64::from(KEY_BYTES + self.before().max.max(after))
    }

    /// Bytes of key and value of the smallest object that the workload writes.
    pub fn object_bytes_min(self) -> u64 {
        let after = self.after().map_or(u32::MAX, |sizes| sizes.min);
        u64::from(KEY_BYTES + self.before().min.min(after))
    }

    /// Mean bytes of key and value in the phase whose objects are smaller.
    pub fn small_object_bytes(self) -> u64 {
        let before = self.before().mean();
        let value = self.after().map_or(before, |sizes| sizes.mean().min(before));
        u64::from(KEY_BYTES + value)
    }

    /// The target of live bytes that makes `used_percent` of a log of `log_bytes` live entries, when an entry
    /// takes `overhead_bytes` beyond key and value. The target is for the phase whose objects are smaller, so
    /// that the log is never fuller than that.
    pub fn live_bytes_in_log(self, log_bytes: u64, used_percent: u32, overhead_bytes: u32) -> u64 {
        let object = u128::from(self.small_object_bytes());
        let entry = object + u128::from(overhead_bytes);
        let live = u128::from(log_bytes) * u128::from(used_percent) * object / (entry * 100);
        u64::try_from(live).expect("a part of the log when at most 100 percent are used")
    }

    /// About how many inserts and deletes the workload makes at a target of `live_bytes`.
    pub fn step_count_about(self, live_bytes: u64) -> u64 {
        let objects = |sizes: Sizes| live_bytes / u64::from(KEY_BYTES + sizes.mean());
        let filled = objects(self.before());
        let replaced = self.after().map_or(0, |sizes| {
            let deleted = filled * u64::from(self.deleted_percent()) / 100;
            let written = objects(sizes) * u64::from(Workload::WRITTEN_TIMES);
            // Objects deleted at once plus objects deleted to make room: in the end about as many bytes as
            // are written.
            deleted + written + (filled - deleted) + written / 2
        });
        filled + replaced
    }

    /// How many times the live bytes are written after the sizes change; the refill after a delete counts.
    pub const WRITTEN_TIMES: u32 = 2;
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownWorkload(pub String);

impl fmt::Display for UnknownWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no workload '{}'; there are fill and W1 to W8", self.0)
    }
}

impl std::error::Error for UnknownWorkload {}

impl FromStr for Workload {
    type Err = UnknownWorkload;

    fn from_str(text: &str) -> Result<Workload, UnknownWorkload> {
        let found = Workload::ALL.into_iter().find(|w| w.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownWorkload(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_found_by_its_name() {
        for workload in Workload::ALL {
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
        assert_eq!("w3".parse(), Ok(Workload::W3));
        assert_eq!("W9".parse::<Workload>(), Err(UnknownWorkload("W9".into())));
    }

    #[test]
    fn the_table_is_that_of_the_source() {
        let row = |w: Workload| (w.before(), w.deleted_percent(), w.after());
        let fixed = Sizes::fixed;
        let uniform = Sizes::uniform;
        assert_eq!(row(Workload::Fill), (fixed(100), 0, None));
        assert_eq!(row(Workload::W1), (fixed(100), 0, Some(fixed(100))));
        assert_eq!(row(Workload::W2), (fixed(100), 0, Some(fixed(130))));
        assert_eq!(row(Workload::W3), (fixed(100), 90, Some(fixed(130))));
        assert_eq!(row(Workload::W4), (uniform(100, 150), 0, Some(uniform(200, 250))));
        assert_eq!(row(Workload::W5), (uniform(100, 150), 90, Some(uniform(200, 250))));
        assert_eq!(row(Workload::W6), (uniform(100, 200), 50, Some(uniform(1000, 2000))));
        assert_eq!(row(Workload::W7), (uniform(1000, 2000), 90, Some(uniform(1500, 2500))));
        assert_eq!(row(Workload::W8), (uniform(50, 150), 90, Some(uniform(5000, 15_000))));
    }

    #[test]
    fn the_target_fills_the_log_as_far_as_asked_in_the_phase_of_small_objects() {
        // 1000 entries of 30 + 100 + 22 bytes are 90 % of the log.
        let log_bytes = 152 * 1000 * 100 / 90 + 1;
        for workload in [Workload::W1, Workload::W2, Workload::W8] {
            assert_eq!(workload.live_bytes_in_log(log_bytes, 90, 22), 130 * 1000, "{workload}");
        }
        assert_eq!(Workload::W7.live_bytes_in_log(1552 * 100, 90, 22), 1530 * 90);
    }
}
