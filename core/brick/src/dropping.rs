//! Keys of tables that are dropped, and of tablets that are given up, leave the index in small steps, and their memory is
//! cleaned.
//!
//! A start that comes before the end adopts no record of a table that the state does not name, so nothing is stored of how
//! far a dropping has come.
//!
//! Not here: the drop of a table (`taking`). Catalogue: A1.

use ramhold_base::{Instant, StreamId};
use ramhold_log::{Cursor, HashRange};

/// The range of a tablet that is gone from this brick, and how far its keys have left the index.
#[derive(Debug)]
pub(crate) struct Dropping {
    pub range: HashRange,
    /// The stream of its records.
    pub stream: StreamId,
    pub cursor: Cursor,
    pub next: Instant,
}

impl Dropping {
    pub fn new(range: HashRange, stream: StreamId) -> Dropping {
        Dropping { range, stream, cursor: Cursor::default(), next: Instant::ZERO }
    }
}
