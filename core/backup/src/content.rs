//! The parts of a segment's contents that a backup reads: its opening, and the partition of each record.
//!
//! No other module of this crate knows the log's entries.
//!
//! Catalogue: F2, F4, F9.

use crate::keys::ReplicaKey;
use ramhold_base::Status;
use ramhold_base::planted::{Defect, planted};
use ramhold_log::{EntryReader, HashRange, NotEntries, Ranges, divide, opening};
use ramhold_wire::recovery::{Opening, PartitionRange, TabletStat};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The start of a segment, as found.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SegmentStart {
    /// The header names this segment. A segment of the head order has an opening.
    Sound(Option<Opening>),
    /// The header names another segment, so the bytes are not those of this replica.
    Foreign,
}

/// Reads the opening of a segment whose certificate has been verified.
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

/// Whether bytes end within an entry.
pub(crate) fn is_cut(bytes: &[u8]) -> bool {
    EntryReader::new(bytes).any(|entry| entry.is_err())
}

/// Whether ranges are sound: none overlap, none ends before it begins, and each table has one placement hash.
pub(crate) fn are_sound(ranges: &[PartitionRange]) -> bool {
    let placed = ranges.iter().map(|range| {
        let PartitionRange { table, first, last, .. } = *range;
        (HashRange { table, first, last }, range.placement(), ())
    });
    Ranges::new(placed).is_some()
}

/// A partition's share of `bytes` bytes of a segment, with some room.
pub(crate) fn share_of(bytes: usize, partitions: usize) -> usize {
    let share = bytes / partitions.max(1);
    share + share / 8
}

/// The ranges that concern one segment, by which each record's partition is found.
pub(crate) struct Division {
    /// From a range to the index of its partition in `partitions`.
    ranges: Ranges<usize>,
    /// Sorted.
    partitions: Vec<u32>,
}

impl Division {
    /// `BadRequest` if ranges overlap, a range ends before it begins, or one table has two placement hashes.
    pub fn new(key: &ReplicaKey, ranges: &[PartitionRange]) -> Result<Division, Status> {
        let is_concerned = |range: &&PartitionRange| {
            range.shard == key.log.shard
                && range.stream == key.stream
                && (range.first_segment <= key.segment || planted(Defect::FirstSegmentIgnored))
        };
        let concerned = || ranges.iter().filter(is_concerned);
        let mut partitions: Vec<u32> = concerned().map(|range| range.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let placed = concerned().map(|range| {
            let PartitionRange { table, first, last, partition, .. } = *range;
            let place = partitions.binary_search(&partition).expect("collected just now");
            (HashRange { table, first, last }, range.placement(), place)
        });
        let ranges = Ranges::new(placed).ok_or(Status::BadRequest)?;
        Ok(Division { ranges, partitions })
    }

    /// Collects each partition's records from a segment's bytes. `memory` provides the memory, and is given the
    /// expected number of bytes. Records are copied right after they are verified, while they are still in the cache.
    /// `CorruptReplica` if an entry is damaged.
    pub fn sort(
        &self,
        bytes: &[u8],
        mut memory: impl FnMut(usize) -> Vec<u8>,
    ) -> Result<BTreeMap<u32, Arc<Vec<u8>>>, Status> {
        // Partitions are cut to have equal shares. A larger share makes its memory grow.
        let share = share_of(bytes.len(), self.partitions.len());
        let mut records: Vec<Vec<u8>> = self.partitions.iter().map(|_| memory(share)).collect();
        let take = |place: usize, run: Range<usize>| records[place].extend_from_slice(&bytes[run]);
        divide(bytes, &self.ranges, &mut 0, usize::MAX, take).map_err(|NotEntries| Status::CorruptReplica)?;
        Ok(self.partitions.iter().copied().zip(records.into_iter().map(Arc::new)).collect())
    }
}
