//! How long a get waits for a brick before it asks another one.
//!
//! Bricks that have everything in memory answer in less than a millisecond, and one that is silent for `LEAST` is away.
//! Bricks that have more to do than they can are late. A session that asks another brick then doubles what they have to do, and all
//! are later still. So a session is patient with a brick for as long as its answers have taken lately: their mean, and four
//! times their mean deviation, as TCP waits before it repeats. Each brick has a patience of its own: the bricks of one
//! tablet may have too much to do while those of another one are idle.
//!
//! A brick that is silent tells no time, so it makes nobody patient.
//!
//! Invariant: `LEAST <= patience <= MOST`.
//!
//! Not here: what follows when patience is over (core/quorum). Protocol: docs/protocols/quorum.md, rule 21. Catalogue: I5.

use super::under_way::PATIENCE;
use std::time::Duration;

const LEAST: Duration = PATIENCE;
/// Bricks that take longer than this do not get their users anywhere, whoever is asked.
const MOST: Duration = Duration::from_secs(1);
/// The number of answers over which times are averaged.
const AVERAGED_OVER: i64 = 64;
/// Averages are kept in parts of a nanosecond, so that small changes are not lost.
const PARTS: i64 = 1 << 10;

#[derive(Clone, Copy, Default, Debug)]
pub struct Patience {
    /// In parts.
    mean: i64,
    deviation: i64,
}

impl Patience {
    /// An answer has come after this time.
    pub fn heard(&mut self, time: Duration) {
        let nanos = time.min(2 * MOST).as_nanos() as i64;
        let apart = nanos * PARTS - self.mean;
        self.mean += apart / AVERAGED_OVER;
        self.deviation += (apart.abs() - self.deviation) / AVERAGED_OVER;
    }

    pub fn get(&self) -> Duration {
        let parts = self.mean + 4 * self.deviation;
        let nanos = u64::try_from(parts / PARTS).expect("times are not negative");
        Duration::from_nanos(nanos).clamp(LEAST, MOST)
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
        // One slow answer among many is no reason.
        patience.heard(millis(100));
        assert_eq!(patience.get(), LEAST);
        // Every seventh answer waits for a device.
        (0..700).for_each(|turn| patience.heard(if turn % 7 == 0 { millis(60) } else { millis(1) }));
        assert!((millis(45)..millis(100)).contains(&patience.get()), "{patience:?}");
        (0..1000).for_each(|_| patience.heard(Duration::MAX));
        assert_eq!(patience.get(), MOST);
        (0..1000).for_each(|_| patience.heard(Duration::ZERO));
        assert_eq!(patience.get(), LEAST);
    }
}
