//! The times of a run, by kind of operation.
//!
//! A latency counts from the moment at which an operation was sent. In an open loop it counts from the moment
//! at which the operation was due, so it includes the wait for a place. The times from sending are summed up
//! besides, exactly: with them the figures are checked (little).

use super::link::{Ending, Kind, Tag};
use crate::failure::Failure;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The results of one thread or of all.
#[derive(Debug)]
pub struct Measured {
    /// Latencies in nanoseconds, by kind. A histogram takes hundreds of kilobytes, so there is one only for kinds that
    /// occur.
    times: [Option<Box<Histogram<u64>>>; Kind::ALL.len()],
    /// Nanoseconds from sending to the end, summed up over all operations that were done.
    sent_nanos: u128,
    /// By the text of the status, or "unknown".
    pub errors: BTreeMap<String, u64>,
    /// The first operation that failed.
    pub failed: Option<Failure>,
    pub elapsed: Duration,
}

/// Longer times count as this.
const NANOS_MAX: u64 = 3_600_000_000_000;

fn histogram() -> Box<Histogram<u64>> {
    let bounds = Histogram::new_with_bounds(1, NANOS_MAX, 3);
    Box::new(bounds.expect("these bounds are in order and three digits are allowed"))
}

fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(NANOS_MAX)
}

impl Measured {
    /// Nothing yet.
    pub fn new() -> Measured {
        Measured {
            times: Default::default(),
            sent_nanos: 0,
            errors: BTreeMap::new(),
            failed: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Takes in an operation that has ended at `now`.
    pub fn take(&mut self, tag: Tag, now: Instant, ending: Ending) {
        match ending {
            Ending::Done => {
                let times = self.times[tag.kind as usize].get_or_insert_with(histogram);
                times.saturating_record(nanos(tag.due.unwrap_or(tag.sent), now));
                self.sent_nanos += u128::from(nanos(tag.sent, now));
            }
            Ending::Failed { name, failure } => {
                *self.errors.entry(name).or_default() += 1;
                if self.failed.is_none() {
                    self.failed = Some(failure);
                }
            }
        }
    }

    /// Adds what another thread has measured at the same time.
    pub fn add(&mut self, other: Measured) {
        for (own, others) in self.times.iter_mut().zip(other.times) {
            if let Some(others) = others {
                own.get_or_insert_with(histogram).add(&*others).expect("both have the same bounds");
            }
        }
        self.sent_nanos += other.sent_nanos;
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
        self.failed = self.failed.take().or(other.failed);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// The latencies of a kind in nanoseconds, if there was any.
    pub fn times(&self, kind: Kind) -> Option<&Histogram<u64>> {
        self.times[kind as usize].as_deref()
    }

    /// Operations that were done, of all kinds.
    pub fn done(&self) -> u64 {
        self.times.iter().flatten().map(|times| times.len()).sum()
    }

    /// Operations that were done in a second, of so many.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds()
    }

    /// The mean number of operations under way, by the figures that are told: rate times mean latency.
    pub fn under_way_told(&self) -> f64 {
        let sums = self.times.iter().flatten().map(|times| times.len() as f64 * times.mean());
        sums.sum::<f64>() / 1e9 / self.seconds()
    }

    /// The mean number of operations under way, from sending to the end. Those that failed are left out of both numbers.
    pub fn under_way(&self) -> f64 {
        self.sent_nanos as f64 / 1e9 / self.seconds()
    }

    fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64().max(1e-9)
    }
}
