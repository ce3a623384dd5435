//! Heads, digests and side logs: how segments join a stream and leave it.
//!
//! A stream appends at one head. Rolling opens the next head, whose opening names every live segment of the stream, and
//! closes the head before. A *side log* is a set of segments of a stream outside this order: no recovery counts them
//! before they are entered and the digest of a head names them.
//!
//! Invariants:
//! - segment ids are unique in the shard, and rise in the order of opening, except those of held heads;
//! - the heads of a stream rise;
//! - a stream has at most one open segment besides those of its side logs: its head;
//! - a head's digest names exactly the segments that were in the stream when it was opened, itself included.
//!
//! Not here: the order of opening and closing on backups (replication). Catalogue: C1, C6, D9.

use crate::entry::SUMMARY_BYTES;
use crate::log::{AppendRefusal, Log, OutOfMemory, Purpose};
use crate::memory::Floor;
use crate::opening::{OpeningLists, opening_bytes_max};
use crate::segment::{NewSegment, Slot};
use crate::{Entry, Partition, SegmentHeader, TabletStat};
use ramhold_base::limits::STREAM_COUNT_MAX;
use ramhold_base::{ClusterTime, Position, SegmentId, StreamId};
use std::collections::BTreeSet;

/// An estimate of the most side segments that a cleaning pass makes.
const PASS_SEGMENTS: usize = 8;

/// Names a side log of this shard. Never used again during the life of the shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SideId(pub u32);

/// A stream: its head and the segments that the next digest names.
#[derive(Default)]
pub(crate) struct Stream {
    head: Option<Slot>,
    segments: BTreeSet<SegmentId>,
}

impl Stream {
    /// Takes a segment out: the next digest does not name it.
    pub(crate) fn remove(&mut self, id: SegmentId) -> bool {
        self.segments.remove(&id)
    }
}

/// The next head of a stream.
struct NewHead {
    id: SegmentId,
    /// The segments that leave the stream with the roll.
    left: Vec<SegmentId>,
}

/// A side log that is not entered yet.
pub(crate) struct Side {
    stream: StreamId,
    created: ClusterTime,
    segments: BTreeSet<SegmentId>,
    open: Option<Slot>,
    closed: bool,
    /// The entries of the side log were durable before, as those of a combined pass.
    is_survivor: bool,
    /// Tombstones of this side log that the index refers to.
    pub(crate) tombstone_count: u64,
}

impl Log {
    /// Adds a stream without a head: roll it before the first append. Panics if a stream with this id exists.
    pub fn open_stream(&mut self, stream: StreamId) {
        assert!(!stream.is_none());
        assert!(self.streams.len() < usize::from(STREAM_COUNT_MAX));
        assert!(self.streams.insert(stream, Stream::default()).is_none());
    }

    /// The id of the next segment, of whatever stream.
    pub fn next_segment_id(&self) -> SegmentId {
        self.segment_last.next()
    }

    /// The open segment of a stream, if it was rolled.
    pub fn head_segment(&self, stream: StreamId) -> Option<SegmentId> {
        self.head(stream).map(|slot| self.memory.segments.at(slot).id)
    }

    /// The present end of a stream's head.
    pub fn head_end(&self, stream: StreamId) -> Position {
        let head = self.head(stream).map(|slot| self.memory.segments.at(slot));
        head.map(|head| Position { segment: head.id, offset: head.len_bytes }).unwrap_or_default()
    }

    /// The live segments of a stream that are in memory, rising. The next digest names them, those that are awaited, and the
    /// new head.
    pub fn stream_segments(&self, stream: StreamId) -> impl Iterator<Item = SegmentId> {
        self.stream(stream).segments.iter().copied()
    }

    /// Opens the next head of a stream and closes the one before. May use the part of the reserve that is not held back
    /// for cleaning. If the roll is refused, nothing changes.
    pub fn roll(
        &mut self,
        stream: StreamId,
        now: ClusterTime,
        stats: &[TabletStat],
    ) -> Result<SegmentId, OutOfMemory> {
        let new = NewHead { id: self.next_segment_id(), left: Vec::new() };
        self.roll_leaving(stream, now, stats, self.floor(Purpose::Freeing), new)
    }

    /// Gives out the id of a held head. The stream may be rolled to it later, with `roll_held`, unless it is rolled
    /// otherwise first.
    pub fn hold_head(&mut self) -> SegmentId {
        self.segment_last = self.next_segment_id();
        self.segment_last
    }

    /// Gives out an id that no segment will have, to be the first segment of a recovered partition. It separates the
    /// partition from everything before it, and from partitions that are recovered beside it.
    pub fn take_first_segment(&mut self) -> SegmentId {
        self.segment_last = self.next_segment_id();
        self.segment_last
    }

    /// Rolls to a held head. Side segments that were made after the id was given out must not be entered with it,
    /// because they would be newer than the head. The `dead` segments leave the stream. With `leaves_empty` the head
    /// before also leaves, if it holds nothing but its opening. Returns the segments that have left: the caller retires
    /// them when no recovery can need them.
    pub fn roll_held(
        &mut self,
        stream: StreamId,
        id: SegmentId,
        now: ClusterTime,
        stats: &[TabletStat],
        dead: &[SegmentId],
        leaves_empty: bool,
    ) -> Result<Vec<SegmentId>, OutOfMemory> {
        assert!(id <= self.segment_last);
        assert!(self.head_segment(stream).is_none_or(|head| head < id), "heads rise");
        let mut left = dead.to_vec();
        left.extend(self.empty_head(stream).filter(|_| leaves_empty));
        let new = NewHead { id, left: left.clone() };
        self.roll_leaving(stream, now, stats, self.floor(Purpose::Freeing), new)?;
        Ok(left)
    }

    /// Closed segments of a stream that hold nothing live, and are in no pass, in no side log and not kept.
    pub fn dead_segments(&self, stream: StreamId) -> impl Iterator<Item = SegmentId> {
        let own = self.memory.segments.iter().filter(move |segment| segment.stream == stream);
        let dead = own.filter(|segment| {
            let is_busy = segment.in_pass || segment.is_image || segment.side.is_some() || segment.is_kept;
            let is_dead = segment.live_bytes == 0 && segment.doubtful_bytes == 0;
            segment.closed && is_dead && !is_busy && self.may_forget(segment)
        });
        dead.map(|segment| segment.id)
    }

    /// The head of a stream, if it holds nothing but its opening.
    fn empty_head(&self, stream: StreamId) -> Option<SegmentId> {
        let head = self.memory.segments.at(self.head(stream)?);
        (head.len_bytes == head.opening_bytes).then_some(head.id)
    }

    /// Rolls to a head that enters side segments. This roll may use all memory that is left.
    pub fn roll_entering(
        &mut self,
        stream: StreamId,
        now: ClusterTime,
        stats: &[TabletStat],
    ) -> Result<SegmentId, OutOfMemory> {
        let new = NewHead { id: self.next_segment_id(), left: Vec::new() };
        self.roll_leaving(stream, now, stats, Floor(0), new)
    }

    /// Whether there is memory for a head whose digest names `more` further segments, and its opening fits a segment.
    pub fn may_roll(&self, more: usize) -> bool {
        self.may_roll_all([more].into_iter(), false)
    }

    /// Whether `roll` would find memory now, for a stream that has a head or for a new one.
    pub fn may_open(&self) -> bool {
        let bytes = self.roll_bytes(1);
        let wanted = self.in_seglets(bytes) + self.floor(Purpose::Freeing).0;
        bytes <= self.group_bytes_max() && self.memory.free_count() >= wanted
    }

    /// As `may_roll`, for several heads one after the other. With `beside_cleaning` there must also be memory left for
    /// the roll of a cleaning pass.
    pub fn may_roll_all(&self, more: impl Iterator<Item = usize>, beside_cleaning: bool) -> bool {
        let mut wanted = if beside_cleaning { self.roll_seglets() } else { 0 };
        for more in more {
            let bytes = self.roll_bytes(more);
            if bytes > self.group_bytes_max() {
                return false;
            }
            wanted += self.in_seglets(bytes);
        }
        self.memory.free_count() >= wanted
    }

    /// The seglets that suffice for the opening of any stream's next head.
    pub(crate) fn roll_seglets(&self) -> u32 {
        self.in_seglets(self.roll_bytes(PASS_SEGMENTS).min(self.group_bytes_max()))
    }

    fn roll_bytes(&self, more: usize) -> u32 {
        let count =
            |(id, stream): (&StreamId, &Stream)| stream.segments.len() + self.pending.named(*id).count();
        let longest = self.streams.iter().map(count).max().unwrap_or_default();
        let segments = longest + 1 + more;
        let bytes = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let least = bytes(opening_bytes_max(segments, self.will_rows()));
        let summaries = if self.tells_summaries { bytes(segments * SUMMARY_BYTES) } else { 0 };
        // They are left out where they do not fit.
        Some(least.saturating_add(summaries)).filter(|all| *all <= self.group_bytes_max()).unwrap_or(least)
    }

    pub(crate) fn in_seglets(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.config.geometry.seglet_bytes)
    }

    fn roll_leaving(
        &mut self,
        stream: StreamId,
        now: ClusterTime,
        stats: &[TabletStat],
        floor: Floor,
        NewHead { id, left }: NewHead,
    ) -> Result<SegmentId, OutOfMemory> {
        let header = self.header(stream, id, now);
        let segments = self.stream(stream).segments.iter().copied().filter(|segment| !left.contains(segment));
        let mut named: Vec<SegmentId> = segments.collect();
        named.extend(self.pending.named(stream).map(|(segment, _)| segment));
        named.sort_unstable();
        // One that is being adopted is in memory, and still pending.
        named.dedup();
        let segments = named.iter().copied().chain([id]);
        let mut lists = OpeningLists::new(header, segments, self.safe_version(), stats);
        if self.tells_summaries {
            // The head before takes nothing more: it is closed below.
            let awaited = |segment: SegmentId| self.pending.get(segment).map(|awaited| awaited.summary);
            let summary = |segment: &SegmentId| awaited(*segment).or_else(|| self.summary(*segment));
            lists = lists.with_summaries(named.iter().filter_map(summary));
        }
        let entries = lists.entries(self.group_bytes_max() as usize).ok_or(OutOfMemory)?;
        let new = NewSegment { id, stream, side: None, created: now };
        let slot = self.open_segment(new, &entries, floor).map_err(|_| OutOfMemory)?;
        if let Some(before) = self.head(stream) {
            let before = self.memory.segments.at_mut(before);
            before.closed = true;
        }
        for left in &left {
            let slot = self.memory.segments.slot(*left).expect("only segments in memory leave");
            let leaving = self.memory.segments.at_mut(slot);
            (leaving.in_pass, leaving.is_leaving) = (true, true);
        }
        let stream = self.streams.get_mut(&stream).expect("looked up before");
        stream.head = Some(slot);
        stream.segments.insert(id);
        for left in left {
            assert!(stream.remove(left), "what leaves is in its stream");
        }
        Ok(id)
    }

    /// Closes the head of a stream without opening the next one. Appends are refused with `HeadFull` until the next
    /// roll.
    pub fn close_head(&mut self, stream: StreamId) {
        let stream = self.streams.get_mut(&stream).expect("a stream is opened before it is used");
        if let Some(head) = stream.head.take() {
            self.memory.segments.at_mut(head).closed = true;
        }
    }

    /// Appends entries that are about the log itself to a stream's head, as one group. Returns the group's end.
    pub fn append(
        &mut self,
        stream: StreamId,
        purpose: Purpose,
        group: &[Entry<'_>],
    ) -> Result<Position, AppendRefusal> {
        let head = self.head(stream).ok_or(AppendRefusal::HeadFull)?;
        self.append_group(head, purpose, group)
    }

    /// Begins a side log of a stream. Its segments are made as they are needed, with `now` as their time of creation.
    pub fn open_side(&mut self, stream: StreamId, now: ClusterTime) -> SideId {
        self.new_side(stream, now, false)
    }

    /// Begins a side log for entries that are durable elsewhere until they count here.
    pub fn open_side_for_survivors(&mut self, stream: StreamId, now: ClusterTime) -> SideId {
        self.new_side(stream, now, true)
    }

    fn new_side(&mut self, stream: StreamId, now: ClusterTime, is_survivor: bool) -> SideId {
        assert!(self.streams.contains_key(&stream));
        self.side_last.0 =
            self.side_last.0.checked_add(1).expect("no shard opens four thousand million side logs");
        let segments = BTreeSet::new();
        let side = Side {
            stream,
            created: now,
            segments,
            open: None,
            closed: false,
            is_survivor,
            tombstone_count: 0,
        };
        self.sides.insert(self.side_last, side);
        self.side_last
    }

    /// The segments of a side log that is not entered yet, rising.
    pub fn side_segments(&self, side: SideId) -> impl Iterator<Item = SegmentId> {
        self.side(side).segments.iter().copied()
    }

    /// Appends entries that are about the log itself to a side log, as one group, in a new segment if necessary.
    pub fn append_side(
        &mut self,
        side: SideId,
        purpose: Purpose,
        group: &[Entry<'_>],
    ) -> Result<Position, AppendRefusal> {
        let bytes = group.iter().map(Entry::entry_bytes).sum();
        let slot = self.side_room(side, bytes, self.floor(purpose))?;
        self.append_group(slot, purpose, group)
    }

    /// Ends a side log: its last segment is closed, and nothing more is appended. May be called again.
    pub fn close_side(&mut self, side: SideId) {
        let side = self.sides.get_mut(&side).expect("a side log is there until it is entered or abandoned");
        side.closed = true;
        if let Some(open) = side.open.take() {
            self.memory.segments.at_mut(open).closed = true;
        }
    }

    /// Makes the segments of a closed side log part of its stream: the next roll's digest names them. If the side log
    /// was replayed into, `finish_replay_step` must have finished before.
    pub fn enter_side(&mut self, side: SideId) {
        let side = self.sides.remove(&side).expect("a side log is there until it is entered or abandoned");
        assert!(side.closed);
        assert!(side.tombstone_count == 0, "replay is finished before its side log is entered");
        for id in &side.segments {
            let slot = self.memory.segments.slot(*id).expect("a side log's segments are in memory");
            self.memory.segments.at_mut(slot).side = None;
        }
        self.streams
            .get_mut(&side.stream)
            .expect("a stream outlives its side logs")
            .segments
            .extend(side.segments);
    }

    /// Gives the memory of a closed segment back and takes the segment out of its stream or side log. The index must
    /// not refer into it any more. The caller must know that no backup or digest still needs it.
    pub fn free_segment(&mut self, id: SegmentId) {
        let slot = self.memory.segments.slot(id).expect("only segments in memory are freed");
        let segment = self.memory.segments.at(slot);
        assert!(segment.closed);
        assert!(segment.indexed_count == 0, "the index refers into {id}");
        assert!(segment.result_bytes == 0, "results are in {id}");
        match segment.side {
            Some(side) => {
                self.sides.get_mut(&side).expect("an entered segment knows no side").segments.remove(&id)
            }
            None => {
                let stream = self.streams.get_mut(&segment.stream).expect("a stream outlives its segments");
                stream.segments.remove(&id)
            }
        };
        let gone = self.memory.free_segment(slot);
        self.forget_tombstones_of(&gone);
    }

    pub(crate) fn head(&self, stream: StreamId) -> Option<Slot> {
        self.stream(stream).head
    }

    pub(crate) fn side(&self, side: SideId) -> &Side {
        self.sides.get(&side).expect("a side log is there until it is entered or abandoned")
    }

    /// The open segment of a side log, with room for `bytes`. Opens a new segment if necessary.
    pub(crate) fn side_room(
        &mut self,
        side: SideId,
        bytes: usize,
        floor: Floor,
    ) -> Result<Slot, AppendRefusal> {
        let state = self.side(side);
        assert!(!state.closed);
        if let Some(open) = state.open {
            match self.admit(open, bytes, floor) {
                Ok(()) => return Ok(open),
                Err(AppendRefusal::HeadFull) => {}
                Err(refusal) => return Err(refusal),
            }
        } else if bytes > self.group_bytes_max() as usize {
            return Err(AppendRefusal::TooLarge);
        }
        let (stream, created, before) =
            (self.side(side).stream, self.side(side).created, self.side(side).open);
        let id = self.next_segment_id();
        let header = Entry::SegmentHeader(self.header(stream, id, created));
        let slot =
            self.open_segment(NewSegment { id, stream, side: Some(side), created }, &[header], floor)?;
        self.memory.segments.at_mut(slot).is_survivor = self.side(side).is_survivor;
        if let Some(before) = before {
            self.memory.segments.at_mut(before).closed = true;
        }
        let state = self.sides.get_mut(&side).expect("looked up before");
        state.open = Some(slot);
        state.segments.insert(id);
        self.admit(slot, bytes, floor)?;
        Ok(slot)
    }

    /// Frees all segments of a side log. The index must not refer into them any more.
    pub(crate) fn free_side(&mut self, side: SideId) {
        let segments: Vec<SegmentId> = self.side(side).segments.iter().copied().collect();
        segments.into_iter().for_each(|id| self.free_segment(id));
        self.sides.remove(&side);
    }

    /// Makes an adopted segment part of a stream.
    pub(crate) fn join_stream(&mut self, stream: StreamId, id: SegmentId) {
        self.streams.get_mut(&stream).expect("a stream is opened before it is used").segments.insert(id);
    }

    pub(crate) fn check_streams(&self) {
        let mut known = 0;
        for (id, stream) in &self.streams {
            for segment in &stream.segments {
                let info = self.segment(*segment).expect("a stream's segments are in memory");
                assert_eq!((info.stream, info.side), (*id, None));
                assert!(*segment <= self.segment_last);
                assert_eq!(info.closed, stream.head != self.memory.segments.slot(*segment));
            }
            known += stream.segments.len();
        }
        for (id, side) in &self.sides {
            for segment in &side.segments {
                let info = self.segment(*segment).expect("a side log's segments are in memory");
                assert_eq!((info.stream, info.side), (side.stream, Some(*id)));
                assert_eq!(info.closed, side.open != self.memory.segments.slot(*segment));
            }
            known += side.segments.len();
        }
        // Images are found by their segment's id; sources of an entered pass are in no digest any more.
        let in_passes = self.memory.segments.iter().filter(|segment| segment.is_image || segment.is_leaving);
        assert_eq!(known + in_passes.count(), self.memory.segments.iter().count());
    }

    fn stream(&self, stream: StreamId) -> &Stream {
        self.streams.get(&stream).expect("a stream is opened before it is used")
    }

    fn header(&self, stream: StreamId, segment: SegmentId, created: ClusterTime) -> SegmentHeader {
        SegmentHeader { cluster: self.config.cluster, log: self.config.log, stream, segment, created }
    }

    /// Makes a segment that starts with `entries`. Its id counts as given out from then on.
    fn open_segment(
        &mut self,
        new: NewSegment,
        entries: &[Entry<'_>],
        floor: Floor,
    ) -> Result<Slot, AppendRefusal> {
        let id = new.id;
        let bytes: usize = entries.iter().map(Entry::entry_bytes).sum();
        let slot = self.memory.create(new, bytes as u32, floor)?;
        self.segment_last = self.segment_last.max(id);
        for entry in entries {
            self.memory.append(slot, entry);
        }
        let segment = self.memory.segments.at_mut(slot);
        segment.opening_bytes = segment.len_bytes;
        Ok(slot)
    }

    fn append_group(
        &mut self,
        slot: Slot,
        purpose: Purpose,
        group: &[Entry<'_>],
    ) -> Result<Position, AppendRefusal> {
        assert!(
            group.iter().all(|entry| entry.kind().row().partition == Partition::None),
            "records go by write"
        );
        self.admit(slot, group.iter().map(Entry::entry_bytes).sum(), self.floor(purpose))?;
        for entry in group {
            self.memory.append(slot, entry);
        }
        let segment = self.memory.segments.at(slot);
        Ok(Position { segment: segment.id, offset: segment.len_bytes })
    }
}
