//! Reads of a single brick, which may be old, and the zone of a session.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{ClusterTime, Lost, ServerId, Stamp, Status};
use ramhold_client_core::{Operation, Outcome, Reply};
use ramhold_wire::ask::{AskSaid, StampedValue};
use ramhold_wire::quorum::BrickZone;
use ramhold_wire::quorum::WriteProtocol::Adaptive;

fn stale() -> Operation {
    Operation::ReadStale { table: TABLE, key: KEY.to_vec() }
}

// I1
#[test]
fn a_stale_read_asks_one_brick_and_tells_the_time_of_its_value() {
    let mut fake = Fake::with_bricks(Adaptive);
    let mut asked_of = Vec::new();
    for _ in 0..3 {
        fake.start(stale());
        let asked = fake.asked();
        assert_eq!((asked.len(), &asked[0].what), (1, &Asks::Value));
        asked_of.push(asked[0].brick);
        fake.say_stored(&asked[0], OLD, Some(b"old"));
        let Outcome::Done(Reply::Read { version, time, value, answered_by, .. }) = fake.outcome().1 else {
            panic!("a brick has told its value");
        };
        assert_eq!((version.raw(), u64::from(time)), (OLD.time, OLD.time / 1_000_000));
        assert_eq!((value, answered_by), (b"old".to_vec(), ServerId(asked[0].brick)));
        // Nothing is repaired, and nobody else is asked.
        fake.expect_silence();
    }
    asked_of.sort_unstable();
    assert_eq!(asked_of, [1, 2, 3], "the load is spread");
}

// I1
#[test]
fn a_stale_read_needs_a_single_brick_and_no_time() {
    let mut fake = Fake::new();
    fake.start(stale());
    fake.describe_bricks(&held_by([1, 2, 3], 1, Adaptive));
    let first = fake.asked();
    assert_eq!(first.len(), 1, "nobody is asked for the time");
    fake.lose(server(first[0].brick), Lost::Refused);
    fake.sent.retain(|sent| sent.opcode() == ramhold_wire::Opcode::Ask);
    let second = fake.asked();
    assert_eq!(second.len(), 1, "the next one at once");
    assert_eq!(fake.wait(millis(5000)), millis(20));
    let third = fake.asked();
    assert_eq!(third.len(), 1, "and the last one when the second is silent");
    fake.say_stored(&third[0], OLD, Some(b"old"));
    fake.expect_found(OLD, b"old");
}

// I1, A12
#[test]
fn what_is_gone_at_the_brick_that_was_asked_is_absent() {
    let mut fake = Fake::with_bricks(Adaptive);
    for said in [
        AskSaid::Value(Stamp::NONE, None),
        AskSaid::Value(OLD, None),
        AskSaid::Value(OLD, Some(StampedValue { bytes: b"x", expires: Some(ClusterTime(DATE / 1000)) })),
    ] {
        fake.start(stale());
        let asked = fake.asked();
        fake.say(&asked[0], said);
        let detail = fake.expect_refused(Status::NotFound);
        assert!(detail.starts_with("the brick that was asked answered"), "{detail}");
        fake.expect_silence();
    }
}

// I1
#[test]
fn only_quorum_tables_are_read_stale() {
    let mut fake = Fake::new();
    fake.start(stale());
    fake.describe(ALL_AT_1);
    let detail = fake.expect_refused(Status::Unsupported);
    assert!(detail.contains("is no quorum table"), "{detail}");
    // Not even when the owner is dead.
    let mut fake = Fake::new();
    fake.start(stale());
    fake.describe(RECOVERING);
    fake.expect_refused(Status::Unsupported);
}

/// A session in zone b; brick 2 is there.
fn in_zone() -> Fake {
    let mut description = held_by([1, 2, 3], 1, Adaptive);
    let zone = |(brick, zone): (u64, &str)| BrickZone { brick: ServerId(brick), zone: zone.to_owned() };
    description.zones = Some([(1, "a"), (2, "b")].map(zone).to_vec());
    let mut fake = Fake::with(|config| config.zone = Some("b".into()));
    fake.start(read(KEY));
    fake.describe_bricks(&description);
    fake.asked().iter().for_each(|it| fake.say(it, AskSaid::Stamp(Stamp::NONE)));
    fake.asked().iter().for_each(|it| fake.say_stored(it, Stamp::NONE, None));
    fake.expect_refused(Status::NotFound);
    fake
}

fn value_of(asked: &[Asked]) -> &Asked {
    asked.iter().find(|it| it.what == Asks::Value).unwrap()
}

// I5
#[test]
fn a_session_asks_bricks_of_its_zone_for_values() {
    let mut fake = in_zone();
    let mut others = Vec::new();
    for _ in 0..6 {
        fake.start(read(KEY));
        let asked = fake.asked();
        assert_eq!(value_of(&asked).brick, 2);
        others.extend(bricks_of(&asked).into_iter().filter(|brick| *brick != 2));
        asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"old")));
        fake.expect_found(OLD, b"old");
        fake.start(stale());
        let asked = fake.asked();
        assert_eq!(bricks_of(&asked), [2]);
        fake.say_stored(&asked[0], OLD, Some(b"old"));
        fake.expect_found(OLD, b"old");
    }
    assert!(others.contains(&1) && others.contains(&3), "stamps come from all others: {others:?}");
}

// I5
#[test]
fn a_brick_of_the_zone_with_a_much_fuller_window_is_passed_over() {
    let mut fake = in_zone();
    let mut from = Vec::new();
    // Nothing is answered: the window of brick 2 has room for four.
    for _ in 0..6 {
        fake.start(read(KEY));
        from.push(value_of(&fake.asked()).brick);
    }
    assert_eq!(from[..2], [2, 2]);
    assert!(from.contains(&1) && from.contains(&3), "{from:?}");
    assert!(from.iter().filter(|brick| **brick == 2).count() <= 4, "{from:?}");
}
