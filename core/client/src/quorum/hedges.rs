//! How many questions a session asks twice because a brick is late.
//!
//! A get whose brick is late asks another one: a hedge. When bricks have more to do than they can, each hedge is one question
//! more in their queues, so that all answers are later and more gets hedge. Sessions that hedge whatever is late keep bricks
//! at that point for ever: nearly all that they then answer was answered elsewhere. Patience alone does not prevent it, as
//! it rises only with late answers, and has an end. So a session has a budget for each brick: `PRICE` questions for values
//! pay for one hedge. With one budget for all, the gets of idle bricks would pay for hedges at the one that has too much
//! to do. When it is spent, gets wait for their brick, but for one each five seconds, lest a question that was lost is never asked
//! again.
//!
//! A brick that is away, or refuses, is replaced without any budget: nothing waits in its queue.
//!
//! Not here: when an answer is late (`patience`), which brick is away (`health`). Sources: Dean and Barroso, The Tail at Scale;
//! docs/protocols/quorum.md, rule 21. Catalogue: I5.

use super::patience::LATE_OF;
use ramhold_base::Instant;
use ramhold_base::planted::{Defect, planted};
use std::time::Duration;

/// The price of one hedge, in questions for values. Patience lets one in so many be late.
const PRICE: u32 = LATE_OF;
/// A session that has just begun, or whose brick was quick, may hedge this often at once.
const MOST: u32 = 3;
/// With nothing left, one hedge is free in this time.
const FREE_EACH: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
pub struct Hedges {
    /// A hedge costs `PRICE` of them.
    saved: u32,
    free_at: Instant,
}

impl Default for Hedges {
    fn default() -> Hedges {
        Hedges { saved: MOST * PRICE, free_at: Instant(0) }
    }
}

impl Hedges {
    /// The brick is asked for a value.
    pub fn asked(&mut self) {
        self.saved = (self.saved + 1).min(MOST * PRICE);
    }

    /// Whether one more question may go out.
    pub fn may(&self, now: Instant) -> bool {
        self.saved >= PRICE || now >= self.free_at || planted(Defect::QuorumHedgesAll)
    }

    /// It has gone out.
    pub fn pay(&mut self, now: Instant) {
        match self.saved.checked_sub(PRICE) {
            Some(left) => self.saved = left,
            None => self.free_at = now + FREE_EACH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I5
    #[test]
    fn one_question_in_fifty_is_hedged_and_one_each_five_seconds_when_that_is_spent() {
        let (mut hedges, at) = (Hedges::default(), |millis: u64| Instant(millis * 1_000_000));
        let taken = |hedges: &mut Hedges, now| {
            let mut count = 0;
            while hedges.may(now) {
                hedges.pay(now);
                count += 1;
            }
            count
        };
        assert_eq!(taken(&mut hedges, at(5)), MOST + 1, "what was saved, and the free one");
        assert_eq!(taken(&mut hedges, at(5004)), 0);
        assert_eq!(taken(&mut hedges, at(5005)), 1);
        (0..100).for_each(|_| hedges.asked());
        assert_eq!(taken(&mut hedges, at(5006)), 2);
        (0..1_000_000).for_each(|_| hedges.asked());
        assert_eq!(taken(&mut hedges, at(5007)), MOST, "no more than that is saved");
    }
}
