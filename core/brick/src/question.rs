//! A question about a key, its answer, and why there is none.
//!
//! Not here: the bytes of messages (core/wire). Catalogue: I1.

use ramhold_base::ClusterTime;
use ramhold_quorum::Answer;

/// Names who asked, for the caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Asker(pub u64);

/// A value as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    pub bytes: Vec<u8>,
    /// The time from which it does not exist: milliseconds of the table's time.
    pub expires: Option<ClusterTime>,
}

pub(crate) type Key = Vec<u8>;

/// An answer of a brick, and to whom it goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    pub asker: Asker,
    pub answer: Answer<Value>,
}

/// Why a question has no answer of the register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The brick has not taken over its log yet, or does not know the time.
    NotReady,
    /// The table is not one of this brick's.
    UnknownTable,
    /// The key, the value or the stamp is beyond the limits.
    BadRequest,
    /// There is no room for the value, or too many wait.
    TooMany,
    /// An entry that may be the key's is damaged in memory, and is being repaired.
    Retry,
    /// It could not be repaired so far.
    Corrupt,
    /// The asker is no sibling of the tablet, or knows another epoch of it.
    NotSibling,
    /// The life that asks is over, or another process has the same number: two processes run on copies of one directory.
    OldLife,
}
