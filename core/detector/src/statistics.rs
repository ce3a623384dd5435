//! The operating statistics of a brick: 17 numbers, told with each report, by which bricks are compared.
//!
//! Two are of the process. The others are of its queues: of gets, puts and stamps each the length, what was done and
//! dropped since the report before, and moving averages of the delay in the queue and of the latency.
//!
//! All are whole numbers, so that every brick comes to the same verdict from the same reports.
//!
//! Not here: queues, and the measuring. Source: DSTORE04 7, Table II. Catalogue: I6.

use std::time::Duration;

/// How many statistics there are.
pub const STATISTIC_COUNT: usize = 17;

/// The queue of a brick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Queue {
    Get,
    Put,
    Stamp,
}

impl Queue {
    pub const ALL: [Queue; 3] = [Queue::Get, Queue::Put, Queue::Stamp];
}

/// One statistic. Its name and its place never change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Statistic {
    /// The part of the time since the report before in which the process ran, of 1,000.
    Cpu,
    /// The part of its memory that is used, of 1,000.
    Memory,
    /// Questions that wait.
    QueueLength(Queue),
    /// Questions that were answered since the report before.
    Success(Queue),
    /// Questions that were refused because the queue was full, since the report before.
    Dropped(Queue),
    /// Moving average of the time in the queue, in nanoseconds.
    QueueDelay(Queue),
    /// Moving average of the time until the answer, in nanoseconds.
    Latency(Queue),
}

impl Statistic {
    /// In the order of their places.
    pub const ALL: [Statistic; STATISTIC_COUNT] = {
        use Queue::{Get, Put, Stamp};
        use Statistic::{Cpu, Dropped, Latency, Memory, QueueDelay, QueueLength, Success};
        [
            Cpu,
            Memory,
            QueueLength(Get),
            QueueLength(Put),
            QueueLength(Stamp),
            Success(Get),
            Success(Put),
            Success(Stamp),
            Dropped(Get),
            Dropped(Put),
            Dropped(Stamp),
            QueueDelay(Get),
            QueueDelay(Put),
            QueueDelay(Stamp),
            Latency(Get),
            Latency(Put),
            Latency(Stamp),
        ]
    };

    /// Its place among the 17.
    pub const fn place(self) -> usize {
        match self {
            Statistic::Cpu => 0,
            Statistic::Memory => 1,
            Statistic::QueueLength(queue) => 2 + queue as usize,
            Statistic::Success(queue) => 5 + queue as usize,
            Statistic::Dropped(queue) => 8 + queue as usize,
            Statistic::QueueDelay(queue) => 11 + queue as usize,
            Statistic::Latency(queue) => 14 + queue as usize,
        }
    }

    pub const fn name(self) -> &'static str {
        const NAMES: [&str; STATISTIC_COUNT] = [
            "cpu",
            "memory",
            "queue_length_get",
            "queue_length_put",
            "queue_length_stamp",
            "success_get",
            "success_put",
            "success_stamp",
            "dropped_get",
            "dropped_put",
            "dropped_stamp",
            "queue_delay_get",
            "queue_delay_put",
            "queue_delay_stamp",
            "latency_get",
            "latency_put",
            "latency_stamp",
        ];
        NAMES[self.place()]
    }
}

/// The 17 statistics of one report, by their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics(pub [u64; STATISTIC_COUNT]);

impl Statistics {
    pub fn of(&self, statistic: Statistic) -> u64 {
        self.0[statistic.place()]
    }

    pub fn set(&mut self, statistic: Statistic, value: u64) {
        self.0[statistic.place()] = value;
    }
}

/// An exponential moving average whose newest value has the weight 1 / `span`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovingAverage {
    span: i64,
    /// In units of 1 / `FRACTION`.
    scaled: i64,
}

/// The average is exact to about `span / FRACTION`.
const FRACTION: i64 = 1 << 20;
/// The largest value, so that nothing overflows: more than an hour in nanoseconds.
const VALUE_MAX: u64 = 1 << 42;

impl MovingAverage {
    /// Begins with 0.
    pub const fn new(span: u32) -> MovingAverage {
        assert!(span > 0, "a value counts for something");
        MovingAverage { span: span as i64, scaled: 0 }
    }

    pub fn take(&mut self, value: u64) {
        let value = i64::try_from(value.min(VALUE_MAX)).expect("it is bounded");
        self.scaled += (value * FRACTION - self.scaled) / self.span;
    }

    /// Rounded.
    pub fn value(&self) -> u64 {
        u64::try_from((self.scaled + FRACTION / 2) / FRACTION).expect("values are not negative")
    }
}

const _: () = assert!(VALUE_MAX as i128 * FRACTION as i128 <= i64::MAX as i128);

/// The span of delays and latencies: 0.0002 of the paper. A step is passed on by 63 % after so many questions.
pub const QUESTION_SPAN: u32 = 5000;

/// The statistics of one queue since the start, and since the last report.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    success: u64,
    dropped: u64,
    delay: MovingAverage,
    latency: MovingAverage,
}

/// Gathers the statistics of the queues between reports.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    queues: [Gathered; 3],
}

/// The facts about the process at a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtReport {
    pub cpu_permille: u64,
    pub memory_permille: u64,
    /// The lengths of the queues, in the order of `Queue::ALL`.
    pub queue_lengths: [u64; 3],
}

impl Default for Gathering {
    fn default() -> Gathering {
        let average = MovingAverage::new(QUESTION_SPAN);
        Gathering { queues: [Gathered { success: 0, dropped: 0, delay: average, latency: average }; 3] }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Gathering {
    /// A question was answered, after so long in its queue, and in all.
    pub fn answered(&mut self, queue: Queue, (delay, latency): (Duration, Duration)) {
        let gathered = &mut self.queues[queue as usize];
        gathered.success += 1;
        gathered.delay.take(nanos(delay));
        gathered.latency.take(nanos(latency));
    }

    /// A question found its queue full.
    pub fn dropped(&mut self, queue: Queue) {
        self.queues[queue as usize].dropped += 1;
    }

    /// The report. The counts between reports begin anew.
    pub fn report(&mut self, at: AtReport) -> Statistics {
        let mut statistics = Statistics::default();
        statistics.set(Statistic::Cpu, at.cpu_permille);
        statistics.set(Statistic::Memory, at.memory_permille);
        for queue in Queue::ALL {
            let gathered = &mut self.queues[queue as usize];
            statistics.set(Statistic::QueueLength(queue), at.queue_lengths[queue as usize]);
            statistics.set(Statistic::Success(queue), std::mem::take(&mut gathered.success));
            statistics.set(Statistic::Dropped(queue), std::mem::take(&mut gathered.dropped));
            statistics.set(Statistic::QueueDelay(queue), gathered.delay.value());
            statistics.set(Statistic::Latency(queue), gathered.latency.value());
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    // I6
    #[test]
    fn there_are_seventeen_statistics_each_with_a_place_and_a_name_of_its_own() {
        let places: Vec<usize> = Statistic::ALL.iter().map(|statistic| statistic.place()).collect();
        assert!(places.into_iter().eq(0..STATISTIC_COUNT));
        let names: BTreeSet<&str> = Statistic::ALL.iter().map(|statistic| statistic.name()).collect();
        assert_eq!(names.len(), STATISTIC_COUNT);
        assert_eq!(Statistic::QueueDelay(Queue::Stamp).name(), "queue_delay_stamp");
        assert_eq!(Statistic::Success(Queue::Put).name(), "success_put");
        let mut statistics = Statistics::default();
        statistics.set(Statistic::Latency(Queue::Put), 7);
        assert_eq!(statistics.of(Statistic::Latency(Queue::Put)), 7);
        assert_eq!(statistics.0.iter().sum::<u64>(), 7);
    }

    /// The numbers of dstore_golden: 100 after 5,000 questions is 63.2, and 0, 8, 8, 8 with one half is 7.
    // I6
    #[test]
    fn averages_follow_as_the_golden_numbers_say() {
        let mut average = MovingAverage::new(QUESTION_SPAN);
        (0..5000).for_each(|_| average.take(100_000));
        assert!((63_200..63_300).contains(&average.value()), "{average:?}");
        let mut half = MovingAverage::new(2);
        (0..3).for_each(|_| half.take(8));
        assert_eq!(half.value(), 7);
        // It comes to rest at a value that stays, from both sides.
        (0..200_000).for_each(|_| average.take(100_000));
        assert_eq!(average.value(), 100_000);
        (0..200_000).for_each(|_| average.take(3));
        assert_eq!(average.value(), 3);
        (0..200_000).for_each(|_| average.take(u64::MAX));
        assert_eq!(average.value(), VALUE_MAX);
    }

    // I6
    #[test]
    fn a_report_counts_since_the_one_before_and_averages_go_on() {
        let mut gathering = Gathering::default();
        let times = (Duration::from_millis(5), Duration::from_millis(50));
        (0..10_000).for_each(|_| gathering.answered(Queue::Put, times));
        (0..3).for_each(|_| gathering.dropped(Queue::Get));
        let at = AtReport { cpu_permille: 420, memory_permille: 800, queue_lengths: [1, 2, 3] };
        let first = gathering.report(at);
        assert_eq!(first.of(Statistic::Cpu) + first.of(Statistic::Memory), 1220);
        assert_eq!(first.of(Statistic::QueueLength(Queue::Stamp)), 3);
        assert_eq!(
            (first.of(Statistic::Success(Queue::Put)), first.of(Statistic::Dropped(Queue::Get))),
            (10_000, 3)
        );
        let second = gathering.report(at);
        assert_eq!(
            (second.of(Statistic::Success(Queue::Put)), second.of(Statistic::Dropped(Queue::Get))),
            (0, 0)
        );
        let latency = second.of(Statistic::Latency(Queue::Put));
        assert!((43_000_000..43_500_000).contains(&latency), "86.5 % of 50 ms: {latency}");
        assert_eq!(latency, first.of(Statistic::Latency(Queue::Put)));
        assert_eq!(second.of(Statistic::Latency(Queue::Get)), 0);
    }
}
