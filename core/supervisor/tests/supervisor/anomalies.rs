//! Orders for a brick that answers, and is unlike the others (docs/protocols/quorum.md, rules 66 to 68).

use crate::rig::{Brick, Rig, order, sibling};
use ramhold_base::Status;
use ramhold_supervisor::{Act, RestartLimit};
use ramhold_wire::restart::{RestartOrder, RestartSaid};
use ramhold_wire::statistics::Flags;

fn cure(life: u64) -> RestartOrder {
    RestartOrder { silent_millis: 0, flagged: Some(Flags(0b111_1110_1111_0001)), ..order(life) }
}

fn said(rig: &mut Rig) -> Vec<Option<RestartSaid>> {
    rig.take_answers().into_iter().map(|(_, said)| said).collect()
}

// I6
#[test]
fn an_anomalous_brick_is_restarted_when_its_siblings_consent_although_it_answers() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.send(sibling(4), &cure(1));
    rig.run(500);
    assert!(rig.acts.is_empty(), "its siblings are asked first");
    rig.may_restart = true;
    rig.run(200);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert_eq!(said(&mut rig), [Some(RestartSaid::Restarting)]);
    let event = rig.reports.last().unwrap();
    assert!(event.contains("brick s3, life 1, is anomalous: 11 of its statistics"), "{event}");
    assert!(event.contains("noticed by brick s4; its siblings consent: killed and started again"), "{event}");
    // The order is for one life.
    rig.run(2000);
    rig.send(sibling(4), &cure(1));
    rig.run(10_000);
    assert_eq!(rig.take_answers(), [(Status::Fenced, None)]);
    assert!(rig.acts.is_empty());
}

// I6
#[test]
fn without_consent_it_is_left_alone_and_that_is_said() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.send(sibling(4), &cure(1));
    rig.send(sibling(5), &cure(1));
    rig.run(2900);
    assert!(rig.answers.is_empty());
    rig.run(300);
    assert_eq!(said(&mut rig), [Some(RestartSaid::Held); 2]);
    rig.may_restart = true;
    rig.run(60_000);
    assert!(rig.acts.is_empty(), "nobody wants it any more");
    // One that is too slow for its supervisor is not killed for that: nobody has consented, and no sibling misses it.
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &cure(1));
    rig.run(5000);
    assert!(rig.acts.is_empty());
    assert_eq!(said(&mut rig), [Some(RestartSaid::Held)]);
    // Siblings that miss it weigh more.
    rig.send(sibling(4), &cure(1));
    rig.run(400);
    rig.send(sibling(5), &order(1));
    rig.run(1600);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert_eq!(said(&mut rig), [Some(RestartSaid::Restarting); 2]);
}

// I6
#[test]
fn only_siblings_order_it_and_two_orders_are_one_restart() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.may_restart = true;
    rig.send(sibling(6), &cure(1));
    rig.send(sibling(4), &RestartOrder { mark: 7, ..cure(1) });
    rig.run(5000);
    assert_eq!(rig.take_answers(), [(Status::NotAllowed, None), (Status::Fenced, None)]);
    rig.may_restart = false;
    rig.send(sibling(4), &cure(1));
    rig.send(sibling(5), &cure(1));
    rig.may_restart = true;
    rig.run(5000);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert_eq!(said(&mut rig), [Some(RestartSaid::Restarting); 2]);
}

// I6: a slow brick is better than none.
#[test]
fn an_anomalous_brick_is_spared_at_the_limit_and_does_not_go_offline() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.may_restart = true;
    for life in 1..=3 {
        rig.send(sibling(4), &cure(life));
        rig.run(3000);
        assert_eq!(rig.take_acts(), [Act::Kill, Act::Start], "life {life}");
    }
    rig.take_answers();
    rig.send(sibling(4), &cure(4));
    rig.run(3000);
    assert!(rig.acts.is_empty());
    assert_eq!(said(&mut rig), [Some(RestartSaid::Spared)]);
    let event = rig.reports.last().unwrap();
    assert!(event.contains("left as it is, as it answers: 3 restarts within 600 s"), "{event}");
    // Its restarts count for silence, too.
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(4));
    rig.run(3000);
    assert_eq!(rig.take_acts(), [Act::Kill]);
}
