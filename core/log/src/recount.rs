//! Cuts and joins ranges whose objects are counted, so that the counts are right at all times.
//!
//! When ranges are to be cut, their parts are counted anew by a walk over the index in bounded steps. The walk follows
//! the order of positions, and a position depends on the key alone. So for each key it is clear whether the walk has
//! passed it or not, however the index grows and whatever is written meanwhile. If the walk has passed a key, each
//! change of the key is counted. If not, the walk will count the key as it is then. Until the end of the walk the whole
//! ranges are counted as before.
//!
//! Not here: the counters (`stats`), when to walk (master). Rules: docs/protocols/tablets.md, 7. Catalogue: A6, A8.

use crate::index::Cursor;
use crate::index::bucket::What;
use crate::log::Log;
use crate::{HashRange, Reference};
use ramhold_base::{KeyHash, TableId};
use std::ops::ControlFlow;

/// Bytes after which a step ends; only the step's last bucket may exceed them. They take a fraction of a millisecond.
const STEP_BYTES: u64 = 2 * 1024 * 1024;

impl Log {
    /// Begins to count these parts anew. An earlier recount is over. The parts are of one table, and cover the tracked
    /// ranges that they are parts of.
    pub fn begin_recount(&mut self, table: TableId, parts: &[HashRange]) {
        assert!(parts.iter().all(|part| part.table == table), "the parts are of one table");
        let secret = self.index_secret();
        self.counters.begin_recount(table, parts, secret);
    }

    /// Goes on with `bucket_count` buckets, or as many as it takes to verify `STEP_BYTES` of entries. `Ok(true)`: the
    /// parts are counted, and later changes are counted in them. `hash_of` is the table's placement hash. `Err`: this
    /// entry is damaged, and may be in one of the parts; repeat the step when the entry is repaired.
    pub fn recount_step(
        &mut self,
        table: TableId,
        bucket_count: u64,
        hash_of: &dyn Fn(&[u8]) -> KeyHash,
    ) -> Result<bool, Reference> {
        let mut left = STEP_BYTES;
        for _ in 0..bucket_count {
            let (is_over, bytes) = self.recount_bucket(table, hash_of)?;
            if is_over || bytes >= left {
                return Ok(is_over);
            }
            left -= bytes;
        }
        Ok(false)
    }

    /// Counts the next bucket. Returns whether it was the last one, and the bytes of its entries.
    fn recount_bucket(
        &mut self,
        table: TableId,
        hash_of: &dyn Fn(&[u8]) -> KeyHash,
    ) -> Result<(bool, u64), Reference> {
        let from = self.counters.recounted().expect("a recount has begun");
        let (mut damaged, mut bytes) = (None, 0);
        let mut met = Vec::new();
        let next = self.sweep(Cursor::at(from), 1, |log, _, what, at| {
            if what != What::Object {
                return ControlFlow::Continue(());
            }
            let Some(record) = log.memory.intact_record(at) else {
                damaged = Some(at);
                return ControlFlow::Continue(());
            };
            bytes += u64::from(record.entry_bytes);
            if record.table != table {
                return ControlFlow::Continue(());
            }
            let hash = match record.key.contiguous() {
                Some(key) => hash_of(key),
                None => hash_of(&record.key.to_vec()),
            };
            // The bucket may also hold entries before the position: they are counted already.
            if log.place(table, hash).reverse_bits() >= from {
                met.push((hash, record.entry_bytes));
            }
            ControlFlow::Continue(())
        });
        if let Some(at) = damaged {
            return Err(at);
        }
        self.counters.met(&met, next.map(Cursor::position));
        Ok((next.is_none(), bytes))
    }

    /// Gives the recount up.
    pub fn end_recount(&mut self) {
        self.counters.end_recount();
    }

    /// Cuts the tracked ranges of the recount into its parts, if there is a recount. Its last step must have returned
    /// `Ok(true)` in the same turn. Then joins the tracked ranges within each of `ranges` into one.
    pub fn divide(&mut self, ranges: &[HashRange]) {
        self.counters.cut();
        ranges.iter().for_each(|range| self.counters.join(*range));
    }
}
