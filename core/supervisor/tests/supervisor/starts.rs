//! Ends by themselves, operators, limits, and the end of the supervisor.

use crate::rig::{BRICK, Brick, CLUSTER, MILLI, Rig, order, sibling};
use ramhold_base::{ClusterId, Input, ServerId, Status};
use ramhold_supervisor::{Act, RestartLimit};
use ramhold_wire::Header;
use ramhold_wire::restart::{BrickRestart, RestartSaid};
use std::time::Duration;

// I6
#[test]
fn at_the_limit_a_brick_stays_offline_until_an_operator_starts_it() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    for life in 1..=3 {
        rig.brick = Brick::Silent;
        rig.send(sibling(4), &order(life));
        rig.run(2000);
        assert_eq!(rig.take_acts(), [Act::Kill, Act::Start], "life {life}");
        rig.brick = Brick::Answers;
        rig.run(2000);
    }
    rig.take_answers();
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(4));
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Kill]);
    let event = rig.reports.last().unwrap();
    assert!(event.contains("offline after 3 restarts within 600 s"), "{event}");
    assert!(event.contains("then run 'ramhold brick restart s3'"), "{event}");
    rig.send(sibling(5), &order(4));
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Offline)); 2]);
    rig.run(3_600_000);
    assert!(rig.acts.is_empty());

    rig.brick = Brick::Answers;
    rig.send(Header { sender: ServerId::NONE, ..sibling(0) }, &BrickRestart { brick: BRICK, life: 4 });
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Restarting))]);
    assert_eq!(rig.take_acts(), [Act::Start]);
    rig.run(3000);
    // The count begins anew.
    rig.end();
    assert_eq!(rig.take_acts(), [Act::Start]);
}

// I6: a process that cannot start does not take all of a processor.
#[test]
fn an_end_by_itself_needs_no_order_and_short_lives_are_followed_by_pauses() {
    let mut rig = Rig::new(RestartLimit::None);
    rig.run(10_000);
    rig.end();
    assert_eq!(rig.take_acts(), [Act::Start], "at once");
    let begun = rig.now.0 / MILLI;
    for _ in 0..8 {
        let before = rig.acts.len();
        rig.end();
        while rig.acts.len() == before {
            rig.run(10);
        }
    }
    let starts: Vec<u64> = rig.acts.iter().map(|(at, _)| (at - begun) / 1000).collect();
    assert_eq!(starts, [1, 3, 7, 15, 31, 63, 123, 183]);
    let mut limited = Rig::new(RestartLimit::at_most(0, Duration::from_secs(60)).unwrap());
    limited.end();
    limited.run(100_000);
    assert!(limited.acts.is_empty());
}

// I6
#[test]
fn a_process_that_answers_nothing_for_a_minute_is_restarted_without_an_order() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.end();
    rig.run(59_000);
    assert_eq!(rig.take_acts(), [Act::Start]);
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert!(rig.reports.last().unwrap().contains("has answered nothing for 60.0 s"));
    // The same for one that has answered before, and has no sibling that could order anything.
    rig.brick = Brick::Answers;
    rig.run(5000);
    rig.brick = Brick::Silent;
    rig.run(59_000);
    assert!(rig.acts.is_empty());
    rig.run(3000);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
}

// I6
#[test]
fn an_operators_restart_stops_in_order_and_once() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    let operator = Header { cluster: CLUSTER, ..Header::default() };
    rig.send(operator, &BrickRestart { brick: BRICK, life: 1 });
    assert_eq!(rig.take_acts(), [Act::Stop, Act::Start]);
    // The network has doubled it.
    rig.send(operator, &BrickRestart { brick: BRICK, life: 1 });
    rig.run(3000);
    rig.send(operator, &BrickRestart { brick: BRICK, life: 1 });
    rig.send(Header { cluster: ClusterId(1), ..operator }, &BrickRestart { brick: BRICK, life: 0 });
    assert!(rig.acts.is_empty());
    let told: Vec<Status> = rig.take_answers().into_iter().map(|(status, _)| status).collect();
    assert_eq!(told, [Status::Ok, Status::Fenced, Status::Fenced, Status::WrongCluster]);
}

// I6: the brick has told an operator of its life before its supervisor has asked.
#[test]
fn a_restart_of_a_life_that_is_not_known_yet_is_refused_for_now() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    let operator = Header { cluster: CLUSTER, ..Header::default() };
    rig.send(operator, &BrickRestart { brick: BRICK, life: 2 });
    assert_eq!(rig.take_answers(), [(Status::NotReady, None)]);
    assert!(rig.acts.is_empty());
    rig.end();
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Start]);
    rig.send(operator, &BrickRestart { brick: BRICK, life: 2 });
    assert_eq!(rig.take_acts(), [Act::Stop, Act::Start]);
}

// I6: a process that does not stop for an operator is killed, and started again.
#[test]
fn an_operators_restart_kills_what_has_not_stopped_within_a_minute() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.ends_within = None;
    rig.send(Header { cluster: CLUSTER, ..Header::default() }, &BrickRestart { brick: BRICK, life: 1 });
    rig.run(59_900);
    assert_eq!(rig.take_acts(), [Act::Stop]);
    rig.run(200);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert!(rig.reports.last().unwrap().ends_with("killed and started again"), "{:?}", rig.reports);
}

// I6: nobody waits until a process that hangs has stopped in order.
#[test]
fn an_operators_restart_kills_a_process_that_hangs() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.run(2000);
    assert!(rig.acts.is_empty(), "silence without an order is nothing");
    rig.send(Header { cluster: CLUSTER, ..Header::default() }, &BrickRestart { brick: BRICK, life: 1 });
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
}

// I6
#[test]
fn a_supervisor_stops_its_brick_before_it_ends() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.ends_within = Some(300);
    rig.input(Input::Stop);
    rig.run(299);
    assert_eq!((rig.take_acts(), rig.exit.as_ref()), (vec![Act::Stop], None), "the brick flushes");
    rig.run(1);
    assert_eq!(rig.exit, Some((0, "stopped".to_owned())));
    rig.run(100_000);
    assert!(rig.acts.is_empty());
}

// I6: nobody takes what a brick could not flush for flushed.
#[test]
fn a_brick_that_does_not_stop_in_order_is_told_and_its_status_is_the_supervisors() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    (rig.ends_within, rig.code) = (Some(300), 7);
    rig.input(Input::Stop);
    rig.run(400);
    let (code, why) = rig.exit.take().expect("it has ended");
    assert!(code == 7 && why.contains("brick-1 (s3) did not stop in order (exit status"), "{code}: {why}");
    let event = rig.reports.last().unwrap();
    assert!(event.contains("brick-1 (s3) has ended (exit status)"), "{event}");
    // An operator's restart goes on, and tells it.
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    (rig.ends_within, rig.code) = (Some(300), 7);
    rig.send(Header { cluster: CLUSTER, ..Header::default() }, &BrickRestart { brick: BRICK, life: 1 });
    rig.run(400);
    assert_eq!(rig.take_acts(), [Act::Stop, Act::Start]);
    let event = rig.reports.last().unwrap();
    assert!(event.contains("has ended (exit status)") && event.ends_with("; started again"), "{event}");
    // One that stops as it should is not told.
    let told = rig.reports.len();
    rig.code = 0;
    rig.run(2000);
    rig.send(Header { cluster: CLUSTER, ..Header::default() }, &BrickRestart { brick: BRICK, life: 2 });
    rig.run(400);
    assert_eq!(rig.reports.len(), told + 1, "only that it was asked for: {:?}", rig.reports.last());
}

// I6: there is nobody to send a second signal.
#[test]
fn a_supervisor_that_ends_kills_a_brick_that_hangs_or_does_not_stop_in_time() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.ends_within = None;
    rig.input(Input::Stop);
    rig.run(59_000);
    assert_eq!((rig.take_acts(), rig.exit.as_ref()), (vec![Act::Stop], None), "it may be flushing");
    rig.run(2000);
    assert_eq!((rig.take_acts(), rig.exit.take().unwrap().0), (vec![Act::Kill], 137));
    assert!(rig.reports.last().unwrap().contains("has not stopped within 60.0 s"), "{:?}", rig.reports);
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    (rig.brick, rig.ends_within) = (Brick::Silent, None);
    rig.run(3000);
    rig.input(Input::Stop);
    let (code, _) = rig.exit.take().expect("it does not hear that it is to stop");
    assert_eq!((rig.take_acts(), code), (vec![Act::Kill], 137));
    assert!(rig.reports.last().unwrap().ends_with("; killed"), "{:?}", rig.reports);
}

// I6: rule 45 counts operators, too.
#[test]
fn no_two_starts_within_two_periods_whoever_asks() {
    let mut rig = Rig::new(RestartLimit::None);
    let operator = Header { cluster: CLUSTER, ..Header::default() };
    for _ in 0..20 {
        rig.send(operator, &BrickRestart { brick: BRICK, life: 0 });
        rig.run(150);
    }
    rig.run(3000);
    let starts: Vec<u64> = rig.acts.iter().filter(|(_, act)| *act == Act::Start).map(|(at, _)| *at).collect();
    assert!(starts.len() >= 3, "{starts:?}");
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 1000), "{starts:?}");
}

// I6: nobody answers, and nobody listens: that is no end of the count.
#[test]
fn a_process_that_refuses_connections_for_a_minute_is_restarted_too() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Refuses;
    rig.run(59_000);
    assert!(rig.acts.is_empty());
    rig.run(3000);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
}
