//! Requests of the process itself: the same promises as for all others, without numbers (J1, J2, F8).

use crate::rig::Rig;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::commit::{CommitAction, CommitItem, CommitRequest};
use ramhold_wire::data::{KeyRequest, ReadReply, RejectRules, WriteRequest, decode_version};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
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
    rig.take(effects);
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
    rig.take_table();
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
    rig.take_table();
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
    rig.take_table();
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
    rig.take_table();
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
