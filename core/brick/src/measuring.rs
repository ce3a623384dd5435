//! The report of this brick: its 17 statistics since the report before.
//!
//! The process tells how much of a processor and of memory it uses, and since when questions may have waited that it finds;
//! the queues count the rest. A process that gets too little of a processor answers each question at once when it comes to
//! it. Its questions wait before that, where only the time since its last look tells of them.
//!
//! The length of a queue is the mean since the report before: the sum of all times from arrival to answer, by the time that
//! has passed (Little). The present length would be that of a moment at which the process has just answered all. Answers and
//! refusals are those in `ANNOUNCE_INTERVAL`, whatever time has passed.
//!
//! Not here: the counting (`queues`), the comparison (`judging`). Source: DSTORE04 7, Table II. Protocol:
//! docs/protocols/quorum.md, rule 64. Catalogue: I6.

use crate::BrickStatistics;
use ramhold_base::Instant;
use ramhold_quorum::Class;
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use ramhold_wire::statistics::{Queue, Statistic, Statistics};
use std::time::Duration;

/// A report is due a little earlier than the announcement that it goes with, so that none of these is without.
const REPORT_INTERVAL: Duration = Duration::from_millis(ANNOUNCE_INTERVAL.as_millis() as u64 * 9 / 10);

/// The process's report about itself.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    at: Instant,
    /// Processor time since its start.
    processor: Duration,
}

/// The measuring of one life.
#[derive(Debug, Default)]
pub struct Measuring {
    /// Questions that the process finds had not come by then. Zero: nobody tells.
    pub(crate) came_after: Instant,
    /// The newest, and the newest at the report before.
    usage: Usage,
    reported_usage: Usage,
    cpu_permille: u64,
    memory_permille: u64,
    /// The counts at the report before.
    reported: BrickStatistics,
    reported_at: Instant,
    next: Instant,
}

/// The unit of a length: such a part of a question.
const LENGTH_PARTS: u128 = 1000;

fn queue_of(class: Class) -> Queue {
    match class {
        Class::Get => Queue::Get,
        Class::Put => Queue::Put,
        Class::Stamp => Queue::Stamp,
    }
}

impl Measuring {
    /// The process has used so much processor time since its start, and holds so much of so much memory.
    pub fn on_usage(&mut self, now: Instant, processor: Duration, (memory_bytes, of): (u64, u64)) {
        self.usage = Usage { at: now, processor };
        self.memory_permille = memory_bytes.saturating_mul(1000) / of.max(1);
    }

    /// When a question came that is handed on now.
    pub(crate) fn came(&self, now: Instant) -> Instant {
        if self.came_after == Instant::ZERO { now } else { self.came_after.min(now) }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// The statistics since the report before. Rates are counted from here on anew.
    pub fn report(&mut self, now: Instant, counted: BrickStatistics) -> Statistics {
        self.next = now + REPORT_INTERVAL;
        let elapsed = self.usage.at.since(self.reported_usage.at).as_nanos();
        let used = self.usage.processor.saturating_sub(self.reported_usage.processor).as_nanos();
        // Without news of the process since the report before, the last number stands.
        if let Some(permille) = (used * 1000).checked_div(elapsed) {
            self.cpu_permille = u64::try_from(permille).unwrap_or(u64::MAX);
            self.reported_usage = self.usage;
        }
        let is_first = self.reported_at == Instant::ZERO;
        let since = now.since(std::mem::replace(&mut self.reported_at, now)).as_nanos();
        // A process that gets too little of a processor reports late, too.
        let in_interval = |count: u64| {
            let even = (u128::from(count) * ANNOUNCE_INTERVAL.as_nanos()).checked_div(since);
            even.filter(|_| !is_first).map_or(count, |even| u64::try_from(even).unwrap_or(u64::MAX))
        };
        let mut statistics = Statistics::default();
        statistics.set(Statistic::Cpu, self.cpu_permille);
        statistics.set(Statistic::Memory, self.memory_permille);
        for class in Class::ALL {
            let (of_class, before) = (counted.of(class), self.reported.of(class));
            let queue = queue_of(class);
            let success = of_class.success - before.success;
            let waited = (of_class.waited - before.waited) * LENGTH_PARTS;
            let mean = waited.checked_div(since).filter(|_| success > 0);
            // A queue that stands still tells no times.
            let length = mean.unwrap_or(u128::from(of_class.queue_length) * LENGTH_PARTS);
            statistics.set(Statistic::QueueLength(queue), u64::try_from(length).unwrap_or(u64::MAX));
            statistics.set(Statistic::Success(queue), in_interval(success));
            statistics.set(Statistic::Dropped(queue), in_interval(of_class.dropped - before.dropped));
            statistics.set(Statistic::QueueDelay(queue), of_class.queue_delay.nanos());
            statistics.set(Statistic::Latency(queue), of_class.latency.nanos());
        }
        self.reported = counted;
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6
    #[test]
    fn a_report_counts_since_the_one_before_and_averages_go_on() {
        let at = |millis| Instant(1_000_000_000) + Duration::from_millis(millis);
        let mut measuring = Measuring::default();
        let mut counted = BrickStatistics::default();
        let of_puts = counted.of_mut(Class::Put);
        (of_puts.success, of_puts.dropped, of_puts.queue_length) = (900, 3, 5);
        (0..50_000).for_each(|_| of_puts.latency.add(Duration::from_millis(2)));
        measuring.on_usage(at(0), Duration::from_secs(7), (300, 1000));
        let first = measuring.report(at(0), counted);
        let of =
            |statistics: &Statistics, statistic: fn(Queue) -> Statistic| statistics.of(statistic(Queue::Put));
        assert_eq!((of(&first, Statistic::Success), of(&first, Statistic::Dropped)), (900, 3));
        assert!(!measuring.is_due(at(449)) && measuring.is_due(at(450)));
        counted.of_mut(Class::Put).success = 1000;
        counted.of_mut(Class::Put).queue_length = 1;
        counted.of_mut(Class::Get).queue_length = 2;
        // 100 puts waited for 40 ms each.
        counted.of_mut(Class::Put).waited += 100 * 40_000_000;
        measuring.on_usage(at(500), Duration::from_millis(7400), (400, 1000));
        let second = measuring.report(at(800), counted);
        let per_interval = (of(&second, Statistic::Success), of(&second, Statistic::Dropped));
        assert_eq!(per_interval, (62, 0), "100 in 800 ms");
        assert_eq!((second.of(Statistic::Cpu), second.of(Statistic::Memory)), (800, 400));
        assert_eq!(of(&second, Statistic::QueueLength), 5000, "4 s of waiting in 800 ms");
        let of_gets = second.of(Statistic::QueueLength(Queue::Get));
        assert_eq!(of_gets, 2000, "nothing was answered: the present length");
        assert!(of(&second, Statistic::Latency).abs_diff(2_000_000) < 100, "{second:?}");
        assert_eq!(second.of(Statistic::Latency(Queue::Get)), 0);
        // Nothing was told of the process meanwhile: the last numbers stand.
        assert_eq!(measuring.report(at(1000), counted).of(Statistic::Cpu), 800);
    }

    // I6: a process that comes late to its questions answers each at once.
    #[test]
    fn questions_came_after_the_last_look_of_the_process() {
        let at = |millis| Instant(1_000_000_000) + Duration::from_millis(millis);
        let mut measuring = Measuring::default();
        assert_eq!(measuring.came(at(7)), at(7), "nobody tells");
        measuring.came_after = at(3);
        assert_eq!(measuring.came(at(7)), at(3));
        assert_eq!(measuring.came(at(2)), at(2), "a step has the time of its turn");
    }
}
