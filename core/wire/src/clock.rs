//! The cluster time, as one server knows it.
//!
//! The coordinator's clock is the cluster's clock, and a server asks the coordinator for its time. If the
//! answer says T and comes `rtt` after the question, the coordinator's clock now shows at least T and at most
//! T + rtt. The server keeps the span that all answers agree on, and widens it by the drift between two
//! clocks. An answer whose round trip is shorter than the width of the span sets the clock to the middle.
//! Other answers only keep the clock within the span. One quick answer among many is therefore enough, and
//! the error is about half of the shortest round trip.
//!
//! An answer that contradicts the span replaces it. A time that comes without a question only says that the
//! time is at least that late, and a coordinator that has just started may say too much. Such a time bounds
//! the span from below and never replaces it.
//!
//! Invariant: the time that the clock tells never goes back. When the clock is set to a time before one that
//! it has told already, it goes on at half speed until the time has caught up.
//!
//! Not here: asking the coordinator (node). Catalogue: A12, B1. Rules: docs/protocols/membership.md, "Cluster
//! time".

use ramhold_base::{ClusterTime, Instant};
use std::time::Duration;

/// Two clocks drift apart by at most one part in `DRIFT_PARTS`, which is 200 parts per million: half for two
/// quartz clocks, and half for a coordinator that has begun ahead and goes slower. Clocks that drift more are
/// set right by every contradiction.
const DRIFT_PARTS: u64 = 5_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// A time that came without a question is assumed to be at most this late, as long as no answer bounds the
/// span.
const TOLD_LATE_NANOS: u64 = 10_000 * NANOS_PER_MILLI;
/// The clock of another server that has not asked for long may be this far behind the coordinator's, in
/// addition to the drift between two clocks: the time between two questions after a coordinator's start.
const BEHIND_NANOS: u64 = 1_000 * NANOS_PER_MILLI;
/// When a coordinator has started with another time, all servers have asked it after this long: each asks
/// every second.
const AGREED_AFTER: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterClock {
    /// When the span was computed.
    at: Instant,
    /// The coordinator's clock at that moment, in nanoseconds since 1970: at least and at most.
    least: u64,
    most: u64,
    /// The time that the clock was set to.
    set: u64,
    /// The time that the clock told when the span last changed.
    floor: u64,
    /// From this instant on all servers will have heard of the time that this server has heard of. Zero: the
    /// coordinator has not answered a question yet.
    agreed_at: Instant,
}

impl ClusterClock {
    /// The coordinator's clock showed `micros` since 1970 after `sent`, and its answer comes now.
    pub fn answered(&mut self, sent: Instant, now: Instant, micros: u64) {
        let least = micros.saturating_mul(1000);
        let is_first = self.agreed_at == Instant::ZERO;
        let jump = self.narrow(now, least, least.saturating_add(nanos(now.since(sent))));
        // Two clocks that drift more than expected contradict each other a little, with every answer.
        if is_first || jump > BEHIND_NANOS / 2 {
            self.agreed_at = now + AGREED_AFTER;
        }
    }

    /// The coordinator's clock showed `time` at some moment before now.
    pub fn told(&mut self, now: Instant, time: ClusterTime) {
        let least = time.0.saturating_mul(NANOS_PER_MILLI);
        if self.most == 0 {
            // The first time that is known. Nothing bounds it from above.
            let most = least.saturating_add(TOLD_LATE_NANOS);
            *self = ClusterClock { at: now, least, most, set: least, floor: 0, agreed_at: Instant::ZERO };
            return;
        }
        // Nothing says that the time is later than the one told, so the middle of the span would be ahead.
        let most = self.most_at(now);
        let least = least.min(most).max(self.least_at(now));
        let floor = self.nanos_at(now);
        let set = self.set.saturating_add(nanos(now.since(self.at))).clamp(least, most);
        *self = ClusterClock { at: now, least, most, set, floor, ..*self };
    }

    /// The cluster time.
    pub fn time(&self, now: Instant) -> ClusterTime {
        ClusterTime(self.nanos_at(now) / NANOS_PER_MILLI)
    }

    /// A time that is past for every server that may serve from now on, by that server's own clock. Unlike
    /// `time`, it may go back. None: the coordinator has not answered yet, so this clock may be ahead of all
    /// others; or the coordinator has just started with another time, and other servers may not have heard of
    /// that.
    pub fn past_for_all(&self, now: Instant) -> Option<ClusterTime> {
        let span = self.most_at(now).saturating_sub(self.least_at(now));
        let past = self.least_at(now).saturating_sub(span).saturating_sub(BEHIND_NANOS);
        let is_agreed = self.agreed_at != Instant::ZERO && self.agreed_at <= now;
        is_agreed.then_some(ClusterTime(past / NANOS_PER_MILLI))
    }

    /// The distance between the earliest and the latest time that the coordinator's clock may show.
    pub fn span(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.most_at(now).saturating_sub(self.least_at(now)))
    }

    fn nanos_at(&self, now: Instant) -> u64 {
        let passed = nanos(now.since(self.at));
        self.set.saturating_add(passed).max(self.floor.saturating_add(passed / 2))
    }

    /// Narrows the span by an answer. Returns by how much the answer contradicts the span.
    fn narrow(&mut self, now: Instant, least: u64, most: u64) -> u64 {
        let floor = self.nanos_at(now);
        let (known_least, known_most) = (self.least_at(now), self.most_at(now));
        let set = self.set.saturating_add(nanos(now.since(self.at)));
        let jump = known_least.saturating_sub(most).max(least.saturating_sub(known_most));
        let is_contradicted = jump > 0;
        let is_better = most - least < known_most - known_least;
        let (least, most) =
            if is_contradicted { (least, most) } else { (least.max(known_least), most.min(known_most)) };
        let set = if is_contradicted || is_better { least.midpoint(most) } else { set.clamp(least, most) };
        *self = ClusterClock { at: now, least, most, set, floor, ..*self };
        jump
    }

    fn least_at(&self, now: Instant) -> u64 {
        let passed = nanos(now.since(self.at));
        self.least.saturating_add(passed - passed / DRIFT_PARTS)
    }

    fn most_at(&self, now: Instant) -> u64 {
        let passed = nanos(now.since(self.at));
        self.most.saturating_add(passed).saturating_add(passed / DRIFT_PARTS)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;

    const START_MICROS: u64 = 1_700_000_000_000_000;
    const MILLI: u64 = NANOS_PER_MILLI;

    /// A coordinator whose clock began with this process's clock, and is faster by `ppm` parts per million.
    fn coordinator_micros(now: u64, ppm: u64) -> u64 {
        START_MICROS + now / 1000 + now / 1000 * ppm / 1_000_000
    }

    // A12
    #[test]
    fn questions_with_slow_answers_and_a_quick_one_now_and_then_keep_within_a_millisecond() {
        for (ppm, seed) in [0, 50].into_iter().flat_map(|ppm| (0..20).map(move |seed| (ppm, seed))) {
            let mut rng = Rng::new(seed);
            let mut clock = ClusterClock::default();
            let mut now = 0;
            for second in 0..600u64 {
                now += 1000 * MILLI;
                // Either the way there is slow, or the way back; every second question is answered within a
                // millisecond.
                let (there, back) = match rng.below(10) {
                    0..5 => (rng.below(MILLI / 2), rng.below(MILLI / 2)),
                    5..7 => (rng.below(50 * MILLI), MILLI / 10),
                    _ => (MILLI / 10, rng.below(50 * MILLI)),
                };
                clock.answered(
                    Instant(now),
                    Instant(now + there + back),
                    coordinator_micros(now + there, ppm),
                );
                now += there + back;
                let error = clock.nanos_at(Instant(now)).abs_diff(coordinator_micros(now, ppm) * 1000);
                assert!(second < 30 || error < MILLI, "{error} ns after {second} s, {ppm} ppm, seed {seed}");
            }
        }
    }

    // A12: two servers whose clocks drift to either side, for a day without a coordinator.
    #[test]
    fn what_is_past_for_all_is_past_by_every_clock() {
        let mut clocks = [ClusterClock::default(); 2];
        assert_eq!(clocks[0].past_for_all(Instant(0)), None);
        for clock in &mut clocks {
            clock.told(Instant(0), ClusterTime(START_MICROS / 1000 + 10_000));
            assert_eq!(clock.past_for_all(Instant(0)), None, "it may be ahead");
            clock.answered(Instant(MILLI), Instant(3 * MILLI), START_MICROS + 2000);
        }
        for second in [4, 60, 3600, 86_400] {
            let now = second * 1000 * MILLI;
            let (fast, slow) = (Instant(now + now / 10_000), Instant(now - now / 10_000));
            let past = clocks[0].past_for_all(fast).expect("it was answered");
            let (behind, true_time) = (clocks[1].time(slow), START_MICROS / 1000 + now / MILLI);
            assert!(past < behind, "{past:?} {behind:?} after {second} s");
            assert!(true_time - past.0 < 1010 + second, "no more than need be");
        }
    }

    // A12, G2: other servers hear of the new time up to a second later, and are behind until then.
    #[test]
    fn after_a_coordinator_has_started_with_another_time_nothing_is_past_for_all_for_a_while() {
        let second = 1000 * MILLI;
        let mut clock = ClusterClock::default();
        clock.answered(Instant(second), Instant(second), START_MICROS);
        assert_eq!(clock.past_for_all(Instant(second)), None);
        assert!(clock.past_for_all(Instant(5 * second)).is_some());
        clock.answered(Instant(5 * second), Instant(5 * second), START_MICROS + 14_000_000);
        assert_eq!(clock.past_for_all(Instant(7 * second)), None);
        let past = clock.past_for_all(Instant(9 * second)).expect("all have asked");
        assert_eq!(past.0 / 1000 - START_MICROS / 1_000_000, 16, "18 s, less one and a drift");
        // An answer that agrees changes nothing, and neither does one that is off by the drift of poor
        // clocks.
        clock.answered(Instant(9 * second), Instant(9 * second), START_MICROS + 18_002_000);
        clock.answered(Instant(9 * second), Instant(9 * second + MILLI), START_MICROS + 18_000_000);
        assert!(clock.past_for_all(Instant(9 * second + MILLI)).is_some());
    }

    #[test]
    fn a_time_that_came_without_a_question_is_corrected_by_an_answer() {
        let mut clock = ClusterClock::default();
        // The message was 8 ms on its way.
        clock.told(Instant(8 * MILLI), ClusterTime(START_MICROS / 1000));
        assert_eq!(clock.time(Instant(8 * MILLI)), ClusterTime(START_MICROS / 1000));
        let micros = coordinator_micros(10 * MILLI, 0);
        clock.answered(Instant(10 * MILLI - 1000), Instant(10 * MILLI + 1000), micros);
        assert_eq!(clock.nanos_at(Instant(10 * MILLI + 1000)), micros * 1000 + 1000);
    }

    // A12: a coordinator whose store is slow tells servers of each other before it answers what time it is.
    #[test]
    fn times_that_came_without_a_question_do_not_set_the_clock_ahead() {
        let mut clock = ClusterClock::default();
        let start = START_MICROS / 1000;
        for passed in [0, 20, 500, 520] {
            let now = Instant((8 + passed) * MILLI);
            clock.told(now, ClusterTime(start + passed));
            assert_eq!(clock.time(now), ClusterTime(start + passed));
        }
        // Late news of a time before moves nothing.
        clock.told(Instant(700 * MILLI), ClusterTime(start + 600));
        assert_eq!(clock.time(Instant(700 * MILLI)), ClusterTime(start + 692));
    }

    // A12, G2
    #[test]
    fn a_clock_that_is_ahead_goes_slower_and_never_back() {
        let mut clock = ClusterClock::default();
        let start = START_MICROS * 1000;
        clock.answered(Instant(0), Instant(0), START_MICROS + 10_000);
        let mut last = clock.nanos_at(Instant(0));
        assert_eq!(last, start + 10 * MILLI);
        for step in 1..100 {
            let now = Instant(step * MILLI);
            clock.answered(now, now, coordinator_micros(now.0, 0));
            let told = clock.nanos_at(now);
            assert!(told >= last, "it went back");
            last = told;
        }
        assert_eq!(last, start + 99 * MILLI, "20 ms later it is right again");
    }

    // A12
    #[test]
    fn a_time_without_a_question_that_is_ahead_is_not_followed() {
        let mut clock = ClusterClock::default();
        clock.answered(Instant(0), Instant(MILLI), START_MICROS);
        clock.told(Instant(2 * MILLI), ClusterTime(START_MICROS / 1000 + 9_000));
        let after = clock.nanos_at(Instant(2 * MILLI)) - START_MICROS * 1000;
        assert!(after < 4 * MILLI, "{after}");
    }

    #[test]
    fn an_answer_that_is_ahead_is_followed() {
        let mut clock = ClusterClock::default();
        clock.answered(Instant(0), Instant(MILLI), START_MICROS);
        clock.answered(Instant(5 * MILLI), Instant(6 * MILLI), START_MICROS + 9_000_000);
        assert_eq!(clock.nanos_at(Instant(6 * MILLI)), START_MICROS * 1000 + 9_000 * MILLI + MILLI / 2);
    }

    #[test]
    fn hostile_times_do_not_panic() {
        let mut rng = Rng::new(1);
        let mut clock = ClusterClock::default();
        let mut last = ClusterTime(0);
        for _ in 0..10_000 {
            let now = Instant(rng.u64() >> rng.below(64));
            match rng.below(2) {
                0 => clock.answered(Instant(rng.u64()), now, rng.u64()),
                _ => clock.told(now, ClusterTime(rng.u64())),
            }
            assert!(clock.time(now) >= last || now < clock.at);
            last = clock.time(now);
        }
    }
}
