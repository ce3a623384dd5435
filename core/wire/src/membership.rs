//! Who is in the cluster: enlisting, the server list, suspicion, and what a server has recorded about its streams.
//!
//! Protocol: docs/protocols/membership.md.

use crate::Opcode;
use crate::control::{Address, Empty, Message};
use crate::status::DiskFull;
use minicbor::{Decode, Encode};
use ramhold_base::{
    ClusterId, ClusterTime, DirectoryId, Epoch, SegmentId, ServerId, ShardId, StreamId, Term, Version,
};

/// A label of a server; servers that share a label's value share what the label names (`host`, `rack`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Label {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ServerState {
    #[n(0)]
    Up,
    /// Declared dead: fenced everywhere, its data being recovered. Gone from the list when that is done.
    #[n(1)]
    Crashed,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerEntry {
    #[n(0)]
    pub id: ServerId,
    #[n(1)]
    pub address: Address,
    #[n(2)]
    pub labels: Vec<Label>,
    #[n(3)]
    pub state: ServerState,
    /// Whether it takes tablets, and replicas.
    #[n(4)]
    pub master: bool,
    #[n(5)]
    pub backup: bool,
    /// Measured read speed of its device, megabytes per second, at least 1.
    #[n(6)]
    pub read_speed: u32,
    #[n(7)]
    pub directory: DirectoryId,
    /// Crashed, and recovered: nobody waits for it, but its log is still the second position of what was recovered from it
    /// (docs/protocols/recovery.md, "Until devices have it").
    #[n(8)]
    #[cbor(default)]
    pub kept: bool,
    /// Crashed, and the partitions that were recovered from its log may be replicated now: their turn for frames has come.
    #[n(9)]
    #[cbor(default)]
    pub replicates: bool,
    /// Frames are short: of those partitions, only this server's may be replicated for now.
    #[n(10)]
    pub replicates_only: Option<ServerId>,
    /// The port at its address where it hears clients of Redis Cluster; none: it has no port for them alone.
    #[n(11)]
    pub redis_cluster_port: Option<u16>,
}

/// Coordinator to server: what changed of the server list. Answered with the version that the server has reached.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerListUpdate {
    /// What the receiver must have for this to apply; 0: this is the whole list.
    #[n(0)]
    pub from: u64,
    #[n(1)]
    pub to: u64,
    #[n(2)]
    pub changed: Vec<ServerEntry>,
    #[n(3)]
    pub removed: Vec<ServerId>,
    /// The highest id given out so far: a server with an id up to this that is not in the list is gone for good.
    #[n(4)]
    pub issued: ServerId,
    #[n(5)]
    pub time: ClusterTime,
    /// Where the coordinator is to be found, as it says itself.
    #[n(6)]
    pub coordinator: Option<Address>,
    /// How many rings of copysets replicas are placed in; none: they are scattered freely.
    #[n(7)]
    pub copyset_rings: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerListReached {
    #[n(0)]
    pub version: u64,
}

impl Message for ServerListUpdate {
    const OPCODE: Opcode = Opcode::ServerListUpdate;
    type Reply = ServerListReached;
}

/// Server to coordinator: take me in. Repeated with the same `token` until answered; one token, one id.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Enlist {
    /// Random, new for each life of the process.
    #[n(0)]
    pub token: u64,
    #[n(1)]
    pub directory: DirectoryId,
    /// The id of the directory's previous life, which is over.
    #[n(2)]
    pub replaces: Option<ServerId>,
    #[n(3)]
    pub address: Address,
    #[n(4)]
    pub labels: Vec<Label>,
    #[n(5)]
    pub master: bool,
    #[n(6)]
    pub backup: bool,
    #[n(7)]
    pub read_speed: u32,
    #[n(8)]
    pub log_bytes: u64,
    #[n(9)]
    pub disk_bytes: u64,
    #[n(10)]
    pub redis_cluster_port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Enlisted {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub cluster: ClusterId,
    #[n(2)]
    pub term: Term,
    /// The whole list as of now.
    #[n(3)]
    pub list: ServerListUpdate,
    /// No version above this is handed out before it is raised (consistency rule 8).
    #[n(4)]
    pub ceiling: Version,
    /// Of the index, the same for all servers; never told to clients. None from a coordinator of an older version.
    #[n(5)]
    pub index_secret: Option<u64>,
}

impl Message for Enlist {
    const OPCODE: Opcode = Opcode::Enlist;
    type Reply = Enlisted;
}

/// Anybody to the coordinator: this server did not answer. The coordinator looks for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SuspectServer {
    #[n(0)]
    pub server: ServerId,
}

impl Message for SuspectServer {
    const OPCODE: Opcode = Opcode::SuspectServer;
    type Reply = Empty;
}

/// Server to coordinator: am I still in the cluster? `Ok` or `Fenced`; the sender is in the header.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct MembershipVerify {
    /// Where the sender listens: for a coordinator that has lost its store and knows nobody.
    #[n(0)]
    pub address: Option<Address>,
    /// The device of this server's backup is full.
    #[n(1)]
    pub full: Option<DiskFull>,
}

impl Message for MembershipVerify {
    const OPCODE: Opcode = Opcode::MembershipVerify;
    type Reply = Empty;
}

/// What an acknowledged write of a table or stream is good for; see docs/protocols/replication.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Durability {
    /// In the master's DRAM alone.
    #[n(0)]
    None,
    /// In the buffers of R backups.
    #[n(1)]
    Buffered,
    /// On R devices. Not built yet: refused.
    #[n(2)]
    Synced,
}

impl Durability {
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Buffered => "buffered",
            Durability::Synced => "synced",
        }
    }
}

/// Server to coordinator: this stream exists; its first head is durably open. Recovery needs every registered stream.
/// Answered before the stream's first acknowledgement. Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StreamRegister {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub durability: Durability,
    #[n(3)]
    pub replicas: u8,
    /// The first head.
    #[n(4)]
    pub segment: SegmentId,
    #[n(5)]
    pub epoch: Epoch,
}

impl Message for StreamRegister {
    const OPCODE: Opcode = Opcode::StreamRegister;
    type Reply = Empty;
}

/// Server to coordinator: no replica of this stream below (segment, epoch) may count as its head any more (D8).
/// Sent only when all replicas of the segment durably hold the epoch. Idempotent; refused with `Fenced` to the dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HeadRecord {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub segment: SegmentId,
    #[n(3)]
    pub epoch: Epoch,
}

impl Message for HeadRecord {
    const OPCODE: Opcode = Opcode::HeadRecord;
    type Reply = Empty;
}

/// Server to coordinator: I want to hand out versions up to more than the present ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct CeilingRaise {
    /// The highest version in use or about to be.
    #[n(0)]
    pub needed: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct CeilingRaised {
    #[n(0)]
    pub ceiling: Version,
}

impl Message for CeilingRaise {
    const OPCODE: Opcode = Opcode::CeilingRaise;
    type Reply = CeilingRaised;
}

/// Backup to master: do you still need these replicas of mine? (D7)
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReplicasNeeded {
    #[n(0)]
    pub replicas: Vec<ReplicaName>,
}

/// A replica as the backup knows it; the log is the asked master's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct ReplicaName {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub segment: SegmentId,
    #[n(3)]
    pub epoch: Epoch,
    /// It was opened outside the head order.
    #[n(4)]
    #[cbor(default)]
    pub side: bool,
}

/// Those of the asked that may be freed. What is not named stays, and is asked about again.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct ReplicasNotNeeded {
    #[n(0)]
    pub replicas: Vec<ReplicaName>,
}

impl Message for ReplicasNeeded {
    const OPCODE: Opcode = Opcode::ReplicasNeeded;
    type Reply = ReplicasNotNeeded;
}

/// Master to backup: what you hold of this segment of mine, whose memory is damaged (C8).
/// The answer's body is not CBOR: the bytes of the longest replica held, of whatever epoch, up to its newest
/// certificate, which they match.
/// `CorruptReplica`, `UnknownReplica`: ask another backup. `Retry`: too many are being read just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReplicaRead {
    #[n(0)]
    pub replica: ReplicaName,
}

impl Message for ReplicaRead {
    const OPCODE: Opcode = Opcode::ReplicaRead;
    type Reply = Empty;
}
