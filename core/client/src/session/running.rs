//! What the session remembers of an operation that has not ended.

use crate::operation::Operation;
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
    /// Attempts that came to nothing.
    pub setbacks: u32,
    /// Some attempt may have had its effect although its answer never came.
    pub fate_unknown: bool,
    /// Under what a mutation or an update is sent; it takes another one when every attempt under it was refused.
    pub number: Option<(LeaseId, Sequence)>,
    /// Some process has answered something.
    pub heard: bool,
    pub trouble: Option<Trouble>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Caller,
    /// The session itself wants to know something of the coordinator.
    Fetch(Wanted),
}

/// What operations on objects need.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wanted {
    /// The cluster's id, where the header of a coordinator's answer did not tell it.
    Cluster,
    /// The description of a table.
    Tablets(TableId),
    /// A lease that lives.
    Lease,
}

#[derive(Clone, Copy, Debug)]
pub enum State {
    Pausing,
    /// Until it has come, or has failed to come.
    Awaiting(Wanted),
    /// It goes out at the end of this step.
    Posted,
    Calling(Attempt),
}

/// One request of a session; never used again in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AttemptId(pub u64);

/// One request that was sent and whose answer is awaited.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Which one of the session's.
    pub id: AttemptId,
    pub addr: SocketAddr,
    pub who: Who,
    /// The version of the description that named the owner; 0 when none did.
    pub routed_by: u64,
    /// The first item of the frame that it went in, if there were several.
    pub packed: Option<AttemptId>,
}
