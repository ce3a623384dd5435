//! Tombstones that no brick of their keys has anything older than, and that may go when nothing can bring a value back.
//!
//! The sweep finds such a tombstone twice, with at least `GRAVE_TIME` in between. At the first time it becomes a grave.
//! Writes that it would have met are not stored any more at the second time. It goes then, if every segment that was in
//! its stream at the first time has left the log: a start could find an older value of the key there. Other streams hold
//! nothing of its table, and the head of one without writes is there for ever.
//!
//! A segment that many graves wait for must leave. The head of a stream cannot: it is closed by the next one first.
//!
//! Graves are not stored. A brick that starts again begins anew with them.
//!
//! Not here: finding them (`sweep`). Protocol: docs/protocols/quorum.md, rules 34, 84. Catalogue: A12, I6.

use crate::question::Key;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, SegmentId, Stamp, StreamId, TableId};
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
    /// All segments of its stream that may hold something older have lower ids.
    guard: SegmentId,
}

#[derive(Debug, Default)]
pub(crate) struct Graves {
    known: BTreeMap<(TableId, KeyHash), Grave>,
    /// Graves whose time has come, and whose segments have not left, since the oldest segment of their stream was last
    /// cleaned or closed for them.
    guarded_counts: BTreeMap<StreamId, usize>,
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

    /// No brick of the key has anything older than this tombstone, which is in this stream. Returns whether the stream needs
    /// a next head, so that its present one can leave.
    #[must_use]
    pub fn dig(&mut self, now: Instant, found: &Found, stream: StreamId, shard: &mut Shard) -> bool {
        let place = (found.table, found.hash);
        let known = self.known.get(&place).copied().filter(|known| known.stamp == found.stamp);
        let Some(Grave { since, guard, .. }) = known else {
            if self.known.len() < GRAVES_MAX {
                let guard = shard.log.next_segment_id();
                self.known.insert(place, Grave { stamp: found.stamp, since: now, guard });
            }
            return false;
        };
        if since + GRAVE_TIME > now {
            return false;
        }
        let own = shard.log.segments().filter(|segment| segment.stream == stream);
        let oldest = own.map(|segment| segment.id).min().filter(|oldest| *oldest < guard);
        if let Some(oldest) = oldest.filter(|_| !planted(Defect::QuorumGraveUnguarded)) {
            return self.press(stream, oldest, shard);
        }
        self.known.remove(&place);
        // An entry that is damaged, or a newer one, stays.
        let newest = shard.log.newest(found.table, found.hash, &found.key).ok().flatten();
        if let Some(at) = newest.filter(|newest| newest.stamp == found.stamp).map(|newest| newest.at) {
            shard.log.drop_record(found.table, found.hash, at);
            self.gone_count += 1;
        }
        false
    }

    /// One more grave waits for the oldest segment of a stream.
    fn press(&mut self, stream: StreamId, oldest: SegmentId, shard: &mut Shard) -> bool {
        let count = self.guarded_counts.entry(stream).or_default();
        *count += 1;
        if *count < PRESSING_COUNT {
            return false;
        }
        *count = 0;
        let is_head = shard.log.head_segment(stream) == Some(oldest);
        if !is_head {
            shard.cleaning.must_leave.insert(oldest);
        }
        is_head
    }
}
