//! Reports of servers to the coordinator about their neighbours, and questions to each other.
//!
//! Not here: what follows from it (outage), who is a neighbour (placement). Protocol: docs/protocols/neighbours.md. Catalogue: H3, H4.
//! Source: RAMCUBE 3.3.

use crate::control::{Empty, Message};
use crate::opcode::Opcode;
use crate::status::Reached;
use minicbor::{Decode, Encode};
use ramhold_base::ServerId;

/// The most neighbours that a server pings.
pub const WATCHED_MAX: usize = 64;

/// Server to coordinator: the neighbours that do not answer this server. A later report replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct NeighbourReport {
    /// Rises with every report of a server's life.
    #[n(0)]
    pub number: u64,
    /// At most `WATCHED_MAX`.
    #[n(1)]
    pub silent: Vec<SilentNeighbour>,
    /// The sender hears less than half of its neighbours, so it accuses nobody.
    #[n(2)]
    pub is_cut_off: bool,
}

impl Message for NeighbourReport {
    const OPCODE: Opcode = Opcode::NeighbourReport;
    type Reply = Empty;
}

/// A neighbour that does not answer, at least on one link.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SilentNeighbour {
    #[n(0)]
    pub server: ServerId,
    /// The links on which it is silent, at most `LINK_COUNT_MAX`; empty: it is pinged at its first address.
    #[n(1)]
    pub links: Vec<String>,
    #[n(2)]
    pub reach: NeighbourReach,
}

/// Whether another way leads to a silent neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum NeighbourReach {
    /// It is being looked for, or none of the servers that were asked has answered.
    #[n(0)]
    Unknown,
    /// It answers at another address, or answers another server.
    #[n(1)]
    Elsewhere,
    /// It answers at none of its addresses, and does not answer another server either.
    #[n(2)]
    Lost,
}

/// Server to server: does this server, which is up, answer you? You have this much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReachNeighbour {
    #[n(0)]
    pub server: ServerId,
    /// At most `REACH_MILLIS_MAX`.
    #[n(1)]
    pub within_millis: u32,
}

/// The longest time that a server may be asked to wait for another one's answer.
pub const REACH_MILLIS_MAX: u32 = 1000;

impl Message for ReachNeighbour {
    const OPCODE: Opcode = Opcode::ReachNeighbour;
    type Reply = Reached;
}
