//! The phases of a brick's life, and its calls.

use ramhold_base::ServerId;
use ramhold_shard::ReadBack;

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
    /// A question to a sibling, with its number.
    Page {
        from: ServerId,
        number: u64,
    },
}
