//! A table whose quorums differ, with one brick away: what goes on, what does not, and what the errors say.
//!
//! `ramhold plan` and `ramhold table describe` promise the same (docs/operating/quorum.md, Numbers).

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::Status;
use ramhold_client_core::{Operation, Outcome, Reply};
use ramhold_wire::Opcode;
use ramhold_wire::ask::AskSaid;
use ramhold_wire::quorum::QuorumOptions;
use ramhold_wire::quorum::WriteProtocol::{Adaptive, Single, TwoPhase};

/// The end of an operation. Two bricks have the old value and answer all; the third one refuses with this, or is silent.
fn outcome(fake: &mut Fake, operation: Operation, third: Option<Status>) -> Outcome {
    fake.start(operation);
    for _ in 0..10_000 {
        fake.sent.retain(|sent| sent.opcode() == Opcode::Ask);
        for it in fake.asked() {
            match (it.brick, &it.what, third) {
                (3, _, Some(status)) => fake.refuse(&it, status),
                (3, _, None) => {}
                (_, Asks::Value | Asks::Stamp, _) => fake.say_stored(&it, OLD, Some(b"old")),
                (_, Asks::Write(..) | Asks::Repair(..), _) => fake.say(&it, AskSaid::Applied),
            }
        }
        if let Some((_, outcome)) = fake.session.take_outcome() {
            return outcome;
        }
        if fake.sent.is_empty() {
            fake.wait(millis(10_000));
        }
    }
    panic!("it does not end");
}

// I1
#[test]
fn with_a_brick_away_gets_need_the_larger_quorum_and_so_do_puts_in_two_phases() {
    for (write_quorum, read_quorum) in [(2, 2), (3, 1), (3, 2), (2, 3), (3, 3)] {
        for protocol in [Single, TwoPhase, Adaptive] {
            let quorum = QuorumOptions { bricks: 3, write: write_quorum, read: read_quorum, protocol };
            let mut fake = Fake::with_quorum(quorum);
            let both = write_quorum.max(read_quorum);
            let needed = "2 of the key's 3 bricks answered, 3 must";
            match outcome(&mut fake, read(KEY), None) {
                Outcome::Done(Reply::Read { .. }) => assert!(both <= 2, "{quorum:?}"),
                Outcome::Refused { status: Status::NoQuorum, detail, .. } => {
                    assert!(both > 2 && detail.contains(needed), "{quorum:?}: {detail}");
                }
                other => panic!("{quorum:?}: {other:?}"),
            }
            // The get has met the silent brick, so an adaptive put takes two phases.
            let of_put = if protocol == Single { write_quorum } else { both };
            match outcome(&mut fake, write(KEY, b"new"), None) {
                Outcome::Done(Reply::Written { .. }) => assert!(of_put <= 2, "{quorum:?}"),
                // No brick was sent its stamp.
                Outcome::Refused { status: Status::NoQuorum, detail, .. } => {
                    assert!(read_quorum > 2 && detail.contains(needed), "{quorum:?}: {detail}");
                }
                Outcome::Unknown { detail, token: Some(_) } => {
                    assert!(write_quorum > 2 && detail.contains(needed), "{quorum:?}: {detail}");
                }
                other => panic!("{quorum:?}: {other:?}"),
            }
        }
    }
}

// I5
#[test]
fn a_get_that_an_overloaded_brick_keeps_from_its_write_quorum_is_told_of_the_overload() {
    let quorum = QuorumOptions { bricks: 3, write: 3, read: 1, protocol: Single };
    let mut fake = Fake::with_quorum(quorum);
    let Outcome::Refused { status, detail, .. } = outcome(&mut fake, read(KEY), Some(Status::TooMany)) else {
        panic!("it has found two of three")
    };
    assert_eq!(status, Status::TooMany, "{detail}");
    assert!(detail.contains("2 of the key's 3 bricks answered, 3 must"), "{detail}");
}

// I2: a get that asks one brick would take the time of that one for its repairs.
#[test]
fn a_read_that_asks_half_of_the_bricks_at_most_knows_the_time_of_most() {
    for (write, read_quorum) in [(3, 1), (2, 2)] {
        let mut fake = Fake::new();
        fake.start(read(KEY));
        let quorum = QuorumOptions { bricks: 3, write, read: read_quorum, protocol: Adaptive };
        fake.describe_bricks(&with_numbers([1, 2, 3], 1, quorum));
        let greeted = fake.asked();
        fake.say(&greeted[0], AskSaid::Stamp(OLD));
        let begins = fake.asked().iter().any(|it| matches!(it.what, Asks::Value));
        assert_eq!(begins, read_quorum == 2, "it hears two of three before it repairs anything");
        fake.say(&greeted[1], AskSaid::Stamp(OLD));
        let begins = begins || fake.asked().iter().any(|it| matches!(it.what, Asks::Value));
        assert!(begins, "two of three have told their time");
    }
}
