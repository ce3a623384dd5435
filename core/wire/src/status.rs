//! The messages that show an operator the state of a process and of the cluster.

use crate::Opcode;
use crate::brick_status::BrickStatus;
use crate::control::{Address, Empty, Message};
use crate::membership::{Durability, Label, ServerEntry};
use crate::obstacle::{EndedScaling, Obstacle, Scaling};
use crate::outage::StandingOutage;
use crate::recovery::ReplayTimes;
use crate::replica_placement::ReplicaPlacement;
use crate::topology::Topology;
use minicbor::{Decode, Encode};
use ramhold_base::{ClusterId, ClusterTime, DirectoryId, RecoveryId, ServerId, StreamId, TableId, Term};
use std::fmt;

/// Anybody to anybody: are you there, and who are you?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Ping {}

/// The identity of the process that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Pong {
    #[n(0)]
    pub server: ServerId,
    /// The version of the answering server's copy of the server list; 0 from a coordinator.
    #[n(1)]
    pub list_version: u64,
    /// The cluster time, from a coordinator: microseconds since 1970.
    #[n(2)]
    pub time_micros: Option<u64>,
}

impl Message for Ping {
    const OPCODE: Opcode = Opcode::Ping;
    type Reply = Pong;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ProcessStatusRequest {}

/// The state of one server, as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct ProcessStatus {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub version: String,
    #[n(2)]
    pub uptime_millis: u64,
    /// `--memory` and its parts.
    #[n(3)]
    pub memory_bytes: u64,
    #[n(4)]
    pub log_bytes: u64,
    #[n(5)]
    pub log_used_bytes: u64,
    #[n(6)]
    pub log_live_bytes: u64,
    #[n(7)]
    pub index_bytes_max: u64,
    #[n(8)]
    pub index_bytes: u64,
    #[n(9)]
    pub buffer_bytes: u64,
    #[n(10)]
    pub objects: u64,
    #[n(11)]
    pub tablets: u64,
    #[n(12)]
    pub reads: u64,
    #[n(13)]
    pub writes: u64,
    #[n(14)]
    pub streams: Vec<StreamStatus>,
    #[n(15)]
    pub backup: Option<BackupStatus>,
    #[n(16)]
    pub connections: u64,
    #[n(17)]
    pub recovering_partitions: u64,
    #[n(18)]
    pub bad_frames: u64,
    #[n(19)]
    pub cleaning: Option<CleaningStatus>,
    #[n(20)]
    pub scrub: Option<ScrubStatus>,
    #[n(21)]
    pub results: Option<ResultsStatus>,
    #[n(22)]
    pub read_lease: Option<ReadLeaseStatus>,
    #[n(23)]
    pub copying: Option<CopyingStatus>,
    /// Links to other servers on which nothing comes back. None: this server has no links.
    #[n(24)]
    pub silent_links: Option<Vec<SilentLink>>,
    /// The bytes that the master has exchanged with other servers since its start. None: the server is no master.
    #[n(25)]
    pub traffic: Option<TrafficStatus>,
    /// None: the process is no brick.
    #[n(26)]
    pub brick: Option<BrickStatus>,
}

/// Bytes of log data that a master has exchanged with other servers, without headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct TrafficStatus {
    /// Sent to backups when it was written.
    #[n(0)]
    pub replication: DistanceBytes,
    /// Sent to backups again, because a replica was lost or had to move.
    #[n(1)]
    pub copying: DistanceBytes,
    /// Fetched from backups, to recover other servers.
    #[n(2)]
    pub recovery: DistanceBytes,
}

/// Bytes by where the other server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct DistanceBytes {
    /// It shares an edge switch: in a grid a switch, else a rack.
    #[n(0)]
    pub near: u64,
    /// It is in the same zone, or there are no zones.
    #[n(1)]
    pub zone: u64,
    #[n(2)]
    pub other_zone: u64,
}

/// A link to another server on which nothing comes back.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SilentLink {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub link: String,
    /// For how long.
    #[n(2)]
    pub millis: u64,
}

/// Closed segments of a master that lost replicas together with the backups, and are copied again (D6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct CopyingStatus {
    /// Segments that lack a replica.
    #[n(0)]
    pub segments: u64,
    /// Bytes that have still to be sent.
    #[n(1)]
    pub left_bytes: u64,
    /// Bytes sent since the start.
    #[n(2)]
    pub copied_bytes: u64,
    /// Average speed since there is something to copy. 0: there is nothing to copy, or nothing has been sent.
    #[n(3)]
    pub bytes_per_second: u64,
    /// The operator's limit; 0: none.
    #[n(4)]
    pub limit: u64,
}

/// The read lease of a master: its effect on reads since the start (F8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct ReadLeaseStatus {
    /// Reads that had to wait for a grant.
    #[n(0)]
    pub waited: u64,
    /// The reads among them that were refused with `NotLeased`.
    #[n(1)]
    pub refused: u64,
}

/// The mutations that a master remembers, for clients that may ask again (A3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct ResultsStatus {
    /// Clients' leases that the master knows.
    #[n(0)]
    pub leases: u64,
    /// Sequences that the master remembers: results and burnt ones.
    #[n(1)]
    pub remembered: u64,
    /// Repeated mutations that were answered with the first result, since the start.
    #[n(2)]
    pub recalled: u64,
    /// Mutations that were not answered because there was no room to remember them.
    #[n(3)]
    pub dropped: u64,
}

/// The state of cleaning now, and its work since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct CleaningStatus {
    /// Free memory is low: every write pays for cleaning.
    #[n(0)]
    pub is_needed: bool,
    /// Writes find no memory: only removes and reads go on.
    #[n(1)]
    pub is_full: bool,
    #[n(2)]
    pub combined_passes: u64,
    #[n(3)]
    pub compactions: u64,
    #[n(4)]
    pub entries_moved: u64,
    #[n(5)]
    pub bytes_moved: u64,
    /// The part of `bytes_moved` that went to the backups too.
    #[n(6)]
    pub bytes_combined: u64,
    #[n(7)]
    pub segments_retired: u64,
    /// Objects that were taken out because their time was over.
    #[n(8)]
    pub expired: u64,
}

/// Damage that was found in a master's memory (C8).
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct ScrubStatus {
    /// Verified in the background since the start, in bytes.
    #[n(0)]
    pub bytes: u64,
    /// Complete walks over the whole log since the start.
    #[n(1)]
    pub rounds: u64,
    /// Segments that were found damaged.
    #[n(2)]
    pub damaged: u64,
    /// Segments among them that are whole again.
    #[n(3)]
    pub repaired: u64,
    /// Objects without replicas that were given up.
    #[n(4)]
    pub lost: u64,
    /// Segments that are damaged now.
    #[n(5)]
    pub waiting: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StreamStatus {
    #[n(0)]
    pub stream: StreamId,
    #[n(1)]
    pub durability: Durability,
    #[n(2)]
    pub replicas: u8,
    #[n(3)]
    pub segments: u64,
    /// Segments with fewer replicas than wanted, or not yet whole.
    #[n(4)]
    pub incomplete_segments: u64,
    /// Why acknowledgements wait. None: they do not wait.
    #[n(5)]
    pub waits_for: Option<String>,
    /// Bytes appended and not yet acknowledged by all replicas.
    #[n(6)]
    pub unreplicated_bytes: u64,
    /// Segments whose copies are all in one zone, or in one rack, though a backup of another one is up.
    #[n(7)]
    #[cbor(default)]
    pub unspread_segments: u64,
    /// Segments whose primary replica is in another zone than their master, although the placement is
    /// `zone-local`: a recovery reads them from there.
    #[n(8)]
    #[cbor(default)]
    pub outside_segments: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct BackupStatus {
    #[n(0)]
    pub frames: u64,
    #[n(1)]
    pub frames_used: u64,
    #[n(2)]
    pub frames_max: u64,
    #[n(3)]
    pub buffers: u64,
    #[n(4)]
    pub buffers_used: u64,
    /// Where acknowledged writes are held until they are flushed: `buffers` or `frames`, and in which
    /// directory.
    #[n(5)]
    pub mode: String,
    #[n(6)]
    pub unflushed_bytes: u64,
    #[n(7)]
    pub cut_replicas: u64,
    #[n(8)]
    pub failed: Option<String>,
    #[n(9)]
    pub disk_bytes: u64,
    /// Set while the device has no room for another frame.
    #[n(10)]
    pub full: Option<DiskFull>,
}

/// A backup whose device has no room for another frame (D3).
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct DiskFull {
    /// The time since that began.
    #[n(0)]
    pub since_millis: u64,
    /// Free space of the device at the last try to reserve a frame.
    #[n(1)]
    pub free_bytes: u64,
    /// Bytes that the backup would reserve at once if it could.
    #[n(2)]
    pub wanted_bytes: u64,
    /// Replicas that the backup can still take: free frames that it reserved before.
    #[n(3)]
    pub frames_free: u64,
    /// The directory of the frames.
    #[n(4)]
    pub directory: String,
}

impl fmt::Display for DiskFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        write!(
            f,
            "{} of {} MiB free in {} for {} s, {} frames left",
            self.free_bytes.min(self.wanted_bytes) / MIB,
            self.wanted_bytes / MIB,
            self.directory,
            self.since_millis / 1000,
            self.frames_free
        )
    }
}

impl Message for ProcessStatusRequest {
    const OPCODE: Opcode = Opcode::ProcessStatus;
    type Reply = ProcessStatus;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ClusterStatusRequest {}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ClusterStatus {
    #[n(0)]
    pub cluster: ClusterId,
    #[n(1)]
    pub term: Term,
    #[n(2)]
    pub time: ClusterTime,
    #[n(3)]
    pub servers: Vec<ServerEntry>,
    #[n(4)]
    pub tables: u64,
    #[n(5)]
    pub tablets: u64,
    #[n(6)]
    pub tablets_recovering: u64,
    /// Recoveries that are not yet over.
    #[n(7)]
    pub recoveries: Vec<RecoveryReport>,
    /// Losses that are not yet acknowledged.
    #[n(8)]
    pub losses: Vec<LossReport>,
    /// Warnings to the operator, one sentence each.
    #[n(9)]
    pub warnings: Vec<String>,
    #[n(10)]
    pub version: String,
    /// Servers that are up and have been suspected wrongly, since the coordinator's start.
    #[n(11)]
    #[cbor(default)]
    pub cleared: Vec<ClearedReport>,
    /// Rings of copysets in which replicas are placed. None: they are placed by `placement`.
    #[n(12)]
    pub copyset_rings: Option<u8>,
    /// Servers that should be there: those that are up, those that are being recovered, and those that are
    /// gone. A data directory counts once.
    #[n(13)]
    pub expected: Option<u64>,
    /// Servers that are dead, recovered and not back, newest last; bounded.
    #[n(14)]
    pub gone: Option<Vec<GoneReport>>,
    /// The topology of the network.
    #[n(15)]
    pub topology: Topology,
    /// The name of the placement of replicas. None: they are scattered freely, or placed by copysets.
    #[n(16)]
    pub placement: Option<String>,
    /// Outages of the network, as servers see their neighbours. None: there are none, or nobody has neighbours.
    #[n(17)]
    pub outages: Option<Vec<StandingOutage>>,
    /// All bricks of the cluster, in order of ids.
    #[n(18)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub bricks: Vec<BrickReport>,
}

impl ClusterStatus {
    /// The placement of replicas.
    pub fn replica_placement(&self) -> ReplicaPlacement {
        ReplicaPlacement::of(self.copyset_rings, self.placement.as_deref())
    }
}

/// A brick, as the coordinator knows it and as it last told.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickReport {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub address: Address,
    #[n(2)]
    pub labels: Vec<Label>,
    /// The number of its starts. 0: it was not heard since the coordinator's start.
    #[n(3)]
    pub life: u64,
    /// Time since it was last heard. Absent: not since the coordinator's start.
    #[n(4)]
    pub heard_millis: Option<u64>,
    /// Tablets that it is to hold.
    #[n(5)]
    pub tablets: u32,
    /// Tablets of it that do not vote: they are being rebuilt.
    #[n(6)]
    pub rebuilding: u32,
    /// Memory of its log.
    #[n(7)]
    pub log_bytes: u64,
    #[n(8)]
    pub used_bytes: u64,
    /// Another brick has taken its place, and it was given nothing since.
    #[n(9)]
    #[cbor(default)]
    pub is_replaced: bool,
    /// The version of its assignment, and the one that it has taken.
    #[n(10)]
    #[cbor(default)]
    pub assigned: u64,
    #[n(11)]
    #[cbor(default)]
    pub taken: u64,
    /// The port of the process that restarts it, at the host of `address`, as it told last. Absent: nobody does.
    #[n(12)]
    pub supervisor: Option<u16>,
    /// It is being added or removed.
    #[n(13)]
    pub scaling: Option<Scaling>,
    /// The reason why the order waits.
    #[n(14)]
    pub waits: Option<Obstacle>,
    /// It was removed by an order, and was given nothing since.
    #[n(15)]
    #[cbor(default)]
    pub is_removed: bool,
    /// The end of the last order to add or remove it. Absent: there was none, or it is not over.
    #[n(16)]
    pub ended: Option<EndedScaling>,
}

/// A server that was declared dead and recovered, and whose data directory has not enlisted again.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct GoneReport {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub directory: DirectoryId,
    #[n(2)]
    pub address: Address,
    #[n(3)]
    pub labels: Vec<Label>,
    /// When it was declared dead.
    #[n(4)]
    pub since: ClusterTime,
    /// How its death was noticed and proven.
    #[n(5)]
    pub cause: String,
}

/// Operator to coordinator: this server is gone for good, and is not expected any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerForget {
    #[n(0)]
    pub server: ServerId,
}

impl Message for ServerForget {
    const OPCODE: Opcode = Opcode::ServerForget;
    type Reply = Empty;
}

/// A server that was suspected to be dead, and answered the coordinator's own pings.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ClearedReport {
    #[n(0)]
    pub server: ServerId,
    /// The number of times that this happened.
    #[n(1)]
    pub count: u64,
    /// Why it was suspected the last time.
    #[n(2)]
    pub cause: String,
}

impl Message for ClusterStatusRequest {
    const OPCODE: Opcode = Opcode::ClusterStatus;
    type Reply = ClusterStatus;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecoveriesRequest {}

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct Recoveries {
    /// Newest first; bounded.
    #[n(0)]
    pub recoveries: Vec<RecoveryReport>,
}

impl Message for RecoveriesRequest {
    const OPCODE: Opcode = Opcode::Recoveries;
    type Reply = Recoveries;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RecoveryPhase {
    /// Waiting for the answers of the backups.
    #[n(0)]
    Asking,
    /// The log is not complete: see `missing`.
    #[n(1)]
    Incomplete,
    /// Recovery masters are at work.
    #[n(2)]
    Replaying,
    #[n(3)]
    Done,
    /// The log is complete, and there is no room to replay it beside older logs: see `waits_for`.
    #[n(4)]
    WaitingForRoom,
}

/// One recovery, live or over. Times are milliseconds after `detected`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecoveryReport {
    #[n(0)]
    pub recovery: RecoveryId,
    #[n(1)]
    pub crashed: ServerId,
    #[n(2)]
    pub address: Address,
    /// When the coordinator declared the server dead.
    #[n(3)]
    pub detected: ClusterTime,
    #[n(4)]
    pub phase: RecoveryPhase,
    /// When the log was proven complete, when the first partition went live, and when the last one did.
    #[n(5)]
    pub complete_millis: Option<u64>,
    #[n(6)]
    pub first_live_millis: Option<u64>,
    #[n(7)]
    pub done_millis: Option<u64>,
    #[n(8)]
    pub partitions: u32,
    #[n(9)]
    pub partitions_live: u32,
    #[n(10)]
    pub segments: u64,
    #[n(11)]
    pub bytes: u64,
    #[n(12)]
    pub records: u64,
    /// The missing parts of the log while it is not complete.
    #[n(13)]
    pub missing: Vec<String>,
    #[n(14)]
    pub failed_attempts: u32,
    #[n(15)]
    pub tablets: u32,
    /// How the death was noticed and proven.
    #[n(16)]
    pub cause: String,
    #[n(17)]
    #[cbor(default)]
    pub steps: RecoverySteps,
    /// The partitions that were given to masters, of the present division and of earlier ones; bounded.
    #[n(18)]
    #[cbor(default)]
    pub parts: Vec<PartReport>,
    /// Servers that may hold a part of the log and have not answered in their present life; bounded.
    #[n(19)]
    #[cbor(default)]
    pub away: Vec<AwayReport>,
    /// Servers among them that an operator has declared to be switched off. The recovery does not wait for
    /// them.
    #[n(20)]
    #[cbor(default)]
    pub given_up: Vec<AwayReport>,
    /// Why the log is not replayed although it is complete, in one sentence.
    #[n(21)]
    #[cbor(default)]
    pub waits_for: Option<String>,
    /// The work of each backup for the recovery; bounded.
    #[n(22)]
    #[cbor(default)]
    pub backups: Vec<BackupReport>,
    /// The work of all backups together.
    #[n(23)]
    #[cbor(default)]
    pub backups_total: BackupReport,
}

/// When a recovery reached each of its steps: milliseconds after the verdict, except for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct RecoverySteps {
    /// The time before the verdict at which the first suspicion came and verification began.
    #[n(0)]
    pub suspected_before: Option<u64>,
    /// The questions to the backups were made out. They leave when the verdict is durable.
    #[n(1)]
    pub asked: Option<u64>,
    /// Every backup had answered, and refuses the dead server.
    #[n(2)]
    pub fenced: Option<u64>,
    /// The dead server may not answer reads any more: nothing that it granted or was granted still lets it.
    #[n(3)]
    pub lease_over: Option<u64>,
    /// The last partition went live.
    #[n(4)]
    pub last_live: Option<u64>,
    /// No backup that is up holds a replica of the dead server any more.
    #[n(5)]
    #[cbor(default)]
    pub freed: Option<u64>,
    /// Devices had everything that was recovered, so the dead log was kept no longer. None also if the log
    /// was never kept.
    #[n(6)]
    #[cbor(default)]
    pub settled: Option<u64>,
}

/// The work of a backup for a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct BackupReport {
    /// None: the sum of many backups.
    #[n(0)]
    pub server: ServerId,
    /// Segments read from the device.
    #[n(1)]
    pub read: WorkReport,
    /// Segments verified and divided.
    #[n(2)]
    pub divide: WorkReport,
    /// Replicas freed when everything was live.
    #[n(3)]
    pub free: WorkReport,
    /// Replicas of the dead server that the backup still holds.
    #[n(4)]
    pub held: u64,
}

/// The amount of one kind of work. Times are milliseconds after the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct WorkReport {
    #[n(0)]
    pub count: u64,
    /// Bytes of log.
    #[n(1)]
    pub bytes: u64,
    /// Microseconds during which any of it was under way; for many backups, their sum.
    #[n(2)]
    pub busy: u64,
    /// When the first piece of work began and the last one ended.
    #[n(3)]
    pub from: Option<u64>,
    #[n(4)]
    pub to: Option<u64>,
}

/// One attempt at a partition by a recovery master. Times are milliseconds after the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PartReport {
    #[n(0)]
    pub plan: RecoveryId,
    #[n(1)]
    pub partition: u32,
    #[n(2)]
    pub attempt: u32,
    #[n(3)]
    pub server: ServerId,
    #[n(4)]
    pub assigned: u64,
    /// The master accepted the partition.
    #[n(5)]
    pub accepted: Option<u64>,
    /// The master reported success. The partition may then wait for the dead server's lease.
    #[n(6)]
    pub reported: Option<u64>,
    /// The coordinator decided to publish the partition. The publication counts, and is answered, when it is
    /// stored.
    #[n(7)]
    pub live: Option<u64>,
    /// The attempt ended without success.
    #[n(8)]
    pub failed: Option<u64>,
    #[n(9)]
    pub bytes: u64,
    #[n(10)]
    pub records: u64,
    #[n(11)]
    pub times: ReplayTimes,
}

/// Acknowledged writes that may be gone (power loss with buffers, `none` tables).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LossReport {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub crashed: ServerId,
    #[n(2)]
    pub stream: StreamId,
    #[n(3)]
    pub durability: Durability,
    #[n(4)]
    pub tables: Vec<TableId>,
    /// Cluster time of the last certificate that was found; 0: none.
    #[n(5)]
    pub certified: ClusterTime,
    #[n(6)]
    pub crash: ClusterTime,
    #[n(7)]
    pub reason: String,
}

/// Client to coordinator: the operator has seen this report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LossAcknowledge {
    #[n(0)]
    pub id: u64,
}

impl Message for LossAcknowledge {
    const OPCODE: Opcode = Opcode::LossAcknowledge;
    type Reply = Empty;
}

/// A data directory that may hold replicas, named by the last server that ran on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AwayReport {
    #[n(0)]
    pub directory: DirectoryId,
    /// None if the server was forgotten.
    #[n(1)]
    pub server: ServerId,
    #[n(2)]
    pub address: Option<Address>,
}

/// Operator to coordinator: these servers, which are all that are away for this recovery, are switched off
/// and need not be waited for. Data that only they had is lost.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LossAccept {
    #[n(0)]
    pub recovery: RecoveryId,
    #[n(1)]
    pub directories: Vec<DirectoryId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct LossAccepted {
    /// Servers that are said to be switched off, and answered somebody. If this list and `unsure` are empty,
    /// the word is accepted.
    #[n(0)]
    pub answering: Vec<ServerId>,
    /// Servers that are up and could not be asked whether they reach any of the named servers.
    #[n(1)]
    pub unsure: Vec<ServerId>,
}

impl Message for LossAccept {
    const OPCODE: Opcode = Opcode::LossAccept;
    type Reply = LossAccepted;
}

/// Coordinator to server: does any of these servers answer you?
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Reach {
    #[n(0)]
    pub servers: Vec<ReachTarget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReachTarget {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub address: Address,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct Reached {
    /// The servers that answered under these ids.
    #[n(0)]
    pub answering: Vec<ServerId>,
}

impl Message for Reach {
    const OPCODE: Opcode = Opcode::Reach;
    type Reply = Reached;
}
