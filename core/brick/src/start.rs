//! The start of a brick's log: finds the newest head of each stream on its own backup, and takes over what its digest
//! names.
//!
//! A stream is *whole* if nothing that was promised is missing: its newest head and all that it names are there, none is
//! cut or corrupt, and no buffers are gone that a buffered stream rests on. If a stream is not whole, what is left of it
//! is taken over all the same, and its tablets do not vote until they are rebuilt.
//!
//! ```text
//!   found replicas ── head: the newest with an opening ── named: read, adopted one by one ── over
//!                        │ cut, or none: not whole           │ missing, corrupt: not whole
//! ```
//!
//! Segments of which the head does not tell the newest stamp come first, then those with the newest stamps. So a brick
//! that loads its log behind its serving (`loading`) has the keys soon that were written last.
//!
//! Invariants:
//! - what a digest does not name is not taken over;
//! - no stream is taken for whole on hope.
//!
//! Not here: reading replicas (the backup), the log (`ramhold_log::Log::adopt`). Catalogue: I6.

use crate::FoundReplica;
use crate::store::Store;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Epoch, Instant, Level, SegmentId, ServerId, StreamId};
use ramhold_log::{Adopting, Alive, Awaited, EntryReader, HeldHashOf, Kind, NotAdopted, Summary, opening};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The pause before a read that the backup has put off.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The next segment to be read from the backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub side: bool,
}

/// A segment that a head names, with what the head tells of it.
#[derive(Clone, Copy, Debug)]
struct Named {
    segment: SegmentId,
    summary: Option<Summary>,
}

impl Named {
    /// Those of which nothing is known are read first, then the newest.
    fn rank(&self) -> u64 {
        self.summary.map_or(u64::MAX, |summary| summary.stamp_newest)
    }
}

#[derive(Debug, Default)]
struct StreamStart {
    /// Replicas that may be the head, the newest last.
    heads: Vec<SegmentId>,
    /// Segments that the head's digest names and that are not adopted yet, in the order of the reads. `None`: no head is
    /// found yet.
    named: Option<VecDeque<Named>>,
    /// The head that counts is not closed on the device.
    is_open: bool,
    is_whole: bool,
}

/// A segment that was read, and is taken over in slices while the brick serves.
#[derive(Debug)]
struct Held {
    wanted: Wanted,
    bytes: Vec<u8>,
    /// `None`: nothing is done yet.
    adopting: Option<Adopting>,
}

/// Segments that were read and wait to be taken over in slices: one that is, and the next one.
const HELD_COUNT_MAX: usize = 2;
/// Records of a slice. They take less than a millisecond.
const SLICE_RECORDS: usize = 512;

/// The progress of a start.
#[derive(Debug, Default)]
pub(crate) struct Start {
    found: BTreeMap<(StreamId, SegmentId), FoundReplica>,
    adopted: BTreeSet<SegmentId>,
    streams: BTreeMap<StreamId, StreamStart>,
    asked: Option<Wanted>,
    held: VecDeque<Held>,
    /// The memory of a segment that was taken over, for the next one: fresh memory costs more than the copy.
    spare: Vec<u8>,
    /// Nothing is asked for before this instant: the backup had no room for a read.
    retry_at: Instant,
    /// Why the brick cannot start.
    failure: Option<String>,
}

impl Start {
    /// `streams` are those of the brick's state. `is_lost` tells whether buffers are gone that such a stream rests on.
    pub fn new(
        found: Vec<FoundReplica>,
        streams: impl Iterator<Item = StreamId>,
        is_lost: impl Fn(StreamId) -> bool,
    ) -> Start {
        let mut start = Start::default();
        for stream in streams {
            let is_whole = !is_lost(stream) || planted(Defect::QuorumForgottenVotes);
            start.streams.insert(stream, StreamStart { is_whole, ..StreamStart::default() });
        }
        let mut sorted = found;
        sorted.sort_unstable_by_key(|replica| replica.segment);
        for replica in sorted {
            if let Some(stream) = start.streams.get_mut(&replica.stream).filter(|_| !replica.side) {
                stream.heads.push(replica.segment);
            }
            start.found.insert((replica.stream, replica.segment), replica);
        }
        start
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The segment to be read next, if none is being read.
    pub fn next(&mut self, now: Instant) -> Option<Wanted> {
        let is_full = self.held.len() >= HELD_COUNT_MAX;
        if self.asked.is_some() || is_full || self.failure.is_some() || self.retry_at > now {
            return None;
        }
        while let Some((id, segment)) = self.first() {
            match self.found.get(&(id, segment)) {
                Some(found) if !found.corrupt => {
                    let (epoch, side) = (found.epoch, found.side);
                    self.asked = Some(Wanted { stream: id, segment, epoch, side });
                    return self.asked;
                }
                _ => self.streams.get_mut(&id).expect("it was looked up").give_up(segment),
            }
        }
        None
    }

    /// The first segment in the order of the reads: heads, then what they name.
    fn first(&mut self) -> Option<(StreamId, SegmentId)> {
        let mut first: Option<(u64, StreamId, SegmentId)> = None;
        for (id, stream) in &mut self.streams {
            let Some(named) = &stream.named else {
                match stream.heads.last() {
                    Some(head) => return Some((*id, *head)),
                    // There was a log, and nothing of it is left.
                    None => (stream.is_whole, stream.named) = (false, Some(VecDeque::new())),
                }
                continue;
            };
            if let Some(next) = named.front().filter(|next| first.is_none_or(|(rank, ..)| next.rank() > rank))
            {
                first = Some((next.rank(), *id, next.segment));
            }
        }
        first.map(|(_, stream, segment)| (stream, segment))
    }

    /// The segments that may be loaded after the brick has begun to serve: all that are not adopted yet. `None`: that must
    /// not be, now or at all, or nothing is left.
    pub fn rest(&self) -> Option<Vec<(SegmentId, Awaited)>> {
        if self.asked.is_some() || self.failure.is_some() || !self.not_whole().is_empty() {
            return None;
        }
        let mut rest = Vec::new();
        for (id, stream) in &self.streams {
            for named in stream.named.as_ref()? {
                let found = self.found.get(&(*id, named.segment))?;
                if !is_sound(found) {
                    return None;
                }
                let (bytes, summary) = (found.length, named.summary?);
                rest.push((named.segment, Awaited { stream: *id, bytes, summary }));
            }
        }
        (!rest.is_empty()).then_some(rest)
    }

    /// The data does not fit the memory.
    pub fn fail_for_memory(&mut self) {
        self.failure =
            Some("the brick's data does not fit its memory: start it with as much as before".into());
    }

    /// Whether every stream is taken over.
    pub fn is_over(&self) -> bool {
        self.failure.is_none()
            && self.asked.is_none()
            && self.held.is_empty()
            && self.streams.values().all(|stream| stream.named.as_ref().is_some_and(VecDeque::is_empty))
    }

    /// The segment that is being read.
    pub fn asked(&self) -> Option<SegmentId> {
        self.asked.map(|wanted| wanted.segment)
    }

    /// The segment that is being read. Its answer is lost: it is asked for again.
    pub fn ask_again(&mut self, now: Instant) {
        (self.asked, self.retry_at) = (None, now + RETRY_PAUSE);
    }

    /// When the next read may be asked for.
    pub fn deadline(&self) -> Option<Instant> {
        if self.failure.is_some() || self.is_over() {
            return None;
        }
        if !self.held.is_empty() {
            return Some(Instant::ZERO);
        }
        self.asked.is_none().then_some(self.retry_at)
    }

    /// Holds the bytes of the segment that was asked for, to be taken over in slices. `None`: the backup does not have them
    /// intact.
    pub fn hold(&mut self, bytes: Option<&[u8]>) {
        let Some(wanted) = self.asked.take() else { return };
        let length = self.found[&(wanted.stream, wanted.segment)].length as usize;
        let stream = self.streams.get_mut(&wanted.stream).expect("only known streams are read");
        match bytes.and_then(|bytes| bytes.get(..length)) {
            None => stream.give_up(wanted.segment),
            Some(bytes) => {
                stream.named.as_mut().expect("it was named").pop_front();
                let mut held = std::mem::take(&mut self.spare);
                held.clear();
                held.extend_from_slice(bytes);
                self.held.push_back(Held { wanted, bytes: held, adopting: None });
            }
        }
    }

    /// The segment whose next slice is due.
    pub fn next_slice(&self) -> Option<SegmentId> {
        self.held.front().map(|held| held.wanted.segment)
    }

    /// Takes the next slice of what is held over.
    pub fn adopt_slice(
        &mut self,
        store: &mut Store,
        me: ServerId,
        hash_of: HeldHashOf<'_>,
        effects: &mut Effects,
    ) {
        let Some(mut held) = self.held.pop_front() else { return };
        let Store { shard, applied, .. } = store;
        let Wanted { stream, segment, .. } = held.wanted;
        let mut note = |table, hash, stamp| applied.note(&(table, hash), stamp);
        let done = match &mut held.adopting {
            None => shard.log.begin_adopt(stream, segment, &held.bytes).map(|adopting| {
                held.adopting = Some(adopting);
                false
            }),
            Some(it) => shard.log.adopt_slice(it, &held.bytes, SLICE_RECORDS, hash_of, &mut note),
        };
        applied.forget(shard.log.bound());
        match done {
            Ok(false) => self.held.push_front(held),
            Ok(true) => {
                self.spare = held.bytes;
                self.end_adopt(held.wanted, store, me);
            }
            Err(why) => self.refuse(held.wanted, why, effects),
        }
    }

    /// Nothing is read any more.
    pub fn free_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// All of a segment is taken over.
    fn end_adopt(&mut self, wanted: Wanted, store: &mut Store, me: ServerId) {
        let Wanted { stream, segment, epoch, .. } = wanted;
        let found = self.found[&(stream, segment)];
        self.streams.get_mut(&stream).expect("only known streams are read").is_whole &= !found.cut;
        self.adopted.insert(segment);
        store.shard.replicator.adopt(stream, segment, epoch, found.length, me);
    }

    /// A segment cannot be taken over.
    fn refuse(&mut self, wanted: Wanted, why: NotAdopted, effects: &mut Effects) {
        match why {
            NotAdopted::Foreign | NotAdopted::Corrupt { .. } => {
                let text = format!("{} of the brick's log cannot be read: it is rebuilt", wanted.segment);
                effects.report(Level::Error, text);
                let stream = self.streams.get_mut(&wanted.stream).expect("only known streams are read");
                stream.give_up(wanted.segment);
            }
            NotAdopted::OutOfMemory | NotAdopted::IndexFull => self.fail_for_memory(),
            NotAdopted::Damaged => {
                self.failure =
                    Some("the brick's memory was damaged as its log was read: start it again".into());
            }
        }
    }

    /// The bytes of the segment that was asked for. `None`: the backup does not have them intact.
    pub fn on_read(
        &mut self,
        bytes: Option<&[u8]>,
        store: &mut Store,
        me: ServerId,
        hash_of: HeldHashOf<'_>,
        effects: &mut Effects,
    ) {
        let Some(asked) = self.asked.take() else { return };
        let found = self.found[&(asked.stream, asked.segment)];
        let stream = self.streams.get_mut(&asked.stream).expect("only known streams are read");
        let Some(bytes) = bytes.and_then(|bytes| bytes.get(..found.length as usize)) else {
            return stream.give_up(asked.segment);
        };
        if stream.named.is_none() {
            // A segment of before the log's last cleaning may be cut so short that it tells no digest.
            let Some(named) = opening::parse(bytes).and_then(|opening| opening.named()) else {
                return stream.give_up(asked.segment);
            };
            // The next head is opened while the head before it still takes data. Until that one is closed, nothing but
            // the opening is in the next one, and what its digest leaves out may still be needed.
            let before = stream.heads.iter().rev().nth(1).map(|before| &self.found[&(asked.stream, *before)]);
            let is_next = before.is_some_and(|before| !before.closed) && is_opening(bytes);
            if is_next && !planted(Defect::QuorumNextHeadCounts) {
                stream.heads.pop();
            } else {
                let is_sound = |segment| self.found.get(&(asked.stream, segment)).is_some_and(self::is_sound);
                // A doubtful segment is read at once, whatever its head tells of it.
                let known = |(segment, summary): (SegmentId, Option<Summary>)| Named {
                    segment,
                    summary: summary.filter(|_| is_sound(segment)),
                };
                let mut named: Vec<Named> = named.into_iter().map(known).collect();
                named.sort_by_key(|named| Reverse(named.rank()));
                stream.is_open = !found.closed;
                stream.named = Some(named.into());
            }
            return;
        }
        let Store { shard, applied, .. } = store;
        let mut superseded = Vec::new();
        let mut note = |table, hash, stamp| superseded.push((table, hash, stamp));
        match shard.log.adopt(asked.stream, asked.segment, bytes, hash_of, &mut note) {
            Ok(_) => {
                stream.named.as_mut().expect("it was named").pop_front();
                for (table, hash, stamp) in superseded {
                    applied.note(&(table, hash), stamp);
                }
                applied.forget(shard.log.bound());
                self.end_adopt(asked, store, me);
            }
            Err(why) => self.refuse(asked, why, effects),
        }
    }

    /// Segments that hold less than they did once. They must leave the log before its tablets vote: each later start
    /// would find them cut again.
    pub fn cut(&self) -> impl Iterator<Item = SegmentId> {
        let adopted = self.found.values().filter(|found| self.adopted.contains(&found.segment));
        adopted.filter(|found| found.cut).map(|found| found.segment)
    }

    /// Whether dead segments may leave a stream with the first head of this life. As long as nothing but its opening is in
    /// that head, the next start counts the head before it, unless that is closed; and what it names must be there then.
    pub fn may_leave(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(|stream| !stream.is_open)
            || planted(Defect::QuorumDeadLeaveOpenHead)
    }

    /// Streams of which something is missing.
    pub fn not_whole(&self) -> BTreeSet<StreamId> {
        let lost = self.streams.iter().filter(|(_, stream)| !stream.is_whole);
        lost.map(|(stream, _)| *stream).collect()
    }

    /// The highest segment that was ever found.
    pub fn segment_last(&self) -> SegmentId {
        self.found.keys().map(|(_, segment)| *segment).max().unwrap_or_default()
    }

    /// Replicas of known streams that no head names.
    pub fn left_over(&self) -> impl Iterator<Item = &FoundReplica> {
        let own = self.found.values().filter(|found| self.streams.contains_key(&found.stream));
        own.filter(|found| !self.adopted.contains(&found.segment))
    }
}

/// Whether a replica looks like a closed segment as a whole.
fn is_sound(found: &FoundReplica) -> bool {
    found.closed && !found.cut && !found.corrupt
}

/// Whether a segment holds nothing but its opening, which tells the bound once.
fn is_opening(bytes: &[u8]) -> bool {
    let mut entries = EntryReader::new(bytes).map_while(|entry| entry.ok().map(|(_, entry)| entry.kind()));
    let mut bounds = 0;
    entries.all(|kind| {
        bounds += u32::from(kind == Kind::SafeVersion);
        kind.row().alive == Alive::InItsSegment && bounds < 2
    })
}

impl StreamStart {
    /// A segment that is needed is not there.
    fn give_up(&mut self, segment: SegmentId) {
        self.is_whole = false;
        match &mut self.named {
            None => self.heads.retain(|head| *head != segment),
            Some(named) => named.retain(|named| named.segment != segment),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
