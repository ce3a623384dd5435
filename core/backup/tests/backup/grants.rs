//! A fenced backup tells how much is left of the read lease that it may have granted (docs/protocols/read-leases.md).

use crate::rig::*;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::{Epoch, ServerId, Status};
use ramhold_wire::data::AppendRequest;
use std::time::Duration;

const LEASE_MILLIS: u64 = READ_LEASE.as_millis() as u64;

/// A backup that holds an open segment of the master and has not heard of it for long.
fn rig() -> (Rig, Log) {
    let mut rig = Rig::new(config());
    let log = Log::head(1, &[1]);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    rig.pass(2 * READ_LEASE);
    (rig, log)
}

// F8, J2
#[test]
fn what_is_left_counts_from_the_last_append_that_was_accepted() {
    let (mut rig, log) = rig();
    assert_eq!(rig.fence(MASTER).lease_millis, 0);
    let (mut rig2, _) = self::rig();
    assert_eq!(rig2.append(&log, AppendRequest::default()).0, Status::Ok, "an empty one is enough");
    rig2.pass(Duration::from_millis(100));
    assert_eq!(rig2.fence(MASTER).lease_millis, LEASE_MILLIS - 100);
    rig2.pass(Duration::from_micros(500));
    assert_eq!(rig2.fence(MASTER).lease_millis, LEASE_MILLIS - 100, "rounded up");
    assert_eq!(rig2.fence(ServerId(50)).lease_millis, 0, "another server was accepted nothing of");
}

// F8, J2: why-these-rules 4c.
#[test]
fn what_was_refused_grants_nothing() {
    let (mut rig, log) = rig();
    let mut header = rig.append_header(&log);
    header.epoch = Epoch(9);
    rig.request(&header, &body(&AppendRequest::default()));
    assert_eq!(rig.answer(&header).unwrap().0, Status::StaleEpoch);
    let other = Log::new(77);
    assert_eq!(rig.append(&other, AppendRequest::default()).0, Status::UnknownReplica);
    assert_eq!(rig.fence(MASTER).lease_millis, 0);
}

// F8, J2: why-these-rules 4b.
#[test]
fn a_restarted_backup_reports_a_whole_lease_from_its_start() {
    for appended in [false, true] {
        let (mut rig, log) = rig();
        if appended {
            assert_eq!(rig.append(&log, AppendRequest::default()).0, Status::Ok);
        }
        let mut rig = rig.crash();
        let left = rig.fence(MASTER).lease_millis;
        assert!((LEASE_MILLIS - 20..=LEASE_MILLIS).contains(&left), "{left}");
        rig.pass(Duration::from_millis(200));
        let less = rig.fence(MASTER).lease_millis;
        assert!(less <= left - 200 && less > 0, "{less} after {left}");
        rig.pass(Duration::from_millis(100));
        assert_eq!(rig.fence(MASTER).lease_millis, 0);
    }
}
