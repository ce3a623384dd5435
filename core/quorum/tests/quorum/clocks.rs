//! Bricks whose clocks are wrong (docs/protocols/quorum.md, rules 2, 3, 28): a session that has just begun may have heard the
//! time of such a one alone.

use crate::schedules::{Bricks, NOW, WITHIN, stamp, thresholds};
use ramhold_base::{Instant, SessionId};
use ramhold_quorum::{Answer, Ask, BrickId, Get, Got, Out, SessionClock, Thresholds, ToldClock, Write};
use std::time::Duration;

const HOUR: u64 = 3_600_000_000;
/// The time of the bricks whose clocks are right.
const RIGHT: u64 = 10 * HOUR;

/// A session that has heard the time of brick 3 alone.
fn fresh(time: u64) -> SessionClock {
    let mut clock = SessionClock::new(SessionId::of(6).expect("even"));
    clock.hear(NOW, BrickId(3), time);
    clock
}

// I2: bricks store a repair only within a time of the read that led to it. By a clock that is an hour behind no brick would
// store it, and by one that is an hour ahead one would that is an hour late.
#[test]
fn one_wrong_clock_does_not_date_the_repairs_of_a_get() {
    for wrong in [RIGHT - HOUR, RIGHT + HOUR] {
        let mut bricks = Bricks::new();
        bricks.has(1, 7, stamp(40, 2));
        let mut clock = fresh(wrong);
        let order = [1, 2, 3].map(BrickId);
        let (mut get, mut outs) =
            (Get::new(NOW, (&order, thresholds(), false), &clock, WITHIN).expect("known"), Vec::new());
        get.start(NOW, &clock, &mut outs);
        let later = NOW + Duration::from_millis(20);
        let mut repairs = Vec::new();
        for out in outs {
            let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
            let answer = Answer { clock: RIGHT + 20_000, ..bricks.ask(to, ask).expect("it answers") };
            assert_eq!(get.on_answer(later, attempt, answer, &mut clock, &mut repairs), None);
        }
        let begun: Vec<u64> = repairs
            .into_iter()
            .filter_map(|out| match out {
                Out::Send { ask: Ask::Write(Write { begun, .. }), .. } => Some(begun),
                _ => None,
            })
            .collect();
        assert_eq!(begun, [RIGHT], "it is the time at which the get began, by most clocks");
    }
}

// A12, I2: also when R is half of the bricks at most. The value is committed at W bricks before its end is looked at, and
// these have told their time.
#[test]
fn an_end_is_never_judged_by_the_clock_of_one_brick() {
    let mut bricks = Bricks::new();
    let value = 1000;
    (1..=3).for_each(|brick| bricks.has(brick, value, stamp(40, 2)));
    let of = Thresholds::new(3, 3, 1).expect("they meet");
    let mut clock = fresh(RIGHT + HOUR);
    let order = [3, 2, 1].map(BrickId);
    let get = Get::new(NOW, (&order, of, false), &clock, WITHIN).expect("known");
    let (mut get, mut outs) = (get.with_ends(|_| Some(RIGHT + HOUR / 6)), Vec::new());
    get.start(NOW, &clock, &mut outs);
    let mut end = None;
    while let Some(out) = outs.pop() {
        let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
        let time = if to == 3 { RIGHT + HOUR } else { RIGHT };
        let answer = Answer { clock: time, ..bricks.ask(to, ask).expect("it answers") };
        end = end.or(get.on_answer(NOW, attempt, answer, &mut clock, &mut outs));
    }
    assert_eq!(end, Some(Got::Found(stamp(40, 2), Some(value))), "it ends in ten minutes");
}

// I2
#[test]
fn an_answer_that_comes_late_sets_the_time_back_by_nothing() {
    let second = 1_000_000;
    let at = |seconds| Instant(0) + Duration::from_secs(seconds);
    let mut clock = ToldClock::new(at(1), 101 * second);
    clock.hear(at(12), 102 * second);
    assert_eq!(clock.at(at(12)), 112 * second, "it was ten seconds under way");
    clock.hear(at(13), 113 * second - 2_000);
    assert_eq!(clock.at(at(13)), 113 * second - 2_000, "the rates differ by as much");
    clock.hear(at(14), 115 * second);
    assert_eq!(clock.at(at(15)), 116 * second, "nothing under way is too much");
    clock.hear(at(16), 95 * second);
    assert_eq!(clock.at(at(16)), 95 * second, "it was set right, or its machine was suspended");
    clock.hear(at(75), 150 * second);
    assert_eq!(clock.at(at(75)), 154 * second);
    clock.hear(at(76), 151 * second);
    assert_eq!(clock.at(at(76)), 151 * second, "it was set right by less");
}
