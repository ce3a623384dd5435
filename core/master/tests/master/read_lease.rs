//! Reads are answered under the read lease, and not without it.

use crate::rig::Rig;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::*;
use ramhold_wire::data::{KeyRequest, RejectRules, WriteRequest};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::TabletTake;
use ramhold_wire::{Header, Opcode};
use std::time::Duration;

const TABLE: TableId = TableId(5);
const NONE_TABLE: TableId = TableId(6);

fn key(table: TableId) -> Vec<u8> {
    let mut body = Vec::new();
    KeyRequest { table, rules: RejectRules::default(), key: b"k" }.encode(&mut body);
    body
}

fn write(rig: &mut Rig, table: TableId) -> RpcId {
    let mut body = Vec::new();
    let rules = RejectRules::default();
    WriteRequest { table, rules, expiry: None, key: b"k", value: b"v" }.encode(&mut body);
    rig.send(Opcode::Write, &body)
}

fn read(rig: &mut Rig) -> RpcId {
    rig.send(Opcode::Read, &key(TABLE))
}

fn status(rig: &Rig, rpc: RpcId) -> Option<Status> {
    rig.answer_to(rpc).map(|(status, _)| status)
}

fn pass(rig: &mut Rig, time: Duration) {
    rig.now = rig.now + time;
    let mut effects = Effects::new();
    rig.master.tick(rig.now, &rig.view, &mut effects);
    rig.take(effects);
}

/// A master with one object, some seconds after it was written.
fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.take_table();
    let written = write(&mut rig, TABLE);
    rig.settle();
    assert_eq!(status(&rig, written), Some(Status::Ok));
    pass(&mut rig, Duration::from_secs(5));
    rig.settle();
    rig
}

fn asked(rig: &Rig, opcode: Opcode) -> usize {
    rig.asked.iter().filter(|(header, _)| header.opcode() == Some(opcode)).count()
}

// F8, J2
#[test]
fn a_read_without_the_lease_waits_for_the_backups_to_grant_it() {
    let mut rig = rig();
    let waiting = read(&mut rig);
    assert_eq!(status(&rig, waiting), None);
    assert_eq!(asked(&rig, Opcode::Append), 2, "both backups are asked at once");
    rig.settle();
    assert_eq!(status(&rig, waiting), Some(Status::Ok));
    let next = read(&mut rig);
    assert_eq!(status(&rig, next), Some(Status::Ok), "the lease holds now");
    rig.now = rig.now + READ_LEASE * 99 / 100;
    let late = read(&mut rig);
    assert_eq!(status(&rig, late), None, "one percent less than was granted");
}

// F8, J2: cut off from its backups and from the coordinator.
#[test]
fn a_read_that_is_granted_nothing_is_refused_and_so_is_a_miss() {
    for found in [true, false] {
        let mut rig = rig();
        if !found {
            let removed = rig.send(Opcode::Remove, &key(TABLE));
            rig.settle();
            assert_eq!(status(&rig, removed), Some(Status::Ok));
            pass(&mut rig, Duration::from_secs(5));
        }
        let waiting = read(&mut rig);
        for _ in 0..6 {
            assert_eq!(status(&rig, waiting), None);
            pass(&mut rig, Duration::from_millis(10));
        }
        pass(&mut rig, Duration::from_millis(10));
        assert_eq!(status(&rig, waiting), Some(Status::NotLeased));
        assert_eq!(rig.master.read_lease_counters(), (1, 1));
    }
}

// J2: one backup stands still; the coordinator answers for it.
#[test]
fn the_coordinator_is_asked_when_a_backup_is_silent() {
    let mut rig = rig();
    let waiting = read(&mut rig);
    assert_eq!(asked(&rig, Opcode::ReadLease), 1, "nothing is granted: both are asked");
    rig.asked.retain(|(header, _)| header.opcode() == Some(Opcode::ReadLease));
    let sent = rig.now;
    pass(&mut rig, Duration::from_millis(20));
    assert_eq!(status(&rig, waiting), None);
    rig.asked.retain(|(header, _)| header.opcode() == Some(Opcode::ReadLease));
    rig.settle();
    assert_eq!(status(&rig, waiting), Some(Status::Ok));
    rig.now = sent + (READ_LEASE * 99 / 100 - Duration::from_millis(1));
    let last = read(&mut rig);
    assert_eq!(status(&rig, last), Some(Status::Ok), "counted from when it was asked");
    rig.now = sent + READ_LEASE * 99 / 100;
    let late = read(&mut rig);
    assert_eq!(status(&rig, late), None);
}

// J2: the answer of another cluster's coordinator, or a refusal, grants nothing.
#[test]
fn only_a_grant_grants() {
    for (status_of, cluster) in [(Status::Fenced, ClusterId(7)), (Status::Ok, ClusterId(8))] {
        let mut rig = rig();
        let waiting = read(&mut rig);
        let at = rig.asked.iter().position(|(h, _)| h.opcode() == Some(Opcode::ReadLease)).unwrap();
        let (header, _) = rig.asked.remove(at);
        let mut effects = Effects::new();
        let answer = Header { cluster, ..header.answer(status_of) };
        rig.master.on_reply(rig.now, &answer, &[], &rig.view, &mut effects);
        rig.take(effects);
        assert_eq!(status(&rig, waiting), None);
    }
}

// F8, J2: schedule of why-these-rules 4f: durable, and perhaps long since somebody else's.
#[test]
fn a_read_that_waited_for_replication_needs_the_lease_when_it_is_told() {
    let mut rig = rig();
    let written = write(&mut rig, TABLE);
    let waiting = read(&mut rig);
    assert_eq!(rig.master.read_lease_counters(), (0, 0), "it waits for its backups");
    rig.now = rig.now + READ_LEASE * 2;
    rig.settle();
    assert_eq!(status(&rig, written), Some(Status::Ok), "a write needs none");
    assert_eq!(rig.master.read_lease_counters(), (1, 0), "what they granted with it is over");
    assert_eq!(status(&rig, waiting), Some(Status::Ok), "and they were asked anew");
}

// D2, J2: nothing else would show that a cache has another owner by now.
#[test]
fn writes_without_replicas_need_the_lease_that_the_coordinator_grants() {
    let mut rig = Rig::new();
    let take = TabletTake {
        table: NONE_TABLE,
        seed: PlacementSeed(1),
        first: KeyHash(0),
        last: KeyHash(u64::MAX),
        durability: Durability::None,
        replicas: 0,
        version_floor: Version(0),
        slots: false,
    };
    assert_eq!(rig.request(&take), Status::Ok);
    // The first is refused until the client's lease is known.
    write(&mut rig, NONE_TABLE);
    rig.settle();
    let refused = write(&mut rig, NONE_TABLE);
    assert_eq!(status(&rig, refused), Some(Status::NotLeased));
    rig.settle();
    let written = write(&mut rig, NONE_TABLE);
    assert_eq!(status(&rig, written), Some(Status::Ok));
    rig.now = rig.now + READ_LEASE;
    let late = write(&mut rig, NONE_TABLE);
    assert_eq!(status(&rig, late), Some(Status::NotLeased));
}

// J2: cost.
#[test]
fn the_lease_is_kept_while_there_are_reads_and_a_minute_longer() {
    let mut rig = rig();
    let mut appends = 0;
    let mut waits = 0;
    for _ in 0..1000 {
        let one = read(&mut rig);
        waits += usize::from(status(&rig, one).is_none());
        pass(&mut rig, Duration::from_millis(10));
        appends += asked(&rig, Opcode::Append);
        assert_eq!(asked(&rig, Opcode::ReadLease), usize::from(rig.now < Instant(5_010_000_002)));
        rig.settle();
    }
    assert_eq!(waits, 1, "only the first had to wait");
    // Every 62.5 ms, but looked at every 10 ms.
    assert!((270..330).contains(&appends), "{appends} empty appends to two backups in ten seconds");
    let mut last = 0;
    for second in 0..100 {
        for _ in 0..100 {
            pass(&mut rig, Duration::from_millis(10));
            if asked(&rig, Opcode::Append) > 0 {
                last = second;
            }
            rig.settle();
        }
    }
    assert!((58..=61).contains(&last), "the last one after {last} s");
}
