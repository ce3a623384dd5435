//! The changes of the server list, from which the differences between its versions are told.
//!
//! Not here: the list itself (`state`), which server has which version of it (`links`).

use ramhold_base::ServerId;
use std::collections::{BTreeMap, VecDeque};

/// The most removals that are remembered, for differences of the list.
const REMOVED_COUNT_MAX: usize = 4096;

/// The changes of the list since this coordinator started, for differences.
#[derive(Default, Debug)]
pub(crate) struct ListHistory {
    /// Differences can be told from this version on.
    from: u64,
    changed: BTreeMap<ServerId, u64>,
    removed: VecDeque<(u64, ServerId)>,
    /// The version in which accounts were last changed.
    accounts: u64,
}

impl ListHistory {
    /// Nothing is known of the changes before this version.
    pub fn new(from: u64) -> ListHistory {
        ListHistory { from, ..ListHistory::default() }
    }

    pub fn note_changed(&mut self, version: u64, id: ServerId) {
        self.changed.insert(id, version);
    }

    pub fn note_removed(&mut self, version: u64, id: ServerId) {
        self.changed.remove(&id);
        self.removed.push_back((version, id));
        if self.removed.len() > REMOVED_COUNT_MAX
            && let Some((version, _)) = self.removed.pop_front()
        {
            self.from = version;
        }
    }

    pub fn note_accounts(&mut self, version: u64) {
        self.accounts = version;
    }

    /// Whether accounts were changed after this version.
    pub fn has_accounts_since(&self, reached: u64) -> bool {
        self.accounts > reached
    }

    /// Whether the difference between these versions can be told.
    pub fn has_difference(&self, reached: u64, to: u64) -> bool {
        reached != 0 && reached >= self.from && reached <= to
    }

    pub fn is_changed_since(&self, reached: u64, id: ServerId) -> bool {
        self.changed.get(&id).is_some_and(|version| *version > reached)
    }

    pub fn removed_since(&self, reached: u64) -> impl Iterator<Item = ServerId> {
        self.removed.iter().filter(move |(version, _)| *version > reached).map(|(_, id)| *id)
    }
}
