//! Keeps every segment of this master's log on R backups.
//!
//! A segment states what is wanted; each of its places remembers what its backup has reached. `advance` emits the next
//! messages of each place. A lost backup empties its place, and the place starts again from nothing with another
//! backup. The durable position of each stream follows from what all places have reached.
//!
//! Invariants:
//! - a head is open on all backups before the head before it is closed, and gets data beyond its opening only when that
//!   head is durably closed;
//! - a certificate covers whole groups only;
//! - an epoch is recorded at the coordinator only when all R replicas durably hold it, and nothing is durable at that
//!   epoch before it is recorded.
//!
//! Not here: choosing backups (placement), the log's bytes (log), buffers and disks (backup).
//! Protocol: docs/protocols/replication.md. Catalogue: D1, D6, D8, D9, F8. Source: SOSP11 2.4, TUT15 Part III.

mod adopt;
mod advance;
mod answers;
mod copies;
mod flushed;
mod grants;
mod held;
mod moves;
mod pieces;
mod segment;
mod spreading;
mod status;
mod stream;

pub use status::ReplicaSeen;

use copies::Copies;
use pieces::Pieces;
use ramhold_base::{Epoch, Instant, Position, Rng, SegmentId, ServerId, ShardId, StreamId};
use ramhold_placement::{CopysetCache, HeadRoom, NeighbourhoodCache, Traffic};
use ramhold_wire::class::StreamClass;
use ramhold_wire::membership::Durability;
use ramhold_wire::status::DiskFull;
use ramhold_wire::{CallRole, Calls};
use segment::{Place, Segment};
use spreading::Spreading;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stream::Stream;

/// About the bytes that a network between two servers holds, so that large values do not wait for answers: 64 KiB take
/// 50 microseconds at 10 Gbit/s.
const COLLECTED_BYTES_MAX: u32 = 64 * 1024;

/// The source of the segments' bytes: the log in DRAM.
pub trait Segments {
    /// The present end of a segment. `None` if the log has no such segment.
    fn tail(&self, segment: SegmentId) -> Option<Tail>;
    /// Appends the bytes `from..to` of a segment to `out`.
    fn copy(&self, segment: SegmentId, from: u32, to: u32, out: &mut Vec<u8>);
    /// A closed segment may be copied again only when its stream is flushed up to this position. The segment was
    /// compacted, and the entries that were left out must not be needed any more, whatever is lost.
    fn copy_after(&self, segment: SegmentId) -> Position;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    pub length: u32,
    /// CRC32C of the first `length` bytes.
    pub crc: u32,
    /// Nothing will be appended to the segment any more.
    pub closed: bool,
}

#[derive(Clone, Debug)]
pub struct ReplicationConfig {
    pub shard: ShardId,
    /// Whether replicas may be on the master's own failure domain.
    pub local_allowed: bool,
    /// The log belongs to a brick: the backup of its own process keeps it, and nobody else recovers it. So no
    /// coordinator records its streams and heads, and the backup is never lost.
    pub is_own: bool,
    /// An append that is not answered for this long is sent again. The time is longer for large messages and slow
    /// backups.
    pub append_timeout: Duration,
    /// A backup that is silent for this long about a segment of the head order, a held head or a side segment loses its
    /// replica of that segment.
    pub replica_timeout: Duration,
    /// The most unanswered appends per replica. More data waits, and is sent together.
    pub in_flight_max: u16,
    /// While an append to a replica of a stream that is not synced is unanswered, fewer bytes than this, and than an
    /// append may have, wait for the answer and are sent together. 0: nothing waits.
    pub collected_bytes_max: u32,
    /// The most closed segments that are copied again at the same time.
    pub copies_max: usize,
    /// The bytes that may be sent in a second for these copies. 0: no bound.
    pub copy_bytes_per_second: u64,
    /// The most data bytes in one append.
    pub append_bytes_max: u32,
    /// The heads for which backups and this log have room. A master employs no more neighbourhoods than that.
    pub head_room: HeadRoom,
}

impl ReplicationConfig {
    /// For the log of a brick, of which its own device is the only keeper.
    pub fn own(shard: ShardId) -> ReplicationConfig {
        // A device that hangs is waited for: there is no other one.
        let replica_timeout = Duration::from_secs(u64::from(u32::MAX));
        ReplicationConfig {
            local_allowed: true,
            is_own: true,
            replica_timeout,
            ..ReplicationConfig::new(shard)
        }
    }

    pub fn new(shard: ShardId) -> ReplicationConfig {
        ReplicationConfig {
            shard,
            local_allowed: false,
            is_own: false,
            append_timeout: Duration::from_millis(250),
            replica_timeout: Duration::from_secs(3),
            in_flight_max: 4,
            collected_bytes_max: COLLECTED_BYTES_MAX,
            copies_max: 4,
            copy_bytes_per_second: 0,
            append_bytes_max: ramhold_base::limits::APPEND_BYTES_MAX,
            head_room: HeadRoom::ANY,
        }
    }
}

/// Events on which the master, and through it the node, must act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A backup or the coordinator says that this server is dead: verify that at the coordinator.
    SaidDead,
    /// This backup does not answer.
    Suspect(ServerId),
    /// The memory of this server is damaged where no backup has the bytes. The server must end, and is recovered up to
    /// that place.
    Beyond(SegmentId),
}

/// A wish of the master: it waits until this is on the backups' devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushWish {
    /// Until `is_flushed` is true for this segment.
    Whole(SegmentId),
    /// Until `flushed` of the stream has reached this position.
    UpTo(StreamId, Position),
}

#[derive(Clone, Copy, Debug)]
enum Context {
    Append { segment: SegmentId, place: usize, backup: ServerId, attempt: u32 },
    Register { stream: StreamId, segment: SegmentId, epoch: Epoch },
    Record { segment: SegmentId, epoch: Epoch },
    Free { segment: SegmentId, backup: ServerId },
}

/// A replica that is no longer needed and is to be freed.
#[derive(Clone, Copy, Debug)]
struct Free {
    segment: SegmentId,
    stream: StreamId,
    epoch: Epoch,
    backup: ServerId,
    /// The segment was a head.
    was_head: bool,
    next: Instant,
}

/// The replication of one shard's log.
pub struct Replicator {
    config: ReplicationConfig,
    rng: Rng,
    streams: BTreeMap<StreamId, Stream>,
    segments: BTreeMap<SegmentId, Segment>,
    /// The number of `segments` that have replicas.
    replicated_count: u64,
    replicas_max: u8,
    /// Segments with work left to do, except those in `copies`. The heads are always in this set.
    active: BTreeSet<SegmentId>,
    /// Primaries of this log on each backup, for placement.
    primaries: BTreeMap<ServerId, u32>,
    copysets: CopysetCache,
    neighbourhoods: NeighbourhoodCache,
    calls: Calls<Context>,
    frees: Vec<Free>,
    wishes: Vec<FlushWish>,
    /// Those of before; kept for its memory.
    wishes_before: Vec<FlushWish>,
    /// Segments for which some backup had no room, with the instant since when, until all their replicas are open.
    refusals: BTreeMap<SegmentId, Instant>,
    /// Backups that have refused a replica for want of room and have not taken one since. If the reason is a full
    /// device, its state.
    full: BTreeMap<ServerId, Option<DiskFull>>,
    events: Vec<Event>,
    /// Segments whose bytes a backup has refused as corrupt.
    refused: Vec<SegmentId>,
    /// The earliest time at which something may be tried again.
    retry: Option<Instant>,
    copies: Copies,
    spreading: Spreading,
    /// Bytes sent when they were written, and sent again.
    traffic: (Traffic, Traffic),
    /// Lists over which `advance` walks, kept so that it does not allocate.
    scratch: (Vec<SegmentId>, Vec<StreamId>),
    pieces: Pieces,
}

impl Replicator {
    /// From now on new replicas of closed segments are sent with at most this many bytes a second; 0: no bound.
    pub fn limit_copies(&mut self, bytes_per_second: u64) {
        self.config.copy_bytes_per_second = bytes_per_second;
    }

    pub fn new(config: ReplicationConfig, seed: u64) -> Replicator {
        let mut rng = Rng::new(seed);
        let calls = Calls::new(CallRole::Replicator, rng.u64());
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
            neighbourhoods: NeighbourhoodCache::default(),
            calls,
            frees: Vec::new(),
            wishes: Vec::new(),
            wishes_before: Vec::new(),
            refusals: BTreeMap::new(),
            full: BTreeMap::new(),
            events: Vec::new(),
            refused: Vec::new(),
            retry: None,
            copies: Copies::default(),
            spreading: Spreading::default(),
            traffic: Default::default(),
            scratch: (Vec::new(), Vec::new()),
            pieces: Pieces::new(),
        }
    }

    /// Adds a new stream. Its first head must follow at once.
    /// `neighbourhood`: the one that is to recover what is in it; none: anybody.
    pub fn add_stream(&mut self, stream: StreamId, class: StreamClass, neighbourhood: Option<String>) {
        assert!(!self.streams.contains_key(&stream), "a stream is added once");
        assert_eq!(class.replicas == 0, class.durability == Durability::None);
        self.replicas_max = self.replicas_max.max(class.replicas);
        let registered = self.config.is_own;
        self.streams.insert(stream, Stream { registered, ..Stream::new(class, neighbourhood) });
    }

    /// The highest number of replicas of any stream.
    pub fn replicas_max(&self) -> u8 {
        self.replicas_max
    }

    /// Notes that the log rolled the head of a stream. `segment` is the next head, and `opening` its tail right after
    /// the roll. If it was a held head, its backups are those that hold it.
    pub fn head_rolled(&mut self, stream: StreamId, segment: SegmentId, opening: Tail) {
        let owner = self.streams.get_mut(&stream).expect("streams are added before their heads");
        owner.order.push_back(segment);
        let replicas = owner.class.replicas;
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

    /// Notes that the log began a side segment.
    pub fn side_begun(&mut self, stream: StreamId, segment: SegmentId, opening: Tail) {
        let replicas =
            self.streams.get(&stream).expect("streams are added before their segments").class.replicas;
        let mut entry = Segment::new(stream, true, replicas, opening);
        // Without replicas the segment waits for nothing.
        entry.complete = replicas == 0;
        if !entry.complete {
            self.active.insert(segment);
        }
        self.replicated_count += u64::from(replicas > 0);
        self.segments.insert(segment, entry);
    }

    /// Notes that nothing waits any more for this side segment, all of whose places are filled. If it loses a replica,
    /// it is copied again in its turn.
    pub fn settled(&mut self, segment: SegmentId) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.awaited = false;
        }
    }

    /// Frees the replicas of a segment that the log gave up: one that no digest names, or a held head.
    pub fn abandon(&mut self, segment: SegmentId) {
        let Some(gone) = self.segments.remove(&segment) else { return };
        assert!(gone.side || gone.held, "a head is not abandoned");
        self.free_replicas(segment, gone);
    }

    /// Frees the replicas of a side segment that no digest names, so that other segments may have the frames. The
    /// segment has no replicas until `resume`. The replicas that it gets then have a higher epoch, so messages that
    /// were sent before do them no harm.
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

    /// Frees the replicas of a closed segment that no digest names any more that a recovery may choose.
    pub fn retire(&mut self, segment: SegmentId) {
        let gone = self.segments.remove(&segment).expect("a segment is retired once");
        assert!(!self.streams[&gone.stream].order.contains(&segment), "a head is not retired");
        self.free_replicas(segment, gone);
    }

    /// The number of segments that have replicas, and so take frames on R backups each.
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
        self.spreading.ended(segment);
        self.refusals.remove(&segment);
        for (index, place) in gone.places.iter().enumerate() {
            let Some(backup) = place.backup else { continue };
            if gone.is_primary(index) {
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

    /// The number of replicas that are still to be freed.
    pub fn freeing_count(&self) -> usize {
        self.frees.len()
    }

    /// The position up to which the stream is on R backups. It only grows.
    pub fn durable(&self, stream: StreamId) -> Position {
        self.streams.get(&stream).map(|s| s.durable).unwrap_or_default()
    }

    /// Whether the stream's first head is durable and the coordinator knows it, so that acknowledgements may begin.
    pub fn is_registered(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|s| s.registered)
    }

    /// Whether a segment has left the head order, or is a side segment, and is closed and whole on all its backups.
    pub fn is_complete(&self, segment: SegmentId) -> bool {
        self.segments.get(&segment).is_some_and(|s| s.complete)
    }

    pub fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// The instant since when a segment lacks a replica because backups have no room for it. `None` if it does not.
    pub fn refused_since(&self, segment: SegmentId) -> Option<Instant> {
        self.refusals.get(&segment).copied()
    }

    /// The instant since when nothing of a stream can become durable, because its head, or the head after that, finds
    /// no failure domain for one of its replicas.
    pub fn blocked_since(&self, stream: StreamId) -> Option<Instant> {
        let order = &self.streams.get(&stream)?.order;
        order.iter().take(2).find_map(|head| self.segments[head].none_fits_since)
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Segments whose bytes backups have refused as corrupt since this was last asked: the bytes sent were not those
    /// that were appended.
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
