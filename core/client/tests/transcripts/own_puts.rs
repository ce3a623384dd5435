//! Gets of keys for which the session has a put of unknown outcome.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{Stamp, Status};
use ramhold_client_core::{Outcome, Token};
use ramhold_wire::ask::{AskSaid, StampedValue};
use ramhold_wire::quorum::QuorumOptions;
use ramhold_wire::quorum::WriteProtocol::Single;

const NEW: &[u8] = b"new";

/// The session's put that one brick has stored, and nobody else has answered.
fn put_unknown(fake: &mut Fake) -> (Stamp, Token) {
    fake.start(write(KEY, NEW));
    let asked = fake.asked();
    fake.say(&asked[0], AskSaid::Applied);
    let Outcome::Unknown { token: Some(token), .. } = fake.run_out() else { panic!("not unknown") };
    // Every brick is heard again.
    fake.start(read(b"another key"));
    for it in fake.asked() {
        fake.say_stored(&it, Stamp::NONE, None);
    }
    fake.expect_refused(Status::NotFound);
    (written_stamp(&asked), *token)
}

fn with_unknown() -> (Fake, Stamp, Token) {
    let mut fake = Fake::with_bricks(Single);
    let (stamp, token) = put_unknown(&mut fake);
    (fake, stamp, token)
}

/// The get that goes on asks two bricks, which have this.
fn expect_get(fake: &mut Fake, stamp: Stamp, value: &[u8]) {
    let asked = fake.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    asked.iter().for_each(|it| fake.say_stored(it, stamp, Some(value)));
    fake.expect_found(stamp, value);
}

#[test]
fn a_get_writes_the_sessions_unknown_put_first() {
    // I3: two gets never show the value from before the put behind the put's own.
    let (mut fake, stamp, _) = with_unknown();
    fake.start(read(KEY));
    let asked = fake.asked();
    assert_eq!(bricks_of(&asked), [1, 2, 3]);
    assert_eq!(written_stamp(&asked), stamp, "with its own stamp");
    fake.say(&asked[0], AskSaid::Applied);
    fake.expect_silence();
    fake.say(&asked[2], AskSaid::Applied);
    expect_get(&mut fake, stamp, NEW);
    // It is settled.
    fake.start(read(KEY));
    expect_get(&mut fake, stamp, NEW);
}

#[test]
fn something_newer_at_enough_bricks_settles_the_put_as_well() {
    // I1, I3: one of three bricks is silent, and another one has something newer.
    let (mut fake, stamp, _) = with_unknown();
    let newer = Stamp { time: stamp.time + 1, session: 2 };
    fake.start(read(KEY));
    let asked = fake.asked();
    fake.say(&asked[0], AskSaid::Applied);
    fake.say(&asked[1], AskSaid::Rejected(newer));
    expect_get(&mut fake, newer, b"newer");
    fake.start(read(KEY));
    expect_get(&mut fake, newer, b"newer");
}

#[test]
fn a_removal_is_settled_as_a_removal() {
    // I3
    let mut fake = Fake::with_bricks(Single);
    fake.start(remove(KEY));
    let stamp = written_stamp(&fake.asked());
    let Outcome::Unknown { .. } = fake.run_out() else { panic!("not unknown") };
    fake.start(read(KEY));
    let asked = fake.asked();
    assert!(asked.iter().all(|it| it.what == Asks::Write(stamp, None)));
    asked.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    for it in fake.asked() {
        fake.say_stored(&it, stamp, None);
    }
    fake.expect_refused(Status::NotFound);
}

#[test]
fn a_later_put_that_is_done_or_a_resume_settles_it_too() {
    // I3
    let (mut fake, stamp, _) = with_unknown();
    fake.start(write(KEY, b"later"));
    let asked = fake.asked();
    let later = written_stamp(&asked);
    assert!(later > stamp);
    asked.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    fake.expect_written(later.time);
    fake.start(read(KEY));
    expect_get(&mut fake, later, b"later");

    let (mut fake, stamp, token) = with_unknown();
    fake.start(resume(&token));
    fake.asked().iter().for_each(|it| fake.say(it, AskSaid::Applied));
    fake.expect_written(stamp.time);
    fake.start(read(KEY));
    expect_get(&mut fake, stamp, NEW);
}

#[test]
fn only_the_newest_of_several_unknown_puts_is_written() {
    // I3
    let (mut fake, first, _) = with_unknown();
    let (second, _) = put_unknown(&mut fake);
    assert!(second > first);
    fake.start(read(KEY));
    let asked = fake.asked();
    assert_eq!(written_stamp(&asked), second);
    asked[..2].iter().for_each(|it| fake.say(it, AskSaid::Applied));
    expect_get(&mut fake, second, NEW);
}

#[test]
fn a_get_that_cannot_settle_the_put_ends_for_want_of_a_quorum() {
    // I1, I3: it could not be answered with so few bricks anyway.
    let (mut fake, stamp, _) = with_unknown();
    let began = fake.now;
    fake.start(read(KEY));
    let asked = fake.asked();
    fake.say(&asked[0], AskSaid::Applied);
    let Outcome::Refused { status: Status::NoQuorum, detail, .. } = fake.run_out() else {
        panic!("not refused")
    };
    assert!(fake.now.since(began) <= millis(10_000));
    assert!(detail.contains("1 of the key's 3 bricks answered"), "{detail}");
    // The put is not forgotten.
    fake.start(read(KEY));
    assert_eq!(written_stamp(&fake.asked()), stamp);
}

#[test]
fn a_get_that_needs_fewer_bricks_than_a_put_waits_for_a_moment() {
    // I1, I3
    let mut fake = Fake::with_bricks(Single);
    let mut description = held_by([1, 2, 3], 2, Single);
    description.options.quorum = Some(QuorumOptions { bricks: 3, write: 3, read: 1, protocol: Single });
    fake.pass(fake.now + millis(2000));
    fake.start(write(KEY, NEW));
    let asked = fake.asked();
    fake.say_as(&asked[0], Voice { epoch: 2, ..VOICE }, AskSaid::Applied);
    fake.describe_bricks(&description);
    let stamp = written_stamp(&fake.asked());
    let Outcome::Unknown { .. } = fake.run_out() else { panic!("not unknown") };
    fake.sent.clear();
    fake.start(read(KEY));
    let asked = fake.asked();
    assert_eq!(written_stamp(&asked), stamp);
    let began = fake.now;
    let gets = loop {
        fake.wait(millis(1000));
        let asked = fake.asked();
        if asked.iter().any(|it| it.what == Asks::Value) {
            break asked;
        }
        assert!(asked.is_empty(), "the bricks have the put: {asked:?}");
    };
    assert_eq!(fake.now.since(began), millis(200));
    assert_eq!(gets.len(), 1, "one brick is asked");
}

#[test]
fn a_get_at_other_bricks_learns_the_time_and_settles_the_put() {
    // I3, I4: one brick has told its time, which is enough for a get, and not for one that settles a put.
    let (mut fake, stamp, _) = with_unknown();
    fake.pass(fake.now + millis(2000));
    fake.start(read(KEY));
    let asked = fake.asked();
    fake.say_as(&asked[0], Voice { epoch: 2, ..VOICE }, AskSaid::WrongOwner);
    fake.describe_bricks(&held_by([4, 5, 6], 2, Single));
    let voice = Voice { epoch: 2, ..VOICE };
    let greeted = fake.asked();
    assert_eq!(bricks_of(&greeted), [4, 5, 6], "all are asked for the time");
    assert!(greeted.iter().all(|it| it.what == Asks::Stamp));
    fake.say_as(&greeted[0], voice, AskSaid::Stamp(OLD));
    fake.expect_silence();
    fake.say_as(&greeted[1], voice, AskSaid::Stamp(OLD));
    let asked = fake.asked();
    assert_eq!(bricks_of(&asked), [4, 5, 6]);
    assert_eq!(written_stamp(&asked), stamp);
    asked[1..].iter().for_each(|it| fake.say_as(it, voice, AskSaid::Applied));
    for it in fake.asked() {
        let said = match it.what {
            Asks::Value => AskSaid::Value(stamp, Some(StampedValue { bytes: NEW, expires: None })),
            _ => AskSaid::Stamp(stamp),
        };
        fake.say_as(&it, voice, said);
    }
    fake.expect_found(stamp, NEW);
}

#[test]
fn an_old_put_is_not_written_any_more() {
    // I3
    let (mut fake, stamp, _) = with_unknown();
    fake.pass(fake.now + millis(90_000));
    fake.start(read(KEY));
    let asked = fake.asked();
    assert_eq!(bricks_of(&asked), [1, 2, 3], "all are asked for the newest");
    assert!(asked.iter().all(|it| matches!(it.what, Asks::Value | Asks::Stamp)));
    for it in &asked {
        match it.brick {
            3 => fake.say_stored(it, stamp, Some(NEW)),
            _ => fake.say_stored(it, OLD, Some(b"old")),
        }
    }
    // It is rolled forward.
    let mut repaired = fake.asked();
    for it in repaired.iter().filter(|it| it.what == Asks::Value) {
        fake.say_stored(it, stamp, Some(NEW));
    }
    repaired.extend(fake.asked());
    repaired.retain(|it| matches!(it.what, Asks::Repair(..)));
    assert!(repaired.iter().all(|it| it.what == Asks::Repair(stamp, Some(NEW.to_vec()))));
    repaired.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    expect_get(&mut fake, stamp, NEW);
}

#[test]
fn another_key_and_another_session_know_nothing_of_it() {
    // I3
    let (mut fake, _, _) = with_unknown();
    fake.start(read(b"some key"));
    let asked = fake.asked();
    assert!(asked.iter().all(|it| matches!(it.what, Asks::Value | Asks::Stamp)));
}
