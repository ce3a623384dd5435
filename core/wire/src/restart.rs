//! Messages about restarts of bricks: a supervisor asks its brick, siblings order restarts, operators ask for them.
//!
//! A brick that hangs answers nobody. Its supervisor, a process of its own, restarts it.
//!
//! Not here: who orders (core/brick), who decides (core/supervisor). Protocol: docs/protocols/quorum.md, rules 42 to 46.
//! Catalogue: I6.

use crate::Opcode;
use crate::control::Message;
use crate::statistics::Flags;
use minicbor::{Decode, Encode};
use ramhold_base::{ClusterId, ServerId};

/// Supervisor, or operator, to brick: is your loop alive, and which life is this?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct BrickProbe {
    /// The brick is to be restarted for an anomaly: it asks its siblings for consent.
    #[n(0)]
    #[cbor(default)]
    pub wants_restart: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickProbed {
    #[n(0)]
    pub cluster: ClusterId,
    /// None: it has no id yet, or its life has not begun.
    #[n(1)]
    pub brick: ServerId,
    /// The number of its starts. 0: the life has not begun.
    #[n(2)]
    pub life: u64,
    #[n(3)]
    pub mark: u64,
    /// It has taken over its log, and answers sessions.
    #[n(4)]
    pub serves: bool,
    /// Tablets that do not vote.
    #[n(5)]
    pub without_vote: u32,
    /// The bricks that share a tablet with it.
    #[n(6)]
    pub siblings: Vec<ServerId>,
    /// All its siblings consent to its restart for an anomaly.
    #[n(7)]
    #[cbor(default)]
    pub may_restart: bool,
}

impl Message for BrickProbe {
    const OPCODE: Opcode = Opcode::BrickProbe;
    type Reply = BrickProbed;
}

/// Brick to the supervisor of a sibling that is silent: restart it, if this is still its life, and it is silent to you, too.
/// Or of one that is unlike the other bricks: restart it, if this is still its life, and its siblings consent.
/// `Fenced`: that life is over. `NotAllowed`: the sender is no sibling of the brick. `WrongServer`: the supervisor has no
/// such brick. `NotReady`: its life is not known here. `Retry`: it was started within two periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RestartOrder {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub life: u64,
    #[n(2)]
    pub mark: u64,
    /// For how long it has been silent to the sender.
    #[n(3)]
    pub silent_millis: u64,
    /// Its statistics that are unlike those of the other bricks. Absent: it is silent.
    #[n(4)]
    #[cbor(default)]
    pub flagged: Option<Flags>,
}

impl Message for RestartOrder {
    const OPCODE: Opcode = Opcode::RestartOrder;
    type Reply = RestartAnswer;
}

/// Operator to supervisor: stop this brick in order, and start it again; start it, if it is offline.
/// `Fenced`: that life is over. `WrongServer`: the supervisor has no such brick. `NotReady`: its life is not known here yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickRestart {
    #[n(0)]
    pub brick: ServerId,
    /// The life that is to end. 0: whichever it is.
    #[n(1)]
    pub life: u64,
}

impl Message for BrickRestart {
    const OPCODE: Opcode = Opcode::BrickRestart;
    type Reply = RestartAnswer;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RestartAnswer {
    #[n(0)]
    pub said: RestartSaid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RestartSaid {
    /// The life is being ended, and the next one begins.
    #[n(0)]
    Restarting,
    /// The brick answers its supervisor: nothing is ended.
    #[n(1)]
    Answers,
    /// The brick was restarted too often. It is ended, and stays offline.
    #[n(2)]
    Offline,
    /// The brick is unlike the others, but not all its siblings vote and consent: nothing is ended.
    #[n(3)]
    Held,
    /// The brick is unlike the others, but was restarted too often. It answers, so nothing is ended.
    #[n(4)]
    Spared,
}
