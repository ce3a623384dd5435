//! How operations on objects end: done, surely refused, or unknown.

use crate::fake::*;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{Lost, Machine, ServerId, Status, Version};
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
fn a_mutation_whose_connection_broke_is_unknown_and_never_repeated() {
    // B5
    for operation in [write(b"a", b"1"), remove(b"a")] {
        let mut fake = Fake::new();
        let (_, sent) = fake.start_described(operation, ALL_AT_1);
        fake.lose(server(1), Lost::Broken);
        let detail = fake.expect_unknown();
        assert!(detail.contains("10.0.0.1:7401"), "{detail}");
        fake.wait(Duration::from_secs(20));
        fake.expect_silence();
        fake.answer_version(&sent, Status::Ok, 1);
        fake.expect_none_ended();
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
fn a_late_answer_to_a_mutation_still_counts() {
    // B5
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.wait(millis(8000));
    fake.expect_silence();
    fake.answer_version(&sent, Status::Ok, 6);
    fake.expect_written(6);
}

#[test]
fn a_mutation_that_is_never_answered_is_unknown_at_its_deadline() {
    // B5
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    assert_eq!(fake.wait(Duration::from_secs(60)), Duration::from_secs(10));
    fake.expect_silence();
    let detail = fake.expect_unknown();
    assert!(detail.contains("tried for 10.0s, 1 attempt; last, server s1"), "{detail}");
    fake.answer_version(&sent, Status::Ok, 6);
    fake.expect_none_ended();
    assert_eq!(fake.session.deadline(), None);
}

#[test]
fn a_late_refusal_of_a_mutation_makes_its_fate_known_again() {
    // B5
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.wait(millis(9990));
    fake.answer(&sent, Status::TooFewBackups, b"");
    while fake.session.under_way_count() > 0 {
        fake.wait(millis(1000));
        for sent in std::mem::take(&mut fake.sent) {
            match sent.opcode() {
                Opcode::TableDescribe => fake.answer_with(&sent, &description(ALL_AT_1)),
                _ => fake.answer(&sent, Status::TooFewBackups, b""),
            }
        }
    }
    fake.expect_refused(Status::TooFewBackups);
}

#[test]
fn a_late_mutation_that_turns_out_not_to_have_arrived_is_repeated_and_refused_in_the_end() {
    // B5
    let mut fake = Fake::new();
    fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.wait(millis(5000));
    fake.expect_silence();
    while fake.session.under_way_count() > 0 {
        fake.lose(server(1), Lost::Refused);
        fake.wait(millis(1000));
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
    fake.wait(millis(1500));
    fake.start(write(b"b", b"2"));
    fake.describe(ALL_AT_2);
    fake.expect(server(2), Opcode::Write);
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
fn a_done_that_cannot_be_read_is_unknown_for_a_mutation_and_asked_again_for_a_read() {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.answer(&sent, Status::Ok, b"xy");
    fake.expect_unknown();
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
