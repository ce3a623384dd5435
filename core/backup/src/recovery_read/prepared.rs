//! Memory for the records of divided segments, found before a recovery needs it.
//!
//! If memory were found page by page while a recovery waits, that would cost more than all the rest of the dividing.
//!
//! Not here: the bound that divided segments leave (divisions). Catalogue: F11.

use crate::content::share_of;
use ramhold_base::{Instant, Recycled};
use std::sync::Arc;
use std::time::Duration;

/// The most pieces of memory that are kept for later records.
const RECYCLED_COUNT_MAX: usize = 512;
/// The pause after each piece of memory that is prepared in advance.
const FIND_PAUSE: Duration = Duration::from_millis(1);
/// No memory is prepared for this time after a read for a recovery began: the recovery needs the processor more.
pub(crate) const FIND_YIELD: Duration = Duration::from_secs(1);

/// Whether the pieces of memory have another size now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pieces {
    Same,
    Resized,
}

#[derive(Debug)]
pub(crate) struct Prepared {
    pub memory: Recycled,
    find_at: Instant,
    /// The expected number of recovery masters, and the size of the piece of memory that each needs for a segment.
    expected: usize,
    piece_bytes: usize,
}

impl Prepared {
    pub fn new() -> Prepared {
        Prepared {
            memory: Recycled::new(RECYCLED_COUNT_MAX),
            find_at: Instant::ZERO,
            expected: 0,
            piece_bytes: 0,
        }
    }

    /// Notes the number of servers. Pieces of memory for fewer than half or more than twice as many masters do not fit
    /// any more. A single death makes no difference: that is when the prepared memory is needed.
    pub fn expect(&mut self, servers: usize, segment_bytes: u32) -> Pieces {
        let masters = servers.saturating_sub(1).max(1);
        if masters <= 2 * self.expected && self.expected <= 2 * masters {
            return Pieces::Same;
        }
        self.expected = masters;
        self.piece_bytes = share_of(segment_bytes as usize, masters);
        Pieces::Resized
    }

    /// Makes the system find memory for one more piece.
    pub fn find(&mut self, now: Instant) {
        self.memory.keep(Arc::new(vec![1; self.piece_bytes]));
        self.find_at = now + FIND_PAUSE;
    }

    /// The instant when the next piece of memory should be prepared, with at most `room` bytes in all.
    pub fn find_deadline(&self, room: u64) -> Option<Instant> {
        let is_wanted = self.piece_bytes > 0
            && self.memory.bytes() + self.piece_bytes as u64 <= room
            && !self.memory.is_full();
        is_wanted.then_some(self.find_at)
    }

    /// A read for a recovery begins.
    pub fn make_way(&mut self, now: Instant) {
        self.find_at = now + FIND_YIELD;
    }
}
