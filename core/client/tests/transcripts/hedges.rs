//! Gets whose bricks are late: how many of them ask another brick.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{Input, Machine};
use ramhold_client_core::{Outcome, Reply};
use ramhold_wire::quorum::WriteProtocol::Adaptive;

/// Lets time pass until the session's next timer, which is a get's patience, and a little more.
fn lose_patience(fake: &mut Fake) {
    fake.now = fake.session.deadline().expect("a get is under way");
    fake.input(Input::Tick);
    fake.now = fake.now + millis(1);
}

/// Gets, one at a time, whose bricks all answer just after the patience with them is over. Returns how many asked others.
fn late_gets(fake: &mut Fake, count: usize) -> usize {
    let mut hedged = 0;
    for _ in 0..count {
        fake.start(read(KEY));
        let asked = fake.asked();
        lose_patience(fake);
        let more = fake.asked();
        hedged += usize::from(!more.is_empty());
        asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
        fake.expect_found(OLD, b"old");
        more.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
    }
    hedged
}

// I5: rule 21.
#[test]
fn few_gets_ask_another_brick_when_all_are_late() {
    let mut fake = Fake::with_bricks(Adaptive);
    let count = 60;
    let hedged = late_gets(&mut fake, count);
    // Three for each of three bricks at first, a few that questions have paid for, and a few that are free.
    assert!((9..=20).contains(&hedged), "{hedged} of {count}");
    // Nor does one that finds the budget spent wait without end: it asks in the end.
    fake.start(read(KEY));
    fake.asked();
    let now = fake.now;
    let more = (0..20).find_map(|_| {
        fake.wait(millis(1000));
        Some(fake.asked()).filter(|asked| !asked.is_empty())
    });
    assert!(more.is_some() && fake.now.since(now) <= millis(9000), "{:?}", fake.now.since(now));
}

// I5: rule 21.
#[test]
fn a_brick_that_says_nothing_is_replaced_without_a_budget() {
    let mut fake = Fake::with_bricks(Adaptive);
    late_gets(&mut fake, 400);
    // The budget is spent, and nobody is heard any more.
    fake.now = fake.now + millis(5000);
    for _ in 0..3 {
        fake.start(read(KEY));
        fake.asked();
        lose_patience(&mut fake);
        assert!(!fake.asked().is_empty(), "it asks another one");
    }
}

// I5: rule 38.
#[test]
fn a_question_without_an_answer_for_a_tenth_of_a_second_is_lost_for_its_window_however_patient_the_session() {
    let mut fake = Fake::with_bricks(Adaptive);
    late_gets(&mut fake, 400);
    let now = fake.now;
    fake.start(read(KEY));
    let asked = fake.asked();
    lose_patience(&mut fake);
    assert!(fake.now.since(now) > millis(500), "{:?}", fake.now.since(now));
    asked.iter().for_each(|it| fake.say_stored(it, OLD, None));
    fake.asked();
    // All windows for values have been cut to one question.
    (0..12).for_each(|_| _ = fake.start(read(KEY)));
    let values = fake.asked().into_iter().filter(|it| it.what == Asks::Value).count();
    assert_eq!(values, 3);
}

// I5: rule 21. With `synced`, a brick whose device takes no writes keeps back its answers about the keys that were to be
// written, and answers for all others.
#[test]
fn gets_of_keys_that_a_brick_never_answers_end_soon_however_many_there_are() {
    let mut fake = Fake::with_bricks(Adaptive);
    let kept_back = 3;
    let answer = |fake: &mut Fake| {
        for asked in fake.asked() {
            if asked.brick != kept_back || asked.key != KEY {
                fake.say_stored(&asked, OLD, Some(b"old"));
            }
        }
    };
    for turn in 0..60 {
        let began = fake.now;
        let get = fake.start(read(KEY));
        let ended = (0..200).find_map(|_| {
            answer(&mut fake);
            fake.start(read(b"other"));
            answer(&mut fake);
            while let Some((id, outcome)) = fake.session.take_outcome() {
                if id == get {
                    return Some(outcome);
                }
            }
            fake.wait(millis(10));
            None
        });
        let took = fake.now.since(began);
        assert!(matches!(ended, Some(Outcome::Done(Reply::Read { .. }))), "{turn}: {ended:?} after {took:?}");
        assert!(took <= millis(1300), "{turn}: {took:?}");
    }
}
