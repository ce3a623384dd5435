//! The puts of a session that ended as unknown, so that the session's next get of the key settles them first.
//!
//! Without that, a session that reads the key twice may find the value from before its own put, and then the put's value:
//! a read quorum may or may not meet the few bricks that have stored it. Only the newest put of a key counts: whatever
//! settles it settles the earlier ones, too.
//!
//! Invariant: at most `OPEN_PUTS_MAX` puts with at most `OPEN_PUTS_BYTES_MAX` bytes are remembered. The one that is longest
//! here is forgotten first; its token settles it still.
//!
//! Not here: how a put is settled (`under_way`). Protocol: docs/protocols/quorum.md, rules 8, 37. Catalogue: I3.

use super::order::Open;
use ramhold_base::limits::{OPEN_PUTS_BYTES_MAX, OPEN_PUTS_MAX};
use ramhold_base::{Stamp, TableId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

type Place = (TableId, Arc<Vec<u8>>);

#[derive(Default)]
pub struct OpenPuts {
    open: BTreeMap<Place, Open>,
    /// Each place of `open` once, the one that is longest here first.
    order: VecDeque<Place>,
    bytes: usize,
}

impl OpenPuts {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn of(&self, place: &Place) -> Option<&Open> {
        self.open.get(place)
    }

    /// Remembers a put of this key, unless a newer one is remembered.
    pub fn remember(&mut self, place: Place, put: Open) {
        if self.open.get(&place).is_some_and(|known| known.stamp > put.stamp) {
            return;
        }
        self.forget(&place);
        self.bytes += bytes_of(&place, &put);
        self.order.push_back(place.clone());
        self.open.insert(place, put);
        while self.open.len() > OPEN_PUTS_MAX || self.bytes > OPEN_PUTS_BYTES_MAX {
            let Some(oldest) = self.order.front().cloned() else { return };
            self.forget(&oldest);
        }
    }

    /// The put of this key with this stamp, and all earlier ones, are settled.
    pub fn settle(&mut self, place: &Place, stamp: Stamp) {
        if self.open.get(place).is_some_and(|known| known.stamp <= stamp) {
            self.forget(place);
        }
    }

    fn forget(&mut self, place: &Place) {
        let Some(put) = self.open.remove(place) else { return };
        self.bytes -= bytes_of(place, &put);
        self.order.retain(|other| other != place);
    }
}

fn bytes_of((_, key): &Place, put: &Open) -> usize {
    key.len() + put.value.as_ref().map_or(0, |value| value.bytes.len())
}

#[cfg(test)]
mod tests {
    use super::super::order::Value;
    use super::*;

    fn place(key: u32) -> Place {
        (TableId(1), Arc::new(key.to_le_bytes().to_vec()))
    }

    fn put(time: u64, bytes: usize) -> Open {
        let value = Value { bytes: Arc::new(vec![0; bytes]), expires: None };
        Open { stamp: Stamp { time, session: 2 }, value: Some(value), begun: time }
    }

    fn times(puts: &OpenPuts, keys: std::ops::Range<u32>) -> Vec<u64> {
        keys.filter_map(|key| puts.of(&place(key))).map(|put| put.stamp.time).collect()
    }

    // I3
    #[test]
    fn the_newest_put_of_a_key_is_remembered_until_it_or_a_newer_one_is_settled() {
        let mut puts = OpenPuts::default();
        for time in [5, 7, 6] {
            puts.remember(place(1), put(time, 10));
        }
        assert_eq!((times(&puts, 0..9), puts.order.len(), puts.bytes), (vec![7], 1, 14));
        puts.settle(&place(1), put(6, 0).stamp);
        puts.settle(&place(2), put(9, 0).stamp);
        assert_eq!(times(&puts, 0..9), [7]);
        puts.settle(&place(1), put(7, 0).stamp);
        assert!(puts.is_empty() && puts.order.is_empty() && puts.bytes == 0);
    }

    // I3
    #[test]
    fn the_number_and_the_bytes_of_puts_are_bounded() {
        let mut puts = OpenPuts::default();
        let most = OPEN_PUTS_MAX as u32;
        (0..most + 3).for_each(|key| puts.remember(place(key), put(u64::from(key), 0)));
        assert_eq!(times(&puts, 0..most + 3), (3..u64::from(most) + 3).collect::<Vec<_>>());
        // The next ones are as large as they can be.
        (0..5).for_each(|key| puts.remember(place(key), put(1000 + u64::from(key), OPEN_PUTS_BYTES_MAX / 3)));
        assert_eq!(times(&puts, 0..most + 3), [1003, 1004]);
    }
}
