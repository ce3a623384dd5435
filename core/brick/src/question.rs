//! A question about a key, its answer, and why there is none.
//!
//! Not here: the bytes of messages (core/wire), their words (`words`). Catalogue: I1.

use ramhold_base::{ClusterTime, ConnId, Instant, RpcId, ServerId, Status};
use ramhold_quorum::{Answer, Class, Heard};
use ramhold_wire::brick_page::BrickPageSaid;

/// The weight of a question in the queue of its class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Load {
    pub class: Class,
    /// Bytes of memory that the question takes while it waits, key and value.
    pub bytes: u32,
}

/// The connection and the number of a question: its answer goes there, with this number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Asker {
    pub conn: ConnId,
    pub rpc: RpcId,
    /// The brick that asks; none: a session.
    pub brick: ServerId,
    pub load: Load,
    /// When the question came.
    pub came: Instant,
}

impl Asker {
    /// The brick itself: it wants no answer.
    pub const NOBODY: Asker = Asker {
        conn: ConnId(u64::MAX),
        rpc: RpcId::NONE,
        brick: ServerId::NONE,
        load: Load { class: Class::Put, bytes: 0 },
        came: Instant::ZERO,
    };
}

/// A value as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    pub bytes: Vec<u8>,
    /// The time from which it does not exist: milliseconds of the table's time.
    pub expires: Option<ClusterTime>,
}

pub(crate) type Key = Vec<u8>;

/// An answer of a brick, and to whom it goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answered {
    pub asker: Asker,
    pub answer: Answer<Value>,
}

/// A page of a tablet's keys for a session: what goes before the records, and the records as bytes.
pub(crate) struct PageTold {
    pub head: Heard<BrickPageSaid>,
    pub records: Vec<u8>,
}

/// Why a question has no answer of the register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The brick has not taken over its log yet, or not the part that may hold the key, or does not know the time.
    NotReady,
    /// The table is not one of this brick's.
    UnknownTable,
    /// The key, the value or the stamp is beyond the limits.
    BadRequest,
    /// Too many wait, or too many bytes.
    TooMany,
    /// There is no room for the value in the log.
    OutOfMemory,
    /// An entry that may be the key's is damaged in memory, and is being repaired.
    Retry,
    /// It could not be repaired so far.
    Corrupt,
    /// The asker is no sibling of the tablet, or knows another epoch of it.
    NotSibling,
    /// The life that asks is over, or another process has the same number: two processes run on copies of one directory.
    OldLife,
}

impl Refusal {
    pub fn status(self) -> Status {
        match self {
            Refusal::NotReady => Status::NotReady,
            Refusal::UnknownTable => Status::UnknownTable,
            Refusal::BadRequest => Status::BadRequest,
            Refusal::TooMany => Status::TooMany,
            Refusal::OutOfMemory => Status::OutOfMemory,
            Refusal::Retry => Status::Retry,
            Refusal::Corrupt => Status::Corrupt,
            Refusal::NotSibling => Status::NotAllowed,
            Refusal::OldLife => Status::Fenced,
        }
    }
}
