//! The purposes of this role's calls: what each answer is the answer to.

use ramhold_base::{Instant, LeaseId, RecoveryId, SegmentId, StreamId, TableId};
use ramhold_log::HashRange;
use ramhold_shard::ReadBack;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PartitionKey {
    pub recovery: RecoveryId,
    pub partition: u32,
}

/// One request for a segment's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    pub key: PartitionKey,
    pub attempt: u32,
    pub job: usize,
    pub source: usize,
    pub asked: Instant,
}

/// The purpose of a call of this role.
#[derive(Clone, Debug)]
pub(crate) enum Context {
    CeilingRaise,
    LeaseCheck(Vec<LeaseId>),
    ReadLease,
    /// Asks which tablets of this table the coordinator has stored as this shard's.
    Confirm(TableId),
    /// Reports that backups have everything that was recovered to this position.
    Settled {
        stream: StreamId,
        first: SegmentId,
        /// The backups' devices have it too.
        flushed: bool,
    },
    /// Asks the coordinator to store that this stretch is in another stream now.
    Reclassed(HashRange),
    Fetch(Fetch),
    ReadBack(ReadBack),
    /// Reports the success (`done`) or the failure of this attempt.
    Recovered {
        key: PartitionKey,
        attempt: u32,
        done: bool,
    },
}
