//! Quorum tables in messages: their numbers, which bricks hold a tablet, and the replacement of a brick.
//!
//! Not here: messages of bricks (`bricks`), of sessions to bricks (`ask`). Protocol: docs/protocols/quorum.md. Catalogue: I1.

use crate::Opcode;
use crate::control::{Address, Message};
use crate::obstacle::Obstacle;
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
    /// The tablet is moving. Absent: it is not.
    #[n(6)]
    pub giving: Option<Giving>,
}

/// A tablet moves from one brick to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Giving {
    /// It is no brick of the tablet any more, and keeps what it has until `new` votes.
    #[n(0)]
    pub old: BrickPlace,
    /// The brick that has joined in its place.
    #[n(1)]
    pub new: ServerId,
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

/// Operator to coordinator: a brick is to get a share of the quorum tables, or is to give all its tablets to others. The
/// answer comes when the order is stored; the bricks need minutes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickScale {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub order: ScaleOrder,
    /// A share of this table alone. Absent: of all of them.
    #[n(2)]
    pub table: Option<TableId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ScaleOrder {
    #[n(0)]
    Add,
    #[n(1)]
    Remove,
    /// The order is forgotten. A tablet that moves goes back, unless the brick that takes it votes first.
    #[n(2)]
    Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickScaled {
    /// Orders that are carried out before. If an order is taken back: the tablets that go back.
    #[n(0)]
    pub before: u32,
    /// Nothing was ordered, and this is why.
    #[n(1)]
    pub obstacle: Option<Obstacle>,
}

impl Message for BrickScale {
    const OPCODE: Opcode = Opcode::BrickScale;
    type Reply = BrickScaled;
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
