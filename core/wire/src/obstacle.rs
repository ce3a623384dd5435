//! Orders about bricks that are carried out, what stands in their way, and how they end.
//!
//! Not here: the orders themselves (`quorum`). Protocol: docs/protocols/quorum.md, rules 52, 56. Catalogue: I6, I7.

use minicbor::{Decode, Encode};
use ramhold_base::{ServerId, TableId};

/// The reason why a brick is not replaced, forgotten, added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Obstacle {
    #[n(0)]
    pub kind: ObstacleKind,
    /// The brick that it is about.
    #[n(1)]
    pub brick: ServerId,
    /// The table that it is about; 0: none.
    #[n(2)]
    pub table: TableId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ObstacleKind {
    /// There is no such brick.
    #[n(0)]
    Unknown,
    /// The new brick was not heard lately.
    #[n(1)]
    NotHeard,
    /// The new brick has a part of one of the tablets already.
    #[n(2)]
    HasTablet,
    /// The new brick is in the failure domain of this one, which shares a tablet with the old one.
    #[n(3)]
    SameDomain,
    /// The new brick has less free memory than the old one uses.
    #[n(4)]
    TooSmall,
    /// The new brick would have more tablets than a brick can have.
    #[n(5)]
    TooManyTablets,
    /// This one shares a tablet with the old brick, and was not heard lately.
    #[n(6)]
    Silent,
    /// This one shares a tablet with the old brick, and is being rebuilt itself.
    #[n(7)]
    Rebuilding,
    /// One brick is a read quorum: the operator must say that the old one is destroyed.
    #[n(8)]
    MayBeRead,
    /// The old brick was heard lately: it is not lost.
    #[n(9)]
    NotLost,
    /// No other brick has the keys of the old one's tablets.
    #[n(10)]
    OnlyBrick,
    /// Without this brick the table would have fewer bricks, or failure domains, than a tablet needs.
    #[n(11)]
    LastSibling,
    /// A put or a get of the table needs all bricks of a tablet, so none of them can be changed while it is used.
    #[n(12)]
    NoneToSpare,
    /// There is no quorum table of which the brick could have a share.
    #[n(13)]
    NoTable,
    /// The brick is being added or removed already.
    #[n(14)]
    Ordered,
    /// Nothing was ordered for the brick.
    #[n(15)]
    NotOrdered,
    /// The tablet cannot be cut any further.
    #[n(16)]
    TooNarrow,
    /// The brick that is to be forgotten holds tablets of this table, or has not taken that it is dropped.
    #[n(17)]
    HoldsTablets,
    /// The brick that is to be forgotten gives a tablet of this table to another one, which does not vote yet.
    #[n(18)]
    GivesTablets,
    /// A tablet of this table moves to this brick, which has come no further for a minute.
    #[n(19)]
    Stalled,
}

/// An order to add or remove a brick that is being carried out, or waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Scaling {
    /// Orders are carried out by rising numbers.
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub way: ScaleWay,
    /// A share of this table alone.
    #[n(2)]
    pub table: Option<TableId>,
    /// Tablets that have moved so far.
    #[n(3)]
    pub moved: u32,
    /// Nobody ordered it: the coordinator adds bricks by itself.
    #[n(4)]
    #[cbor(default)]
    pub is_auto: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ScaleWay {
    #[n(0)]
    Adding,
    #[n(1)]
    Removing,
}

/// The last order to add or remove a brick, when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct EndedScaling {
    #[n(0)]
    pub end: ScalingEnd,
    /// Tablets that have moved because of it.
    #[n(1)]
    pub moved: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ScalingEnd {
    /// The brick has its share, or holds nothing any more.
    #[n(0)]
    Done,
    /// An operator took the order back.
    #[n(1)]
    Cancelled,
    /// The brick was silent before it voted in a tablet that moved to it.
    #[n(2)]
    Silent,
    /// Another brick has taken its place.
    #[n(3)]
    Replaced,
}
