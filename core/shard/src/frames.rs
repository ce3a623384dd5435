//! The frames of a log that has a device of its own.
//!
//! Every segment takes a frame, however little it holds, and so does the head that enters a cleaning pass. If writes took
//! the last frames, no pass could end, and nothing could ever free a frame again. So a write takes no frame that cleaning
//! may need, and a pass begins only if there are frames for all that it writes.
//!
//! The process that has the log and its device tells how many frames are left. Segments that were made since then are
//! counted here.
//!
//! Not here: what backups of other servers have (replication). Rules: docs/protocols/cleaning.md. Catalogue: C6.

use super::Shard;
use super::cleaning::Active;
use ramhold_log::{PASS_FRAMES, Purpose};

/// Frames that the head which ends a rebuilding leaves. A pass over a segment that must leave takes two, for its survivors and
/// for the head that enters them, and frees one. After two such passes two heads are empty, and leave with one frame.
pub const CLOSING_SPARES: u64 = 3;
/// Frames that a rebuilding leaves when it stores: one more, for the head that ends it. A start with no other frames than
/// those that every start may take must be able to end its rebuildings, or nothing is ever freed again.
pub const REBUILDING_SPARES: u64 = CLOSING_SPARES + 1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    left: u64,
    /// Segments with replicas at that moment.
    replicated: u64,
}

impl Shard {
    /// The device has room for so many segments more.
    pub fn tell_frames_left(&mut self, left: u64) {
        self.frames_told = Some(Told { left, replicated: self.replicator.replicated_count() });
    }

    /// Frames that nobody has taken and no pass under way needs. `None`: nobody has told, so other servers give them.
    pub fn frames_left(&self) -> Option<u64> {
        let told = self.frames_told?;
        let made = self.replicator.replicated_count().saturating_sub(told.replicated);
        Some(told.left.saturating_sub(made + self.frames_promised()))
    }

    /// Frames for the rest of the passes under way.
    fn frames_promised(&self) -> u64 {
        let to_come = match &self.cleaning.active {
            Some(Active::Combined(survivors)) => {
                1 + self.cleaning.plan.frames.saturating_sub(survivors.side.begun.len() as u64)
            }
            Some(Active::Compaction(_)) | None => 0,
        };
        to_come + self.cleaning.entering.len() as u64
    }

    /// Whether a write may take a frame for the next head of its stream. Removals and repairs may take some that puts may
    /// not, and all leave enough for one pass.
    pub fn may_take_frame(&self, purpose: Purpose) -> bool {
        let spared = match purpose {
            Purpose::Ordinary => PASS_FRAMES + 2,
            Purpose::Recovery => PASS_FRAMES + 1,
            Purpose::Freeing => PASS_FRAMES,
            Purpose::Cleaning => 0,
        };
        self.leaves_frames(spared)
    }

    /// Whether a head may take a frame that leaves so many.
    pub fn leaves_frames(&self, spared: u64) -> bool {
        self.frames_left().is_none_or(|left| left > spared)
    }
}
