//! The log of one shard, and everything that keeps it: replication, heads, side logs, cleaning, repair.
//!
//! A `Shard` owns the log. It makes the log durable, keeps it small, and opens its streams, and needs
//! no tablets for that. The role that owns the data (the master, or a brick) appends entries to the log and looks objects
//! up in it. This role lends a `Step` to those functions of the shard that need the present input.
//!
//! The shard asks the role through the `Owner` trait for the few facts about tablets that it needs.
//!
//! Invariant: nothing in this crate knows a tablet, a lease or a client.
//!
//! Not here: objects and tablets (the role that owns them), bytes of entries (log). Catalogue: C1, C4, C8, D1.

mod cleaning;
mod frames;
mod heads;
mod owner;
mod repair;
mod sides;
mod streams;
mod touching;

pub use cleaning::{Cleaning, CleaningConfig, CleaningCounters, IDLE_WORK, PRESSED_WORK};
pub use frames::{CLOSING_SPARES, REBUILDING_SPARES};
pub use owner::Owner;
pub use repair::{Found, ReadBack, Scrub, ScrubConfig};
pub use sides::{SideLog, begin_segments};
pub use touching::Touching;

use ramhold_base::{Position, SegmentId, StreamId};
use ramhold_log::Log;
use ramhold_replication::{Replicator, Segments, Tail};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub struct ShardConfig {
    pub cleaning: CleaningConfig,
    pub scrub: ScrubConfig,
    /// Memory that is touched ahead of need, after all memory that was ever used.
    pub touched_ahead_bytes: u64,
}

/// The log of one shard, and its keepers.
pub struct Shard {
    pub log: Log,
    pub replicator: Replicator,
    /// The held head of each stream into which something is to be entered: backups hold its frames, or are asked to,
    /// and the stream has not been rolled to it yet.
    pub heads_held: BTreeMap<StreamId, SegmentId>,
    pub cleaning: Cleaning,
    /// The removal of an expired object is under way that must not begin another cleaning pass: a pass that copies has
    /// met the object, or a slice of expiry has.
    pub cleaning_runs: bool,
    pub scrub: Scrub,
    pub touching: Touching,
    /// Frames of the log's own device, if it has one.
    frames_told: Option<frames::Told>,
    /// Something was appended that the replicator has not seen yet.
    pub appended: bool,
    /// Something was appended to side segments that the replicator has not seen yet.
    pub side_appended: bool,
}

impl Shard {
    pub fn new(log: Log, replicator: Replicator, config: ShardConfig) -> Shard {
        Shard {
            log,
            replicator,
            heads_held: BTreeMap::new(),
            cleaning: Cleaning::new(config.cleaning),
            cleaning_runs: false,
            scrub: Scrub::new(config.scrub),
            touching: Touching::new(config.touched_ahead_bytes),
            frames_told: None,
            appended: false,
            side_appended: false,
        }
    }
}

/// The log, as the replicator reads it.
pub struct LogSegments<'a>(pub &'a Log);

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
