//! How operations on objects end: done, surely refused, or unknown.

use crate::fake::*;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{Lost, ServerId, Status, Version};
use ramhold_client_core::{Cause, Outcome, RejectRules};
use ramhold_wire::Opcode;
use ramhold_wire::data::KeyRequest;
use std::time::Duration;

#[test]
fn a_rule_that_refuses_tells_the_version_that_is_there() {
    // A4
    let mut fake = Fake::new();
    let rules = RejectRules { exists: true, ..RejectRules::default() };
    let operation = ramhold_client_core::Operation::Remove { table: TABLE, key: b"a".to_vec(), rules };
    let (_, sent) = fake.start_described(operation, ALL_AT_1);
    assert_eq!(KeyRequest::decode(&sent.body).unwrap().rules, rules);
    fake.answer_version(&sent, Status::Exists, 12);
    let Outcome::Refused { status, cause, version, answered_by, .. } = fake.outcome().1 else {
        panic!("not refused")
    };
    assert_eq!((status, cause, version), (Status::Exists, Cause::Answered, Some(Version(12))));
    assert_eq!(answered_by, ServerId(1));
}

#[test]
fn an_absent_object_is_not_found_and_has_no_version() {
    // A3
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(read(b"a"), ALL_AT_1);
    fake.answer_version(&sent, Status::NotFound, 0);
    let Outcome::Refused { status, version, .. } = fake.outcome().1 else { panic!("not refused") };
    assert_eq!((status, version), (Status::NotFound, None));
}

#[test]
fn a_mutation_refused_for_the_time_being_is_repeated_with_bounded_pauses() {
    // B5
    let statuses = [Status::Retry, Status::OutOfMemory, Status::TooMany, Status::TooFewBackups];
    for status in statuses {
        let mut fake = Fake::new();
        let (_, mut sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
        let mut whole = millis(1);
        for _ in 0..12 {
            fake.answer(&sent, status, b"");
            let waited = fake.wait(millis(1000));
            assert!(waited >= whole / 2, "{status:?}: {waited:?} of {whole:?}");
            assert!(waited <= whole, "{status:?}: {waited:?} of {whole:?}");
            sent = fake.expect(server(1), Opcode::Write);
            whole = (whole * 2).min(millis(200));
        }
        fake.answer_version(&sent, Status::Ok, 2);
        fake.expect_written(2);
    }
}

#[test]
fn memory_that_stays_full_is_a_refusal_at_the_deadline() {
    // B5
    let mut fake = Fake::new();
    let start = fake.now;
    let (_, mut sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    let detail = loop {
        fake.answer(&sent, Status::OutOfMemory, b"");
        fake.wait(millis(1000));
        match fake.sent.pop() {
            Some(next) => sent = next,
            None => break fake.expect_refused(Status::OutOfMemory),
        }
    };
    assert_eq!(fake.now.since(start), Duration::from_secs(10));
    assert!(detail.contains("tried for 10.0s"), "{detail}");
    assert!(detail.contains("server s1 at 10.0.0.1:7401 answered"), "{detail}");
}

#[test]
fn a_mutation_whose_connection_was_refused_had_no_effect_and_is_repeated() {
    // B5
    let mut fake = Fake::new();
    fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.lose(server(1), Lost::Refused);
    fake.describe(ALL_AT_2);
    let sent = fake.expect(server(2), Opcode::Write);
    fake.answer_version(&sent, Status::Ok, 1);
    fake.expect_written(1);
}

#[test]
fn a_mutation_whose_connection_broke_is_repeated_under_its_number() {
    // A3, B5
    for operation in [write(b"a", b"1"), remove(b"a")] {
        let mut fake = Fake::new();
        let (_, sent) = fake.start_described(operation.clone(), ALL_AT_1);
        fake.lose(server(1), Lost::Broken);
        fake.describe(ALL_AT_2);
        let again = fake.expect(server(2), sent.opcode());
        assert_eq!((again.header.lease, again.header.sequence), (sent.header.lease, sent.header.sequence));
        assert_ne!(again.header.rpc, sent.header.rpc);
        // The answer to the first attempt is too late.
        fake.answer_version(&sent, Status::Ok, 1);
        fake.expect_none_ended();
        fake.answer_version(&again, Status::Ok, 2);
        fake.outcome();
        fake.start(operation);
        let next = fake.request();
        assert!(next.header.sequence > sent.header.sequence);
        assert_eq!(next.header.unacknowledged, next.header.sequence);
    }
}

#[test]
fn a_read_whose_connection_broke_is_repeated() {
    // B5
    let mut fake = Fake::new();
    fake.start_described(read(b"a"), ALL_AT_1);
    fake.lose(server(1), Lost::Broken);
    fake.describe(ALL_AT_2);
    fake.expect(server(2), Opcode::Read);
}

#[test]
fn a_mutation_that_is_not_answered_is_repeated_under_its_number() {
    // A3, B5
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    assert_eq!(fake.wait(millis(8000)), millis(1000));
    fake.describe(ALL_AT_1);
    let again = fake.expect(server(1), Opcode::Write);
    assert_eq!(again.header.sequence, sent.header.sequence);
    fake.answer_version(&again, Status::Ok, 6);
    fake.expect_written(6);
}

#[test]
fn a_mutation_that_is_never_answered_is_unknown_at_its_deadline() {
    // B5
    let mut fake = Fake::new();
    let begun = fake.now;
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    while fake.session.under_way_count() > 0 {
        fake.wait(millis(1000));
        for sent in std::mem::take(&mut fake.sent) {
            if sent.opcode() == Opcode::TableDescribe {
                fake.answer_with(&sent, &description(ALL_AT_1));
            }
        }
    }
    assert_eq!(fake.now.since(begun), Duration::from_secs(10));
    let detail = fake.expect_unknown();
    assert!(detail.contains("tried for 10.0s, "), "{detail}");
    assert!(detail.contains("attempts; last, server s1"), "{detail}");
    fake.answer_version(&sent, Status::Ok, 6);
    fake.expect_none_ended();
    // Nothing waits under its number any more.
    fake.start(write(b"a", b"2"));
    while fake.sent.is_empty() {
        fake.wait(millis(1000));
    }
    let next = fake.sent.pop().unwrap();
    let next = if next.opcode() == Opcode::TableDescribe {
        fake.answer_with(&next, &description(ALL_AT_1));
        fake.request()
    } else {
        next
    };
    assert!(next.header.unacknowledged > sent.header.sequence);
}

#[test]
fn a_refusal_says_nothing_of_an_attempt_that_was_not_answered() {
    // A3, B5
    for status in [Status::TooFewBackups, Status::Recovering] {
        let mut fake = Fake::new();
        let (_, first) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
        assert!(!first.header.repeated);
        fake.lose(server(1), Lost::Broken);
        while fake.session.under_way_count() > 0 {
            fake.wait(millis(1000));
            for sent in std::mem::take(&mut fake.sent) {
                if sent.opcode() == Opcode::TableDescribe {
                    fake.answer_with(&sent, &description(ALL_AT_2));
                    continue;
                }
                assert_eq!(sent.header.sequence, first.header.sequence);
                assert!(sent.header.repeated, "the server must not take it for a doubled frame");
                fake.answer(&sent, status, b"");
            }
        }
        fake.expect_unknown();
    }
}

#[test]
fn a_mutation_that_never_arrived_is_refused_in_the_end() {
    // B5
    let mut fake = Fake::new();
    fake.start_described(write(b"a", b"1"), ALL_AT_1);
    while fake.session.under_way_count() > 0 {
        fake.lose(server(1), Lost::Refused);
        fake.wait(millis(900));
        for sent in std::mem::take(&mut fake.sent) {
            if sent.opcode() == Opcode::TableDescribe {
                fake.answer_with(&sent, &description(ALL_AT_1));
            }
        }
    }
    let detail = fake.expect_refused(Status::Retry);
    assert!(detail.contains("server s1 at 10.0.0.1:7401 refused the connection"), "{detail}");
}

#[test]
fn a_silent_owner_of_one_mutation_is_doubted_for_the_next() {
    // B5
    let mut fake = Fake::new();
    fake.start_described(write(b"a", b"1"), ALL_AT_1);
    assert_eq!(fake.wait(millis(1500)), millis(1000));
    fake.start(write(b"b", b"2"));
    fake.describe(ALL_AT_2);
    assert_eq!(fake.sent.len(), 2);
    assert!(fake.sent.iter().all(|sent| sent.to == server(2)));
}

#[test]
fn a_read_that_is_never_answered_is_refused_at_its_deadline() {
    // B5: it had no effect.
    let mut fake = Fake::new();
    fake.start_described(read(b"a"), ALL_AT_1);
    while fake.session.under_way_count() > 0 {
        fake.wait(millis(20_000));
        for sent in std::mem::take(&mut fake.sent) {
            if sent.opcode() == Opcode::TableDescribe {
                fake.answer_with(&sent, &description(ALL_AT_1));
            }
        }
        fake.sent.clear();
    }
    let detail = fake.expect_refused(Status::Retry);
    assert!(detail.contains("did not answer"), "{detail}");
}

#[test]
fn a_tablet_that_stays_without_an_owner_is_a_refusal_at_the_deadline() {
    // B5
    let mut fake = Fake::new();
    fake.start(write(b"a", b"1"));
    while fake.session.under_way_count() > 0 {
        fake.describe(RECOVERING);
        fake.wait(millis(1000));
    }
    let detail = fake.expect_refused(Status::Recovering);
    assert!(detail.contains("has no owner"), "{detail}");
}

#[test]
fn a_done_that_cannot_be_read_is_asked_for_again() {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.answer(&sent, Status::Ok, b"xy");
    fake.wait(millis(10));
    let again = fake.expect(server(1), Opcode::Write);
    assert_eq!(again.header.sequence, sent.header.sequence);
    fake.answer_version(&again, Status::Ok, 3);
    fake.expect_written(3);
    fake.start(read(b"a"));
    let sent = fake.request();
    fake.answer(&sent, Status::Ok, b"xy");
    fake.wait(millis(10));
    fake.expect(server(1), Opcode::Read);
}

#[test]
fn a_table_that_is_gone_ends_what_waits_for_it() {
    // A1
    let mut fake = Fake::new();
    fake.start(write(b"a", b"1"));
    fake.start(read(b"b"));
    let sent = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.answer(&sent, Status::UnknownTable, b"");
    fake.expect_refused(Status::UnknownTable);
    fake.expect_refused(Status::UnknownTable);
    // Also when the owner notices first.
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.answer(&sent, Status::UnknownTable, b"");
    let sent = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.answer(&sent, Status::UnknownTable, b"");
    fake.expect_refused(Status::UnknownTable);
}

#[test]
fn limits_are_refused_before_anything_is_sent() {
    // A2
    let mut fake = Fake::new();
    fake.start(read(&vec![0; KEY_BYTES_MAX + 1]));
    fake.expect_refused(Status::KeyTooLarge);
    fake.start(write(&vec![0; KEY_BYTES_MAX + 1], b""));
    fake.expect_refused(Status::KeyTooLarge);
    fake.start(write(b"a", &vec![0; VALUE_BYTES_MAX + 1]));
    fake.expect_refused(Status::ValueTooLarge);
    fake.expect_silence();
    let (_, sent) = fake.start_described(write(&vec![0; KEY_BYTES_MAX], &vec![0; VALUE_BYTES_MAX]), ALL_AT_1);
    fake.answer_version(&sent, Status::Ok, 1);
    fake.expect_written(1);
    fake.start(write(b"", b""));
    fake.expect(server(1), Opcode::Write);
}

#[test]
fn more_operations_than_allowed_are_refused() {
    // B5
    let mut fake = Fake::with(|config| config.operation_count_max = 2);
    let (_, first) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.start(write(b"b", b"1"));
    fake.start(write(b"c", b"1"));
    fake.expect_refused(Status::TooMany);
    fake.answer_version(&first, Status::Ok, 1);
    fake.expect_written(1);
    fake.sent.clear();
    fake.start(write(b"d", b"1"));
    fake.expect(server(1), Opcode::Write);
}
