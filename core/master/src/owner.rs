//! The service as the shard's `Owner`: answers the shard's questions about tablets and recoveries.

use crate::ceiling::Ceiling;
use crate::settling::Settlings;
use crate::tablets::{Tablet, Tablets};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, SegmentId, StreamId, TableId, Version};
use ramhold_log::HashRange;
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

    /// A tablet is in one stream, and while it moves in two. A range that is no tablet yet may be in any.
    fn may_hold(&self, stream: StreamId, range: HashRange) -> bool {
        let tablet = self.tablets.starting_at(range.table, range.first).filter(|it| it.range == range);
        let is_in = |it: &Tablet| it.stream == stream || it.moved.is_some_and(|moved| moved.stream == stream);
        tablet.is_none_or(is_in) || planted(Defect::HeadTellsAll)
    }

    /// Side segments of a recovery stay in the log until devices have them.
    fn may_leave(&self, segment: SegmentId) -> bool {
        !self.settling.has(segment)
    }

    fn version_after_all(&self) -> Version {
        self.ceiling.needed.next()
    }
}
