//! The measurements in a simulated cluster: operations per second, their times, and questions on the wire.

use ramhold_base::Instant;
use ramhold_quorum::Class;
use std::ops::Range;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Get,
    Put,
}

/// One second.
#[derive(Clone, Default, Debug)]
struct Second {
    /// The times of gets and puts that were done, in microseconds.
    times: [Vec<u32>; 2],
    failed: u64,
}

/// The number of failures whose reasons are kept.
const REASON_COUNT_MAX: usize = 5;

#[derive(Clone, Default, Debug)]
pub struct Measures {
    seconds: Vec<Second>,
    /// Questions of each class that sessions asked.
    pub questions: [u64; Class::ALL.len()],
    /// The moments at which anything was asked.
    pub rounds: u64,
    asked_at: Option<Instant>,
    pub reasons: Vec<String>,
}

impl Measures {
    fn second(&mut self, now: Instant) -> &mut Second {
        let at = (now.0 / 1_000_000_000) as usize;
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, Second::default());
        }
        &mut self.seconds[at]
    }

    pub fn ended(&mut self, now: Instant, kind: Kind, time: Duration, is_done: bool) {
        let second = self.second(now);
        if is_done {
            second.times[kind as usize].push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
        } else {
            second.failed += 1;
        }
    }

    pub fn note_failure(&mut self, reason: &str) {
        if self.reasons.len() < REASON_COUNT_MAX {
            self.reasons.push(reason.to_owned());
        }
    }

    pub fn asked(&mut self, now: Instant, classes: [u64; Class::ALL.len()]) {
        if classes.iter().all(|count| *count == 0) {
            return;
        }
        self.questions.iter_mut().zip(classes).for_each(|(all, some)| *all += some);
        if self.asked_at != Some(now) {
            self.asked_at = Some(now);
            self.rounds += 1;
        }
    }

    fn within(&self, seconds: Range<usize>) -> impl Iterator<Item = &Second> {
        let end = seconds.end.min(self.seconds.len());
        self.seconds[seconds.start.min(end)..end].iter()
    }

    /// Operations per second that were done.
    pub fn rate(&self, kind: Kind, seconds: Range<usize>) -> f64 {
        let length = seconds.len() as f64;
        self.within(seconds).map(|second| second.times[kind as usize].len() as f64).sum::<f64>() / length
    }

    /// Operations done in the worst second.
    pub fn worst(&self, kind: Kind, seconds: Range<usize>) -> f64 {
        let rates = seconds.map(|second| self.rate(kind, second..second + 1));
        rates.fold(f64::INFINITY, f64::min)
    }

    pub fn failed(&self) -> u64 {
        self.seconds.iter().map(|second| second.failed).sum()
    }

    /// All times, in order, in microseconds.
    pub fn times(&self, kind: Kind, seconds: Range<usize>) -> Vec<u32> {
        let mut all: Vec<u32> =
            self.within(seconds).flat_map(|second| second.times[kind as usize].iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// The time in milliseconds that so many of 1,000 operations take at most.
    pub fn quantile(&self, kind: Kind, seconds: Range<usize>, permille: usize) -> f64 {
        let times = self.times(kind, seconds);
        let at = (times.len() * permille / 1000).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |micros| f64::from(*micros) / 1e3)
    }
}
