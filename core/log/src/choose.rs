//! Chooses the segments to clean, and the kind of cleaning.
//!
//! Both kinds of cleaning choose by cost-benefit: the bytes that would become free, times the age of the segment,
//! divided by the bytes that must be read and written for that. Both measure a segment by the seglets that it takes in
//! memory. Only when frames are short does a combined pass first measure each replicated segment as one whole frame. A
//! combined pass also counts as a benefit the tombstones in other segments that it would free.
//!
//! The balancer prefers compaction, because it costs the backups nothing. Combined passes come first when frames are
//! short, or when the tombstones that compaction must keep are too many.
//!
//! Rules: docs/protocols/cleaning.md. Catalogue: C6, C7. Source: TUT15 Part III; SOSP91 LFS for the formula.

use crate::log::Log;
use crate::segment::SegmentInfo;
use ramhold_base::{SegmentId, StreamId};
use std::collections::BTreeSet;

/// Needed tombstones are too many when they hold more than this percentage of the memory in use that holds no live
/// object or result.
const TOMBSTONE_PERCENT_MAX: u64 = 40;
/// A pass takes no more sources when it would free the memory of this many segments. So passes stay short, and writes
/// can live on the runway while a pass is under way.
const GAIN_SEGMENTS: u64 = 1;
/// Frames that are kept free for passes under way: cleaning begins this many frames before the bound is reached.
pub const HEADROOM_SEGMENTS: u64 = 4;
/// The most frames that a pass takes: its survivors, and the head that enters them.
pub const PASS_FRAMES: u64 = 6;
/// On a device of its own, a log is short of frames when fewer are left: a pass may take some, writes the others.
pub const FRAMES_RUNWAY: u64 = PASS_FRAMES + 2 + HEADROOM_SEGMENTS;
/// An upper bound of the header of a side segment.
const SIDE_HEADER_BYTES: u64 = 64;
/// The most sources of one pass.
const SOURCE_COUNT_MAX: usize = 64;

/// The caller's knowledge and wishes.
pub struct Wish<'a> {
    /// Seconds of cluster time.
    pub now: u32,
    /// Whether a stream has replicas. Without replicas compaction has no advantage: a combined pass costs no backup.
    pub is_replicated: &'a dyn Fn(StreamId) -> bool,
    /// Whether a closed segment is whole on its backups.
    pub is_whole: &'a dyn Fn(SegmentId) -> bool,
    /// Whether a whole segment and all heads before it are on the devices. Only then the segment may be compacted: a
    /// replica made from a compacted segment waits for the devices, and no device may wait for such a replica.
    pub is_settled: &'a dyn Fn(SegmentId) -> bool,
    /// Whether a segment may be a source of a combined pass, as far as the rest of the server is concerned.
    pub may_leave: &'a dyn Fn(SegmentId) -> bool,
    /// Bytes of frames that this log may take, counting one replica of each segment. Beyond them combined passes come
    /// first.
    pub disk_bytes_max: u64,
    /// Frames of the log's own device that a pass may take for its survivors and the head that enters them. `None`: the
    /// log has replicas on backups of other servers, or none at all.
    pub frames_left: Option<u64>,
    /// Whether compaction may be used at all. If not, every pass is combined.
    pub is_two_level: bool,
    /// Segments that must leave the log, even if that frees nothing: they come first.
    pub must_leave: &'a BTreeSet<SegmentId>,
    /// A remove waits for memory: choose even a pass that frees little for its work.
    pub is_pressed: bool,
}

/// The next pass to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    Combined { stream: StreamId, sources: Vec<SegmentId>, plan: Plan },
    Compaction { segment: SegmentId, plan: Plan },
}

/// The expected cost and gain of a pass, in bytes of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Bytes to move, with `LOOK_COST` for each entry that is looked at.
    pub work: u64,
    /// Bytes given back when the pass has ended.
    pub gain: u64,
    /// The most frames that the survivors take. A compaction takes none.
    pub frames: u64,
}

struct Candidate {
    id: SegmentId,
    stream: StreamId,
    score: f64,
    memory_bytes: u64,
    live_bytes: u64,
    /// Bytes that may have to be moved beyond `live_bytes`.
    doubtful_bytes: u64,
    pinned_bytes: u64,
    entry_count: u64,
}

impl Log {
    /// The best thing to clean now. `None` when no pass would give memory back, or the survivors have no room.
    /// Looks at every segment once.
    pub fn choose(&self, wish: &Wish<'_>) -> Option<Choice> {
        if let Some(choice) = self.choose_leaving(wish) {
            return Some(choice);
        }
        if !wish.is_two_level {
            return self.choose_combined(wish);
        }
        if self.wants_combined(wish) {
            self.choose_combined(wish).or_else(|| self.choose_compaction(wish))
        } else {
            self.choose_compaction(wish).or_else(|| self.choose_combined(wish))
        }
    }

    fn choose_leaving(&self, wish: &Wish<'_>) -> Option<Choice> {
        if wish.must_leave.is_empty() {
            return None;
        }
        let mut leaving = self.candidates(wish).filter(|segment| wish.must_leave.contains(&segment.id));
        // The survivors of one segment fit one, which begins with less.
        let frames = |segment: &SegmentInfo| u64::from(segment.live_bytes > 0);
        let has_room = |segment: &&SegmentInfo| {
            self.survivors_take_most(segment.live_bytes.into()) <= self.survivors_bytes_max()
                && wish.frames_left.is_none_or(|left| frames(segment) < left)
        };
        let segment = leaving.find(has_room)?;
        let entries = u64::from(segment.entry_count);
        let live = u64::from(segment.live_bytes);
        let work = live + entries * crate::moving::LOOK_COST;
        let plan = Plan { work, gain: self.memory_bytes(segment) - live, frames: frames(segment) };
        Some(Choice::Combined { stream: segment.stream, sources: vec![segment.id], plan })
    }

    /// Whether frames are short or tombstones too many, so that compaction alone does not suffice.
    fn wants_combined(&self, wish: &Wish<'_>) -> bool {
        let (mut used, mut live, mut tombstones) = (0, 0, 0);
        for segment in self.memory.segments.iter() {
            used += self.memory_bytes(segment);
            live += u64::from(segment.live_bytes - segment.tombstone_bytes);
            tombstones += u64::from(segment.tombstone_bytes);
        }
        let not_live = used.saturating_sub(live);
        tombstones * 100 > not_live * TOMBSTONE_PERCENT_MAX || self.is_short_of_frames(wish)
    }

    fn is_short_of_frames(&self, wish: &Wish<'_>) -> bool {
        let segments = self.memory.segments.iter();
        let replicated = segments.filter(|segment| !segment.is_image && (wish.is_replicated)(segment.stream));
        let frames = replicated.count() as u64 + HEADROOM_SEGMENTS;
        frames * u64::from(self.config.geometry.segment_bytes) > wish.disk_bytes_max
            || wish.frames_left.is_some_and(|left| left < FRAMES_RUNWAY)
    }

    /// Chooses a combined pass by the memory that it frees. When frames are short, by frames first.
    fn choose_combined(&self, wish: &Wish<'_>) -> Option<Choice> {
        let by_frames = self.is_short_of_frames(wish);
        self.combined_by(wish, by_frames).or_else(|| self.combined_by(wish, !by_frames))
    }

    fn combined_by(&self, wish: &Wish<'_>, by_frames: bool) -> Option<Choice> {
        // A replica takes a frame, however short it is.
        let frame = u64::from(self.config.geometry.segment_bytes);
        let mut best: Vec<Candidate> = self
            .candidates(wish)
            .filter(|segment| (wish.may_leave)(segment.id))
            .map(|segment| {
                let is_frame = by_frames && (wish.is_replicated)(segment.stream);
                let footprint = if is_frame { frame } else { self.memory_bytes(segment) };
                let freed = footprint - u64::from(segment.live_bytes).min(footprint) + segment.pinned_bytes;
                self.candidate(wish, segment, footprint, freed)
            })
            .filter(|candidate| candidate.score > 0.0)
            .collect();
        best.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        // A pass stays in one stream. Streams are tried in the order of their best candidate until a pass pays.
        while let Some(stream) = best.first().map(|candidate| candidate.stream) {
            let own = best.extract_if(.., |candidate| candidate.stream == stream);
            if let Some(choice) = self.plan_combined(wish, stream, own, by_frames) {
                return Some(choice);
            }
        }
        None
    }

    /// Takes candidates, the best first, as long as their survivors have room. Keeps those up to the largest gain.
    fn plan_combined(
        &self,
        wish: &Wish<'_>,
        stream: StreamId,
        best: impl Iterator<Item = Candidate>,
        by_frames: bool,
    ) -> Option<Choice> {
        let is_pressed = wish.is_pressed;
        let own_frame = wish.frames_left.filter(|_| by_frames);
        let own_frame = own_frame.map(|_| u64::from(self.config.geometry.segment_bytes));
        let target = GAIN_SEGMENTS * u64::from(self.config.geometry.segment_bytes);
        let room = self.survivors_bytes_max();
        // The head that enters the pass stays behind. If that were not counted, passes would clean the heads of passes
        // for ever.
        let roll = u64::from(self.roll_seglets()) * u64::from(self.config.geometry.seglet_bytes);
        let roll = if is_pressed { 0 } else { roll };
        let (mut sources, mut sum) = (Vec::new(), (0, 0, 0));
        let (mut plan, mut count, mut worth, mut doubtful) = (Plan::default(), 0, 0.0, 0);
        for candidate in best.take(SOURCE_COUNT_MAX) {
            // Candidates that pay less than half as well as the best one do not fill the room.
            if candidate.score < worth && plan.gain > 0 && !is_pressed {
                break;
            }
            let (live, freed, entries) = sum;
            let most = live + doubtful + candidate.live_bytes + candidate.doubtful_bytes;
            if self.survivors_take_most(most) > room || !self.has_frames(wish, most) {
                continue;
            }
            doubtful += candidate.doubtful_bytes;
            // Tombstones that become dead are freed when their own segments are cleaned.
            sum = (
                live + candidate.live_bytes,
                freed + candidate.memory_bytes + candidate.pinned_bytes,
                entries + candidate.entry_count,
            );
            worth = candidate.score.max(2.0 * worth) / 2.0;
            sources.push(candidate.id);
            let (live, freed, entries) = sum;
            // A gain that the unused ends of side segments would eat up is none: otherwise passes would go on for ever.
            let taken = if is_pressed { self.survivors_take(live) } else { self.survivors_take_most(live) };
            let frames = self.survivors_frames(live + doubtful);
            // On a device of its own, a pass for frames counts those that it frees, less those that it takes.
            let gain = match own_frame {
                Some(bytes) => (sources.len() as u64).saturating_sub(frames + 1) * bytes,
                None => freed.saturating_sub(taken + roll),
            };
            if gain > plan.gain {
                plan = Plan { work: live + entries * crate::moving::LOOK_COST, gain, frames };
                count = sources.len();
            }
            if gain >= target && !is_pressed && own_frame.is_none() {
                break;
            }
        }
        sources.truncate(count);
        sources.sort_unstable();
        (plan.gain > 0).then_some(Choice::Combined { stream, sources, plan })
    }

    fn choose_compaction(&self, wish: &Wish<'_>) -> Option<Choice> {
        let room = self.survivors_bytes_max();
        self.candidates(wish)
            .filter(|segment| (wish.is_replicated)(segment.stream) && (wish.is_settled)(segment.id))
            .filter_map(|segment| {
                let footprint = self.memory_bytes(segment);
                let kept = segment.live_bytes + segment.doubtful_bytes + segment.opening_bytes;
                let needed = self.in_whole_seglets(u64::from(kept));
                let gain = footprint.saturating_sub(needed);
                let candidate = self.candidate(wish, segment, footprint, gain);
                (gain > 0 && needed <= room).then_some((candidate, gain))
            })
            .max_by(|(a, _), (b, _)| a.score.total_cmp(&b.score).then(b.id.cmp(&a.id)))
            .map(|(candidate, gain)| {
                let work = candidate.live_bytes + candidate.entry_count * crate::moving::LOOK_COST;
                Choice::Compaction { segment: candidate.id, plan: Plan { work, gain, frames: 0 } }
            })
    }

    fn candidates(&self, wish: &Wish<'_>) -> impl Iterator<Item = &SegmentInfo> {
        self.memory.segments.iter().filter(|segment| {
            segment.closed
                && !segment.in_pass
                && !segment.is_image
                && segment.side.is_none()
                && !segment.is_kept
                && self.may_forget(segment)
                && (wish.is_whole)(segment.id)
        })
    }

    fn candidate(&self, wish: &Wish<'_>, segment: &SegmentInfo, footprint: u64, freed: u64) -> Candidate {
        // The age of the segment and not of its entries: otherwise survivors would look old for ever, and would be
        // cleaned again when hardly anything in them has died.
        let age = f64::from(wish.now.saturating_sub(segment.created.seconds())) + 1.0;
        let live_bytes = u64::from(segment.live_bytes);
        Candidate {
            id: segment.id,
            stream: segment.stream,
            score: freed as f64 * age / (footprint + live_bytes) as f64,
            memory_bytes: self.memory_bytes(segment),
            live_bytes,
            doubtful_bytes: u64::from(segment.doubtful_bytes),
            pinned_bytes: segment.pinned_bytes,
            entry_count: u64::from(segment.entry_count),
        }
    }

    /// The most that may survive in the pass that begins next, in bytes of seglets.
    fn survivors_bytes_max(&self) -> u64 {
        let free = self.memory.free_count().saturating_sub(self.floor(crate::log::Purpose::Cleaning).0);
        let free = u64::from(free) * u64::from(self.config.geometry.seglet_bytes);
        free.min(self.config.cleaning_reserve_bytes)
    }

    /// The memory that a pass with `live_bytes` needs: side segments, with their headers and unused ends.
    fn survivors_take(&self, live_bytes: u64) -> u64 {
        let usable = u64::from(self.config.geometry.segment_bytes) * 15 / 16;
        self.in_whole_seglets(live_bytes + live_bytes.div_ceil(usable) * SIDE_HEADER_BYTES)
    }

    /// As `survivors_take`, with the largest unused end in every side segment, because a pass that was begun must be
    /// able to end.
    fn survivors_take_most(&self, bytes: u64) -> u64 {
        let usable = u64::from(self.config.geometry.segment_bytes) * 15 / 16;
        self.survivors_take(bytes) + bytes / usable * u64::from(self.config.geometry.seglet_bytes)
    }

    /// The most segments that survivors of so many bytes take. An entry that does not fit leaves an end unused.
    fn survivors_frames(&self, bytes: u64) -> u64 {
        let usable = u64::from(self.config.geometry.segment_bytes) * 3 / 4;
        if bytes == 0 { 0 } else { bytes / usable + 1 }
    }

    /// Whether there are frames for survivors of so many bytes, and for the head that enters them.
    fn has_frames(&self, wish: &Wish<'_>, bytes: u64) -> bool {
        wish.frames_left.is_none_or(|left| self.survivors_frames(bytes) < left)
    }

    fn memory_bytes(&self, segment: &SegmentInfo) -> u64 {
        u64::from(segment.seglet_count()) * u64::from(self.config.geometry.seglet_bytes)
    }

    fn in_whole_seglets(&self, bytes: u64) -> u64 {
        let seglet = u64::from(self.config.geometry.seglet_bytes);
        bytes.div_ceil(seglet) * seglet
    }
}
