//! The segments with a misplaced replica, and their moves: the state of `moves`.
//!
//! Invariant: a segment waits to be moved, or moves, or is in neither list.

use ramhold_base::{Instant, SegmentId, StreamId};
use ramhold_placement::SpreadLevels;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Spreading {
    /// The server list that `levels` is of.
    pub version: Option<u64>,
    pub levels: SpreadLevels,
    pub look_at: Instant,
    /// Closed segments with a replica that is to move, as of the last look, and that do not move yet.
    pub waiting: BTreeSet<SegmentId>,
    /// The next look begins behind this segment, if the last one was given up there.
    pub behind: Option<SegmentId>,
    /// Segments of which a replica moves.
    pub moving: BTreeSet<SegmentId>,
    /// Replicas have moved since the last look at the replication.
    pub has_moved: bool,
    /// For streams whose head was rolled because it was misplaced: when it may be rolled for that again, and how long
    /// after that. A head that stays misplaced, because backups elsewhere have no room, is rolled less and less often.
    pub rolls: BTreeMap<StreamId, (Instant, Duration)>,
    /// Streams to be rolled, with their head that is misplaced.
    pub to_roll: BTreeMap<StreamId, SegmentId>,
}

impl Spreading {
    /// Notes that a segment has no moving replica any more, or is gone.
    pub fn ended(&mut self, segment: SegmentId) {
        self.moving.remove(&segment);
        self.waiting.remove(&segment);
    }
}
