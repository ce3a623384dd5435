//! Finds objects whose time to live is over.
//!
//! For each bucket the index has a bound: no object in the bucket ends earlier (`index/ends`). When the bound of a
//! bucket is due, the objects of the bucket are read. The expired ones are handed out, and the bound is set to the
//! earliest end of the others. The log itself removes nothing: an object ends with a tombstone, as if a client had
//! removed it (docs/protocols/consistency.md, rule 8).
//!
//! Not here: removing, and the share of time that it may take (master). Catalogue: A12.

use crate::Log;
use crate::index::bucket::What;
use ramhold_base::{ClusterTime, KeyHash, TableId};

/// The key of an expired object.
pub type EndedKey = (TableId, Vec<u8>);

impl Log {
    /// No object ends before this time. `None` if no object ends at all.
    #[inline]
    pub fn first_end(&self) -> Option<ClusterTime> {
        self.index.first_end()
    }

    /// Adds the keys of the expired objects of one bucket. Returns the bytes that were read for that, or `None` if no
    /// bucket can hold an expired object.
    ///
    /// The bucket is not read again because of these objects: remove them, or call `look_again` for each that is still
    /// there. A damaged entry is looked at again at the time `again`, when it may be repaired.
    pub fn find_ended(
        &mut self,
        now: ClusterTime,
        again: ClusterTime,
        found: &mut Vec<EndedKey>,
    ) -> Option<u64> {
        let number = self.index.due(now)?;
        let mut read_bytes = 0;
        let mut entries = Vec::new();
        self.index.entries_of(number, &mut entries);
        let mut bound = None;
        for (_, at) in entries.into_iter().filter(|(what, _)| *what == What::Object) {
            let end = match self.memory.intact_record(at) {
                Some(record) => {
                    read_bytes += u64::from(record.entry_bytes);
                    record.expires
                }
                None => Some(again),
            };
            match end {
                Some(end) if end <= now => {
                    let record = self.memory.record(at);
                    found.push((record.table, record.key.to_vec()));
                }
                Some(end) => bound = Some(bound.map_or(end, |bound: ClusterTime| bound.min(end))),
                None => {}
            }
        }
        self.index.set_end(number, bound);
        Some(read_bytes)
    }

    /// Notes that an object that was handed out as expired is still there. It is handed out again from `again` on.
    pub fn look_again(&mut self, table: TableId, hash: KeyHash, again: ClusterTime) {
        self.index.lower_end(self.place(table, hash), again);
        self.looked_again = self.looked_again.max(again);
    }

    /// The number of objects that ended before this time and are still there. Costs a full walk.
    pub fn count_ended(&self, before: ClusterTime) -> u64 {
        self.ends().filter(|(_, end)| *end < before).count() as u64
    }

    /// Panics when a bucket holds an object that ends before the bucket's bound, unless the bound is not after the
    /// latest time that `look_again` has set. Costs a full walk.
    pub(crate) fn check_ends(&self) {
        for (number, end) in self.ends() {
            let bound = end.max(self.looked_again);
            assert!(self.index.end_of(number) <= bound, "an object would stay for ever");
        }
    }

    /// The ends of all objects that have one and are not damaged, with the numbers of their buckets.
    fn ends(&self) -> impl Iterator<Item = (u64, ClusterTime)> {
        (0..self.index.bucket_count()).flat_map(move |number| {
            let mut entries = Vec::new();
            self.index.entries_of(number, &mut entries);
            let objects = entries.into_iter().filter(|(what, _)| *what == What::Object);
            objects.filter_map(move |(_, at)| Some((number, self.memory.intact_record(at)?.expires?)))
        })
    }
}
