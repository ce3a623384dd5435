//! Makes the system find memory for the log before the log needs it.
//!
//! The system finds memory that was never used page by page, when each page is first written to. That takes half as
//! long as everything else that a recovery does with a byte. So a stretch of memory after all memory that was ever used
//! is touched a little at a time when there is nothing else to do.
//!
//! Catalogue: F11.

use crate::Master;
use ramhold_base::Instant;
use std::time::Duration;

/// Bytes that are touched at a time: 64 pages, some 50 µs.
const SLICE_BYTES: u64 = 256 * 1024;
const PAUSE: Duration = Duration::from_millis(1);
/// While a server is being recovered, others need the processor more. This holds only for a while, as logs can be
/// incomplete for long.
const YIELD_MAX: Duration = Duration::from_secs(5);

impl Master {
    pub(crate) fn touch_when_idle(&mut self, now: Instant) {
        if self.is_touching_wanted() && self.shard.touch_at <= now {
            self.shard.log.touch_ahead(SLICE_BYTES);
            self.shard.touch_at = now + PAUSE;
        }
    }

    pub(crate) fn touch_after(&mut self, now: Instant) {
        if let Some(since) = self.recovering_since
            && now < since + YIELD_MAX
        {
            self.shard.touch_at = self.shard.touch_at.max(since + YIELD_MAX);
        } else {
            self.shard.touch_at = self.shard.touch_at.min(now + PAUSE);
        }
    }

    /// Bytes that are left to touch.
    pub fn untouched_bytes(&self) -> u64 {
        self.shard.log.untouched_bytes(self.config.touched_ahead_bytes)
    }

    fn is_touching_wanted(&self) -> bool {
        !self.busy && self.replays.is_empty() && self.untouched_bytes() >= SLICE_BYTES
    }

    pub(crate) fn touching_deadline(&self) -> Option<Instant> {
        self.is_touching_wanted().then_some(self.shard.touch_at)
    }
}
