//! The heads of the streams: rolls them, and holds frames for the next one.
//!
//! A recovered partition, or a stretch of a reclassed tablet, is entered with a head whose frames R backups hold
//! already, so that nothing can hinder the head once it is rolled. Until the roll this next head of the stream is
//! *held*. While backups lack frames, dead segments leave with a held head too. Survivors of a cleaning pass are
//! entered with a head that was not held.
//!
//! Invariant: at most one head of a stream is held, and it is newer than the stream's present head.
//!
//! Not here: which segments leave a stream with a head (cleaning). Catalogue: C1, C6, D1.

use super::{LogSegments, Owner, Shard};
use ramhold_base::{Effects, Instant, Mark, Position, SegmentId, StreamId};
use ramhold_log::TabletStat;
use ramhold_replication::Segments;
use ramhold_wire::Step;
use std::time::Duration;

/// A stream whose head, or the head after that, finds no failure domain for a replica is blocked after this time. Until
/// then writes are admitted and wait. The time is longer than the choice of another backup takes, where there is one.
const BLOCKED_PATIENCE: Duration = Duration::from_secs(1);
/// The most bytes that an opening's header, safe version and list heads take, with some to spare.
const OPENING_FIXED_BYTES: u64 = 256;

impl Shard {
    /// The statistics for the next head of a stream. The head of a neighbourhood tells only about tablets whose data
    /// the neighbourhood has: there are many such streams.
    fn will_of(&self, stream: StreamId, owner: &dyn Owner) -> Vec<TabletStat> {
        match self.replicator.neighbourhood_of(stream) {
            Some(_) => self.log.will_of(|range| owner.may_hold(stream, range)),
            None => self.log.will(),
        }
    }

    /// Rolls a stream to its next head. The opening of the head tells how many bytes and records each tablet has (the
    /// will).
    pub fn roll(&mut self, step: &mut Step<'_>, stream: StreamId, owner: &dyn Owner) -> Option<SegmentId> {
        let will = self.will_of(stream, owner);
        let segment = self.log.roll(stream, step.view.time(step.now), &will).ok()?;
        self.rolled(stream, segment, step.effects);
        Some(segment)
    }

    /// Rolls a stream to a held head. Dead segments leave the stream, and so does the head before it if it holds
    /// nothing but its opening.
    pub fn roll_held(
        &mut self,
        step: &mut Step<'_>,
        stream: StreamId,
        held: SegmentId,
        owner: &dyn Owner,
    ) -> Option<SegmentId> {
        let will = self.will_of(stream, owner);
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

    /// Rolls a stream to a head that enters side segments. This roll may use memory that others leave free. `None`: the
    /// digest has outgrown a segment, or there is no memory at all.
    pub fn roll_entering(
        &mut self,
        step: &mut Step<'_>,
        stream: StreamId,
        owner: &dyn Owner,
    ) -> Option<SegmentId> {
        let will = self.will_of(stream, owner);
        let segment = self.log.roll_entering(stream, step.view.time(step.now), &will).ok()?;
        self.rolled(stream, segment, step.effects);
        Some(segment)
    }

    /// Rolls the streams whose head is unspread, or outside its neighbourhood: only closed segments move, and the next
    /// head has its replicas where they belong.
    pub fn roll_unspread(&mut self, step: &mut Step<'_>, owner: &dyn Owner) {
        for stream in self.replicator.take_to_roll() {
            // Without memory for a head, the replicator asks again.
            self.roll(step, stream, owner);
        }
    }

    pub fn rolled(&mut self, stream: StreamId, segment: SegmentId, effects: &mut Effects) {
        let tail = LogSegments(&self.log).tail(segment).expect("just rolled");
        self.replicator.head_rolled(stream, segment, tail);
        // The held head is older than the new head.
        if let Some(held) = self.heads_held.remove(&stream).filter(|held| *held != segment) {
            self.replicator.abandon(held);
        }
        self.appended = true;
        effects.mark(Mark::HeadRolled);
    }

    /// The held head of a stream, if it is not older than `from`.
    pub fn held_from(&self, stream: StreamId, from: SegmentId) -> Option<SegmentId> {
        self.heads_held.get(&stream).copied().filter(|held| *held >= from)
    }

    /// Makes backups hold frames for one head of each of these streams: a head that is not older than the wanted one.
    /// A held head that is older than everything that is to be entered is of no use any more.
    pub fn hold_heads(&mut self, wanted: &[(StreamId, SegmentId)]) {
        let is_wanted = |stream: StreamId, held: SegmentId| {
            wanted.iter().any(|(of, from)| *of == stream && *from <= held)
        };
        let replicator = &mut self.replicator;
        self.heads_held.retain(|stream, held| {
            let stays = is_wanted(*stream, *held);
            if !stays {
                replicator.abandon(*held);
            }
            stays
        });
        for (stream, _) in wanted {
            self.heads_held.entry(*stream).or_insert_with(|| {
                let held = self.log.hold_head();
                replicator.hold_head(*stream, held);
                held
            });
        }
    }

    /// An upper bound of the opening of a stream's next head, in whole seglets, if its digest names `more` further
    /// segments.
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

    /// Whether a stream is blocked: for a while now no write to it could be acknowledged. A write is then refused
    /// before it has any effect, so its client hears that it was not done, and the key can still be read.
    pub fn is_blocked(&self, now: Instant, stream: StreamId) -> bool {
        self.replicator.blocked_since(stream).is_some_and(|since| now.since(since) >= BLOCKED_PATIENCE)
    }
}
