//! Flipped bits, torn certificates and unreadable places: found, never believed.

use crate::rig::*;
use ramhold_base::{DiskFile, RecoveryId, Status};
use ramhold_wire::data::AppendRequest;
use ramhold_wire::recovery::RecoveryRead;
use std::time::Duration;

const SLOT_BYTES: usize = 512;

fn read_of(log: &Log) -> RecoveryRead {
    crate::reading::read_of(log, &[crate::reading::range(0, 0, u64::MAX)], 0)
}

/// Either the damage is found, or the replica is as it was: nothing wrong or shorter is taken for whole.
fn check(rig: &mut Rig, log: &Log, what: &str) {
    let reports = rig.fence(log.server).replicas;
    let Some(report) = reports.first() else { return };
    if report.cut {
        assert!(report.certified as usize <= log.bytes.len(), "{what}");
        return;
    }
    assert_eq!(report.certified as usize, log.bytes.len(), "{what}");
    assert_eq!(report.epoch, log.epoch, "{what}");
    let (status, records) = rig.recovery_read(&read_of(log));
    match status {
        Status::Ok => assert_eq!(records, crate::reading::records_of(log), "{what}"),
        Status::CorruptReplica => assert!(rig.has_error(), "{what}"),
        other => panic!("{what}: {other}"),
    }
}

fn flip_everything(rig: Rig, log: &Log, file: DiskFile, first: usize) {
    let disk = rig.disk;
    let data = first + 4096;
    let bytes = (first..first + 4 * SLOT_BYTES).chain(data..data + log.bytes.len());
    for at in bytes {
        for bit in 0..8 {
            let mut disk = disk.clone();
            disk.file(file).now[at] ^= 1 << bit;
            let mut rig = Rig::on(rig.config.clone(), disk, rig.life + 1);
            check(&mut rig, log, &format!("{file:?} byte {at} bit {bit}"));
        }
    }
}

// F9
#[test]
fn every_flipped_bit_of_an_open_replica_in_a_buffer_is_found() {
    let mut rig = Rig::new(config());
    let mut log = crate::reading::small_log(2);
    let whole = log.bytes.clone();
    log.bytes.truncate(crate::reading::HEADER_BYTES);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    rig.pass(Duration::from_millis(150));
    log.bytes = whole;
    assert_eq!(rig.append(&log, log.from(crate::reading::HEADER_BYTES)).0, Status::Ok);
    flip_everything(rig, &log, DiskFile::Buffers, 4096);
}

// F9
#[test]
fn every_flipped_bit_of_a_closed_replica_in_a_frame_is_found() {
    let mut rig = Rig::new(config());
    let log = crate::reading::small_log(2);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
    flip_everything(rig, &log, DiskFile::Frames, 0);
}

// F9
#[test]
fn every_flipped_bit_of_an_open_replica_in_a_frame_is_found() {
    let mut rig = Rig::new(in_frames());
    let log = crate::reading::small_log(1);
    assert_eq!(rig.append(&log, AppendRequest { open: true, ..log.from(0) }).0, Status::Ok);
    flip_everything(rig, &log, DiskFile::Frames, 0);
}

// D1, F9
#[test]
fn a_torn_certificate_leaves_the_one_before_but_proves_nothing() {
    let mut rig = Rig::new(in_frames());
    let mut log = Log::new(1);
    for _ in 0..3 {
        let from = log.bytes.len();
        log.grow(50);
        assert_eq!(rig.append(&log, AppendRequest { open: from == 0, ..log.from(from) }).0, Status::Ok);
    }
    let newest = (0..4)
        .max_by_key(|slot| {
            let at = slot * SLOT_BYTES + 8;
            u64::from_le_bytes(rig.disk.frames.now[at..at + 8].try_into().unwrap())
        })
        .unwrap();
    rig.disk.frames.now[newest * SLOT_BYTES + 300] ^= 0xFF;
    let rig = rig.crash();
    let state = rig.state(&log);
    assert_eq!(state.certificate, Some(log.certificate(100)));
    assert!(state.cut, "more may have been acknowledged");
}

// F9
#[test]
fn a_corrupt_closed_replica_is_not_reported_once_it_was_read() {
    let mut rig = Rig::new(config());
    let log = crate::reading::small_log(3);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
    rig.disk.frames.now[4096 + 20] ^= 1;
    assert!(rig.fence(MASTER).replicas.is_empty(), "its opening was read");
    assert!(rig.has_error());
    assert_eq!(rig.recovery_read(&read_of(&log)).0, Status::CorruptReplica);
}

// F9
#[test]
fn a_read_error_costs_one_replica_not_the_device() {
    let mut rig = Rig::new(config());
    let log = crate::reading::small_log(3);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    rig.fence(MASTER);
    rig.disk.reads_fail = true;
    let read = RecoveryRead { recovery: RecoveryId(9), ..read_of(&log) };
    assert_eq!(rig.recovery_read(&read).0, Status::CorruptReplica);
    rig.disk.reads_fail = false;
    assert_eq!(rig.backup.status(rig.now).failed, None);
    let other = Log { server: OTHER, ..Log::new(1) };
    assert_eq!(rig.append(&other, other.from(0)).0, Status::Ok);
}

// F9: found by seed 1042068, where it was the last copy.
#[test]
fn what_could_not_be_read_once_is_read_again() {
    let mut rig = Rig::new(config());
    let log = crate::reading::small_log(3);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
    rig.disk.reads_failing = 2;
    assert_eq!(rig.fence(MASTER).replicas.len(), 1, "its opening was read at last");
    rig.disk.reads_failing = 2;
    let read = RecoveryRead { recovery: RecoveryId(9), ..read_of(&log) };
    assert_eq!(rig.recovery_read(&read).0, Status::Ok);
    // At a start too: heads, and what they do not vouch for.
    rig.disk.reads_failing = 2;
    let mut rig = rig.crash();
    assert_eq!(rig.fence(MASTER).replicas.len(), 1);
}

// F9
#[test]
fn a_head_that_cannot_be_read_is_left_alone() {
    let mut rig = Rig::new(config());
    let log = crate::reading::small_log(1);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
    // A certificate written to the wrong frame: frame 1 says that it is frame 0.
    let head: Vec<u8> = rig.disk.frames.now[..PLACE_BYTES].to_vec();
    rig.disk.frames.now[PLACE_BYTES..2 * PLACE_BYTES].copy_from_slice(&head);
    let rig = rig.crash();
    assert_eq!(rig.backup.replicas().count(), 1);
    assert!(!rig.state(&log).cut);
}
