//! Windows of a session: how many questions a brick has at a time, and what waits until one opens.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{Lost, Stamp, Status};
use ramhold_client_core::{Outcome, WINDOW_MOST};
use ramhold_wire::ask::AskSaid;
use ramhold_wire::quorum::WriteProtocol::{Adaptive, Single};
use std::time::Duration;

/// The size of a window at first.
const FIRST: usize = 4;

fn key(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

/// Starts so many puts at once.
fn start_puts(fake: &mut Fake, count: usize) -> Vec<Asked> {
    (0..count).for_each(|number| _ = fake.start(write(&key(number), b"v")));
    fake.asked()
}

fn of(asked: &[Asked], brick: u64) -> Vec<Asked> {
    asked.iter().filter(|it| it.brick == brick).cloned().collect()
}

fn ended(fake: &mut Fake) -> usize {
    std::iter::from_fn(|| fake.session.take_outcome()).count()
}

// I5
#[test]
fn a_put_beyond_the_window_goes_out_as_answers_make_room_and_is_done_with_a_write_quorum() {
    let mut fake = Fake::with_bricks(Single);
    let asked = start_puts(&mut fake, FIRST + 1);
    for brick in 1..=3 {
        assert_eq!(of(&asked, brick).len(), FIRST, "the fifth waits");
    }
    // An answer makes room at its own brick, and at no other.
    fake.say(&of(&asked, 1)[0], AskSaid::Applied);
    let more = fake.asked();
    assert_eq!((bricks_of(&more), &more[0].key), (vec![1], &key(FIRST)));
    fake.say(&of(&asked, 2)[1], AskSaid::Applied);
    let second = fake.asked();
    assert_eq!(bricks_of(&second), [2]);
    assert_eq!(ended(&mut fake), 0);
    fake.say(&more[0], AskSaid::Applied);
    fake.say(&second[0], AskSaid::Applied);
    assert_eq!(ended(&mut fake), 1, "the third brick's window is full, and nobody waits for it");
    // The third brick was not slow: it gets what is done as soon as its window opens.
    fake.say(&of(&asked, 3)[0], AskSaid::Applied);
    let late = fake.asked();
    assert_eq!((bricks_of(&late), &late[0].key), (vec![3], &key(FIRST)));
}

// I5
#[test]
fn a_brick_that_does_not_keep_up_misses_what_was_done_a_second_ago() {
    let mut fake = Fake::with_bricks(Single);
    let asked = start_puts(&mut fake, FIRST + 1);
    for brick in 1..=2 {
        of(&asked, brick).iter().for_each(|it| fake.say(it, AskSaid::Applied));
    }
    fake.asked().iter().for_each(|it| fake.say(it, AskSaid::Applied));
    assert_eq!(ended(&mut fake), FIRST + 1);
    fake.now = fake.now + millis(1000);
    fake.say(&of(&asked, 3)[0], AskSaid::Applied);
    fake.expect_silence();
}

// I5
#[test]
fn a_window_grows_with_answers_and_is_halved_by_refusals_and_by_silence() {
    for refuses in [true, false] {
        let mut fake = Fake::with_bricks(Single);
        for _ in 0..FIRST * 4 {
            let asked = start_puts(&mut fake, 32);
            let mut open = asked;
            while !open.is_empty() {
                open.iter().for_each(|it| fake.say(it, AskSaid::Applied));
                open = fake.asked();
            }
            assert_eq!(ended(&mut fake), 32);
        }
        let asked = start_puts(&mut fake, WINDOW_MOST as usize);
        let wide = of(&asked, 1).len();
        assert!(wide > 4 * FIRST, "{wide}");
        // Bricks 1 and 2 carry out everything; brick 3 does not.
        let mut open = asked.clone();
        while open.iter().any(|it| it.brick != 3) {
            open.iter().filter(|it| it.brick != 3).for_each(|it| fake.say(it, AskSaid::Applied));
            open = fake.asked();
        }
        assert_eq!(ended(&mut fake), WINDOW_MOST as usize);
        let theirs = of(&asked, 3);
        assert!(theirs.len() > 4 * FIRST);
        if refuses {
            fake.refuse(&theirs[0], Status::TooMany);
            theirs[1..].iter().for_each(|it| fake.refuse(it, Status::TooMany));
        } else {
            fake.now = fake.now + millis(100);
        }
        // Late puts that are sent now are not answered either.
        fake.now = fake.now + Duration::from_secs(1);
        let others = start_puts(&mut fake, 1);
        others.iter().filter(|it| it.brick != 3).for_each(|it| fake.say(it, AskSaid::Applied));
        ended(&mut fake);
        fake.now = fake.now + Duration::from_secs(1);
        let asked = start_puts(&mut fake, WINDOW_MOST as usize);
        let narrow = of(&asked, 3).len();
        assert!(narrow <= theirs.len() / 2, "{} and then {narrow}", theirs.len());
        assert!(of(&asked, 1).len() >= wide, "the others are asked as before");
    }
}

// I5
#[test]
fn a_refusal_for_too_much_asks_no_more_of_the_brick() {
    let mut fake = Fake::with_bricks(Adaptive);
    let refused = start_puts(&mut fake, 1);
    fake.refuse(&of(&refused, 3)[0], Status::TooMany);
    refused[..2].iter().for_each(|it| fake.say(it, AskSaid::Applied));
    assert_eq!(ended(&mut fake), 1);
    // One phase, and not two.
    let next = start_puts(&mut fake, 1);
    written_stamp(&next);
    assert_eq!(bricks_of(&next), [1, 2, 3]);
    next.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    // Gets have a queue of their own. When one of them is refused, they leave the brick alone for a second.
    let is_value = |it: &&Asked| matches!(it.what, Asks::Value);
    fake.start(read(KEY));
    let asked = fake.asked();
    let refused = asked.iter().find(is_value).expect("one brick is asked for the value");
    fake.refuse(refused, Status::TooMany);
    let instead = fake.asked();
    let answering = asked.iter().filter(|it| it.brick != refused.brick).chain(&instead);
    answering.for_each(|it| fake.say_stored(it, OLD, None));
    for _ in 0..3 {
        fake.start(read(KEY));
        let asked = fake.asked();
        assert!(asked.iter().filter(is_value).all(|it| it.brick != refused.brick), "{asked:?}");
        asked.iter().for_each(|it| fake.say_stored(it, OLD, None));
    }
}

// I5
#[test]
fn a_late_answer_of_a_brick_that_was_replaced_is_no_loss() {
    let mut fake = Fake::with_bricks(Adaptive);
    for _ in 0..20 {
        fake.start(read(KEY));
        let asked = fake.asked();
        fake.say_stored(&asked[0], OLD, Some(b"old"));
        assert_eq!(fake.wait(millis(5000)), millis(20));
        let more = fake.asked();
        more.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
        fake.say_stored(&asked[1], OLD, Some(b"old"));
        fake.pass(fake.now + millis(1200));
        fake.sent.clear();
    }
    ended(&mut fake);
    // Nothing was lost: a burst of gets still finds all windows for values at their first size.
    (0..FIRST * 3).for_each(|number| _ = fake.start(read(&key(number))));
    let values = fake.asked().into_iter().filter(|it| it.what == Asks::Value).count();
    assert_eq!(values, FIRST * 3);
}

// I5
#[test]
fn gets_go_to_the_least_used_windows() {
    let mut fake = Fake::with_bricks(Adaptive);
    let mut values = [0; 4];
    let mut slow = Vec::new();
    // The first brick that is asked for a value owes it from then on.
    for _ in 0..12 {
        fake.start(read(KEY));
        let asked = fake.asked();
        let from = asked.iter().find(|it| it.what == Asks::Value).unwrap();
        values[from.brick as usize] += 1;
        if slow.is_empty() {
            slow.push(from.clone());
            continue;
        }
        assert_ne!(from.brick, slow[0].brick, "its window is the fullest");
        asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
    }
    values.sort_unstable();
    assert!(values[2] >= 5, "the others take turns: {values:?}");
}

// I5
#[test]
fn the_windows_of_a_new_life_begin_at_one() {
    let mut fake = Fake::with_bricks(Single);
    let again = Voice { life: 2, ..VOICE };
    fake.start(write(KEY, b"1"));
    for it in fake.asked() {
        fake.say_as(&it, if it.brick == 2 { again } else { VOICE }, AskSaid::Applied);
    }
    assert_eq!(ended(&mut fake), 1);
    let asked = start_puts(&mut fake, FIRST);
    assert_eq!([1, 2, 3].map(|brick| of(&asked, brick).len()), [FIRST, 1, FIRST]);
}

// I5
#[test]
fn operations_that_no_window_lets_out_end_as_too_many_and_name_the_bricks() {
    let mut fake = Fake::with_bricks(Single);
    let begin = fake.now;
    (0..FIRST + 1).for_each(|number| _ = fake.start(write(&key(number), b"v")));
    assert_eq!(fake.asked().len(), 3 * FIRST);
    // The first ones are never answered, and each timeout lets one question out, which is not answered either.
    let mut outcomes = Vec::new();
    while outcomes.len() < FIRST + 1 {
        assert!(fake.now.since(begin) <= Duration::from_secs(10), "every wait is bounded");
        fake.sent.clear();
        fake.wait(millis(10_000));
        outcomes.extend(std::iter::from_fn(|| fake.session.take_outcome()));
    }
    // A question that was sent may take effect.
    let is_unknown = |outcome: &Outcome| matches!(outcome, Outcome::Unknown { token: Some(_), .. });
    assert!(outcomes[..FIRST].iter().all(|(_, outcome)| is_unknown(outcome)), "{outcomes:?}");
}

// I5
#[test]
fn a_put_that_was_never_sent_is_surely_without_effect() {
    let mut fake = Fake::with_bricks(Single);
    let begin = fake.now;
    let asked = start_puts(&mut fake, FIRST);
    let last = fake.start(write(b"last", b"v"));
    fake.expect_silence();
    // Every brick refuses what it has at once, and every repetition of the older puts, so the last one never gets a turn.
    let mut open = asked;
    let outcome = loop {
        open.iter().filter(|it| it.key != b"last").for_each(|it| fake.refuse(it, Status::TooMany));
        let next = fake.asked();
        if let Some(held) = next.iter().find(|it| it.key == b"last") {
            // It got its turn after all: it is refused too, but it was sent.
            fake.refuse(held, Status::TooMany);
        }
        if next.is_empty() {
            fake.wait(millis(10_000));
        }
        open = [next, fake.asked()].concat();
        let ended: Vec<_> = std::iter::from_fn(|| fake.session.take_outcome()).collect();
        if let Some((_, outcome)) = ended.into_iter().find(|(id, _)| *id == last) {
            break outcome;
        }
        assert!(fake.now.since(begin) <= Duration::from_secs(11));
    };
    assert!(matches!(outcome, Outcome::Unknown { .. }), "a refusal by a brick may be late: {outcome:?}");

    // A connection is slow, and nothing is refused: the put waits for windows alone.
    let mut fake = Fake::with_bricks(Single);
    let asked = start_puts(&mut fake, FIRST);
    let short = fake.start_within(write(b"short", b"v"), millis(50));
    fake.wait(millis(60));
    fake.pass(fake.now + millis(60));
    let (id, outcome) = fake.session.take_outcome().expect("its time is over");
    assert_eq!(id, short);
    let Outcome::Refused { status: Status::TooMany, detail, .. } = outcome else { panic!("{outcome:?}") };
    for brick in 1..=3 {
        let named = format!("brick s{brick} at 10.0.0.{brick}:7401 was not asked: it does not keep up");
        assert!(detail.contains(&named), "{detail}");
    }
    // It does not go out behind the caller's back.
    asked.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    assert!(fake.asked().iter().all(|it| it.key != b"short"));
}

// I5, I2
#[test]
fn a_burst_at_the_beginning_waits_for_one_brick_to_tell_the_time() {
    let mut fake = Fake::new();
    (0..20).for_each(|number| _ = fake.start(read(&key(number))));
    fake.describe_bricks(&held_by([1, 2, 3], 1, Adaptive));
    let greeted = fake.asked();
    assert_eq!(greeted.len(), 3 * FIRST, "as many as the windows let out");
    greeted.iter().for_each(|it| fake.say(it, AskSaid::Stamp(Stamp::NONE)));
    // All others begin with what those have told, and ask for no time.
    let mut done = 0;
    for _ in 0..100 {
        let asked = fake.asked();
        asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
        done += ended(&mut fake);
    }
    assert_eq!(done, 20);
    assert_eq!(fake.session.under_way_count(), 0);
}

// I5
#[test]
fn a_lost_connection_frees_its_windows_and_halves_none() {
    let mut fake = Fake::with_bricks(Single);
    let asked = start_puts(&mut fake, FIRST);
    fake.lose(server(3), Lost::Broken);
    asked.iter().filter(|it| it.brick != 3).for_each(|it| fake.say(it, AskSaid::Applied));
    assert_eq!(ended(&mut fake), FIRST);
    fake.sent.clear();
    let asked = start_puts(&mut fake, FIRST);
    assert_eq!(of(&asked, 3).len(), FIRST);
}

// I5: a brick that is silent for long takes no more memory with each repetition, and one that is slow is still heard.
#[test]
fn questions_to_a_silent_brick_do_not_pile_up() {
    // A session that does not know the time asks for it ten times a second.
    let mut fake = Fake::new();
    fake.start_within(write(KEY, b"v"), millis(60_000));
    fake.describe_bricks(&held_by([1, 2, 3], 1, Single));
    let mut repeated = fake.asked().len();
    for _ in 0..300 {
        fake.wait(millis(100));
        repeated += fake.asked().len();
        fake.sent.clear();
    }
    assert!(repeated > 300, "{repeated}");
    assert!(fake.session.question_count() < 30, "{}", fake.session.question_count());
    // Puts are repeated after 1, 3, 7 and 15 s.
    let mut fake = Fake::with_bricks(Single);
    fake.start_within(write(KEY, b"v"), millis(60_000));
    let first = fake.asked();
    fake.say(&of(&first, 1)[0], AskSaid::Applied);
    let begin = fake.now;
    let mut repeated = 0;
    while fake.now.since(begin) < millis(30_000) {
        fake.wait(millis(100));
        repeated += fake.asked().len();
        fake.sent.clear();
    }
    assert_eq!(repeated, 2 * 4);
    assert!(fake.session.question_count() < 30, "{}", fake.session.question_count());
    fake.say(&of(&first, 2)[0], AskSaid::Applied);
    assert_eq!(ended(&mut fake), 1, "the first question of a slow brick is answered first");
    fake.pass(fake.now + millis(1000));
    fake.start(read(b"another key"));
    assert!(fake.session.question_count() < 10, "{}", fake.session.question_count());
}
