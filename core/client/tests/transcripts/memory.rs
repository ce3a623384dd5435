//! Bricks without memory for a value: a put that none of them has stored is refused, and is not unknown.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{Stamp, Status};
use ramhold_client_core::Outcome;
use ramhold_wire::Opcode;
use ramhold_wire::ask::AskSaid;
use ramhold_wire::quorum::WriteProtocol::{Adaptive, Single};

/// Answers all questions until the operation has ended. `None`: this one has no answer.
fn run(fake: &mut Fake, mut status: impl FnMut(&Asked) -> Option<Status>) -> Outcome {
    for _ in 0..1000 {
        for it in fake.asked() {
            match status(&it) {
                Some(Status::Ok) if matches!(it.what, Asks::Write(..) | Asks::Repair(..)) => {
                    fake.say(&it, AskSaid::Applied);
                }
                Some(Status::Ok) => fake.say_stored(&it, OLD, Some(b"old")),
                Some(refusal) => fake.refuse(&it, refusal),
                None => {}
            }
        }
        if let Some((_, outcome)) = fake.session.take_outcome() {
            return outcome;
        }
        if fake.sent.is_empty() {
            fake.wait(millis(10_000));
        }
        fake.sent.retain(|sent| sent.opcode() == Opcode::Ask);
    }
    panic!("it does not end");
}

fn is_write(it: &Asked) -> bool {
    matches!(it.what, Asks::Write(..) | Asks::Repair(..))
}

/// Full bricks, which tell stamps and values.
fn full(it: &Asked) -> Option<Status> {
    Some(if is_write(it) { Status::OutOfMemory } else { Status::Ok })
}

// I3, C6
#[test]
fn a_put_that_all_bricks_refuse_is_out_of_memory_and_not_unknown() {
    for protocol in [Single, Adaptive] {
        let mut fake = Fake::with_bricks(protocol);
        fake.start(write(KEY, b"value"));
        let Outcome::Refused { status, detail, .. } = run(&mut fake, full) else { panic!("not refused") };
        assert_eq!(status, Status::OutOfMemory);
        assert!(detail.starts_with("0 of the key's 3 bricks answered, 2 must; brick s1 at "), "{detail}");
        // Nothing is settled before the next get.
        fake.start(read(KEY));
        let asked = fake.asked();
        assert!(asked.iter().all(|it| matches!(it.what, Asks::Value | Asks::Stamp)), "{asked:?}");
    }
}

/// The refusal of a brick, if there is one.
type Answers = dyn FnMut(&Asked) -> Option<Status>;

// I3
#[test]
fn a_put_that_one_brick_may_have_stored_is_unknown() {
    let one_is_silent = |it: &Asked| full(it).filter(|_| !is_write(it) || it.brick != 2);
    let mut is_first = true;
    let first_is_silent = move |it: &Asked| {
        let is_lost = is_write(it) && it.brick == 2 && std::mem::take(&mut is_first);
        full(it).filter(|_| !is_lost)
    };
    let one_has_room = |it: &Asked| if it.brick == 2 { Some(Status::Ok) } else { full(it) };
    let cases: [Box<Answers>; 3] =
        [Box::new(one_is_silent), Box::new(first_is_silent), Box::new(one_has_room)];
    for answers in cases {
        let mut fake = Fake::with_bricks(Single);
        fake.start(write(KEY, b"value"));
        let outcome = run(&mut fake, answers);
        assert!(matches!(outcome, Outcome::Unknown { token: Some(_), .. }), "{outcome:?}");
    }
}

// I1
#[test]
fn a_get_that_full_bricks_keep_from_its_end_says_so() {
    let mut fake = Fake::with_bricks(Single);
    let newer = Stamp { time: OLD.time + 1, session: 2 };
    let mut refusals = 0;
    // The first brick alone has what is newest. A get that asks the others finds what they have.
    for _ in 0..6 {
        fake.start(read(KEY));
        let mut turns = 0;
        while fake.session.under_way_count() > 0 {
            turns += 1;
            assert!(turns < 1000, "it does not end");
            for it in fake.asked() {
                match it.what {
                    Asks::Repair(..) | Asks::Write(..) if it.brick == 1 => fake.say(&it, AskSaid::Applied),
                    Asks::Repair(..) | Asks::Write(..) => fake.refuse(&it, Status::OutOfMemory),
                    Asks::Value | Asks::Stamp if it.brick == 1 => fake.say_stored(&it, newer, Some(b"newer")),
                    Asks::Value | Asks::Stamp => fake.say_stored(&it, OLD, Some(b"old")),
                }
            }
            if fake.session.under_way_count() > 0 && fake.sent.is_empty() {
                fake.wait(millis(10_000));
            }
            fake.sent.retain(|sent| sent.opcode() == Opcode::Ask);
        }
        match fake.outcome().1 {
            Outcome::Refused { status, .. } => {
                assert_eq!(status, Status::OutOfMemory);
                refusals += 1;
            }
            outcome => assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}"),
        }
    }
    assert!(refusals > 0);
}

// I1, I3: the bricks' time is asked for first, and one brick tells it.
#[test]
fn a_session_that_begins_blames_only_the_bricks_that_were_silent() {
    let mut fake = Fake::new();
    fake.start(write(KEY, b"value"));
    fake.describe_bricks(&held_by([1, 2, 3], 1, Single));
    let outcome = run(&mut fake, |it| (it.brick == 2).then_some(Status::Ok));
    let Outcome::Refused { status, detail, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(status, Status::NoQuorum);
    assert!(detail.starts_with("1 of the key's 3 bricks answered, 2 must; brick s1 at "), "{detail}");
    assert!(!detail.contains("brick s2"), "{detail}");
}
