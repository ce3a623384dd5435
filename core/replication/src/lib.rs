//! Keeps every segment of this master's log on R backups.
//!
//! A segment states what is wanted; each of its places remembers what its backup has reached. `advance` emits the one
//! next message per place; a lost backup empties its place and starts again from nothing. The durable position of each
//! stream follows from what all places have reached.
//!
//! Invariants:
//! - a head is open on all backups before the one before it is closed; data follows only when that is durably closed;
//! - a certificate covers whole groups only;
//! - an epoch is recorded at the coordinator only when all R replicas durably hold it, and nothing is durable before.
//!
//! Not here: choosing backups (placement), the log's bytes (log), buffers and disks (backup).
//! Protocol: docs/protocols/replication.md. Catalogue: D1, D6, D8, D9, F8. Source: SOSP11 2.4, TUT15 Part III.

mod advance;
mod answers;
mod copies;
mod flushed;
mod grants;
mod held;
mod pieces;
mod segment;
mod status;
mod stream;

pub use status::ReplicaSeen;

use copies::Copies;
use pieces::Pieces;
use ramhold_base::{Epoch, Instant, Position, Rng, SegmentId, ServerId, ShardId, StreamId};
use ramhold_placement::CopysetCache;
use ramhold_wire::Calls;
use ramhold_wire::membership::Durability;
use ramhold_wire::status::DiskFull;
use segment::{Place, Segment};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stream::Stream;

/// Which `Calls` of the process are these; see `wire::calls::role_of`.
pub const CALLS_ROLE: u8 = 3;

/// Where a segment's bytes come from: the log in DRAM.
pub trait Segments {
    /// Its present end; `None` when the log has no such segment.
    fn tail(&self, segment: SegmentId) -> Option<Tail>;
    /// Appends the bytes `from..to` of a segment to `out`.
    fn copy(&self, segment: SegmentId, from: u32, to: u32, out: &mut Vec<u8>);
    /// A closed segment may be copied again only when its stream is flushed up to this: it was compacted, and what was
    /// left out must not be needed any more, whatever is lost.
    fn copy_after(&self, segment: SegmentId) -> Position;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    pub length: u32,
    /// CRC32C of the first `length` bytes.
    pub crc: u32,
    /// Nothing will be appended any more.
    pub closed: bool,
}

#[derive(Clone, Debug)]
pub struct ReplicationConfig {
    pub shard: ShardId,
    /// Whether replicas may be on the master's own failure domain.
    pub local_allowed: bool,
    /// After this an unanswered append is sent again.
    pub append_timeout: Duration,
    /// A backup silent for this long loses its replicas of open segments.
    pub replica_timeout: Duration,
    /// Unanswered appends per replica; more data waits and goes out together.
    pub in_flight_max: u16,
    /// Closed segments that are copied again at the same time.
    pub copies_max: usize,
    /// How many bytes of them may be sent in a second; 0: as fast as it goes.
    pub copy_bytes_per_second: u64,
    /// Data bytes in one append.
    pub append_bytes_max: u32,
}

impl ReplicationConfig {
    pub fn new(shard: ShardId) -> ReplicationConfig {
        ReplicationConfig {
            shard,
            local_allowed: false,
            append_timeout: Duration::from_millis(250),
            replica_timeout: Duration::from_secs(3),
            in_flight_max: 4,
            copies_max: 4,
            copy_bytes_per_second: 0,
            append_bytes_max: ramhold_base::limits::APPEND_BYTES_MAX,
        }
    }
}

/// What the master, and through it the node, must act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A backup or the coordinator says that this server is dead: verify at the coordinator.
    SaidDead,
    /// This backup does not answer.
    Suspect(ServerId),
    /// The memory of this server is damaged where no backup has what stood there: it must end, and be recovered up to
    /// there.
    Beyond(SegmentId),
}

/// What somebody waits for to be on the backups' devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushWish {
    /// Until `is_flushed` of this segment.
    Whole(SegmentId),
    /// Until `flushed` of the stream has come to this position.
    UpTo(StreamId, Position),
}

#[derive(Clone, Copy, Debug)]
enum Context {
    Append { segment: SegmentId, place: usize, backup: ServerId, attempt: u32 },
    Register { stream: StreamId, segment: SegmentId, epoch: Epoch },
    Record { segment: SegmentId, epoch: Epoch },
    Free { segment: SegmentId, backup: ServerId },
}

/// A replica that is of no use any more and is to be freed.
#[derive(Clone, Copy, Debug)]
struct Free {
    segment: SegmentId,
    stream: StreamId,
    epoch: Epoch,
    backup: ServerId,
    /// It was a head once.
    was_head: bool,
    next: Instant,
}

/// The replication of one shard's log.
pub struct Replicator {
    config: ReplicationConfig,
    rng: Rng,
    streams: BTreeMap<StreamId, Stream>,
    segments: BTreeMap<SegmentId, Segment>,
    /// Those of them that have replicas.
    replicated_count: u64,
    replicas_max: u8,
    /// Segments with something left to do, but for copies; the heads are always in it.
    active: BTreeSet<SegmentId>,
    /// Primaries of this log on each backup, for placement.
    primaries: BTreeMap<ServerId, u32>,
    copysets: CopysetCache,
    calls: Calls<Context>,
    frees: Vec<Free>,
    wishes: Vec<FlushWish>,
    /// Segments that some backup had no room for, since when, until all their replicas are open.
    refusals: BTreeMap<SegmentId, Instant>,
    /// Backups that have refused a replica and not taken one since; with their full device, where that is why.
    full: BTreeMap<ServerId, Option<DiskFull>>,
    events: Vec<Event>,
    /// Segments of which a backup has refused bytes.
    refused: Vec<SegmentId>,
    /// The earliest time at which a place may be tried again.
    retry: Option<Instant>,
    copies: Copies,
    /// Lists that `advance` walks over, kept so that it does not allocate.
    scratch: (Vec<SegmentId>, Vec<StreamId>),
    pieces: Pieces,
}

impl Replicator {
    pub fn new(config: ReplicationConfig, seed: u64) -> Replicator {
        let mut rng = Rng::new(seed);
        let calls = Calls::new(CALLS_ROLE, rng.u64());
        Replicator {
            config,
            rng,
            streams: BTreeMap::new(),
            segments: BTreeMap::new(),
            replicated_count: 0,
            replicas_max: 0,
            active: BTreeSet::new(),
            primaries: BTreeMap::new(),
            copysets: CopysetCache::default(),
            calls,
            frees: Vec::new(),
            wishes: Vec::new(),
            refusals: BTreeMap::new(),
            full: BTreeMap::new(),
            events: Vec::new(),
            refused: Vec::new(),
            retry: None,
            copies: Copies::default(),
            scratch: (Vec::new(), Vec::new()),
            pieces: Pieces::new(),
        }
    }

    /// A new stream; its first head must follow at once.
    pub fn add_stream(&mut self, stream: StreamId, durability: Durability, replicas: u8) {
        assert!(!self.streams.contains_key(&stream), "a stream is added once");
        assert_eq!(replicas == 0, durability == Durability::None);
        self.replicas_max = self.replicas_max.max(replicas);
        self.streams.insert(stream, Stream::new(durability, replicas));
    }

    /// The most replicas that a stream has.
    pub fn replicas_max(&self) -> u8 {
        self.replicas_max
    }

    /// The log rolled the head of a stream: `segment` is the next head, and `opening` its tail right after the roll. If it
    /// was held, its backups are those that hold it.
    pub fn head_rolled(&mut self, stream: StreamId, segment: SegmentId, opening: Tail) {
        let owner = self.streams.get_mut(&stream).expect("streams are added before their heads");
        owner.order.push_back(segment);
        let replicas = owner.replicas;
        if replicas > 0 {
            owner.unflushed.push_back(segment);
        }
        match self.segments.get_mut(&segment) {
            Some(held) => {
                assert!(held.held && held.stream == stream, "a head is rolled once");
                (held.held, held.opening) = (false, opening);
            }
            None => {
                self.replicated_count += u64::from(replicas > 0);
                self.segments.insert(segment, Segment::new(stream, false, replicas, opening));
            }
        }
        self.active.insert(segment);
    }

    /// The log began a side segment.
    pub fn side_begun(&mut self, stream: StreamId, segment: SegmentId, opening: Tail) {
        let replicas = self.streams.get(&stream).expect("streams are added before their segments").replicas;
        let mut entry = Segment::new(stream, true, replicas, opening);
        // Without replicas there is nothing to wait for.
        entry.complete = replicas == 0;
        if !entry.complete {
            self.active.insert(segment);
        }
        self.replicated_count += u64::from(replicas > 0);
        self.segments.insert(segment, entry);
    }

    /// Nobody waits for this side segment any more, all of whose places are filled: when it loses one it is copied again
    /// in its turn.
    pub fn settled(&mut self, segment: SegmentId) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.awaited = false;
        }
    }

    /// The log gave up a segment that no digest names, or a head that was held: its replicas are freed.
    pub fn abandon(&mut self, segment: SegmentId) {
        let Some(gone) = self.segments.remove(&segment) else { return };
        assert!(gone.side || gone.held, "a head is not abandoned");
        self.free_replicas(segment, gone);
    }

    /// Frees the replicas of a side segment that no digest names, so that others may have their frames. It has none until
    /// `resume`; those it gets then have a higher epoch, so what was sent before does them no harm.
    pub fn put_off(&mut self, segment: SegmentId) {
        let Some(entry) = self.segments.get_mut(&segment) else { return };
        assert!(entry.side && entry.awaited, "what may be named by a digest keeps its replicas");
        let (stream, epoch) = (entry.stream, entry.epoch);
        let held: Vec<(usize, ServerId, bool)> = (entry.places.iter().enumerate())
            .filter_map(|(index, place)| Some((index, place.backup?, place.touched)))
            .collect();
        entry.places.iter_mut().for_each(Place::reset);
        entry.epoch = epoch.next();
        entry.recorded = entry.epoch;
        (entry.complete, entry.was_complete, entry.closing) = (false, false, false);
        entry.put_off = true;
        self.active.remove(&segment);
        self.copies.remove(segment);
        self.refusals.remove(&segment);
        for (index, backup, touched) in held {
            if index == 0 {
                self.primary_gone(backup);
            }
            if touched {
                self.frees.push(Free {
                    segment,
                    stream,
                    epoch,
                    backup,
                    was_head: false,
                    next: Instant::ZERO,
                });
            }
        }
    }

    /// Goes on with a side segment that was put off.
    pub fn resume(&mut self, segment: SegmentId) {
        let entry = self.segments.get_mut(&segment).expect("what is put off stays known");
        assert!(std::mem::take(&mut entry.put_off), "it was not put off");
        self.active.insert(segment);
    }

    /// No digest that a recovery may choose names this closed segment any more: its replicas are freed.
    pub fn retire(&mut self, segment: SegmentId) {
        let gone = self.segments.remove(&segment).expect("a segment is retired once");
        assert!(!self.streams[&gone.stream].order.contains(&segment), "a head is not retired");
        self.free_replicas(segment, gone);
    }

    /// Segments that take frames on each of their sets of backups.
    pub fn replicated_count(&self) -> u64 {
        self.replicated_count
    }

    fn free_replicas(&mut self, segment: SegmentId, gone: Segment) {
        let was_head = !gone.side && !gone.held;
        if was_head {
            let stream = self.streams.get_mut(&gone.stream).expect("streams stay");
            stream.retired = stream.retired.max(segment);
        }
        self.replicated_count -= u64::from(!gone.places.is_empty());
        self.active.remove(&segment);
        self.copies.remove(segment);
        self.refusals.remove(&segment);
        for (index, place) in gone.places.iter().enumerate() {
            let Some(backup) = place.backup else { continue };
            if index == 0 {
                self.primary_gone(backup);
            }
            if place.touched {
                self.frees.push(Free {
                    segment,
                    stream: gone.stream,
                    epoch: gone.epoch,
                    backup,
                    was_head,
                    next: Instant::ZERO,
                });
            }
        }
    }

    /// Replicas that are to be freed and are not yet.
    pub fn freeing_count(&self) -> usize {
        self.frees.len()
    }

    /// Up to where the stream is on R backups. Only grows.
    pub fn durable(&self, stream: StreamId) -> Position {
        self.streams.get(&stream).map(|s| s.durable).unwrap_or_default()
    }

    /// The stream's first head is durable and the coordinator knows of it: acknowledgements may begin.
    pub fn is_registered(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|s| s.registered)
    }

    /// Whether a side segment is closed and whole on all its backups.
    pub fn is_complete(&self, segment: SegmentId) -> bool {
        self.segments.get(&segment).is_some_and(|s| s.complete)
    }

    pub fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// Since when a segment lacks a replica because backups have no room for it; none: it does not.
    pub fn refused_since(&self, segment: SegmentId) -> Option<Instant> {
        self.refusals.get(&segment).copied()
    }

    /// Since when nothing of a stream can become durable, because its head finds no failure domain for one of its replicas.
    pub fn blocked_since(&self, stream: StreamId) -> Option<Instant> {
        let order = &self.streams.get(&stream)?.order;
        order.iter().take(2).find_map(|head| self.segments[head].none_fits_since)
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Segments of which backups have refused bytes since this was last asked: what was sent is not what was appended.
    pub fn take_refused(&mut self) -> Vec<SegmentId> {
        std::mem::take(&mut self.refused)
    }

    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    fn primary_gone(&mut self, backup: ServerId) {
        if let Some(count) = self.primaries.get_mut(&backup) {
            *count = count.saturating_sub(1);
        }
    }
}
