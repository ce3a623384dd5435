//! The coordinator shows the backups' work for a recovery, live and afterwards.

use crate::harness::*;
use crate::recoveries::{killed, running};
use ramhold_base::ServerId;
use ramhold_wire::Opcode;
use ramhold_wire::recovery::{RecoveryWorked, WorkDone};
use ramhold_wire::status::{RecoveriesRequest, RecoveryPhase, RecoveryReport};
use std::time::Duration;

/// So much work, that began and ended so many milliseconds ago.
fn done(count: u64, began: u64, ended: u64) -> WorkDone {
    let ago = |millis: u64| Some(millis * 1000);
    WorkDone { count, bytes: count * 1000, busy: 7000, began: ago(began), ended: ago(ended) }
}

fn report(world: &mut World) -> RecoveryReport {
    let answer = world.client(&RecoveriesRequest {}).expect("it is answered at once");
    answer.expect("anybody may ask").recoveries.remove(0)
}

fn asked(world: &World) -> u32 {
    world.servers.values().map(|server| server.worked_asked).sum()
}

/// Server 1 is dead, somebody replays its log, and two backups have read and divided some of it.
fn replaying() -> World {
    let (mut world, _) = killed();
    world.give_head(ServerId(1), 2, &[2, 3]);
    world.server_mut(2).worked =
        RecoveryWorked { read: done(2, 300, 200), divide: done(2, 250, 190), ..RecoveryWorked::default() };
    let held =
        RecoveryWorked { read: done(3, 400, 100), divide: done(1, 90, 80), held: 5, ..Default::default() };
    world.server_mut(3).worked = held;
    world.run_until("told", |w| running(w).is_some());
    world.run(Duration::from_millis(1500));
    world
}

fn finish(world: &mut World) {
    let (at, recover) = running(world).expect("a partition is replayed");
    world.finish(at, &recover);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    world.settle_recovered();
}

// F11
#[test]
fn a_recovery_tells_while_it_runs_what_backups_have_done() {
    let mut world = replaying();
    let report = report(&mut world);
    assert_eq!(report.phase, RecoveryPhase::Replaying);
    let of = |id| *report.backups.iter().find(|backup| backup.server == ServerId(id)).expect("it was asked");
    let (second, third) = (of(2), of(3));
    assert_eq!((second.read.count, second.read.bytes, second.read.busy), (2, 2000, 7000));
    assert_eq!(second.read.to.unwrap() - second.read.from.unwrap(), 100);
    assert_eq!(second.divide.to.unwrap() - second.read.from.unwrap(), 110);
    assert_eq!((third.read.count, third.divide.count, third.held), (3, 1, 5));
    assert_eq!(of(4).read.from, None, "it has read nothing");
    let total = report.backups_total;
    assert_eq!((total.read.count, total.read.bytes, total.divide.count, total.held), (5, 5000, 3, 5));
    assert_eq!((total.read.from, total.read.to), (third.read.from, third.read.to), "first to last of all");
    assert_eq!(report.steps.freed, None);
}

// F11
#[test]
fn freeing_goes_on_after_the_end_and_is_told_until_all_is_freed() {
    let mut world = replaying();
    finish(&mut world);
    world.run(Duration::from_secs(2));
    let before = report(&mut world);
    assert_eq!((before.phase, before.steps.freed), (RecoveryPhase::Done, None), "server 3 holds some");
    // The next coordinator goes on asking.
    world.restart();
    world.run(Duration::from_secs(2));
    assert_eq!(report(&mut world).steps.freed, None);
    world.server_mut(3).worked = RecoveryWorked { free: done(5, 3000, 10), ..RecoveryWorked::default() };
    world.run(Duration::from_secs(6));
    let after = report(&mut world);
    let total = after.backups_total;
    assert_eq!((total.free.count, total.free.bytes, total.held), (5, 5000, 0));
    assert!(after.steps.freed.is_some() && after.steps.freed == total.free.to, "{:?}", after.steps);
    let (asked_before, freed) = (asked(&world), after.steps.freed);
    world.restart();
    world.run(Duration::from_secs(60));
    assert_eq!(report(&mut world).steps.freed, freed, "it is stored");
    assert_eq!(asked(&world), asked_before, "and nobody is asked any more");
}

// F11: watching is not worth more than that.
#[test]
fn who_holds_replicas_for_ever_is_not_asked_for_ever() {
    let mut world = replaying();
    finish(&mut world);
    world.run(Duration::from_secs(11 * 60));
    let before = asked(&world);
    assert!(before > 100, "{before}: it was asked all the while");
    world.run(Duration::from_secs(60));
    assert_eq!(asked(&world), before);
    world.restart();
    world.run(Duration::from_secs(60));
    assert_eq!(asked(&world), before, "nor by the next coordinator");
}

// F11
#[test]
fn a_dead_backup_and_one_of_an_older_version_are_not_waited_for() {
    let mut world = replaying();
    world.server_mut(4).ignorant.insert(Opcode::RecoveryWork);
    finish(&mut world);
    world.kill(3);
    world.run_until("freed", |w| {
        w.state().recoveries.values().any(|r| r.crashed == ServerId(1) && r.steps.freed.is_some())
    });
}
