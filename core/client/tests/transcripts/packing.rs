//! Requests of one step to one server travel in one frame, and each of them ends on its own.

use crate::fake::*;
use ramhold_base::{LeaseId, Sequence, Status, Version};
use ramhold_client_core::{Outcome, Reply};
use ramhold_wire::Opcode;
use ramhold_wire::multi::{MULTI_COUNT_MAX, encode_answer};

/// A session that knows the table, whose tablets are these, and has a lease.
fn described(parts: &[Part]) -> Fake {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), parts);
    fake.answer_version(&sent, Status::Ok, 1);
    fake.expect_written(1);
    fake
}

fn sequences(sent: &[Sent]) -> Vec<u64> {
    sent.iter().map(|sent| sent.header.sequence.raw()).collect()
}

#[test]
fn reads_and_mutations_for_one_server_go_in_a_frame_each() {
    // A5
    let mut fake = described(ALL_AT_1);
    let ids = fake.start_all(vec![write(b"a", b"2"), read(b"b"), remove(b"c"), read(b"d")]);
    let mut sent = std::mem::take(&mut fake.sent);
    assert!(sent.iter().all(|sent| sent.packed.is_some_and(|packed| packed.count == 2)));
    sent.sort_by_key(|sent| sent.header.sequence);
    let opcodes: Vec<Opcode> = sent.iter().map(Sent::opcode).collect();
    assert_eq!(opcodes, [Opcode::Read, Opcode::Read, Opcode::Write, Opcode::Remove]);
    assert_eq!(sequences(&sent), [0, 0, 2, 3]);
    assert_eq!(sent[2].packed.unwrap().frame.unacknowledged, Sequence(2));
    fake.answer_version(&sent[3], Status::Ok, 7);
    fake.answer_version(&sent[1], Status::NotFound, 0);
    fake.expect_none_ended();
    fake.answer_value(&sent[0], 5, b"five");
    fake.answer_version(&sent[2], Status::Ok, 6);
    let mut outcomes = Vec::new();
    while let Some(ended) = fake.session.take_outcome() {
        outcomes.push(ended);
    }
    outcomes.sort_by_key(|(id, _)| *id);
    assert_eq!(outcomes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    assert_eq!(outcomes[0].1, Outcome::Done(Reply::Written { version: Version(6) }));
    assert!(matches!(&outcomes[1].1, Outcome::Done(Reply::Read { value, .. }) if value == b"five"));
    assert_eq!(outcomes[2].1, Outcome::Done(Reply::Removed { version: Version(7) }));
    assert!(matches!(&outcomes[3].1, Outcome::Refused { status: Status::NotFound, .. }));
}

#[test]
fn each_server_has_a_frame_of_its_own_and_what_is_alone_goes_alone() {
    // A5
    let mut fake = described(HALVES);
    let keys = [(false, 1), (true, 2), (false, 3)].map(|(upper, number)| key_in_half(upper, number));
    fake.start_all(keys.iter().map(|key| read(key)).collect());
    let packed: Vec<_> = fake.sent.iter().map(|sent| (sent.to, sent.packed.is_some())).collect();
    assert_eq!(packed, [(server(1), true), (server(1), true), (server(2), false)]);
}

#[test]
fn frames_keep_to_the_limits_of_count_and_bytes() {
    // A5
    let mut fake = described(ALL_AT_1);
    fake.start_all((0..MULTI_COUNT_MAX as u32 + 44).map(|n| read(&n.to_le_bytes())).collect());
    let counts: Vec<_> = fake.sent.iter().map(|sent| sent.packed.unwrap().count).collect();
    assert_eq!(counts[..MULTI_COUNT_MAX], [MULTI_COUNT_MAX; MULTI_COUNT_MAX]);
    assert_eq!(counts[MULTI_COUNT_MAX..], [44; 44]);
    fake.sent.clear();
    // The fake decodes every frame within the limits; the largest value fits none that has another item.
    let values = [400 * 1024, 400 * 1024, 400 * 1024, 1024 * 1024, 10];
    fake.start_all(values.iter().map(|bytes| write(b"k", &vec![7; *bytes])).collect());
    let counts: Vec<_> = fake.sent.iter().map(|sent| sent.packed.map(|packed| packed.count)).collect();
    assert_eq!(counts, [Some(2), Some(2), None, None, None]);
}

#[test]
fn an_item_for_which_the_answer_had_no_room_is_asked_for_at_once() {
    // A5
    let mut fake = described(ALL_AT_1);
    fake.start_all(vec![read(b"a"), read(b"b"), read(b"c")]);
    let sent = std::mem::take(&mut fake.sent);
    fake.answer_value(&sent[0], 5, b"five");
    fake.answer(&sent[1], Status::AnswerFull, &[]);
    fake.answer(&sent[2], Status::AnswerFull, &[]);
    assert_eq!(fake.sent.len(), 2, "without any pause, and together again");
    assert!(fake.sent.iter().all(|sent| sent.packed.is_some_and(|packed| packed.count == 2)));
}

#[test]
fn an_item_that_is_not_answered_keeps_its_number_and_is_repeated() {
    // A3, A5
    let mut fake = described(ALL_AT_1);
    fake.start_all(vec![write(b"a", b"2"), write(b"b", b"2"), write(b"c", b"2")]);
    let sent = std::mem::take(&mut fake.sent);
    fake.pass_over(&sent[0]);
    fake.answer(&sent[1], Status::Retry, &[]);
    fake.answer_version(&sent[2], Status::Ok, 9);
    fake.expect_written(9);
    let mut again = Vec::new();
    while again.len() < 2 {
        fake.wait(millis(100));
        again.append(&mut fake.sent);
    }
    again.sort_by_key(|sent| sent.header.sequence);
    let seen: Vec<_> = again.iter().map(|sent| (sent.header.sequence.raw(), sent.header.repeated)).collect();
    assert_eq!(seen, [(2, true), (5, false)], "what was refused has another number");
}

#[test]
fn a_frame_that_is_refused_as_a_whole_leaves_each_fate_open() {
    // A3, A5
    let mut fake = described(ALL_AT_1);
    fake.start_all(vec![write(b"a", b"2"), write(b"b", b"2")]);
    let sent = std::mem::take(&mut fake.sent);
    // By another life of the server, which has not looked at numbers.
    fake.answer_frame(&sent[0].packed.unwrap(), Status::WrongServer, &[]);
    fake.describe(ALL_AT_2);
    let mut again = Vec::new();
    while again.len() < 2 {
        fake.wait(millis(100));
        again.append(&mut fake.sent);
    }
    assert!(again.iter().all(|sent| sent.to == server(2) && sent.header.repeated));
    let mut numbers = sequences(&again);
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[test]
fn what_a_frame_answers_is_heard_before_that_its_lease_is_over() {
    // A3, A5
    let mut fake = described(ALL_AT_1);
    let ids = fake.start_all(vec![write(b"a", b"2"), write(b"b", b"2")]);
    let sent = std::mem::take(&mut fake.sent);
    assert_eq!(sent[0].header.lease, LeaseId(701));
    fake.answer(&sent[0], Status::LeaseOver, &[]);
    fake.answer_version(&sent[1], Status::Ok, 9);
    let (id, outcome) = fake.outcome();
    assert_eq!((id, outcome), (ids[1], Outcome::Done(Reply::Written { version: Version(9) })));
    assert_eq!(fake.outcome().0, ids[0]);
}

#[test]
fn a_frame_s_answer_that_makes_no_sense_is_as_good_as_none() {
    // A5
    let mut fake = described(ALL_AT_1);
    fake.start_all(vec![read(b"a"), read(b"b")]);
    let packed = fake.sent[0].packed.unwrap();
    fake.sent.clear();
    let mut body = Vec::new();
    encode_answer(900, Some(Status::Ok), &mut body, |_| {});
    encode_answer(0, Some(Status::Ok), &mut body, |out| out.push(1));
    body.extend_from_slice(&[1, 2, 3]);
    fake.answer_frame(&packed, Status::Ok, &body);
    fake.expect_none_ended();
    let mut again = Vec::new();
    while again.len() < 2 {
        fake.wait(millis(100));
        again.append(&mut fake.sent);
    }
    for sent in again {
        fake.answer_value(&sent, 1, b"");
    }
    assert!(matches!(fake.outcome().1, Outcome::Done(Reply::Read { .. })));
    assert!(matches!(fake.outcome().1, Outcome::Done(Reply::Read { .. })));
}
