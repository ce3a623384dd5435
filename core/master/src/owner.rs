//! The master as the shard's `Owner`: answers the shard's questions about tablets and recoveries.

use crate::ceiling::Ceiling;
use crate::replay::{PartitionKey, PartitionReplay};
use crate::settling::Settlings;
use crate::tablets::Tablets;
use crate::{Context, Master};
use ramhold_base::{KeyHash, SegmentId, TableId, Version};
use ramhold_shard::{Owner, Shard};
use ramhold_wire::Calls;
use std::collections::BTreeMap;

pub(crate) struct Owns<'a> {
    tablets: &'a Tablets,
    replays: &'a BTreeMap<PartitionKey, PartitionReplay>,
    settling: &'a Settlings,
    ceiling: &'a Ceiling,
}

impl Owner for Owns<'_> {
    fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash> {
        self.tablets.hash(table, key)
    }

    /// Side segments of a recovery stay in the log until devices have them.
    fn may_leave(&self, segment: SegmentId) -> bool {
        !self.settling.has(segment) && !self.replays.values().any(|replay| replay.settling().has(segment))
    }

    fn version_after_all(&self) -> Version {
        self.ceiling.needed.next()
    }
}

impl Master {
    pub(crate) fn shard_and_owner(&mut self) -> (&mut Shard, Owns<'_>) {
        let (shard, owner, _) = self.shard_owner_and_calls();
        (shard, owner)
    }

    pub(crate) fn shard_owner_and_calls(&mut self) -> (&mut Shard, Owns<'_>, &mut Calls<Context>) {
        let Master { shard, tablets, replays, settling, ceiling, calls, .. } = self;
        (shard, Owns { tablets, replays, settling, ceiling }, calls)
    }
}
