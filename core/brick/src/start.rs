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
//! Invariants:
//! - what a digest does not name is not taken over;
//! - no stream is taken for whole on hope.
//!
//! Not here: reading replicas (the backup), the log (`ramhold_log::Log::adopt`). Catalogue: I5.

use crate::store::Store;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Epoch, Instant, KeyHash, Level, SegmentId, ServerId, StreamId, TableId};
use ramhold_log::{Alive, EntryReader, NotAdopted, opening};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The pause before a read that the backup has put off.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A replica of this brick's log on its own backup, from an earlier life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundReplica {
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    /// Certified bytes.
    pub length: u32,
    pub side: bool,
    pub closed: bool,
    /// It may hold less than was acknowledged.
    pub cut: bool,
    pub corrupt: bool,
}

/// The next segment to be read from the backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub side: bool,
}

#[derive(Debug, Default)]
struct StreamStart {
    /// Replicas that may be the head, the newest last.
    heads: Vec<SegmentId>,
    /// Segments that the head's digest names and that are not adopted yet. `None`: no head is found yet.
    named: Option<VecDeque<SegmentId>>,
    is_whole: bool,
}

/// The progress of a start.
#[derive(Debug, Default)]
pub(crate) struct Start {
    found: BTreeMap<(StreamId, SegmentId), FoundReplica>,
    adopted: BTreeSet<SegmentId>,
    streams: BTreeMap<StreamId, StreamStart>,
    asked: Option<Wanted>,
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
        if self.asked.is_some() || self.failure.is_some() || self.retry_at > now {
            return None;
        }
        for (id, stream) in &mut self.streams {
            let segment = match &mut stream.named {
                None => stream.heads.last().copied(),
                Some(named) => named.front().copied(),
            };
            let Some(segment) = segment else {
                if stream.named.is_none() {
                    // There was a log, and nothing of it is left.
                    (stream.is_whole, stream.named) = (false, Some(VecDeque::new()));
                }
                continue;
            };
            match self.found.get(&(*id, segment)) {
                Some(found) if !found.corrupt => {
                    let Wanted { stream, segment, epoch, side } =
                        Wanted { stream: *id, segment, epoch: found.epoch, side: found.side };
                    self.asked = Some(Wanted { stream, segment, epoch, side });
                    return self.asked;
                }
                _ => stream.give_up(segment),
            }
            return self.next(now);
        }
        None
    }

    /// Whether every stream is taken over.
    pub fn is_over(&self) -> bool {
        self.failure.is_none()
            && self.asked.is_none()
            && self.streams.values().all(|stream| stream.named.as_ref().is_some_and(VecDeque::is_empty))
    }

    /// The segment that is being read. Its answer is lost: it is asked for again.
    pub fn ask_again(&mut self, now: Instant) {
        (self.asked, self.retry_at) = (None, now + RETRY_PAUSE);
    }

    /// When the next read may be asked for.
    pub fn deadline(&self) -> Option<Instant> {
        (self.asked.is_none() && !self.is_over() && self.failure.is_none()).then_some(self.retry_at)
    }

    /// The bytes of the segment that was asked for. `None`: the backup does not have them intact.
    pub fn on_read(
        &mut self,
        bytes: Option<&[u8]>,
        store: &mut Store,
        me: ServerId,
        hash_of: &dyn Fn(TableId, &[u8]) -> KeyHash,
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
            let Some(digest) = opening::parse(bytes).and_then(|opening| opening.digest) else {
                return stream.give_up(asked.segment);
            };
            // The next head is opened while the head before it still takes data. Until that one is closed, nothing but
            // the opening is in the next one, and what its digest leaves out may still be needed.
            let before = stream.heads.iter().rev().nth(1).map(|before| &self.found[&(asked.stream, *before)]);
            let is_next = before.is_some_and(|before| !before.closed) && is_opening(bytes);
            if is_next && !planted(Defect::QuorumNextHeadCounts) {
                stream.heads.pop();
            } else {
                stream.named = Some(digest.into());
            }
            return;
        }
        let Store { shard, applied, .. } = store;
        let mut superseded = Vec::new();
        let mut note = |table, hash, stamp| superseded.push((table, hash, stamp));
        match shard.log.adopt(asked.stream, asked.segment, bytes, hash_of, &mut note) {
            Ok(_) => {
                stream.named.as_mut().expect("it was named").pop_front();
                stream.is_whole &= !found.cut;
                self.adopted.insert(asked.segment);
                for (table, hash, stamp) in superseded {
                    applied.note(&(table, hash), stamp);
                }
                applied.forget(shard.log.bound());
                shard.replicator.adopt(asked.stream, asked.segment, asked.epoch, found.length, me);
            }
            Err(NotAdopted::Foreign | NotAdopted::Corrupt { .. }) => {
                let text = format!("{} of the brick's log cannot be read: it is rebuilt", asked.segment);
                effects.report(Level::Error, text);
                stream.give_up(asked.segment);
            }
            Err(NotAdopted::OutOfMemory | NotAdopted::IndexFull) => {
                self.failure =
                    Some("the brick's data does not fit its memory: start it with as much as before".into());
            }
            Err(NotAdopted::Damaged) => {
                self.failure =
                    Some("the brick's memory was damaged as its log was read: start it again".into());
            }
        }
    }

    /// Segments that hold less than they did once. They must leave the log before its tablets vote: each later start
    /// would find them cut again.
    pub fn cut(&self) -> impl Iterator<Item = SegmentId> {
        let adopted = self.found.values().filter(|found| self.adopted.contains(&found.segment));
        adopted.filter(|found| found.cut).map(|found| found.segment)
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

/// Whether a segment holds nothing but its opening.
fn is_opening(bytes: &[u8]) -> bool {
    let mut entries = EntryReader::new(bytes).map_while(|entry| entry.ok().map(|(_, entry)| entry.kind()));
    entries.all(|kind| kind.row().alive == Alive::InItsSegment)
}

impl StreamStart {
    /// A segment that is needed is not there.
    fn give_up(&mut self, segment: SegmentId) {
        self.is_whole = false;
        match &mut self.named {
            None => self.heads.retain(|head| *head != segment),
            Some(named) => named.retain(|named| *named != segment),
        }
    }
}
