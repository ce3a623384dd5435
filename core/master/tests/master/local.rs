//! Requests of the process itself: the same promises as for all others, without numbers (J1, J2, F8).

use crate::rig::Rig;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::commit::{CommitAction, CommitItem, CommitRequest, encode_commit};
use ramhold_wire::data::{KeyRequest, ReadReply, RejectRules, WriteRequest, decode_version};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::membership::Durability;
use std::time::Duration;

const TABLE: TableId = TableId(5);
const PLAIN: RejectRules =
    RejectRules { exists: false, absent: false, version_other_than: None, version_at_most: None };

fn read(key: &[u8]) -> LocalRequest<'_> {
    LocalRequest::Read(KeyRequest { table: TABLE, rules: PLAIN, key })
}

fn write<'a>(key: &'a [u8], value: &'a [u8], rules: RejectRules) -> LocalRequest<'a> {
    LocalRequest::Write(WriteRequest { table: TABLE, rules, expiry: None, key, value })
}

/// Asks, and gives what has been answered by now, to whatever was asked.
fn ask(rig: &mut Rig, ticket: u64, request: &LocalRequest<'_>) -> Vec<(u64, Status, Vec<u8>)> {
    let mut effects = Effects::new();
    rig.master.on_local(rig.now, request, ticket, &rig.view, &mut effects);
    rig.master.finish_local(rig.now, 100, &rig.view, &mut effects);
    rig.end_turn(effects);
    answers(rig)
}

fn answers(rig: &mut Rig) -> Vec<(u64, Status, Vec<u8>)> {
    let mut answers = LocalAnswers::default();
    rig.master.swap_local_answers(&mut answers);
    assert!(!rig.master.has_local_answers());
    answers.iter().map(|(ticket, status, body)| (ticket, status, body.to_vec())).collect()
}

fn statuses(answers: &[(u64, Status, Vec<u8>)]) -> Vec<(u64, Status)> {
    answers.iter().map(|(ticket, status, _)| (*ticket, *status)).collect()
}

#[test]
fn what_a_crash_could_take_back_is_not_told() {
    let mut rig = Rig::new();
    rig.take_confirmed();
    let exists = RejectRules { exists: true, ..PLAIN };
    assert_eq!(ask(&mut rig, 1, &write(b"k", b"value", PLAIN)), []);
    assert_eq!(ask(&mut rig, 2, &read(b"k")), [], "no backup has the write yet");
    assert_eq!(ask(&mut rig, 3, &write(b"k", b"other", exists)), [], "nor may a refusal tell of it");
    let check = [CommitItem { table: TABLE, key: b"k", rules: exists, action: CommitAction::Check }];
    let check = CommitRequest::new(check.to_vec()).unwrap();
    assert_eq!(ask(&mut rig, 4, &LocalRequest::Commit(&check)), []);
    rig.settle();
    let mut told = answers(&mut rig);
    told.sort_by_key(|(ticket, ..)| *ticket);
    let want = [(1, Status::Ok), (2, Status::Ok), (3, Status::Exists), (4, Status::Exists)];
    assert_eq!(statuses(&told), want);
    let version = decode_version(&told[0].2).unwrap();
    let found = ReadReply::decode(&told[1].2).unwrap();
    assert_eq!((found.version, found.value), (version, &b"value"[..]));
}

#[test]
fn without_the_read_lease_nothing_is_told() {
    let mut rig = Rig::new();
    rig.take_confirmed();
    ask(&mut rig, 1, &write(b"k", b"value", PLAIN));
    rig.settle();
    answers(&mut rig);
    // The backups have granted nothing for long, and answer no more.
    rig.now = rig.now + Duration::from_secs(5);
    rig.asked.clear();
    assert_eq!(ask(&mut rig, 2, &read(b"k")), []);
    rig.now = rig.now + Duration::from_secs(1);
    let mut effects = Effects::new();
    rig.master.tick(rig.now, &rig.view, &mut effects);
    rig.take(effects);
    assert_eq!(statuses(&answers(&mut rig)), [(2, Status::NotLeased)]);
}

#[test]
fn nothing_is_remembered_of_them() {
    let mut rig = Rig::new();
    rig.take_confirmed();
    let end = |rig: &Rig| rig.master.log_end(TABLE);
    ask(&mut rig, 1, &write(b"k", b"value", PLAIN));
    rig.settle();
    answers(&mut rig);
    let before = end(&rig);
    let refused = ask(&mut rig, 2, &write(b"k", b"v", RejectRules { exists: true, ..PLAIN }));
    assert_eq!(statuses(&refused), [(2, Status::Exists)], "what is durable is told at once");
    assert_eq!(end(&rig), before, "a refusal is no entry");
    // The same from a client with a number is one.
    let mut body = Vec::new();
    let rules = RejectRules { exists: true, ..PLAIN };
    WriteRequest { table: TABLE, rules, expiry: None, key: b"k", value: b"v" }.encode(&mut body);
    rig.send(Opcode::Write, &body);
    assert!(end(&rig) > before);
}

#[test]
fn what_is_not_here_is_refused_at_once() {
    let mut rig = Rig::new();
    assert_eq!(statuses(&ask(&mut rig, 1, &read(b"k"))), [(1, Status::WrongOwner)]);
    assert_eq!(statuses(&ask(&mut rig, 2, &write(b"k", b"v", PLAIN))), [(2, Status::WrongOwner)]);
}

#[test]
fn several_objects_are_changed_as_one() {
    let mut rig = Rig::new();
    rig.take_confirmed();
    let item = |key, rules| {
        let action = CommitAction::Write { value: b"v", expiry: None };
        CommitItem { table: TABLE, key, rules, action }
    };
    let exists = RejectRules { exists: true, ..PLAIN };
    let both = CommitRequest::new(vec![item(b"a", exists), item(b"b", exists)]).unwrap();
    ask(&mut rig, 1, &LocalRequest::Commit(&both));
    rig.settle();
    assert_eq!(statuses(&answers(&mut rig)), [(1, Status::Ok)]);
    let one_is_there = CommitRequest::new(vec![item(b"c", exists), item(b"b", exists)]).unwrap();
    assert_eq!(statuses(&ask(&mut rig, 2, &LocalRequest::Commit(&one_is_there))), [(2, Status::Exists)]);
    assert_eq!(statuses(&ask(&mut rig, 3, &read(b"c"))), [(3, Status::NotFound)]);
}

// B3, J1: the coordinator tells nobody whose a tablet is before it has stored that. If this server died before, the
// tablet would go to another one, empty, and what its own Redis clients had written would be gone.
#[test]
fn a_tablet_is_the_coordinators_to_give() {
    let mut rig = Rig::new();
    rig.take_table();
    assert_eq!(statuses(&ask(&mut rig, 1, &read(b"k"))), [(1, Status::NotReady)]);
    assert_eq!(statuses(&ask(&mut rig, 2, &write(b"k", b"v", PLAIN))), [(2, Status::NotReady)]);
    let action = CommitAction::Write { value: b"v", expiry: None };
    let item = CommitItem { table: TABLE, key: b"k", rules: PLAIN, action };
    let commit = CommitRequest::new(vec![item]).unwrap();
    assert_eq!(statuses(&ask(&mut rig, 3, &LocalRequest::Commit(&commit))), [(3, Status::NotReady)]);
    rig.settle();
    assert_eq!(answers(&mut rig), []);
    assert_eq!(statuses(&ask(&mut rig, 4, &read(b"k"))), [(4, Status::NotReady)], "nothing is stored yet");
    // A record of an earlier taking says nothing of this one.
    let whole = (KeyHash(0), KeyHash(u64::MAX));
    rig.store_taken(0, whole);
    rig.stored[0].first_segment = SegmentId(rig.stored[0].first_segment.0 - 1);
    rig.settle();
    assert_eq!(statuses(&ask(&mut rig, 5, &read(b"k"))), [(5, Status::NotReady)]);
    rig.settle();
    assert_eq!(statuses(&ask(&mut rig, 6, &read(b"k"))), [(6, Status::NotReady)]);
    rig.stored.clear();
    rig.store_taken(0, whole);
    rig.settle();
    assert_eq!(statuses(&ask(&mut rig, 7, &read(b"k"))), [(7, Status::NotFound)]);
}

// B3: seed 600074. Who commits is sent to the owner of the first key. The other keys' tablets may not be stored as anybody's.
#[test]
fn a_commit_does_not_reach_into_tablets_that_may_go_elsewhere() {
    let mut rig = Rig::new();
    let half = u64::MAX / 2;
    let (low, high) = ((KeyHash(0), KeyHash(half)), (KeyHash(half + 1), KeyHash(u64::MAX)));
    for (first, last) in [low, high] {
        rig.take_range(first, last, Durability::Buffered, 2);
    }
    rig.confirm_lease(4);
    rig.store_taken(0, low);
    let hasher = hash::PlacementHasher::new(hash::PlacementSeed(1));
    let key = |is_low: bool| {
        let mut keys = (0..100).map(|n: u32| n.to_le_bytes());
        keys.find(|key| (hasher.hash(key) <= KeyHash(half)) == is_low).unwrap()
    };
    let (a, b) = (key(true), key(false));
    let item = |key| {
        let action = CommitAction::Write { value: b"v", expiry: None };
        CommitItem { table: TABLE, key, rules: PLAIN, action }
    };
    let mut body = Vec::new();
    encode_commit(2, &mut body, |out| [&a, &b].iter().for_each(|key| item(&key[..]).encode(out)));
    let send = |rig: &mut Rig| {
        let rpc = rig.send(Opcode::Commit, &body);
        rig.settle();
        rig.answer_to(rpc).unwrap().0
    };
    assert_eq!(send(&mut rig), Status::NotReady);
    assert_eq!(send(&mut rig), Status::NotReady, "the coordinator has not stored the other tablet");
    rig.store_taken(1, high);
    assert_eq!(send(&mut rig), Status::NotReady, "it is asked now");
    assert_eq!(send(&mut rig), Status::Ok);
}
