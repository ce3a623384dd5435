//! Leases of clients: how long they live, and that "over" is for good.
//!
//! Catalogue: A3. Rules: docs/protocols/exactly-once.md.

use crate::harness::*;
use ramhold_base::{LeaseId, Status};
use ramhold_wire::lease::*;
use std::time::Duration;

fn open(world: &mut World, term_millis: u64) -> LeaseOpened {
    world.client(&LeaseOpen { term_millis }).expect("answered").expect("opened")
}

fn renew(world: &mut World, lease: LeaseId) -> Result<LeaseRenewed, Status> {
    world.client(&LeaseRenew { lease }).expect("answered")
}

fn live(world: &mut World, lease: LeaseId) -> Option<u64> {
    let checked = world.client(&LeaseCheck { leases: vec![lease] }).expect("answered").expect("checked");
    checked.live.first().map(|live| live.millis)
}

#[test]
fn a_lease_lives_for_a_term_after_its_last_renewal() {
    let mut world = World::new();
    let LeaseOpened { lease, term_millis } = open(&mut world, 60_000);
    assert_eq!((lease, term_millis), (LeaseId(1), 60_000));
    assert_eq!(live(&mut world, lease), Some(60_000));
    world.run(Duration::from_secs(40));
    assert_eq!(live(&mut world, lease), Some(20_000));
    assert_eq!(renew(&mut world, lease).unwrap().term_millis, 60_000);
    world.run(Duration::from_millis(59_999));
    assert_eq!(live(&mut world, lease), Some(1));
    world.run(Duration::from_millis(1));
    assert_eq!(live(&mut world, lease), None);
    assert_eq!(renew(&mut world, lease), Err(Status::LeaseOver));
    assert!(world.state().leases.is_empty());
    assert_eq!(open(&mut world, 60_000).lease, LeaseId(2), "an id is given out once");
}

// A3, G1: masters go by what they are told of a lease under later coordinators too.
#[test]
fn a_deposed_coordinator_tells_nobody_that_a_lease_lives() {
    let mut world = World::cluster(1);
    let LeaseOpened { lease, .. } = open(&mut world, 60_000);
    world.store_held = true;
    let asked = world.post(addr(1), &LeaseCheck { leases: vec![lease] });
    world.settle();
    assert_eq!(world.answer_to(asked), None, "the store has not confirmed the term");
    world.store_held = false;
    world.settle();
    assert_eq!(world.answer_to(asked).map(|(status, _)| status), Some(Status::Ok));
    let mut next = World::on(std::mem::take(&mut world.store), 99);
    next.run(Duration::from_secs(1));
    world.store = std::mem::take(&mut next.store);
    let asked = world.post(addr(1), &LeaseCheck { leases: vec![lease] });
    world.settle();
    assert_eq!(world.answer_to(asked), None);
    assert_eq!(world.exit.as_ref().map(|(code, _)| *code), Some(3), "{:?}", world.exit);
}

#[test]
fn a_term_is_brought_into_its_range() {
    let mut world = World::new();
    assert_eq!(open(&mut world, 0).term_millis, 10_000);
    assert_eq!(open(&mut world, u64::MAX).term_millis, 30 * 60_000);
}

#[test]
fn a_new_coordinator_gives_whole_terms_and_revives_nobody() {
    let mut world = World::new();
    let over = open(&mut world, 10_000).lease;
    let lives = open(&mut world, 60_000).lease;
    world.run(Duration::from_secs(50));
    assert_eq!(live(&mut world, over), None);
    world.restart();
    assert_eq!(live(&mut world, over), None);
    assert_eq!(live(&mut world, lives), Some(60_000));
    assert_eq!(open(&mut world, 60_000).lease, LeaseId(3));
}

#[test]
fn nobody_hears_of_a_lease_or_its_end_before_the_store_has_it() {
    let mut world = World::new();
    world.store_held = true;
    assert!(world.client(&LeaseOpen { term_millis: 10_000 }).is_none());
    world.restart();
    world.store_held = false;
    world.release_store();
    world.settle();
    let lease = open(&mut world, 10_000).lease;
    world.run(Duration::from_millis(9_999));
    world.store_held = true;
    world.run(Duration::from_millis(1));
    assert!(world.client(&LeaseCheck { leases: vec![lease] }).is_none(), "not before its removal is durable");
    // The coordinator dies before that: the lease lives on, and nobody was told otherwise.
    world.store_held = false;
    world.restart();
    assert_eq!(live(&mut world, lease), Some(10_000));
}

#[test]
fn a_coordinator_that_was_stopped_ends_nobody_who_could_not_renew() {
    let mut world = World::new();
    let lease = open(&mut world, 10_000).lease;
    world.now = world.now + Duration::from_secs(3600);
    assert_eq!(live(&mut world, lease), Some(10_000));
}

#[test]
fn too_many_in_one_question_are_refused() {
    let mut world = World::new();
    let leases = vec![LeaseId(1); LEASE_CHECK_COUNT_MAX + 1];
    assert_eq!(world.client(&LeaseCheck { leases }).expect("answered"), Err(Status::TooMany));
}
