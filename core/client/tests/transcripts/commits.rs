//! Several objects as one: where they go, and what is told of them.

use crate::fake::*;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{Lost, Sequence, Status, TableId, Version};
use ramhold_client_core::{CommitAction, CommitItem, Operation, Outcome, RejectRules, Reply};
use ramhold_wire::Opcode;
use ramhold_wire::commit::{COMMIT_BYTES_MAX, COMMIT_COUNT_MAX, CommitRequest};

fn item(key: &[u8], action: CommitAction) -> CommitItem {
    CommitItem { table: TABLE, key: key.to_vec(), rules: RejectRules::default(), action }
}

fn put(key: &[u8], value: &[u8]) -> CommitItem {
    item(key, CommitAction::Write { value: value.to_vec(), expiry: None })
}

fn commit(items: Vec<CommitItem>) -> Operation {
    Operation::Commit { items }
}

#[test]
fn a_commit_goes_alone_to_the_owner_of_its_first_key_under_one_number() {
    // A10
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(&key_in_half(true, 1), b"1"), HALVES);
    fake.answer_version(&sent, Status::Ok, 1);
    fake.expect_written(1);
    let items = vec![put(&key_in_half(true, 2), b"v"), item(&key_in_half(false, 3), CommitAction::Remove)];
    let beside = write(&key_in_half(true, 4), b"2");
    fake.start_all(vec![commit(items), beside]);
    let both = std::mem::take(&mut fake.sent);
    assert!(both.iter().all(|sent| sent.to == server(2) && sent.packed.is_none()));
    let sent = both.iter().find(|sent| sent.opcode() == Opcode::Commit).unwrap();
    assert_eq!(sent.header.sequence, Sequence(2));
    assert_eq!(CommitRequest::decode(&sent.body).unwrap().items().len(), 2);
    fake.answer_version(sent, Status::Ok, 9);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Committed { version: Version(9) }));
}

#[test]
fn a_refusal_tells_which_object_it_is_about() {
    // A4
    let mut fake = Fake::new();
    let operation = commit(vec![put(b"a", b"1"), item(b"b", CommitAction::Check)]);
    let (_, sent) = fake.start_described(operation, ALL_AT_1);
    fake.answer(&sent, Status::WrongVersion, &[7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let Outcome::Refused { status, version, item, .. } = fake.outcome().1 else { panic!("not refused") };
    assert_eq!((status, version, item), (Status::WrongVersion, Some(Version(7)), Some(1)));
}

#[test]
fn that_its_keys_are_not_together_is_the_end_also_of_a_commit_whose_fate_was_open() {
    // A3
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(commit(vec![put(b"a", b"1"), put(b"b", b"1")]), ALL_AT_1);
    fake.lose(sent.to, Lost::Broken);
    fake.wait(millis(1000));
    fake.describe(ALL_AT_1);
    let again = fake.expect(server(1), Opcode::Commit);
    assert!(again.header.repeated);
    assert_eq!(again.header.sequence, sent.header.sequence);
    fake.answer_version(&again, Status::NotTogether, 0);
    fake.expect_refused(Status::NotTogether);
}

#[test]
fn limits_are_told_without_asking_anybody() {
    // A2
    let many: Vec<_> = (0..=COMMIT_COUNT_MAX as u32).map(|key| put(&key.to_le_bytes(), b"")).collect();
    let large: Vec<_> = (0..COMMIT_BYTES_MAX / VALUE_BYTES_MAX)
        .map(|key| put(&[key as u8], &vec![0; VALUE_BYTES_MAX]))
        .collect();
    let of_another_table = CommitItem { table: TableId(8), ..put(b"a", b"") };
    let mut fake = Fake::new();
    for (items, status) in [
        (vec![], Status::BadRequest),
        (vec![put(b"a", b"1"), item(b"a", CommitAction::Check)], Status::BadRequest),
        (vec![put(&vec![0; KEY_BYTES_MAX + 1], b"")], Status::KeyTooLarge),
        (vec![put(b"a", &vec![0; VALUE_BYTES_MAX + 1])], Status::ValueTooLarge),
        (many, Status::CommitTooLarge),
        (large, Status::CommitTooLarge),
    ] {
        fake.start(commit(items));
        fake.expect_refused(status);
    }
    fake.expect_silence();
    let (_, sent) = fake.start_described(commit(vec![put(b"a", b"1"), of_another_table]), ALL_AT_1);
    fake.answer_version(&sent, Status::Ok, 3);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Committed { version: Version(3) }));
}
