//! How long a get waits for a brick before it asks another one.
//!
//! Bricks that have everything in memory answer in less than a millisecond, and one that is silent for `LEAST` is away.
//! Bricks that have more to do than they can are late. A session that asks another brick then adds to what they have to do,
//! and all are later still. So a session waits for a brick as long as all but one in `LATE_OF` of its last answers took: at
//! most that part of the gets asks another brick, however late all are. A mean and a deviation would not do, as answers
//! out of memory and those that wait for a device have times of their own.
//!
//! The time is followed without a list of times: it rises with each answer that took longer, and falls `LATE_OF` - 1 times
//! less with each other one. Each brick has a patience of its own: the bricks of one tablet may have too much to do while
//! those of another one are idle.
//!
//! An answer for which nobody waits any more counts as late. A brick that is away is asked by few gets meanwhile, since it is
//! asked last, so it makes nobody patient.
//!
//! Invariant: `LEAST <= patience <= MOST`.
//!
//! Not here: what follows when patience is over (core/quorum). Sources: docs/protocols/quorum.md, rule 21; Dean and Barroso,
//! The Tail at Scale. Catalogue: I5.

use super::under_way::PATIENCE;
use std::time::Duration;

const LEAST: Duration = PATIENCE;
/// Bricks that take longer than this do not get their users anywhere, whoever is asked.
const MOST: Duration = Duration::from_secs(1);
/// One answer of so many takes longer than the patience.
pub const LATE_OF: u32 = 50;
/// A late answer makes the patience longer by this part of it.
const RISE: u32 = 10;

#[derive(Clone, Copy, Debug)]
pub struct Patience {
    time: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { time: LEAST }
    }
}

impl Patience {
    /// An answer has come after this time.
    pub fn heard(&mut self, time: Duration) {
        let is_late = time > self.time;
        let next = if is_late {
            self.time + self.time / RISE
        } else {
            self.time - self.time / (RISE * (LATE_OF - 1))
        };
        self.time = next.clamp(LEAST, MOST);
    }

    pub fn get(&self) -> Duration {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    // I5
    #[test]
    fn patience_follows_the_times_of_answers_within_its_bounds() {
        let mut patience = Patience::default();
        assert_eq!(patience.get(), LEAST);
        (0..1000).for_each(|_| patience.heard(Duration::from_micros(300)));
        assert_eq!(patience.get(), LEAST, "memory is fast");
        // One slow answer among many is hardly a reason.
        patience.heard(millis(100));
        assert!(patience.get() <= LEAST * 11 / 10);
        (0..50).for_each(|_| patience.heard(millis(1)));
        assert_eq!(patience.get(), LEAST);
        (0..1000).for_each(|_| patience.heard(Duration::MAX));
        assert_eq!(patience.get(), MOST);
        (0..3000).for_each(|_| patience.heard(Duration::ZERO));
        assert_eq!(patience.get(), LEAST);
    }

    // I5: answers out of memory, and every seventh out of a device whose line is long.
    #[test]
    fn one_answer_in_fifty_takes_longer_than_the_patience() {
        let mut patience = Patience::default();
        let times =
            |turn: u64| if turn.is_multiple_of(7) { millis(20 + turn * 7919 % 60) } else { millis(1) };
        let mut late = 0;
        for turn in 0..20_000 {
            late += u32::from(turn >= 10_000 && times(turn) > patience.get());
            patience.heard(times(turn));
        }
        assert!((150..250).contains(&late), "{late} of 10,000, {patience:?}");
    }
}
