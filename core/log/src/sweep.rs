//! Walks over the index in bounded steps: what takes many keys out at once never stops the shard.
//!
//! A step visits some buckets and tells where the next one goes on. Between steps the shard reads and writes as it
//! likes; what a walk must find was in the index when it began, and whatever moves meanwhile, no walk misses it.
//!
//! Each step reads the log for the entries that might be concerned: for a dropped range all of them, for the others
//! those of the side log alone.

use crate::index::Cursor;
use crate::index::bucket::What;
use crate::log::{Dead, Log};
use crate::segment::Slot;
use crate::{HashRange, Reference, SideId};
use ramhold_base::{KeyHash, TableId};
use std::ops::ControlFlow;

impl Log {
    /// Takes the keys of a range out of the index, `bucket_count` buckets at a time, and raises the safe version above
    /// theirs. No tombstones are written: who drops a range knows by other means that its entries are dead.
    ///
    /// Begin with the default cursor; go on with what is returned until it is `None`. Until then the range must not be
    /// taken again. `hash_of` is the table's placement hash. Of a damaged entry nobody can tell whether it is in the
    /// range: the same cursor again is for when it is repaired.
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
                log.raise_safe_version(dead.version.next());
            }
            ControlFlow::Continue(())
        });
        damaged.map_or(Ok(next), Err)
    }

    /// Takes the tombstones that a side log's replay has left in the index out of it, `bucket_count` buckets at a time.
    ///
    /// Begin with the default cursor when everything is replayed; go on with what is returned until it is `None`.
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

    /// Takes everything that leads into a side log out of the index, `bucket_count` buckets at a time, and at last
    /// frees its segments. Keys whose entries it had replaced are gone with it: a side log that is replayed into must
    /// be the only one that holds its keys.
    ///
    /// Begin with the default cursor; go on with what is returned until it is `None`. Nothing more goes into the side
    /// log. `hash_of` is the placement hash of a table's key.
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
                    // Damaged: it goes with its segment, and what it counted for with its range.
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

    /// Counts one replayed tombstone less, which has left the index.
    pub(crate) fn forget_tombstone(&mut self, slot: Slot) {
        let segment = self.memory.segments.at_mut(slot);
        segment.indexed_count -= 1;
        let side = segment.side.expect("tombstones leave the index before their side log is entered");
        self.sides.get_mut(&side).expect("an entered segment knows no side").tombstone_count -= 1;
    }

    /// Shows `visit` every reference of some buckets. It may take the entry that it is shown out of the index.
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
