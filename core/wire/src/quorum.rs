//! Quorum tables in messages: their numbers, and which bricks hold a tablet.
//!
//! Not here: messages of bricks (`bricks`), of sessions to bricks (`ask`). Protocol: docs/protocols/quorum.md. Catalogue: I1.

use crate::control::Address;
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
}

/// A brick and where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct BrickPlace {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub address: Address,
}
