//! Sweeps the keys of ranges that were given up out of the index.
//!
//! Sweeps run one after the other, a few buckets per turn. A sweep that meets a damaged entry waits for its repair.
//!
//! Not here: giving a range up (`master`).

use ramhold_base::SegmentId;
use ramhold_base::hash::PlacementHasher;
use ramhold_log::{Cursor, HashRange};
use ramhold_shard::Shard;
use ramhold_wire::Step;

/// Index buckets that one turn of a sweep looks at.
const SWEEP_BUCKETS: u64 = 4096;

/// A range whose keys leave the index.
struct Sweep {
    range: HashRange,
    cursor: Cursor,
    hasher: PlacementHasher,
}

#[derive(Default)]
pub(crate) struct Sweeps {
    sweeps: Vec<Sweep>,
    /// The damaged segment at which the first sweep has stopped.
    waits_for: Option<SegmentId>,
}

impl Sweeps {
    /// Begins to sweep a range that has left.
    pub fn begin(&mut self, range: HashRange, hasher: PlacementHasher) {
        self.sweeps.push(Sweep { range, cursor: Cursor::default(), hasher });
    }

    pub fn is_empty(&self) -> bool {
        self.sweeps.is_empty()
    }

    /// Whether a part of this range is being swept.
    pub fn meets(&self, range: HashRange) -> bool {
        self.sweeps.iter().any(|s| {
            s.range.table == range.table && s.range.first <= range.last && range.first <= s.range.last
        })
    }

    /// Whether another turn would get further.
    pub fn is_busy(&self, shard: &Shard) -> bool {
        !self.sweeps.is_empty() && !self.is_waiting(shard)
    }

    /// Whether the first sweep has met damage that is being repaired.
    fn is_waiting(&self, shard: &Shard) -> bool {
        self.waits_for.is_some_and(|segment| shard.scrub.is_damaged(segment))
    }

    pub fn advance(&mut self, step: &mut Step<'_>, shard: &mut Shard) {
        if self.is_waiting(shard) {
            return;
        }
        let Some(sweep) = self.sweeps.first_mut() else { return };
        let hasher = sweep.hasher;
        let log = &mut shard.log;
        match log.drop_range_step(sweep.range, sweep.cursor, SWEEP_BUCKETS, &|key| hasher.hash(key)) {
            Ok(Some(cursor)) => sweep.cursor = cursor,
            Ok(None) => {
                self.sweeps.remove(0);
            }
            Err(at) => {
                let (segment, offset) = log.place_of(at);
                self.waits_for = Some(segment);
                shard.note_damage(step, segment, offset);
            }
        }
    }
}
