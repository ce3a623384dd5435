//! Messages of bricks: to each other, and to the coordinator, which names them and gives them tablets of quorum tables.
//!
//! A brick asks; the coordinator never sends it a request. So a coordinator that is away is missed by nobody, and one
//! that is back hears of every brick within a second.
//!
//! Not here: questions of sessions about keys (`ask`). Protocol: docs/protocols/quorum.md. Catalogue: I1, I4, I6.

use crate::Opcode;
use crate::control::{Address, Empty, Message};
use crate::membership::{Durability, Label};
use crate::quorum::{BrickPlace, BrickTablet, QuorumOptions};
use crate::statistics::Statistics;
use minicbor::{Decode, Encode};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{ClusterId, ClusterTime, DirectoryId, KeyHash, ServerId, Stamp, TableId};
use std::time::Duration;

/// The weight of a brick that names none, and the most that one may have.
pub const BRICK_WEIGHT: u16 = 100;
pub const BRICK_WEIGHT_MAX: u16 = 10_000;

/// The most keys of a page between bricks.
pub const PAGE_KEYS_MAX: usize = 1000;

/// A brick that the coordinator has not heard for this long is not counted on: several of its hellos are missing.
pub const BRICK_SILENCE: Duration = Duration::from_secs(3);

/// The pause between two announcements of a brick.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(500);

/// Brick to coordinator, once a second and when something has changed: I am here. A brick that has no id yet is given one,
/// under its token always the same. `WrongCluster`: the directory is of another cluster. `NotInCluster`: the coordinator
/// does not know such a brick. `NotAllowed`: another directory has this id. `Fenced`: a later life of it was heard.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickHello {
    /// Random, new with each start.
    #[n(0)]
    pub token: u64,
    #[n(1)]
    pub directory: DirectoryId,
    /// Absent: it has none yet.
    #[n(2)]
    pub brick: Option<ServerId>,
    /// The number of its starts.
    #[n(3)]
    pub life: u64,
    #[n(4)]
    pub address: Address,
    #[n(5)]
    pub labels: Vec<Label>,
    /// Memory of its log.
    #[n(6)]
    pub log_bytes: u64,
    /// The version of the assignment that it has on its device; 0: none.
    #[n(7)]
    pub taken: u64,
    /// Tablets that do not vote: they are being rebuilt or loaded, or wait for other bricks.
    #[n(8)]
    pub without_vote: u32,
    /// Bytes of its log in use.
    #[n(9)]
    pub used_bytes: u64,
    /// The brick's share of tablets beside other bricks, from 1; absent: `BRICK_WEIGHT`.
    #[n(10)]
    pub weight: Option<u16>,
    /// The port of the process that restarts it, at the host of `address`. Absent: nobody does.
    #[n(11)]
    pub supervisor: Option<u16>,
    /// The load of its tablets. Absent: as last told.
    #[n(12)]
    pub loads: Option<Vec<TabletLoad>>,
    /// The part of the tablet that it rebuilds just now, of 1,000. Absent: it rebuilds none.
    #[n(13)]
    pub rebuilt: Option<u16>,
}

/// The load of a tablet at one of its bricks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletLoad {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(2)]
    pub last: KeyHash,
    /// Questions of sessions in a second: the average of the last seconds, each with half the weight of the next.
    #[n(3)]
    pub asks: u64,
    /// Bytes of its keys and values, estimated from those of the table.
    #[n(4)]
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickWelcome {
    #[n(0)]
    pub cluster: ClusterId,
    #[n(1)]
    pub brick: ServerId,
    /// The secret of the index hash, the same for all bricks and servers of the cluster.
    #[n(2)]
    pub index_secret: u64,
    #[n(3)]
    pub time: ClusterTime,
    /// Absent: it has the newest already.
    #[n(4)]
    pub assignment: Option<BrickAssignment>,
    /// The bricks that share a tablet with this one, at their present addresses.
    #[n(5)]
    pub siblings: Vec<BrickPlace>,
    /// Other bricks that a session may need to find all tablets of this one's tables, at most `BRICKS_TOLD_MAX`.
    #[n(6)]
    #[cbor(default)]
    pub others: Vec<BrickPlace>,
}

impl Message for BrickHello {
    const OPCODE: Opcode = Opcode::BrickHello;
    type Reply = BrickWelcome;
}

/// The tables and tablets that a brick is to have. It keeps what it has beyond that, unless the table is named as dropped.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct BrickAssignment {
    /// Rises with each change of any brick's assignment.
    #[n(0)]
    pub version: u64,
    #[n(1)]
    pub tables: Vec<BrickTable>,
    #[n(2)]
    pub tablets: Vec<BrickTablet>,
    /// Tables that do not exist any more.
    #[n(3)]
    pub dropped: Vec<TableId>,
    /// Tablets that other bricks have in its place.
    #[n(4)]
    #[cbor(default)]
    pub given_up: Vec<GivenUp>,
}

/// A tablet is not a brick's any more since this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct GivenUp {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(2)]
    pub last: KeyHash,
    #[n(3)]
    pub epoch: u64,
}

/// A quorum table, as its bricks know it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickTable {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub seed: PlacementSeed,
    /// The placement is by slots.
    #[n(3)]
    pub slots: bool,
    #[n(4)]
    pub durability: Durability,
    #[n(5)]
    pub quorum: QuorumOptions,
}

/// Brick to sibling, twice a second: I live, and this is my life. Answered when the life is on the sibling's device.
/// `Fenced`: a later life of the sender is known, or another process has the same number.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Announce {
    #[n(0)]
    pub life: u64,
    /// Random, drawn at each start: tells apart two processes that run on copies of one directory.
    #[n(1)]
    pub mark: u64,
    /// Where the sender listens.
    #[n(2)]
    pub address: Address,
    /// The port of the process that restarts the sender, at the host of `address`. Absent: nobody does.
    #[n(3)]
    pub supervisor: Option<u16>,
    /// The tablets that the sender shares with the sibling; absent while the sibling is known to have the same.
    #[n(4)]
    #[cbor(default)]
    pub shared: Option<Shared>,
    /// The statistics since the announcement before.
    #[n(5)]
    #[cbor(default)]
    pub report: Option<StatisticsReport>,
    /// The sender is to be restarted for an anomaly, and asks for consent.
    #[n(6)]
    #[cbor(default)]
    pub wants_restart: bool,
}

/// Brick to the next bricks by id that share no tablet with it, and part of its announcements: how I am doing. It has no
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StatisticsReport {
    /// The number of the sender's starts.
    #[n(0)]
    pub life: u64,
    /// Each of its tablets votes here.
    #[n(1)]
    pub votes: bool,
    #[n(2)]
    pub statistics: Statistics,
}

impl Message for StatisticsReport {
    const OPCODE: Opcode = Opcode::StatisticsReport;
    type Reply = Empty;
}

/// Tablets that two bricks share, as one of them knows them.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Shared {
    #[n(0)]
    pub tables: Vec<BrickTable>,
    #[n(1)]
    pub tablets: Vec<BrickTablet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Announced {
    /// The answerer's own clock, in microseconds.
    #[n(0)]
    pub clock: u64,
    #[n(1)]
    pub life: u64,
    /// A fingerprint of the ranges and epochs of the tablets that the answerer shares with the asker; 0: of none.
    #[n(2)]
    #[cbor(default)]
    pub shared: u64,
    /// The asker may be restarted for an anomaly: the answerer votes, and has not consented to another restart.
    #[n(3)]
    #[cbor(default)]
    pub consents: bool,
}

impl Message for Announce {
    const OPCODE: Opcode = Opcode::Announce;
    type Reply = Announced;
}

/// Brick that is rebuilt to a sibling: tell me stamps, or values, of a tablet. Answered when the asker's life is on the
/// sibling's device. `Fenced`: a later life of the asker is known. `NotAllowed`: the asker is no sibling of the tablet, or
/// the epoch is another one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletPage {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(2)]
    pub last: KeyHash,
    #[n(3)]
    pub epoch: u64,
    /// The number and the mark of the asker's life.
    #[n(4)]
    pub life: u64,
    #[n(5)]
    pub mark: u64,
    #[n(6)]
    pub wanted: PageWanted,
    /// The asked brick is the one from which the tablet moves: it is to tell what it has under an earlier epoch.
    #[n(7)]
    #[cbor(default)]
    pub stands_in: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum PageWanted {
    /// The stamps of the tablet's keys from a position on, in the order of walks.
    #[n(0)]
    Stamps {
        #[n(0)]
        from: u64,
        /// The answer is to come when everything that it tells is on the device.
        #[n(1)]
        on_device: bool,
    },
    /// The values of these keys, at most `PAGE_KEYS_MAX`.
    #[n(1)]
    Values {
        #[n(0)]
        keys: Vec<PageKey>,
    },
}

/// A key, as a byte string.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct PageKey(#[cbor(n(0), with = "minicbor::bytes")] pub Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletPageTold {
    #[n(0)]
    pub epoch: u64,
    /// Whether the tablet votes at the brick that tells.
    #[n(1)]
    pub votes: bool,
    /// In order of position; values in any order, and perhaps not all.
    #[n(2)]
    pub records: Vec<PageRecord>,
    /// Where the next page begins. Absent: this was the last one.
    #[n(3)]
    pub next: Option<u64>,
    /// The brick that tells has joined, and has never voted since.
    #[n(4)]
    #[cbor(default)]
    pub is_joining: bool,
}

/// The newest record of a key.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PageRecord {
    /// Its place in the order of walks.
    #[n(0)]
    pub position: u64,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Vec<u8>,
    #[n(2)]
    pub stamp: Stamp,
    /// Absent: a tombstone, or stamps alone were asked for.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    pub value: Option<Vec<u8>>,
    /// When the value ends.
    #[n(4)]
    pub expires: Option<ClusterTime>,
    #[n(5)]
    pub is_tombstone: bool,
}

impl Message for TabletPage {
    const OPCODE: Opcode = Opcode::TabletPage;
    type Reply = TabletPageTold;
}
