//! The log of one shard with everything that keeps it: replication, heads, cleaning, verification.
//!
//! A role that owns data (the master) appends to the log and looks things up in it; whatever makes the log durable, keeps
//! it small and repairs it needs no tablets, and is here. The role lends the parts of the shard the `Step` of the present
//! input.
//!
//! Invariant: nothing here knows a tablet, a lease or a client.
//!
//! What the shard must know of tablets it asks of an `Owner`.
//!
//! Not here yet: repair and verification, which still are the master's. Catalogue: C1, C4, C8, D1.

pub(crate) mod cleaning;
mod heads;
mod owner;
mod sides;
mod streams;

pub use cleaning::CleaningCounters;
pub(crate) use cleaning::{Cleaning, CleaningConfig, FRUITLESS_PAUSE};
pub(crate) use owner::Owner;
pub(crate) use sides::{SideLog, begin_segments};
pub(crate) use streams::Class;

use crate::repair;
use ramhold_base::{Instant, Position, SegmentId, StreamId};
use ramhold_log::Log;
use ramhold_replication::{Replicator, Segments, Tail};
use std::collections::BTreeMap;

/// One shard's log and what keeps it.
pub(crate) struct Shard {
    pub log: Log,
    pub replicator: Replicator,
    /// The head of each stream into which something is to be entered: not rolled yet, its frames held.
    pub heads_held: BTreeMap<StreamId, SegmentId>,
    pub cleaning: Cleaning,
    /// A cleaning pass is copying just now.
    pub cleaning_runs: bool,
    pub scrub: repair::Scrub,
    /// Something was appended that the replicator has not looked at.
    pub appended: bool,
    /// Something was appended to side segments that the replicator has not looked at.
    pub side_appended: bool,
    /// When the next slice of the log's memory is touched, if any is to be.
    pub touch_at: Instant,
}

impl Shard {
    pub fn new(log: Log, replicator: Replicator, cleaning: CleaningConfig) -> Shard {
        Shard {
            log,
            replicator,
            heads_held: BTreeMap::new(),
            cleaning: Cleaning::new(cleaning),
            cleaning_runs: false,
            scrub: repair::Scrub::default(),
            appended: false,
            side_appended: false,
            touch_at: Instant::ZERO,
        }
    }
}

/// The log as the replicator reads it.
pub(crate) struct LogSegments<'a>(pub &'a Log);

impl Segments for LogSegments<'_> {
    fn tail(&self, segment: SegmentId) -> Option<Tail> {
        self.0.segment(segment).map(|s| Tail { length: s.len_bytes, crc: s.crc, closed: s.closed })
    }

    fn copy(&self, segment: SegmentId, from: u32, to: u32, out: &mut Vec<u8>) {
        self.0.copy_segment(segment, from, to, out);
    }

    fn copy_after(&self, segment: SegmentId) -> Position {
        self.0.segment(segment).map(|s| s.copy_after).unwrap_or_default()
    }
}
