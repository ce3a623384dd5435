//! A shard's log: objects go in at the heads of streams and are found again through the index.
//!
//! A write appends the new object; then the index leads to it. A remove appends a tombstone and takes the key out of
//! the index. Ordinary appends leave a reserve of seglets free, so that removes and cleaning can always make progress.
//!
//! An overwrite needs no tombstone: recovery takes the newest version, so older versions matter only when the newest is
//! removed. To prepare for that, an object names the segments that hold older versions of its key. Its remove puts all
//! these names into one tombstone, which is needed until none of the segments counts any more. The names are exact,
//! because a range would also cover segments in between that are never cleaned. If an object would have to name more
//! than `OBJECT_OLDER_COUNT_MAX` (8) segments, its group starts with a tombstone that takes over all but the newest of
//! them. See `group` and docs/formats/log.md.
//!
//! Invariants:
//! - a group is in one segment as a whole, or not at all;
//! - the index refers to exactly the newest live object of every key (and, during replay, to tombstones);
//! - a key's newest object names every counted segment that holds an older version of the key, unless a tombstone in
//!   the same stream ends that version and names the segment;
//! - a tombstone is in the stream of the object that it ends, and names the object's segment and the segments that the
//!   object names;
//! - the safe version is above every version whose key has left the index.
//!
//! Not here: heads and side logs (`stream`), foreign entries (`replay`), walks over the index (`sweep`).
//! Catalogue: C1, C2, C3, C4, A2. Source: SOSP11 2.5; the lists are our own.

use crate::entry::BODY_BYTES_MAX;
use crate::index::bucket::What;
use crate::index::{INDEX_BYTES_MIN, Index, REGION_BYTES_MAX};
use crate::memory::{Floor, Memory, Record};
use crate::moving::HashOf;
use crate::pending::Pending;
use crate::profile::{Counted, Profiles};
use crate::reclass::Reclassing;
use crate::results::Results;
use crate::segment::Slot;
use crate::stats::TabletCounters;
use crate::stream::{Side, Stream};
use crate::{
    Entry, HashRange, Kind, OBJECT_OLDER_COUNT_MAX, Object, OlderList, Pieces, Reference, RpcResult,
    SegmentInfo, SideId, TabletStat, Tombstone,
};
use ramhold_base::hash::index_hash;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterId, ClusterTime, KeyHash, LogId, Position, SegmentId, StreamId, TableId, Version};
use std::collections::{BTreeMap, BTreeSet};

/// The sizes of segments and seglets, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// A multiple of `seglet_bytes`. At least twice the largest group of entries.
    pub segment_bytes: u32,
    /// A power of two.
    pub seglet_bytes: u32,
}

impl Geometry {
    pub fn seglets_per_segment(&self) -> u32 {
        self.segment_bytes / self.seglet_bytes
    }
}

/// The configuration of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogConfig {
    pub cluster: ClusterId,
    pub log: LogId,
    pub geometry: Geometry,
    /// Memory for segments: a multiple of a seglet, at most 4 TiB.
    pub log_bytes: u64,
    /// Bound of the index's memory, at least 2 KiB. Beyond it new keys are refused.
    pub index_bytes_max: u64,
    /// The part of `log_bytes` that ordinary appends leave free: at least two seglets, at most half.
    pub reserve_bytes: u64,
    /// The part of the reserve that only cleaning may use: room for the survivors of one pass.
    pub cleaning_reserve_bytes: u64,
    /// Bound of the memory of the tablet profiles.
    pub profile_bytes_max: u64,
    /// A secret of the cluster's servers, so that nobody else can choose keys that fill one bucket. A scan in one log
    /// can go on in another log with the same secret.
    pub index_secret: u64,
}

/// The purpose of an append, which decides how much of the reserve it may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Ordinary,
    /// The append leads to memory being freed.
    Freeing,
    /// An entry that a recovery brings. It was written before, so it takes precedence over new data.
    Recovery,
    /// A cleaning pass.
    Cleaning,
}

/// Why an append did not take place. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendRefusal {
    /// The group does not fit the head, or there is no head: roll, then try again.
    HeadFull,
    /// There is no memory for the group or for its key's place in the index.
    OutOfMemory,
    /// The group takes more than half a segment, so it would fit no segment.
    TooLarge,
    /// An entry in memory that may be this key's cannot be read.
    Unreadable(Unreadable),
}

/// There is no seglet left for a new head, or its digest has outgrown the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// A group that has been appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The object; for a remove, the tombstone.
    pub at: Reference,
    /// The end of the group. When the stream is durable up to this position, the group is durable.
    pub position: Position,
}

/// A key to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removal<'a> {
    pub table: TableId,
    pub key: &'a [u8],
    /// The version of the remove: above the object's.
    pub version: Version,
    /// Seconds of cluster time.
    pub time: u32,
}

/// Why the state of a key is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// This entry is damaged in memory, and may be the key's.
    Damaged(Reference),
    /// An entry that may have been the key's was lost: it was damaged, and there was no replica.
    Lost,
}

/// The newest entry of a key, to which the index refers.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    pub at: Reference,
    /// `Object`. For a key that is being replayed it may be `Tombstone`: then there is no object.
    pub kind: Kind,
    pub version: Version,
    /// Seconds of cluster time.
    pub time: u32,
    /// The time from which the object does not exist. The log itself has no clock: the caller compares.
    pub expires: Option<ClusterTime>,
    pub value: Pieces<'a>,
    entry_bytes: u32,
    memory: &'a Memory,
}

impl<'a> Found<'a> {
    #[inline]
    pub(crate) fn of(at: Reference, record: Record<'a>, memory: &'a Memory) -> Found<'a> {
        let Record { kind, version, time, expires, entry_bytes, value, .. } = record;
        Found { at, kind, version, time, expires, value, entry_bytes, memory }
    }

    /// The end of the group that wrote the entry. An answer that reveals the entry waits until the stream is durable up
    /// to this position. Entries that a combined pass has moved were durable before, and recovered entries are durable
    /// while the dead log stays.
    pub fn position(&self) -> Position {
        if self.segment().is_survivor {
            return Position::default();
        }
        self.memory.end_of(self.at, self.entry_bytes)
    }

    pub fn segment(&self) -> &SegmentInfo {
        self.memory.segment_of(self.at)
    }

    /// Bytes of the whole entry: header, list of segments, key and value.
    pub fn entry_bytes(&self) -> u32 {
        self.entry_bytes
    }
}

/// How full the shard is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    pub log_bytes: u64,
    /// Bytes of free seglets, the reserve included.
    pub free_bytes: u64,
    pub reserve_bytes: u64,
    pub index_bytes: u64,
    /// Entries of the index: keys that have an object, and tombstones in replay.
    pub index_entry_count: u64,
}

/// The log-structured memory of one shard.
pub struct Log {
    pub(crate) config: LogConfig,
    pub(crate) memory: Memory,
    pub(crate) index: Index,
    pub(crate) counters: TabletCounters,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    pub(crate) sides: BTreeMap<SideId, Side>,
    pub(crate) segment_last: SegmentId,
    pub(crate) side_last: SideId,
    pub(crate) reserve: Floor,
    /// The seglets that removes leave free.
    cleaning_reserve: Floor,
    /// The bits of the hashes of lost keys that the index knew.
    pub(crate) lost: BTreeSet<u64>,
    pub(crate) results: Results,
    safe_version: Version,
    /// An object with an expiry time was appended at some time.
    pub(crate) may_expire: bool,
    /// The latest time to which `look_again` has put off an expired object.
    pub(crate) looked_again: ClusterTime,
    /// The range that is moving from one stream to another.
    pub(crate) reclassing: Option<Reclassing>,
    /// Segments of earlier lives that are not in memory yet.
    pub(crate) pending: Pending,
    /// Heads tell the newest stamps of the segments that they name.
    pub(crate) tells_summaries: bool,
}

/// The entries that are appended together when an object is written.
pub(crate) struct Group<'a> {
    pub(crate) table: TableId,
    /// The object, with the segments that it names.
    entry: Entry<'a>,
    /// The tombstone before the object, if there is one.
    tombstone: Option<Tombstone<'a>>,
}

/// An entry of the index that is about to be replaced or removed.
#[derive(Clone, Copy)]
pub(crate) struct Dead {
    pub(crate) at: Reference,
    pub(crate) slot: Slot,
    pub(crate) segment: SegmentId,
    pub(crate) kind: Kind,
    pub(crate) version: Version,
    pub(crate) entry_bytes: u32,
    /// The segments that the entry names and that still count.
    pub(crate) older: OlderList,
}

impl Group<'_> {
    pub(crate) fn bytes(&self) -> usize {
        let tombstone_bytes = self.tombstone.as_ref().map_or(0, Tombstone::entry_bytes);
        tombstone_bytes + self.entry.entry_bytes()
    }
}

impl Log {
    /// An empty log in `region`, which has `log_bytes` bytes. Panics when the configuration contradicts itself.
    pub fn new(config: LogConfig, region: Vec<u8>) -> Log {
        let Geometry { segment_bytes, seglet_bytes } = config.geometry;
        assert!(seglet_bytes.is_power_of_two());
        assert!(segment_bytes >= seglet_bytes);
        assert!(segment_bytes.is_multiple_of(seglet_bytes));
        assert!(segment_bytes as usize <= BODY_BYTES_MAX);
        assert!(region.len() as u64 == config.log_bytes);
        assert!(config.log_bytes.is_multiple_of(u64::from(seglet_bytes)));
        assert!(config.log_bytes <= REGION_BYTES_MAX);
        assert!(config.log_bytes / u64::from(seglet_bytes) < u64::from(u32::MAX));
        assert!(config.index_bytes_max >= INDEX_BYTES_MIN);
        // A new head and one more group of tombstones.
        assert!(config.reserve_bytes >= 2 * u64::from(seglet_bytes));
        assert!(config.reserve_bytes <= config.log_bytes / 2);
        assert!(config.cleaning_reserve_bytes <= config.reserve_bytes);
        let seglets = |bytes: u64| {
            let count = bytes.div_ceil(u64::from(seglet_bytes));
            Floor(u32::try_from(count).expect("the reserve is a part of the region"))
        };
        let (reserve, cleaning_reserve) =
            (seglets(config.reserve_bytes), seglets(config.cleaning_reserve_bytes));
        Log {
            config,
            memory: Memory::new(config.geometry, region),
            index: Index::new(config.log_bytes, config.index_bytes_max),
            counters: TabletCounters::new(Profiles::new(config.profile_bytes_max, segment_bytes.into())),
            streams: BTreeMap::new(),
            sides: BTreeMap::new(),
            segment_last: SegmentId::NONE,
            side_last: SideId::default(),
            reserve,
            cleaning_reserve,
            lost: BTreeSet::new(),
            results: Results::default(),
            safe_version: Version(1),
            may_expire: false,
            looked_again: ClusterTime::default(),
            reclassing: None,
            pending: Pending::default(),
            tells_summaries: false,
        }
    }

    /// Gives the memory back, so that another log can use it.
    pub fn into_region(self) -> Vec<u8> {
        self.memory.into_region()
    }

    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// The size of the largest group of entries that can be appended: half a segment. The other half is for the
    /// opening.
    pub fn group_bytes_max(&self) -> u32 {
        self.config.geometry.segment_bytes / 2
    }

    /// Finds the object of a key. For a key in replay it may find a tombstone. `hash` is the key's placement hash.
    ///
    /// The checksum of every entry that might be the key's is verified before any field of it is believed, because a
    /// damaged key may look like another one.
    #[inline]
    pub fn lookup(&self, table: TableId, hash: KeyHash, key: &[u8]) -> Result<Option<Found<'_>>, Unreadable> {
        let memory = &self.memory;
        let place = self.place(table, hash);
        let mut damaged = None;
        let found = self.index.find(place, |at| {
            let Some(record) = memory.intact_record(at) else {
                damaged = Some(at);
                return None;
            };
            if record.table != table || !record.key.is_equal(key) {
                return None;
            }
            Some(Found::of(at, record, memory))
        });
        match (found, damaged) {
            (Some(found), _) => Ok(Some(found)),
            (None, Some(at)) => Err(Unreadable::Damaged(at)),
            (None, None) if self.is_lost(place) => Err(Unreadable::Lost),
            (None, None) => Ok(None),
        }
    }

    /// When the object of a key expires, read without verifying anything. A caller asks this before `lookup`, to find
    /// the few keys that a `lookup` must confirm.
    pub fn peek_expiry(&self, table: TableId, hash: KeyHash, key: &[u8]) -> Option<ClusterTime> {
        if !self.may_expire {
            return None;
        }
        self.index.find(self.place(table, hash), |at| {
            let record = self.memory.try_record(at)?;
            (record.table == table && record.key.is_equal(key)).then_some(record.expires)
        })?
    }

    /// Appends an object to a stream's head and makes the index lead from its key to it.
    ///
    /// `replaces` is the object or tombstone that `lookup` found for this key in the same turn. Its version must be
    /// lower. The new object names the segment of an object that it replaces. `result` goes into the group.
    pub fn write(
        &mut self,
        stream: StreamId,
        purpose: Purpose,
        hash: KeyHash,
        object: &Object<'_>,
        replaces: Option<Reference>,
        result: Option<&RpcResult>,
    ) -> Result<Written, AppendRefusal> {
        let head = self.head(stream).ok_or(AppendRefusal::HeadFull)?;
        let dead = replaces.map(|at| self.dead(at));
        if let Some(dead) = &dead {
            assert!(dead.version < object.version, "a key's version only grows");
            assert!(self.memory.segments.at(dead.slot).stream == stream, "a key stays in one stream");
        }
        let group = group(object, dead.as_ref());
        self.put_object(head, self.floor(purpose), hash, &group, dead.as_ref(), result)
    }

    /// Appends the tombstone of the object at `at`, which `lookup` found for this key in the same turn, and takes the
    /// key out of the index. Raises the safe version above the version of the remove. May use the reserve, except the
    /// part that is only for cleaning.
    pub fn remove(
        &mut self,
        stream: StreamId,
        hash: KeyHash,
        removal: &Removal<'_>,
        at: Reference,
        result: Option<&RpcResult>,
    ) -> Result<Written, AppendRefusal> {
        let head = self.head(stream).ok_or(AppendRefusal::HeadFull)?;
        let dead = self.dead(at);
        assert!(dead.kind == Kind::Object);
        assert!(dead.version < removal.version, "a key's version only grows");
        assert!(self.memory.segments.at(dead.slot).stream == stream, "a key stays in one stream");
        let Removal { table, key, version, time } = *removal;
        let tombstone = Tombstone { table, version, time, segments: dead.names(), key };
        let bytes = tombstone.entry_bytes() + result.map_or(0, RpcResult::entry_bytes);
        self.admit(head, bytes, self.floor(Purpose::Freeing))?;
        if let Some(result) = result {
            self.append_result(head, result);
        }
        Ok(self.append_removal(head, hash, &tombstone, &dead))
    }

    /// Appends the value of the object at `at`, which `lookup` found in the same turn, to `out`.
    pub fn read_value(&self, at: Reference, out: &mut Vec<u8>) {
        let record = self.memory.record(at);
        assert!(record.kind == Kind::Object);
        record.value.append_to(out);
    }

    /// The table and key of the record at `at`, which was handed out in the same turn.
    pub fn key_of(&self, at: Reference) -> (TableId, Vec<u8>) {
        let record = self.memory.record(at);
        (record.table, record.key.to_vec())
    }

    /// The segment of the entry at `at`, which was handed out in the same turn, and its offset.
    pub fn place_of(&self, at: Reference) -> (SegmentId, u32) {
        let (slot, offset) = self.memory.locate(at);
        (self.memory.segments.at(slot).id, offset)
    }

    /// The version from which new keys start: above every version whose key has left the index.
    pub fn safe_version(&self) -> Version {
        self.safe_version
    }

    pub fn raise_safe_version(&mut self, at_least: Version) {
        self.safe_version = self.safe_version.max(at_least);
    }

    /// Counts the live objects of a range from now on; the index must hold none of its keys yet.
    pub fn track(&mut self, range: HashRange) {
        self.counters.track(range);
    }

    /// Stops counting a range. Exactly this range must be tracked.
    pub fn untrack(&mut self, range: HashRange) {
        self.counters.untrack(range);
    }

    /// The counts of all tracked ranges, in the order of tables and hashes.
    pub fn stats(&self) -> impl Iterator<Item = TabletStat> {
        self.counters.iter()
    }

    /// The number of objects of a range, if exactly this range is tracked. Lost objects go on being counted.
    pub fn object_count(&self, range: HashRange) -> Option<u64> {
        self.counters.records(range)
    }

    /// The counts of all tracked ranges, found by a walk over the whole index. Memory must not be damaged.
    pub fn count_anew(&self, hash_of: HashOf<'_>) -> Vec<TabletStat> {
        let mut counters = self.counters.emptied();
        self.objects_anew(hash_of).for_each(|object| counters.add(&object, self.next_segment_id()));
        counters.iter().collect()
    }

    /// Panics when the profiles of large tables differ from the result of a walk over the whole index. Memory must not
    /// be damaged, and nothing may have been lost.
    pub fn check_profiles(&self, hash_of: HashOf<'_>) {
        self.counters.profiles.check(self.objects_anew(hash_of));
    }

    fn objects_anew(&self, hash_of: HashOf<'_>) -> impl Iterator<Item = Counted> {
        let mut entries = Vec::new();
        (0..self.index.bucket_count()).for_each(|bucket| self.index.entries_of(bucket, &mut entries));
        entries.into_iter().filter(|(what, _)| *what == What::Object).map(move |(_, at)| {
            let record = self.memory.record(at);
            let hash = hash_of(record.table, &record.key.to_vec());
            let segment = self.memory.segment_of(at).id;
            Counted { table: record.table, hash, bytes: record.entry_bytes, segment }
        })
    }

    pub fn usage(&self) -> Usage {
        Usage {
            log_bytes: self.config.log_bytes,
            free_bytes: u64::from(self.memory.free_count()) * u64::from(self.config.geometry.seglet_bytes),
            reserve_bytes: self.config.reserve_bytes,
            index_bytes: self.index.bytes(),
            index_entry_count: self.index.entry_count(),
        }
    }

    /// Tells the index that `count` more keys are expected to be taken in (`take_in`). The index grows ahead of them,
    /// by some buckets with each batch, as far as its memory allows. `shrink_index` takes back buckets that were not
    /// needed.
    pub fn expect_keys(&mut self, count: u64) {
        let expected = if count > 0 { self.index.entry_count() + count } else { 0 };
        self.index.expect(expected);
    }

    /// Makes room in the index for `count` more keys, at once.
    pub fn make_index_ready(&mut self, count: u64) {
        self.index.grow_for(self.index.entry_count() + count);
    }

    /// Takes at most `step_count` of the steps that shrink the index to its proper size. False if no steps are left.
    pub fn shrink_index(&mut self, step_count: u64) -> bool {
        self.index.shrink(step_count)
    }

    /// Entries of the index: keys that have an object, and tombstones in replay.
    pub fn key_count(&self) -> u64 {
        self.index.entry_count()
    }

    pub fn index_bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// All segments in memory that are found by their ids: heads, closed segments, side logs. The order has no meaning.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.memory.segments.iter().filter(|segment| !segment.is_image)
    }

    /// The record of a segment. `None` if it is not in memory.
    pub fn segment(&self, id: SegmentId) -> Option<&SegmentInfo> {
        self.memory.segments.slot(id).map(|slot| self.memory.segments.at(slot))
    }

    /// Bytes `from..to` of a segment that is in memory, which must lie within its length.
    pub fn segment_pieces(&self, id: SegmentId, from: u32, to: u32) -> Pieces<'_> {
        let slot = self.memory.segments.slot(id).expect("only segments in memory are read");
        self.memory.pieces(slot, from, to)
    }

    /// Appends bytes `from..to` of a segment to `out`, as `segment_pieces` returns them.
    pub fn copy_segment(&self, id: SegmentId, from: u32, to: u32, out: &mut Vec<u8>) {
        self.segment_pieces(id, from, to).append_to(out);
    }

    /// The bytes, among the next `ahead` bytes of never used memory, for which the system has not found memory yet.
    pub fn untouched_bytes(&self, ahead: u64) -> u64 {
        self.memory.untouched_bytes(ahead)
    }

    /// Makes the system find memory for the next `bytes` of these.
    pub fn touch_ahead(&mut self, bytes: u64) {
        self.memory.touch_ahead(bytes);
    }

    /// Panics when an invariant does not hold, or memory is damaged. Walks over the whole index and log.
    pub fn check_invariants(&self) {
        self.memory.check_invariants();
        self.index.check_invariants();
        let mut seen = BTreeMap::<Slot, (u32, u32)>::new();
        let mut object_counts = BTreeMap::<Slot, u32>::new();
        let mut entries = Vec::new();
        (0..self.index.bucket_count()).for_each(|bucket| self.index.entries_of(bucket, &mut entries));
        for (what, at) in entries {
            let record = self.memory.record(at);
            assert_eq!(what == What::Object, record.kind != Kind::Tombstone);
            let (slot, _) = self.memory.locate(at);
            let (object_bytes, count) = seen.entry(slot).or_default();
            *count += 1;
            if what == What::Object {
                *object_bytes += record.entry_bytes;
                *object_counts.entry(slot).or_default() += 1;
            }
        }
        for (slot, segment) in self.memory.segments.iter_slots() {
            let (object_bytes, count) = seen.get(&slot).copied().unwrap_or_default();
            assert_eq!(segment.live_bytes - segment.tombstone_bytes - segment.result_bytes, object_bytes);
            assert_eq!(segment.indexed_count, count);
            let pieces = self.memory.pieces(slot, 0, segment.len_bytes);
            let crc = pieces.into_iter().fold(0, ramhold_base::checksum::crc_append);
            assert_eq!(segment.crc, crc);
        }
        for (slot, count) in self.check_results() {
            *object_counts.entry(slot).or_default() += count;
        }
        self.check_tombstones(&object_counts);
        self.check_streams();
        self.check_ends();
    }

    #[inline]
    pub(crate) fn place(&self, table: TableId, hash: KeyHash) -> u64 {
        index_hash(self.config.index_secret, table, hash)
    }

    pub(crate) fn index_secret(&self) -> u64 {
        self.config.index_secret
    }

    pub(crate) fn floor(&self, purpose: Purpose) -> Floor {
        match purpose {
            Purpose::Ordinary => self.reserve,
            // The middle between the floors of removes and of ordinary writes.
            Purpose::Recovery => Floor(self.cleaning_reserve.0.midpoint(self.reserve.0)),
            Purpose::Freeing => self.cleaning_reserve,
            Purpose::Cleaning => Floor(self.roll_seglets()),
        }
    }

    pub(crate) fn dead(&self, at: Reference) -> Dead {
        let record = self.memory.record(at);
        let (slot, _) = self.memory.locate(at);
        let segment = self.memory.segments.at(slot).id;
        let older = if record.has_older {
            self.memory.older(at).keep(|segment| self.counts(segment))
        } else {
            OlderList::NONE
        };
        Dead {
            at,
            slot,
            segment,
            kind: record.kind,
            version: record.version,
            entry_bytes: record.entry_bytes,
            older,
        }
    }

    /// Makes room for a group, or refuses it. New data is refused as soon as free memory is below its floor. All other
    /// groups may fill the seglets that their segment has, however little is free.
    pub(crate) fn admit(&mut self, slot: Slot, bytes: usize, floor: Floor) -> Result<(), AppendRefusal> {
        let is_full = floor == self.reserve && self.memory.free_count() < floor.0;
        match u32::try_from(bytes) {
            Ok(bytes) if bytes <= self.group_bytes_max() && is_full => Err(AppendRefusal::OutOfMemory),
            Ok(bytes) if bytes <= self.group_bytes_max() => self.memory.reserve(slot, bytes, floor),
            _ => Err(AppendRefusal::TooLarge),
        }
    }

    /// Appends an object, after the result and the tombstone of its group if there are any, and makes the index lead
    /// from its key to it.
    pub(crate) fn put_object(
        &mut self,
        slot: Slot,
        floor: Floor,
        hash: KeyHash,
        group: &Group<'_>,
        dead: Option<&Dead>,
        result: Option<&RpcResult>,
    ) -> Result<Written, AppendRefusal> {
        let place = self.place(group.table, hash);
        if dead.is_none() {
            self.index.prepare(place).map_err(|_| AppendRefusal::OutOfMemory)?;
        }
        self.admit(slot, group.bytes() + result.map_or(0, RpcResult::entry_bytes), floor)?;

        // From here on nothing can fail.
        if let Some(result) = result {
            self.append_result(slot, result);
        }
        let written = self.append_object(slot, hash, group, dead);
        if dead.is_none() {
            self.index.insert(place, What::Object, written.at);
            self.note_new_key(group.table, hash);
        }
        Ok(written)
    }

    /// Appends an object, for which there is room, after the tombstone of its group if there is one. If the index led
    /// from the key to another entry before, it now leads to the new object.
    pub(crate) fn append_object(
        &mut self,
        slot: Slot,
        hash: KeyHash,
        group: &Group<'_>,
        dead: Option<&Dead>,
    ) -> Written {
        let table = group.table;
        let place = self.place(table, hash);
        let object_bytes = group.entry.entry_bytes() as u32;
        if let Entry::Object(Object { expires: Some(end), .. }, _) = &group.entry {
            self.may_expire = true;
            self.index.lower_end(place, *end);
        }
        if let Some(tombstone) = &group.tombstone {
            self.append_tombstone(slot, tombstone);
        }
        let offset = self.memory.append(slot, &group.entry);
        let at = self.memory.reference(slot, offset);
        let segment = self.memory.segments.at_mut(slot);
        segment.live_bytes += object_bytes;
        segment.live_count += 1;
        segment.indexed_count += 1;
        let position = Position { segment: segment.id, offset: segment.len_bytes };
        let object = Counted { table, hash, bytes: object_bytes, segment: segment.id };
        if let Some(dead) = dead {
            self.index.replace(place, dead.at, What::Object, at);
            self.bury(table, hash, dead);
        }
        self.counters.add(&object, self.segment_last.next());
        self.forgive(place);
        Written { at, position }
    }

    /// Appends the tombstone of an object, for which there is room, and takes its key out of the index.
    pub(crate) fn append_removal(
        &mut self,
        slot: Slot,
        hash: KeyHash,
        tombstone: &Tombstone<'_>,
        dead: &Dead,
    ) -> Written {
        let written = self.append_tombstone(slot, tombstone);
        let place = self.place(tombstone.table, hash);
        self.index.remove(place, dead.at);
        self.forgive(place);
        self.bury(tombstone.table, hash, dead);
        if !planted(Defect::SafeVersionNotRaised) {
            self.raise_safe_version(tombstone.version.next());
        }
        written
    }

    /// Appends a tombstone for which there is room. One that names no segment is dead from the start.
    pub(crate) fn append_tombstone(&mut self, slot: Slot, tombstone: &Tombstone<'_>) -> Written {
        let offset = self.memory.append(slot, &Entry::Tombstone(*tombstone));
        self.count_tombstone(slot, tombstone);
        let segment = self.memory.segments.at(slot);
        let position = Position { segment: segment.id, offset: segment.len_bytes };
        Written { at: self.memory.reference(slot, offset), position }
    }

    /// Takes an entry that has left the index off the counts.
    pub(crate) fn bury(&mut self, table: TableId, hash: KeyHash, dead: &Dead) {
        if dead.kind == Kind::Tombstone {
            self.forget_tombstone(dead.slot);
            return;
        }
        let segment = self.memory.segments.at_mut(dead.slot);
        segment.indexed_count -= 1;
        segment.live_bytes -= dead.entry_bytes;
        segment.live_count -= 1;
        self.counters.take_off(&Counted { table, hash, bytes: dead.entry_bytes, segment: dead.segment });
    }
}

impl Dead {
    /// The segments that hold the version of an object or older versions of its key. None for a tombstone, because the
    /// tombstone stays needed for the segments that it names.
    pub(crate) fn names(&self) -> OlderList {
        match self.kind {
            Kind::Object => {
                self.older.with(self.segment).expect("an object names one segment less than fits")
            }
            _ => OlderList::NONE,
        }
    }
}

/// The group to append for `object` when it replaces `dead`.
#[inline]
pub(crate) fn group<'a>(object: &Object<'a>, dead: Option<&Dead>) -> Group<'a> {
    let Object { table, time, key, .. } = *object;
    let older = dead.filter(|_| !planted(Defect::OlderNotNamed)).map_or(OlderList::NONE, Dead::names);
    let Some(dead) = dead.filter(|_| older.count() > OBJECT_OLDER_COUNT_MAX) else {
        return Group { table, entry: Entry::Object(*object, older), tombstone: None };
    };
    // The replaced object itself needs no tombstone: recovery prefers the new object, which names the segment of the
    // replaced one.
    let tombstone = Tombstone { table, version: dead.version, time, segments: dead.older, key };
    let older = OlderList::from_iter([dead.segment]);
    Group { table, entry: Entry::Object(*object, older), tombstone: Some(tombstone) }
}
