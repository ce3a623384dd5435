//! What stands in a segment, as far as a backup looks: its opening, and which record belongs to which partition.
//!
//! The only place of this crate that knows the log's entries.
//!
//! Catalogue: F2, F4, F9.

use crate::replica::ReplicaKey;
use ramhold_base::hash::{Placement, PlacementHasher};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, Status, TableId};
use ramhold_log::{Entry, EntryReader, opening};
use ramhold_wire::recovery::{Opening, PartitionRange, TabletStat};
use std::collections::BTreeMap;

/// What was found at the start of a segment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SegmentStart {
    /// The header names this segment; the opening is there when the segment is of the head order.
    Sound(Option<Opening>),
    /// The header names another segment: these are somebody else's bytes.
    Foreign,
}

/// Reads the opening of a segment whose bytes hold as a whole.
pub(crate) fn segment_start(bytes: &[u8], key: &ReplicaKey) -> SegmentStart {
    let Some(found) = opening::parse(bytes) else { return SegmentStart::Sound(None) };
    let header = found.header;
    if (header.log, header.stream, header.segment) != (key.log, key.stream, key.segment) {
        return SegmentStart::Foreign;
    }
    let stats = found.stats.iter().map(|stat| TabletStat {
        table: stat.table,
        first: stat.first,
        last: stat.last,
        bytes: stat.bytes,
        records: stat.records,
    });
    let stats = stats.collect();
    let whole = found.digest.zip(found.safe_version);
    SegmentStart::Sound(whole.map(|(digest, safe_version)| Opening { digest, safe_version, stats }))
}

/// The ranges of one table that concern one segment.
struct TableRanges {
    placement: Placement,
    hasher: PlacementHasher,
    /// By first hash: last hash, partition.
    ranges: BTreeMap<KeyHash, (KeyHash, u32)>,
}

/// The ranges that concern one segment, for looking up a record's partition.
pub(crate) struct Division {
    tables: BTreeMap<TableId, TableRanges>,
    partitions: Vec<u32>,
}

impl Division {
    /// `BadRequest`: ranges overlap, end before they begin, or hash one table in two ways.
    pub fn new(key: &ReplicaKey, ranges: &[PartitionRange]) -> Result<Division, Status> {
        let mut tables: BTreeMap<TableId, TableRanges> = BTreeMap::new();
        let concerned = ranges.iter().filter(|range| {
            range.shard == key.log.shard
                && range.stream == key.stream
                && (range.first_segment <= key.segment || planted(Defect::FirstSegmentIgnored))
        });
        let mut partitions = Vec::new();
        for range in concerned {
            let table = tables.entry(range.table).or_insert_with(|| TableRanges {
                placement: range.placement(),
                hasher: PlacementHasher::new(range.placement()),
                ranges: BTreeMap::new(),
            });
            let before = table.ranges.range(..=range.last).next_back();
            let overlaps = before.is_some_and(|(_, (last, _))| *last >= range.first);
            if overlaps || range.first > range.last || table.placement != range.placement() {
                return Err(Status::BadRequest);
            }
            table.ranges.insert(range.first, (range.last, range.partition));
            partitions.push(range.partition);
        }
        Ok(Division { tables, partitions })
    }

    fn partition(&self, table: TableId, key: &[u8]) -> Option<u32> {
        self.partition_of(table, self.tables.get(&table)?.hasher.hash(key))
    }

    fn partition_of(&self, table: TableId, hash: KeyHash) -> Option<u32> {
        let table = self.tables.get(&table)?;
        let (_, (last, partition)) = table.ranges.range(..=hash).next_back()?;
        (hash <= *last).then_some(*partition)
    }

    /// Sorts the records of a segment's bytes. `CorruptReplica`: an entry does not hold.
    pub fn sort(&self, bytes: &[u8]) -> Result<BTreeMap<u32, Vec<u8>>, Status> {
        let mut sorted: BTreeMap<u32, Vec<u8>> = self.partitions.iter().map(|p| (*p, Vec::new())).collect();
        let mut is_behind_object = false;
        for entry in EntryReader::new(bytes) {
            let (offset, entry) = entry.map_err(|_| Status::CorruptReplica)?;
            let is_second = std::mem::replace(&mut is_behind_object, matches!(entry, Entry::Object(..)));
            let partition = match entry {
                Entry::Object(..) if is_second && planted(Defect::CommitSecondNotDivided) => None,
                Entry::Object(object, _) => self.partition(object.table, object.key),
                Entry::Tombstone(tombstone) => self.partition(tombstone.table, tombstone.key),
                Entry::RpcResult(_) if planted(Defect::ResultNotDivided) => None,
                Entry::RpcResult(result) => self.partition_of(result.table, result.hash),
                Entry::SegmentHeader(_)
                | Entry::Digest(_)
                | Entry::SafeVersion(_)
                | Entry::TabletStats(_) => None,
            };
            if let Some(records) = partition.and_then(|partition| sorted.get_mut(&partition)) {
                records.extend_from_slice(&bytes[offset..offset + entry.entry_bytes()]);
            }
        }
        Ok(sorted)
    }
}
