//! Replicas that their living master reads, because its memory is damaged.

use crate::rig::*;
use ramhold_base::{DiskFile, Epoch, SegmentId, ServerId, ShardId, Status};
use ramhold_wire::data::AppendRequest;
use ramhold_wire::membership::{ReplicaName, ReplicaRead, ServerState};
use ramhold_wire::{Header, Opcode};

fn name(log: &Log) -> ReplicaName {
    ReplicaName { shard: ShardId(0), stream: log.stream, segment: log.segment, epoch: log.epoch, side: false }
}

fn ask(rig: &mut Rig, sender: ServerId, replica: ReplicaName) -> Header {
    let header = rig.header(Opcode::ReplicaRead, sender);
    rig.request(&header, &cbor(&ReplicaRead { replica }));
    header
}

fn read(rig: &mut Rig, sender: ServerId, replica: ReplicaName) -> (Status, Vec<u8>) {
    let header = ask(rig, sender, replica);
    rig.answer(&header).expect("a read is answered when the disk is done")
}

fn with(bytes: usize) -> (Rig, Log) {
    let (mut rig, mut log) = (Rig::new(config()), Log::new(1));
    log.grow(bytes);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    (rig, log)
}

// C8
#[test]
fn a_master_gets_its_own_bytes_back_open_or_closed() {
    let (mut rig, mut log) = with(500);
    assert_eq!(read(&mut rig, MASTER, name(&log)), (Status::Ok, log.bytes.clone()));
    log.grow(300);
    assert_eq!(rig.append(&log, log.from(500)).0, Status::Ok);
    assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
    assert_eq!(read(&mut rig, MASTER, name(&log)), (Status::Ok, log.bytes.clone()));
    assert!(!rig.has_error());
}

// C8
#[test]
fn only_the_master_itself_may_read_and_only_what_is_held() {
    let (mut rig, log) = with(500);
    let held = name(&log);
    assert_eq!(read(&mut rig, OTHER, held).0, Status::UnknownReplica, "its own log is meant");
    for other in [ReplicaName { segment: SegmentId(7), ..held }, ReplicaName { shard: ShardId(1), ..held }] {
        assert_eq!(read(&mut rig, MASTER, other).0, Status::UnknownReplica);
    }
    let of_another_epoch = ReplicaName { epoch: Epoch(1), ..held };
    assert_eq!(read(&mut rig, MASTER, of_another_epoch), (Status::Ok, log.bytes.clone()));
    let mut again = log.clone();
    again.epoch = Epoch(1);
    let part = AppendRequest { certificate: None, data: &log.bytes[..60], ..again.from(0) };
    assert_eq!(rig.append(&again, part).0, Status::Ok);
    assert_eq!(read(&mut rig, MASTER, held), (Status::Ok, log.bytes.clone()), "of two the whole one");
    assert_eq!(read(&mut rig, ServerId::NONE, held).0, Status::NotInCluster);
    rig.list(vec![entry(MASTER, ServerState::Crashed)], Vec::new());
    assert_eq!(read(&mut rig, MASTER, held).0, Status::Fenced);
}

/// The certificate grows while the bytes are read: they are compared with that of before.
// C8
#[test]
fn an_open_replica_may_grow_while_it_is_read() {
    let (mut rig, mut log) = with(500);
    let before = log.bytes.clone();
    rig.hold = true;
    log.grow(100);
    let header = rig.append_header(&log);
    rig.request(&header, &body(&log.from(500)));
    assert!(rig.run_one(), "the data is written, its certificate is under way");
    let asked = ask(&mut rig, MASTER, name(&log));
    rig.hold = false;
    rig.run();
    assert_eq!(rig.answer(&header).map(|(status, _)| status), Some(Status::Ok));
    assert_eq!(rig.answer(&asked), Some((Status::Ok, before)));
    assert_eq!(read(&mut rig, MASTER, name(&log)), (Status::Ok, log.bytes.clone()));
    assert!(!rig.state(&log).corrupt);
}

// C8
#[test]
fn a_rotten_replica_is_not_given_and_known_from_then_on() {
    for is_gone in [false, true] {
        let (mut rig, log) = with(500);
        if is_gone {
            rig.disk.reads_fail = true;
        } else {
            let buffers = rig.disk.file(DiskFile::Buffers);
            let at = buffers.now.windows(64).position(|bytes| *bytes == log.bytes[100..164]).unwrap();
            buffers.now[at] ^= 4;
        }
        assert_eq!(read(&mut rig, MASTER, name(&log)), (Status::CorruptReplica, Vec::new()));
        rig.disk.reads_fail = false;
        assert!(rig.state(&log).corrupt);
        assert_eq!(read(&mut rig, MASTER, name(&log)).0, Status::CorruptReplica);
    }
}

// C8
#[test]
fn few_are_read_at_a_time() {
    let (mut rig, log) = with(500);
    rig.hold = true;
    let asked: Vec<Header> = (0..5).map(|_| ask(&mut rig, MASTER, name(&log))).collect();
    assert_eq!(rig.answer(&asked[4]).map(|(status, _)| status), Some(Status::Retry));
    assert!(asked[..4].iter().all(|header| rig.answer(header).is_none()));
    // It is freed meanwhile: the bytes stay until they are read.
    assert_eq!(rig.free(&log), Status::Ok);
    rig.hold = false;
    rig.run();
    for header in &asked[..4] {
        assert_eq!(rig.answer(header), Some((Status::Ok, log.bytes.clone())));
    }
    assert_eq!(read(&mut rig, MASTER, name(&log)).0, Status::UnknownReplica);
}

// C8
#[test]
fn a_reader_hears_at_once_that_the_device_has_failed() {
    let (mut rig, mut log) = with(500);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(500)).0, Status::Ok);
    rig.hold = true;
    rig.disk.sync_fails = true;
    rig.pass(config().flush_interval * 2);
    // The flush's copy and its sync come before the read.
    while rig.backup.status(rig.now).failed.is_none() {
        let asked = ask(&mut rig, MASTER, name(&log));
        assert!(rig.run_one(), "the flush comes to its sync");
        if rig.backup.status(rig.now).failed.is_some() {
            assert_eq!(rig.answer(&asked).map(|(status, _)| status), Some(Status::DeviceFailed));
        }
    }
    rig.hold = false;
    rig.run();
    assert_eq!(read(&mut rig, MASTER, name(&log)).0, Status::DeviceFailed);
}
