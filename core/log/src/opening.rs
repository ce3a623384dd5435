//! The entries that a segment starts with, and their information about its stream.
//!
//! Every segment starts with its header. In a head, the digest of its stream, the shard's safe version, in the log of a
//! brick summaries of the digest's segments, and the statistics of tablets follow, in this order; a side segment has none
//! of them. A backup reads the opening of a
//! replica to answer a coordinator that proves a log complete.
//!
//! Catalogue: D9, F2, F3.

use crate::entry::{
    Digest, SegmentHeader, Summaries, Summary, TabletStat, TabletStats, encode_segments, encode_stats,
    encode_summaries,
};
use crate::{Entry, EntryReader};
use ramhold_base::{SegmentId, Version};

/// The first entries of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    pub header: SegmentHeader,
    /// The segments of the stream, rising; `None` in a side segment.
    pub digest: Option<Vec<SegmentId>>,
    pub safe_version: Option<Version>,
    /// In the log of a brick: what is known of the segments of the digest, but for the head itself, in its order.
    pub summaries: Vec<Summary>,
    pub stats: Vec<TabletStat>,
}

/// Reads the opening of a segment from its first `bytes`. `None` when they do not start with an intact header. Stops at
/// the first entry that does not belong to an opening, is damaged, or is cut.
pub fn parse(bytes: &[u8]) -> Option<Opening> {
    let mut entries = EntryReader::new(bytes).map_while(|entry| entry.ok().map(|(_, entry)| entry));
    let Entry::SegmentHeader(header) = entries.next()? else { return None };
    let mut opening =
        Opening { header, digest: None, safe_version: None, summaries: Vec::new(), stats: Vec::new() };
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
            Entry::Summaries(summaries) if opening.summaries.is_empty() => {
                opening.summaries = summaries.segments().collect()
            }
            Entry::Digest(_)
            | Entry::SafeVersion(_)
            | Entry::Summaries(_)
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

impl Opening {
    /// The segments that the digest names, with what the head tells of them. The head itself has no summary, and no
    /// segment has one if the head tells none, or not as many as it should.
    pub fn named(&self) -> Option<Vec<(SegmentId, Option<Summary>)>> {
        let digest = self.digest.as_ref()?;
        let is_whole = self.summaries.len() + 1 == digest.len();
        let summary = |at: usize| self.summaries.get(at).copied().filter(|_| is_whole);
        Some(digest.iter().enumerate().map(|(at, segment)| (*segment, summary(at))).collect())
    }
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
    summaries: Vec<u8>,
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
        let (segments, stats) = (encode_segments(segments), encode_stats(stats));
        OpeningLists { header, segments, safe_version, summaries: Vec::new(), stats }
    }

    /// Adds what is known of the segments before the head, in the order of the digest.
    pub(crate) fn with_summaries(self, summaries: impl Iterator<Item = Summary>) -> OpeningLists {
        OpeningLists { summaries: encode_summaries(summaries), ..self }
    }

    /// The entries that a head starts with. The statistics only help recovery to divide the log, and the summaries only
    /// tell a start which segments it must read at first, so they are left out if the opening would be longer than
    /// `bytes_max`. `None` when it would be longer even without them.
    pub(crate) fn entries(&self, bytes_max: usize) -> Option<Vec<Entry<'_>>> {
        let mut entries = vec![
            Entry::SegmentHeader(self.header),
            Entry::Digest(Digest::new(self.header.stream, &self.segments)),
            Entry::SafeVersion(self.safe_version),
        ];
        let mut bytes: usize = entries.iter().map(Entry::entry_bytes).sum();
        let summaries = Entry::Summaries(Summaries::new(&self.summaries));
        if !self.summaries.is_empty() && bytes + summaries.entry_bytes() <= bytes_max {
            bytes += summaries.entry_bytes();
            entries.push(summaries);
        }
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

    // I6
    #[test]
    fn summaries_are_told_of_all_segments_but_the_head_or_of_none() {
        let summary = |stamp_newest| Summary { stamp_newest, entry_count: 3 };
        let bytes_of = |lists: &OpeningLists, bytes_max| {
            let mut bytes = Vec::new();
            lists.entries(bytes_max).unwrap().iter().for_each(|entry| entry.encode(&mut bytes));
            bytes
        };
        let whole = lists(&[STAT]).with_summaries([summary(50), summary(60)].into_iter());
        let opening = parse(&bytes_of(&whole, 4096)).unwrap();
        let named = [(4, Some(summary(50))), (7, Some(summary(60))), (9, None)];
        assert_eq!(opening.named().unwrap(), named.map(|(id, summary)| (SegmentId(id), summary)));
        assert_eq!(opening.stats, [STAT]);
        let unknown = [4, 7, 9].map(|id| (SegmentId(id), None));
        assert_eq!(parse(&bytes_of(&whole, 120)).unwrap().named().unwrap(), unknown, "they do not fit");
        let one_less = lists(&[]).with_summaries([summary(50)].into_iter());
        assert_eq!(parse(&bytes_of(&one_less, 4096)).unwrap().named().unwrap(), unknown);
        assert_eq!(parse(&bytes_of(&lists(&[]), 4096)).unwrap().named().unwrap(), unknown);
    }

    #[test]
    fn statistics_that_do_not_fit_are_left_out() {
        let lists = lists(&[STAT; 100]);
        assert_eq!(lists.entries(4096).unwrap().len(), 4);
        assert_eq!(lists.entries(200).unwrap().len(), 3);
        assert!(lists.entries(80).is_none());
    }
}
