//! The phases of a brick's life, and its calls.

use ramhold_base::ServerId;
use ramhold_shard::ReadBack;
use ramhold_wire::statistics::Flags;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    Reading,
    Unnamed,
    Beginning,
    Awaiting,
    Adopting,
    /// The losses that the start has found are being written to the state.
    Marking,
    Serving,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Context {
    Adopt,
    ReadBack(ReadBack),
    /// An announcement to this sibling.
    Announce(ServerId),
    /// An order to the supervisor of this sibling.
    Restart(ServerId),
    /// An order to the supervisor of a sibling whose statistics are unlike those of the others.
    Cure {
        brick: ServerId,
        life: u64,
        flagged: Flags,
    },
    /// A question to a sibling, with its number.
    Page {
        from: ServerId,
        number: u64,
    },
}
