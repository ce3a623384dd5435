//! The entries that a segment starts with, and their information about its stream.
//!
//! Every segment starts with its header. In a head, the digest of its stream, the shard's safe version and the
//! statistics of tablets follow, in this order; a side segment has none of them. A backup reads the opening of a
//! replica to answer a coordinator that proves a log complete.
//!
//! Catalogue: D9, F2, F3.

use crate::entry::{Digest, SegmentHeader, TabletStat, TabletStats, encode_segments, encode_stats};
use crate::{Entry, EntryReader};
use ramhold_base::{SegmentId, Version};

/// The first entries of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    pub header: SegmentHeader,
    /// The segments of the stream, rising; `None` in a side segment.
    pub digest: Option<Vec<SegmentId>>,
    pub safe_version: Option<Version>,
    pub stats: Vec<TabletStat>,
}

/// Reads the opening of a segment from its first `bytes`. `None` when they do not start with an intact header. Stops at
/// the first entry that does not belong to an opening, is damaged, or is cut.
pub fn parse(bytes: &[u8]) -> Option<Opening> {
    let mut entries = EntryReader::new(bytes).map_while(|entry| entry.ok().map(|(_, entry)| entry));
    let Entry::SegmentHeader(header) = entries.next()? else { return None };
    let mut opening = Opening { header, digest: None, safe_version: None, stats: Vec::new() };
    for entry in entries {
        match entry {
            Entry::Digest(digest) if opening.digest.is_none() && digest.stream == header.stream => {
                opening.digest = Some(digest.segments().collect());
            }
            Entry::SafeVersion(version) if opening.safe_version.is_none() => {
                opening.safe_version = Some(version)
            }
            Entry::TabletStats(stats) if opening.stats.is_empty() => {
                opening.stats = stats.tablets().collect()
            }
            Entry::Digest(_)
            | Entry::SafeVersion(_)
            | Entry::TabletStats(_)
            | Entry::SegmentHeader(_)
            | Entry::Object(..)
            | Entry::Tombstone(_)
            | Entry::RpcResult(_)
            | Entry::QuorumRecord(_) => break,
        }
    }
    Some(opening)
}

/// The most bytes that the opening of a head takes.
pub(crate) fn opening_bytes_max(segments: usize, stats: usize) -> usize {
    // Header, digest, safe version and statistics: their fixed parts together are below 128 bytes.
    128 + segments * 8 + stats * crate::entry::STAT_BYTES
}

/// The lists of an opening that is to be written, encoded.
pub(crate) struct OpeningLists {
    header: SegmentHeader,
    segments: Vec<u8>,
    safe_version: Version,
    stats: Vec<u8>,
}

impl OpeningLists {
    /// `segments` are those of the stream, the new head included.
    pub(crate) fn new(
        header: SegmentHeader,
        segments: impl Iterator<Item = SegmentId>,
        safe_version: Version,
        stats: &[TabletStat],
    ) -> OpeningLists {
        OpeningLists { header, segments: encode_segments(segments), safe_version, stats: encode_stats(stats) }
    }

    /// The entries that a head starts with. The statistics only help recovery to divide the log, so they are left out
    /// if the opening would be longer than `bytes_max`. `None` when it would be longer even without them.
    pub(crate) fn entries(&self, bytes_max: usize) -> Option<Vec<Entry<'_>>> {
        let mut entries = vec![
            Entry::SegmentHeader(self.header),
            Entry::Digest(Digest::new(self.header.stream, &self.segments)),
            Entry::SafeVersion(self.safe_version),
        ];
        let bytes: usize = entries.iter().map(Entry::entry_bytes).sum();
        let stats = Entry::TabletStats(TabletStats::new(&self.stats));
        if !self.stats.is_empty() && bytes + stats.entry_bytes() <= bytes_max {
            entries.push(stats);
        }
        (bytes <= bytes_max).then_some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::{ClusterId, ClusterTime, KeyHash, LogId, StreamId, TableId};

    fn lists(stats: &[TabletStat]) -> OpeningLists {
        let header = SegmentHeader {
            cluster: ClusterId(1),
            log: LogId::default(),
            stream: StreamId(2),
            segment: SegmentId(9),
            created: ClusterTime(5),
        };
        OpeningLists::new(header, [4, 7, 9].map(SegmentId).into_iter(), Version(33), stats)
    }

    const STAT: TabletStat =
        TabletStat { table: TableId(1), first: KeyHash(0), last: KeyHash(u64::MAX), bytes: 100, records: 2 };

    // D9
    #[test]
    fn a_head_tells_its_digest_safe_version_and_statistics() {
        let lists = lists(&[STAT]);
        let mut bytes = Vec::new();
        lists.entries(4096).unwrap().iter().for_each(|entry| entry.encode(&mut bytes));
        Entry::SafeVersion(Version(99)).encode(&mut bytes);
        let opening = parse(&bytes).unwrap();
        assert_eq!(opening.header, lists.header);
        assert_eq!(opening.digest, Some([4, 7, 9].map(SegmentId).to_vec()));
        assert_eq!(opening.safe_version, Some(Version(33)), "a later one is not part of the opening");
        assert_eq!(opening.stats, [STAT]);
        let header_bytes = Entry::SegmentHeader(lists.header).entry_bytes();
        assert_eq!(parse(&bytes[..header_bytes + 5]).unwrap().digest, None);
        assert_eq!(parse(&bytes[..header_bytes - 1]), None);
        assert_eq!(parse(&bytes[header_bytes..]), None);
    }

    #[test]
    fn statistics_that_do_not_fit_are_left_out() {
        let lists = lists(&[STAT; 100]);
        assert_eq!(lists.entries(4096).unwrap().len(), 4);
        assert_eq!(lists.entries(200).unwrap().len(), 3);
        assert!(lists.entries(80).is_none());
    }
}
