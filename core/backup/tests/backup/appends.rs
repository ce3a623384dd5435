//! A backup answers appends in every order.

use crate::rig::*;
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::{Epoch, SegmentId, ServerId, Status};
use ramhold_wire::Opcode;
use ramhold_wire::data::{AppendReply, AppendRequest};
use ramhold_wire::membership::ServerState;
use std::time::Duration;

fn reply(length: u32, certified: u32, epoch: u32, closed: bool) -> AppendReply {
    AppendReply { length, certified, epoch: Epoch(epoch), closed, flushed: 0 }
}

// D1
#[test]
fn an_append_is_answered_only_when_data_and_certificate_are_written() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        rig.hold = true;
        let mut log = Log::new(1);
        log.grow(100);
        let header = rig.append_header(&log);
        rig.request(&header, &body(&log.from(0)));
        assert_eq!(rig.answer(&header), None, "nothing is written");
        assert!(rig.run_one());
        assert_eq!(rig.answer(&header), None, "the data is written, its certificate is not");
        assert!(rig.run_one());
        let (status, body) = rig.answer(&header).expect("both are written");
        assert_eq!((status, AppendReply::decode(&body)), (Status::Ok, Ok(reply(100, 100, 0, false))));
    }
}

// D1
#[test]
fn appends_in_flight_are_answered_in_order() {
    let mut rig = Rig::new(config());
    rig.hold = true;
    let mut log = Log::new(1);
    let mut headers = Vec::new();
    for _ in 0..5 {
        let from = log.bytes.len();
        log.grow(60);
        let header = rig.append_header(&log);
        rig.request(&header, &body(&log.from(from)));
        headers.push(header);
    }
    assert!(rig.sent.is_empty());
    rig.run();
    let answered: Vec<_> = rig.sent.iter().map(|(_, header, _)| header.rpc).collect();
    assert_eq!(answered, headers.iter().map(|header| header.rpc).collect::<Vec<_>>());
    assert_eq!(rig.state(&log).certificate, Some(log.certificate(300)));
}

// D1
#[test]
fn a_repetition_changes_nothing_and_is_answered_alike() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    let first = log.clone();
    assert_eq!(rig.append(&log, log.from(0)), (Status::Ok, reply(100, 100, 0, false)));
    log.grow(50);
    assert_eq!(rig.append(&log, log.from(100)), (Status::Ok, reply(150, 150, 0, false)));
    // Late, doubled, overlapping.
    assert_eq!(rig.append(&first, first.from(0)), (Status::Ok, reply(150, 150, 0, false)));
    assert_eq!(rig.append(&log, log.from(70)), (Status::Ok, reply(150, 150, 0, false)));
    assert_eq!(rig.append(&log, log.from(150)), (Status::Ok, reply(150, 150, 0, false)), "a keepalive");
}

// D1
#[test]
fn an_append_beyond_what_is_held_is_out_of_order() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(150)), (Status::OutOfOrder, reply(100, 100, 0, false)));
    assert_eq!(rig.append(&log, log.from(100)), (Status::Ok, reply(200, 200, 0, false)));
}

// D1
#[test]
fn a_certificate_among_uncertified_bytes_begins_again_at_the_last_one() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    log.grow(100);
    let bare = AppendRequest { certificate: None, ..log.from(100) };
    assert_eq!(rig.append(&log, bare), (Status::Ok, reply(200, 100, 0, false)));
    let mut shorter = log.clone();
    shorter.bytes.truncate(150);
    assert_eq!(rig.append(&shorter, shorter.from(120)), (Status::OutOfOrder, reply(100, 100, 0, false)));
    assert_eq!(rig.append(&shorter, shorter.from(100)), (Status::Ok, reply(150, 150, 0, false)));
    assert_eq!(rig.append(&log, log.from(150)), (Status::Ok, reply(200, 200, 0, false)));
}

// F9
#[test]
fn a_certificate_that_does_not_match_is_refused_and_changes_nothing() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    let mut wrong = log.from(0);
    wrong.certificate.as_mut().unwrap().crc ^= 1;
    assert_eq!(rig.append(&log, wrong).0, Status::CorruptReplica);
    assert_eq!(rig.backup.replicas().count(), 0, "nothing was opened");
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    log.grow(10);
    let mut wrong = log.from(100);
    wrong.certificate.as_mut().unwrap().crc ^= 1;
    assert_eq!(rig.append(&log, wrong), (Status::CorruptReplica, reply(100, 100, 0, false)));
    assert_eq!(rig.append(&log, log.from(100)), (Status::Ok, reply(110, 110, 0, false)));
}

/// Bytes from a master's damaged memory came in several messages, of which only the last has a certificate. After the
/// memory is repaired, the same bytes have to be taken anew, at the same epoch.
// C8, F9
#[test]
fn bytes_under_a_certificate_that_does_not_match_are_sent_again() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    let mut damaged = log.clone();
    damaged.bytes[40] ^= 1;
    let part = AppendRequest { certificate: None, ..damaged.from(0) };
    assert_eq!(rig.append(&damaged, part), (Status::Ok, reply(100, 0, 0, false)));
    log.grow(50);
    assert_eq!(rig.append(&log, log.from(100)), (Status::CorruptReplica, reply(0, 0, 0, false)));
    assert_eq!(rig.append(&log, log.from(100)).0, Status::OutOfOrder);
    assert_eq!(rig.append(&log, log.from(0)), (Status::Ok, reply(150, 150, 0, false)));
    log.grow(50);
    let mut damaged = log.clone();
    damaged.bytes[160] ^= 1;
    let part = AppendRequest { certificate: None, ..damaged.from(150) };
    assert_eq!(rig.append(&damaged, part), (Status::Ok, reply(200, 150, 0, false)));
    assert_eq!(rig.append(&log, log.from(200)), (Status::CorruptReplica, reply(150, 150, 0, false)));
    assert_eq!(rig.append(&log, log.from(150)), (Status::Ok, reply(200, 200, 0, false)));
    assert_eq!(rig.crash().state(&log).certificate, Some(log.certificate(200)));
}

/// The checksum of a frame leaves the data of a large append out; the certificate does not.
// F9
#[test]
fn every_flipped_bit_of_the_data_is_found_by_the_certificate() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    log.grow(1100);
    for bit in 100 * 8..log.bytes.len() * 8 {
        let mut damaged = log.clone();
        damaged.bytes[bit / 8] ^= 1 << (bit % 8);
        let request = AppendRequest { certificate: Some(log.certificate(1200)), ..damaged.from(100) };
        assert_eq!(
            rig.append(&damaged, request),
            (Status::CorruptReplica, reply(100, 100, 0, false)),
            "{bit}"
        );
    }
    assert_eq!(rig.append(&log, log.from(100)), (Status::Ok, reply(1200, 1200, 0, false)));
}

// D8
#[test]
fn an_epoch_moves_only_up_and_only_when_raised() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    log.epoch = Epoch(1);
    let ahead = AppendRequest { open: false, ..log.from(100) };
    assert_eq!(rig.append(&log, ahead), (Status::StaleEpoch, reply(100, 100, 0, false)));
    let raised = AppendRequest { raise_epoch: true, ..log.from(100) };
    assert_eq!(rig.append(&log, raised), (Status::Ok, reply(100, 100, 1, false)));
    log.epoch = Epoch(0);
    assert_eq!(rig.append(&log, log.from(100)), (Status::StaleEpoch, reply(100, 100, 1, false)));
    let mut rig = rig.crash();
    assert_eq!(rig.state(&log).epoch, Epoch(1), "it was stored when it was answered");
    assert_eq!(rig.fence(MASTER).replicas[0].epoch, Epoch(1));
}

// D8
#[test]
fn a_segment_opened_again_at_a_higher_epoch_replaces_the_older_when_it_is_certified() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    log.epoch = Epoch(3);
    let bare = AppendRequest { certificate: None, ..log.from(0) };
    assert_eq!(rig.append(&log, bare), (Status::Ok, reply(100, 0, 3, false)));
    assert_eq!(rig.backup.replicas().count(), 2, "the older one still is what counts");
    assert_eq!(rig.append(&log, log.from(100)), (Status::Ok, reply(100, 100, 3, false)));
    assert_eq!(rig.state(&log).epoch, Epoch(3));
}

// D9
#[test]
fn a_closed_replica_takes_nothing_more() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    assert_eq!(rig.append(&log, log.close()), (Status::Ok, reply(100, 100, 0, true)));
    let flushed = AppendReply { flushed: 100, ..reply(100, 100, 0, true) };
    assert_eq!(rig.append(&log, log.close()), (Status::Ok, flushed), "again");
    let mut longer = log.clone();
    longer.grow(1);
    assert_eq!(rig.append(&longer, longer.from(100)), (Status::NotAllowed, flushed));
    assert_eq!(
        rig.backup.status(rig.now).buffers_used,
        0,
        "closed and on the device: the buffer is given back"
    );
    assert_eq!(rig.backup.status(rig.now).unflushed_bytes, 0);
}

// D1
#[test]
fn refusals_name_their_reason() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(10);
    let good = body(&log.from(0));
    let mut expect = |change: &dyn Fn(&mut ramhold_wire::Header), bytes: &[u8], status: Status| {
        let mut header = rig.append_header(&log);
        change(&mut header);
        rig.request(&header, bytes);
        assert_eq!(rig.answer(&header).map(|(status, _)| status), Some(status));
    };
    expect(&|h| h.cluster.0 += 1, &good, Status::WrongCluster);
    expect(&|h| h.target.0 += 1, &good, Status::WrongServer);
    expect(&|h| h.sender = ServerId(999), &good, Status::NotInCluster);
    expect(&|h| h.sender = ServerId(50), &good, Status::Fenced);
    expect(&|h| h.sender = ServerId::NONE, &good, Status::NotInCluster);
    expect(&|h| h.segment = SegmentId::NONE, &good, Status::BadRequest);
    expect(&|_| (), &good[..20], Status::BadRequest);
    expect(&|_| (), &body(&AppendRequest { open: false, ..log.from(0) }), Status::UnknownReplica);
    expect(
        &|_| (),
        &body(&AppendRequest { close: true, certificate: None, ..log.from(0) }),
        Status::BadRequest,
    );
    let mut long = log.clone();
    long.grow(SEGMENT_BYTES as usize);
    expect(&|_| (), &body(&long.from(0)), Status::BadRequest);
    expect(&|_| (), &good, Status::Ok);
}

// D3, F11: what clients write waits for heads.
#[test]
fn side_segments_leave_a_quarter_of_the_buffers_to_heads() {
    let mut rig = Rig::new(BackupConfig { buffers: Buffers::Reserved { count: 8 }, ..config() });
    let logs: Vec<Log> = (1..=10).map(Log::new).collect();
    for (log, used) in logs.iter().zip([1, 2, 3, 4, 5, 6, 6, 6]) {
        assert_eq!(rig.append(log, AppendRequest { side: true, ..log.from(0) }).0, Status::Ok);
        assert_eq!(rig.backup.status(rig.now).buffers_used, used);
    }
    for (log, used) in logs[8..].iter().zip([7, 8]) {
        assert_eq!(rig.append(log, log.from(0)).0, Status::Ok);
        assert_eq!(rig.backup.status(rig.now).buffers_used, used);
    }
}

// D3
#[test]
fn an_open_without_a_buffer_goes_into_its_frame_and_one_without_a_frame_is_refused() {
    let mut rig = Rig::new(config());
    let logs: Vec<Log> = (1..=7).map(Log::new).collect();
    for log in &logs[..6] {
        assert_eq!(rig.append(log, log.from(0)).0, Status::Ok);
    }
    assert_eq!(rig.backup.status(rig.now).buffers_used, 6);
    assert_eq!(rig.append(&logs[6], logs[6].from(0)).0, Status::Ok, "straight into its frame");
    assert_eq!(rig.backup.status(rig.now).buffers_used, 6);
    let mut rig = rig.crash();
    assert_eq!(rig.backup.replicas().count(), 7, "also what had no buffer outlives the process");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.backup.status(rig.now).buffers_used, 0, "replicas of an earlier life leave their buffers");
    assert_eq!(rig.backup.replicas().filter(|r| !r.closed && !r.cut).count(), 7);

    let mut rig = Rig::new(in_frames());
    for segment in 1..=12 {
        let log = Log::new(segment);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok, "frames grow as they are needed");
    }
    let log = Log::new(13);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::OpenRefused);
    assert_eq!(rig.free(&Log::new(5)), Status::Ok);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
}

// D7, F9
#[test]
fn a_freed_frame_is_used_again_only_when_its_wiping_is_on_the_device() {
    let mut rig = Rig::new(ramhold_backup::BackupConfig { frames_max: 1, ..config() });
    let (first, second) = (Log::new(1), Log::new(2));
    assert_eq!(rig.append(&first, first.from(0)).0, Status::Ok);
    rig.hold = true;
    assert_eq!(rig.free(&first), Status::Ok);
    for _ in 0..3 {
        assert_eq!(rig.append(&second, second.from(0)).0, Status::Retry);
        assert!(rig.run_one(), "buffer wiped, frame wiped, synced");
    }
    rig.hold = false;
    assert_eq!(rig.append(&second, second.from(0)).0, Status::Ok);
}

// D3
#[test]
fn a_full_device_only_refuses_opens() {
    let mut config = in_frames();
    config.frames_max = 1000;
    let mut rig = Rig::new(config);
    rig.disk.frames_bytes_max = Some(9 * PLACE_BYTES as u64);
    let mut held = Vec::new();
    for segment in 1..=20 {
        let mut log = Log::new(segment);
        log.grow(10);
        match rig.append(&log, log.from(0)).0 {
            Status::Ok => held.push(log),
            status => assert_eq!(status, Status::OpenRefused),
        }
    }
    assert_eq!(held.len(), 9);
    assert!(!rig.has_error());
    for log in &mut held {
        log.grow(10);
        assert_eq!(rig.append(log, log.from(10)).0, Status::Ok);
    }
}

// D1
#[test]
fn after_a_failed_sync_everything_is_answered_device_failed() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(10);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    rig.disk.sync_fails = true;
    rig.pass(Duration::from_millis(150));
    rig.disk.sync_fails = false;
    assert!(rig.backup.status(rig.now).failed.is_some());
    assert_eq!(rig.reports.iter().filter(|(level, _)| *level == ramhold_base::Level::Error).count(), 1);
    log.grow(10);
    assert_eq!(rig.append(&log, log.from(10)).0, Status::DeviceFailed);
    assert_eq!(rig.free(&log), Status::DeviceFailed);
    let header = rig.header(Opcode::Fence, ServerId::NONE);
    rig.request(&header, &cbor(&ramhold_wire::recovery::Fence { crashed: MASTER }));
    assert_eq!(rig.answer(&header).map(|(status, _)| status), Some(Status::DeviceFailed));
    rig.with(|backup, now, _, effects| backup.stop(now, effects));
    assert!(rig.backup.is_stopped());
}

// D1, F9
#[test]
fn appends_waiting_for_the_disk_are_refused_when_it_fails() {
    let mut rig = Rig::new(in_frames());
    let mut first = Log::new(1);
    first.grow(10);
    assert_eq!(rig.append(&first, first.from(0)).0, Status::Ok);
    rig.hold = true;
    rig.disk.sync_fails = true;
    rig.pass(Duration::from_millis(150)); // The sync is emitted, not executed.
    let mut log = Log::new(2);
    log.grow(10);
    let header = rig.append_header(&log);
    rig.request(&header, &body(&log.from(0)));
    rig.run();
    assert_eq!(rig.answer(&header).map(|(status, _)| status), Some(Status::DeviceFailed));
}

// F2, F8
#[test]
fn a_fenced_master_can_neither_append_nor_open() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(10);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    assert_eq!(rig.fence(MASTER).replicas.len(), 1);
    log.grow(10);
    assert_eq!(rig.append(&log, log.from(10)).0, Status::Fenced);
    let other = Log::new(2);
    assert_eq!(rig.append(&other, other.from(0)).0, Status::Fenced);
    assert_eq!(rig.free(&log), Status::Fenced);
    rig.list(vec![entry(MASTER, ServerState::Crashed)], Vec::new());
    assert_eq!(rig.append(&log, log.from(10)).0, Status::Fenced);
}

// D8, F2
#[test]
fn a_fence_waits_for_appends_that_were_accepted_before() {
    let mut rig = Rig::new(config());
    rig.hold = true;
    let mut log = Log::new(1);
    log.grow(10);
    let append = rig.append_header(&log);
    rig.request(&append, &body(&log.from(0)));
    let fence = rig.header(Opcode::Fence, ServerId::NONE);
    rig.request(&fence, &cbor(&ramhold_wire::recovery::Fence { crashed: MASTER }));
    assert_eq!(rig.answer(&fence), None);
    rig.run();
    let (_, body) = rig.answer(&fence).unwrap();
    let report: ramhold_wire::recovery::Fenced = ramhold_wire::decode(&body).unwrap();
    assert_eq!(report.replicas[0].certified, 10, "whatever was acknowledged is reported");
}
