//! A front that is ready to serve without the coordinator (B1, J1).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod rig;

use ramhold_base::*;
use rig::{A, Rig};
use std::time::Duration;

// B1, J1: the coordinator may be away when the first command comes.
#[test]
fn a_front_has_what_commands_need_before_the_first_one_comes() {
    let mut rig = Rig::new();
    let is_ready = |rig: &mut Rig| rig.ask(A, "info").contains("ramhold_ready_without_coordinator:1\r\n");
    rig.meets = Status::Retry;
    rig.pass(Duration::from_secs(2));
    assert!(rig.met.len() >= 3, "{:?}", rig.met);
    assert!(!is_ready(&mut rig), "no master knows its lease");
    rig.meets = Status::Ok;
    rig.shelf.has_unconfirmed = true;
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.met.last(), Some(&(ServerId(1), LeaseId(7))));
    assert!(!is_ready(&mut rig), "its own tablets are not confirmed");
    rig.shelf.has_unconfirmed = false;
    assert!(is_ready(&mut rig));
    // About once a minute it is said again. A master that does not know it any more is asked more often, but not for long.
    rig.met.clear();
    rig.pass(Duration::from_secs(44));
    assert_eq!(rig.met, []);
    rig.meets = Status::Retry;
    rig.pass(Duration::from_secs(32));
    assert!(!is_ready(&mut rig));
    let many = rig.met.len();
    rig.pass(Duration::from_secs(60));
    assert!((55..=61).contains(&(rig.met.len() - many)), "{} in a minute", rig.met.len() - many);
    rig.meets = Status::Ok;
    rig.pass(Duration::from_secs(2));
    assert!(is_ready(&mut rig));
}

// B1, J1: another server's FLUSHDB and recoveries change who owns the tablets.
#[test]
fn a_front_learns_new_owners_within_seconds() {
    let mut rig = Rig::new();
    let is_ready = |rig: &mut Rig| rig.ask(A, "info").contains("ramhold_ready_without_coordinator:1\r\n");
    rig.pass(Duration::from_secs(10));
    assert!(is_ready(&mut rig));
    // The owner is a server that is gone.
    rig.owner = ServerId(9);
    rig.pass(Duration::from_secs(5));
    assert!(!is_ready(&mut rig));
    rig.owner = ServerId(1);
    rig.pass(Duration::from_secs(5));
    assert!(is_ready(&mut rig));
    let before = rig.described;
    rig.pass(Duration::from_secs(60));
    assert!((20..=60).contains(&(rig.described - before)), "{} in a minute", rig.described - before);
}
