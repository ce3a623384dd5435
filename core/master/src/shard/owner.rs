//! What the shard asks of the role that owns tablets.

use ramhold_base::{KeyHash, SegmentId, TableId};

pub(crate) trait Owner {
    /// Where a key of the log lies; none: the table is not known.
    fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash>;
    /// Whether cleaning may let a segment leave the log.
    fn may_leave(&self, segment: SegmentId) -> bool;
}
