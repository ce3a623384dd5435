//! Leases of clients: opening and renewing them, and asking which of them live; and read leases of masters.
//!
//! Protocols: docs/protocols/exactly-once.md, docs/protocols/read-leases.md. Catalogue: A3, F8.

use crate::Opcode;
use crate::control::{Empty, Message};
use minicbor::{Decode, Encode};
use ramhold_base::LeaseId;

/// How many leases one question may name.
pub const LEASE_CHECK_COUNT_MAX: usize = 1000;

/// Client to coordinator. Repeating it opens another lease; the one whose answer got lost ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseOpen {
    /// How long it is to live without a renewal; brought into the coordinator's range.
    #[n(0)]
    pub term_millis: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseOpened {
    #[n(0)]
    pub lease: LeaseId,
    #[n(1)]
    pub term_millis: u64,
}

impl Message for LeaseOpen {
    const OPCODE: Opcode = Opcode::LeaseOpen;
    type Reply = LeaseOpened;
}

/// Client to coordinator: a whole term again, from when this arrives. `LeaseOver` when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRenew {
    #[n(0)]
    pub lease: LeaseId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRenewed {
    #[n(0)]
    pub term_millis: u64,
}

impl Message for LeaseRenew {
    const OPCODE: Opcode = Opcode::LeaseRenew;
    type Reply = LeaseRenewed;
}

/// Client to master: requests under this lease will come. `Ok` when the master knows that it lives, `Retry` while the
/// master asks the coordinator, `LeaseOver` when it has ended. Changes nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseMeet {
    #[n(0)]
    pub lease: LeaseId,
}

impl Message for LeaseMeet {
    const OPCODE: Opcode = Opcode::LeaseMeet;
    type Reply = Empty;
}

/// Master to coordinator: which of these live, and for how long at least?
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseCheck {
    #[n(0)]
    pub leases: Vec<LeaseId>,
}

/// Those of the asked that are not named are over for good.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct LeasesChecked {
    #[n(0)]
    pub live: Vec<LiveLease>,
    /// Ids that this coordinator has not given out, not yet perhaps.
    #[n(1)]
    pub never: Vec<LeaseId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LiveLease {
    #[n(0)]
    pub lease: LeaseId,
    /// What is left of its term.
    #[n(1)]
    pub millis: u64,
}

impl Message for LeaseCheck {
    const OPCODE: Opcode = Opcode::LeaseCheck;
    type Reply = LeasesChecked;
}

/// Master to coordinator: promise that nobody else opens my tablets for a read lease from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReadLease {}

impl Message for ReadLease {
    const OPCODE: Opcode = Opcode::ReadLease;
    type Reply = Empty;
}
