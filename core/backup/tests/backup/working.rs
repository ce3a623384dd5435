//! A backup tells its work for a recovery.

use crate::reading::{range, read_of, records_of, small_log};
use crate::rig::*;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::membership::ServerState;
use ramhold_wire::recovery::{RecoveryWork, RecoveryWorked, WorkDone};
use std::time::Duration;

fn asked(rig: &mut Rig, crashed: ServerId) -> (Status, RecoveryWorked) {
    let header = rig.header(Opcode::RecoveryWork, ServerId::NONE);
    rig.request(&header, &cbor(&RecoveryWork { crashed }));
    let (status, body) = rig.answer(&header).expect("it is answered at once");
    (status, if status == Status::Ok { ramhold_wire::decode(&body).unwrap() } else { Default::default() })
}

fn worked(rig: &mut Rig) -> RecoveryWorked {
    let (status, worked) = asked(rig, MASTER);
    assert_eq!(status, Status::Ok);
    worked
}

/// One segment of a dead server, of which a read is under way that takes 20 ms, and who asked for it.
fn reading(log: &Log) -> (Rig, ramhold_wire::Header) {
    let mut rig = Rig::new(config());
    assert_eq!(rig.append(log, log.from(0)).0, Status::Ok);
    rig.list(vec![entry(MASTER, ServerState::Crashed)], Vec::new());
    let header = rig.header(Opcode::RecoveryRead, OTHER);
    rig.hold = true;
    rig.request(&header, &cbor(&read_of(log, &[range(0, 0, u64::MAX)], 0)));
    rig.now = rig.now + Duration::from_millis(20);
    (rig, header)
}

// F11: a step cannot tell what it takes, so for the account a division is over when the next one begins.
#[test]
fn reading_and_dividing_are_told_apart() {
    let log = small_log(3);
    let (mut rig, header) = reading(&log);
    let under_way = worked(&mut rig);
    assert_eq!((under_way.read.count, under_way.read.busy), (0, 20_000), "nothing has come yet");
    assert!(rig.run_one(), "the segment comes and is divided");
    assert_eq!(rig.records(&header), Some((Status::Ok, records_of(&log))), "it is answered at once");
    rig.now = rig.now + Duration::from_millis(5);
    rig.run();
    let bytes = log.bytes.len() as u64;
    let read = WorkDone { count: 1, bytes, busy: 20_000, began: Some(25_000), ended: Some(5_000) };
    let divide = WorkDone { count: 1, bytes, busy: 5_000, began: Some(5_000), ended: Some(0) };
    let told = worked(&mut rig);
    assert_eq!(told, RecoveryWorked { read, divide, held: 1, ..RecoveryWorked::default() });
}

// F11
#[test]
fn what_is_corrupt_is_not_counted_as_divided() {
    let log = small_log(3);
    let (mut rig, header) = reading(&log);
    let held = rig.disk.buffers.now.windows(5).position(|bytes| bytes == b"value").unwrap();
    rig.disk.buffers.now[held] ^= 1;
    rig.run();
    assert_eq!(rig.records(&header).map(|(status, _)| status), Some(Status::CorruptReplica));
    let told = worked(&mut rig);
    assert_eq!((told.read.count, told.divide.count), (1, 0));
}

// F11
#[test]
fn freeing_is_told_when_it_is_done() {
    let log = small_log(3);
    let (mut rig, _) = reading(&log);
    rig.run();
    assert_eq!((worked(&mut rig).free, worked(&mut rig).held), (WorkDone::default(), 1));
    rig.list(Vec::new(), vec![MASTER]);
    let (free, held) = (worked(&mut rig).free, worked(&mut rig).held);
    assert_eq!((free.count, held), (0, 1), "it is not wiped yet");
    rig.now = rig.now + Duration::from_millis(3);
    rig.run();
    let told = worked(&mut rig);
    let bytes = log.bytes.len() as u64;
    let free = WorkDone { count: 1, bytes, busy: 3_000, began: Some(3_000), ended: Some(0) };
    assert_eq!((told.free, told.held), (free, 0));
    assert_eq!(told.read.count, 1, "the rest is still known");
}

// F11, E2
#[test]
fn only_whoever_may_ask_is_told() {
    let mut rig = Rig::new(config());
    assert_eq!(worked(&mut rig), RecoveryWorked::default(), "nothing was done for it");
    let header = rig.header(Opcode::RecoveryWork, ServerId::NONE);
    rig.request(&header, b"no CBOR");
    assert_eq!(rig.answer(&header).map(|(status, _)| status), Some(Status::BadRequest));
    let header = rig.header(Opcode::RecoveryWork, ServerId(u64::MAX));
    rig.request(&header, &cbor(&RecoveryWork { crashed: MASTER }));
    assert_eq!(rig.answer(&header).map(|(status, _)| status), Some(Status::NotInCluster));
}
