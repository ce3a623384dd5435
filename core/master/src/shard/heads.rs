//! The heads of the streams: rolling them, and holding frames for the next one.
//!
//! A head that enters side segments is rolled only when backups hold its frames already, so that nothing can stand in
//! the way of what is entered. Until then the stream's next head is *held*.
//!
//! Invariant: at most one head of a stream is held, and it is newer than the stream's present head.
//!
//! Not here: which segments leave a stream with a head (cleaning). Catalogue: C1, C6, D1.

use super::{LogSegments, Owner, Shard};
use ramhold_base::{Effects, Instant, Level, Position, SegmentId, StreamId};
use ramhold_replication::Segments;
use ramhold_wire::Step;
use std::time::Duration;

/// How long writes are taken in and wait when a stream's head finds no failure domain for a replica. Longer than it takes to
/// choose another backup where there is one.
const BLOCKED_PATIENCE: Duration = Duration::from_secs(1);
/// An opening's header, safe version and list heads, with some room.
const OPENING_FIXED_BYTES: u64 = 256;

impl Shard {
    /// The next head of a stream; its opening tells where the objects of all tablets here lie.
    pub fn roll(&mut self, step: &mut Step<'_>, stream: StreamId) -> Option<SegmentId> {
        let will = self.log.will();
        let segment = self.log.roll(stream, step.view.time(step.now), &will).ok()?;
        self.rolled(stream, segment, step.effects);
        Some(segment)
    }

    /// The head whose frames backups hold already. A head before it that holds nothing leaves the stream, and so do segments
    /// in which nothing lives.
    pub fn roll_held(
        &mut self,
        step: &mut Step<'_>,
        stream: StreamId,
        held: SegmentId,
        owner: &dyn Owner,
    ) -> Option<SegmentId> {
        let will = self.log.will();
        let is_intact = self.log.head_segment(stream).is_some_and(|head| !self.scrub.is_damaged(head));
        let dead = self.dead_segments(stream, owner);
        let left =
            self.log.roll_held(stream, held, step.view.time(step.now), &will, &dead, is_intact).ok()?;
        self.rolled(stream, held, step.effects);
        if !left.is_empty() {
            self.retire_left(stream, held, left, step.effects);
        }
        Some(held)
    }

    /// The head that enters side segments: it may use memory that others leave free. `None`: its digest has outgrown a
    /// segment, or there is no memory at all.
    pub fn roll_entering(&mut self, step: &mut Step<'_>, stream: StreamId) -> Option<SegmentId> {
        let will = self.log.will();
        let segment = self.log.roll_entering(stream, step.view.time(step.now), &will).ok()?;
        self.rolled(stream, segment, step.effects);
        Some(segment)
    }

    pub fn rolled(&mut self, stream: StreamId, segment: SegmentId, effects: &mut Effects) {
        let tail = LogSegments(&self.log).tail(segment).expect("just rolled");
        self.replicator.head_rolled(stream, segment, tail);
        // It is older than this one now.
        if let Some(held) = self.heads_held.remove(&stream).filter(|held| *held != segment) {
            self.replicator.abandon(held);
        }
        self.appended = true;
        effects.report(Level::Debug, "mark:head_rolled");
    }

    /// The held head of a stream, if it is not older than this.
    pub fn held_from(&self, stream: StreamId, from: SegmentId) -> Option<SegmentId> {
        self.heads_held.get(&stream).copied().filter(|held| *held >= from)
    }

    /// What the opening of a stream's next head takes at most, in whole seglets, with so many more segments in it.
    pub fn opening_bytes(&self, stream: StreamId, more: usize) -> u64 {
        let segments = self.log.stream_segments(stream).count() + more + 1;
        let rows = self.log.will_rows();
        let bytes = OPENING_FIXED_BYTES + segments as u64 * 8 + rows as u64 * 36;
        let seglet = u64::from(self.log.config().geometry.seglet_bytes);
        bytes.min(u64::from(self.log.group_bytes_max())).div_ceil(seglet) * seglet
    }

    pub fn durable(&self, stream: StreamId) -> Position {
        self.replicator.durable(stream)
    }

    /// Whether a write to a stream could not be acknowledged, and has not been possible for a while. It is refused before it
    /// has any effect: its client hears that it was not done, and the key can be read on.
    pub fn is_blocked(&self, now: Instant, stream: StreamId) -> bool {
        self.replicator.blocked_since(stream).is_some_and(|since| now.since(since) >= BLOCKED_PATIENCE)
    }
}
