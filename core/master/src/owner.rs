//! The service as the shard's `Owner`: answers the shard's questions about tablets and recoveries.

use crate::ceiling::Ceiling;
use crate::settling::Settlings;
use crate::tablets::Tablets;
use ramhold_base::{KeyHash, SegmentId, TableId, Version};
use ramhold_shard::Owner;

pub(crate) struct Owns<'a> {
    pub tablets: &'a Tablets,
    pub settling: &'a Settlings,
    pub ceiling: &'a Ceiling,
}

impl Owner for Owns<'_> {
    fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash> {
        self.tablets.hash(table, key)
    }

    /// Side segments of a recovery stay in the log until devices have them.
    fn may_leave(&self, segment: SegmentId) -> bool {
        !self.settling.has(segment)
    }

    fn version_after_all(&self) -> Version {
        self.ceiling.needed.next()
    }
}
