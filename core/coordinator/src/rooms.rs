//! The memory and frames of servers, as they have told them, while recoveries are open or logs are kept.
//!
//! Nothing of this is stored.
//!
//! Not here: what is decided by it (`room`, `turns`).

use ramhold_base::{Instant, ServerId};
use ramhold_wire::recovery::RoomReport;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Rooms {
    pub reports: BTreeMap<ServerId, RoomReport>,
    pub ask_at: Instant,
    /// Servers that were asked last and have not told.
    pub asked: BTreeSet<ServerId>,
    /// Since when frames are short. Either some servers have no free frame, and too few have one for the replicas of
    /// one more segment; or there are not enough frames for the oldest log whose partitions are to be replicated.
    pub frames_short_since: Option<Instant>,
    /// The master that has its turn alone while frames are short.
    pub alone: Option<Alone>,
    /// The need was judged wrongly. Until a dead log is let go, recoveries are admitted one at a time, and one
    /// partition is begun at a time.
    pub is_scarce: bool,
}

impl Rooms {
    /// The segments recovered at a server that are in its memory alone, as the server has told.
    pub fn lone_segments_of(&self, server: ServerId) -> Option<u64> {
        self.reports.get(&server).map(|report| report.lone_segments)
    }

    /// The free frames that a server has told of.
    pub fn frames_of(&self, server: ServerId) -> Option<u64> {
        self.reports.get(&server).map(|report| report.frames)
    }
}

/// A master that has its turn alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone {
    pub turn: (ServerId, ServerId),
    pub until: Instant,
    pub rounds: u32,
}
