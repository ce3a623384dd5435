//! The life of a side log: segments that are filled beside a stream's head, and that count once a head names them.
//!
//! Recoveries, reclassing of tablets and combined cleaning passes fill side segments. A side segment is *begun* when
//! the replicator knows it and sends it to backups as it fills. A side log is *whole* when every one of its segments is
//! begun and complete on its backups. It is *starved* when backups have refused, for a long time, one of its segments,
//! the head that is held for it, or the head of its stream. A side log ends in one of two ways: it is entered (the next
//! head names its segments) or abandoned (its replicas are given back).
//!
//! Invariants: segments are begun in the order in which they were made; a side log is entered or abandoned once.
//!
//! Not here: the entries in side segments (log), rolling the head (`heads`). Catalogue: A8, C4, F4.

use super::{LogSegments, Shard};
use ramhold_base::{Instant, SegmentId, StreamId};
use ramhold_log::{Log, SideId};
use ramhold_replication::{Replicator, Segments};
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct SideLog {
    pub stream: StreamId,
    pub side: SideId,
    /// The first segment of the ranges whose entries the side log takes. No head before this segment may enter the side
    /// log: writes to those ranges that went into such a head would not count.
    pub first_segment: SegmentId,
    /// Segments that the replicator knows.
    pub begun: Vec<SegmentId>,
    /// Segments whose replicas were given back for want of frames; they are begun again later.
    pub put_off: BTreeSet<SegmentId>,
}

impl SideLog {
    pub fn new(stream: StreamId, side: SideId, first_segment: SegmentId) -> SideLog {
        SideLog { stream, side, first_segment, begun: Vec::new(), put_off: BTreeSet::new() }
    }

    /// The oldest head with which this side log may be entered: newer than its segments, and not before
    /// `first_segment`.
    pub fn head_from(&self) -> SegmentId {
        let behind = self.begun.iter().map(|segment| segment.next()).max();
        behind.unwrap_or_default().max(self.first_segment)
    }
}

/// Tells the replicator of at most `most` new side segments. Returns how many they were.
pub fn begin_segments(log: &Log, replicator: &mut Replicator, side: &mut SideLog, most: usize) -> usize {
    let mut count = 0;
    for segment in log.side_segments(side.side) {
        if count < most && !side.begun.contains(&segment) {
            count += 1;
            if side.put_off.remove(&segment) {
                replicator.resume(segment);
            } else {
                let tail = LogSegments(log).tail(segment).expect("side segments are in memory");
                replicator.side_begun(side.stream, segment, tail);
            }
            side.begun.push(segment);
        }
    }
    count
}

impl Shard {
    /// See `begin_segments`.
    pub fn begin_side_segments(&mut self, side: &mut SideLog, most: usize) -> usize {
        begin_segments(&self.log, &mut self.replicator, side, most)
    }

    /// Whether a side log is whole: every segment of it is begun and on all its backups.
    pub fn is_side_whole(&self, side: &SideLog) -> bool {
        self.log.side_segments(side.side).count() == side.begun.len()
            && side.begun.iter().all(|segment| self.replicator.is_complete(*segment))
    }

    /// Whether a side log is starved: for at least `patience` backups have refused one of its segments, the head that
    /// is held for it, or its stream's head. Others then need the frames that it has taken.
    pub fn is_side_starved(&self, now: Instant, side: &SideLog, patience: Duration) -> bool {
        if !self.replicator.has_refusals() {
            return false;
        }
        let held = self.heads_held.get(&side.stream);
        let refused = side.begun.iter().chain(held);
        let refused = refused.filter_map(|segment| self.replicator.refused_since(*segment));
        let head = self.replicator.head_refused_since(side.stream);
        refused.chain(head).any(|since| now.since(since) >= patience)
    }

    /// The held head with which a side log may be entered.
    pub fn head_held(&self, side: &SideLog) -> Option<SegmentId> {
        self.held_from(side.stream, side.head_from())
    }

    /// Whether the head that would name a side log is certain of its frames: they are held, and the present head is
    /// open on all its backups.
    pub fn has_frames_to_enter(&self, side: &SideLog) -> bool {
        self.replicator.is_head_open(side.stream)
            && self.head_held(side).is_some_and(|held| self.replicator.is_held(held))
    }

    /// Enters a side log. The caller rolls the stream now to the head that names the segments.
    pub fn enter_side(&mut self, side: &SideLog) {
        self.log.enter_side(side.side);
        side.begun.iter().for_each(|segment| self.replicator.settled(*segment));
    }

    /// Gives back the replicas of a side log whose segments have left the log.
    pub fn abandon_side(&mut self, side: &SideLog) {
        side.begun.iter().for_each(|segment| self.replicator.abandon(*segment));
    }
}
