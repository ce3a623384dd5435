//! From one life to the next: process crashes, lost power, stops in order.

use crate::rig::*;
use ramhold_base::{ClusterId, Epoch, Level, Rng, ServerId, Status};
use ramhold_wire::data::AppendRequest;
use std::time::Duration;

// D1
#[test]
fn a_new_directory_knows_itself_before_it_enlists_and_after() {
    let mut rig = Rig::asleep(config(), Disk::default(), 1);
    rig.hold = true;
    rig.with(|backup, now, _, effects| backup.start(now, effects));
    assert_eq!(rig.backup.identity(), None, "not before it is durable");
    rig.run();
    let identity = rig.backup.identity().unwrap();
    assert_eq!((identity.cluster, identity.last), (None, None));
    assert!(!rig.backup.is_serving());
    rig.with(|backup, now, view, effects| backup.enlisted(now, view, effects));
    assert!(!rig.backup.is_serving(), "not before the new identity is durable");
    rig.run();
    assert!(rig.backup.is_serving());
    let mut rng = Rng::new(1);
    let rig = rig.power_cut(&mut rng);
    let after = rig.backup.identity().unwrap();
    assert_eq!((after.directory, after.cluster), (identity.directory, Some(CLUSTER)));
    assert_eq!(after.last, Some(ServerId(102)), "the life that enlisted last");
}

#[test]
fn a_server_without_replicas_has_a_directory_too() {
    let config = ramhold_backup::BackupConfig { frames_max: 0, ..config() };
    let mut rig = Rig::new(config);
    let log = Log::new(1);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::OpenRefused);
    assert!(rig.fence(MASTER).replicas.is_empty());
    let directory = rig.backup.identity().unwrap().directory;
    rig.with(|backup, now, _, effects| backup.stop(now, effects));
    assert!(rig.backup.is_stopped());
    let rig = rig.crash();
    assert_eq!(rig.backup.identity().unwrap().directory, directory);
}

#[test]
fn a_damaged_or_foreign_superblock_ends_the_start() {
    let rig = Rig::new(config());
    let mut disk = rig.disk.clone();
    disk.superblock.now[100] ^= 1;
    disk.superblock.now[4096 + 100] ^= 1;
    let mut damaged = Rig::asleep(config(), disk, 2);
    damaged.wake();
    assert!(damaged.backup.start_error().unwrap().contains("damaged"));
    let other = ramhold_backup::BackupConfig { segment_bytes: 4096, ..config() };
    let mut other = Rig::asleep(other, rig.disk, 2);
    other.wake();
    assert!(other.backup.start_error().unwrap().contains("2048"));
}

// D1, D6, F9: found by seed 1001823.
#[test]
fn a_process_that_dies_and_then_lost_power_leave_one_superblock() {
    // Disk effects of a whole start: neither the first life nor the second needs more.
    let effects = |disk: &Disk| {
        let mut rig = Rig::asleep(config(), disk.clone(), 2);
        rig.fuse = Some(u32::MAX);
        rig.wake();
        assert!(rig.backup.is_serving());
        u32::MAX - rig.fuse.unwrap()
    };
    for disk in [Disk::default(), Rig::new(config()).disk] {
        let count = effects(&disk);
        for seed in 0..8 {
            for first in 0..=count {
                // Killed after so many effects; then the power goes after so many of the next start.
                let mut killed = Rig::asleep(config(), disk.clone(), 2);
                killed.fuse = Some(first);
                killed.wake();
                for second in 0..=count + 2 {
                    let mut cut = Rig::asleep(config(), killed.disk.clone(), 3);
                    cut.fuse = Some(second);
                    cut.wake();
                    cut.cut_power(&mut Rng::new(seed));
                    let mut last = Rig::asleep(config(), cut.disk, 4);
                    last.wake();
                    assert_eq!(
                        last.backup.start_error(),
                        None,
                        "seed {seed}, {first} and {second} of {count} effects"
                    );
                    assert!(last.backup.is_serving());
                }
            }
        }
    }
}

// D1, D6
#[test]
fn what_was_acknowledged_survives_the_process() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        let mut open = Log::head(1, &[1]);
        let mut closed = Log::new(2);
        closed.grow(300);
        assert_eq!(rig.append(&open, AppendRequest { primary: true, ..open.from(0) }).0, Status::Ok);
        assert_eq!(rig.append(&closed, AppendRequest { close: true, ..closed.from(0) }).0, Status::Ok);
        rig.pass(Duration::from_millis(150));
        let flushed = open.bytes.len();
        open.grow(200);
        assert_eq!(rig.append(&open, open.from(flushed)).0, Status::Ok);
        let bare = AppendRequest { certificate: None, data: b"uncertified", ..open.from(open.bytes.len()) };
        assert_eq!(rig.append(&open, bare).0, Status::Ok);
        let mut rig = rig.crash();
        let reports = rig.fence(MASTER).replicas;
        assert_eq!(reports.len(), 2);
        assert_eq!((reports[0].certified as usize, reports[0].closed), (open.bytes.len(), false));
        assert!(reports.iter().all(|report| !report.cut));
        assert!(reports[0].primary);
        assert_eq!(reports[0].opening.as_ref().unwrap().digest, [ramhold_base::SegmentId(1)]);
        assert_eq!((reports[1].certified, reports[1].closed), (300, true));
        assert!(!rig.has_error());
    }
}

// D6
#[test]
fn lost_buffers_cut_what_is_not_closed_on_the_device() {
    for config in [config(), in_frames()] {
        let mut rng = Rng::new(3);
        let mut rig = Rig::new(config);
        let mut open = Log::head(1, &[1]);
        let mut closed = Log::new(2);
        closed.grow(300);
        assert_eq!(rig.append(&open, open.from(0)).0, Status::Ok);
        assert_eq!(rig.append(&closed, AppendRequest { close: true, ..closed.from(0) }).0, Status::Ok);
        rig.pass(Duration::from_millis(150));
        let flushed = open.bytes.len();
        open.grow(200);
        assert_eq!(rig.append(&open, open.from(flushed)).0, Status::Ok);
        let rig = rig.power_cut(&mut rng);
        assert!(rig.reports.iter().any(|(level, _)| *level == Level::Warn));
        // The verdict stays, although the next life finds its buffers intact.
        let mut rig = rig.crash();
        assert_eq!(rig.backup.status(rig.now).cut_replicas, 1);
        let reports = rig.fence(MASTER).replicas;
        assert_eq!(reports.len(), 2);
        assert!(reports[0].cut);
        assert!(reports[0].certified as usize >= flushed);
        assert!(reports[0].opening.is_some());
        assert!(!reports[1].cut);
        assert!(!rig.has_error());
    }
}

// D6
#[test]
fn after_a_stop_in_order_nothing_is_cut() {
    for config in [config(), in_frames()] {
        let mut rng = Rng::new(4);
        let mut rig = Rig::new(config);
        let mut open = Log::head(1, &[1]);
        assert_eq!(rig.append(&open, open.from(0)).0, Status::Ok);
        rig.pass(Duration::from_millis(150));
        let flushed = open.bytes.len();
        open.grow(200);
        assert_eq!(rig.append(&open, open.from(flushed)).0, Status::Ok);
        rig.with(|backup, now, _, effects| backup.stop(now, effects));
        assert!(rig.backup.is_stopped());
        let rig = rig.power_cut(&mut rng);
        assert!(!rig.state(&open).cut);
        // And the life after that, which finds the buffers of the one before.
        let mut rig = rig.crash();
        let reports = rig.fence(MASTER).replicas;
        assert_eq!((reports[0].certified as usize, reports[0].cut), (open.bytes.len(), false));
        // That life did not end in order: what it held open is cut by the next loss of power.
        let rig = rig.power_cut(&mut rng);
        assert!(rig.state(&open).cut);
    }
}

// D1
#[test]
fn data_is_on_the_device_before_its_certificate_goes_there() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    rig.trace.clear();
    rig.pass(Duration::from_millis(99));
    assert!(rig.trace.is_empty(), "no disk in the way of an append");
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.trace, ["copy", "sync", "write", "sync"]);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.trace.len(), 4, "nothing new, nothing to do");
    assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
    assert_eq!(rig.trace[4..], ["write", "sync"], "all data was there");
}

// D6
#[test]
fn a_replica_without_a_certificate_is_never_reported() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, AppendRequest { certificate: None, ..log.from(0) }).0, Status::Ok);
    assert!(rig.fence(MASTER).replicas.is_empty());
    let mut rig = rig.crash();
    assert_eq!(rig.backup.replicas().count(), 0);
    assert!(rig.fence(MASTER).replicas.is_empty());
}

// D7
#[test]
fn a_segment_opened_again_after_a_restart_replaces_the_one_found() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        let mut log = Log::new(1);
        log.grow(100);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        let mut rig = rig.crash();
        log.grow(50);
        assert_eq!(
            rig.append(&log, AppendRequest { open: false, ..log.from(100) }).0,
            Status::UnknownReplica
        );
        assert_eq!(rig.append(&log, AppendRequest { certificate: None, ..log.from(0) }).0, Status::Ok);
        assert_eq!(rig.backup.replicas().count(), 2);
        assert_eq!(rig.append(&log, log.from(150)).0, Status::Ok);
        assert_eq!(rig.state(&log).certificate, Some(log.certificate(150)));
        let rig = rig.crash();
        assert_eq!(rig.state(&log).certificate, Some(log.certificate(150)));
        assert_eq!(rig.backup.status(rig.now).frames_used, 1);
    }
}

/// A master may turn to the same backup again and again before a copy is whole, and die then.
// D7
#[test]
fn a_replica_stays_until_one_that_replaces_it_has_a_certificate_however_often_it_is_opened() {
    for config in [config(), in_frames()] {
        for is_restarted in [false, true] {
            let mut rig = Rig::new(config.clone());
            let mut log = Log::new(1);
            log.grow(100);
            assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
            let whole = log.certificate(100);
            if is_restarted {
                rig = rig.crash();
            }
            for epoch in 1..6 {
                log.epoch = Epoch(epoch);
                let part = AppendRequest { certificate: None, data: &log.bytes[..60], ..log.from(0) };
                assert_eq!(rig.append(&log, part).0, Status::Ok);
                assert!(rig.backup.replicas().any(|r| r.certificate == Some(whole)), "epoch {epoch}");
            }
            rig.pass(Duration::from_secs(5));
            assert_eq!(rig.backup.status(rig.now).frames_used, 2, "what is of no use is gone");
            let mut rig = rig.crash();
            assert_eq!(rig.state(&log).certificate, Some(whole));
            log.epoch = Epoch(6);
            log.grow(50);
            assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
            assert_eq!(rig.state(&log).certificate, Some(log.certificate(150)));
        }
    }
}

#[test]
fn replicas_of_another_cluster_are_left_alone() {
    let mut rig = Rig::new(in_frames());
    let mut log = Log::new(1);
    log.grow(10);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    let mut disk = Disk { frames: rig.disk.frames.clone(), ..Disk::default() };
    disk.superblock = Rig::asleep(in_frames(), Disk::default(), 9).disk.superblock;
    let mut other = Rig::asleep(in_frames(), disk, 9);
    other.view.cluster = ClusterId(5);
    other.wake();
    assert!(other.backup.is_serving());
    assert_eq!(other.backup.replicas().count(), 0);
    assert!(other.has_error());
}
