//! Records the answers that clients got, and checks that the cluster's contents agree with them.
//!
//! A key has one writer, which does one operation at a time. So a read must find the last acknowledged write,
//! or a write whose outcome is unknown.

use std::collections::BTreeMap;
use std::time::Instant;

/// A value in comparable form. The value's bytes are made from it.
pub type Stamp = u64;

#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    pub version: u64,
    pub stamp: Stamp,
    pub at: Instant,
}

/// One key's history.
#[derive(Default, Clone, Debug)]
pub struct KeyHistory {
    pub last: Option<Acknowledged>,
    /// Writes acknowledged before the last one, oldest first, when a test needs them.
    pub earlier: Vec<Acknowledged>,
    pub unknown: Vec<Stamp>,
}

#[derive(Default, Debug)]
pub struct Journal {
    pub keys: BTreeMap<Vec<u8>, KeyHistory>,
    pub reads: u64,
    pub writes: u64,
    /// Sentences about answers that were wrong when they arrived.
    pub violations: Vec<String>,
    pub longest_gap: std::time::Duration,
    /// Refused and unknown writes, by the error text.
    pub troubles: BTreeMap<String, u64>,
}

/// A fault of a key.
#[derive(Clone, Debug)]
pub enum Finding {
    /// Acknowledged writes are not there; the oldest of them was acknowledged at this time.
    Lost { what: String, since: Instant },
    /// The value was never written, or a version has other bytes.
    Wrong { what: String },
}

impl KeyHistory {
    pub fn acknowledge(&mut self, now: Acknowledged) -> Option<String> {
        let before = self.last.replace(now);
        self.earlier.extend(before);
        let before = before.filter(|before| before.version >= now.version)?;
        Some(format!("version {} was acknowledged after version {}", now.version, before.version))
    }

    /// Compares with the result of a read: version and stamp, or nothing.
    pub fn judge(&self, found: Option<(u64, Option<Stamp>)>) -> Option<Finding> {
        let (version, stamp) = found.map_or((0, None), |(version, stamp)| (version, stamp));
        let acknowledged = || self.earlier.iter().chain(&self.last);
        if let Some(first) = acknowledged().find(|write| write.version > version) {
            let last = self.last.expect("there is an acknowledged write");
            let what = format!("version {version} found, version {} was acknowledged", last.version);
            return Some(Finding::Lost { what, since: first.at });
        }
        found?;
        let wrong = |what: String| Some(Finding::Wrong { what });
        let Some(stamp) = stamp else {
            return wrong(format!("version {version} has bytes that nobody wrote"));
        };
        match acknowledged().find(|write| write.version == version) {
            Some(write) if write.stamp == stamp => None,
            Some(_) => wrong(format!("version {version} has other bytes than acknowledged")),
            None if self.unknown.contains(&stamp) => None,
            None => wrong(format!("version {version} was never acknowledged nor possible")),
        }
    }
}

impl Journal {
    /// Adds the observations of another client on its own keys.
    pub fn add(&mut self, other: Journal) {
        self.keys.extend(other.keys);
        self.reads += other.reads;
        self.writes += other.writes;
        self.violations.extend(other.violations);
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        for (what, count) in other.troubles {
            *self.troubles.entry(what).or_default() += count;
        }
    }
}

/// Words of 8 bytes in a large value, and at most in any other value. One value in `LARGE_ONE_IN` is large.
const LARGE_WORDS: u64 = 8192;
const SMALL_WORDS_MAX: u64 = 40;
const LARGE_ONE_IN: u64 = 16;

/// A value made from its stamp: 8 bytes of stamp, then bytes that follow from it. One in sixteen is large, so
/// that segments fill and close while a test runs.
pub fn value_of(stamp: Stamp) -> Vec<u8> {
    let mut rng = ramhold_base::Rng::new(stamp);
    let words = if rng.chance(1, LARGE_ONE_IN) { LARGE_WORDS } else { 1 + rng.below(SMALL_WORDS_MAX) };
    let mut value = stamp.to_le_bytes().to_vec();
    value.extend((0..words).flat_map(|_| rng.u64().to_le_bytes()));
    value
}

/// The average size of values.
pub fn value_bytes_mean() -> u64 {
    let small_words = SMALL_WORDS_MAX / 2;
    8 + 8 * (LARGE_WORDS + (LARGE_ONE_IN - 1) * small_words) / LARGE_ONE_IN
}

/// The stamp of a value, if the value is a whole one of ours.
pub fn stamp_of(value: &[u8]) -> Option<Stamp> {
    let stamp = Stamp::from_le_bytes(value.get(..8)?.try_into().ok()?);
    (value_of(stamp) == value).then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> KeyHistory {
        let at = Instant::now();
        let mut history = KeyHistory::default();
        assert_eq!(history.acknowledge(Acknowledged { version: 3, stamp: 30, at }), None);
        assert_eq!(history.acknowledge(Acknowledged { version: 5, stamp: 50, at }), None);
        history.unknown.push(60);
        history
    }

    #[test]
    fn what_may_be_found() {
        let history = history();
        assert!(history.judge(Some((5, Some(50)))).is_none());
        assert!(history.judge(Some((6, Some(60)))).is_none());
        assert!(KeyHistory::default().judge(None).is_none());
    }

    #[test]
    fn what_may_not_be_found() {
        let history = history();
        assert!(matches!(history.judge(None), Some(Finding::Lost { .. })));
        assert!(matches!(history.judge(Some((3, Some(30)))), Some(Finding::Lost { .. })));
        assert!(matches!(history.judge(Some((5, Some(30)))), Some(Finding::Wrong { .. })));
        assert!(matches!(history.judge(Some((6, Some(50)))), Some(Finding::Wrong { .. })));
        assert!(matches!(history.judge(Some((6, None))), Some(Finding::Wrong { .. })));
        let at = Instant::now();
        assert!(history.clone().acknowledge(Acknowledged { version: 5, stamp: 1, at }).is_some());
    }

    #[test]
    fn values_are_as_large_as_said_on_average() {
        let count = 10_000;
        let bytes: u64 = (0..count).map(|stamp| value_of(stamp).len() as u64).sum();
        assert!((bytes / count).abs_diff(value_bytes_mean()) < value_bytes_mean() / 10, "{bytes}");
    }

    #[test]
    fn a_value_is_known_by_its_stamp() {
        let value = value_of(77);
        assert_eq!(stamp_of(&value), Some(77));
        let mut damaged = value;
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(stamp_of(&damaged), None);
        assert_eq!(stamp_of(b"short"), None);
    }
}
