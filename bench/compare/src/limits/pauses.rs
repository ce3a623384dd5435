//! Pauses of cores that only spin: interrupts, other processes, and the host of a virtual machine.
//!
//! Two threads look at the clock, one on core 0 and one on core 1, as a server and a client do that are busy. A pause is
//! a step of the clock that is far longer than a look takes.
//!
//! A pause stops a server and lets requests queue up. With a part `load` of its time taken it works them off in
//! `load / (1 - load)` times the pause, and all that come until then are late. So with pauses for a part `part` of the time
//! on each of two cores, about `2 * part / (1 - load)` of all operations are late, whatever the server does. A p99 within
//! few times the p50 needs this to be less than 0.01.

use crate::process::{can_pin, pin};
use std::time::{Duration, Instant};

/// Shorter ones are of no consequence beside a queue.
const PAUSE_MIN: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pauses {
    pub per_second: f64,
    /// The part of the time that was spent in pauses, 0 to 1.
    pub part: f64,
    /// In microseconds; 0: there was none.
    pub longest: f64,
}

/// For core 0 and core 1, or for core 0 where there is only one.
pub fn measure(time: Duration) -> Vec<Pauses> {
    let cores = if can_pin() { 0..2 } else { 0..1 };
    let spins = cores.map(|core| {
        std::thread::spawn(move || {
            pin(core);
            spin(time)
        })
    });
    let spins: Vec<_> = spins.collect();
    spins.into_iter().filter_map(|spin| spin.join().ok()).collect()
}

fn spin(time: Duration) -> Pauses {
    let began = Instant::now();
    let looks = std::iter::repeat_with(|| began.elapsed());
    pauses_of(looks.take_while(|at| *at < time))
}

/// `looks`: the clock, from 0.
fn pauses_of(looks: impl Iterator<Item = Duration>) -> Pauses {
    let (mut last, mut count, mut sum, mut longest) = (Duration::ZERO, 0u32, Duration::ZERO, Duration::ZERO);
    for at in looks {
        let step = at - last;
        if step >= PAUSE_MIN {
            count += 1;
            sum += step;
            longest = longest.max(step);
        }
        last = at;
    }
    let time = last.max(Duration::from_nanos(1)).as_secs_f64();
    Pauses {
        per_second: f64::from(count) / time,
        part: sum.as_secs_f64() / time,
        longest: longest.as_secs_f64() * 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // E2
    #[test]
    fn long_steps_of_the_clock_are_pauses() {
        let steps = [50, 100, 99, 700, 51];
        let looks = steps.iter().scan(Duration::ZERO, |at, step| {
            *at += Duration::from_micros(*step);
            Some(*at)
        });
        assert_eq!(pauses_of(looks), Pauses { per_second: 2000.0, part: 0.8, longest: 700.0 });
    }
}
