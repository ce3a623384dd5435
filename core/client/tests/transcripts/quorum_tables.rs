//! Quorum tables whose bricks change, that are gone, or of which too much is asked.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{KeyHash, Number, Stamp, Status};
use ramhold_client_core::{Cause, CommitAction, CommitItem, Operation, Outcome, RejectRules};
use ramhold_wire::Opcode;
use ramhold_wire::ask::AskSaid;
use ramhold_wire::quorum::WriteProtocol::{Adaptive, Single};

#[test]
fn a_newer_epoch_has_the_table_described_and_the_put_goes_on_with_its_stamp() {
    // I1
    let mut fake = Fake::with_bricks(Single);
    fake.pass(fake.now + millis(2000));
    fake.start(write(KEY, b"1"));
    let asked = fake.asked();
    let stamp = written_stamp(&asked);
    fake.say_as(&asked[0], Voice { epoch: 2, ..VOICE }, AskSaid::Applied);
    fake.expect_none_ended();
    fake.describe_bricks(&held_by([1, 2, 4], 2, Single));
    let again = fake.asked();
    assert_eq!(bricks_of(&again), [1, 2, 4]);
    assert_eq!(written_stamp(&again), stamp, "its fate is open");
    assert!(again.iter().all(|it| fake.begun_of(it) == fake.begun_of(&asked[0])));
    fake.say_as(&again[0], Voice { epoch: 2, ..VOICE }, AskSaid::Applied);
    fake.expect_none_ended();
    fake.say_as(&again[2], Voice { epoch: 2, ..VOICE }, AskSaid::Applied);
    fake.expect_written(stamp.time);
}

#[test]
fn a_put_that_all_new_bricks_refuse_takes_another_stamp() {
    // I1
    let mut fake = Fake::with_bricks(Single);
    fake.start(write(KEY, b"1"));
    let asked = fake.asked();
    let stamp = written_stamp(&asked);
    asked[..2].iter().for_each(|it| fake.say(it, AskSaid::WrongOwner));
    fake.describe_bricks(&held_by([2, 3, 4], 2, Single));
    let moved = fake.asked();
    let voice = Voice { epoch: 2, ..VOICE };
    assert_eq!(bricks_of(&moved), [2, 3, 4]);
    assert_eq!(written_stamp(&moved), stamp);
    let newer = Stamp { time: stamp.time + 1, session: 2 };
    moved[..2].iter().for_each(|it| fake.say_as(it, voice, AskSaid::Rejected(newer)));
    fake.wait(millis(100));
    let anew = fake.asked();
    assert_eq!(bricks_of(&anew), [2, 3, 4]);
    assert!(written_stamp(&anew) > stamp);
    // A late answer about the first stamp says nothing of the second, whatever the numbers of the attempts.
    fake.say_as(&asked[2], voice, AskSaid::Applied);
    fake.say_as(&moved[2], voice, AskSaid::Applied);
    fake.say_as(&anew[0], voice, AskSaid::Applied);
    fake.expect_none_ended();
    fake.say_as(&anew[1], voice, AskSaid::Applied);
    fake.expect_written(written_stamp(&anew).time);
}

#[test]
fn a_get_of_a_key_that_has_moved_begins_anew_at_its_new_bricks() {
    // I1
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(read(KEY));
    fake.asked().iter().for_each(|it| fake.say(it, AskSaid::WrongOwner));
    fake.describe_bricks(&held_by([3, 4, 5], 2, Adaptive));
    let asked = fake.asked();
    assert_eq!(asked.len(), 2);
    let voice = Voice { epoch: 2, ..VOICE };
    for it in &asked {
        match it.what {
            Asks::Value => fake.say_as(it, voice, AskSaid::Value(OLD, None)),
            _ => fake.say_as(it, voice, AskSaid::Stamp(OLD)),
        }
    }
    fake.expect_refused(Status::NotFound);
}

#[test]
fn a_table_that_is_gone_ends_the_operations_on_it() {
    // I1
    let mut fake = Fake::with_bricks(Single);
    fake.pass(fake.now + millis(2000));
    fake.start(read(KEY));
    fake.start(write(KEY, b"1"));
    for it in fake.asked() {
        fake.refuse(&it, Status::UnknownTable);
    }
    let describe = fake.sent.iter().find(|it| it.opcode() == Opcode::TableDescribe).cloned().unwrap();
    fake.answer(&describe, Status::UnknownTable, b"");
    fake.expect_refused(Status::UnknownTable);
    let Outcome::Unknown { token: Some(_), .. } = fake.outcome().1 else { panic!("the put was sent") };
}

#[test]
fn a_table_that_its_bricks_deny_is_gone_also_without_the_coordinator() {
    // I1: it was dropped, or emptied under another id, before the coordinator went away.
    for denials in [1, 2, 3] {
        let mut fake = Fake::with_bricks(Single);
        fake.pass(fake.now + millis(2000));
        let began = fake.now;
        fake.start(read(KEY));
        let mut outcome = None;
        while outcome.is_none() {
            for it in fake.asked() {
                match it.brick <= denials {
                    true => fake.refuse(&it, Status::UnknownTable),
                    // It has taken the table, and not heard of the drop.
                    false if it.what == Asks::Value => fake.say_stored(&it, OLD, Some(b"old")),
                    false => {}
                }
            }
            fake.sent.clear();
            outcome = fake.session.take_outcome();
            if outcome.is_none() {
                fake.wait(millis(10_000));
            }
        }
        let Some((_, Outcome::Refused { status, detail, .. })) = outcome else { panic!("{outcome:?}") };
        if denials == 1 {
            assert_eq!(status, Status::NoQuorum, "one brick may not have heard of the table yet");
        } else {
            assert_eq!(status, Status::UnknownTable);
            assert!(detail.contains("no such table any more"), "{detail}");
            assert!(fake.now.since(began) < millis(5000));
        }
    }
}

#[test]
fn operations_with_conditions_are_not_possible_in_quorum_tables() {
    // I1
    let rules = RejectRules { exists: true, ..RejectRules::default() };
    let (table, key) = (TABLE, KEY.to_vec());
    let (by, value) = (Number::Integer(1), Vec::new());
    let item =
        CommitItem { table, key: key.clone(), rules: RejectRules::default(), action: CommitAction::Check };
    let operations = [
        (Operation::Read { table, key: key.clone(), rules }, "no conditions"),
        (Operation::Write { table, key: key.clone(), value, rules, expiry: None }, "no conditions"),
        (Operation::Remove { table, key: key.clone(), rules }, "no conditions"),
        (Operation::Increment { table, key, by, rules: RejectRules::default() }, "increment"),
        (Operation::Commit { items: vec![item] }, "commit"),
        (Operation::Count { table, first: KeyHash(0) }, "count"),
    ];
    let mut fake = Fake::with_bricks(Adaptive);
    for (operation, word) in operations {
        fake.start(operation);
        fake.expect_silence();
        let Outcome::Refused { status, cause, detail, .. } = fake.outcome().1 else { panic!("not refused") };
        assert_eq!((status, cause), (Status::Unsupported, Cause::Unsent));
        assert!(detail.contains(word) && detail.contains("quorum tables"), "{detail}");
    }
}

#[test]
fn a_description_with_wrong_numbers_or_too_few_bricks_is_not_used() {
    // I1
    let good = held_by([1, 2, 3], 1, Single);
    let mut bad = vec![good.clone(); 3];
    bad[0].options.quorum.as_mut().unwrap().write = 1;
    bad[1].quorum.as_mut().unwrap()[0].bricks.pop();
    bad[2].quorum.as_mut().unwrap()[0].bricks[2] = places([1, 2, 2])[2];
    for description in bad {
        let mut fake = Fake::new();
        fake.start(read(KEY));
        fake.describe_bricks(&description);
        fake.expect_silence();
        fake.describe_bricks(&good);
        assert_eq!(fake.asked().len(), 3);
    }
}
