//! How a loop waits that finds nothing to do: it looks again, gives its core away in between, or sleeps.
//!
//! A sleep and a wake-up cost more than a short wait. So a loop looks again for a while before it sleeps. Where other
//! processes want the same core, each look keeps them from work, perhaps from the work that this loop waits for. So between
//! its looks the loop gives the core away. If it does not get the core back at once, somebody else has used it. After
//! `USED_MAX` such gifts in one wait the loop sleeps: it has then let others work and looked twice, and its own looks have
//! cost about as much as the sleep. So of several loops on one core most sleep, and the last one looks on: a core that
//! is awake takes up the next one without the delay of a core that sleeps.
//!
//! A sleep that was over soon was a mistake: it cost itself, the bell that ended it, and two more changes of process, while the
//! work that the loop waited for was being done. After one the loop is patient, until it has slept for longer: it sleeps after
//! `USED_MAX_PATIENT` gifts. Where many want the core, the time until the loop gets it back counts as sleep.
//!
//! Else each wait is judged by itself, because who uses a core changes within microseconds. The last gift alone says how soon
//! the next wait gives the core away.
//!
//! Invariants:
//! - `Poll::Busy` never sleeps and never gives its core away, `Poll::Sleep` never looks twice;
//! - where others use the core, a wait takes a few looks of this loop's own, at most eight.
//!
//! Not here: the wait itself (runtime). Decision: 0031. Catalogue: E2.

use crate::config::Poll;
use ramhold_base::Instant;
use std::time::Duration;

/// Giving the core away takes less than this when nobody wants it.
const GIVING_MAX: Duration = Duration::from_micros(3);
/// A look that takes longer than this was interrupted: others had the core for the rest of the time.
const LOOK_MAX: Duration = Duration::from_micros(5);
/// The core is given away whenever the loop has looked for so long, so that others wait for a few microseconds at most.
/// After each look once others have used it.
const GIFT_INTERVAL: Duration = Duration::from_micros(2);
/// A wait ends in sleep when others have used the core so often in it. Once is often a process that works for this one.
const USED_MAX: u32 = 2;
/// The same while the loop is patient: with three backups on two cores a replicated write is over after four to eight uses.
const USED_MAX_PATIENT: u32 = 8;
/// After a sleep that was over so soon the loop is patient, since looking on would have been cheaper. A
/// sleep that is over within 20 us was none: something had come already.
const SLEPT_SHORT: Duration = Duration::from_micros(100);

/// The loop's next act after it has found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Look,
    /// Look, and let others have the core before the next look.
    GiveAway,
    /// Wait in the kernel until something comes.
    Sleep,
}

/// Figures about the loop's waiting; each only grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polled {
    /// Processor time of looks that found nothing.
    pub idle: Duration,
    pub sleeps: u64,
    /// Waits that were cut short because others used the core.
    pub shared: u64,
}

#[derive(Debug)]
pub(crate) struct Polling {
    poll: Poll,
    polled: Polled,
    /// When the next gift is due, if the wait has begun to look.
    gift_at: Option<Instant>,
    /// In this wait.
    gifts_used: u32,
    /// Others used the last gift.
    is_wanted: bool,
    /// The last sleep was a short one.
    is_patient: bool,
}

impl Polling {
    pub fn new(poll: Poll) -> Polling {
        Polling {
            poll,
            polled: Polled::default(),
            gift_at: None,
            gifts_used: 0,
            is_wanted: false,
            is_patient: false,
        }
    }

    /// The loop has nothing to do and begins to wait.
    pub fn begin(&mut self) {
        (self.gift_at, self.gifts_used) = (None, 0);
    }

    /// The act that is due at `now`, when there was work last at `last_work`.
    pub fn next(&mut self, now: Instant, last_work: Instant) -> Next {
        let spin = match self.poll {
            Poll::Busy => return Next::Look,
            Poll::Sleep => return Next::Sleep,
            Poll::Adaptive { spin } => spin,
        };
        if now >= last_work + spin {
            return Next::Sleep;
        }
        if self.gifts_used >= if self.is_patient { USED_MAX_PATIENT } else { USED_MAX } {
            self.polled.shared += 1;
            return Next::Sleep;
        }
        let gift_at = *self.gift_at.get_or_insert(now + GIFT_INTERVAL);
        if self.is_wanted || now >= gift_at {
            self.gift_at = None;
            return Next::GiveAway;
        }
        Next::Look
    }

    /// A look that found nothing took so long.
    pub fn looked(&mut self, took: Duration) {
        self.polled.idle += took.min(LOOK_MAX);
    }

    /// The core was given away, and came back after `took`.
    pub fn gave_away(&mut self, took: Duration) {
        self.is_wanted = took > GIVING_MAX;
        if self.is_wanted {
            self.gifts_used += 1;
        } else {
            self.polled.idle += took;
        }
    }

    /// It slept for so long, until something came or its time was over.
    pub fn slept(&mut self, time: Duration, has_come: bool) {
        self.polled.sleeps += 1;
        self.is_patient = has_come && time <= SLEPT_SHORT;
    }

    pub fn polled(&self) -> Polled {
        self.polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: u64 = 1000;
    const LOOK: Duration = Duration::from_micros(1);
    const SOON: Duration = Duration::from_nanos(300);
    const LONG: Duration = Duration::from_millis(1);
    /// Others have used the core for a moment.
    const USED: Duration = Duration::from_micros(4);
    /// And for longer.
    const LATE: Duration = Duration::from_micros(10);

    /// The looks and the gifts of a loop that finds nothing until it sleeps. Giving away takes `takes`, by number of gift.
    fn wait(polling: &mut Polling, now: &mut Instant, takes: impl Fn(u32) -> Duration) -> (u32, u32) {
        let last_work = *now;
        let (mut looks, mut gifts) = (0, 0);
        polling.begin();
        loop {
            let next = polling.next(*now, last_work);
            if next == Next::Sleep {
                polling.slept(LONG, true);
                return (looks, gifts);
            }
            looks += 1;
            *now = *now + LOOK;
            polling.looked(LOOK);
            if next == Next::GiveAway {
                gifts += 1;
                let took = takes(gifts);
                *now = *now + took;
                polling.gave_away(took);
            }
            assert!(looks < 100_000, "it never sleeps");
        }
    }

    // E2
    #[test]
    fn a_loop_that_is_alone_looks_for_its_time_and_then_sleeps() {
        let mut polling = Polling::new(Poll::ADAPTIVE);
        let mut now = Instant(1_000_000_000);
        for _ in 0..1000 {
            let begun = now;
            let (looks, gifts) = wait(&mut polling, &mut now, |_| SOON);
            assert!(
                (40..=50).contains(&looks) && (looks / 4..=looks / 3).contains(&gifts),
                "{looks} {gifts}"
            );
            assert!(now.since(begun) >= Duration::from_micros(50));
        }
        let polled = polling.polled();
        assert_eq!((polled.sleeps, polled.shared), (1000, 0));
        assert!(polled.idle > Duration::from_millis(49) && polled.idle < Duration::from_millis(52));
    }

    // E2
    #[test]
    fn a_loop_whose_core_others_use_sleeps_after_two_looks() {
        let mut polling = Polling::new(Poll::ADAPTIVE);
        let mut now = Instant(1_000_000_000);
        wait(&mut polling, &mut now, |_| USED);
        let idle = polling.polled().idle;
        for _ in 0..1000 {
            assert_eq!(wait(&mut polling, &mut now, |_| USED), (USED_MAX, USED_MAX));
        }
        let polled = polling.polled();
        assert_eq!((polled.sleeps, polled.shared), (1001, 1001));
        assert_eq!(polled.idle - idle, 1000 * USED_MAX * LOOK, "the time of others is not its own");
    }

    // E2
    #[test]
    fn a_loop_learns_at_once_that_the_others_are_gone() {
        let mut polling = Polling::new(Poll::ADAPTIVE);
        let mut now = Instant(1_000_000_000);
        for _ in 0..1000 {
            assert_eq!(wait(&mut polling, &mut now, |_| USED).1, USED_MAX);
            let (looks, gifts) = wait(&mut polling, &mut now, |_| SOON);
            assert!(looks >= 40 && gifts <= 1 + looks / 3, "{looks} {gifts}");
        }
    }

    // E2
    #[test]
    fn a_sleep_that_was_over_soon_makes_patient_and_a_long_one_ends_that() {
        let mut polling = Polling::new(Poll::ADAPTIVE);
        let mut now = Instant(1_000_000_000);
        for _ in 0..100 {
            assert_eq!(wait(&mut polling, &mut now, |_| USED).1, USED_MAX);
            polling.slept(SLEPT_SHORT, true);
            assert_eq!(wait(&mut polling, &mut now, |_| USED).1, USED_MAX_PATIENT);
            // Nothing came: it was to wake up then.
            polling.slept(SLEPT_SHORT, false);
        }
    }

    // E2: somebody works once while this loop waits, for example for this loop.
    #[test]
    fn one_use_of_the_core_ends_no_wait() {
        let mut polling = Polling::new(Poll::ADAPTIVE);
        let mut now = Instant(1_000_000_000);
        for _ in 0..1000 {
            let (looks, _) = wait(&mut polling, &mut now, |gift| if gift == 3 { LATE } else { SOON });
            assert!(looks >= 30, "{looks}");
        }
        assert_eq!(polling.polled().shared, 0);
    }

    // E2
    #[test]
    fn time_that_others_use_is_not_idle_time_of_this_loop() {
        let mut polling = Polling::new(Poll::ADAPTIVE);
        polling.looked(Duration::from_millis(4));
        assert_eq!(polling.polled().idle, LOOK_MAX, "it was interrupted");
        polling.gave_away(LATE);
        assert_eq!(polling.polled().idle, LOOK_MAX);
        polling.gave_away(SOON);
        assert_eq!(polling.polled().idle, LOOK_MAX + SOON);
    }

    // E2
    #[test]
    fn busy_never_sleeps_and_sleep_never_looks_twice() {
        let (mut busy, mut sleep) = (Polling::new(Poll::Busy), Polling::new(Poll::Sleep));
        for micros in 0..10_000 {
            let now = Instant(micros * MICRO);
            assert_eq!(busy.next(now, Instant::ZERO), Next::Look);
            assert_eq!(sleep.next(now, now), Next::Sleep);
        }
    }
}
