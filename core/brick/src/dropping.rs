//! Keys of dropped tables leave the index in small steps, and their memory is cleaned.
//!
//! A start that comes before the end adopts no record of a table that the state does not name, so nothing is stored of how
//! far a dropping has come.
//!
//! Not here: the drop of a table (`taking`). Catalogue: A1.

use crate::Brick;
use ramhold_base::Instant;
use ramhold_log::{Cursor, HashRange};
use ramhold_wire::Step;
use std::time::Duration;

/// Index buckets of a step.
const DROP_BUCKETS: u64 = 4096;
const DROP_INTERVAL: Duration = Duration::from_millis(1);

/// The range of a tablet that is gone from this brick, and how far its keys have left the index.
#[derive(Debug)]
pub(crate) struct Dropping {
    range: HashRange,
    cursor: Cursor,
    next: Instant,
}

impl Dropping {
    pub fn new(range: HashRange) -> Dropping {
        Dropping { range, cursor: Cursor::default(), next: Instant::ZERO }
    }
}

impl Brick {
    pub(crate) fn dropping_deadline(&self) -> Option<Instant> {
        self.droppings.first().map(|dropping| dropping.next)
    }

    pub(crate) fn advance_dropping(&mut self, step: &mut Step<'_>) {
        let Brick { droppings, store: Some(store), tables, .. } = self else { return };
        let Some(dropping) = droppings.first_mut().filter(|dropping| dropping.next <= step.now) else {
            return;
        };
        dropping.next = step.now + DROP_INTERVAL;
        let (range, cursor) = (dropping.range, dropping.cursor);
        let hash_of = |key: &[u8]| tables.hash(range.table, key).unwrap_or_default();
        match store.shard.log.drop_range_step(range, cursor, DROP_BUCKETS, &hash_of) {
            Ok(Some(next)) => dropping.cursor = next,
            Ok(None) => {
                store.shard.log.untrack(range);
                droppings.remove(0);
                if droppings.iter().all(|other| other.range.table != range.table) {
                    tables.forget(range.table);
                }
            }
            Err(at) => {
                let (segment, offset) = store.shard.log.place_of(at);
                store.shard.note_damage(step, segment, offset);
                self.advance_repairs(step);
            }
        }
    }
}
