//! The requests of clients and the answers that they got: the material of every check.
//!
//! Times are the world's. They are taken before an operation is handed over and after its outcome is known.
//! There are three kinds of outcome: done, refused (surely without effect) and unknown. The effect of an
//! unknown operation may come at any later time or never. Its `ret` is `NEVER`.

use crate::trace::fingerprint;
use ramhold_base::{ServerId, Status, Version};
use std::fmt;
use std::time::Duration;

/// The end of an operation whose outcome is unknown.
pub const NEVER: u64 = u64::MAX;

/// A value, known by its fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ValueId(pub u64);

impl ValueId {
    pub fn of(bytes: &[u8]) -> ValueId {
        ValueId(fingerprint(bytes))
    }
}

/// The state that an operation requires before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Free,
    /// The object must not exist.
    Absent,
    /// The object must exist with this version.
    VersionIs(Version),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Read,
    /// With a time to live, counted from the moment at which the write took effect.
    Write {
        value: ValueId,
        condition: Condition,
        ttl: Option<Duration>,
    },
    Remove {
        condition: Condition,
    },
    /// Adds the amount of this place to a counter; no other increment of the counter has the place.
    Increment {
        place: u8,
        condition: Condition,
    },
    /// Reads a counter.
    Count,
    /// Meets all objects. Each object that it meets, and each absence, is a separate read beside it.
    Scan,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A read found this.
    Found {
        version: Version,
        value: ValueId,
    },
    /// A read found nothing.
    Absent,
    /// A mutation took effect with this version; 0 from a remove that found nothing.
    Done {
        version: Version,
    },
    /// A counter has this sum: after an increment, or as it was read.
    Counted {
        version: Version,
        sum: i64,
    },
    /// A read found this. The answer has no version.
    Seen {
        value: ValueId,
    },
    /// A mutation took effect. The answer has no version.
    Acknowledged,
    /// A counter has this sum, after an increment or as it was read. The answer has no version.
    Summed {
        sum: i64,
    },
    /// A scan came to its end.
    Scanned,
    /// A scan met an object a second time.
    MetTwice,
    /// The condition did not hold. The object had this version: 0 when it was absent, none when the answer
    /// has no version.
    ConditionFailed {
        version: Option<Version>,
    },
    /// Surely without effect. The answer says nothing about the object.
    Refused {
        status: Status,
    },
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    pub client: u32,
    /// One session of the client; its lanes have operations under way at the same time.
    pub session: u64,
    pub key: u32,
    pub action: Action,
    pub call: u64,
    pub ret: u64,
    pub outcome: Outcome,
    /// Operations of one commit have the same number here.
    pub commit: Option<u64>,
    /// The server that answered, where it is known. It reveals reads by servers that were declared dead.
    pub answered_by: Option<ServerId>,
}

impl Operation {
    /// Whether it may have changed something.
    pub fn may_mutate(&self) -> bool {
        let effect = matches!(
            self.outcome,
            Outcome::Done { .. }
                | Outcome::Counted { .. }
                | Outcome::Acknowledged
                | Outcome::Summed { .. }
                | Outcome::Unknown
        );
        match self.action {
            Action::Write { .. } | Action::Remove { .. } | Action::Increment { .. } => effect,
            Action::Read | Action::Count | Action::Scan => false,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        write!(f, "client {} key {} at {:.9}", self.client, self.key, seconds(self.call))?;
        match self.ret {
            NEVER => write!(f, "..?")?,
            ret => write!(f, "..{:.9}", seconds(ret))?,
        }
        write!(f, " {:?} -> {:?}", self.action, self.outcome)?;
        self.answered_by.map_or(Ok(()), |server| write!(f, " from {server}"))
    }
}
