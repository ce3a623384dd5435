//! Membership of the cluster: enlisting, the server list, suspicion, and the records of a server about its
//! streams.
//!
//! Protocol: docs/protocols/membership.md.

use crate::Opcode;
use crate::accounts::Accounts;
use crate::control::{Address, Empty, Message};
use crate::replica_placement::ReplicaPlacement;
use crate::status::DiskFull;
use crate::topology::Topology;
use minicbor::{Decode, Encode};
use ramhold_base::{
    ClusterId, ClusterTime, DirectoryId, Epoch, SegmentId, ServerId, ShardId, StreamId, Term, Version,
};
use std::fmt;

/// A label of a server. Servers with the same value of a label share the thing that the label names (`host`,
/// `rack`).
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
    /// Declared dead: the server is fenced everywhere, and its data is being recovered. The server leaves the
    /// list when that is done and its log is not kept.
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
    /// Whether the server takes tablets (`master`), and replicas (`backup`).
    #[n(4)]
    pub master: bool,
    #[n(5)]
    pub backup: bool,
    /// Measured read speed of the server's device, in megabytes per second, at least 1.
    #[n(6)]
    pub read_speed: u32,
    #[n(7)]
    pub directory: DirectoryId,
    /// Crashed and recovered. Nobody waits for the server, but its log is still the second position of
    /// everything that was recovered from it (docs/protocols/recovery.md, "Until devices have it").
    #[n(8)]
    #[cbor(default)]
    pub kept: bool,
    /// Crashed, and the partitions that were recovered from its log may be replicated now: they have their
    /// turn for frames.
    #[n(9)]
    #[cbor(default)]
    pub replicates: bool,
    /// Frames are short: only this server's partitions of that log may be replicated for now.
    #[n(10)]
    pub replicates_only: Option<ServerId>,
    /// The port at the server's address for clients of Redis Cluster. None: it has no port for them alone.
    #[n(11)]
    pub redis_cluster_port: Option<u16>,
    /// Further addresses, at which other servers reach it; at most `LINK_COUNT_MAX`. None: it has none.
    #[n(12)]
    pub links: Option<Vec<Link>>,
}

impl ServerEntry {
    /// Further addresses, at which other servers reach it.
    pub fn links(&self) -> &[Link] {
        self.links.as_deref().unwrap_or_default()
    }
}

/// A further address of a server, in the network of this name. Servers that are both in that network reach each other
/// there. In a grid the name is the number of a level, and whatever comes to the address comes through the server's
/// switch of that level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Link {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub address: Address,
}

/// Coordinator to server: the changes of the server list. The answer tells the version that the server has
/// reached.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerListUpdate {
    /// The version that the receiver must have for this update to apply. 0: this is the whole list.
    #[n(0)]
    pub from: u64,
    #[n(1)]
    pub to: u64,
    #[n(2)]
    pub changed: Vec<ServerEntry>,
    #[n(3)]
    pub removed: Vec<ServerId>,
    /// The highest id given out so far. A server whose id is at most this and not in the list is gone for
    /// good.
    #[n(4)]
    pub issued: ServerId,
    #[n(5)]
    pub time: ClusterTime,
    /// The coordinator's own address, as the coordinator tells it.
    #[n(6)]
    pub coordinator: Option<Address>,
    /// Rings of copysets in which replicas are placed. None: they are placed by `placement`.
    #[n(7)]
    pub copyset_rings: Option<u8>,
    /// The topology of the network.
    #[n(8)]
    pub topology: Topology,
    /// The name of the placement of replicas. None: they are scattered freely, or placed by copysets.
    #[n(9)]
    pub placement: Option<String>,
    /// Where bricks listen, at most `BRICKS_TOLD_MAX` of them. None: there are no bricks.
    #[n(10)]
    pub bricks: Option<Vec<Address>>,
    /// All accounts, if they may be others than those of version `from`.
    #[n(11)]
    pub accounts: Option<Accounts>,
}

impl ServerListUpdate {
    /// The placement of replicas that it tells.
    pub fn replica_placement(&self) -> ReplicaPlacement {
        ReplicaPlacement::of(self.copyset_rings, self.placement.as_deref())
    }
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

/// Server to coordinator: take me in. Repeated with the same `token` until answered; one token gets one id.
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
    /// Further addresses, at which other servers reach it; at most `LINK_COUNT_MAX`, no name twice.
    #[n(11)]
    pub links: Option<Vec<Link>>,
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
    /// The server hands out no version above this one before the ceiling is raised (consistency rule 8).
    #[n(4)]
    pub ceiling: Version,
    /// The secret of the index hash, the same for all servers and never told to clients. None from a
    /// coordinator of an older version.
    #[n(5)]
    pub index_secret: Option<u64>,
}

impl Message for Enlist {
    const OPCODE: Opcode = Opcode::Enlist;
    type Reply = Enlisted;
}

/// A fault of a server's place in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum PlaceFault {
    /// The server does not have the label.
    #[n(0)]
    Missing,
    /// The label names no place of the topology.
    #[n(1)]
    NoPlace,
    /// Another server that is up has this place.
    #[n(2)]
    Taken,
    /// A link of the server is named after no level of the grid.
    #[n(3)]
    NoLevel,
    /// The server has the label of a zone or rack, and the placement is only for servers that fail one by one.
    #[n(4)]
    Domain,
}

/// The body of an answer with the status `LabelRefused`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LabelRefusal {
    #[n(0)]
    pub topology: Topology,
    /// The label that the topology asks for, or that must not be there.
    #[n(1)]
    pub label: String,
    #[n(2)]
    pub fault: PlaceFault,
    /// More about the fault, for people.
    #[n(3)]
    pub detail: String,
}

impl fmt::Display for LabelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LabelRefusal { topology, label, fault, detail } = self;
        match fault {
            PlaceFault::Missing => {
                write!(
                    f,
                    "the topology is {topology}, and this server has no label {label}; give --label {detail}"
                )
            }
            PlaceFault::NoPlace => {
                write!(f, "the topology is {topology}, and the label {label} names no place in it: {detail}")
            }
            PlaceFault::NoLevel => {
                write!(
                    f,
                    "the topology is {topology}, and a link is named after the level of its switch: {detail}"
                )
            }
            PlaceFault::Domain => {
                write!(
                    f,
                    "the placement multiring-strict keeps all replicas of a segment on one ring, which fails together \
                     where servers have the label {label}; start without --label {detail}, or the coordinator with \
                     --placement multiring"
                )
            }
            PlaceFault::Taken => {
                write!(f, "{detail} has the same label {label} and is up; give this server another place")
            }
        }
    }
}

/// Anybody to the coordinator: this server did not answer. The coordinator then pings that server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SuspectServer {
    #[n(0)]
    pub server: ServerId,
}

impl Message for SuspectServer {
    const OPCODE: Opcode = Opcode::SuspectServer;
    type Reply = Empty;
}

/// Server to coordinator: am I still in the cluster? The answer is `Ok` or `Fenced`; the sender is in the
/// header.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct MembershipVerify {
    /// The address at which the sender listens: for a coordinator that has lost its store and knows nobody.
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

/// The promise of a table or stream about its acknowledged writes; see docs/protocols/replication.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Durability {
    /// Acknowledged in the master's DRAM alone.
    #[n(0)]
    None,
    /// Acknowledged when the buffers of R backups have the write.
    #[n(1)]
    Buffered,
    /// Acknowledged when R devices have the write.
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

/// Server to coordinator: this stream exists, and its first head is durably open. Recovery needs every
/// registered stream. The coordinator has answered before the stream acknowledges anything. Idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
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
    /// The neighbourhood that is to recover what is in the stream. None: anybody.
    #[n(6)]
    pub neighbourhood: Option<String>,
}

impl Message for StreamRegister {
    const OPCODE: Opcode = Opcode::StreamRegister;
    type Reply = Empty;
}

/// Server to coordinator: no replica of this stream below (segment, epoch) may count as its head any more
/// (D8). Sent only when all replicas of the segment durably hold the epoch. Idempotent. A server that was
/// declared dead is refused with `Fenced`.
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

/// Server to coordinator: raise my ceiling, so that I may hand out versions above the present one.
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
    /// The replica was opened outside the head order.
    #[n(4)]
    #[cbor(default)]
    pub side: bool,
}

/// The replicas among those asked about that may be freed. A replica that is not named stays, and is asked
/// about again.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct ReplicasNotNeeded {
    #[n(0)]
    pub replicas: Vec<ReplicaName>,
}

impl Message for ReplicasNeeded {
    const OPCODE: Opcode = Opcode::ReplicasNeeded;
    type Reply = ReplicasNotNeeded;
}

/// Master to backup: send your replica of this segment of mine, whose memory is damaged (C8). The answer's
/// body is not CBOR. It is the bytes of the longest replica that the backup holds, of any epoch, up to the
/// replica's newest certificate, which the bytes match. `CorruptReplica`, `UnknownReplica`: ask another
/// backup. `Retry`: too many replicas are being read just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReplicaRead {
    #[n(0)]
    pub replica: ReplicaName,
}

impl Message for ReplicaRead {
    const OPCODE: Opcode = Opcode::ReplicaRead;
    type Reply = Empty;
}
