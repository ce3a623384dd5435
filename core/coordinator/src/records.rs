//! The records of the coordinator's state: one per server, brick, table, recovery, loss, lease, account, and one for all
//! numbers.
//!
//! Each record is stored under a key of its own, as a format version and one CBOR item (`state`).
//!
//! Invariants: a field's number is never used for anything else; a field that came later has a default.
//!
//! Format: docs/formats/store.md. Catalogue: G1, G3.

mod account;
mod bricks;
mod key;
mod lease;

pub use account::AccountRecord;
pub use bricks::{BrickRecord, GivingRecord, QuorumTableRecord, QuorumTabletRecord};
pub(crate) use bricks::{is_durable, is_quorum};
pub use key::{CommitMarks, Key};
pub(crate) use lease::UPDATE_COUNT_MAX;
pub use lease::{LeaseRecord, UpdateRecord, UpdateResult};
use minicbor::{Decode, Encode};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{
    ClusterId, ClusterTime, DirectoryId, DivisionId, Epoch, KeyHash, LeaseId, RecoveryId, SegmentId,
    ServerId, ShardId, StreamId, TableId, Version,
};
use ramhold_wire::class::StreamClass;
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Durability, ServerEntry};
use ramhold_wire::status::{AwayReport, BackupReport, PartReport, RecoverySteps};
use ramhold_wire::table::TableOptions;
use ramhold_wire::topology::Topology;

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct Meta {
    #[n(0)]
    pub cluster: ClusterId,
    /// The last id given out of each kind.
    #[n(1)]
    pub servers: ServerId,
    #[n(2)]
    pub tables: TableId,
    #[n(3)]
    pub recoveries: RecoveryId,
    #[n(4)]
    pub losses: u64,
    #[n(5)]
    pub list_version: u64,
    /// No cluster time above this has been told to anybody.
    #[n(6)]
    pub time_ceiling: ClusterTime,
    /// Directories whose servers left the list, and when. Their replicas may still be the only ones of a segment whose
    /// master died before it could replace them. Bounded, newest last.
    #[n(7)]
    pub departed: Vec<Departed>,
    /// The last lease given out.
    #[n(8)]
    #[cbor(default)]
    pub leases: LeaseId,
    /// The secret of all servers' indexes; 0: no server has enlisted since there is a secret.
    #[n(9)]
    #[cbor(default)]
    pub index_secret: u64,
    /// How replicas were last placed: the number of rings of copysets; 0: scattered. None: the coordinator did not note
    /// it.
    #[n(10)]
    #[cbor(default)]
    pub copyset_rings: Option<u8>,
    /// The topology of the network.
    #[n(11)]
    pub topology: Topology,
    /// The name of the last placement of replicas; none: by `copyset_rings`.
    #[n(12)]
    pub placement: Option<String>,
    /// The last version of bricks' assignments; 0: no brick was ever named, and there are no quorum tables.
    #[n(13)]
    #[cbor(skip_if = "is_zero")]
    pub assignments: u64,
    /// The version of all accounts, and the last id of an account: a new one has the version that made it as its id. 0: nobody
    /// has ever changed an account, and there are no records of any.
    #[n(14)]
    #[cbor(skip_if = "is_zero")]
    pub accounts: u64,
}

/// A field that came later is left out where it says nothing.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Departed {
    #[n(0)]
    pub directory: DirectoryId,
    /// When the directory left the list, or when the last server that was up heard of that.
    #[n(1)]
    pub at: ClusterTime,
    /// The first version of the server list without it.
    #[n(2)]
    #[cbor(default)]
    pub version: u64,
    /// The last server that ran on it.
    #[n(3)]
    #[cbor(default)]
    pub server: ServerId,
    #[n(4)]
    pub address: Option<Address>,
}

/// One life of one server, until nothing is left to recover of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerRecord {
    #[n(0)]
    pub entry: ServerEntry,
    /// The token of its `Enlist`.
    #[n(1)]
    pub token: u64,
    /// This server has handed out no version above this.
    #[n(2)]
    pub ceiling: Version,
    #[n(3)]
    pub streams: Vec<StreamRecord>,
    #[n(4)]
    pub log_bytes: u64,
    #[n(5)]
    pub disk_bytes: u64,
}

impl ServerRecord {
    /// Whether a tablet of this durability may lie in this stream.
    pub(crate) fn has_stream(&self, shard: ShardId, stream: StreamId, durability: Durability) -> bool {
        let registered = self.streams.iter().find(|s| (s.shard, s.stream) == (shard, stream));
        match registered {
            Some(registered) => registered.durability == durability,
            // A stream without replicas has nothing to recover.
            None => durability == Durability::None,
        }
    }
}

/// A registered stream; (segment, epoch) is the oldest that may count as its head (D8).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StreamRecord {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub durability: Durability,
    #[n(3)]
    pub replicas: u8,
    #[n(4)]
    pub segment: SegmentId,
    #[n(5)]
    pub epoch: Epoch,
    /// The neighbourhood that is to recover what is in it. None: anybody.
    #[n(6)]
    pub neighbourhood: Option<String>,
}

impl StreamRecord {
    pub fn class(&self) -> StreamClass {
        StreamClass { durability: self.durability, replicas: self.replicas }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableRecord {
    #[n(0)]
    pub id: TableId,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub options: TableOptions,
    #[n(3)]
    pub seed: PlacementSeed,
    // 4 was the token of its `TableCreate`.
    /// The name is free again, and clients no longer see the table. The record goes when every owner has stopped
    /// serving it.
    #[n(5)]
    pub dropping: bool,
    #[n(6)]
    pub tablets: Vec<TabletRecord>,
    /// Raised by every cut and join, and by every change of options, that an operator asks for.
    #[n(7)]
    #[cbor(default)]
    pub division: DivisionId,
}

/// A tablet, or a piece of one that was joined.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletRecord {
    #[n(0)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(1)]
    pub last: KeyHash,
    #[n(2)]
    pub owner: ServerId,
    /// Whether the owner has taken it. Until then nobody serves it and it may move when the owner dies.
    #[n(3)]
    pub taken: bool,
    #[n(4)]
    pub shard: ShardId,
    #[n(5)]
    pub stream: StreamId,
    #[n(6)]
    pub first_segment: SegmentId,
    /// Told to the server that takes or recovers the tablet; never falls.
    #[n(7)]
    pub version_floor: Version,
    /// This piece and the one before it are of one tablet; their positions may differ (docs/protocols/tablets.md).
    #[n(8)]
    #[cbor(default)]
    pub joined: bool,
    /// The position that it was recovered from, as long as devices may not have all of it here.
    #[n(9)]
    pub earlier: Option<EarlierRecord>,
    /// Further earlier positions, newest first: each time the owner died before devices had all of it.
    #[n(10)]
    #[cbor(default)]
    pub older: Vec<EarlierRecord>,
}

impl TabletRecord {
    /// All its earlier positions, newest first.
    pub fn earlier_positions(&self) -> impl Iterator<Item = &EarlierRecord> {
        self.earlier.iter().chain(&self.older)
    }

    /// Whether a log is an earlier position of it.
    pub fn is_recovered_from(&self, server: ServerId) -> bool {
        self.earlier_positions().any(|earlier| earlier.server == server)
    }
}

/// A position in the log of a server that is dead (docs/protocols/recovery.md, "Until devices have it").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct EarlierRecord {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub shard: ShardId,
    #[n(2)]
    pub stream: StreamId,
    #[n(3)]
    pub first_segment: SegmentId,
    /// The buffers of R backups have everything that was recovered. This is told of the newest position, and counts for
    /// all.
    #[n(4)]
    pub replicated: bool,
    /// This log alone has all of the piece: its owner had told so before it died, and nothing of the log was lost. The
    /// same holds for an oldest position without a loss.
    #[n(5)]
    #[cbor(default)]
    pub whole: bool,
}

/// The recovery of one crashed server; kept as a summary when it is over.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecoveryRecord {
    #[n(0)]
    pub id: RecoveryId,
    #[n(1)]
    pub crashed: ServerId,
    #[n(2)]
    pub address: Address,
    #[n(3)]
    pub token: u64,
    #[n(4)]
    pub detected: ClusterTime,
    #[n(5)]
    pub cause: String,
    /// The server was declared dead because no server answered at a start.
    #[n(6)]
    pub cold: bool,
    /// All directories that may hold its replicas. When all have answered, no further replica can come.
    #[n(7)]
    pub directories: Vec<DirectoryId>,
    /// The id of the present division. Each division has its own, so that an old answer never meets a new plan.
    #[n(8)]
    pub plan: RecoveryId,
    #[n(9)]
    pub ends: Vec<EndRecord>,
    #[n(10)]
    pub published: Vec<PublishedRecord>,
    /// Loss reports filed for the present ends.
    #[n(11)]
    pub losses: Vec<u64>,
    #[n(12)]
    pub done: bool,
    #[n(13)]
    pub complete_millis: Option<u64>,
    #[n(14)]
    pub first_live_millis: Option<u64>,
    #[n(15)]
    pub done_millis: Option<u64>,
    #[n(16)]
    pub partitions: u32,
    #[n(17)]
    pub segments: u64,
    #[n(18)]
    pub bytes: u64,
    #[n(19)]
    pub records: u64,
    #[n(20)]
    pub failed_attempts: u32,
    /// Tablets that the server had when it died.
    #[n(21)]
    pub tablets: u32,
    #[n(22)]
    #[cbor(default)]
    pub steps: RecoverySteps,
    /// Turns of partitions; bounded, the first ones are kept.
    #[n(23)]
    #[cbor(default)]
    pub parts: Vec<PartReport>,
    /// Directories that an operator has given up; nobody waits for them any more.
    #[n(24)]
    #[cbor(default)]
    pub given_up: Vec<AwayReport>,
    /// The work of backups, as last told; bounded.
    #[n(25)]
    #[cbor(default)]
    pub backups: Vec<BackupReport>,
}

/// The end up to which a segment is replayed: for the head of each stream, and after a loss for every segment that is
/// not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct EndRecord {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub segment: SegmentId,
    /// The epoch of the replica that the end was taken from.
    #[n(3)]
    pub epoch: Epoch,
    #[n(4)]
    pub end: u32,
    #[n(5)]
    pub head: bool,
    /// The stream is recovered with a loss report.
    #[n(6)]
    pub lost: bool,
}

/// A partition that is live; a repeated `Recovered` of it is answered `Ok` again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PublishedRecord {
    #[n(0)]
    pub plan: RecoveryId,
    #[n(1)]
    pub partition: u32,
    #[n(2)]
    pub attempt: u32,
    #[n(3)]
    pub server: ServerId,
}
