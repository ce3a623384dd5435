//! Leases of clients: opening them, renewing them, and asking which of them live. Also the read leases of
//! masters.
//!
//! Protocols: docs/protocols/exactly-once.md, docs/protocols/read-leases.md. Catalogue: A3, F8.

use crate::Opcode;
use crate::control::{Empty, Message};
use minicbor::{Decode, Encode};
use ramhold_base::LeaseId;

/// The most leases that one question may name.
pub const LEASE_CHECK_COUNT_MAX: usize = 1000;

/// Client to coordinator: give me a lease. A repeated request opens another lease; the lease whose answer got
/// lost ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseOpen {
    /// How long the lease is to live without a renewal. The coordinator brings it into its own range.
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

/// Client to coordinator: a whole term again, from the arrival of this message. `LeaseOver` when the lease
/// has ended.
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

/// Client to master: requests under this lease will come. `Ok` when the master knows that the lease lives,
/// `Retry` while the master asks the coordinator, `LeaseOver` when the lease has ended. Changes nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseMeet {
    #[n(0)]
    pub lease: LeaseId,
}

impl Message for LeaseMeet {
    const OPCODE: Opcode = Opcode::LeaseMeet;
    type Reply = Empty;
}

/// Master to coordinator: which of these leases live, and for how long at least?
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseCheck {
    #[n(0)]
    pub leases: Vec<LeaseId>,
}

/// A lease that was asked about and is named in neither list is over for good.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct LeasesChecked {
    #[n(0)]
    pub live: Vec<LiveLease>,
    /// Ids that this coordinator has not given out, or not yet.
    #[n(1)]
    pub never: Vec<LeaseId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LiveLease {
    #[n(0)]
    pub lease: LeaseId,
    /// The rest of the lease's term, in milliseconds.
    #[n(1)]
    pub millis: u64,
}

impl Message for LeaseCheck {
    const OPCODE: Opcode = Opcode::LeaseCheck;
    type Reply = LeasesChecked;
}

/// Master to coordinator: promise that for the length of a read lease from now on nobody else opens my
/// tablets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReadLease {}

impl Message for ReadLease {
    const OPCODE: Opcode = Opcode::ReadLease;
    type Reply = Empty;
}
