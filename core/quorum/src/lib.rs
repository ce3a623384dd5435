//! A register that a quorum of bricks holds: no owner, no election, no recovery before the next operation.
//!
//! A brick stores a value if its stamp is newer than what it has (`brick`). A session writes to all bricks and waits for
//! a write quorum (`put`); it reads from a read quorum, and answers with what a write quorum has (`get`). A scan compares
//! what bricks tell of a stretch of keys (`page`). All of it is a set of state machines: time and answers come in, messages and outcomes go out.
//!
//! ```text
//!    session                                      brick
//!    clock ── median of told times                clock ── median of its own and its siblings'
//!    put ──┐                                        │
//!    page ─┤                                        │
//!    get ──┼── tally: which answers count ── Ask → judge ── shelf: what is stored, and was
//!          └── thresholds (N, W, R)     ← Answer ──┘       applied: what was stored before
//! ```
//!
//! Invariants, with the proof in docs/protocols/quorum.md:
//! - W bricks have stored a value that was told, and that of a put that is done, or something newer;
//! - one put takes effect once at most;
//! - an answer of a brick's former life never counts beside one that knows that life to be over.
//!
//! Beside it stands the `window`: how much a session asks of a brick at a time.
//!
//! Not here: which bricks hold a key, connections, the queues of a brick, the bytes on a device.
//!
//! Source: DSTORE04 4, 5. Catalogue: I1, I2, I3, I5.

mod applied;
mod brick;
mod clock;
mod get;
mod message;
mod page;
mod put;
mod rebuild;
mod stale;
mod tally;
mod thresholds;
mod under_way;
mod window;

pub use applied::Applied;
pub use brick::{Brick, NoRoom, Shelf, Stored, Ticket};
pub use clock::{Moment, SessionClock, ToldClock, median};
pub use get::{Get, Got};
pub use message::{Answer, Ask, BrickId, Heard, Life, Out, Said, Write};
pub use page::{PageGet, PageGot, PageKey, PageOut, PageRecord, PageSaid, RecordSaid};
pub use put::{Phases, Put, Written};
pub use ramhold_base::{SessionId, Stamp};
pub use rebuild::Rebuild;
pub use stale::{StaleGet, StaleGot};
pub use thresholds::{NotAQuorum, Thresholds};
pub use under_way::Late;
pub use window::{Class, FULL, Sending, WINDOW_MOST, Window};

use std::time::Duration;

/// A write that began longer ago is not stored any more. Twice the longest life of a message and its repetitions.
pub const HORIZON: Duration = Duration::from_secs(60);
/// A put's stamp may be ahead of a brick's time by this much.
pub const AHEAD_PUT: Duration = Duration::from_secs(10);
/// A repair may bring a stamp that is further ahead: another brick, whose time differs, has stored it.
pub const AHEAD_REPAIR: Duration = Duration::from_secs(20);
/// A brick that was rebuilt knows nothing of what it stored up to this time after the rebuilding: a repair's stamp may
/// have been ahead by so much.
pub const REBUILT_BOUND: Duration = AHEAD_REPAIR;
/// A tombstone stays for so long after no brick of its key has anything older. No put that it would have met is stored any
/// more then: a tombstone may have been ahead as far as a repair may be, and so may the clocks have differed.
pub const GRAVE_TIME: Duration = Duration::from_secs(HORIZON.as_secs() + 2 * AHEAD_REPAIR.as_secs());
/// The patience with silent bricks doubles up to so many times the first one.
pub const PATIENCE_GROWTH: u32 = 8;
/// How often a get begins, at most: anew when it has met something newer.
pub const GET_TRIES: u32 = 4;
