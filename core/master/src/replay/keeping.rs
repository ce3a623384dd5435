//! The side logs of a partition, and its part in the replication of all partitions.
//!
//! Not here: when they are replicated and entered (`entering`).

use ramhold_base::{Instant, SegmentId};
use ramhold_shard::{Shard, SideLog};
use std::time::Duration;

/// How long a recovery waits for room on the backups while it keeps the frames and memory that it has.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// The side logs of a partition, and how far they are.
#[derive(Debug)]
pub(super) struct Keeping {
    /// A side log for each stream that takes something in, with its segments that the replicator knows.
    pub sides: Vec<SideLog>,
    /// When it looks again, if it waits for memory or yields to others. A live partition does not give up.
    pub retry: Option<Instant>,
    /// It is live, and may be replicated now.
    pub has_turn: bool,
}

/// The part of other partitions in the replication of a live one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    /// How many side segments the partition may have under way.
    pub slots: usize,
    /// Until when it yields to recoveries that are still at work elsewhere.
    pub yields_until: Option<Instant>,
}

impl Turns {
    /// The turns of a partition that is not live: it waits for nobody.
    pub const FREE: Turns = Turns { slots: usize::MAX, yields_until: None };
}

impl Keeping {
    pub fn new(sides: Vec<SideLog>) -> Keeping {
        Keeping { sides, retry: None, has_turn: false }
    }

    /// Whether backups have had no room for a partition's segments or heads for so long that others need what it has
    /// taken.
    pub fn is_starved(&self, now: Instant, shard: &Shard) -> bool {
        self.sides.iter().any(|side| shard.is_side_starved(now, side, ROOM_PATIENCE))
    }

    /// The side segments that are under way.
    pub fn busy<'a>(&'a self, shard: &'a Shard) -> impl Iterator<Item = SegmentId> + 'a {
        let begun = self.sides.iter().flat_map(|side| &side.begun).copied();
        begun.filter(|segment| !shard.replicator.is_complete(*segment))
    }
}
