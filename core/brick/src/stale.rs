//! Segments that may hold records of tablets which this brick does not have any more.
//!
//! A tablet that is given up leaves the index, but its records stay in their segments until these are cleaned. Should the
//! tablet come back, a later start would find them there, and take an old value for the newest: others may have let its
//! tombstone go. So the segments leave the log before the tablet votes (`rebuild`).
//!
//! They are not stored: a start finds them as it reads its log.
//!
//! Not here: the index (`dropping`). Catalogue: I6.

use ramhold_base::{SegmentId, StreamId, TableId};
use ramhold_log::Log;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Stale {
    of_table: BTreeMap<TableId, BTreeSet<SegmentId>>,
}

impl Stale {
    /// A start has found records of a table's tablet that is not here.
    pub fn found(&mut self, table: TableId, segment: SegmentId) {
        self.of_table.entry(table).or_default().insert(segment);
    }

    /// All keys of a tablet have left the index: its records are in the segments of now.
    pub fn left(&mut self, table: TableId, stream: StreamId, log: &Log) {
        self.of_table.retain(|_, segments| {
            segments.retain(|segment| log.segment(*segment).is_some());
            !segments.is_empty()
        });
        let segments = log.segments().filter(|segment| segment.stream == stream);
        self.of_table.entry(table).or_default().extend(segments.map(|segment| segment.id));
    }

    /// The segments of a table that are still there.
    pub fn of(&mut self, table: TableId, log: &Log) -> BTreeSet<SegmentId> {
        let Some(segments) = self.of_table.get_mut(&table) else { return BTreeSet::new() };
        segments.retain(|segment| log.segment(*segment).is_some());
        segments.clone()
    }
}
