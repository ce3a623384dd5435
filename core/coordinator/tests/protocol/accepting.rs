//! An operator gives up servers that a recovery waits for.

use crate::harness::*;
use crate::recoveries::{killed, running};
use ramhold_base::{DirectoryId, KeyHash, RecoveryId, ServerId, Status};
use ramhold_coordinator::CoordinatorConfig;
use ramhold_wire::Opcode;
use ramhold_wire::recovery::{ReplicaReport, TabletStat};
use ramhold_wire::status::{LossAccept, LossAccepted, RecoveryReport};
use std::time::Duration;

/// A log of which only a cut replica is left, since servers 1, whose log it is, and 4 are away.
fn incomplete() -> World {
    let (mut world, _) = killed();
    let cut = ReplicaReport { cut: true, ..head_report(2, 1, 0, 300, &[1], &[]) };
    world.server_mut(2).replicas.insert(ServerId(1), vec![cut]);
    world.kill(4);
    world.run_until("both are dead", |w| w.state().recoveries.len() == 2);
    world.run(Duration::from_secs(5));
    assert!(running(&world).is_none(), "something is missing");
    world
}

fn report(world: &mut World) -> RecoveryReport {
    let mut open = world.status().recoveries.into_iter();
    open.find(|report| report.crashed == ServerId(1)).expect("it is under way")
}

fn directories(report: &RecoveryReport) -> Vec<DirectoryId> {
    report.away.iter().map(|away| away.directory).collect()
}

/// The answer to an operator who gives directories up, after a while.
fn accept(
    world: &mut World,
    recovery: RecoveryId,
    directories: Vec<DirectoryId>,
) -> Result<LossAccepted, Status> {
    let header = world.header();
    let rpc = world.push(CLIENT, header, &LossAccept { recovery, directories });
    world.settle();
    world.run(Duration::from_millis(1500));
    let (status, body) = world.answer_to(rpc).expect("an answer");
    if status == Status::Ok {
        Ok(ramhold_wire::decode(body).expect("an answer of its kind"))
    } else {
        Err(status)
    }
}

// F2, D2, faults B3
#[test]
fn what_is_left_is_recovered_when_all_who_are_away_are_given_up() {
    let mut world = incomplete();
    let waiting = report(&mut world);
    let away: Vec<ServerId> = waiting.away.iter().map(|away| away.server).collect();
    assert_eq!(away, [ServerId(1), ServerId(4)], "the dead server itself, and who may have a replica");
    assert!(waiting.away.iter().all(|away| away.address.is_some()));
    assert!(world.state().losses.is_empty());
    let given_up = accept(&mut world, waiting.recovery, directories(&waiting)).unwrap();
    assert_eq!(given_up, LossAccepted::default());
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    assert_eq!(recover.streams[0].segments[0].end, Some(300));
    let losses = world.status().losses;
    assert_eq!(losses.len(), 1);
    assert!(losses[0].reason.contains("given up"), "{}", losses[0].reason);
    assert_eq!(report(&mut world).given_up, waiting.away);
    let again = accept(&mut world, waiting.recovery, directories(&waiting));
    assert_eq!(again, Ok(LossAccepted::default()), "said twice is said");
    world.finish(at, &recover);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
}

// F2, schedule 13: it lives on behind a partition, where some still reach it.
#[test]
fn who_answers_anybody_is_not_given_up() {
    let mut world = incomplete();
    let waiting = report(&mut world);
    world.server_mut(3).reaches = vec![ServerId(4)];
    let refused = accept(&mut world, waiting.recovery, directories(&waiting)).unwrap();
    assert_eq!(refused, LossAccepted { answering: vec![ServerId(4)], unsure: Vec::new() });
    // And who cannot be asked may reach them.
    world.server_mut(3).reaches = Vec::new();
    world.server_mut(3).deaf.insert(Opcode::Reach);
    let refused = accept(&mut world, waiting.recovery, directories(&waiting)).unwrap();
    assert_eq!(refused, LossAccepted { answering: Vec::new(), unsure: vec![ServerId(3)] });
    assert!(report(&mut world).given_up.is_empty());
    assert!(running(&world).is_none());
    assert!(world.state().losses.is_empty());
}

// F2
#[test]
fn all_who_are_away_have_to_be_named_and_nobody_else() {
    let mut world = incomplete();
    let waiting = report(&mut world);
    let all = directories(&waiting);
    let [first, second] = all[..] else { panic!("two are away") };
    for wrong in [vec![], vec![first], vec![second], vec![first, second, DirectoryId(77)]] {
        assert_eq!(accept(&mut world, waiting.recovery, wrong), Err(Status::NotAllowed));
    }
    assert_eq!(accept(&mut world, RecoveryId(99), all), Err(Status::NotFound));
    assert!(running(&world).is_none());
}

// F2, F7
#[test]
fn one_who_comes_back_is_waited_for_no_more_and_is_not_given_up() {
    let mut world = incomplete();
    let waiting = report(&mut world);
    world.enlist_again(4, Some(ServerId(4)));
    world.run(Duration::from_secs(1));
    let now = report(&mut world);
    assert_eq!(now.away.iter().map(|away| away.server).collect::<Vec<_>>(), [ServerId(1)]);
    let both = accept(&mut world, waiting.recovery, directories(&waiting));
    assert_eq!(both, Err(Status::NotAllowed), "the word was given for another state of things");
}

// F2, F5, F7: the word outlives the coordinator, and what a live partition began with may be given up too.
#[test]
fn an_end_that_nobody_has_any_more_can_be_given_up() {
    let config = CoordinatorConfig { partition_bytes_max: 20_000, ..CoordinatorConfig::new(addr(7400)) };
    let mut world = World::cluster(4);
    world.config = CoordinatorConfig { segment_bytes: 4096, ..config };
    world.restart();
    world.run(Duration::from_secs(1));
    let id = world.create("users", buffered(2, 1));
    let everything =
        TabletStat { table: id, first: KeyHash(0), last: KeyHash(u64::MAX), bytes: 30_000, records: 300 };
    let head = |certified| head_report(2, 1, 0, certified, &[1], &[everything]);
    world.server_mut(3).replicas.insert(ServerId(1), vec![head(400)]);
    for port in 2..=4 {
        world.server_mut(port).diligent = false;
    }
    world.kill(1);
    world.run_until("told", |w| running(w).is_some());
    let (at, first) = running(&world).unwrap();
    world.finish(at, &first);
    world.settle();
    // The only source is gone, a shorter one turns up.
    world.server_mut(4).replicas.insert(ServerId(1), vec![head(250)]);
    world.kill(3);
    world.restart();
    world.run(Duration::from_secs(10));
    let waiting = report(&mut world);
    assert!(!waiting.missing.is_empty());
    assert!(world.state().losses.is_empty());
    let away: Vec<ServerId> = waiting.away.iter().map(|away| away.server).collect();
    assert_eq!(away, [ServerId(1), ServerId(3)]);
    assert_eq!(accept(&mut world, waiting.recovery, directories(&waiting)), Ok(LossAccepted::default()));
    world.restart();
    world.run_until("told anew", |w| {
        running(w).is_some_and(|(_, r)| r.recovery > first.recovery && r.crashed == ServerId(1))
    });
    let (_, second) = running(&world).unwrap();
    assert_eq!(second.streams[0].segments[0].end, Some(250));
    assert_eq!(world.status().losses.iter().filter(|loss| loss.crashed == ServerId(1)).count(), 1);
}
