//! Values that end by themselves (docs/protocols/quorum.md, rule 28): three bricks, messages delivered by hand.

use crate::schedules::{Bricks, DATE, NOW, WITHIN, session, stamp, thresholds};
use ramhold_quorum::{Answer, Ask, BrickId, Get, Got, Out, Said, SessionClock, Write};

/// Values from 1000 on end: 1050 at 50.
fn ends(value: &u64) -> Option<u64> {
    value.checked_sub(1000).map(|end| DATE + end)
}

fn begin(order: [u64; 3], clock: &SessionClock) -> (Get<u64>, Vec<Out<u64>>) {
    let order = order.map(BrickId);
    let get = Get::new(NOW, (&order, thresholds(), false), clock, WITHIN).expect("known");
    let (mut get, mut outs) = (get.with_ends(ends), Vec::new());
    get.start(NOW, clock, &mut outs);
    (get, outs)
}

/// Delivers everything, one after the other. Returns the end, and how many writes went out.
fn finish(
    bricks: &mut Bricks,
    (mut get, outs): (Get<u64>, Vec<Out<u64>>),
    clock: &mut SessionClock,
) -> (Option<Got<u64>>, usize) {
    let mut outs: std::collections::VecDeque<Out<u64>> = outs.into();
    let mut writes = 0;
    let time = clock.now(NOW).expect("known");
    while let Some(out) = outs.pop_front() {
        let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
        writes += usize::from(matches!(ask, Ask::Write(_)));
        let Some(answer) = bricks.ask(to, ask) else { continue };
        // The bricks' time is the session's.
        let answer = Answer { clock: time, ..answer };
        let mut more = Vec::new();
        let end = get.on_answer(NOW, attempt, answer, clock, &mut more);
        outs.extend(more);
        if end.is_some() {
            return (end, writes);
        }
    }
    (None, writes)
}

fn get(bricks: &mut Bricks, order: [u64; 3], time: u64) -> (Option<Got<u64>>, usize) {
    let mut clock = session(6, time);
    let begun = begin(order, &clock);
    finish(bricks, begun, &mut clock)
}

// A12
#[test]
fn an_ended_value_is_gone_for_sessions_whose_time_is_behind() {
    let mut bricks = Bricks::new();
    (1..=3).for_each(|brick| bricks.has(brick, 1050, stamp(40, 2)));
    assert!(matches!(get(&mut bricks, [1, 2, 3], 49).0, Some(Got::Found(_, Some(1050)))));
    let tombstone = stamp(40, 2).of_expiry();
    let (got, writes) = get(&mut bricks, [1, 2, 3], 50);
    assert!(got == Some(Got::Found(tombstone, None)) && (2..=3).contains(&writes), "{got:?}, {writes}");
    assert_eq!(get(&mut bricks, [3, 2, 1], 49).0, Some(Got::Found(tombstone, None)), "it is back");
}

// A12
#[test]
fn a_put_that_was_acknowledged_meanwhile_outlives_the_end() {
    let mut bricks = Bricks::new();
    (1..=3).for_each(|brick| bricks.has(brick, 1050, stamp(40, 2)));
    let mut clock = session(6, 60);
    let (mut get, outs) = begin([1, 2, 3], &clock);
    let mut writes = Vec::new();
    for out in outs {
        let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
        let answer = Answer { clock: DATE + 60, ..bricks.ask(to, ask).expect("it is there") };
        assert_eq!(get.on_answer(NOW, attempt, answer, &mut clock, &mut writes), None);
    }
    // The time of the put is behind that of the get.
    (1..=3).for_each(|brick| bricks.has(brick, 7, stamp(55, 4)));
    let (got, _) = finish(&mut bricks, (get, writes), &mut clock);
    assert_eq!(got, Some(Got::Found(stamp(55, 4), Some(7))));
}

// A12, I3: otherwise its put would be refused, and written once more.
#[test]
fn a_value_that_has_ended_is_committed_before_its_end() {
    let mut bricks = Bricks::new();
    (1..=3).for_each(|brick| bricks.has(brick, 7, stamp(10, 4)));
    bricks.has(1, 1050, stamp(40, 2));
    let (got, _) = get(&mut bricks, [1, 2, 3], 60);
    assert_eq!(got, Some(Got::Found(stamp(40, 2).of_expiry(), None)));
    let write = Write { stamp: stamp(40, 2), value: Some(1050), begun: DATE, is_repair: false };
    let said = |bricks: &mut Bricks, brick| {
        bricks.ask(brick, Ask::Write(write.clone())).map(|Answer { said, .. }| said)
    };
    let applied = (1..=3).filter(|brick| said(&mut bricks, *brick) == Some(Said::Applied)).count();
    assert!(applied >= 2, "its put was done, and {applied} bricks know of it");
}
