//! The operating statistics of a brick: five numbers for each class of questions.
//!
//! Those who look for bricks that have become slow compare them with the same numbers of other bricks. Averages follow the
//! questions and not the clock: each question counts with a weight of `1 / AVERAGED_OVER`, so a brick that answers little
//! forgets as slowly as it works.
//!
//! Not here: the processor and the memory of the process, which the process knows itself. Source: DSTORE04 7, Table II.
//! Catalogue: I5, I7.

use ramhold_quorum::Class;
use std::time::Duration;

/// The number of questions after which an average has followed a change by 63 %.
const AVERAGED_OVER: u64 = 5000;

/// A moving average of times, each with the weight `1 / AVERAGED_OVER`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    /// In parts of a nanosecond, so that small changes are not lost.
    parts: u64,
}

const PARTS_PER_NANO: u64 = 1 << 16;
/// Longer times count as this long: an hour.
const NANOS_MAX: u64 = 3_600_000_000_000;

impl Average {
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(NANOS_MAX);
        let parts = nanos * PARTS_PER_NANO;
        if parts >= self.parts {
            self.parts += (parts - self.parts) / AVERAGED_OVER;
        } else {
            self.parts -= (self.parts - parts).div_ceil(AVERAGED_OVER);
        }
    }

    pub fn nanos(self) -> u64 {
        self.parts / PARTS_PER_NANO
    }
}

const _: () = assert!(NANOS_MAX < u64::MAX / PARTS_PER_NANO);

/// The statistics of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassStatistics {
    /// Questions that wait now: for their turn, or until something is durable.
    pub queue_length: u64,
    /// Questions that were answered since the start.
    pub success: u64,
    /// Questions that were refused since the start because too much waited, or for want of memory.
    pub dropped: u64,
    /// From the arrival of a question until its turn.
    pub queue_delay: Average,
    /// From the arrival of a question until its answer.
    pub latency: Average,
    /// The sum of these times since the start, in nanoseconds.
    pub waited: u128,
}

/// The statistics of a brick since its start: 15 of the 17 of Table II.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BrickStatistics {
    classes: [ClassStatistics; Class::ALL.len()],
}

/// The number of statistics.
pub const STATISTIC_COUNT: usize = 5 * Class::ALL.len();

impl BrickStatistics {
    pub fn of(&self, class: Class) -> &ClassStatistics {
        &self.classes[class.index()]
    }

    pub(crate) fn of_mut(&mut self, class: Class) -> &mut ClassStatistics {
        &mut self.classes[class.index()]
    }

    /// All of them by name, averages in nanoseconds.
    pub fn all(&self) -> [(&'static str, Class, u64); STATISTIC_COUNT] {
        let mut all = [("", Class::Get, 0); STATISTIC_COUNT];
        for (at, class) in Class::ALL.into_iter().enumerate() {
            let ClassStatistics { queue_length, success, dropped, queue_delay, latency, .. } =
                *self.of(class);
            let of_class = [
                ("queue_length", class, queue_length),
                ("success", class, success),
                ("dropped", class, dropped),
                ("queue_delay", class, queue_delay.nanos()),
                ("latency", class, latency.nanos()),
            ];
            all[at * 5..][..5].copy_from_slice(&of_class);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    // I5: 1 - (1 - 1/5000)^5000 is 63.2 %.
    #[test]
    fn an_average_has_followed_a_change_by_63_percent_after_5000_questions() {
        let mut average = Average::default();
        (0..5000).for_each(|_| average.add(Duration::from_micros(100)));
        let nanos = average.nanos();
        assert!((63_200..63_300).contains(&nanos), "{nanos}");
        (0..200_000).for_each(|_| average.add(Duration::from_micros(100)));
        assert!(average.nanos().abs_diff(100_000) <= 1, "{}", average.nanos());
        (0..200_000).for_each(|_| average.add(Duration::ZERO));
        assert_eq!(average.nanos(), 0);
        (0..200_000).for_each(|_| average.add(Duration::MAX));
        assert!(average.nanos() <= NANOS_MAX);
    }

    // I5
    #[test]
    fn there_are_fifteen_statistics_with_names_of_their_own() {
        let all = BrickStatistics::default().all();
        let names: BTreeSet<(&str, Class)> = all.iter().map(|(name, class, _)| (*name, *class)).collect();
        assert_eq!(names.len(), 15);
    }
}
