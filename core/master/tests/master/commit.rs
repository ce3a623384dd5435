//! Several objects checked and changed as one.
//!
//! Catalogue: A4, A10. Rules: docs/protocols/consistency.md, "Commits".

use crate::rig::Rig;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::commit::{CommitAction, CommitItem, CommitRefused, encode_commit};
use ramhold_wire::data::{Expiry, KeyRequest, ReadReply, RejectRules, WriteRequest, decode_version};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::TabletTake;
use std::time::Duration;

const TABLE: TableId = TableId(5);
const LEASE: u64 = 4;
const FREE: RejectRules =
    RejectRules { absent: false, exists: false, version_at_most: None, version_other_than: None };

fn if_absent() -> RejectRules {
    RejectRules { exists: true, ..FREE }
}

fn if_version(version: u64) -> RejectRules {
    RejectRules { absent: true, version_other_than: Some(Version(version)), ..FREE }
}

fn write<'a>(key: &'a [u8], value: &'a [u8]) -> CommitItem<'a> {
    let action = CommitAction::Write { value, expiry: None };
    CommitItem { table: TABLE, key, rules: FREE, action }
}

fn remove(key: &[u8]) -> CommitItem<'_> {
    CommitItem { action: CommitAction::Remove, ..write(key, b"") }
}

fn check(key: &[u8], rules: RejectRules) -> CommitItem<'_> {
    CommitItem { rules, action: CommitAction::Check, ..write(key, b"") }
}

fn commit(items: &[CommitItem<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    encode_commit(items.len(), &mut body, |out| items.iter().for_each(|item| item.encode(out)));
    body
}

fn send(rig: &mut Rig, items: &[CommitItem<'_>]) -> RpcId {
    rig.send(Opcode::Commit, &commit(items))
}

/// Status and version of an answer that must have come.
fn answered(rig: &Rig, rpc: RpcId) -> (Status, u64) {
    let (status, body) = rig.answer_to(rpc).expect("it is answered");
    (status, decode_version(&body).map_or(0, Version::raw))
}

/// Status, item and version of a refusal by a rule.
fn refused(rig: &Rig, rpc: RpcId) -> (Status, u64, u64) {
    let (status, body) = rig.answer_to(rpc).expect("it is answered");
    let CommitRefused { version, item } = CommitRefused::decode(&body).unwrap();
    (status, item, version.raw())
}

fn done(rig: &mut Rig, items: &[CommitItem<'_>]) -> u64 {
    let rpc = send(rig, items);
    rig.settle();
    let (status, version) = answered(rig, rpc);
    assert_eq!(status, Status::Ok);
    version
}

fn put(rig: &mut Rig, key: &[u8], value: &[u8], expiry: Option<Expiry>) -> RpcId {
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules: FREE, expiry, key, value }.encode(&mut body);
    rig.send(Opcode::Write, &body)
}

/// Version and value of an object, if there is one.
fn object(rig: &mut Rig, key: &[u8]) -> Option<(u64, Vec<u8>)> {
    let mut body = Vec::new();
    KeyRequest { table: TABLE, rules: FREE, key }.encode(&mut body);
    let read = rig.send(Opcode::Read, &body);
    rig.settle();
    let (status, body) = rig.answer_to(read).unwrap();
    match status {
        Status::NotFound => None,
        Status::Ok => {
            let reply = ReadReply::decode(&body).unwrap();
            Some((reply.version.raw(), reply.value.to_vec()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_of_a_commit_has_one_version_above_those_of_all_its_keys() {
    let mut rig = Rig::new();
    rig.take_table();
    for value in [&b"1"[..], b"2", b"3"] {
        done(&mut rig, &[write(b"often", value)]);
    }
    let (often, _) = object(&mut rig, b"often").unwrap();
    let gone = done(&mut rig, &[write(b"gone", b"x")]);
    let items = [write(b"new", b"n"), write(b"often", b"4"), remove(b"gone"), check(b"none", if_absent())];
    let rpc = send(&mut rig, &items);
    assert!(rig.answer_to(rpc).is_none(), "it waits for its replicas");
    rig.settle();
    let version = answered(&rig, rpc).1;
    assert_eq!(answered(&rig, rpc), (Status::Ok, version));
    assert!(version > often && version > gone);
    assert_eq!(object(&mut rig, b"new"), Some((version, b"n".to_vec())));
    assert_eq!(object(&mut rig, b"often"), Some((version, b"4".to_vec())));
    assert_eq!(object(&mut rig, b"gone"), None);
    assert_eq!(object(&mut rig, b"none"), None);
    // A key that comes again has a higher one.
    assert!(done(&mut rig, &[write(b"gone", b"again")]) > version);
    // Nothing to remove: nothing is done.
    assert_eq!(done(&mut rig, &[remove(b"never"), check(b"new", if_version(version))]), 0);
    rig.master.check_invariants();
}

#[test]
fn one_rule_that_does_not_hold_refuses_everything_for_good() {
    let mut rig = Rig::new();
    rig.take_table();
    let version = done(&mut rig, &[write(b"a", b"1"), write(b"b", b"1")]);
    let wrong = CommitItem { rules: if_version(version + 1), ..write(b"b", b"2") };
    let cases = [
        (vec![write(b"a", b"2"), wrong], (Status::WrongVersion, 1, version)),
        (vec![write(b"a", b"2"), check(b"b", if_absent())], (Status::Exists, 1, version)),
        (vec![remove(b"a"), write(b"c", b"2"), check(b"d", if_version(1))], (Status::NotFound, 2, 0)),
        (vec![CommitItem { rules: if_absent(), ..remove(b"a") }, wrong], (Status::Exists, 0, version)),
    ];
    for (number, (items, refusal)) in (20..).zip(cases) {
        let first = rig.send_as(Opcode::Commit, &commit(&items), (LEASE, number, 20));
        assert!(rig.answer_to(first).is_none(), "the refusal is logged");
        rig.settle();
        assert_eq!(refused(&rig, first), refusal);
        assert_eq!(object(&mut rig, b"a"), Some((version, b"1".to_vec())));
        assert_eq!(object(&mut rig, b"b"), Some((version, b"1".to_vec())));
        assert_eq!(object(&mut rig, b"c"), None);
    }
    // Now nothing would refuse it, but it was refused.
    done(&mut rig, &[remove(b"b")]);
    let again = [write(b"a", b"2"), check(b"b", if_absent())];
    let again = rig.repeat_as(Opcode::Commit, &commit(&again), (LEASE, 21, 20));
    rig.settle();
    assert_eq!(refused(&rig, again), (Status::Exists, 1, version));
    rig.master.check_invariants();
}

// A3
#[test]
fn a_repeated_commit_gets_the_first_answer_and_changes_nothing() {
    for replicated in [true, false] {
        let mut rig = Rig::new();
        if replicated {
            rig.take_table()
        } else {
            rig.take_unreplicated()
        }
        let items = [write(b"a", b"1"), write(b"b", b"1")];
        let first = rig.send_as(Opcode::Commit, &commit(&items), (LEASE, 20, 20));
        let second = rig.send_as(Opcode::Commit, &commit(&items), (LEASE, 20, 20));
        assert_eq!(rig.answer_to(first).is_none(), replicated);
        rig.settle();
        let (status, version) = answered(&rig, first);
        assert_eq!(status, Status::Ok);
        assert_eq!(answered(&rig, second), (Status::Ok, version));
        let later = done(&mut rig, &[write(b"b", b"2")]);
        let third = rig.repeat_as(Opcode::Commit, &commit(&items), (LEASE, 20, 20));
        rig.settle();
        assert_eq!(answered(&rig, third), (Status::Ok, version));
        assert_eq!(object(&mut rig, b"b"), Some((later, b"2".to_vec())));
        rig.master.check_invariants();
    }
}

#[test]
fn what_is_not_durable_yet_may_be_checked_and_what_is_behind_it_waits() {
    let mut rig = Rig::new();
    rig.take_table();
    let first = send(&mut rig, &[write(b"a", b"1")]);
    // Versions are handed out at once.
    let version = 1;
    let second = send(&mut rig, &[check(b"a", if_version(version)), write(b"b", b"1")]);
    let checks = send(&mut rig, &[check(b"a", if_version(version)), check(b"none", if_absent())]);
    let refusal = send(&mut rig, &[check(b"none", if_absent()), check(b"a", if_absent())]);
    assert!([first, second, checks, refusal].iter().all(|rpc| rig.answer_to(*rpc).is_none()));
    rig.settle();
    assert_eq!(answered(&rig, first), (Status::Ok, version));
    assert_eq!(answered(&rig, second).0, Status::Ok);
    assert_eq!(answered(&rig, checks), (Status::Ok, 0));
    assert_eq!(refused(&rig, refusal), (Status::Exists, 1, version));
    // So does a check of what was removed.
    let removed = send(&mut rig, &[remove(b"a"), remove(b"b")]);
    let checks = send(&mut rig, &[check(b"b", if_absent()), check(b"none", if_absent())]);
    assert!([removed, checks].iter().all(|rpc| rig.answer_to(*rpc).is_none()));
    rig.settle();
    assert_eq!(answered(&rig, checks), (Status::Ok, 0));
}

// F8, J2
#[test]
fn a_commit_that_only_checks_needs_the_read_lease_and_no_log() {
    let mut rig = Rig::new();
    rig.take_table();
    let version = done(&mut rig, &[write(b"a", b"1")]);
    let before = rig.master.log().usage();
    let end = |rig: &Rig| rig.master.log().segments().map(|segment| segment.len_bytes).sum::<u32>();
    let length = end(&rig);
    let items = [check(b"a", if_version(version)), check(b"b", if_absent())];
    let leased = send(&mut rig, &items);
    assert_eq!(answered(&rig, leased), (Status::Ok, 0), "nothing is to be waited for");
    assert_eq!((rig.master.log().usage(), end(&rig)), (before, length));
    rig.now = rig.now + Duration::from_millis(300);
    let unleased = send(&mut rig, &items);
    assert!(rig.answer_to(unleased).is_none(), "another server may have the keys by now");
    rig.tick();
    assert_eq!(answered(&rig, unleased), (Status::Ok, 0));
}

#[test]
fn keys_that_are_not_together_are_refused_and_stay_so_for_whoever_repeats() {
    let mut rig = Rig::new();
    rig.take_table();
    let take = TabletTake {
        table: TableId(6),
        seed: PlacementSeed(1),
        first: KeyHash(0),
        last: KeyHash(u64::MAX / 2),
        durability: Durability::None,
        replicas: 0,
        version_floor: Version(0),
        slots: false,
    };
    assert_eq!(rig.request(&take), Status::Ok);
    let hasher = hash::PlacementHasher::new(PlacementSeed(1));
    let keys: Vec<[u8; 1]> = (0..100).map(|key| [key]).collect();
    let is_here = |key: &&[u8; 1]| hasher.hash(*key).0 <= u64::MAX / 2;
    let (here, elsewhere) =
        (keys.iter().find(is_here).unwrap(), keys.iter().find(|key| !is_here(key)).unwrap());
    let other = |table, key| CommitItem { table: TableId(table), ..write(key, b"v") };
    // Another stream, another server's part of a table, and a table that is not known here.
    for (number, item) in (20..).zip([other(6, here), other(6, elsewhere), other(7, here)]) {
        let items = [write(b"a", b"v"), item];
        let first = rig.send_as(Opcode::Commit, &commit(&items), (LEASE, number, 20));
        rig.settle();
        let again = rig.repeat_as(Opcode::Commit, &commit(&items), (LEASE, number, 20));
        assert_eq!(answered(&rig, first).0, Status::NotTogether);
        assert_eq!(answered(&rig, again).0, Status::NotTogether);
        assert_eq!(object(&mut rig, b"a"), None);
    }
    // The owner of a commit's first key is asked, whoever owns the others.
    let theirs = send(&mut rig, &[other(6, elsewhere), write(b"a", b"v")]);
    assert_eq!(answered(&rig, theirs).0, Status::WrongOwner);
    rig.master.check_invariants();
}

// A12
#[test]
fn an_object_whose_time_is_over_is_absent_to_a_commit() {
    let mut rig = Rig::new();
    rig.take_table();
    put(&mut rig, b"a", b"1", Some(Expiry::After { millis: 1000 }));
    rig.settle();
    let (version, _) = object(&mut rig, b"a").unwrap();
    let end = ClusterTime(rig.view.time(rig.now).0 + 5000);
    let write_until = CommitItem {
        action: CommitAction::Write { value: b"b", expiry: Some(Expiry::At(end)) },
        ..write(b"b", b"")
    };
    done(&mut rig, &[check(b"a", if_version(version)), write_until]);
    rig.now = rig.now + Duration::from_millis(1000);
    let over = send(&mut rig, &[write(b"c", b"1"), check(b"a", if_version(version))]);
    rig.settle();
    assert_eq!(refused(&rig, over), (Status::NotFound, 1, 0));
    assert!(done(&mut rig, &[CommitItem { rules: if_absent(), ..write(b"a", b"2") }]) > version);
    assert!(object(&mut rig, b"b").is_some());
    rig.now = rig.now + Duration::from_millis(4000);
    assert_eq!(object(&mut rig, b"b"), None);
    rig.master.check_invariants();
}

// A2
#[test]
fn limits_are_answers() {
    let mut rig = Rig::new();
    rig.take_table();
    let (half, most) = (vec![1; 8192], vec![1; 8000]);
    let too_large = send(&mut rig, &[write(b"a", &half), write(b"b", &half)]);
    assert_eq!(answered(&rig, too_large).0, Status::CommitTooLarge);
    let twice = send(&mut rig, &[write(b"a", b"1"), remove(b"a")]);
    assert_eq!(answered(&rig, twice).0, Status::BadRequest);
    assert_eq!(object(&mut rig, b"a"), None);
    done(&mut rig, &[write(b"a", &most), write(b"b", &most)]);
    let no_lease = rig.send_as(Opcode::Commit, &commit(&[write(b"a", b"1")]), (0, 0, 0));
    assert_eq!(answered(&rig, no_lease).0, Status::BadRequest);
    rig.master.check_invariants();
}

// C7
#[test]
fn commits_go_on_while_their_memory_is_cleaned() {
    let mut rig = Rig::with(1 << 19);
    rig.take_unreplicated();
    let keys: Vec<Vec<u8>> = (0..40).map(|key: u32| format!("key {key}").into_bytes()).collect();
    let value = vec![7; 1500];
    let mut written = 0;
    for round in 0..400_usize {
        let of_round = |place: usize| &keys[(round * 7 + place * 3) % keys.len()];
        let items: Vec<_> = (0..4)
            .map(|place| {
                if place == 3 && round % 3 == 0 {
                    remove(of_round(place))
                } else {
                    write(of_round(place), &value)
                }
            })
            .collect();
        let rpc = send(&mut rig, &items);
        rig.settle();
        rig.tick();
        written += usize::from(answered(&rig, rpc).0 == Status::Ok);
    }
    assert!(written > 350, "{written}");
    assert!(written * 3 * value.len() > 3 << 19, "more than the memory holds");
    rig.master.check_invariants();
}
