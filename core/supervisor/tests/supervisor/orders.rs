//! Orders of siblings that hear nothing of the brick.

use crate::rig::{Brick, MILLI, Rig, order, sibling};
use ramhold_base::{ClusterId, ConnId, Input, Instant, ServerId, Status};
use ramhold_supervisor::{Act, RestartLimit};
use ramhold_wire::Header;
use ramhold_wire::restart::{RestartOrder, RestartSaid};

// I6
#[test]
fn twenty_orders_at_once_are_one_restart() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    for number in 0..20 {
        rig.send(sibling(4 + number % 2), &order(1));
    }
    assert!(rig.acts.is_empty(), "the brick is asked first");
    rig.run(999);
    assert!(rig.acts.is_empty(), "two questions of half a second");
    rig.run(600);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Restarting)); 20]);
    let event = rig.reports.last().unwrap();
    assert!(
        event.contains("brick s3, life 1, is silent for 1.0 s (announcements); noticed by brick s4"),
        "{event}"
    );
    assert!(event.ends_with("killed and started again"), "{event}");
}

// I6
#[test]
fn a_brick_that_answers_over_loopback_is_left_alone() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.send(sibling(4), &order(1));
    rig.run(60_000);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))]);
    // It is slow, and answers the second question.
    rig.brick = Brick::Silent;
    rig.send(sibling(5), &order(1));
    rig.run(450);
    rig.brick = Brick::Answers;
    rig.run(60_000);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))]);
}

// I6: the whole host was stopped for a while. One late look is no silence.
#[test]
fn a_supervisor_that_was_stopped_itself_asks_anew() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(1));
    rig.now = Instant(rig.now.0 + 30_000 * MILLI);
    rig.brick = Brick::Answers;
    rig.run(10_000);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))]);
}

// I6: the next life is silent while it starts; an order for the one before it must not end it.
#[test]
fn an_order_for_a_life_that_is_over_ends_nothing() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Refuses;
    rig.end();
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Start]);
    rig.send(sibling(4), &order(1));
    assert_eq!(rig.take_answers(), [(Status::Fenced, None)]);
    rig.brick = Brick::Answers;
    rig.run(2000);
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(1));
    // The same number, but another process: it ran on a copy of the directory.
    rig.send(sibling(4), &RestartOrder { mark: 7, ..order(2) });
    rig.run(10_000);
    assert_eq!(rig.take_answers(), [(Status::Fenced, None); 2]);
    assert!(rig.acts.is_empty());
}

// I6
#[test]
fn orders_of_strangers_are_refused() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.run(600);
    rig.send(Header { sender: ServerId::NONE, ..sibling(0) }, &order(1));
    rig.send(sibling(6), &order(1));
    rig.send(Header { cluster: ClusterId(8), ..sibling(4) }, &order(1));
    rig.send(sibling(4), &RestartOrder { brick: ServerId(4), ..order(1) });
    rig.send(sibling(4), &order(2));
    rig.run(10_000);
    let refused =
        [Status::NotAllowed, Status::NotAllowed, Status::WrongCluster, Status::WrongServer, Status::NotReady];
    assert_eq!(rig.take_answers(), refused.map(|status| (status, None)));
    rig.input(Input::Frame { from: ConnId(8), bytes: b"*1\r\n$4\r\nPING\r\n" });
    assert!(rig.acts.is_empty());
}

// I6: an order makes the supervisor ask at once. Connections that are lost one after the other are no silence yet.
#[test]
fn lost_connections_alone_are_no_silence() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Refuses;
    for number in 0..6 {
        rig.send(sibling(4 + number % 2), &order(1));
        rig.run(150);
    }
    assert!(rig.acts.is_empty(), "900 ms and six lost connections: {:?}", rig.acts);
    rig.brick = Brick::Answers;
    rig.run(10_000);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers)); 6]);
    // One whose connections are lost for longer is restarted, and not sooner than one that is silent.
    rig.brick = Brick::Refuses;
    rig.send(sibling(4), &order(1));
    rig.run(999);
    assert!(rig.acts.is_empty());
    rig.run(600);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
}
