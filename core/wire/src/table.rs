//! Tables and tablets: the requests of clients to the coordinator, and of the coordinator to masters.

use crate::Opcode;
use crate::control::{Address, Empty, Message};
use crate::membership::Durability;
use crate::quorum::{BrickTablet, BrickZone, QuorumOptions};
use crate::recovery::TabletStat;
use crate::shortage::Shortage;
use minicbor::{Decode, Encode};
use ramhold_base::hash::{Placement, PlacementSeed};
use ramhold_base::{DivisionId, KeyHash, SegmentId, ServerId, ShardId, StreamId, TableId};

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableOptions {
    #[n(0)]
    pub durability: Durability,
    /// Copies on backups, 0 to `REPLICA_COUNT_MAX`; 0 exactly when the durability is `none`.
    #[n(1)]
    pub replicas: u8,
    /// Tablets to begin with. 0: the coordinator chooses one per master.
    #[n(2)]
    pub tablets: u32,
    /// Whether the placement hash begins with the key's slot in the sense of Redis Cluster. If so, tablets
    /// begin and end at slots.
    #[n(3)]
    #[cbor(default)]
    pub slots: bool,
    /// The zone whose masters have the tablets while one of them is up and has room; at most
    /// `LABEL_BYTES_MAX` bytes. None: any masters have them.
    #[n(4)]
    pub zone: Option<String>,
    /// The table is held by a quorum of bricks, and by no master. `replicas` is 0 and `zone` none then, and
    /// `tablets` counts for nothing.
    #[n(5)]
    pub quorum: Option<QuorumOptions>,
}

/// The options that the creator of a table leaves to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum LeftOpen {
    /// The number of replicas. A cluster whose default is no replicas refuses, since the durability wants
    /// some.
    #[n(0)]
    Replicas,
    /// The number of replicas, and whether there are any: a default of no replicas makes the durability
    /// `none`.
    #[n(1)]
    Durability,
}

/// Client to coordinator, under a number of the client's lease, so that it makes a table once. A name in use
/// gives `TableExists`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableCreate {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub options: TableOptions,
    // 2 was a token that made it repeatable.
    /// If set, the cluster's default counts. `options.replicas` then counts only for a coordinator that does
    /// not know this field. Means nothing when the durability is `none`.
    #[n(3)]
    pub left_open: Option<LeftOpen>,
}

/// Answered when every tablet has an owner that serves it; a quorum table, when max(W, R) bricks of each tablet have it
/// on their devices. `TooFewBackups`, with a `Shortage` as its body,
/// when the servers that are up cannot keep the table's replicas; then no table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableCreated {
    #[n(0)]
    pub table: TableId,
}

impl Message for TableCreate {
    const OPCODE: Opcode = Opcode::TableCreate;
    type Reply = TableCreated;
}

/// Client to coordinator, by id and under a number of the client's lease: drop the table. Answered when every
/// owner has stopped serving, or is dead; a quorum table, when every brick of it that was heard lately has dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableDrop {
    #[n(0)]
    pub table: TableId,
}

impl Message for TableDrop {
    const OPCODE: Opcode = Opcode::TableDrop;
    type Reply = Empty;
}

/// Client to coordinator, by id and under a number of the client's lease: drop the table, and let an empty
/// one take its name, options, seed and division, in one commit. Answered when the old table is gone and the
/// new one is served. `TooFewBackups`, with a `Shortage` as its body, when the new table could not keep its
/// replicas; then the old one stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableTruncate {
    #[n(0)]
    pub table: TableId,
}

/// The empty table that takes the old one's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableTruncated {
    #[n(0)]
    pub table: TableId,
}

impl Message for TableTruncate {
    const OPCODE: Opcode = Opcode::TableTruncate;
    type Reply = TableTruncated;
}

/// Client to coordinator, by id and under a number of the client's lease: cut or join tablets where they are.
/// Answered when the tablets' owners have done so, or are dead. `Unsupported` for a quorum table. Rules: docs/protocols/tablets.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableDivide {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub division: Division,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Division {
    #[n(0)]
    Parts {
        /// Each tablet is cut into `count` equal ones, or into as many as it has hashes or slots.
        #[n(0)]
        count: u32,
    },
    #[n(1)]
    Split {
        /// A tablet is to begin here. In a table by slots this is the first hash of a slot.
        #[n(0)]
        at: KeyHash,
    },
    #[n(2)]
    Join {
        /// The tablet that begins here is joined with the one before it. Absent: all neighbours that may be
        /// joined are.
        #[n(0)]
        at: Option<KeyHash>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableDivided {
    /// The number of tablets that the table has now.
    #[n(0)]
    pub tablets: u32,
}

impl Message for TableDivide {
    const OPCODE: Opcode = Opcode::TableDivide;
    type Reply = TableDivided;
}

/// Operator to coordinator, by id and under a number of a client's lease: change the table's durability or
/// replica count online. Answered when the change is stored. The tablets follow one by one
/// (docs/protocols/reclassing.md), and `TableDescription` tells how far they are. `TooFewBackups`, with a
/// `Shortage` as its body, when the servers that are up cannot keep the table so; then nothing changes.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableAlter {
    #[n(0)]
    pub table: TableId,
    /// Absent: unchanged. A change from or to `none` is not possible.
    #[n(1)]
    pub durability: Option<Durability>,
    /// Copies on backups, 1 to `REPLICA_COUNT_MAX`. Absent: unchanged.
    #[n(2)]
    pub replicas: Option<u8>,
    /// The zone whose masters are to have the tablets; empty: any masters. Absent: unchanged. Tablets that
    /// are elsewhere stay there until their owner dies.
    #[n(3)]
    pub zone: Option<String>,
}

impl Message for TableAlter {
    const OPCODE: Opcode = Opcode::TableAlter;
    type Reply = Empty;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableList {}

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct Tables {
    #[n(0)]
    pub tables: Vec<TableSummary>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableSummary {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub options: TableOptions,
    #[n(3)]
    pub tablets: u32,
    /// Losses reported and not yet acknowledged.
    #[n(4)]
    pub losses: u32,
}

impl Message for TableList {
    const OPCODE: Opcode = Opcode::TableList;
    type Reply = Tables;
}

/// Describe a table, by name, or by id when the name is empty. `UnknownTable` when there is no such table.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableDescribe {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub table: TableId,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableDescription {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub options: TableOptions,
    #[n(3)]
    pub seed: PlacementSeed,
    /// In order of hashes; together they cover all hashes.
    #[n(4)]
    pub tablets: Vec<TabletDescription>,
    /// Tablets that do not yet have the durability and replicas of the options, or not with all of their
    /// hashes.
    #[n(5)]
    #[cbor(default)]
    pub reclassing: u32,
    /// Why writes may wait: too few failure domains are up for the table's replicas.
    #[n(6)]
    pub shortage: Option<Shortage>,
    /// Tablets that are outside the zone of the options. None: the options name no zone.
    #[n(7)]
    pub outside: Option<u32>,
    /// The tablets of a quorum table, in order of hashes; together they cover all hashes. `tablets` is empty then.
    #[n(8)]
    pub quorum: Option<Vec<BrickTablet>>,
    /// Bricks of the table that have a zone; absent if none has. A brick that describes its table knows its own alone.
    #[n(9)]
    pub zones: Option<Vec<BrickZone>>,
}

/// The body of a refusal of `TableDescribe` with `NotCoordinator`: what a brick has of the table all the same, and whom to
/// ask next. A process that has nothing to tell sends no body.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableHint {
    /// The table, with those of its tablets that the sender holds. They need not cover all hashes.
    #[n(0)]
    pub part: Option<TableDescription>,
    /// Where bricks listen that may hold more, or name bricks that do; at most `BRICKS_TOLD_MAX`.
    #[n(1)]
    pub bricks: Vec<Address>,
}

impl TableDescription {
    pub fn placement(&self) -> Placement {
        Placement { seed: self.seed, slots: self.options.slots }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum TabletState {
    #[n(0)]
    Serving,
    /// The tablet's owner is dead; wait for the new one.
    #[n(1)]
    Recovering,
    /// The tablet's first owner has not taken it yet.
    #[n(2)]
    Creating,
    /// The table is being dropped.
    #[n(3)]
    Dropping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletDescription {
    #[n(0)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(1)]
    pub last: KeyHash,
    #[n(2)]
    pub state: TabletState,
    #[n(3)]
    pub owner: ServerId,
    #[n(4)]
    pub shard: ShardId,
    /// The address at which the owner listens; absent while the owner is dead.
    #[n(5)]
    pub address: Option<Address>,
    #[n(6)]
    pub stream: StreamId,
    /// Entries of the tablet before this segment of the stream do not count (consistency rule 7).
    #[n(7)]
    pub first_segment: SegmentId,
}

impl Message for TableDescribe {
    const OPCODE: Opcode = Opcode::TableDescribe;
    type Reply = TableDescription;
}

/// Coordinator to master: this tablet is yours, and empty. The master rolls the head of the stream of this
/// class (and opens and registers the stream if needed), waits until the new head is durable, and answers.
/// Idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletTake {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub seed: PlacementSeed,
    #[n(2)]
    pub first: KeyHash,
    #[n(3)]
    pub last: KeyHash,
    #[n(4)]
    pub durability: Durability,
    #[n(5)]
    pub replicas: u8,
    /// The new owner's versions start at least here. After a loss this is the dead owner's ceiling.
    #[n(6)]
    pub version_floor: ramhold_base::Version,
    #[n(7)]
    #[cbor(default)]
    pub slots: bool,
}

impl TabletTake {
    pub fn placement(&self) -> Placement {
        Placement { seed: self.seed, slots: self.slots }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletTaken {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub first_segment: SegmentId,
}

impl Message for TabletTake {
    const OPCODE: Opcode = Opcode::TabletTake;
    type Reply = TabletTaken;
}

/// Coordinator to master: stop serving every tablet of this table, and forget it. Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletDrop {
    #[n(0)]
    pub table: TableId,
}

impl Message for TabletDrop {
    const OPCODE: Opcode = Opcode::TabletDrop;
    type Reply = Empty;
}

/// Coordinator to master: these are your tablets of this table. The master cuts and joins the tablets that it
/// serves accordingly, and their statistics too, and leaves each key as it is. Answered when that is done.
/// Idempotent; a request with an older division is refused.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletDivide {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub division: DivisionId,
    /// In order of hashes.
    #[n(2)]
    pub tablets: Vec<HashSpan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HashSpan {
    #[n(0)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(1)]
    pub last: KeyHash,
}

impl Message for TabletDivide {
    const OPCODE: Opcode = Opcode::TabletDivide;
    type Reply = Empty;
}

/// Coordinator to master: keep your tablets of this table with this durability and replica count. Answered
/// when that is noted; asked again until all tablets are kept so. `NotAllowed` when a newer division is
/// known; `Unsupported` for tables without replicas. Rules: docs/protocols/reclassing.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletReclass {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub durability: Durability,
    #[n(2)]
    pub replicas: u8,
    /// Rises with each change of the table. A request with an older division is refused.
    #[n(3)]
    pub division: DivisionId,
}

impl Message for TabletReclass {
    const OPCODE: Opcode = Opcode::TabletReclass;
    type Reply = Empty;
}

/// Master to coordinator: all entries of these hashes, which are mine, are durable in another of my streams,
/// from this segment on. Answered when it is stored that they count there. Idempotent; `NotAllowed` when the
/// message is older than the stored position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletReclassed {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(2)]
    pub last: KeyHash,
    #[n(3)]
    pub shard: ShardId,
    #[n(4)]
    pub stream: StreamId,
    #[n(5)]
    pub first_segment: SegmentId,
}

impl Message for TabletReclassed {
    const OPCODE: Opcode = Opcode::TabletReclassed;
    type Reply = Empty;
}

/// Coordinator to master: where does your data of this table lie?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletWeights {
    #[n(0)]
    pub table: TableId,
}

/// The rows as they will stand in the next head: from the table's profile, if the table is large enough to
/// have one.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct TabletsWeighed {
    #[n(0)]
    pub rows: Vec<TabletStat>,
}

impl Message for TabletWeights {
    const OPCODE: Opcode = Opcode::TabletWeights;
    type Reply = TabletsWeighed;
}
