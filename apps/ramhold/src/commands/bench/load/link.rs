//! The way of operations to the servers and back, whatever protocol carries them.
//!
//! A link sends what it is given and returns what has ended. It has no clock and no limit: the worker decides
//! when an operation is sent, and what its time counts from.
//!
//! Not here: the protocols (native, text), times (worker).

use crate::failure::Failure;
use std::time::Instant;

/// An operation of the benchmark, by the number of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Read {
        object: u64,
    },
    Write {
        object: u64,
    },
    /// Reads objects with consecutive numbers; done when all are read.
    ReadSeveral {
        first: u64,
        count: u64,
    },
}

/// The kinds of operations that are told apart in the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    /// Overwrites an object.
    Write,
    /// Writes a new object.
    Insert,
    /// Reads an object, then writes it.
    Modify,
    /// Reads several objects at once.
    Scan,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Insert, Kind::Modify, Kind::Scan];
}

/// Travels with an operation and comes back with its end.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    pub kind: Kind,
    /// The object, of several the first.
    pub object: u64,
    /// Whether the operation goes on with a write of its object.
    pub writes_next: bool,
    /// The moment at which the operation was due, in an open loop.
    pub due: Option<Instant>,
    /// The moment at which the operation was given to the link.
    pub sent: Instant,
}

/// The end of an operation.
#[derive(Debug)]
pub enum Ending {
    Done,
    /// Refused, or of unknown outcome. `name` is the same for all failures of one kind.
    Failed {
        name: String,
        failure: Failure,
    },
}

/// Carries operations of one client.
pub trait Link {
    /// Sends all of them, together where the protocol allows it. Leaves the list empty.
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>);

    /// Waits until one of them ends. `None`: none is under way.
    fn wait(&mut self) -> Option<(Tag, Ending)>;

    /// One that has ended already. To be called again and again: this is also what lets operations get on.
    fn poll(&mut self) -> Option<(Tag, Ending)>;

    /// Whether everything that is started from now on fails.
    fn is_lost(&self) -> bool {
        false
    }
}
