//! Tombstones that no brick of their keys has anything older than, and that may go when nothing can bring a value back.
//!
//! The sweep finds such a tombstone twice, with at least `GRAVE_TIME` in between. At the first time it becomes a grave.
//! Writes that it would have met are not stored any more at the second time. It goes then, if every segment that was in
//! this log at the first time has left it: a start could find an older value of the key there.
//!
//! Graves are not stored. A brick that starts again begins anew with them.
//!
//! Not here: finding them (`sweep`). Protocol: docs/protocols/quorum.md, rule 34. Catalogue: A12, I6.

use crate::question::Key;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, SegmentId, Stamp, TableId};
use ramhold_quorum::GRAVE_TIME;
use ramhold_shard::Shard;
use std::collections::BTreeMap;

/// The most graves that are remembered. Each takes some 80 bytes.
const GRAVES_MAX: usize = 200_000;
/// When so many graves wait for their segments alone, the oldest segment is cleaned: it may never be worth it otherwise.
const PRESSING_COUNT: usize = 1000;

/// A tombstone that was found, and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub table: TableId,
    pub hash: KeyHash,
    pub key: Key,
    pub stamp: Stamp,
}

/// When a tombstone was found first.
#[derive(Clone, Copy, Debug)]
struct Grave {
    stamp: Stamp,
    since: Instant,
    /// All segments that may hold something older have lower ids.
    guard: SegmentId,
}

#[derive(Debug, Default)]
pub(crate) struct Graves {
    known: BTreeMap<(TableId, KeyHash), Grave>,
    /// Graves whose time has come, and whose segments have not left, since the oldest segment was last cleaned for them.
    guarded_count: usize,
    /// Tombstones that have gone since the start.
    pub gone_count: u64,
}

impl Graves {
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// A sibling has something older than the tombstone of this key, or was silent.
    pub fn fill(&mut self, table: TableId, hash: KeyHash) {
        self.known.remove(&(table, hash));
    }

    /// No brick of the key has anything older than this tombstone.
    pub fn dig(&mut self, now: Instant, found: &Found, shard: &mut Shard) {
        let place = (found.table, found.hash);
        let known = self.known.get(&place).copied().filter(|known| known.stamp == found.stamp);
        let Some(Grave { since, guard, .. }) = known else {
            if self.known.len() < GRAVES_MAX {
                let guard = shard.log.next_segment_id();
                self.known.insert(place, Grave { stamp: found.stamp, since: now, guard });
            }
            return;
        };
        if since + GRAVE_TIME > now {
            return;
        }
        let oldest = shard.log.segments().map(|segment| segment.id).min();
        if oldest.is_some_and(|oldest| oldest < guard) && !planted(Defect::QuorumGraveUnguarded) {
            self.guarded_count += 1;
            if self.guarded_count >= PRESSING_COUNT {
                self.guarded_count = 0;
                shard.cleaning.must_leave.extend(oldest);
            }
            return;
        }
        self.known.remove(&place);
        // An entry that is damaged, or a newer one, stays.
        let newest = shard.log.newest(found.table, found.hash, &found.key).ok().flatten();
        if let Some(at) = newest.filter(|newest| newest.stamp == found.stamp).map(|newest| newest.at) {
            shard.log.drop_record(found.table, found.hash, at);
            self.gone_count += 1;
        }
    }
}
