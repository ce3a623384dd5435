//! Keys of which siblings are known to have something newer than this brick.
//!
//! The sweep compares a stretch of a tablet, and enters the keys that are behind. They leave when the newer value is
//! stored, or when a later comparison of the stretch does not find them any more: a read may have repaired them.
//!
//! Invariant: the number of remembered keys is bounded. Further ones are not counted until there is room.
//!
//! Not here: the comparison (`sweep`). Catalogue: I6.

use crate::tables::meets;
use ramhold_base::{Instant, KeyHash, TableId};
use ramhold_log::HashRange;
use ramhold_wire::brick_status::KEYS_BEHIND_MAX;
use std::collections::BTreeMap;

/// The most keys that are remembered. Each takes some 60 bytes. A brick that is further behind says at least that.
const BEHIND_KEYS_MAX: usize = KEYS_BEHIND_MAX as usize;

/// A tablet, and a position in the order of its walks. Keys that share a position count as one.
type Place = (TableId, KeyHash, u64);

/// When a key was found first, and the end of the tablet that it was found in.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: Instant,
    last: KeyHash,
}

#[derive(Debug, Default)]
pub(crate) struct Behind {
    since: BTreeMap<Place, Found>,
}

impl Behind {
    /// The stretch of a tablet from a position on, up to `next`, was compared: these positions are behind.
    pub fn compared(
        &mut self,
        now: Instant,
        range: HashRange,
        (from, next): (u64, Option<u64>),
        behind: impl IntoIterator<Item = u64>,
    ) {
        let place = |position| (range.table, range.first, position);
        let last = next.map_or(u64::MAX, |next| next.saturating_sub(1));
        let inside = place(from)..=place(last.max(from));
        let before: BTreeMap<Place, Found> = self.since.extract_if(inside, |_, _| true).collect();
        for position in behind {
            let place = place(position);
            if self.since.len() < BEHIND_KEYS_MAX {
                let new = Found { at: now, last: range.last };
                self.since.insert(place, before.get(&place).copied().unwrap_or(new));
            }
        }
    }

    /// Something newer is stored here.
    pub fn stored(&mut self, range: HashRange, position: u64) {
        self.since.remove(&(range.table, range.first, position));
    }

    /// A tablet is not this brick's any more, or has other bounds or bricks. Its keys are found again.
    pub fn forget(&mut self, range: HashRange) {
        self.since.retain(|(table, first, _), found| {
            !meets(HashRange { table: *table, first: *first, last: found.last }, range)
        });
    }

    pub fn count(&self) -> usize {
        self.since.len()
    }

    /// When the first of them was found.
    pub fn since(&self) -> Option<Instant> {
        self.since.values().map(|found| found.at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64) -> HashRange {
        HashRange { table: TableId(7), first: KeyHash(first), last: KeyHash(first + 9) }
    }

    // I6
    #[test]
    fn a_key_is_behind_from_its_first_finding_until_it_is_stored_or_not_found_any_more() {
        let mut behind = Behind::default();
        behind.compared(Instant(1), range(0), (0, Some(100)), [3, 50, 99]);
        behind.compared(Instant(2), range(0), (100, None), [u64::MAX]);
        behind.compared(Instant(3), range(10), (0, None), [50]);
        assert_eq!((behind.count(), behind.since()), (5, Some(Instant(1))));
        behind.stored(range(0), 3);
        behind.compared(Instant(4), range(0), (0, Some(100)), [50]);
        assert_eq!((behind.count(), behind.since()), (3, Some(Instant(1))), "50 since 1, 99 was repaired");
        behind.stored(range(0), 50);
        assert_eq!((behind.count(), behind.since()), (2, Some(Instant(2))));
        behind.compared(Instant(5), range(0), (0, None), []);
        assert_eq!((behind.count(), behind.since()), (1, Some(Instant(3))));
        behind.forget(range(20));
        assert_eq!(behind.count(), 1);
        behind.forget(HashRange { first: KeyHash(15), ..range(10) });
        assert_eq!((behind.count(), behind.since()), (0, None), "the tablet was cut");
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let mut behind = Behind::default();
        behind.compared(Instant(1), range(0), (0, None), 0..2 * BEHIND_KEYS_MAX as u64);
        assert_eq!(behind.count(), BEHIND_KEYS_MAX);
    }
}
