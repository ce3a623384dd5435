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
//! Not here: reading replicas (the backup), the log (`ramhold_log::Log::adopt`). Catalogue: I6.

use crate::FoundReplica;
use crate::store::Store;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Epoch, Instant, Level, SegmentId, ServerId, StreamId};
use ramhold_log::{Alive, EntryReader, HeldHashOf, NotAdopted, opening};
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
        (self.asked.is_none() && !self.is_over() && self.failure.is_none()).then_some(self.retry_at)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BrickConfig;
    use crate::state::{BrickState, StreamState};
    use ramhold_base::{ClusterId, ClusterTime, KeyHash, Rng, Stamp, TableId};
    use ramhold_log::{Geometry, Log, Purpose, QuorumRecord};
    use ramhold_wire::control::Address;
    use ramhold_wire::membership::Durability;

    const STREAM: StreamId = StreamId(1);
    const TABLE: TableId = TableId(1);
    const ME: ServerId = ServerId(3);

    fn store() -> Store {
        let geometry = Geometry { segment_bytes: 16 * 1024, seglet_bytes: 1024 };
        let address = Address("127.0.0.1:1".parse().expect("an address"));
        let config = BrickConfig::new(address, geometry, 256 * 1024, 1 << 16);
        let stream = StreamState { stream: STREAM, durability: Durability::Buffered };
        let state = BrickState {
            cluster: ClusterId(1),
            brick: ME,
            index_secret: 5,
            life: 1,
            mark: 1,
            tables: Vec::new(),
            tablets: Vec::new(),
            lives: Vec::new(),
            streams: vec![stream],
            taken: 0,
            place: 0,
            was_moved: false,
            left: Vec::new(),
            others: Vec::new(),
        };
        Store::new(&config, vec![0; config.log_bytes as usize], &state, &mut Rng::new(1))
    }

    fn put(log: &mut Log, time: u64) {
        let stamp = Stamp { time, session: 2 };
        let replaces = log.newest(TABLE, KeyHash(9), b"k").expect("intact").map(|newest| newest.at);
        let record = QuorumRecord { table: TABLE, stamp, expires: None, key: b"k", value: Some(b"v") };
        log.store(STREAM, Purpose::Ordinary, KeyHash(9), &record, replaces).expect("there is room");
    }

    fn bytes_of(log: &Log, segment: SegmentId) -> Vec<u8> {
        let mut bytes = Vec::new();
        log.copy_segment(segment, 0, log.segment(segment).expect("in memory").len_bytes, &mut bytes);
        bytes
    }

    fn run(segments: &[(SegmentId, Vec<u8>, bool)]) -> (Store, Start) {
        let found = segments.iter().map(|(segment, bytes, closed)| FoundReplica {
            stream: STREAM,
            segment: *segment,
            epoch: Epoch(0),
            length: bytes.len() as u32,
            side: false,
            closed: *closed,
            cut: false,
            corrupt: false,
        });
        let (mut store, mut effects) = (store(), Effects::new());
        let mut start = Start::new(found.collect(), [STREAM].into_iter(), |_| false);
        while let Some(wanted) = start.next(Instant::ZERO) {
            let bytes =
                segments.iter().find(|(segment, ..)| *segment == wanted.segment).map(|it| it.1.as_slice());
            start.on_read(bytes, &mut store, ME, &|_, _| Some(KeyHash(9)), &mut effects);
        }
        assert!(start.is_over());
        (store, start)
    }

    // I6
    #[test]
    fn the_next_head_does_not_count_while_the_one_before_takes_data() {
        let mut before = store();
        let log = &mut before.shard.log;
        let time = ClusterTime(1);
        let first = log.roll(STREAM, time, &[]).expect("there is room");
        put(log, 1);
        let second = log.roll(STREAM, time, &[]).expect("there is room");
        let opening = bytes_of(log, second);
        put(log, 2);
        // The first one's value is dead, so it leaves with the next head. That head is on the device, the value that
        // made it dead is not.
        let third = log.hold_head();
        log.roll_held(STREAM, third, time, &[], &[first], false).expect("there is room");
        let (first_bytes, second_bytes, third_bytes) =
            (bytes_of(log, first), bytes_of(log, second), bytes_of(log, third));
        let newest = |store: &Store| {
            let newest = store.shard.log.newest(TABLE, KeyHash(9), b"k").expect("intact");
            newest.map(|newest| newest.stamp.time)
        };
        let first_found = (first, first_bytes, true);
        let third_found = (third, third_bytes, false);
        let (after, start) = run(&[first_found.clone(), (second, opening, false), third_found.clone()]);
        assert_eq!((newest(&after), start.not_whole().len()), (Some(1), 0));
        assert_eq!(start.left_over().map(|found| found.segment).collect::<Vec<_>>(), [third]);
        // When the second one is closed, the third one counts.
        let (after, start) = run(&[first_found, (second, second_bytes, true), third_found]);
        assert_eq!((newest(&after), start.not_whole().len()), (Some(2), 0));
        assert_eq!(start.left_over().map(|found| found.segment).collect::<Vec<_>>(), [first]);
    }

    // I6
    #[test]
    fn a_stream_of_which_something_is_missing_is_not_whole() {
        let mut before = store();
        let log = &mut before.shard.log;
        let first = log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
        put(log, 1);
        let second = log.roll(STREAM, ClusterTime(1), &[]).expect("there is room");
        put(log, 2);
        let all = [(first, bytes_of(log, first), true), (second, bytes_of(log, second), false)];
        assert!(run(&all).1.not_whole().is_empty());
        assert_eq!(run(&all[1..]).1.not_whole().len(), 1, "a named segment is gone");
        assert_eq!(run(&[]).1.not_whole().len(), 1, "there was a stream");
        let mut flipped = all.clone();
        *flipped[0].1.last_mut().expect("it holds something") ^= 1;
        let (after, start) = run(&flipped);
        assert_eq!(start.not_whole().len(), 1);
        assert!(after.shard.log.segment(second).is_some(), "what is left is taken over");
    }
}
