//! Shows the objects of a range of hashes in an order that is the same in every log with the same index secret.
//!
//! Objects come in the order in which walks visit the index: by the bits of the index hash, the lowest first. This
//! order depends on the key alone. So a walk may stop at any position and go on in another log that holds the keys now,
//! and the index may grow and shrink meanwhile: objects before the position have been shown, and objects behind it have
//! not.
//!
//! Not here: limits of a page, what may be revealed of it and when (master). Catalogue: A6.

use crate::index::Cursor;
use crate::index::bucket::What;
use crate::log::Log;
use crate::{HashRange, Pieces, Reference};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, KeyHash, Version};
use std::ops::ControlFlow;

/// An object that a walk has met. Valid in the same turn only.
#[derive(Clone, Copy, Debug)]
pub struct Scanned {
    /// The position in the order of walks. Only keys with equal hashes share one.
    pub position: u64,
    pub hash: KeyHash,
    pub at: Reference,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub expires: Option<ClusterTime>,
}

/// A step of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walked {
    /// Where to go on. `None`: these were all.
    pub next: Option<u64>,
    /// The bytes of all entries that were met, and verified, whoever they belong to.
    pub bytes: u64,
}

/// The fields of an object that a walk has met.
pub struct Shown<'a> {
    pub version: Version,
    pub time: u32,
    pub key: Pieces<'a>,
    pub value: Pieces<'a>,
}

impl Log {
    /// Adds the objects of a range at positions from `from` on that the next `bucket_count` buckets hold, in order.
    /// `Err`: this entry is damaged, and may be one of them.
    pub fn scan_step(
        &mut self,
        range: HashRange,
        from: u64,
        bucket_count: u64,
        hash_of: &dyn Fn(&[u8]) -> KeyHash,
        found: &mut Vec<Scanned>,
    ) -> Result<Walked, Reference> {
        let (mut damaged, mut bytes) = (None, 0);
        let next = self.sweep(Cursor::at(from), bucket_count, |log, _, what, at| {
            if what != What::Object {
                return ControlFlow::Continue(());
            }
            let Some(record) = log.memory.intact_record(at) else {
                damaged = Some(at);
                return ControlFlow::Continue(());
            };
            bytes += u64::from(record.entry_bytes);
            if record.table != range.table {
                return ControlFlow::Continue(());
            }
            let hash = match record.key.contiguous() {
                Some(key) => hash_of(key),
                None => hash_of(&record.key.to_vec()),
            };
            let position = log.place(range.table, hash).reverse_bits();
            // The bucket may also hold entries before the position: they were shown already.
            let is_ahead = position >= from || planted(Defect::ScanBucketTwice);
            if range.contains(range.table, hash) && is_ahead {
                let (key_bytes, value_bytes) = (record.key.len(), record.value.len());
                let expires = record.expires;
                found.push(Scanned { position, hash, at, key_bytes, value_bytes, expires });
            }
            ControlFlow::Continue(())
        });
        found.sort_by_key(|scanned| scanned.position);
        damaged.map_or(Ok(Walked { next: next.map(Cursor::position), bytes }), Err)
    }

    /// The fields of an object that was met in the same turn.
    pub fn show(&self, scanned: &Scanned) -> Shown<'_> {
        let record = self.memory.record(scanned.at);
        Shown { version: record.version, time: record.time, key: record.key, value: record.value }
    }

    /// Whether an entry of any table was lost at a position from `from` on and before `to`.
    pub fn has_lost_between(&self, from: u64, to: Option<u64>) -> bool {
        let positions = self.lost.iter().map(|bits| bits.reverse_bits());
        positions.into_iter().any(|position| position >= from && to.is_none_or(|to| position < to))
    }
}
