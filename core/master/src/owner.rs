//! The master as the shard's `Owner`: answers the shard's questions about tablets and recoveries.

use crate::Master;
use crate::replay::{PartitionKey, PartitionReplay};
use crate::settling::Settlings;
use crate::shard::{Owner, Shard};
use crate::tablets::Tablets;
use ramhold_base::{KeyHash, SegmentId, TableId};
use std::collections::BTreeMap;

pub(crate) struct Owns<'a> {
    tablets: &'a Tablets,
    replays: &'a BTreeMap<PartitionKey, PartitionReplay>,
    settling: &'a Settlings,
}

impl Owner for Owns<'_> {
    fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash> {
        self.tablets.hash(table, key)
    }

    /// Side segments of a recovery stay in the log until devices have them.
    fn may_leave(&self, segment: SegmentId) -> bool {
        !self.settling.has(segment) && !self.replays.values().any(|replay| replay.settling().has(segment))
    }
}

impl Master {
    pub(crate) fn shard_and_owner(&mut self) -> (&mut Shard, Owns<'_>) {
        let Master { shard, tablets, replays, settling, .. } = self;
        (shard, Owns { tablets, replays, settling })
    }
}
