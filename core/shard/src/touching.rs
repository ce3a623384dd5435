//! Makes the system find memory for the log before the log needs it.
//!
//! The system finds memory that was never used page by page, when each page is first written to. That takes half as
//! long as everything else that a recovery does with a byte. So a stretch of memory after all memory that was ever used
//! is touched a little at a time when there is nothing else to do.
//!
//! Catalogue: F11.

use super::Shard;
use ramhold_base::Instant;
use std::time::Duration;

/// Bytes that are touched at a time: 64 pages, some 50 µs.
const SLICE_BYTES: u64 = 256 * 1024;
const PAUSE: Duration = Duration::from_millis(1);
/// While a server is being recovered, others need the processor more. This holds only for a while, as logs can be
/// incomplete for long.
const YIELD_MAX: Duration = Duration::from_secs(5);

/// Memory that is touched ahead of need.
pub struct Touching {
    /// Bytes after all memory that was ever used.
    pub ahead_bytes: u64,
    /// When the next slice is touched, if any is left to touch.
    at: Instant,
}

impl Touching {
    pub fn new(ahead_bytes: u64) -> Touching {
        Touching { ahead_bytes, at: Instant::ZERO }
    }

    /// A server list has come. `recovering_since`: when the newest dead server was added that is being recovered.
    pub fn on_list(&mut self, now: Instant, recovering_since: Option<Instant>) {
        self.at = match recovering_since {
            Some(since) if now < since + YIELD_MAX => self.at.max(since + YIELD_MAX),
            _ => self.at.min(now + PAUSE),
        };
    }
}

impl Shard {
    /// Touches a slice if one is due. To be called when there is nothing else to do.
    pub fn touch_slice(&mut self, now: Instant) {
        if self.touching_deadline().is_some_and(|at| at <= now) {
            self.log.touch_ahead(SLICE_BYTES);
            self.touching.at = now + PAUSE;
        }
    }

    /// Bytes that are left to touch.
    pub fn untouched_bytes(&self) -> u64 {
        self.log.untouched_bytes(self.touching.ahead_bytes)
    }

    /// When the next slice is touched, if there is nothing else to do. `None`: no slice is left.
    pub fn touching_deadline(&self) -> Option<Instant> {
        (self.untouched_bytes() >= SLICE_BYTES).then_some(self.touching.at)
    }
}
