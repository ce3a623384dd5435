//! The facts about tablets that the shard asks of the role that owns them.

use ramhold_base::{KeyHash, SegmentId, StreamId, TableId, Version};
use ramhold_log::HashRange;

pub trait Owner {
    /// The placement hash of a key of the log. `None`: the table is not known.
    fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash>;
    /// Whether a stream may hold data of a tracked range.
    fn may_hold(&self, stream: StreamId, range: HashRange) -> bool;
    /// Whether cleaning may let a segment leave the log.
    fn may_leave(&self, segment: SegmentId) -> bool;
    /// A version above all versions that were handed out.
    fn version_after_all(&self) -> Version;
}
