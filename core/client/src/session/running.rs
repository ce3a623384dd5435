//! The session's record of an operation that has not ended.

use crate::operation::{Operation, OperationId};
use crate::search::Search;
use crate::trouble::{Trouble, Who};
use ramhold_base::{Instant, LeaseId, Sequence, TableId};
use std::net::SocketAddr;

/// An operation that has not ended.
pub struct Running {
    pub operation: Operation,
    pub purpose: Purpose,
    pub started: Instant,
    pub deadline: Instant,
    pub wake: Instant,
    pub state: State,
    pub attempt_count: u32,
    /// Attempts that failed without ending the operation.
    pub setbacks: u32,
    /// Some attempt may have had its effect although its answer never came.
    pub fate_unknown: bool,
    /// The lease and the sequence of a mutation or an update. It takes another sequence when every attempt
    /// under this one was refused.
    pub number: Option<(LeaseId, Sequence)>,
    /// Some process has answered.
    pub heard: bool,
    pub trouble: Option<Trouble>,
    /// The search for a table that no coordinator describes.
    pub search: Option<Box<Search>>,
    /// The findings of the last search that the operation waited for.
    pub searched: Option<Searched>,
}

/// The end of a search that has not found all tablets.
#[derive(Clone, Debug)]
pub struct Searched {
    pub has_part: bool,
    pub text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Caller,
    /// The session itself asks the coordinator for something.
    Fetch(Wanted),
    /// The operation reads a key for a page of this scan of a quorum table, or for this multi-read.
    Part(OperationId),
}

/// Something that operations on objects need before they are sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wanted {
    /// The cluster's id, if no header of a coordinator's answer has told it.
    Cluster,
    /// The description of a table.
    Tablets(TableId),
    /// A lease that lives.
    Lease,
}

#[derive(Clone, Copy, Debug)]
pub enum State {
    Pausing,
    /// Waits until the thing wanted has come, or has failed to come.
    Awaiting(Wanted),
    /// The operation goes out at the end of this step.
    Posted,
    Calling(Attempt),
    /// Bricks are asked; `Session::quorum` has the operation.
    Asking,
}

/// One request of a session. An id is never used again in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptId(pub u64);

/// One request that was sent and whose answer is awaited.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The number of this attempt in the session.
    pub id: AttemptId,
    pub addr: SocketAddr,
    pub who: Who,
    /// The version of the description that named the owner; 0 when none did.
    pub routed_by: u64,
    /// The first item of the frame that the attempt went in, if the frame had several items.
    pub packed: Option<AttemptId>,
}
