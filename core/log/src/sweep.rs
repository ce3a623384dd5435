//! Walks over the index in bounded steps, so that taking out many keys never stops the shard.
//!
//! A step visits some buckets and returns where the next step goes on. Between steps the shard reads and writes as
//! usual. Every entry that a walk must find was in the index when the walk began, and no walk misses it, even if it
//! moves between steps.
//!
//! Each step reads those entries from the log that it may have to take out. To drop a range it reads all entries. The
//! other walks read entries of their side log alone.

use crate::index::Cursor;
use crate::index::bucket::What;
use crate::log::{Dead, Log};
use crate::segment::Slot;
use crate::{HashRange, Kind, Reference, SideId};
use ramhold_base::{KeyHash, TableId};
use std::ops::ControlFlow;

impl Log {
    /// Takes the keys of a range out of the index, `bucket_count` buckets at a time, and raises the safe version above
    /// theirs. No tombstones are written: the caller knows by other means that the entries of the range are dead.
    ///
    /// Begin with the default cursor, and go on with the returned one until that is `None`. Until then the range must
    /// not be taken again. `hash_of` is the table's placement hash. `Err` names a damaged entry, which may be in the
    /// range: call again with the same cursor when the entry is repaired.
    pub fn drop_range_step(
        &mut self,
        range: HashRange,
        cursor: Cursor,
        bucket_count: u64,
        hash_of: &dyn Fn(&[u8]) -> KeyHash,
    ) -> Result<Option<Cursor>, Reference> {
        let mut damaged = None;
        let next = self.sweep(cursor, bucket_count, |log, bucket, _, at| {
            let Some(record) = log.memory.intact_record(at) else {
                damaged = Some(at);
                return ControlFlow::Continue(());
            };
            if record.table != range.table {
                return ControlFlow::Continue(());
            }
            let hash = match record.key.contiguous() {
                Some(key) => hash_of(key),
                None => hash_of(&record.key.to_vec()),
            };
            if range.contains(range.table, hash) {
                let dead = log.dead(at);
                log.take_out(bucket, range.table, hash, dead);
                // In the log of a brick the safe version is the bound of what was forgotten.
                if dead.kind != Kind::QuorumRecord {
                    log.raise_safe_version(dead.version.next());
                }
            }
            ControlFlow::Continue(())
        });
        damaged.map_or(Ok(next), Err)
    }

    /// Takes the tombstones that the replay into a side log has left in the index out of it, `bucket_count` buckets at
    /// a time.
    ///
    /// Begin with the default cursor when everything is replayed, and go on with the returned one until that is `None`.
    pub fn finish_replay_step(&mut self, side: SideId, cursor: Cursor, bucket_count: u64) -> Option<Cursor> {
        if self.side(side).tombstone_count == 0 {
            return None;
        }
        self.sweep(cursor, bucket_count, |log, bucket, what, at| {
            if what == What::Tombstone && log.memory.segment_of(at).side == Some(side) {
                let (slot, _) = log.memory.locate(at);
                log.index.remove_from(bucket, at);
                log.forget_tombstone(slot);
            }
            if log.side(side).tombstone_count == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    /// Takes every reference into a side log out of the index, `bucket_count` buckets at a time, and finally frees the
    /// segments of the side log. A key whose entry was replaced by one in the side log is then gone: a side log that is
    /// replayed into must be the only one that holds its keys.
    ///
    /// Begin with the default cursor, and go on with the returned one until that is `None`. Nothing more goes into the
    /// side log. `hash_of` is the placement hash of a table's key.
    pub fn abandon_side_step(
        &mut self,
        side: SideId,
        cursor: Cursor,
        bucket_count: u64,
        hash_of: &dyn Fn(TableId, &[u8]) -> KeyHash,
    ) -> Option<Cursor> {
        self.close_side(side);
        let next = if self.side_indexed_count(side) == 0 {
            None
        } else {
            self.sweep(cursor, bucket_count, |log, bucket, _, at| {
                let (slot, _) = log.memory.locate(at);
                if log.memory.segments.at(slot).side != Some(side) {
                    return ControlFlow::Continue(());
                }
                match log.memory.intact_record(at) {
                    Some(record) => {
                        let (table, hash) = (record.table, hash_of(record.table, &record.key.to_vec()));
                        let dead = log.dead(at);
                        log.take_out(bucket, table, hash, dead);
                    }
                    // A damaged entry goes with its segment. Its part of the counts goes with its range.
                    None => {
                        log.index.remove_from(bucket, at);
                        log.memory.segments.at_mut(slot).indexed_count -= 1;
                        log.counters.profiles.end_all();
                    }
                }
                ControlFlow::Continue(())
            })
        };
        if next.is_none() {
            self.forget_results_of_side(side);
            self.free_side(side);
        }
        next
    }

    /// Takes a replayed tombstone that has left the index off the counts.
    pub(crate) fn forget_tombstone(&mut self, slot: Slot) {
        let segment = self.memory.segments.at_mut(slot);
        segment.indexed_count -= 1;
        let side = segment.side.expect("tombstones leave the index before their side log is entered");
        self.sides.get_mut(&side).expect("an entered segment knows no side").tombstone_count -= 1;
    }

    /// Shows `visit` every reference of some buckets. `visit` may take the entry that it is shown out of the index.
    pub(crate) fn sweep(
        &mut self,
        cursor: Cursor,
        bucket_count: u64,
        mut visit: impl FnMut(&mut Log, u64, What, Reference) -> ControlFlow<()>,
    ) -> Option<Cursor> {
        let (buckets, next) = self.index.advance(cursor, bucket_count);
        let mut entries = Vec::new();
        for bucket in buckets {
            self.index.entries_of(bucket, &mut entries);
            for (what, at) in entries.drain(..) {
                if visit(self, bucket, what, at).is_break() {
                    return None;
                }
            }
        }
        next
    }

    fn take_out(&mut self, bucket: u64, table: TableId, hash: KeyHash, dead: Dead) {
        self.index.remove_from(bucket, dead.at);
        self.bury(table, hash, &dead);
    }

    fn side_indexed_count(&self, side: SideId) -> u64 {
        let segments = self.side_segments(side).filter_map(|id| self.segment(id));
        segments.map(|segment| u64::from(segment.indexed_count)).sum()
    }
}
