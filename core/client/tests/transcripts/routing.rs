//! Where operations go, and what makes the session ask again who owns a key.

use crate::fake::*;
use ramhold_base::{KeyHash, Lost, Machine, ServerId, ShardId, Status, Version};
use ramhold_client_core::{Outcome, Reply, TableCount};
use ramhold_wire::Opcode;
use ramhold_wire::count::CountReply;
use ramhold_wire::data::WriteRequest;
use ramhold_wire::table::TabletState;

#[test]
fn a_count_asks_each_tablet_after_the_other() {
    // A6
    let mut fake = Fake::new();
    let mut count = TableCount::new(TABLE);
    let (_, mut sent) = fake.start_described(count.ask().unwrap(), HALVES);
    for (server_number, last, objects) in [(1, u64::MAX / 2, 5), (2, u64::MAX, 7)] {
        assert_eq!((sent.to, sent.opcode()), (server(server_number), Opcode::Count));
        let mut body = Vec::new();
        CountReply { last: KeyHash(last), objects }.encode(&mut body);
        fake.answer(&sent, Status::Ok, &body);
        let Outcome::Done(Reply::Counted { last, objects }) = fake.outcome().1 else { panic!("not counted") };
        count.take(last, objects);
        let Some(operation) = count.ask() else { break };
        fake.start(operation);
        sent = fake.request();
    }
    assert_eq!((count.ask(), count.objects()), (None, 12));
}

#[test]
fn a_key_goes_to_its_owner_by_one_description_for_all() {
    // A3, B5
    let mut fake = Fake::new();
    let (low, high) = (key_in_half(false, 1), key_in_half(true, 1));
    fake.start(write(&low, b"value"));
    fake.start(read(&high));
    fake.describe(HALVES);
    assert_eq!(fake.sent.len(), 2);
    // The write had to wait for a lease.
    let (second, first) = (fake.sent.remove(0), fake.sent.remove(0));
    assert_eq!((first.to, first.opcode()), (server(1), Opcode::Write));
    assert_eq!((first.header.target, first.header.shard), (ServerId(1), ShardId(3)));
    assert_eq!(first.header.cluster, CLUSTER);
    let request = WriteRequest::decode(&first.body).unwrap();
    assert_eq!((request.table, request.key, request.value), (TABLE, &low[..], &b"value"[..]));
    assert_eq!((second.to, second.opcode()), (server(2), Opcode::Read));

    fake.answer_value(&second, 8, b"found");
    fake.answer_version(&first, Status::Ok, 3);
    let read_reply = Reply::Read {
        version: Version(8),
        time: 1234,
        expires: None,
        value: b"found".to_vec(),
        answered_by: ServerId(2),
    };
    assert_eq!(fake.outcome().1, Outcome::Done(read_reply));
    fake.expect_written(3);

    // The description is known now.
    fake.start(remove(&low));
    let sent = fake.expect(server(1), Opcode::Remove);
    fake.answer_version(&sent, Status::Ok, 0);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Removed { version: Version(0) }));
    assert_eq!(fake.session.deadline(), None);
}

#[test]
fn the_lowest_awaited_sequence_is_told_and_no_sequence_is_used_again() {
    // B5
    let mut fake = Fake::new();
    let (_, first) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.start(write(b"b", b"2"));
    let second = fake.request();
    assert_eq!(second.header.unacknowledged, first.header.sequence);
    assert_eq!(second.header.lease, first.header.lease);
    fake.answer_version(&first, Status::Retry, 0);
    fake.wait(millis(10));
    let repeated = fake.request();
    assert!(repeated.header.sequence > second.header.sequence);
    assert_eq!(repeated.header.unacknowledged, second.header.sequence);
}

#[test]
fn a_wrong_owner_makes_the_session_ask_once_and_go_to_the_new_one() {
    // B5
    for status in [Status::WrongOwner, Status::WrongServer, Status::Fenced] {
        let mut fake = Fake::new();
        fake.start(write(b"a", b"1"));
        fake.start(write(b"b", b"2"));
        fake.describe(ALL_AT_1);
        let sent = std::mem::take(&mut fake.sent);
        fake.answer(&sent[0], status, b"");
        fake.answer(&sent[1], status, b"");
        fake.describe(ALL_AT_2);
        assert_eq!(fake.sent.len(), 2);
        for again in std::mem::take(&mut fake.sent) {
            assert_eq!((again.to, again.header.target), (server(2), ServerId(2)));
            fake.answer_version(&again, Status::Ok, 5);
        }
        fake.expect_written(5);
        fake.expect_written(5);
    }
}

#[test]
fn a_late_wrong_owner_says_nothing_of_a_newer_description() {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(read(b"a"), ALL_AT_1);
    fake.answer_value(&sent, 1, b"");
    fake.outcome();
    fake.start(write(b"a", b"1"));
    fake.start(write(b"b", b"2"));
    let sent = std::mem::take(&mut fake.sent);
    fake.answer(&sent[0], Status::WrongOwner, b"");
    fake.describe(ALL_AT_2);
    fake.expect(server(2), Opcode::Write);
    fake.answer(&sent[1], Status::WrongOwner, b"");
    fake.wait(millis(10));
    fake.expect(server(2), Opcode::Write);
}

#[test]
fn a_tablet_without_an_owner_is_asked_for_at_a_steady_pace_while_others_are_served() {
    // B5, F5
    let mut fake = Fake::new();
    let half: &[Part] = &[(u64::MAX / 2, TabletState::Serving, 1), (u64::MAX, TabletState::Recovering, 2)];
    let waiting = fake.start(write(&key_in_half(true, 1), b"1"));
    fake.start(write(&key_in_half(true, 2), b"1"));
    fake.describe(half);
    for _ in 0..20 {
        let waited = fake.wait(millis(1000));
        assert!(waited >= millis(10), "{waited:?}");
        assert!(waited <= millis(20), "{waited:?}");
        fake.describe(half);
        fake.start(read(&key_in_half(false, 1)));
        let sent = fake.expect(server(1), Opcode::Read);
        fake.answer_value(&sent, 1, b"");
        fake.outcome();
    }
    fake.expect_none_ended();
    fake.describe(HALVES);
    let sent = std::mem::take(&mut fake.sent);
    assert_eq!(sent.len(), 2);
    fake.answer_version(&sent[0], Status::Ok, 9);
    fake.answer_version(&sent[1], Status::Ok, 10);
    assert_eq!(fake.outcome(), (waiting, Outcome::Done(Reply::Written { version: Version(9) })));
}

#[test]
fn a_lost_owner_is_doubted_for_all_its_keys() {
    // B5
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(read(b"a"), ALL_AT_1);
    fake.answer_value(&sent, 1, b"");
    fake.outcome();
    fake.lose(server(1), Lost::Broken);
    fake.start(write(b"b", b"1"));
    fake.describe(ALL_AT_2);
    fake.expect(server(2), Opcode::Write);
}

#[test]
fn a_silent_owner_is_doubted_after_one_attempt_and_reads_go_on_elsewhere() {
    // B5
    let mut fake = Fake::new();
    let (_, first) = fake.start_described(read(b"a"), ALL_AT_1);
    assert_eq!(fake.wait(millis(5000)), millis(1000));
    fake.describe(ALL_AT_2);
    let second = fake.expect(server(2), Opcode::Read);
    // The late answer is of no use any more.
    fake.answer_value(&first, 1, b"old");
    fake.expect_none_ended();
    fake.answer_value(&second, 2, b"new");
    let Outcome::Done(Reply::Read { value, .. }) = fake.outcome().1 else { panic!("not done") };
    assert_eq!(value, b"new");
}

#[test]
fn while_no_coordinator_answers_the_old_owner_is_tried_again() {
    // B5: the data path does not need the coordinator.
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(read(b"a"), ALL_AT_1);
    fake.answer(&sent, Status::WrongOwner, b"");
    fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.lose(coordinator(0), Lost::Refused);
    let again = loop {
        fake.wait(millis(3000));
        let sent = fake.request();
        if sent.opcode() == Opcode::Read {
            break sent;
        }
        fake.lose(sent.to, Lost::Refused);
    };
    assert_eq!(again.to, server(1));
    fake.answer_value(&again, 2, b"here");
    assert!(matches!(fake.outcome().1, Outcome::Done(_)));
}

#[test]
fn a_description_that_leaves_hashes_out_is_not_used() {
    let mut fake = Fake::new();
    fake.start(read(b"a"));
    fake.describe(&[(u64::MAX / 2, TabletState::Serving, 1)]);
    fake.expect_silence();
    fake.describe(ALL_AT_1);
    fake.expect(server(1), Opcode::Read);
}

#[test]
fn answers_that_are_doubled_foreign_or_garbage_change_nothing() {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    let mut foreign = sent.clone();
    foreign.header.rpc.0 += 77;
    fake.answer_version(&foreign, Status::Ok, 1);
    let mut other = sent.clone();
    other.header.opcode = Opcode::Read.code();
    fake.answer_version(&other, Status::Ok, 1);
    fake.input(ramhold_base::Input::Frame { from: ramhold_base::ConnId(1), bytes: b"garbage" });
    fake.expect_none_ended();
    fake.answer_version(&sent, Status::Ok, 4);
    fake.answer_version(&sent, Status::Ok, 5);
    fake.answer(&sent, Status::WrongOwner, b"");
    fake.expect_written(4);
    fake.expect_none_ended();
    fake.expect_silence();
}
