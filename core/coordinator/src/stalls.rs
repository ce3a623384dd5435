//! Moves that come no further, so that an operator hears of the way out.
//!
//! A brick tells with its hellos how many of its tablets do not vote, and how much of the one that it rebuilds is done. A
//! move has come further when that is better than anything that was told before in it. So a brick that dies again and again
//! at the same place comes no further, although it is heard.
//!
//! Nothing is stored, and nothing is decided by it: a coordinator that starts counts anew.
//!
//! Not here: how a move ends (`scaling`). Protocol: docs/protocols/quorum.md, rule 85. Catalogue: I7.

use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, ServerId, TableId};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// A move that has come no further for so long is told as stalled.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Tablets without a vote, and the part that is done of the one that is rebuilt, of 1,000. `None`: the brick has not taken
/// what it is assigned.
pub(crate) type Reached = Option<(Reverse<u32>, u16)>;

#[derive(Debug)]
struct Watched {
    new: ServerId,
    best: Reached,
    since: Instant,
}

/// The tablets that are on their way, by table and first hash.
#[derive(Debug, Default)]
pub(crate) struct Moves(BTreeMap<(TableId, KeyHash), Watched>);

impl Moves {
    /// Forgets all moves but these.
    pub fn keep(&mut self, is_moving: impl Fn((TableId, KeyHash)) -> bool) {
        self.0.retain(|place, _| is_moving(*place));
    }

    /// Notes how far a move is. Returns whether it has come no further for long.
    pub fn note(&mut self, now: Instant, place: (TableId, KeyHash), new: ServerId, reached: Reached) -> bool {
        let watched = self.0.entry(place).or_insert(Watched { new, best: reached, since: now });
        let is_further =
            reached > watched.best || (reached != watched.best && planted(Defect::ScalingStallBegunAnew));
        if watched.new != new || is_further {
            *watched = Watched { new, best: reached, since: now };
        }
        watched.since + STALLED_AFTER <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I7
    #[test]
    fn a_brick_that_begins_again_and_again_comes_no_further() {
        let mut moves = Moves::default();
        let place = (TableId(1), KeyHash(0));
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut note = |seconds, new, without_vote, permille| {
            moves.note(at(seconds), place, ServerId(new), Some((Reverse(without_vote), permille)))
        };
        assert!(!note(0, 4, 1, 0));
        assert!(!note(50, 4, 1, 700));
        // It dies and is back, and dies where it died before.
        assert!(!note(70, 4, 2, 0));
        assert!(!note(90, 4, 1, 700));
        assert!(note(110, 4, 1, 300));
        assert!(!note(111, 4, 1, 701), "it is further than ever");
        assert!(note(171, 4, 1, 701));
        assert!(!note(172, 5, 1, 0), "another brick takes it");
        moves.keep(|_| false);
        assert!(!moves.note(at(300), place, ServerId(5), None));
    }
}
