//! The names of the things that a backup holds: the segment of a replica, a replica in this life, a divided segment.

use ramhold_base::{LogId, RecoveryId, SegmentId, ServerId, ShardId, StreamId};
use ramhold_wire::Header;
use std::ops::RangeInclusive;

/// The segment of which a replica is a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ReplicaKey {
    pub log: LogId,
    pub segment: SegmentId,
    pub stream: StreamId,
}

impl ReplicaKey {
    /// The segment of its sender that a request names.
    pub fn of(header: &Header) -> ReplicaKey {
        let log = LogId { server: header.sender, shard: header.shard };
        ReplicaKey { log, segment: header.segment, stream: header.stream }
    }

    /// The keys of all replicas of a server.
    pub fn all_of(server: ServerId) -> RangeInclusive<ReplicaKey> {
        let first = ReplicaKey {
            log: LogId { server, shard: ShardId(0) },
            segment: SegmentId(0),
            stream: StreamId(0),
        };
        let last = ReplicaKey {
            log: LogId { server, shard: ShardId(u16::MAX) },
            segment: SegmentId(u64::MAX),
            stream: StreamId(u16::MAX),
        };
        first..=last
    }
}

/// The number of a replica within this life. A segment that is opened again gets another number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ReplicaNumber(pub u64);

/// Names one segment, divided for one recovery up to one end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DivisionKey {
    pub recovery: RecoveryId,
    /// The digest of the ranges.
    pub digest: u64,
    pub replica: ReplicaNumber,
    pub end: u32,
}
