//! The schedules of docs/protocols/quorum.md, each under its name: three bricks, messages delivered by hand.

use crate::shelf::{KEY, Memory};
use ramhold_base::Instant;
use ramhold_quorum::{
    Answer, Ask, Brick, BrickId, Get, Got, Life, Out, Phases, Put, SessionClock, SessionId, Shelf, Stamp,
    Thresholds, Write, Written,
};
use std::time::Duration;

pub const NOW: Instant = Instant(1_000_000_000);
/// The bricks' time.
pub const DATE: u64 = 1_000_000_000;
pub const WITHIN: (Instant, Duration) = (Instant(2_000_000_000), Duration::from_millis(25));

pub struct Bricks {
    all: Vec<(Brick<u8, u64, ()>, Memory)>,
    /// Those that are there.
    reached: Vec<u64>,
}

/// A message that was sent and not delivered.
type Sent = (u64, u32, Ask<u64>);

pub fn stamp(time: u64, session: u64) -> Stamp {
    Stamp::new(DATE + time, SessionId::of(session).expect("even"))
}

impl Bricks {
    pub fn new() -> Bricks {
        let brick = |id| (Brick::new(BrickId(id), Life(1), 1), Memory::default());
        Bricks { all: [1, 2, 3].map(brick).into(), reached: vec![1, 2, 3] }
    }

    pub fn ask(&mut self, to: u64, ask: Ask<u64>) -> Option<Answer<u64>> {
        let (brick, memory) = &mut self.all[to as usize - 1];
        brick.ask(DATE, (&KEY, ask), (), memory).pop().map(|(_, answer)| answer)
    }

    /// A value is at a brick, however it came there.
    pub fn has(&mut self, brick: u64, value: u64, stamp: Stamp) {
        self.all[brick as usize - 1].1.store(&KEY, stamp, Some(value)).expect("there is room");
    }

    fn held(&self, brick: u64) -> Option<u64> {
        self.all[brick as usize - 1].1.value(&KEY)
    }

    /// Delivers to those that are reached. Returns the end, and what was not delivered.
    fn put(
        &mut self,
        put: &mut Put<u64>,
        clock: &mut SessionClock,
        outs: Vec<Out<u64>>,
    ) -> (Option<Written>, Vec<Sent>) {
        let mut outs: std::collections::VecDeque<Out<u64>> = outs.into();
        let mut kept = Vec::new();
        while let Some(out) = outs.pop_front() {
            let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
            if !self.reached.contains(&to) {
                kept.push((to, attempt, ask));
                continue;
            }
            let Some(answer) = self.ask(to, ask) else { continue };
            let mut more = Vec::new();
            let end = put.on_answer(NOW, attempt, answer, clock, &mut more);
            outs.extend(more);
            if end.is_some() {
                return (end, kept);
            }
        }
        (None, kept)
    }

    fn get(&mut self, order: [u64; 3], clock: &mut SessionClock) -> (Option<Got<u64>>, usize) {
        let order = order.map(BrickId);
        let mut get = Get::new(NOW, (&order, thresholds(), false), clock, WITHIN).expect("known");
        let mut outs = Vec::new();
        get.start(NOW, clock, &mut outs);
        let mut outs: std::collections::VecDeque<Out<u64>> = outs.into();
        let mut writes = 0;
        while let Some(out) = outs.pop_front() {
            let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
            writes += usize::from(matches!(ask, Ask::Write(_)));
            let answer = if self.reached.contains(&to) { self.ask(to, ask) } else { None };
            let Some(answer) = answer else { continue };
            let mut more = Vec::new();
            let end = get.on_answer(NOW, attempt, answer, clock, &mut more);
            outs.extend(more);
            if end.is_some() {
                // Repairs on the side go out, too.
                let aside = outs.iter().filter(|out| matches!(out, Out::Send { ask: Ask::Write(_), .. }));
                return (end, writes + aside.count());
            }
        }
        let mut more = Vec::new();
        (get.on_time(WITHIN.0, clock, &mut more), writes)
    }
}

pub fn thresholds() -> Thresholds {
    Thresholds::majority(3).expect("a quorum")
}

/// A session whose clock is at this time.
pub fn session(number: u64, time: u64) -> SessionClock {
    let mut clock = SessionClock::new(SessionId::of(number).expect("even"));
    (1..=3).for_each(|brick| clock.hear(NOW, BrickId(brick), DATE + time));
    clock
}

fn put_of(value: u64, phases: Phases, clock: &mut SessionClock) -> (Put<u64>, Vec<Out<u64>>) {
    let order = [1, 2, 3].map(BrickId);
    let mut put = Put::new(NOW, (&order, thresholds()), (Some(value), phases), clock, WITHIN).expect("known");
    let mut outs = Vec::new();
    put.start(NOW, clock, &mut outs);
    (put, outs)
}

/// A get that has sent its first questions, to the first two of these bricks.
fn get_begun(order: [u64; 3]) -> (Get<u64>, SessionClock, Vec<Out<u64>>) {
    let (order, clock) = (order.map(BrickId), session(6, 60));
    let mut get = Get::new(NOW, (&order, thresholds(), false), &clock, WITHIN).expect("known");
    let mut outs = Vec::new();
    get.start(NOW, &clock, &mut outs);
    (get, clock, outs)
}

fn found(got: Option<Got<u64>>) -> u64 {
    match got {
        Some(Got::Found(_, Some(value))) => value,
        other => panic!("{other:?}"),
    }
}

// I2, Q1
#[test]
fn q1_a_write_with_an_old_clock_is_not_lost() {
    let mut bricks = Bricks::new();
    (1..=3).for_each(|brick| bricks.has(brick, 1, stamp(100, 2)));
    let mut clock = session(4, 50);
    let (mut put, outs) = put_of(2, Phases::One, &mut clock);
    let (end, _) = bricks.put(&mut put, &mut clock, outs);
    assert!(matches!(end, Some(Written::Done(done)) if done > stamp(100, 2)), "{end:?}");
    assert_eq!(found(bricks.get([3, 1, 2], &mut clock).0), 2);
}

// I2, Q2
#[test]
fn q2_what_was_ever_applied_is_not_refused() {
    let mut bricks = Bricks::new();
    bricks.has(1, 1, stamp(100, 2));
    let mut clock = session(4, 50);
    let (mut put, outs) = put_of(2, Phases::One, &mut clock);
    bricks.reached = vec![1, 3];
    let (end, kept) = bricks.put(&mut put, &mut clock, outs);
    assert_eq!(end, None, "B1 refuses, B3 applies, B2 is slow");
    let mut reader = session(6, 60);
    bricks.reached = vec![1, 2, 3];
    assert_eq!(found(bricks.get([3, 2, 1], &mut reader).0), 2);
    assert_eq!(found(bricks.get([1, 2, 3], &mut reader).0), 1);
    assert_eq!(kept.len(), 1);
    let outs = kept.into_iter().map(|(to, attempt, ask)| Out::Send { to: BrickId(to), attempt, ask });
    let (end, _) = bricks.put(&mut put, &mut clock, outs.collect());
    assert_eq!(end, Some(Written::Done(stamp(50, 4))), "B2 has had it");
    assert_eq!(found(bricks.get([1, 2, 3], &mut reader).0), 1, "and it was overwritten");
}

// I3: a session that is to read need not know whether its own put took effect.
#[test]
fn a_put_is_overtaken_where_enough_bricks_have_it_or_something_newer() {
    // B1 has the put, B2 something newer, B3 is away.
    let (order, open) = ([1, 2, 3].map(BrickId), (stamp(50, 4), Some(2), DATE));
    let begun = |put: Put<u64>, bricks: &mut Bricks| {
        let (mut put, mut clock, mut outs) = (put, session(4, 60), Vec::new());
        put.start(NOW, &mut clock, &mut outs);
        bricks.put(&mut put, &mut clock, outs).0
    };
    let mut bricks = Bricks::new();
    bricks.has(1, 2, stamp(50, 4));
    bricks.has(2, 3, stamp(55, 6));
    bricks.reached = vec![1, 2];
    let resumed = Put::resume(NOW, (&order, thresholds()), open, WITHIN);
    assert_eq!(begun(resumed, &mut bricks), None, "nobody can say whether it took effect");
    let overtaken = Put::overtake(NOW, (&order, thresholds()), open, WITHIN);
    assert_eq!(begun(overtaken, &mut bricks), Some(Written::Done(stamp(50, 4))));
    // Whichever quorum a get asks, it finds the put or something newer.
    bricks.reached = vec![1, 2, 3];
    assert_eq!(found(bricks.get([1, 3, 2], &mut session(6, 60)).0), 2);
    assert_eq!(found(bricks.get([3, 2, 1], &mut session(6, 60)).0), 3);
    // One brick is not enough.
    let mut bricks = Bricks::new();
    bricks.has(1, 2, stamp(50, 4));
    bricks.reached = vec![1];
    let alone = Put::overtake(NOW, (&order, thresholds()), open, WITHIN);
    assert_eq!(begun(alone, &mut bricks), None);
}

// I3, Q3
#[test]
fn q3_a_refused_repair_is_no_repair() {
    let mut bricks = Bricks::new();
    // d@50 is at B3 alone, c@100 is committed at B1 and B2. A reader asked B2 before that.
    let (mut get, mut clock, mut outs) = get_begun([3, 2, 1]);
    let early = bricks.ask(2, Ask::Stamp).expect("it votes");
    (1..=2).for_each(|brick| bricks.has(brick, 3, stamp(100, 2)));
    bricks.has(3, 4, stamp(50, 4));
    outs.clear();
    assert_eq!(get.on_answer(NOW, 1, early, &mut clock, &mut outs), None);
    let value = bricks.ask(3, Ask::Value).expect("it votes");
    assert_eq!(get.on_answer(NOW, 1, value, &mut clock, &mut outs), None, "B2 is to be repaired first");
    let mut end = None;
    while let Some(out) = outs.pop() {
        let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
        let answer = bricks.ask(to, ask).expect("it votes");
        end = end.or(get.on_answer(NOW, attempt, answer, &mut clock, &mut outs));
    }
    assert_eq!(found(end), 3);
}

// I3, Q4
#[test]
fn q4_a_value_that_could_not_be_repaired_is_not_told() {
    let mut bricks = Bricks::new();
    bricks.has(1, 1, stamp(100, 2));
    let (mut get, mut clock, mut outs) = get_begun([1, 2, 3]);
    for (to, ask) in [(1, Ask::Value), (2, Ask::Stamp)] {
        let answer = bricks.ask(to, ask).expect("it votes");
        assert_eq!(get.on_answer(NOW, 1, answer, &mut clock, &mut outs), None);
    }
    let mut now = NOW;
    while now < WITHIN.0 {
        assert_eq!(get.on_time(now, &clock, &mut outs), None, "the repairs are lost");
        now = now + WITHIN.1;
    }
    let end = get.on_time(WITHIN.0, &clock, &mut outs);
    assert!(matches!(&end, Some(Got::NoQuorum(silent)) if *silent == [BrickId(2), BrickId(3)]), "{end:?}");
}

// I3, Q5
#[test]
fn q5_a_healthy_repair_is_one_write() {
    let mut bricks = Bricks::new();
    bricks.has(1, 1, stamp(100, 2));
    let mut clock = session(6, 60);
    let (got, writes) = bricks.get([1, 2, 3], &mut clock);
    assert_eq!((found(got), writes), (1, 1));
    assert_eq!((bricks.held(2), bricks.held(3)), (Some(1), None));
    let (got, writes) = bricks.get([1, 2, 3], &mut clock);
    assert_eq!((found(got), writes), (1, 0), "committed");
}

// I2, Q7
#[test]
fn q7_two_phases_need_no_third_brick() {
    let begin = || {
        let mut bricks = Bricks::new();
        (1..=2).for_each(|brick| bricks.has(brick, 1, stamp(100, 2)));
        bricks.reached = vec![1, 3];
        (bricks, session(4, 50))
    };
    let (mut bricks, mut clock) = begin();
    let (mut put, outs) = put_of(2, Phases::Two, &mut clock);
    let (end, _) = bricks.put(&mut put, &mut clock, outs);
    assert!(matches!(end, Some(Written::Done(done)) if done > stamp(100, 2)), "{end:?}");
    assert_eq!(found(bricks.get([3, 1, 2], &mut clock).0), 2);

    let (mut bricks, mut clock) = begin();
    let (mut put, outs) = put_of(2, Phases::One, &mut clock);
    assert_eq!(bricks.put(&mut put, &mut clock, outs).0, None, "one refuses, one applies, one is silent");
    let end = put.on_time(WITHIN.0, &mut clock, &mut Vec::new());
    assert_eq!(end, Some(Written::Unknown(stamp(50, 4))));
    // The token settles it when the third is back.
    bricks.reached = vec![1, 2, 3];
    let order = [1, 2, 3].map(BrickId);
    let mut again = Put::resume(NOW, (&order, thresholds()), (stamp(50, 4), Some(2), put.begun()), WITHIN);
    let mut outs = Vec::new();
    again.start(NOW, &mut clock, &mut outs);
    assert_eq!(bricks.put(&mut again, &mut clock, outs).0, Some(Written::Never), "two have newer ones");
}

// I5: rule 96. A brick that is silent has the question. One that has refused does not, and may have started again.
#[test]
fn a_put_does_not_repeat_questions_that_are_under_way() {
    let within = (NOW + Duration::from_secs(60), Duration::from_millis(100));
    for phases in [Phases::One, Phases::Two] {
        let (order, mut clock) = ([1, 2, 3].map(BrickId), session(4, 50));
        let mut put = Put::new(NOW, (&order, thresholds()), (Some(2), phases), &clock, within)
            .expect("the time is known");
        let asked = |outs: &[Out<u64>]| -> Vec<u64> {
            let sent = outs.iter().filter_map(|out| match out {
                Out::Send { to, .. } => Some(to.0),
                Out::WakeAt(_) => None,
            });
            sent.collect()
        };
        let mut outs = Vec::new();
        put.start(NOW, &mut clock, &mut outs);
        assert_eq!(asked(&outs), [1, 2, 3]);
        for tenth in 1..=80_u64 {
            outs.clear();
            put.on_silent(BrickId(2));
            let now = NOW + Duration::from_millis(100 * tenth);
            assert_eq!(put.on_time(now, &mut clock, &mut outs), None);
            let wanted = if [10, 30, 70].contains(&tenth) { vec![1, 2, 3] } else { vec![2] };
            assert_eq!(asked(&outs), wanted, "after {tenth} tenths of a second");
            assert!(outs.contains(&Out::WakeAt(now + within.1)), "it wakes again");
        }
    }
}

// I3: to ask again would change nothing, so nobody waits for the deadline.
#[test]
fn a_put_is_unknown_as_soon_as_all_bricks_have_told_what_they_know() {
    // B1 stores the put, B2 has had something newer all along, B3 has it too but no longer knows what was before.
    let mut bricks = Bricks::new();
    bricks.has(2, 3, stamp(100, 2));
    bricks.all[2].1.become_rebuilt((stamp(100, 2), Some(3)), stamp(100, 2).time);
    let mut clock = session(4, 50);
    let (mut put, outs) = put_of(2, Phases::One, &mut clock);
    bricks.reached = vec![1, 2];
    let (end, kept) = bricks.put(&mut put, &mut clock, outs);
    assert_eq!((end, put.silent()), (None, vec![BrickId(3)]), "B3 may tell more");
    bricks.reached = vec![1, 2, 3];
    let outs = kept.into_iter().map(|(to, attempt, ask)| Out::Send { to: BrickId(to), attempt, ask });
    let (end, _) = bricks.put(&mut put, &mut clock, outs.collect());
    assert_eq!((end, put.silent()), (Some(Written::Unknown(stamp(50, 4))), Vec::new()));
    // It may have taken effect, so it is never written again with another stamp.
    assert_eq!(found(bricks.get([1, 2, 3], &mut clock).0), 3);
}

// I1, Q8
#[test]
fn q8_one_brick_of_three_is_no_quorum() {
    let mut bricks = Bricks::new();
    bricks.reached = vec![2];
    let mut clock = session(4, 50);
    let (mut put, outs) = put_of(2, Phases::Two, &mut clock);
    assert_eq!(bricks.put(&mut put, &mut clock, outs).0, None);
    let end = put.on_time(WITHIN.0, &mut clock, &mut Vec::new());
    assert_eq!(end, Some(Written::NoQuorum(vec![BrickId(1), BrickId(3)])));
    let (got, _) = bricks.get([1, 2, 3], &mut clock);
    assert!(matches!(got, Some(Got::NoQuorum(_))), "{got:?}");
    assert_eq!(bricks.held(2), None, "nothing was written");
}

// I2: rule 3.
#[test]
fn a_stamp_from_afar_is_silence_and_the_key_stays_writable() {
    let mut bricks = Bricks::new();
    let far = Stamp { time: u64::MAX, session: 8 };
    let write = |stamp, begun, is_repair| Ask::Write(Write { stamp, value: Some(9), begun, is_repair });
    for (stamp, is_repair) in [(far, false), (far, true), (stamp(11_000_000, 8), false)] {
        assert_eq!(bricks.ask(1, write(stamp, DATE, is_repair)), None, "{stamp:?}");
    }
    assert!(
        bricks.ask(2, write(stamp(11_000_000, 8), DATE, true)).is_some(),
        "a repair may be further ahead"
    );
    assert_eq!(bricks.ask(3, write(stamp(7, 8), DATE - 61_000_000, false)), None, "it began too long ago");
    let mut clock = session(4, 50);
    let (mut put, outs) = put_of(2, Phases::One, &mut clock);
    bricks.reached = vec![1, 3];
    assert!(matches!(bricks.put(&mut put, &mut clock, outs).0, Some(Written::Done(_))));
}

// I2: rule 3.
#[test]
fn a_brick_that_forgot_its_set_says_unknown() {
    let mut bricks = Bricks::new();
    bricks.has(1, 1, stamp(10, 2));
    bricks.has(1, 2, stamp(20, 2));
    bricks.all[0].1.forget(DATE + 15);
    let write =
        |time| Ask::Write(Write { stamp: stamp(time, 4), value: Some(9), begun: DATE, is_repair: false });
    let said = |bricks: &mut Bricks, time| bricks.ask(1, write(time)).expect("it votes").said;
    assert_eq!(said(&mut bricks, 12), ramhold_quorum::Said::Unknown(stamp(20, 2)));
    assert_eq!(said(&mut bricks, 16), ramhold_quorum::Said::Rejected(stamp(20, 2)));
}

// I1: rule 7.
#[test]
fn a_get_goes_on_without_a_brick_that_owes_the_value() {
    let mut bricks = Bricks::new();
    (2..=3).for_each(|brick| bricks.has(brick, 1, stamp(100, 2)));
    let (mut get, mut clock, mut outs) = get_begun([1, 2, 3]);
    for (to, ask) in [(1, Ask::Value), (2, Ask::Stamp)] {
        let answer = bricks.ask(to, ask).expect("it votes");
        assert_eq!(get.on_answer(NOW, 1, answer, &mut clock, &mut outs), None);
    }
    // B2 has told the newest stamp, and is dead.
    outs.clear();
    assert_eq!(get.on_time(NOW + WITHIN.1, &clock, &mut outs), None);
    let asked = Out::Send { to: BrickId(3), attempt: 1, ask: Ask::Value };
    assert!(outs.contains(&asked), "{outs:?}");
    let answer = bricks.ask(3, Ask::Value).expect("it votes");
    assert_eq!(found(get.on_answer(NOW, 1, answer, &mut clock, &mut outs)), 1);
}

// I1, Q9: one brick does not hold the key any more.
#[test]
fn a_get_goes_on_without_a_brick_that_has_moved_the_key() {
    let mut bricks = Bricks::new();
    (2..=3).for_each(|brick| bricks.has(brick, 1, stamp(100, 2)));
    let (mut get, mut clock, mut outs) = get_begun([1, 2, 3]);
    let moved = bricks.all[0].0.wrong_owner(DATE);
    assert_eq!(get.on_answer(NOW, 1, moved, &mut clock, &mut outs), None);
    let answer = bricks.ask(2, Ask::Stamp).expect("it votes");
    assert_eq!(get.on_answer(NOW, 1, answer, &mut clock, &mut outs), None);
    outs.clear();
    assert_eq!(get.on_time(NOW + WITHIN.1, &clock, &mut outs), None);
    let mut end = None;
    for out in outs.clone() {
        let Out::Send { to: BrickId(to), attempt, ask } = out else { continue };
        let answer = bricks.ask(to, ask).expect("it votes");
        end = end.or(get.on_answer(NOW, attempt, answer, &mut clock, &mut Vec::new()));
    }
    assert_eq!(found(end), 1);
}

// I1: rule 7, without waiting for the brick's patience.
#[test]
fn a_brick_that_refuses_is_replaced_at_once_and_its_value_asked_of_another() {
    let mut bricks = Bricks::new();
    (1..=3).for_each(|brick| bricks.has(brick, 1, stamp(100, 2)));
    let (mut get, mut clock, mut outs) = get_begun([1, 2, 3]);
    outs.clear();
    get.on_silent(NOW, BrickId(3), &mut outs);
    assert_eq!(outs, [], "it was not asked");
    get.on_silent(NOW, BrickId(1), &mut outs);
    assert_eq!(outs, [Out::Send { to: BrickId(3), attempt: 1, ask: Ask::Value }]);
    outs.clear();
    get.on_silent(NOW, BrickId(1), &mut outs);
    assert_eq!(outs, [], "all were asked");
    let answer = bricks.ask(2, Ask::Stamp).expect("it votes");
    assert_eq!(get.on_answer(NOW, 1, answer, &mut clock, &mut outs), None);
    get.on_silent(NOW, BrickId(3), &mut outs);
    assert_eq!(outs, [Out::Send { to: BrickId(2), attempt: 1, ask: Ask::Value }], "it has told the newest");
    let answer = bricks.ask(3, Ask::Value).expect("it votes");
    assert_eq!(found(get.on_answer(NOW, 1, answer, &mut clock, &mut outs)), 1);
}

// I1: rule 7; a repair goes to all when one of those that were asked refuses.
#[test]
fn a_repair_that_is_refused_goes_to_all_at_once() {
    let mut bricks = Bricks::new();
    bricks.has(1, 1, stamp(100, 2));
    let (mut get, mut clock, mut outs) = get_begun([1, 2, 3]);
    outs.clear();
    for (to, ask) in [(1, Ask::Value), (2, Ask::Stamp)] {
        let answer = bricks.ask(to, ask).expect("it votes");
        assert_eq!(get.on_answer(NOW, 1, answer, &mut clock, &mut outs), None);
    }
    let repaired = |outs: &[Out<u64>]| -> Vec<u64> {
        let to = |out: &Out<u64>| match out {
            Out::Send { to, ask: Ask::Write(_), .. } => Some(to.0),
            _ => None,
        };
        outs.iter().filter_map(to).collect()
    };
    assert_eq!(repaired(&outs), [2]);
    outs.clear();
    get.on_silent(NOW, BrickId(2), &mut outs);
    assert_eq!(repaired(&outs), [3]);
    outs.clear();
    get.on_silent(NOW, BrickId(2), &mut outs);
    assert_eq!(repaired(&outs), [], "all were asked");
}

// I5: rule 21; only a brick that has the question is late.
#[test]
fn a_get_says_who_is_late_unless_others_are_to_be_asked_anyway() {
    let mut bricks = Bricks::new();
    (1..=3).for_each(|brick| bricks.has(brick, 1, stamp(100, 2)));
    let due = NOW + WITHIN.1;
    let (mut get, mut clock, mut outs) = get_begun([1, 2, 3]);
    assert_eq!(get.late(NOW), [], "it is not time yet");
    let late = |get: &Get<_>| get.late(due).iter().map(|it| it.brick).collect::<Vec<_>>();
    assert_eq!(late(&get), [BrickId(1), BrickId(2)]);
    let answer = bricks.ask(2, Ask::Stamp).expect("it votes");
    assert_eq!(get.on_answer(NOW, 1, answer, &mut clock, &mut outs), None);
    assert_eq!(late(&get), [BrickId(1)]);
    outs.clear();
    get.wait_on(due, &mut outs);
    assert!(matches!(outs[..], [Out::WakeAt(at)] if at > due), "{outs:?}");
    assert_eq!(get.late(due), []);
    get.on_silent(due, BrickId(1), &mut outs);
    assert_eq!(get.late(NOW + WITHIN.1 * 4), [], "one has refused, and is asked again in any case");
    let (mut get, mut clock, mut outs) = get_begun([1, 2, 3]);
    let moved = bricks.all[0].0.wrong_owner(DATE);
    assert_eq!(get.on_answer(NOW, 1, moved, &mut clock, &mut outs), None);
    assert_eq!(get.late(due), [], "one does not hold the key");
}

// A12: a tombstone that it would have met may be gone.
#[test]
fn a_put_with_an_old_stamp_is_not_stored_and_a_repair_is() {
    let mut bricks = Bricks::new();
    let old = Stamp { time: DATE - 80_000_001, session: 2 };
    let write = |stamp, is_repair| Ask::Write(Write { stamp, value: Some(1), begun: DATE, is_repair });
    assert_eq!(bricks.ask(1, write(old, false)), None);
    let said = bricks.ask(1, write(old, true)).map(|answer| answer.said);
    assert_eq!(said, Some(ramhold_quorum::Said::Applied));
    let younger = Stamp { time: DATE - 80_000_000, ..old };
    assert!(bricks.ask(2, write(younger, false)).is_some());
}

// I1: refusals must not drive a get from brick to brick without a pause.
#[test]
fn bricks_that_all_refuse_are_asked_again_in_time_only() {
    let (mut get, clock, mut outs) = get_begun([1, 2, 3]);
    let mut sent = 0;
    for _ in 0..100 {
        let Some(out) = outs.pop() else { break };
        if let Out::Send { to, .. } = out {
            sent += 1;
            get.on_silent(NOW, to, &mut outs);
        }
    }
    assert!(outs.is_empty() && sent <= 4, "{sent} questions and no pause");
    assert_eq!(get.on_time(NOW + WITHIN.1, &clock, &mut outs), None);
    let again = outs.iter().filter(|out| matches!(out, Out::Send { .. }));
    assert_eq!(again.count(), 3, "all are asked again");
}
