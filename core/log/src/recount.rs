//! Cuts ranges whose objects are counted, and joins them, without ever counting wrong.
//!
//! The parts of ranges that are to be cut are counted anew by a walk over the index in bounded steps. It goes in the order
//! of positions, which depend on the key alone: so of each key it is clear, however the index grows and whatever is
//! written meanwhile, whether the walk has passed it, and its changes count, or will meet it as it is then. Until the end of
//! the walk the whole ranges are counted as before.
//!
//! Not here: the counters (`stats`), when to walk (master). Rules: docs/protocols/tablets.md, 7. Catalogue: A6, A8.

use crate::index::Cursor;
use crate::index::bucket::What;
use crate::log::Log;
use crate::{HashRange, Reference};
use ramhold_base::{KeyHash, TableId};
use std::ops::ControlFlow;

/// What one step verifies at most, but for its last bucket: a fraction of a millisecond.
const STEP_BYTES: u64 = 2 * 1024 * 1024;

impl Log {
    /// These parts begin to be counted anew; a recount of before is over. They are of one table, and cover the tracked
    /// ranges that they are parts of.
    pub fn begin_recount(&mut self, table: TableId, parts: &[HashRange]) {
        assert!(parts.iter().all(|part| part.table == table), "the parts are of one table");
        let secret = self.index_secret();
        self.counters.begin_recount(table, parts, secret);
    }

    /// Goes on with so many buckets, or as many as it takes to verify `STEP_BYTES` of entries. `Ok(true)`: the parts are
    /// counted, and go on being counted. `hash_of` is the table's placement hash. `Err`: this entry is damaged, and may be
    /// one of them; the same step again is for when it is repaired.
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

    /// Whether that was the last bucket, and the bytes of the entries in it.
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
            // The walk begins with the whole bucket that the position lies in.
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

    /// It is not wanted any more.
    pub fn end_recount(&mut self) {
        self.counters.end_recount();
    }

    /// The tracked ranges of the recount, whose last step was `Ok(true)` in the same turn, are cut into its parts, if there
    /// is one; then what is tracked within each of these ranges becomes one.
    pub fn divide(&mut self, ranges: &[HashRange]) {
        self.counters.cut();
        ranges.iter().for_each(|range| self.counters.join(*range));
    }
}
