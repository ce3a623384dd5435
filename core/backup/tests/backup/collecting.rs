//! Which replicas go, which stay, and who is asked.

use crate::rig::*;
use ramhold_base::{Epoch, Level, ServerId, Status};
use ramhold_wire::control::encode_into;
use ramhold_wire::membership::{ReplicaName, ReplicasNeeded, ReplicasNotNeeded, ServerState};
use ramhold_wire::{Gone, Header, Kind};
use std::time::Duration;

fn of(server: u64, segment: u64) -> Log {
    let mut log = Log::new(segment);
    log.server = ServerId(server);
    log.grow(20);
    log
}

fn answer(rig: &mut Rig, question: &Header, replicas: Vec<ReplicaName>) {
    let mut body = Vec::new();
    encode_into(&mut body, &ReplicasNotNeeded { replicas });
    let header = question.answer(Status::Ok);
    rig.with(|backup, now, view, effects| backup.on_reply(now, &header, &body, view, effects));
}

// D7
#[test]
fn a_master_that_is_up_is_asked_again_and_again() {
    let mut rig = Rig::new(config());
    for segment in 1..=3 {
        let log = of(1, segment);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    }
    let mut rig = rig.crash();
    rig.pass(Duration::from_secs(3));
    let questions = rig.questions();
    assert!(questions.len() >= 3);
    let (header, body) = questions.last().unwrap();
    let asked: ReplicasNeeded = ramhold_wire::decode(body).unwrap();
    assert_eq!(header.target, MASTER);
    assert_eq!(ramhold_wire::CallRole::of(header.rpc), Some(ramhold_wire::CallRole::Backup));
    assert_eq!(asked.replicas.len(), 3);
    // One is not needed, one is named with an epoch that is not the one held.
    let stale = ReplicaName { epoch: Epoch(9), ..asked.replicas[1] };
    answer(&mut rig, header, vec![asked.replicas[0], stale]);
    assert_eq!(rig.backup.replicas().count(), 2);
    assert_eq!(rig.backup.status(rig.now).frames_used, 2);
    answer(&mut rig, header, vec![asked.replicas[2]]);
    assert_eq!(rig.backup.replicas().count(), 2, "a call is answered once");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.questions().len(), 1);
    assert_eq!(rig.crash().backup.replicas().count(), 2, "freed for good");
}

// D7: a master may have turned away from a backup that was silent for too long, and not told it.
#[test]
fn a_replica_of_this_life_is_freed_unless_it_grew_since_the_question() {
    let mut rig = Rig::new(config());
    let mut log = of(1, 1);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    assert!(rig.questions().is_empty(), "there is no hurry");
    rig.pass(Duration::from_secs(3));
    let (header, body) = rig.questions().pop().unwrap();
    let asked: ReplicasNeeded = ramhold_wire::decode(&body).unwrap();
    assert_eq!(asked.replicas.len(), 1);
    let held = log.bytes.len();
    log.grow(20);
    assert_eq!(rig.append(&log, log.from(held)).0, Status::Ok);
    answer(&mut rig, &header, asked.replicas);
    assert_eq!(rig.backup.replicas().count(), 1, "it has grown since");
    rig.pass(Duration::from_secs(3));
    let (header, body) = rig.questions().pop().unwrap();
    let asked: ReplicasNeeded = ramhold_wire::decode(&body).unwrap();
    answer(&mut rig, &header, asked.replicas);
    assert_eq!(rig.backup.replicas().count(), 0);
}

// D7
#[test]
fn a_segment_opened_again_is_not_freed_by_an_old_answer() {
    let mut rig = Rig::new(config());
    let log = of(1, 1);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    let mut rig = rig.crash();
    rig.pass(Duration::from_millis(1));
    let (header, body) = rig.questions().pop().unwrap();
    let asked: ReplicasNeeded = ramhold_wire::decode(&body).unwrap();
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    answer(&mut rig, &header, asked.replicas);
    assert!(!rig.state(&log).found);
}

// D7
#[test]
fn crashed_masters_keep_their_replicas_and_removed_ones_lose_them() {
    let mut rig = Rig::new(config());
    let (first, second) = (of(1, 1), of(2, 1));
    assert_eq!(rig.append(&first, first.from(0)).0, Status::Ok);
    assert_eq!(rig.append(&second, second.from(0)).0, Status::Ok);
    let mut rig = rig.crash();
    rig.list(vec![entry(MASTER, ServerState::Crashed)], Vec::new());
    rig.questions();
    rig.pass(Duration::from_secs(5));
    assert!(rig.questions().iter().all(|(header, _)| header.target == OTHER));
    assert_eq!(rig.backup.replicas().count(), 2);
    rig.list(Vec::new(), vec![MASTER]);
    assert_eq!(rig.backup.replicas().count(), 1);
    // The same for replicas of this life.
    let third = of(2, 7);
    assert_eq!(rig.append(&third, third.from(0)).0, Status::Ok);
    rig.list(vec![entry(OTHER, ServerState::Crashed)], Vec::new());
    assert_eq!(rig.backup.replicas().count(), 2);
    rig.list(Vec::new(), vec![OTHER]);
    assert_eq!(rig.backup.replicas().count(), 0);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.backup.status(rig.now).frames_used, 0);
    assert_eq!(rig.crash().backup.replicas().count(), 0);
}

// D7
#[test]
fn a_master_that_never_was_keeps_its_replicas_and_is_reported_once() {
    let mut rig = Rig::new(config());
    rig.list(vec![entry(ServerId(100), ServerState::Up)], Vec::new());
    let log = of(100, 1);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    // A coordinator that has given out fewer ids than that: another one, or a restored one.
    let mut next = Rig::asleep(config(), rig.disk, 2);
    next.view.me = ServerId(50);
    let me = next.view.me;
    next.view.list = ramhold_wire::ServerList::default();
    let update = ramhold_wire::membership::ServerListUpdate {
        from: 0,
        to: 1,
        changed: vec![entry(me, ServerState::Up)],
        removed: Vec::new(),
        issued: me,
        time: ramhold_base::ClusterTime(0),
        coordinator: None,
        copyset_rings: None,
        placement: None,
        topology: Default::default(),
        bricks: None,
        accounts: None,
    };
    assert!(next.view.list.apply(&update));
    next.wake();
    assert!(next.backup.is_serving());
    next.with(|backup, now, view, effects| backup.on_list(now, view, effects));
    next.pass(Duration::from_secs(5));
    assert_eq!(next.backup.replicas().count(), 1);
    assert_eq!(next.reports.iter().filter(|(level, _)| *level == Level::Error).count(), 1);
}

// D7
#[test]
fn a_free_is_idempotent_and_spares_a_higher_epoch() {
    let mut rig = Rig::new(config());
    let mut log = of(1, 1);
    log.epoch = Epoch(2);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    log.epoch = Epoch(1);
    assert_eq!(rig.free(&log), Status::StaleEpoch);
    log.epoch = Epoch(2);
    assert_eq!(rig.free(&log), Status::Ok);
    assert_eq!(rig.free(&log), Status::Ok);
    assert_eq!(rig.backup.replicas().count(), 0);
    assert_eq!(rig.crash().backup.replicas().count(), 0);
}

// D7
#[test]
fn a_replica_is_wiped_only_when_nothing_under_way_needs_it() {
    let mut rig = Rig::new(config());
    rig.hold = true;
    let log = of(1, 1);
    let append = rig.append_header(&log);
    rig.request(&append, &body(&log.from(0)));
    assert_eq!(rig.free(&log), Status::Ok);
    rig.run();
    assert_eq!(rig.answer(&append).map(|(status, _)| status), Some(Status::Ok));
    assert_eq!(rig.backup.status(rig.now).frames_used, 0);
    assert_eq!(rig.crash().backup.replicas().count(), 0);
}

// D7
#[test]
fn a_lost_connection_only_delays_the_question() {
    let mut rig = Rig::new(config());
    let log = of(1, 1);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    let mut rig = rig.crash();
    let (header, body) = rig.questions().pop().unwrap();
    assert_eq!(header.kind, Kind::Request);
    let addr = entry(MASTER, ServerState::Up).address.0;
    rig.with(|backup, now, view, effects| backup.on_lost(now, Gone::Address(addr), view, effects));
    let asked: ReplicasNeeded = ramhold_wire::decode(&body).unwrap();
    answer(&mut rig, &header, asked.replicas);
    assert_eq!(rig.backup.replicas().count(), 1, "the call was over");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.questions().len(), 1);
}
