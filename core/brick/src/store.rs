//! The values of a brick: its log, the stamps that were superseded, and what waits until it is durable.
//!
//! Each durability has a stream of its own, so that synced values go to the device at once and buffered ones do not wait
//! for it. A ticket stands for an end of a stream; the register counts in tickets.
//!
//! The applied set is bounded by time and by number. If memory is short, it is cut further: segments that hold nothing
//! live can only be cleaned when their stamps are forgotten.
//!
//! Invariant: the set's bound is the log's.
//!
//! Not here: which writes are stored (core/quorum), cleaning (`cleaning`). Catalogue: I1, I6.

use crate::FoundReplica;
use crate::dropped::Dropped;
use crate::graves::Graves;
use crate::question::Key;
use crate::stale::Stale;
use crate::state::{BrickState, StreamState};
use crate::tables::Tables;
use crate::{BrickConfig, Value};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, LogId, Position, Rng, ShardId, Stamp, StreamId, TableId, Version};
use ramhold_log::{AppendRefusal, HashRange, Log, LogConfig, Purpose, QuorumRecord, Unreadable};
use ramhold_quorum::{Applied, HORIZON, NoRoom, Shelf, Stored, Ticket};
use ramhold_replication::{FlushWish, ReplicationConfig, Replicator};
use ramhold_shard::{CleaningConfig, Owner, ScrubConfig, Shard, ShardConfig};
use ramhold_wire::Step;
use ramhold_wire::brick_status::BrickLimit;
use ramhold_wire::class::StreamClass;
use ramhold_wire::membership::Durability;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The only shard of a brick.
pub(crate) const SHARD: ShardId = ShardId(0);

/// The log of this life, and what goes with it.
pub(crate) struct Store {
    pub shard: Shard,
    pub applied: Applied<(TableId, KeyHash)>,
    /// The ends of values that are not durable yet, for each stream.
    waiting: BTreeMap<StreamId, VecDeque<(Position, Ticket)>>,
    ticket_last: u64,
    applied_count_max: usize,
    pub graves: Graves,
    pub stale: Stale,
    /// Keys of each table whose newest records were dropped. They outlive the rebuilding that dropped them, until one that
    /// ends has searched for older records.
    pub dropped: BTreeMap<TableId, Dropped>,
    /// Bytes of the records that rebuildings have stored.
    pub rebuild_stored: u64,
    /// Tables whose records are counted.
    tracked: BTreeSet<TableId>,
    /// Up to these ends somebody waits for the device.
    pub wanted: Vec<FlushWish>,
    /// Replicas of streams that were not whole and that no head names. They stay until everything is rebuilt.
    pub left_over: Vec<FoundReplica>,
    /// When a write was last refused for want of a place in the index. `None`: further keys have been stored since.
    index_refused: Option<Instant>,
}

/// After a refusal for want of a place in the index, the next key that is stored after this time says that there are places
/// again: some hashes have places longer than others.
const INDEX_FULL_FOR: Duration = Duration::from_secs(10);

/// The class of the streams of a durability.
fn class(durability: Durability) -> StreamClass {
    StreamClass { durability, replicas: 1 }
}

/// All hashes of a table.
fn whole(table: TableId) -> HashRange {
    HashRange { table, first: KeyHash(0), last: KeyHash(u64::MAX) }
}

impl Store {
    pub fn new(config: &BrickConfig, region: Vec<u8>, state: &BrickState, rng: &mut Rng) -> Store {
        let mut log = Log::new(
            LogConfig {
                cluster: state.cluster,
                log: LogId { server: state.brick, shard: SHARD },
                geometry: config.geometry,
                log_bytes: config.log_bytes,
                index_bytes_max: config.index_bytes_max,
                reserve_bytes: config.reserve_bytes,
                cleaning_reserve_bytes: config.cleaning_reserve_bytes,
                profile_bytes_max: config.profile_bytes_max,
                index_secret: state.index_secret,
            },
            region,
        );
        let replicator = Replicator::new(ReplicationConfig::own(SHARD), rng.u64());
        let shard_config = ShardConfig {
            cleaning: CleaningConfig {
                runway_bytes: config.cleaning_runway_bytes,
                disk_bytes_max: config.disk_bytes_max,
                frames_max: 0,
                // A compacted segment would need more memory after a restart.
                is_two_level: false,
            },
            scrub: ScrubConfig {
                bytes_per_second: config.scrub_bytes_per_second,
                round_min: config.scrub_round_min,
            },
            touched_ahead_bytes: config.touched_ahead_bytes,
        };
        log.tell_summaries();
        let mut store = Store {
            shard: Shard::new(log, replicator, shard_config),
            applied: Applied::default(),
            waiting: BTreeMap::new(),
            ticket_last: 0,
            applied_count_max: config.applied_count_max,
            graves: Graves::default(),
            stale: Stale::default(),
            dropped: BTreeMap::new(),
            rebuild_stored: 0,
            tracked: BTreeSet::new(),
            wanted: Vec::new(),
            left_over: Vec::new(),
            index_refused: None,
        };
        state.streams.iter().for_each(|stream| store.open_stream(stream));
        for tablet in &state.tablets {
            store.track(tablet.table);
        }
        store.forget(0);
        store
    }

    /// Counts the records of a table from now on, whatever its tablets are.
    pub fn track(&mut self, table: TableId) {
        if self.tracked.insert(table) {
            self.shard.log.track(whole(table));
        }
    }

    /// Nothing of a table is in the index any more.
    pub fn untrack(&mut self, table: TableId) {
        if self.tracked.remove(&table) {
            self.shard.log.untrack(whole(table));
        }
    }

    /// A key cannot be read: if its entry is damaged, the repair begins.
    pub fn note_unreadable(&mut self, step: &mut Step<'_>, unreadable: Unreadable) {
        if let Unreadable::Damaged(at) = unreadable {
            let (segment, offset) = self.shard.log.place_of(at);
            self.shard.note_damage(step, segment, offset);
        }
    }

    /// Whether a write was refused for want of a place in the index: with memory for the log, there is no other reason.
    /// Cleaning makes none.
    pub fn lacks_place(&mut self, now: Instant, refusal: AppendRefusal) -> bool {
        let is_full = refusal == AppendRefusal::OutOfMemory && self.shard.has_memory();
        if is_full {
            self.index_refused = Some(now);
        }
        is_full
    }

    /// One more key was stored.
    pub fn has_placed(&mut self, now: Instant) {
        self.index_refused.take_if(|refused| now.since(*refused) >= INDEX_FULL_FOR);
    }

    /// A rebuilding that lacked places in the index has found some for a whole stretch.
    pub fn has_places(&mut self) {
        self.index_refused = None;
    }

    /// A rebuilding has stored something: puts are not refused any more if there is room for them, too.
    pub fn rebuilds_with_room(&mut self) {
        if self.shard.cleaning.has_refused && self.shard.has_room() {
            self.shard.cleaning.has_refused = false;
        }
    }

    /// The limit for which puts are refused.
    pub fn full(&self) -> Option<BrickLimit> {
        match self.shard.has_memory() && self.shard.lacks_frames() {
            _ if !self.shard.cleaning_status().is_full => self.index_refused.map(|_| BrickLimit::Index),
            true => Some(BrickLimit::Frames),
            false => Some(BrickLimit::Memory),
        }
    }

    /// Adds a stream. Its first head must follow.
    pub fn open_stream(&mut self, stream: &StreamState) {
        self.shard.log.open_stream(stream.stream);
        self.shard.replicator.add_stream(stream.stream, class(stream.durability), None);
    }

    /// Everything up to these tickets is durable, for each stream that has something new.
    pub fn take_durable(&mut self) -> Vec<(StreamId, Ticket)> {
        let mut durable = Vec::new();
        for (stream, waiting) in &mut self.waiting {
            let end = self.shard.replicator.durable(*stream);
            let mut through = None;
            while let Some((_, ticket)) = waiting.pop_front_if(|(position, _)| *position <= end) {
                through = Some(ticket);
            }
            durable.extend(through.map(|ticket| (*stream, ticket)));
        }
        durable
    }

    /// Whether the device has everything up to the end of a wish. If not, that is hurried.
    pub fn is_on_device(&mut self, wish: FlushWish) -> bool {
        let is_there = self.shard.replicator.is_fulfilled(wish);
        if !is_there && !self.wanted.contains(&wish) {
            self.wanted.push(wish);
        }
        is_there
    }

    /// Forgets the ends whose flush nobody waits for any more.
    pub fn forget_flushed(&mut self) {
        let replicator = &self.shard.replicator;
        self.wanted.retain(|wish| !replicator.is_fulfilled(*wish));
    }

    /// Everything that was stored in a stream until now.
    pub fn everything(&self, stream: StreamId) -> FlushWish {
        FlushWish::UpTo(stream, self.shard.log.head_end(stream))
    }

    /// The number of values that are not durable yet.
    pub fn waiting_count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// The number of values and tombstones that were stored since the start.
    pub fn stored_count(&self) -> u64 {
        self.ticket_last
    }

    /// Forgets superseded stamps that are older than the horizon.
    pub fn forget_old(&mut self, micros: u64) {
        self.forget(micros.saturating_sub(HORIZON.as_micros() as u64));
    }

    /// Forgets the oldest superseded stamps if they are too many.
    pub fn forget_many(&mut self) {
        while self.applied.len() > self.applied_count_max {
            let Some(oldest) = self.applied.oldest() else { return };
            self.forget(oldest.time);
        }
    }

    /// Memory is short: forgets the stamps of the segment whose stamps are the oldest, so that it can be cleaned.
    /// Returns whether there was one.
    pub fn forget_for_room(&mut self) -> bool {
        let bound = self.shard.log.bound();
        let closed = self.shard.log.segments().filter(|segment| segment.closed);
        let next = closed.map(|segment| segment.stamp_newest).filter(|newest| *newest > bound).min();
        next.into_iter().for_each(|next| self.forget(next));
        next.is_some()
    }

    /// Whether a part of the log is not loaded yet. Nothing is cleaned meanwhile: a key's record may be dead by another one
    /// that is not known.
    pub fn is_loading(&self) -> bool {
        self.shard.log.floor_of_awaited().is_some()
    }

    pub fn forget(&mut self, bound: u64) {
        self.shard.log.raise_bound(bound);
        self.applied.forget(self.shard.log.bound());
    }
}

/// The store as the register sees it, for one key.
pub(crate) struct LogShelf<'a> {
    pub store: &'a mut Store,
    pub table: TableId,
    pub stream: StreamId,
    pub hash: KeyHash,
    /// How much of the reserve a value may use.
    pub purpose: Purpose,
    /// Why the last value was not stored.
    pub refusal: Option<AppendRefusal>,
    /// The value was stored, and is the first of its key.
    pub is_new: bool,
}

impl LogShelf<'_> {
    /// Whether the entry of the key can be read.
    pub fn check(&self, key: &[u8]) -> Result<(), Unreadable> {
        self.store.shard.log.newest(self.table, self.hash, key).map(|_| ())
    }

    /// The length of the key's newest value.
    pub fn value_bytes(&self, key: &Key) -> usize {
        self.newest_of(key, |newest| newest.value.map_or(0, |value| value.len())).unwrap_or(0)
    }

    fn newest_of<T>(&self, key: &Key, read: impl FnOnce(ramhold_log::Newest<'_>) -> T) -> Option<T> {
        self.store.shard.log.newest(self.table, self.hash, key).expect("it was checked").map(read)
    }
}

impl Shelf<Key, Value> for LogShelf<'_> {
    fn newest(&self, key: &Key) -> Stamp {
        self.newest_of(key, |newest| newest.stamp).unwrap_or(Stamp::NONE)
    }

    fn value(&self, key: &Key) -> Option<Value> {
        self.newest_of(key, |newest| {
            newest.value.map(|value| Value { bytes: value.to_vec(), expires: newest.expires })
        })?
    }

    fn has_applied(&self, _: &Key, stamp: Stamp) -> bool {
        self.store.applied.has(&(self.table, self.hash), stamp)
    }

    fn has_forgotten(&self, stamp: Stamp) -> bool {
        // A segment that is not loaded may tell that this stamp was stored. Repairs alone come here then (`loading`).
        let floor = self.store.shard.log.floor_of_awaited();
        let is_below = floor.is_some_and(|floor| stamp.time <= floor);
        self.store.applied.has_forgotten(stamp) || (is_below && !planted(Defect::QuorumLoadingRejects))
    }

    fn store(&mut self, key: &Key, stamp: Stamp, value: Option<Value>) -> Result<Stored, NoRoom> {
        let before = self.newest_of(key, |newest| (newest.at, newest.stamp));
        let record = QuorumRecord {
            table: self.table,
            stamp,
            expires: value.as_ref().and_then(|value| value.expires),
            key,
            value: value.as_ref().map(|value| value.bytes.as_slice()),
        };
        let replaces = before.map(|(at, _)| at);
        let log = &mut self.store.shard.log;
        let written = match log.store(self.stream, self.purpose, self.hash, &record, replaces) {
            Ok(written) => written,
            Err(refusal) => {
                self.refusal = Some(refusal);
                return Err(NoRoom);
            }
        };
        self.is_new = before.is_none();
        if let Some((_, stamp)) = before {
            self.store.applied.note(&(self.table, self.hash), stamp);
        }
        self.store.shard.appended = true;
        self.store.ticket_last += 1;
        let ticket = Ticket(self.store.ticket_last);
        self.store.waiting.entry(self.stream).or_default().push_back((written.position, ticket));
        Ok(Stored::Later(ticket))
    }
}

/// The brick as the owner of its shard.
pub(crate) struct Owns<'a>(pub &'a Tables);

impl Owner for Owns<'_> {
    fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash> {
        // Records of a table that was dropped are dead: the index leads to none of them.
        Some(self.0.hash(table, key).unwrap_or_default())
    }

    fn may_hold(&self, _: StreamId, _: HashRange) -> bool {
        true
    }

    fn may_leave(&self, _: ramhold_base::SegmentId) -> bool {
        true
    }

    fn version_after_all(&self) -> Version {
        // Nothing of a brick is lost for want of replicas.
        Version(1)
    }
}
