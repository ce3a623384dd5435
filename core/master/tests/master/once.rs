//! A mutation has its effect once, and whoever repeats it hears what it came to.
//!
//! Catalogue: A3. Rules: docs/protocols/exactly-once.md.

use crate::rig::Rig;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::*;
use ramhold_log::{Entry, Object, OlderList, RpcResult};
use ramhold_wire::Opcode;
use ramhold_wire::control::encode_into;
use ramhold_wire::data::{
    Expiry, IncrementReply, IncrementRequest, KeyRequest, ReadReply, RejectRules, WriteRequest,
    decode_version,
};
use ramhold_wire::lease::LeaseMeet;
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{
    PartitionRange, ReadTimes, Recover, RecoverySegment, RecoveryStream, SegmentSource,
};
use std::time::Duration;

const TABLE: TableId = TableId(5);
/// The one that the rig has confirmed.
const LEASE: u64 = 4;

fn write(value: &[u8], rules: RejectRules) -> Vec<u8> {
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules, expiry: None, key: b"k", value }.encode(&mut body);
    body
}

fn key() -> Vec<u8> {
    let mut body = Vec::new();
    KeyRequest { table: TABLE, rules: RejectRules::default(), key: b"k" }.encode(&mut body);
    body
}

fn if_absent() -> RejectRules {
    RejectRules { exists: true, ..RejectRules::default() }
}

/// Status and version of an answer that must have come.
fn answered(rig: &Rig, rpc: RpcId) -> (Status, u64) {
    let (status, body) = rig.answer_to(rpc).expect("it is answered");
    (status, decode_version(&body).map_or(0, Version::raw))
}

fn value(rig: &mut Rig) -> (u64, Vec<u8>) {
    let read = rig.send(Opcode::Read, &key());
    rig.settle();
    let (status, body) = rig.answer_to(read).unwrap();
    assert_eq!(status, Status::Ok);
    let reply = ReadReply::decode(&body).unwrap();
    (reply.version.raw(), reply.value.to_vec())
}

#[test]
fn a_repeated_write_gets_the_first_answer_and_writes_nothing() {
    let mut rig = Rig::new();
    rig.take_table();
    let first = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    // Repeated before it is durable: the repetition waits too, then both are answered.
    let second = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    assert!(rig.answer_to(first).is_none() && rig.answer_to(second).is_none());
    rig.settle();
    let version = answered(&rig, first).1;
    assert_eq!(answered(&rig, first), (Status::Ok, version));
    assert_eq!(answered(&rig, second), (Status::Ok, version));
    // Another client writes; then the first one's frame comes once more.
    rig.confirm_lease(7);
    let other = rig.send_as(Opcode::Write, &write(b"two", RejectRules::default()), (7, 2, 2));
    rig.settle();
    assert_eq!(answered(&rig, other), (Status::Ok, version + 1));
    let third = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    assert_eq!(answered(&rig, third), (Status::Ok, version));
    assert_eq!(value(&mut rig), (version + 1, b"two".to_vec()));
}

#[test]
fn a_refusal_by_a_rule_is_an_answer_for_good() {
    let mut rig = Rig::new();
    rig.take_table();
    let first = rig.send(Opcode::Write, &write(b"one", RejectRules::default()));
    rig.settle();
    let version = answered(&rig, first).1;
    let refused = rig.send_as(Opcode::Write, &write(b"two", if_absent()), (LEASE, 3000, 3000));
    assert!(rig.answer_to(refused).is_none(), "nobody may hear what a crash could take back");
    rig.settle();
    assert_eq!(answered(&rig, refused), (Status::Exists, version));
    // The object that stood in its way goes.
    let removed = rig.send_as(Opcode::Remove, &key(), (LEASE, 3001, 3000));
    rig.settle();
    assert_eq!(answered(&rig, removed), (Status::Ok, version + 1));
    let again = rig.send_as(Opcode::Write, &write(b"two", if_absent()), (LEASE, 3000, 3000));
    assert_eq!(answered(&rig, again), (Status::Exists, version));
    let again = rig.send_as(Opcode::Remove, &key(), (LEASE, 3001, 3000));
    assert_eq!(answered(&rig, again), (Status::Ok, version + 1));
    // A remove that found nothing has found nothing for good, too.
    let nothing = rig.send_as(Opcode::Remove, &key(), (LEASE, 3002, 3000));
    let written = rig.send_as(Opcode::Write, &write(b"three", RejectRules::default()), (LEASE, 3003, 3000));
    rig.settle();
    assert_eq!(answered(&rig, nothing), (Status::Ok, 0));
    assert_eq!(answered(&rig, written).0, Status::Ok);
    let again = rig.send_as(Opcode::Remove, &key(), (LEASE, 3002, 3000));
    assert_eq!(answered(&rig, again), (Status::Ok, 0));
    assert_eq!(value(&mut rig).1, b"three");
    rig.master.log().check_invariants();
}

#[test]
fn what_is_acknowledged_is_dropped_and_its_result_freed() {
    let mut rig = Rig::new();
    rig.take_table();
    let first = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    rig.settle();
    assert_eq!(answered(&rig, first).0, Status::Ok);
    let before = rig.master.log().result_count();
    let next = rig.send_as(Opcode::Write, &write(b"two", RejectRules::default()), (LEASE, 21, 21));
    rig.settle();
    assert_eq!(answered(&rig, next).0, Status::Ok);
    assert_eq!(rig.master.log().result_count(), before);
    let late = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    rig.settle();
    assert_eq!(rig.answer_to(late), None);
    assert_eq!(value(&mut rig).1, b"two");
    // Also one that was never seen: its client has given it up.
    let never = rig.send_as(Opcode::Write, &write(b"zero", RejectRules::default()), (LEASE, 19, 19));
    rig.settle();
    assert_eq!(rig.answer_to(never), None);
    rig.master.log().check_invariants();
}

#[test]
fn a_sequence_that_was_refused_is_never_carried_out() {
    let mut rig = Rig::new();
    rig.take_table();
    // Not served here: another table.
    let mut body = Vec::new();
    let rules = RejectRules::default();
    WriteRequest { table: TableId(6), rules, expiry: None, key: b"k", value: b"v" }.encode(&mut body);
    let refused = rig.send_as(Opcode::Write, &body, (LEASE, 20, 20));
    assert_eq!(answered(&rig, refused).0, Status::WrongOwner);
    let doubled = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (LEASE, 20, 20));
    rig.settle();
    assert_eq!(answered(&rig, doubled).0, Status::Retry);
    let read = rig.send(Opcode::Read, &key());
    assert_eq!(answered(&rig, read).0, Status::NotFound);
    // Its client repeats it under the same number only when it does not know of the refusal.
    let repeated = rig.repeat_as(Opcode::Write, &write(b"u", RejectRules::default()), (LEASE, 20, 20));
    rig.settle();
    assert_eq!(answered(&rig, repeated).0, Status::Ok);
    let renumbered = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (LEASE, 21, 21));
    rig.settle();
    assert_eq!(answered(&rig, renumbered).0, Status::Ok);
}

#[test]
fn nothing_is_carried_out_under_a_lease_that_is_not_known_to_live() {
    let mut rig = Rig::new();
    rig.lease_millis = 60_000;
    rig.take_table();
    let unknown = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 1, 1));
    assert_eq!(answered(&rig, unknown).0, Status::Retry);
    let asked = |rig: &Rig| rig.asked.iter().filter(|(h, _)| h.opcode() == Some(Opcode::LeaseCheck)).count();
    assert_eq!(asked(&rig), 1);
    let unknown = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 2, 2));
    assert_eq!((answered(&rig, unknown).0, asked(&rig)), (Status::Retry, 1), "one question at a time");
    rig.settle();
    let known = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 3, 3));
    rig.settle();
    assert_eq!(answered(&rig, known).0, Status::Ok);
    // The answer holds for fifteen sixteenths of the time, counted from the question.
    rig.now = rig.now + Duration::from_millis(rig.lease_millis / 3 - 1);
    let live = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 4, 4));
    assert_eq!(asked(&rig), 0);
    rig.settle();
    assert_eq!(answered(&rig, live).0, Status::Ok);
    rig.now = rig.now + Duration::from_millis(rig.lease_millis * 15 / 16 - rig.lease_millis / 3);
    let live = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 5, 5));
    assert_eq!(asked(&rig), 1, "asked again in time");
    rig.asked.retain(|(h, _)| h.opcode() != Some(Opcode::LeaseCheck));
    rig.settle();
    assert_eq!(answered(&rig, live).0, Status::Ok);
    rig.now = rig.now + Duration::from_millis(2);
    let lapsed = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 6, 5));
    assert_eq!(answered(&rig, lapsed).0, Status::Retry);
    // A repetition is answered all the same: nothing is carried out for it.
    let again = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 5, 5));
    assert_eq!(answered(&rig, again), answered(&rig, live));
}

// A3, B1: so the first request need not wait for the coordinator.
#[test]
fn a_lease_is_known_before_the_first_request_under_it() {
    let mut rig = Rig::new();
    rig.take_table();
    let meet = |rig: &mut Rig, lease: u64| {
        let mut body = Vec::new();
        encode_into(&mut body, &LeaseMeet { lease: LeaseId(lease) });
        let rpc = rig.send(Opcode::LeaseMeet, &body);
        answered(rig, rpc).0
    };
    assert_eq!(meet(&mut rig, 0), Status::BadRequest);
    assert_eq!(meet(&mut rig, 8), Status::Retry);
    rig.settle();
    assert_eq!(meet(&mut rig, 8), Status::Ok);
    // The coordinator is away from now on.
    rig.asked.clear();
    let first = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 1, 1));
    assert!(!rig.asked.iter().any(|(h, _)| h.opcode() == Some(Opcode::LeaseCheck)));
    rig.settle();
    assert_eq!(answered(&rig, first).0, Status::Ok);
}

// A3, G1
#[test]
fn what_was_told_of_a_lease_counts_under_the_next_coordinator_too() {
    let mut rig = Rig::new();
    rig.take_table();
    let first = rig.send(Opcode::Write, &write(b"v", RejectRules::default()));
    rig.settle();
    assert_eq!(answered(&rig, first).0, Status::Ok);
    // The next one is away again before it can be asked.
    rig.view.term = Term(2);
    rig.asked.clear();
    let second = rig.send(Opcode::Write, &write(b"v", RejectRules::default()));
    assert!(!rig.asked.iter().any(|(h, _)| h.opcode() == Some(Opcode::LeaseCheck)));
    rig.settle();
    assert_eq!(answered(&rig, second).0, Status::Ok);
}

// A3
#[test]
fn a_late_answer_of_a_coordinator_of_before_is_not_believed() {
    let mut rig = Rig::new();
    rig.take_table();
    rig.view.term = Term(2);
    let first = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 1, 1));
    assert_eq!(answered(&rig, first).0, Status::Retry);
    rig.view.term = Term(3);
    // The answer that comes is of term 2.
    let at = rig.asked.iter().position(|(h, _)| h.opcode() == Some(Opcode::LeaseCheck)).unwrap();
    let (asked, _) = rig.asked.remove(at);
    assert_eq!(asked.term, Term(2));
    let mut body = Vec::new();
    let live = vec![ramhold_wire::lease::LiveLease { lease: LeaseId(8), millis: 100_000 }];
    encode_into(&mut body, &ramhold_wire::lease::LeasesChecked { live, never: vec![] });
    let mut effects = Effects::new();
    rig.master.on_reply(rig.now, &asked.answer(Status::Ok), &body, &rig.view, &mut effects);
    rig.take(effects);
    let second = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 2, 2));
    assert_eq!(answered(&rig, second).0, Status::Retry);
    rig.now = rig.now + Duration::from_millis(60);
    rig.tick();
    let third = rig.send_as(Opcode::Write, &write(b"v", RejectRules::default()), (8, 3, 3));
    rig.settle();
    assert_eq!(answered(&rig, third).0, Status::Ok);
}

#[test]
fn a_lease_that_is_over_is_refused_and_its_results_go() {
    let mut rig = Rig::new();
    rig.take_table();
    let first = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    rig.settle();
    assert_eq!(answered(&rig, first).0, Status::Ok);
    rig.over.push(LeaseId(LEASE));
    // Found out when what was told has run out and the next look is due.
    rig.now = rig.now + Duration::from_millis(rig.lease_millis);
    rig.tick();
    assert!(!rig.master.log().knows_lease(LeaseId(LEASE)));
    assert_eq!(rig.master.log().result_count(), 0);
    rig.master.log().check_invariants();
    let late = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    assert_eq!(answered(&rig, late).0, Status::LeaseOver);
    // However long it takes: the word is asked for again.
    for _ in 0..3 {
        rig.now = rig.now + Duration::from_secs(60);
        rig.tick();
    }
    assert_eq!(rig.master.log().result_count(), 0);
    let later = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 20, 20));
    rig.settle();
    assert_eq!(answered(&rig, later).0, Status::Retry);
    let later = rig.send_as(Opcode::Write, &write(b"one", RejectRules::default()), (LEASE, 21, 20));
    assert_eq!(answered(&rig, later).0, Status::LeaseOver);
    assert_eq!(value(&mut rig).1, b"one");
}

fn increment(by: Number, rules: RejectRules) -> Vec<u8> {
    let mut body = Vec::new();
    IncrementRequest { table: TABLE, rules, by, key: b"k" }.encode(&mut body);
    body
}

/// Status, version and sum of an answer that must have come.
fn counted(rig: &Rig, rpc: RpcId) -> (Status, u64, i64) {
    let (status, body) = rig.answer_to(rpc).expect("it is answered");
    let reply = IncrementReply::decode(&body).unwrap();
    (status, reply.version.raw(), reply.bits.cast_signed())
}

// A7
#[test]
fn an_increment_counts_in_decimal_text_and_keeps_the_end_of_its_object() {
    let mut rig = Rig::new();
    rig.take_table();
    let by = |by| increment(Number::Integer(by), RejectRules::default());
    let first = rig.send(Opcode::Increment, &by(-7));
    assert!(rig.answer_to(first).is_none(), "not before it is durable");
    rig.settle();
    let (status, version, sum) = counted(&rig, first);
    assert_eq!((status, sum), (Status::Ok, -7));
    assert_eq!(value(&mut rig), (version, b"-7".to_vec()));
    let second = rig.send(Opcode::Increment, &by(10));
    rig.settle();
    assert_eq!(counted(&rig, second), (Status::Ok, version + 1, 3));
    let float = rig.send(Opcode::Increment, &increment(Number::Float(0.25), RejectRules::default()));
    rig.settle();
    assert_eq!(counted(&rig, float).2, 3.25f64.to_bits().cast_signed());
    assert_eq!(value(&mut rig), (version + 2, b"3.25".to_vec()));
    // Not an integer any more; the object stays.
    let refused = rig.send(Opcode::Increment, &by(1));
    assert!(rig.answer_to(refused).is_none(), "what a crash could take back");
    rig.settle();
    assert_eq!(answered(&rig, refused), (Status::NotANumber, version + 2));
    let rules = RejectRules { version_other_than: Some(Version(version)), ..RejectRules::default() };
    let refused = rig.send(Opcode::Increment, &increment(Number::Float(1.0), rules));
    rig.settle();
    assert_eq!(answered(&rig, refused), (Status::WrongVersion, version + 2));

    let mut body = Vec::new();
    let (rules, key) = (RejectRules::default(), &b"k"[..]);
    let expiry = Some(Expiry::After { millis: 60_000 });
    let large = i64::MAX.to_string().into_bytes();
    WriteRequest { table: TABLE, rules, expiry, key, value: &large }.encode(&mut body);
    let written = rig.send(Opcode::Write, &body);
    rig.settle();
    assert_eq!(answered(&rig, written).0, Status::Ok);
    let refused = rig.send(Opcode::Increment, &by(1));
    let lower = rig.send(Opcode::Increment, &by(-1));
    rig.settle();
    assert_eq!(answered(&rig, refused).0, Status::OutOfRange);
    assert_eq!(counted(&rig, lower).2, i64::MAX - 1);
    let read = rig.send(Opcode::Read, &self::key());
    let (_, body) = rig.answer_to(read).unwrap();
    assert!(ReadReply::decode(&body).unwrap().expires.is_some(), "it ends when it was to");
    // An object whose time is over counts for nothing, and the new one does not end.
    rig.now = rig.now + Duration::from_secs(61);
    let anew = rig.send(Opcode::Increment, &by(5));
    rig.settle();
    assert_eq!(counted(&rig, anew).2, 5);
    let read = rig.send(Opcode::Read, &self::key());
    let (_, body) = rig.answer_to(read).unwrap();
    assert_eq!(ReadReply::decode(&body).unwrap().expires, None);
    // A value that is far too long for a number is not looked at.
    let long = rig.send(Opcode::Write, &write(&[b'1'; 5000], RejectRules::default()));
    let refused = rig.send(Opcode::Increment, &by(1));
    rig.settle();
    assert_eq!(answered(&rig, long).0, Status::Ok);
    assert_eq!(answered(&rig, refused).0, Status::NotANumber);
    rig.master.log().check_invariants();
}

// A7, A11
#[test]
fn a_repeated_increment_gets_its_own_sum_and_counts_once() {
    let mut rig = Rig::new();
    rig.take_table();
    let by = |by| increment(Number::Integer(by), RejectRules::default());
    let first = rig.send_as(Opcode::Increment, &by(1), (LEASE, 20, 20));
    let other = rig.send_as(Opcode::Increment, &by(10), (LEASE, 21, 20));
    let second = rig.repeat_as(Opcode::Increment, &by(1), (LEASE, 20, 20));
    assert!(rig.answer_to(second).is_none());
    rig.settle();
    let (_, version, sum) = counted(&rig, first);
    assert_eq!(sum, 1);
    assert_eq!(counted(&rig, other), (Status::Ok, version + 1, 11));
    assert_eq!(counted(&rig, second), (Status::Ok, version, 1));
    assert_eq!(value(&mut rig), (version + 1, b"11".to_vec()));
    let unreadable = rig.send(Opcode::Write, &write(b"x", RejectRules::default()));
    let refused = rig.send_as(Opcode::Increment, &by(1), (LEASE, 3000, 20));
    rig.settle();
    assert_eq!(answered(&rig, unreadable).0, Status::Ok);
    let number = rig.send(Opcode::Write, &write(b"5", RejectRules::default()));
    rig.settle();
    assert_eq!(answered(&rig, number).0, Status::Ok);
    // A refusal that was given once is given again.
    let again = rig.repeat_as(Opcode::Increment, &by(1), (LEASE, 3000, 20));
    rig.settle();
    assert_eq!(answered(&rig, refused), (Status::NotANumber, version + 2));
    assert_eq!(answered(&rig, again), answered(&rig, refused));
    assert_eq!(value(&mut rig).1, b"5");
}

// A7, A11, F4
#[test]
fn a_recovery_brings_what_an_increment_came_to() {
    let hash = PlacementHasher::new(PlacementSeed(1)).hash(b"k");
    let result = |sequence, version, sum| {
        Entry::RpcResult(RpcResult {
            table: TABLE,
            hash,
            lease: LeaseId(LEASE),
            sequence: Sequence(sequence),
            floor: Sequence(50),
            status: Status::Ok,
            version: Version(version),
            number: Some(sum),
        })
    };
    let object = |version, value| {
        let object =
            Object { table: TABLE, version: Version(version), time: 1, expires: None, key: b"k", value };
        Entry::Object(object, OlderList::NONE)
    };
    // The older object's segment may be cleaned long before its result is acknowledged.
    let entries = [result(50, 8, 1), result(51, 9, 3), object(9, b"3")];
    let mut rig = Rig::new();
    recover(&mut rig, &entries);
    for (sequence, version, sum) in [(50, 8, 1), (51, 9, 3)] {
        let body = increment(Number::Integer(sum), RejectRules::default());
        let again = rig.repeat_as(Opcode::Increment, &body, (LEASE, sequence, 50));
        rig.settle();
        assert_eq!(counted(&rig, again), (Status::Ok, version, sum));
    }
    assert_eq!(value(&mut rig), (9, b"3".to_vec()));
    rig.confirm_lease(7);
    let body = increment(Number::Integer(4), RejectRules::default());
    let next = rig.send_as(Opcode::Increment, &body, (7, 2, 2));
    rig.settle();
    assert_eq!(counted(&rig, next).2, 7);
    rig.master.log().check_invariants();
}

// A7, A11
#[test]
fn a_table_without_replicas_remembers_increments_too() {
    let mut rig = Rig::new();
    rig.take_unreplicated();
    let body = increment(Number::Integer(2), RejectRules::default());
    let first = rig.send_as(Opcode::Increment, &body, (LEASE, 20, 20));
    let other = rig.send_as(Opcode::Increment, &body, (LEASE, 21, 20));
    let again = rig.repeat_as(Opcode::Increment, &body, (LEASE, 20, 20));
    assert_eq!((counted(&rig, first).2, counted(&rig, other).2), (2, 4));
    assert_eq!(counted(&rig, again), counted(&rig, first));
}

/// A recovery of table 5 from one segment of server 3, whose records are these entries.
fn recover(rig: &mut Rig, entries: &[Entry<'_>]) {
    recover_as(rig, entries, false, false);
}

/// The same, live before it is replicated or not, from a log with a short tail or not.
fn recover_as(rig: &mut Rig, entries: &[Entry<'_>], early: bool, tail_short: bool) {
    let range = PartitionRange {
        partition: 0,
        table: TABLE,
        seed: PlacementSeed(1),
        first: KeyHash(0),
        last: KeyHash(u64::MAX),
        shard: ShardId(0),
        stream: StreamId(1),
        first_segment: SegmentId(1),
        durability: Durability::Buffered,
        replicas: 2,
        slots: false,
    };
    let source = SegmentSource { backup: ServerId(1), epoch: Epoch(0) };
    let segment = RecoverySegment { segment: SegmentId(1), end: None, sources: vec![source] };
    let recover = Recover {
        recovery: RecoveryId(1),
        crashed: ServerId(3),
        partition: 0,
        attempt: 1,
        ranges: vec![range],
        streams: vec![RecoveryStream { shard: ShardId(0), stream: StreamId(1), segments: vec![segment] }],
        safe_version: Version(5),
        version_floor: Version(0),
        earlier: Vec::new(),
        early,
        tail_short,
    };
    assert_eq!(rig.request(&recover), Status::Ok);
    let at = rig.asked.iter().position(|(h, _)| h.opcode() == Some(Opcode::RecoveryRead)).unwrap();
    let (asked, _) = rig.asked.remove(at);
    let mut body = vec![0; ReadTimes::BYTES];
    entries.iter().for_each(|entry| entry.encode(&mut body));
    let mut effects = Effects::new();
    rig.master.on_reply(rig.now, &asked.answer(Status::Ok), &body, &rig.view, &mut effects);
    rig.take(effects);
    rig.settle();
    for _ in 0..5 {
        rig.tick();
    }
    let (report, _) = rig.recovered().expect("it is recovered");
    rig.answer(&report, Status::Ok);
    assert!(rig.master.tablets_seen().all(|tablet| tablet.serving));
}

// A3, D8: a client takes for safe what it is told, and here a single backup may have it.
#[test]
fn a_result_from_a_short_tail_is_told_when_backups_have_it() {
    let hash = PlacementHasher::new(PlacementSeed(1)).hash(b"k");
    let (table, lease, version) = (TABLE, LeaseId(LEASE), Version(9));
    let object = Object { table, version, time: 1, expires: None, key: b"k", value: b"before" };
    let (sequence, floor) = (Sequence(51), Sequence(50));
    let result = RpcResult { table, hash, lease, sequence, floor, status: Status::Ok, version, number: None };
    let entries = [Entry::RpcResult(result), Entry::Object(object, OlderList::NONE)];
    for tail_short in [false, true] {
        let mut rig = Rig::new();
        rig.lease_millis = 20_000;
        rig.refused = |request| request.side;
        recover_as(&mut rig, &entries, true, tail_short);
        assert_eq!(value(&mut rig), (9, b"before".to_vec()), "whatever can be read is served");
        let body = write(b"before", RejectRules::default());
        let first = rig.send_as(Opcode::Write, &body, (LEASE, 51, 50));
        let again = rig.repeat_as(Opcode::Write, &body, (LEASE, 51, 50));
        rig.settle();
        if tail_short {
            assert!(rig.answer_to(first).is_none(), "a refusal would say that it was not done");
            assert_eq!(answered(&rig, again).0, Status::Retry);
        } else {
            assert_eq!(answered(&rig, first), (Status::Ok, 9));
            assert_eq!(answered(&rig, again), (Status::Ok, 9));
        }
        rig.refused = |_| false;
        for _ in 0..20 {
            rig.now = rig.now + Duration::from_millis(500);
            rig.tick();
            rig.settle();
        }
        let again = rig.repeat_as(Opcode::Write, &body, (LEASE, 51, 50));
        rig.settle();
        assert_eq!(answered(&rig, again), (Status::Ok, 9));
        rig.master.log().check_invariants();
    }
}

#[test]
fn a_recovery_brings_results_with_their_effects() {
    let hash = PlacementHasher::new(PlacementSeed(1)).hash(b"k");
    let result = |sequence, status, version| {
        Entry::RpcResult(RpcResult {
            table: TABLE,
            hash,
            lease: LeaseId(LEASE),
            sequence: Sequence(sequence),
            floor: Sequence(50),
            status,
            version: Version(version),
            number: None,
        })
    };
    let object =
        Object { table: TABLE, version: Version(9), time: 1, expires: None, key: b"k", value: b"before" };
    let entries = [
        result(50, Status::Ok, 8),
        result(51, Status::Ok, 9),
        Entry::Object(object, OlderList::NONE),
        result(52, Status::WrongVersion, 9),
    ];
    let mut rig = Rig::new();
    rig.lease_millis = 20_000;
    // The new owner has refused one of them while it did not serve the key.
    let early = rig.send_as(Opcode::Write, &write(b"before", RejectRules::default()), (LEASE, 51, 50));
    assert_eq!(answered(&rig, early).0, Status::WrongOwner);
    recover(&mut rig, &entries);
    rig.master.log().check_invariants();
    let after = [(50, (Status::Ok, 8)), (51, (Status::Ok, 9)), (52, (Status::WrongVersion, 9))];
    for (sequence, expected) in after {
        // Also without the word of the coordinator, for nothing is carried out.
        let again = rig.send_as(Opcode::Write, &write(b"x", RejectRules::default()), (LEASE, sequence, 50));
        rig.settle();
        assert_eq!(answered(&rig, again), expected);
    }
    assert_eq!(value(&mut rig), (9, b"before".to_vec()));
    // They are in this log now, and go with their lease: it was never used here.
    assert_eq!(rig.master.log().result_count(), 3);
    rig.over.push(LeaseId(LEASE));
    rig.now = rig.now + Duration::from_secs(31);
    rig.tick();
    rig.tick();
    assert_eq!(rig.master.log().result_count(), 0);
    rig.master.log().check_invariants();
}
