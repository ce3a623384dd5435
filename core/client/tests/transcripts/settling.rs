//! Puts of a quorum table whose outcome is unknown, and what becomes of their tokens.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{ClusterId, Stamp, Status, Version};
use ramhold_client_core::{Cause, Outcome, Reply, Token};
use ramhold_wire::Opcode;
use ramhold_wire::ask::{AskSaid, StampedValue};
use ramhold_wire::quorum::WriteProtocol::Single;
use std::time::Duration;

/// A put that one brick has stored, and nobody else has answered.
fn unknown() -> (Token, Stamp) {
    let mut fake = Fake::with_bricks(Single);
    fake.start(write(KEY, b"value"));
    let asked = fake.asked();
    fake.say(&asked[0], AskSaid::Applied);
    let Outcome::Unknown { detail, token: Some(token) } = fake.run_out() else { panic!("not unknown") };
    assert!(detail.contains("1 of the key's 3 bricks answered, 2 must"), "{detail}");
    assert!(detail.contains("brick s3 at 10.0.0.3:7401 did not answer"), "{detail}");
    assert_eq!((token.table(), token.key(), token.is_removal()), (TABLE, KEY, false));
    (token.to_string().parse().unwrap(), written_stamp(&asked))
}

/// Resumes in another session, as another process would. Its bricks' time is `later` by so many seconds.
fn resumed(token: &Token, later: u64) -> Fake {
    let mut fake = Fake::with_bricks(Single);
    fake.pass(fake.now + millis(later * 1000));
    fake.start(resume(token));
    fake
}

#[test]
fn a_token_is_written_with_its_stamp_and_took_effect_when_a_write_quorum_has_it() {
    // I3
    let (token, stamp) = unknown();
    let mut fake = resumed(&token, 20);
    let asked = fake.asked();
    assert_eq!(bricks_of(&asked), [1, 2, 3]);
    assert!(asked.iter().all(|it| it.what == Asks::Write(stamp, Some(b"value".to_vec()))));
    assert!(
        fake.begun_of(&asked[0]) < fake.date() - 19_000_000,
        "when the put began, not when it is resumed"
    );
    fake.say(&asked[0], AskSaid::Applied);
    fake.expect_none_ended();
    fake.say(&asked[1], AskSaid::Applied);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Written { version: Version(stamp.time) }));
}

#[test]
fn a_token_that_enough_bricks_refuse_never_took_effect() {
    // I3
    let (token, stamp) = unknown();
    let newer = Stamp { time: stamp.time + 1, session: 2 };
    let mut fake = resumed(&token, 20);
    let asked = fake.asked();
    asked[..2].iter().for_each(|it| fake.say(it, AskSaid::Rejected(newer)));
    let Outcome::Refused { status, cause, detail, .. } = fake.outcome().1 else { panic!("not refused") };
    assert_eq!((status, cause), (Status::WrongVersion, Cause::Answered));
    assert!(detail.contains("never took effect, and never will"), "{detail}");
    fake.expect_silence();
}

#[test]
fn a_put_of_which_all_bricks_have_told_what_they_know_ends_unknown_at_once() {
    // I3: one has stored it, one has refused it, one no longer knows.
    let mut fake = Fake::with_bricks(Single);
    fake.start(write(KEY, b"value"));
    let asked = fake.asked();
    let stamp = written_stamp(&asked);
    let newer = Stamp { time: stamp.time + 1, session: 2 };
    let said = [AskSaid::Applied, AskSaid::Rejected(newer), AskSaid::Unknown(newer)];
    for (it, said) in asked.iter().zip(said) {
        fake.expect_none_ended();
        fake.say(it, said);
    }
    let Outcome::Unknown { detail, token: None } = fake.outcome().1 else { panic!("not unknown for ever") };
    assert_eq!(detail, "the key was written again since, so nobody can tell any more");
    fake.expect_silence();
}

#[test]
fn a_token_that_too_few_bricks_answer_stays_unknown_and_is_returned() {
    // I3
    let (token, _) = unknown();
    let mut fake = resumed(&token, 20);
    let asked = fake.asked();
    fake.say(&asked[0], AskSaid::Applied);
    let Outcome::Unknown { token: again, .. } = fake.run_out() else { panic!("not unknown") };
    assert_eq!(again.as_deref(), Some(&token));
}

#[test]
fn an_old_token_writes_nothing_and_asks_all_bricks() {
    // I3
    let (token, stamp) = unknown();
    let newer = Stamp { time: stamp.time + 1, session: 2 };
    for newest in [stamp, OLD, newer, Stamp::NONE] {
        let mut fake = resumed(&token, 81);
        let asked = fake.asked();
        assert_eq!(bricks_of(&asked), [1, 2, 3]);
        assert!(asked.iter().all(|it| matches!(it.what, Asks::Value | Asks::Stamp)));
        let value = (!newest.is_none()).then_some(&b"x"[..]);
        for it in &asked {
            fake.expect_none_ended();
            fake.say_stored(it, newest, value);
        }
        fake.expect_silence();
        match (fake.outcome().1, newest) {
            (Outcome::Done(Reply::Written { version }), newest) if newest == stamp => {
                assert_eq!(version, Version(stamp.time));
            }
            (Outcome::Refused { status: Status::WrongVersion, detail, .. }, newest) if newest < stamp => {
                assert!(detail.contains("never took effect"), "{detail}");
            }
            (Outcome::Unknown { token: None, detail }, newest) if newest > stamp => {
                assert!(detail.contains("nobody can tell"), "{detail}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_token_whose_tombstone_may_be_gone_is_unknown_for_good_where_no_brick_has_anything() {
    // I3: the value was read and removed, and both are forgotten.
    let (token, _) = unknown();
    for (age, is_told) in [(85, true), (95, false)] {
        let mut fake = resumed(&token, age);
        for it in &fake.asked() {
            fake.say_stored(it, Stamp::NONE, None);
        }
        fake.expect_silence();
        match fake.outcome().1 {
            Outcome::Refused { status: Status::WrongVersion, .. } => assert!(is_told, "after {age} s"),
            Outcome::Unknown { token: None, detail } => {
                assert!(!is_told && detail.contains("nobody can tell"))
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_token_whose_tombstone_went_while_the_bricks_were_asked_is_unknown() {
    // I3: the client was cut off for twenty seconds.
    let (token, _) = unknown();
    let mut fake = Fake::with_bricks(Single);
    fake.pass(fake.now + millis(85_000));
    fake.start_within(resume(&token), Duration::from_secs(60));
    let first = fake.asked();
    assert_eq!(bricks_of(&first), [1, 2, 3]);
    fake.say_stored(&first[0], Stamp::NONE, None);
    let end = fake.now + millis(20_000);
    let mut asked = Vec::new();
    while fake.now < end {
        fake.pass(end);
        asked.extend(fake.asked());
        fake.sent.clear();
    }
    fake.expect_none_ended();
    // The questions are repeated meanwhile; the last ones are answered.
    for brick in [2, 3] {
        let last = asked.iter().rfind(|it| it.brick == brick).expect("it was asked again");
        fake.say_stored(last, Stamp::NONE, None);
    }
    let Outcome::Unknown { token: None, detail } = fake.outcome().1 else { panic!("not unknown") };
    assert!(detail.contains("nobody can tell"), "{detail}");
}

#[test]
fn an_old_token_that_one_brick_has_is_rolled_forward_as_a_get_does() {
    // I3
    let (token, stamp) = unknown();
    let mut fake = resumed(&token, 81);
    for it in fake.asked() {
        let has_it = it.brick == 1;
        let value = StampedValue { bytes: b"value", expires: None };
        let (newest, value) = if has_it { (stamp, Some(value)) } else { (Stamp::NONE, None) };
        match it.what {
            Asks::Value => fake.say(&it, AskSaid::Value(newest, value)),
            _ => fake.say(&it, AskSaid::Stamp(newest)),
        }
    }
    let mut asked = fake.asked();
    if asked.len() == 1 && asked[0].what == Asks::Value {
        let value = StampedValue { bytes: b"value", expires: None };
        fake.say(&asked[0], AskSaid::Value(stamp, Some(value)));
        asked = fake.asked();
    }
    assert_eq!(bricks_of(&asked), [2, 3]);
    assert!(asked.iter().all(|it| it.what == Asks::Repair(stamp, Some(b"value".to_vec()))));
    fake.expect_none_ended();
    fake.say(&asked[0], AskSaid::Applied);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Written { version: Version(stamp.time) }));
}

#[test]
fn an_old_token_stays_unknown_while_one_brick_is_silent() {
    // I3
    let (token, _) = unknown();
    let mut fake = resumed(&token, 81);
    let asked = fake.asked();
    asked[..2].iter().for_each(|it| fake.say_stored(it, Stamp::NONE, None));
    let Outcome::Unknown { token: again, detail } = fake.run_out() else { panic!("not unknown") };
    assert_eq!(again.as_deref(), Some(&token));
    assert!(detail.contains("2 of the key's 3 bricks answered, 3 must"), "{detail}");
}

#[test]
fn a_removal_is_resumed_as_a_removal() {
    // I3
    let mut fake = Fake::with_bricks(Single);
    fake.start(remove(KEY));
    let stamp = written_stamp(&fake.asked());
    let Outcome::Unknown { token: Some(token), .. } = fake.run_out() else { panic!("not unknown") };
    assert!(token.is_removal());
    let mut fake = resumed(&token, 20);
    for it in fake.asked() {
        assert_eq!(it.what, Asks::Write(stamp, None));
        fake.say(&it, AskSaid::Applied);
    }
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Removed { version: Version(stamp.time) }));
}

#[test]
fn a_token_of_a_table_that_is_gone_or_of_another_cluster_is_refused() {
    // I3
    let (token, _) = unknown();
    let mut fake = Fake::new();
    fake.start(resume(&token));
    let describe = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.answer(&describe, Status::UnknownTable, b"");
    fake.expect_refused(Status::UnknownTable);

    let mut fake = Fake::new();
    fake.answers_name = ClusterId(98);
    fake.start(resume(&token));
    fake.describe_bricks(&held_by([1, 2, 3], 1, Single));
    let detail = fake.expect_refused(Status::WrongCluster);
    assert!(detail.contains("c0000000000000063"), "{detail}");
    fake.expect_silence();
}

#[test]
fn a_token_of_a_table_that_no_bricks_hold_is_refused() {
    // I3
    let (token, _) = unknown();
    let mut fake = Fake::new();
    fake.start(resume(&token));
    fake.describe(ALL_AT_1);
    fake.expect_refused(Status::BadRequest);
    fake.expect_silence();
}
