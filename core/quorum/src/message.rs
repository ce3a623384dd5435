//! The words between a session and a brick.

use ramhold_base::Instant;
use ramhold_base::Stamp;

/// A brick, as its cluster numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BrickId(pub u64);

/// Counts the starts of a brick. A higher one is later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Life(pub u64);

/// A value to be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write<V> {
    pub stamp: Stamp,
    /// None: a tombstone.
    pub value: Option<V>,
    /// When the put began, or the value of a repair was read; microseconds of the session's clock.
    pub begun: u64,
    pub is_repair: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask<V> {
    /// The newest value and its stamp.
    Value,
    /// The newest stamp alone.
    Stamp,
    Write(Write<V>),
}

/// A brick's word. A brick that is silent has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said<V> {
    /// The newest value; None: a tombstone, or the key was never written (`Stamp::NONE`).
    Value(Stamp, Option<V>),
    Stamp(Stamp),
    /// The stamp of the write was stored here, now or ever.
    Applied,
    /// The stamp was never stored here, and never will be, because this newer one is here.
    Rejected(Stamp),
    /// This newer one is here; whether the stamp of the write ever was is forgotten.
    Unknown(Stamp),
    /// The brick does not hold the key.
    WrongOwner,
}

/// The word of a brick, and what it knows of lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heard<S> {
    pub from: BrickId,
    pub life: Life,
    /// The lives of the tablet's other bricks, as the sender knows them.
    pub siblings: Vec<(BrickId, Life)>,
    /// The tablet's; it rises with each change of its bricks.
    pub epoch: u64,
    /// The sender's time, in microseconds.
    pub clock: u64,
    pub said: S,
}

/// An answer about one key.
pub type Answer<V> = Heard<Said<V>>;

/// An effect of a session's operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out<V> {
    /// The answer is to come with the number of the attempt, as all its repetitions.
    Send { to: BrickId, attempt: u32, ask: Ask<V> },
    /// The operation wants its turn at this time, if no answer comes before.
    WakeAt(Instant),
}
