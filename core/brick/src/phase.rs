//! The phases of a brick's life, and the calls to its own backup.

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
}
