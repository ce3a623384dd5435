//! The applied set: stamps that a brick has stored, and that newer ones have overwritten since.
//!
//! A write that is repeated, or a repair, may bring such a stamp. `Applied` is then the truth; `Rejected` would tell the
//! writer that its value never was, and it would be written a second time.
//!
//! The set is bounded: stamps up to a bound are forgotten. The bound only rises. For a stamp that is not above it, the
//! set has no answer.

use ramhold_base::Stamp;
use ramhold_base::planted::{Defect, planted};
use std::collections::{BTreeMap, BTreeSet};

/// The set of one brick.
#[derive(Clone, Debug)]
pub struct Applied<K> {
    stamps: BTreeSet<(Stamp, K)>,
    /// Stamps with this time or an earlier one are forgotten.
    bound: u64,
}

impl<K> Default for Applied<K> {
    fn default() -> Applied<K> {
        Applied { stamps: BTreeSet::new(), bound: 0 }
    }
}

impl<K: Ord + Clone> Applied<K> {
    /// A stamp was overwritten.
    pub fn note(&mut self, key: &K, stamp: Stamp) {
        if stamp.time > self.bound && !planted(Defect::QuorumForgetsApplied) {
            self.stamps.insert((stamp, key.clone()));
        }
    }

    pub fn has(&self, key: &K, stamp: Stamp) -> bool {
        self.stamps.contains(&(stamp, key.clone()))
    }

    /// Whether nothing is known of this stamp.
    pub fn has_forgotten(&self, stamp: Stamp) -> bool {
        stamp.time <= self.bound
    }

    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Forgets stamps with this time or an earlier one.
    pub fn forget(&mut self, bound: u64) {
        self.bound = self.bound.max(bound);
        while self.stamps.first().is_some_and(|(stamp, _)| stamp.time <= self.bound) {
            self.stamps.pop_first();
        }
    }

    /// The oldest stamp that is remembered.
    pub fn oldest(&self) -> Option<Stamp> {
        self.stamps.first().map(|(stamp, _)| *stamp)
    }

    /// The number of stamps that are remembered.
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// The stamps of each key.
    pub fn by_key(&self) -> BTreeMap<K, Vec<Stamp>> {
        let mut by_key: BTreeMap<K, Vec<Stamp>> = BTreeMap::new();
        for (stamp, key) in &self.stamps {
            by_key.entry(key.clone()).or_default().push(*stamp);
        }
        by_key
    }
}
