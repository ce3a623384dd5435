//! Reads, writes and removes of a quorum table: which bricks are asked what, and how often.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{ClusterTime, Lost, Stamp, Status, Version};
use ramhold_client_core::{Cause, Expiry, Operation, Outcome, Reply};
use ramhold_wire::Opcode;
use ramhold_wire::ask::{AskSaid, StampedValue};
use ramhold_wire::quorum::WriteProtocol::{Adaptive, Single, TwoPhase};
use std::time::Duration;

#[test]
fn a_put_is_one_round_to_all_bricks_and_done_after_a_write_quorum() {
    // I1
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(write(KEY, b"value"));
    let asked = fake.asked();
    assert_eq!(bricks_of(&asked), [1, 2, 3]);
    let stamp = written_stamp(&asked);
    assert!(asked.iter().all(|it| it.what == Asks::Write(stamp, Some(b"value".to_vec()))));
    assert!(stamp.is_of_put() && stamp.time.abs_diff(fake.date()) < 1000, "{stamp:?}");
    fake.say(&asked[0], AskSaid::Applied);
    fake.expect_none_ended();
    fake.say(&asked[2], AskSaid::Applied);
    fake.expect_written(stamp.time);
    fake.say(&asked[1], AskSaid::Applied);
    fake.expect_silence();
    assert_eq!(fake.session.under_way_count(), 0);
}

#[test]
fn a_remove_writes_a_tombstone_and_a_later_put_has_a_later_stamp() {
    // I1, I2
    let mut fake = Fake::with_bricks(Single);
    fake.start(remove(KEY));
    let asked = fake.asked();
    let first = written_stamp(&asked);
    assert!(asked.iter().all(|it| it.what == Asks::Write(first, None)));
    asked.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Removed { version: Version(first.time) }));
    fake.start(write(KEY, b""));
    assert!(written_stamp(&fake.asked()) > first);
}

#[test]
fn a_get_asks_a_read_quorum_one_of_them_for_the_value() {
    // I1
    let mut fake = Fake::with_bricks(Adaptive);
    let mut first_asked = Vec::new();
    for _ in 0..3 {
        fake.start(read(KEY));
        let asked = fake.asked();
        assert_eq!(asked.len(), 2);
        let values: Vec<u64> = asked.iter().filter(|it| it.what == Asks::Value).map(|it| it.brick).collect();
        assert_eq!(values.len(), 1);
        first_asked.extend(values);
        asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
        fake.expect_found(OLD, b"old");
        fake.expect_silence();
    }
    first_asked.sort_unstable();
    assert_eq!(first_asked, [1, 2, 3], "the load is spread");
}

#[test]
fn a_read_tells_version_time_end_and_who_told_it() {
    // I1
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(read(KEY));
    let asked = fake.asked();
    let end = ClusterTime(DATE / 1000 + 60_000);
    let mut teller = 0;
    for it in &asked {
        let value = StampedValue { bytes: b"x", expires: Some(end) };
        match it.what {
            Asks::Value => {
                teller = it.brick;
                fake.say(it, AskSaid::Value(OLD, Some(value)));
            }
            _ => fake.say(it, AskSaid::Stamp(OLD)),
        }
    }
    let wanted = Reply::Read {
        version: Version(OLD.time),
        time: (OLD.time / 1_000_000) as u32,
        expires: Some(end),
        value: b"x".to_vec(),
        answered_by: ramhold_base::ServerId(teller),
    };
    assert_eq!(fake.outcome().1, Outcome::Done(wanted));
}

#[test]
fn a_tombstone_is_absent() {
    // I1
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(read(KEY));
    for it in fake.asked() {
        match it.what {
            Asks::Value => fake.say(&it, AskSaid::Value(OLD, None)),
            _ => fake.say(&it, AskSaid::Stamp(OLD)),
        }
    }
    expect_absent(&mut fake);
}

#[test]
fn an_ended_value_is_overwritten_in_its_place_before_it_is_absent() {
    // A12
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(read(KEY));
    for it in fake.asked() {
        let value = StampedValue { bytes: b"x", expires: Some(ClusterTime(fake.date() / 1000)) };
        match it.what {
            Asks::Value => fake.say(&it, AskSaid::Value(OLD, Some(value))),
            _ => fake.say(&it, AskSaid::Stamp(OLD)),
        }
    }
    let tombstones = fake.asked();
    assert_eq!(tombstones.len(), 3, "it goes to all");
    for it in &tombstones {
        let is_tombstone = matches!(&it.what, Asks::Repair(stamp, None) if *stamp == OLD.of_expiry());
        assert!(is_tombstone, "{:?}", it.what);
    }
    fake.say(&tombstones[0], AskSaid::Applied);
    fake.expect_silence();
    fake.say(&tombstones[1], AskSaid::Applied);
    expect_absent(&mut fake);
}

fn expect_absent(fake: &mut Fake) {
    let Outcome::Refused { status, cause, version, .. } = fake.outcome().1 else { panic!("found") };
    assert_eq!((status, cause, version), (Status::NotFound, Cause::Answered, None));
    fake.expect_silence();
}

#[test]
fn a_time_to_live_counts_by_the_median_of_the_bricks() {
    // I1, I2
    let mut fake = Fake::with_bricks(Single);
    let expiry = |expiry| match write(KEY, b"x") {
        Operation::Write { table, key, value, rules, .. } => {
            Operation::Write { table, key, value, rules, expiry: Some(expiry) }
        }
        other => other,
    };
    fake.start(expiry(Expiry::After { millis: 5000 }));
    let asked = fake.asked();
    let millis_now = fake.date() / 1000;
    assert!(asked.iter().all(|it| fake.end_of(it) == Some(ClusterTime(millis_now + 5000))));
    asked.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    fake.outcome();
    fake.start(expiry(Expiry::At(ClusterTime(u64::MAX))));
    fake.expect_refused(Status::BadRequest);
    fake.expect_silence();
}

#[test]
fn a_slow_brick_is_replaced_after_its_patience_and_a_refusing_one_at_once() {
    // I1
    for refuses in [false, true] {
        let mut fake = Fake::with_bricks(Adaptive);
        fake.start(read(KEY));
        let asked = fake.asked();
        let absent = asked.iter().find(|it| it.what == Asks::Value).unwrap();
        let here = asked.iter().find(|it| it.what == Asks::Stamp).unwrap();
        fake.say_stored(here, OLD, None);
        if refuses {
            fake.refuse(absent, Status::Retry);
        } else {
            assert_eq!(fake.wait(millis(5000)), millis(20));
        }
        let more = fake.asked();
        let fresh: Vec<&Asked> =
            more.iter().filter(|it| it.brick != absent.brick && it.brick != here.brick).collect();
        assert_eq!(fresh.len(), 1, "{more:?}");
        if refuses {
            // The value is asked of the brick that is known to have it.
            assert!(more.iter().any(|it| it.brick == here.brick && it.what == Asks::Value));
            assert!(!bricks_of(&more).contains(&absent.brick), "it is asked again when its patience is over");
        }
        for it in &more {
            if it.brick != absent.brick {
                fake.say_stored(it, OLD, Some(b"old"));
            }
        }
        fake.expect_found(OLD, b"old");
        // For a second the silent brick is asked last.
        for _ in 0..3 {
            fake.start(read(KEY));
            let asked = fake.asked();
            assert!(!bricks_of(&asked).contains(&absent.brick), "{asked:?}");
            asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
            fake.expect_found(OLD, b"old");
        }
        fake.pass(fake.now + millis(1200));
        let mut seen = Vec::new();
        for _ in 0..3 {
            fake.start(read(KEY));
            let asked = fake.asked();
            seen.extend(bricks_of(&asked));
            asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
            fake.expect_found(OLD, b"old");
        }
        assert!(seen.contains(&absent.brick), "then it takes its turn again");
    }
}

#[test]
fn a_lost_connection_is_replaced_at_once() {
    // I1
    for how in [Lost::Refused, Lost::Broken] {
        let mut fake = Fake::with_bricks(Adaptive);
        fake.start(read(KEY));
        let asked = fake.asked();
        fake.lose(server(asked[0].brick), how);
        let more = fake.asked();
        assert_eq!(more.len(), 1);
        assert!(!bricks_of(&asked).contains(&more[0].brick));
        fake.say_stored(&asked[1], OLD, Some(b"old"));
        fake.say_stored(&more[0], OLD, Some(b"old"));
        fake.expect_found(OLD, b"old");
    }
}

#[test]
fn a_stale_brick_is_repaired_with_the_stamp_of_the_value_before_the_get_is_answered() {
    // I1
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(read(KEY));
    let asked = fake.asked();
    let (first, second) = (&asked[0], &asked[1]);
    let (newer, stale) = if first.what == Asks::Value { (first, second) } else { (second, first) };
    fake.say_stored(newer, OLD, Some(b"old"));
    fake.say_stored(stale, Stamp::NONE, None);
    fake.expect_none_ended();
    let repairs = fake.asked();
    assert_eq!(bricks_of(&repairs), [stale.brick]);
    assert_eq!(repairs[0].what, Asks::Repair(OLD, Some(b"old".to_vec())));
    fake.say(&repairs[0], AskSaid::Applied);
    fake.expect_found(OLD, b"old");
    fake.expect_silence();
}

#[test]
fn a_refused_stamp_is_followed_by_one_above_all_that_was_told() {
    // I1, I2
    let mut fake = Fake::with_bricks(Single);
    fake.start(write(KEY, b"1"));
    let asked = fake.asked();
    let first = written_stamp(&asked);
    let ahead = Stamp { time: first.time + 3_000_000, session: 2 };
    fake.say(&asked[0], AskSaid::Rejected(ahead));
    fake.expect_silence();
    fake.say(&asked[1], AskSaid::Rejected(OLD));
    let again = fake.asked();
    assert_eq!(bricks_of(&again), [1, 2, 3]);
    let second = written_stamp(&again);
    assert!(second > ahead && second > first);
    // Late answers to the first stamp say nothing of the second.
    fake.say(&asked[2], AskSaid::Applied);
    fake.say(&again[0], AskSaid::Applied);
    fake.expect_none_ended();
    fake.say(&again[1], AskSaid::Applied);
    fake.expect_written(second.time);
}

#[test]
fn two_phases_ask_for_stamps_and_write_above_them() {
    // I1, I2
    let mut fake = Fake::with_bricks(TwoPhase);
    fake.start(write(KEY, b"1"));
    let asked = fake.asked();
    assert_eq!(bricks_of(&asked), [1, 2, 3]);
    assert!(asked.iter().all(|it| it.what == Asks::Stamp));
    let ahead = Stamp { time: fake.date() + 3_000_000, session: 2 };
    fake.say_stored(&asked[0], ahead, None);
    fake.expect_silence();
    fake.say_stored(&asked[2], OLD, None);
    let writes = fake.asked();
    assert_eq!(bricks_of(&writes), [1, 2, 3]);
    let stamp = written_stamp(&writes);
    assert!(stamp > ahead);
    fake.say(&writes[1], AskSaid::Applied);
    fake.say(&writes[2], AskSaid::Rejected(Stamp { time: stamp.time + 1, session: 2 }));
    fake.expect_written(stamp.time);
}

#[test]
fn a_brick_that_has_not_loaded_a_key_is_asked_for_others_and_puts_stay_in_one_phase() {
    // I6: rule 77.
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(write(KEY, b"1"));
    fake.asked().iter().for_each(|it| fake.say(it, AskSaid::Applied));
    fake.outcome();
    fake.start(read(KEY));
    let asked = fake.asked();
    let loading = asked.iter().find(|it| it.what == Asks::Value).unwrap();
    let here = asked.iter().find(|it| it.what == Asks::Stamp).unwrap();
    fake.say_stored(here, OLD, None);
    fake.refuse(loading, Status::NotReady);
    let more = fake.asked();
    assert!(more.iter().any(|it| it.what == Asks::Value && it.brick != loading.brick), "at once: {more:?}");
    more.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
    fake.expect_found(OLD, b"old");
    fake.start(write(KEY, b"2"));
    let asked = fake.asked();
    written_stamp(&asked);
    assert_eq!(bricks_of(&asked), [1, 2, 3]);
    asked.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    fake.outcome();
    let mut seen = Vec::new();
    for _ in 0..3 {
        fake.start(read(KEY));
        let asked = fake.asked();
        seen.extend(asked.iter().filter(|it| it.what == Asks::Value).map(|it| it.brick));
        asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
        fake.expect_found(OLD, b"old");
    }
    assert!(seen.contains(&loading.brick), "it takes its turn: {seen:?}");
}

#[test]
fn an_adaptive_put_takes_two_phases_for_five_seconds_after_a_brick_was_silent() {
    // I1
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(write(KEY, b"1"));
    let asked = fake.asked();
    fake.say(&asked[0], AskSaid::Applied);
    fake.say(&asked[1], AskSaid::Applied);
    fake.outcome();
    // The third brick has not answered, but its time is not over.
    fake.start(write(KEY, b"2"));
    let asked = fake.asked();
    written_stamp(&asked);
    asked[..2].iter().for_each(|it| fake.say(it, AskSaid::Applied));
    fake.outcome();
    fake.pass(fake.now + millis(100));
    let silent = fake.now;
    let is_two_phase = |fake: &mut Fake| {
        fake.start(write(KEY, b"3"));
        let asked = fake.asked();
        let is_two = asked.iter().all(|it| it.what == Asks::Stamp);
        let writes = if is_two {
            asked.iter().for_each(|it| fake.say_stored(it, OLD, None));
            fake.asked()
        } else {
            asked
        };
        writes.iter().for_each(|it| fake.say(it, AskSaid::Applied));
        fake.outcome();
        is_two
    };
    assert!(is_two_phase(&mut fake));
    fake.pass(silent + millis(4900));
    assert!(is_two_phase(&mut fake), "although it has answered since");
    fake.pass(silent + millis(5000));
    assert!(!is_two_phase(&mut fake));
}

#[test]
fn the_first_put_of_a_session_asks_for_the_time_first() {
    // I2
    let mut fake = Fake::new();
    fake.start(write(KEY, b"1"));
    fake.describe_bricks(&held_by([1, 2, 3], 1, Single));
    let greeted = fake.asked();
    assert!(greeted.iter().all(|it| it.what == Asks::Stamp) && greeted.len() == 3);
    // One clock is an hour off.
    fake.say_as(&greeted[0], Voice { ahead: 3_600_000_000, ..VOICE }, AskSaid::Stamp(OLD));
    fake.expect_silence();
    fake.say(&greeted[1], AskSaid::Stamp(OLD));
    let stamp = written_stamp(&fake.asked());
    assert!(stamp.time.abs_diff(fake.date()) < 1000, "the lower of the two in the middle");
}

#[test]
fn too_few_bricks_until_the_deadline_are_no_quorum_and_the_silent_ones_are_named() {
    // I1
    let mut fake = Fake::with_bricks(TwoPhase);
    for operation in [read(KEY), write(KEY, b"1")] {
        let begin = fake.now;
        fake.start(operation);
        loop {
            fake.lose(server(2), Lost::Refused);
            for it in fake.asked() {
                if it.brick == 3 {
                    fake.refuse(&it, Status::NotReady);
                }
            }
            if fake.sent.iter().any(|sent| sent.opcode() == Opcode::TableDescribe) {
                fake.sent.clear();
            }
            if fake.sent.is_empty() {
                fake.wait(millis(10_000));
            }
            if fake.session.under_way_count() == 0 {
                break;
            }
        }
        assert_eq!(fake.now.since(begin), Duration::from_secs(10));
        fake.sent.clear();
        let detail = fake.expect_refused(Status::NoQuorum);
        for part in [
            "0 of the key's 3 bricks answered, 2 must",
            "brick s1 at 10.0.0.1:7401 did not answer",
            "brick s2 at 10.0.0.2:7401 refused the connection",
            "brick s3 at 10.0.0.3:7401 answered: the server is starting or stopping",
        ] {
            assert!(detail.contains(part), "{detail}");
        }
    }
}

#[test]
fn a_brick_that_refuses_a_put_is_asked_again_ten_times_a_second_and_a_silent_one_seldom() {
    // I1, I5: rule 96.
    let mut fake = Fake::with_bricks(Single);
    fake.start(write(KEY, b"1"));
    let asked = fake.asked();
    let stamp = written_stamp(&asked);
    fake.say(&asked[0], AskSaid::Applied);
    let (begin, mut silent_asked) = (fake.now, Vec::new());
    let mut refusing = asked[2].clone();
    while fake.now.since(begin) < millis(3500) {
        match fake.now.since(begin) < millis(1750) {
            true => fake.refuse(&refusing, Status::NotReady),
            false => fake.lose(server(3), Lost::Refused),
        }
        let before = fake.now;
        let again = loop {
            fake.wait(millis(5000));
            let again = fake.asked();
            fake.sent.clear();
            silent_asked.extend(again.iter().filter(|it| it.brick == 2).map(|_| fake.now.since(begin)));
            if let Some(again) = again.into_iter().find(|it| it.brick == 3) {
                break again;
            }
        };
        assert!(fake.now.since(before) <= millis(100), "it may have started again");
        assert_eq!(written_stamp(std::slice::from_ref(&again)), stamp);
        refusing = again;
    }
    assert_eq!(silent_asked, [1000, 3000].map(millis), "it has the question");
    // An answer to the first question counts as well.
    fake.say(&asked[1], AskSaid::Applied);
    fake.expect_written(stamp.time);
}

#[test]
fn an_answer_of_another_brick_and_a_doubled_one_change_nothing() {
    // I1
    let mut fake = Fake::with_bricks(Single);
    fake.start(write(KEY, b"1"));
    let asked = fake.asked();
    let stranger = Asked { brick: 9, ..asked[1].clone() };
    fake.say(&asked[0], AskSaid::Applied);
    fake.say(&asked[0], AskSaid::Applied);
    fake.say(&stranger, AskSaid::Applied);
    fake.expect_none_ended();
    fake.say(&asked[2], AskSaid::Applied);
    fake.expect_written(written_stamp(&asked).time);
}
