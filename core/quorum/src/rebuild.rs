//! The newest value of a key, as other bricks tell it to one that has forgotten something.
//!
//! The others store the life of the brick that asks before they tell: an answer of its former life that is still on its
//! way then meets somebody who knows that life to be over. The brick's own value counts only if the others' newest has
//! the same stamp, which makes it the same value; so it need not be asked for.
//!
//! Source: docs/protocols/quorum.md, rule 10.

use crate::message::BrickId;
use ramhold_base::Stamp;
use ramhold_base::planted::{Defect, planted};
use std::collections::BTreeMap;

/// The answers about one key.
#[derive(Clone, Debug)]
pub struct Rebuild<V> {
    reads: usize,
    told: BTreeMap<BrickId, (Stamp, Option<V>)>,
}

impl<V: Clone> Rebuild<V> {
    /// `reads`: the read quorum, of others.
    pub fn new(reads: usize) -> Rebuild<V> {
        Rebuild { reads, told: BTreeMap::new() }
    }

    /// Another brick, which votes, has told its newest.
    pub fn hear(&mut self, from: BrickId, stamp: Stamp, value: Option<V>) {
        self.told.insert(from, (stamp, value));
    }

    /// The value to go on with. `None` while too few have told. `own` is what the brick has itself.
    pub fn newest(&self, own: (Stamp, Option<V>)) -> Option<(Stamp, Option<V>)> {
        if self.told.len() < self.reads {
            return None;
        }
        let newest =
            self.told.values().max_by_key(|(stamp, _)| *stamp).cloned().unwrap_or((Stamp::NONE, None));
        let keeps_own = planted(Defect::QuorumRebuiltKeepsOwn) && own.0 > newest.0;
        Some(if keeps_own { own } else { newest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6
    #[test]
    fn its_own_value_does_not_count() {
        let stamp = |time| Stamp { time, session: 2 };
        let own = (stamp(9), Some(9));
        let mut rebuild = Rebuild::new(2);
        rebuild.hear(BrickId(2), stamp(5), Some(5));
        assert_eq!(rebuild.newest(own), None, "one is too few");
        rebuild.hear(BrickId(2), stamp(5), Some(5));
        assert_eq!(rebuild.newest(own), None, "the same one again");
        rebuild.hear(BrickId(3), Stamp::NONE, None);
        assert_eq!(rebuild.newest(own), Some((stamp(5), Some(5))));
    }
}
