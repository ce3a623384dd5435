//! Bricks that somebody else starts, such as systemd: a command ends them. And processes that are no bricks.

use crate::rig::{BRICK, Brick, CLUSTER, Rig, order, sibling};
use ramhold_base::Status;
use ramhold_supervisor::{Act, RestartLimit};
use ramhold_wire::Header;
use ramhold_wire::restart::{BrickRestart, RestartSaid};

fn operator() -> Header {
    Header { cluster: CLUSTER, ..Header::default() }
}

/// The brick hangs, and a sibling orders its restart.
fn hang(rig: &mut Rig, life: u64) {
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(life));
    rig.run(2600);
}

// I6
#[test]
fn a_command_restarts_a_hung_brick_that_somebody_else_starts() {
    let mut rig = Rig::foreign(RestartLimit::DEFAULT);
    rig.ends_within = Some(100);
    hang(&mut rig, 1);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert!(rig.reports.last().unwrap().ends_with("the command of --run restarts it"), "{:?}", rig.reports);
    // Its next life is another one.
    rig.brick = Brick::Answers;
    rig.run(2000);
    rig.take_answers();
    rig.send(sibling(4), &order(1));
    assert_eq!(rig.take_answers(), [(Status::Fenced, None)]);
}

// I6: the life that hangs is not over, so it can be ordered again, and nothing was restarted that would count.
#[test]
fn a_command_that_fails_has_ended_nothing_and_is_no_restart() {
    let mut rig = Rig::foreign(RestartLimit::DEFAULT);
    rig.code = 1;
    for _ in 0..5 {
        hang(&mut rig, 1);
        assert_eq!(rig.take_acts(), [Act::Kill], "its owner starts nothing, as nothing has ended");
        let event = rig.reports.last().unwrap();
        assert!(event.contains("the command that ends brick-1 (s3) has failed (exit status)"), "{event}");
    }
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Restarting)); 5]);
    rig.code = 0;
    for life in 1..=3 {
        hang(&mut rig, life);
        assert_eq!(rig.take_acts(), [Act::Kill, Act::Start], "life {life}: the limit is untouched");
        rig.brick = Brick::Answers;
        rig.run(2000);
    }
    // The same for an operator.
    rig.code = 1;
    rig.send(operator(), &BrickRestart { brick: BRICK, life: 4 });
    assert_eq!(rig.take_acts(), [Act::Stop]);
    assert!(rig.reports.last().unwrap().contains("has failed"), "{:?}", rig.reports);
    rig.run(2000);
    rig.send(operator(), &BrickRestart { brick: BRICK, life: 4 });
    assert_eq!(rig.take_acts(), [Act::Stop], "it is still that life");
}

// I6
#[test]
fn a_command_that_hangs_is_killed_and_has_ended_nothing() {
    let mut rig = Rig::foreign(RestartLimit::DEFAULT);
    rig.ends_within = None;
    hang(&mut rig, 1);
    assert_eq!(rig.take_acts(), [Act::Kill]);
    rig.run(28_000);
    assert!(rig.acts.is_empty());
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Kill], "the command itself");
    assert!(rig.reports.last().unwrap().contains("has failed (signal: 9)"), "{:?}", rig.reports);
    // The brick goes on as it is, and an operator's command has the time of a flush.
    rig.brick = Brick::Answers;
    rig.run(2000);
    rig.send(operator(), &BrickRestart { brick: BRICK, life: 1 });
    rig.run(59_000);
    assert_eq!(rig.take_acts(), [Act::Stop]);
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Kill]);
}

// I6: its owner would start it again. It hangs until it answers by itself, or an operator comes.
#[test]
fn at_the_limit_a_brick_of_somebody_else_is_left_and_watched() {
    let mut rig = Rig::foreign(RestartLimit::DEFAULT);
    for life in 1..=3 {
        hang(&mut rig, life);
        assert_eq!(rig.take_acts(), [Act::Kill, Act::Start], "life {life}");
        rig.brick = Brick::Answers;
        rig.run(2000);
    }
    rig.take_answers();
    hang(&mut rig, 4);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Offline))]);
    assert!(rig.reports.last().unwrap().contains("offline after 3 restarts"), "{:?}", rig.reports);
    rig.run(300_000);
    assert!(rig.acts.is_empty(), "silence without an order is nothing either");
    let asked = rig.questions;
    rig.run(10_000);
    assert!(rig.questions > asked, "it is asked all the time");
    rig.brick = Brick::Answers;
    rig.run(2000);
    let event = rig.reports.last().unwrap();
    assert!(event.contains("answers again") && event.contains("when it hangs again"), "{event}");
    rig.send(sibling(4), &order(4));
    rig.run(600);
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))], "it is not called offline");
    hang(&mut rig, 4);
    assert!(rig.acts.is_empty(), "four restarts within ten minutes are too many still");
    rig.send(operator(), &BrickRestart { brick: BRICK, life: 4 });
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start], "an operator's word counts");
}

// I6: only bricks are restarted, whatever address an operator gives.
#[test]
fn a_process_that_is_no_brick_is_never_ended() {
    for status in [Status::WrongOwner, Status::UnknownOpcode, Status::NotAllowed] {
        let mut rig = Rig::foreign(RestartLimit::DEFAULT);
        rig.brick = Brick::Stranger(status);
        hang_as(&mut rig, status);
        rig.run(600_000);
        assert!(rig.acts.is_empty(), "{status}");
        let told: Vec<&String> =
            rig.reports.iter().filter(|text| text.contains("there is no brick")).collect();
        assert_eq!(told.len(), 1, "{:?}", rig.reports);
        assert!(told[0].contains("127.0.0.1:7501"), "{}", told[0]);
    }
    // A brick that does not know yet which one it is answers, too, and nobody takes it for something else.
    let mut rig = Rig::foreign(RestartLimit::DEFAULT);
    rig.brick = Brick::Stranger(Status::NotReady);
    rig.run(600_000);
    assert!(rig.acts.is_empty() && rig.reports.is_empty(), "{:?}", rig.reports);
}

/// A sibling orders a restart meanwhile: the brick was there, and something else came to its address.
fn hang_as(rig: &mut Rig, status: Status) {
    rig.send(sibling(4), &order(1));
    rig.run(2000);
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))], "{status}");
}
