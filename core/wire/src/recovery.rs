//! The conversation of a crash recovery. Protocol: docs/protocols/recovery.md.

use crate::Opcode;
use crate::control::{Empty, Message, encode_into};
use crate::packed;
pub use crate::packed::{PartitionRange, RecoverySegment, SegmentSource};
pub use crate::read_times::ReadTimes;
use crate::status::DistanceBytes;
use minicbor::{Decode, Encode};
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{
    ClusterTime, Epoch, KeyHash, LogId, RecoveryId, SegmentId, ServerId, ShardId, StreamId, TableId, Version,
};

/// Coordinator to backup: this server is dead. Accept nothing from it any more, and report the replicas that
/// you hold of it. Repeatable; each answer is as of then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Fence {
    #[n(0)]
    pub crashed: ServerId,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct Fenced {
    #[n(0)]
    pub replicas: Vec<ReplicaReport>,
    /// For how long the dead server may still answer reads on the strength of the appends that this backup
    /// has accepted from it.
    #[n(1)]
    pub lease_millis: u64,
}

impl Message for Fence {
    const OPCODE: Opcode = Opcode::Fence;
    type Reply = Fenced;
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReplicaReport {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub segment: SegmentId,
    #[n(3)]
    pub epoch: Epoch,
    #[n(4)]
    pub closed: bool,
    /// Bytes that the newest certificate covers. A replica without any certificate is not reported.
    #[n(5)]
    pub certified: u32,
    #[n(6)]
    pub primary: bool,
    /// The replica was not wholly on the device when the buffers were lost, so it never proves a head.
    #[n(7)]
    pub cut: bool,
    #[n(8)]
    pub side: bool,
    /// Cluster time of the certificate.
    #[n(9)]
    pub time: ClusterTime,
    /// The opening of the segment: told for every open replica, and for the newest closed replica of a stream
    /// that is not one of a side log.
    #[n(10)]
    pub opening: Option<Opening>,
}

/// The entries that a head segment starts with.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Opening {
    /// All segments of the stream, this one included.
    #[n(0)]
    #[cbor(with = "packed")]
    pub digest: Vec<SegmentId>,
    #[n(1)]
    pub safe_version: Version,
    #[n(2)]
    pub stats: Vec<TabletStat>,
}

/// A row of the statistics in an opening: the data that lay somewhere in a range of a table, in addition to
/// other rows (C3, F3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct TabletStat {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    #[n(2)]
    pub last: KeyHash,
    #[n(3)]
    pub bytes: u64,
    #[n(4)]
    pub records: u64,
}

/// Segments of one stream of a dead log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecoveryStream {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    #[cbor(with = "packed")]
    pub segments: Vec<RecoverySegment>,
}

/// Another dead log. The server that is dead now had recovered some ranges of a partition from it, and that
/// server's devices may not have had all of that data.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct EarlierLog {
    #[n(0)]
    pub crashed: ServerId,
    /// The division of this log for this recovery, with a number of its own.
    #[n(1)]
    pub recovery: RecoveryId,
    /// The ranges of all partitions, as far as they were in this log, at their positions there.
    #[n(2)]
    #[cbor(with = "packed")]
    pub ranges: Vec<PartitionRange>,
    #[n(3)]
    pub streams: Vec<RecoveryStream>,
}

/// Coordinator to recovery master: recover this partition. The request is accepted at once; `Recovered` tells
/// the end. Idempotent by (recovery, partition, attempt); a higher attempt replaces a lower one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Recover {
    #[n(0)]
    pub recovery: RecoveryId,
    #[n(1)]
    pub crashed: ServerId,
    #[n(2)]
    pub partition: u32,
    #[n(3)]
    pub attempt: u32,
    /// The ranges of all partitions of this recovery, so that backups divide a segment once for all.
    #[n(4)]
    #[cbor(with = "packed")]
    pub ranges: Vec<PartitionRange>,
    /// The streams that the partition is in, which are to be replayed.
    #[n(5)]
    pub streams: Vec<RecoveryStream>,
    /// At least the maximum over all heads of the dead log.
    #[n(6)]
    pub safe_version: Version,
    /// Else 0. After a reported loss of this log or of an earlier owner's log, or when the log of an earlier
    /// owner had nothing of a range: versions jump to here, also those of existing keys.
    #[n(7)]
    pub version_floor: Version,
    /// Other dead logs from which ranges of the partition are to be recovered as well.
    #[n(8)]
    #[cbor(default)]
    pub earlier: Vec<EarlierLog>,
    /// If set, success is reported when all data is taken in, before any of it is replicated; else when it is
    /// durable.
    #[n(9)]
    #[cbor(default)]
    pub early: bool,
    /// Fewer backups than a log had replicas hold its last segment up to the end of the replay, so the bytes
    /// there may never have been acknowledged. Results are not told again before the partition has R replicas
    /// of its own.
    #[n(10)]
    #[cbor(default)]
    pub tail_short: bool,
}

impl Message for Recover {
    const OPCODE: Opcode = Opcode::Recover;
    type Reply = Empty;
}

impl Recover {
    /// Ranges and streams as a message holds them. They are most of the message and the same for many
    /// partitions, so they are encoded once.
    pub fn encode_common(ranges: &[PartitionRange], streams: &[RecoveryStream]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = minicbor::Encoder::new(&mut bytes);
        encoder.bytes(&packed::packed(ranges)).expect("writing to a vector cannot fail");
        encode_into(&mut bytes, &streams);
        bytes
    }

    /// Encodes the message, with `common` for its ranges and streams.
    pub fn encode_around(&self, common: &[u8], out: &mut Vec<u8>) {
        minicbor::Encoder::new(&mut *out).array(11).expect("writing to a vector cannot fail");
        encode_into(out, &self.recovery);
        encode_into(out, &self.crashed);
        encode_into(out, &self.partition);
        encode_into(out, &self.attempt);
        out.extend_from_slice(common);
        encode_into(out, &self.safe_version);
        encode_into(out, &self.version_floor);
        encode_into(out, &self.earlier);
        encode_into(out, &self.early);
        encode_into(out, &self.tail_short);
    }
}

/// Recovery master to coordinator: how the recovery of a partition ended. On success the partition is taken
/// in (`early`) or durable, and waits to be published. The answer `Ok` publishes it: from then on the sender
/// serves. `NotAllowed`: give the partition up. Repeated until answered.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Recovered {
    #[n(0)]
    pub recovery: RecoveryId,
    #[n(1)]
    pub partition: u32,
    #[n(2)]
    pub attempt: u32,
    #[n(3)]
    pub outcome: RecoveryOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum RecoveryOutcome {
    #[n(0)]
    Done {
        /// Where each range of the partition now lives, in the order of the ranges.
        #[n(0)]
        assignments: Vec<Assignment>,
        /// Log bytes read from backups for this partition, and records replayed.
        #[n(1)]
        bytes: u64,
        #[n(2)]
        records: u64,
        #[n(3)]
        #[cbor(default)]
        times: ReplayTimes,
        /// The part of `bytes` that came from the dead owner's own log. `None`: not told.
        #[n(4)]
        own_bytes: Option<u64>,
    },
    #[n(1)]
    Failed {
        #[n(0)]
        reason: String,
        /// The reason is a lack of memory, or of frames on the backups.
        #[n(1)]
        #[cbor(default)]
        no_room: bool,
    },
}

/// Times of one recovery master: microseconds since it accepted the partition, and sums over its requests for
/// records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct ReplayTimes {
    /// The first records have come.
    #[n(0)]
    pub first: u64,
    /// The last records have come.
    #[n(1)]
    pub fetched: u64,
    /// All records are taken in.
    #[n(2)]
    pub replayed: u64,
    /// The side segments are whole on their backups.
    #[n(3)]
    pub replicated: u64,
    /// The head that names the side segments is durable.
    #[n(4)]
    pub durable: u64,
    /// Requests that were answered with records.
    #[n(5)]
    pub fetches: u64,
    /// The sum of the times from a request to its answer.
    #[n(6)]
    pub fetching: u64,
    /// The time that the backups needed to read the segments. Each reading is told to every master that asks
    /// for the segment, and mostly ended before the master asked.
    #[n(7)]
    pub reading: u64,
    /// The part of `fetching` from the question's arrival at the backup to the backup's answer.
    #[n(8)]
    pub waiting: u64,
    /// Bytes of records that came from far: from another zone, or in a grid from more than one hop away.
    /// None: the servers have neither zones nor places.
    #[n(9)]
    pub far_bytes: Option<u64>,
    /// Bytes of records by the distance of the backups that sent them. None: servers have neither places nor zones, or the
    /// recovery master does not tell.
    #[n(10)]
    pub fetched_bytes: Option<DistanceBytes>,
}

/// Recovery master to coordinator: everything that I recovered to this position is on its backups, and so is
/// the opening of a head that names it. Backups have it in their buffers, or on their devices; in the second
/// case nothing else need be kept of it. Repeated until answered. Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Settled {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub first_segment: SegmentId,
    /// Whether devices have it.
    #[n(3)]
    pub flushed: bool,
}

impl Message for Settled {
    const OPCODE: Opcode = Opcode::Settled;
    type Reply = Empty;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Assignment {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub first_segment: SegmentId,
}

impl Message for Recovered {
    const OPCODE: Opcode = Opcode::Recovered;
    type Reply = Empty;
}

/// Coordinator to servers: how much recovered data would you have room for?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Room {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct RoomReport {
    /// New replicas that the backup can take, each a frame. 0: it takes none.
    #[n(0)]
    pub frames: u64,
    /// Memory of the log that is neither live nor held in reserve, in bytes. 0: the server is no master.
    #[n(1)]
    pub log_bytes: u64,
    /// Segments that were recovered here and that no backup has as a whole any more, though R backups had
    /// them.
    #[n(2)]
    #[cbor(default)]
    pub lone_segments: u64,
}

impl Message for Room {
    const OPCODE: Opcode = Opcode::Room;
    type Reply = RoomReport;
}

/// Coordinator to backup: what have you done for the recovery of this server?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecoveryWork {
    #[n(0)]
    pub crashed: ServerId,
}

/// The backup's work as of the answer, in the backup's present life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct RecoveryWorked {
    /// Segments read from the device.
    #[n(0)]
    pub read: WorkDone,
    /// Segments verified and divided.
    #[n(1)]
    pub divide: WorkDone,
    /// Replicas freed after the server had left the list.
    #[n(2)]
    pub free: WorkDone,
    /// Replicas that are still there.
    #[n(3)]
    pub held: u64,
}

/// One kind of work: how much of it was done, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct WorkDone {
    #[n(0)]
    pub count: u64,
    /// Bytes of log.
    #[n(1)]
    pub bytes: u64,
    /// Microseconds during which any of it was under way.
    #[n(2)]
    pub busy: u64,
    /// Microseconds before the answer at which the first piece of work began and the last one ended. None:
    /// there was no work.
    #[n(3)]
    pub began: Option<u64>,
    #[n(4)]
    pub ended: Option<u64>,
}

impl Message for RecoveryWork {
    const OPCODE: Opcode = Opcode::RecoveryWork;
    type Reply = RecoveryWorked;
}

/// Recovery master to backup: the records of this partition in this segment. The answer's body is not CBOR.
/// It is `ReadTimes`, then whole log entries one after the other, which the backup has checked and the master
/// has to check again. `CorruptReplica`, `UnknownReplica`: take the next source. `Retry`: the segment is
/// being read, or there is no room just now. `UnknownRanges`: ask again with the ranges of all partitions.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecoveryRead {
    #[n(0)]
    pub recovery: RecoveryId,
    #[n(1)]
    pub log: LogId,
    #[n(2)]
    pub stream: StreamId,
    #[n(3)]
    pub segment: SegmentId,
    #[n(4)]
    pub epoch: Epoch,
    #[n(5)]
    pub end: u32,
    #[n(6)]
    pub partition: u32,
    /// The ranges of all partitions. Empty when the backup should know them.
    #[n(7)]
    #[cbor(with = "packed")]
    pub ranges: Vec<PartitionRange>,
    /// Names the ranges of the recovery: their `ranges_digest`.
    #[n(8)]
    pub digest: u64,
    /// The server that is being recovered: the log's own server, or one that had recovered it. None: the
    /// log's own.
    #[n(9)]
    #[cbor(default)]
    pub crashed: ServerId,
}

/// Tells the ranges of one division of a dead log from those of any other: the placement hash, with seed 0,
/// of the list as it is packed.
pub fn ranges_digest(ranges: &[PartitionRange]) -> u64 {
    PlacementHasher::new(PlacementSeed(0)).hash(&packed::packed(ranges)).0
}

impl Message for RecoveryRead {
    const OPCODE: Opcode = Opcode::RecoveryRead;
    type Reply = Empty;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::membership::Durability;

    /// A range of one table, in one stream.
    pub(crate) fn range(partition: u32, first: u64, last: u64) -> PartitionRange {
        PartitionRange {
            partition,
            table: TableId(5),
            seed: PlacementSeed(1),
            first: KeyHash(first),
            last: KeyHash(last),
            shard: ShardId(0),
            stream: StreamId(1),
            first_segment: SegmentId(1),
            durability: Durability::Buffered,
            replicas: 2,
            slots: false,
        }
    }

    fn encoded<T: Encode<()>>(value: &T) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_into(&mut bytes, value);
        bytes
    }

    #[test]
    fn a_message_around_its_common_part_is_the_message() {
        let segment = RecoverySegment {
            segment: SegmentId(300),
            end: Some(7),
            sources: vec![SegmentSource { backup: ServerId(700), epoch: Epoch(1) }],
        };
        let streams =
            vec![RecoveryStream { shard: ShardId(0), stream: StreamId(1), segments: vec![segment] }];
        let recover = Recover {
            recovery: RecoveryId(1),
            crashed: ServerId(3),
            partition: 70_000,
            attempt: 2,
            ranges: vec![range(0, 0, 9), range(1, 10, u64::MAX)],
            streams,
            safe_version: Version(5),
            version_floor: Version(1 << 40),
            earlier: vec![EarlierLog {
                crashed: ServerId(2),
                recovery: RecoveryId(9),
                ranges: vec![range(0, 3, 9)],
                streams: Vec::new(),
            }],
            early: true,
            tail_short: true,
        };
        let common = Recover::encode_common(&recover.ranges, &recover.streams);
        let mut around = Vec::new();
        Recover { ranges: Vec::new(), streams: Vec::new(), ..recover.clone() }
            .encode_around(&common, &mut around);
        assert_eq!(around, encoded(&recover));
        assert_eq!(crate::decode(&around), Ok(recover));
    }

    // F4
    #[test]
    fn any_difference_between_ranges_shows_in_their_digest() {
        let ranges = [range(0, 0, 9), range(1, 10, 20)];
        let others = [
            vec![range(0, 0, 9)],
            vec![range(1, 0, 9), range(0, 10, 20)],
            vec![range(0, 0, 8), range(1, 9, 20)],
            vec![range(0, 0, 9), PartitionRange { first_segment: SegmentId(2), ..ranges[1] }],
            vec![range(0, 0, 9), PartitionRange { stream: StreamId(2), ..ranges[1] }],
            Vec::new(),
        ];
        for other in others {
            assert_ne!(ranges_digest(&other), ranges_digest(&ranges), "{other:?}");
        }
    }
}
