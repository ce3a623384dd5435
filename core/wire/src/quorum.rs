//! Quorum tables in messages: their numbers, which bricks hold a tablet, and the replacement of a brick.
//!
//! Not here: messages of bricks (`bricks`), of sessions to bricks (`ask`). Protocol: docs/protocols/quorum.md. Catalogue: I1.

use crate::Opcode;
use crate::control::{Address, Message};
use minicbor::{Decode, Encode};
use ramhold_base::{KeyHash, ServerId, TableId};

/// The numbers of a quorum table (docs/protocols/quorum.md, rule 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct QuorumOptions {
    /// Bricks that hold each key, 1 to 7.
    #[n(0)]
    pub bricks: u8,
    /// `write + read > bricks`, and `2 * write > bricks`.
    #[n(1)]
    pub write: u8,
    #[n(2)]
    pub read: u8,
    #[n(3)]
    pub protocol: WriteProtocol,
}

/// The phases of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum WriteProtocol {
    /// One phase while all bricks answer, else two.
    #[n(0)]
    Adaptive,
    #[n(1)]
    Single,
    #[n(2)]
    TwoPhase,
}

impl WriteProtocol {
    pub fn name(self) -> &'static str {
        match self {
            WriteProtocol::Adaptive => "adaptive",
            WriteProtocol::Single => "single",
            WriteProtocol::TwoPhase => "two-phase",
        }
    }
}

/// A tablet of a quorum table, and the bricks that hold it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickTablet {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(2)]
    pub last: KeyHash,
    /// Rises with each change of the tablet's bricks; the first one is 1.
    #[n(3)]
    pub epoch: u64,
    /// In order of ids; as many as the table's quorum options say.
    #[n(4)]
    pub bricks: Vec<BrickPlace>,
    /// The bricks that have not been there from the first epoch on.
    #[n(5)]
    #[cbor(default)]
    pub joined: Vec<Joined>,
}

impl BrickTablet {
    /// The epoch in which a brick of this tablet joined; 1: it was there from the beginning.
    pub fn joined(&self, brick: ServerId) -> u64 {
        self.joined.iter().find(|joined| joined.brick == brick).map_or(1, |joined| joined.epoch)
    }
}

/// A brick that came to a tablet by a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Joined {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub epoch: u64,
    /// Its data was taken for lost, and it has not voted since.
    #[n(2)]
    #[cbor(default)]
    pub is_lost: bool,
}

/// Operator to coordinator: a brick does not come back. Another one takes its place in all its tablets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickReplace {
    #[n(0)]
    pub old: ServerId,
    /// Absent: the old brick joins again, should it ever come; its data is taken for lost.
    #[n(1)]
    pub new: Option<ServerId>,
    /// The old brick's data is destroyed for certain. Needed where one brick alone is a read quorum.
    #[n(2)]
    pub is_destroyed: bool,
    /// Too few of the other bricks vote: go on with the newest that is left.
    #[n(3)]
    pub accepts_loss: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickReplaced {
    /// Tablets that have changed.
    #[n(0)]
    pub tablets: u32,
    /// Nothing was changed, and this is why.
    #[n(1)]
    pub obstacle: Option<Obstacle>,
}

impl Message for BrickReplace {
    const OPCODE: Opcode = Opcode::BrickReplace;
    type Reply = BrickReplaced;
}

/// Operator to coordinator: a brick that holds no tablet and is not heard does not come back. Its record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickForget {
    #[n(0)]
    pub brick: ServerId,
}

impl Message for BrickForget {
    const OPCODE: Opcode = Opcode::BrickForget;
    /// With no tablets, or with an obstacle.
    type Reply = BrickReplaced;
}

/// The reason why a brick is not replaced, or not forgotten.
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
    /// The brick that is to be forgotten holds tablets of this table, or has not taken that it is dropped.
    #[n(11)]
    HoldsTablets,
}

/// A brick and where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct BrickPlace {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub address: Address,
}

/// The zone of a brick, as its labels name it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickZone {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub zone: String,
}
