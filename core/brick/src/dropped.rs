//! The keys of which a rebuilding has dropped this brick's own newest record.
//!
//! Older records of such a key may lie in other segments, also newer ones than what was decided. A later start would take
//! the newest of them. So every segment that holds a record of a dropped key leaves the log before the tablet votes.
//!
//! Not here: the newest records, whose segments are known (`rebuild`). Catalogue: I6.

use crate::question::Key;
use ramhold_base::{SegmentId, TableId};
use ramhold_log::{Entry, EntryReader, Log};
use std::collections::BTreeSet;

/// Beyond so many keys no segment is searched: all of them leave.
const KEYS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Dropped {
    keys: BTreeSet<Key>,
    is_beyond: bool,
}

impl Dropped {
    pub fn note(&mut self, key: &Key) {
        if self.keys.len() < KEYS_MAX {
            self.keys.insert(key.clone());
        } else {
            self.is_beyond = true;
        }
    }

    /// None: they are too many.
    pub fn keys(&self) -> Option<&BTreeSet<Key>> {
        (!self.is_beyond).then_some(&self.keys)
    }

    /// Whether a segment may hold a record of one of these keys. A segment that cannot be read may.
    pub fn is_in(&self, log: &Log, table: TableId, segment: SegmentId) -> bool {
        let Some(info) = log.segment(segment) else { return false };
        let mut bytes = Vec::with_capacity(info.len_bytes as usize);
        log.copy_segment(segment, 0, info.len_bytes, &mut bytes);
        EntryReader::new(&bytes).any(|entry| match entry {
            Ok((_, Entry::QuorumRecord(record))) => record.table == table && self.keys.contains(record.key),
            Ok(_) => false,
            Err(_) => true,
        })
    }
}
