//! Leases: opened with the first mutation, renewed in time, and what becomes of operations when one is over.

use crate::fake::*;
use ramhold_base::{LeaseId, Lost, Sequence, Status};
use ramhold_client_core::Outcome;
use ramhold_wire::Opcode;
use ramhold_wire::control::decode;
use ramhold_wire::data::WriteRequest;
use ramhold_wire::lease::{LeaseOpen, LeaseRenew};
use std::time::Duration;

#[test]
fn the_first_mutation_opens_a_lease_and_reads_need_none() {
    // A3
    let mut fake = Fake::new();
    fake.gives_leases = false;
    let (_, sent) = fake.start_described(read(b"a"), ALL_AT_1);
    assert_eq!((sent.header.lease, sent.header.sequence), (LeaseId::NONE, Sequence::NONE));
    fake.answer_value(&sent, 1, b"");
    fake.outcome();
    fake.start(write(b"a", b"1"));
    fake.start(write(b"b", b"1"));
    let sent = fake.expect(coordinator(0), Opcode::LeaseOpen);
    assert_eq!(decode::<LeaseOpen>(&sent.body).unwrap().term_millis, 30 * 60_000);
    fake.give_lease(&sent);
    assert_eq!(fake.sent.len(), 2);
    let (first, second) = (fake.sent.remove(0), fake.sent.remove(0));
    assert_eq!((first.header.lease, first.header.sequence), (LeaseId(701), Sequence(1)));
    assert_eq!((second.header.lease, second.header.sequence), (LeaseId(701), Sequence(2)));
}

#[test]
fn a_lease_is_renewed_by_the_first_mutation_after_a_third_of_its_term() {
    // A3
    let mut fake = Fake::new();
    fake.gives_leases = false;
    fake.start(write(b"a", b"1"));
    fake.describe(ALL_AT_1);
    let sent = fake.request();
    fake.give_lease(&sent);
    let sent = fake.request();
    fake.answer_version(&sent, Status::Ok, 1);
    fake.expect_written(1);
    for (minutes, renews) in [(9, false), (2, true), (2, false)] {
        fake.wait(Duration::from_secs(60 * minutes));
        fake.start(write(b"a", b"1"));
        let sent = fake.sent.pop().unwrap();
        let (write, renewal) = match sent.opcode() {
            Opcode::Write => (sent, fake.sent.pop()),
            _ => (fake.sent.pop().unwrap(), Some(sent)),
        };
        assert_eq!(renewal.is_some(), renews, "after {minutes} more minutes");
        if let Some(renewal) = renewal {
            assert_eq!(decode::<LeaseRenew>(&renewal.body).unwrap().lease, LeaseId(701));
            fake.give_lease(&renewal);
        }
        fake.answer_version(&write, Status::Ok, 1);
        fake.expect_written(1);
    }
}

/// A session that has just sent a write under its first lease.
fn with_lease() -> (Fake, Sent) {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.gives_leases = false;
    (fake, sent)
}

#[test]
fn a_lease_that_is_over_leaves_unknown_what_may_have_had_its_effect_and_nothing_else() {
    // A3
    let mut fake = Fake::new();
    fake.term_millis = 3000;
    let (open, _) = fake.start_described(write(b"a", b"open"), ALL_AT_1);
    fake.gives_leases = false;
    let refused = fake.start(write(b"b", b"refused"));
    let over_at = fake.now + millis(3000);
    let mut ended = None;
    for _ in 0..1000 {
        for sent in std::mem::take(&mut fake.sent) {
            match sent.opcode() {
                Opcode::TableDescribe => fake.answer_with(&sent, &description(ALL_AT_1)),
                Opcode::LeaseRenew if fake.now >= over_at => fake.answer(&sent, Status::LeaseOver, b""),
                Opcode::LeaseRenew => {}
                Opcode::LeaseOpen => fake.give_lease(&sent),
                _ if WriteRequest::decode(&sent.body).unwrap().value == b"open" => {
                    assert_eq!((sent.header.lease, sent.header.sequence), (LeaseId(701), Sequence(1)));
                }
                _ if sent.header.lease == LeaseId(701) => fake.answer(&sent, Status::Retry, b""),
                _ => {
                    assert_eq!((sent.header.lease, sent.header.sequence), (LeaseId(702), Sequence(1)));
                    fake.answer_version(&sent, Status::Ok, 5);
                }
            }
        }
        match fake.session.take_outcome() {
            Some((id, Outcome::Unknown { detail, .. })) => {
                assert_eq!((id, ended.replace(fake.now)), (open, None));
                assert!(detail.contains("lease701 was over"), "{detail}");
            }
            Some((id, Outcome::Done(_))) => {
                assert_eq!(id, refused);
                assert!(ended.is_some_and(|at| at < over_at + millis(2000)));
                return;
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        fake.wait(millis(100));
    }
    panic!("the write that was refused does not go on");
}

#[test]
fn a_master_that_says_so_ends_a_lease() {
    // A3
    let (mut fake, first) = with_lease();
    fake.start(write(b"b", b"2"));
    let second = fake.request();
    // The refusal may be of a doubled frame, whose first copy was carried out while the lease lived.
    fake.answer(&second, Status::LeaseOver, b"");
    for _ in 0..2 {
        let detail = fake.expect_unknown();
        assert!(detail.contains("lease701 was over"), "{detail}");
    }
    fake.answer_version(&first, Status::Ok, 1);
    fake.expect_none_ended();
    fake.start(write(b"c", b"3"));
    let sent = fake.expect(coordinator(0), Opcode::LeaseOpen);
    fake.give_lease(&sent);
    let sent = fake.expect(server(1), Opcode::Write);
    assert_eq!((sent.header.lease, sent.header.sequence), (LeaseId(702), Sequence(1)));
}

/// A server that refuses before it looks at numbers may refuse a doubled frame whose first copy was carried out.
#[test]
fn a_refusal_by_another_life_or_one_that_stops_leaves_the_fate_open() {
    // A3
    for status in [Status::WrongServer, Status::NotReady, Status::Fenced] {
        let (mut fake, first) = with_lease();
        fake.answer(&first, status, b"");
        while fake.sent.is_empty() {
            fake.wait(millis(1000));
        }
        if fake.sent[0].opcode() == Opcode::TableDescribe {
            fake.describe(ALL_AT_2);
        }
        let again = fake.request();
        assert_eq!(again.header.sequence, first.header.sequence, "{status:?}");
        assert!(again.header.repeated);
        // No refusal but a result tells what became of it.
        fake.answer(&again, Status::Corrupt, b"");
        fake.expect_none_ended();
        while fake.sent.is_empty() {
            fake.wait(millis(1000));
        }
        let again = fake.request();
        fake.answer_version(&again, Status::WrongVersion, 9);
        assert!(matches!(fake.outcome().1, Outcome::Refused { status: Status::WrongVersion, .. }));
    }
}

#[test]
fn a_table_that_is_gone_leaves_an_open_fate_open() {
    // A3
    let (mut fake, _) = with_lease();
    fake.lose(server(1), Lost::Broken);
    let sent = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.answer(&sent, Status::UnknownTable, b"");
    fake.expect_unknown();
}

/// A stuck operation holds the floor: servers must not be made to remember more than they do.
#[test]
fn new_numbers_are_held_back_when_an_old_one_is_in_use_for_long() {
    // A3
    let (mut fake, stuck) = with_lease();
    for _ in 0..32_768 {
        fake.start(write(b"b", b"2"));
        let sent = fake.request();
        fake.answer_version(&sent, Status::Ok, 1);
        fake.outcome();
    }
    fake.start(write(b"c", b"3"));
    fake.expect_silence();
    fake.answer_version(&stuck, Status::Ok, 1);
    fake.expect_written(1);
    fake.wait(millis(10));
    let sent = fake.request();
    assert_eq!(sent.header.sequence, Sequence(32_770));
}

/// Only a mutation has a lease that can be over.
#[test]
fn a_read_that_is_told_of_a_lease_is_refused() {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(read(b"a"), ALL_AT_1);
    fake.answer(&sent, Status::LeaseOver, b"");
    fake.expect_refused(Status::LeaseOver);
}

#[test]
fn an_open_fate_and_a_lease_that_is_over_make_unknown() {
    // A3
    let (mut fake, _) = with_lease();
    fake.lose(server(1), Lost::Broken);
    fake.describe(ALL_AT_2);
    let again = fake.expect(server(2), Opcode::Write);
    fake.answer(&again, Status::LeaseOver, b"");
    fake.expect_unknown();
    fake.wait(Duration::from_secs(60));
    fake.expect_silence();
}
