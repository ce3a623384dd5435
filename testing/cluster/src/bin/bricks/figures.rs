//! Figures of a run, each against its limit.

use std::time::Duration;

/// Times of one kind of operation, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<u32>);

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    pub fn extend(&mut self, other: Times) {
        self.0.extend(other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Call it once all times are there.
    pub fn sorted(mut self) -> Sorted {
        self.0.sort_unstable();
        Sorted(self.0)
    }
}

#[derive(Clone, Debug)]
pub struct Sorted(Vec<u32>);

impl Sorted {
    /// The quantile by nearest rank, in thousandths. Zero when there is no time.
    pub fn quantile(&self, thousandths: usize) -> Duration {
        let rank = (self.0.len() * thousandths).div_ceil(1000).max(1);
        Duration::from_micros(self.0.get(rank - 1).copied().unwrap_or_default().into())
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many took longer.
    pub fn count_above(&self, limit: Duration) -> u64 {
        let limit = u32::try_from(limit.as_micros()).unwrap_or(u32::MAX);
        (self.0.len() - self.0.partition_point(|time| *time <= limit)) as u64
    }
}

pub fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// The figures of one part, printed as they come.
pub struct Figures {
    part: &'static str,
    /// None: no figure has a limit, it is told beside others only.
    is_limited: bool,
    pub is_good: bool,
}

impl Figures {
    pub fn new(part: &'static str, is_limited: bool) -> Figures {
        Figures { part, is_limited, is_good: true }
    }

    /// A figure without a limit.
    pub fn tell(&self, what: &str, figure: &str) {
        println!("{:<9} {what:<44} {figure}", self.part);
    }

    /// A figure, its limit in words, and whether it keeps it.
    pub fn check(&mut self, what: &str, figure: &str, limit: &str, holds: bool) {
        if !self.is_limited {
            return self.tell(what, figure);
        }
        let verdict = if holds { "" } else { "   MISSED" };
        println!("{:<9} {what:<44} {figure:<22} (limit {limit}){verdict}", self.part);
        self.is_good &= holds;
    }

    pub fn check_time(&mut self, what: &str, time: Duration, limit: Duration) {
        self.check(what, &millis(time), &format!("{} ms", limit.as_millis()), time <= limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let mut times = Times::default();
        (1..=1000).rev().for_each(|micros| times.add(Duration::from_micros(micros)));
        let sorted = times.sorted();
        assert_eq!(sorted.quantile(500), Duration::from_micros(500));
        assert_eq!(sorted.quantile(999), Duration::from_micros(999));
        assert_eq!(sorted.quantile(1000), Duration::from_micros(1000));
        assert_eq!(sorted.count_above(Duration::from_micros(990)), 10);
        assert_eq!(Times::default().sorted().quantile(999), Duration::ZERO);
    }
}
