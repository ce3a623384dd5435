//! Operations of the coordinator: repetition, several addresses, and the truth about what cannot be reached.

use crate::fake::*;
use ramhold_base::{ClusterId, LeaseId, Lost, Sequence, Status, TableId};
use ramhold_client_core::{Cause, DomainLevel, Operation, Outcome, Reply, Shortage, WhichTable};
use ramhold_wire::Opcode;
use ramhold_wire::accounts::{AccountObstacle, AccountSet, Accounts, AccountsChanged, Presence};
use ramhold_wire::control::{Empty, encode_into};
use ramhold_wire::status::{Pong, ProcessStatus};
use ramhold_wire::table::{TableCreated, Tables, TabletState};
use std::time::Duration;

fn create() -> Operation {
    Operation::CreateTable { name: "seven".into(), options: options(), left_open: None }
}

fn number(sent: &Sent) -> (LeaseId, Sequence) {
    (sent.header.lease, sent.header.sequence)
}

#[test]
fn a_creation_is_repeated_under_its_number_until_answered() {
    // A1, A3
    let mut fake = Fake::new();
    fake.start(create());
    let first = fake.expect(coordinator(0), Opcode::TableCreate);
    assert_eq!(fake.wait(millis(900)), millis(900));
    fake.wait(millis(200));
    let second = fake.expect(coordinator(0), Opcode::TableCreate);
    fake.lose(coordinator(0), Lost::Broken);
    fake.wait(millis(200));
    let third = fake.expect(coordinator(0), Opcode::TableCreate);
    assert_eq!(number(&first), (LeaseId(701), Sequence(1)));
    assert_eq!(number(&first), number(&second));
    assert_eq!(number(&first), number(&third));
    assert_eq!(first.body, third.body);
    fake.answer_with(&third, &TableCreated { table: TABLE });
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::TableCreated { table: TABLE }));
    // Another creation has another number, and tells that the first was heard.
    fake.start(create());
    let other = fake.request();
    assert_eq!((number(&other), other.header.unacknowledged), ((LeaseId(701), Sequence(2)), Sequence(2)));
    fake.answer(&other, Status::TableExists, b"");
    fake.expect_refused(Status::TableExists);
}

#[test]
fn a_creation_that_is_never_answered_is_unknown() {
    // A1
    let mut fake = Fake::new();
    fake.start(create());
    while fake.session.under_way_count() > 0 {
        fake.wait(millis(20_000));
        fake.sent.clear();
    }
    fake.expect_unknown();
}

#[test]
fn a_repeated_drop_ends_with_what_it_came_to_and_nothing_is_guessed() {
    // A1, A3
    for (status, body) in [(Status::UnknownTable, &b""[..]), (Status::Ok, &b"\x80"[..])] {
        let mut fake = Fake::new();
        fake.start(Operation::DropTable { table: TableId(3) });
        let first = fake.expect(coordinator(0), Opcode::TableDrop);
        fake.lose(coordinator(0), Lost::Broken);
        fake.wait(millis(200));
        let again = fake.expect(coordinator(0), Opcode::TableDrop);
        assert_eq!(number(&first), number(&again));
        fake.answer(&again, status, body);
        match status {
            Status::Ok => assert_eq!(fake.outcome().1, Outcome::Done(Reply::TableDropped)),
            refused => drop(fake.expect_refused(refused)),
        }
    }
}

/// Lets time pass until something is sent.
fn next(fake: &mut Fake) -> Sent {
    while fake.sent.is_empty() {
        fake.wait(millis(1000));
    }
    fake.request()
}

#[test]
fn what_a_coordinator_says_before_it_looks_at_numbers_leaves_the_fate_open() {
    // A3, G4: the refusal may be of a doubled frame whose first copy the coordinator before has carried out.
    for status in [Status::NotReady, Status::NotCoordinator, Status::TooMany] {
        let mut fake = Fake::new();
        fake.start(create());
        let first = fake.request();
        fake.answer(&first, status, b"");
        let again = next(&mut fake);
        assert_eq!(number(&first), number(&again), "{status:?}");
        // Another cluster's coordinator knows nothing of it either.
        fake.answer(&again, Status::WrongCluster, b"");
        let again = next(&mut fake);
        assert_eq!(number(&first), number(&again), "{status:?}");
        fake.answer_with(&again, &TableCreated { table: TABLE });
        assert_eq!(fake.outcome().1, Outcome::Done(Reply::TableCreated { table: TABLE }));
    }
}

#[test]
fn a_coordinator_that_can_do_nothing_under_a_number_is_asked_under_the_next() {
    // A3
    let mut fake = Fake::new();
    fake.start(create());
    let first = fake.request();
    fake.lose(coordinator(0), Lost::Broken);
    let mut sent = next(&mut fake);
    assert_eq!(number(&first), number(&sent));
    let mut last = sent.header.sequence;
    loop {
        fake.answer(&sent, Status::Retry, b"");
        fake.wait(millis(1000));
        let Some(again) = fake.sent.pop() else { break };
        assert_eq!((again.header.sequence, again.header.repeated), (last.next(), false));
        assert_eq!(again.header.unacknowledged, again.header.sequence);
        (last, sent) = (again.header.sequence, again);
    }
    // Each was refused for good: there is surely no table.
    fake.expect_refused(Status::Retry);
}

#[test]
fn an_update_whose_lease_is_over_is_unknown() {
    // A3
    let mut fake = Fake::new();
    fake.start(create());
    let sent = fake.request();
    fake.answer(&sent, Status::LeaseOver, b"");
    assert!(fake.expect_unknown().contains("lease701 was over"));
    fake.start(create());
    assert_eq!(number(&fake.request()), (LeaseId(702), Sequence(1)));
}

#[test]
fn updates_and_mutations_have_numbers_of_one_row() {
    // A3
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.start(create());
    let update = fake.expect(coordinator(0), Opcode::TableCreate);
    assert_eq!((number(&sent).1, number(&update).1), (Sequence(1), Sequence(2)));
    assert_eq!(update.header.unacknowledged, Sequence(1), "the write may be sent again");
}

#[test]
fn every_coordinator_is_tried_before_the_first_pause() {
    // B5, G4
    let mut fake =
        Fake::with(|config| config.coordinators = vec![coordinator(0), coordinator(1), coordinator(2)]);
    fake.start(Operation::ListTables);
    fake.expect(coordinator(0), Opcode::TableList);
    fake.lose(coordinator(0), Lost::Refused);
    let sent = fake.expect(coordinator(1), Opcode::TableList);
    fake.answer(&sent, Status::NotCoordinator, b"");
    let sent = fake.expect(coordinator(2), Opcode::TableList);
    fake.answer_with(&sent, &Tables::default());
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Tables(Vec::new())));
    // The one that answered is asked first from then on.
    fake.start(Operation::ListTables);
    fake.expect(coordinator(2), Opcode::TableList);
}

#[test]
fn an_unreachable_cluster_is_named_with_its_address_and_the_time_tried() {
    // B5
    for seconds in [3, 1] {
        unreachable_for(seconds);
    }
}

fn unreachable_for(seconds: u64) {
    let mut fake = Fake::with(|config| config.deadline = Duration::from_secs(seconds));
    fake.gives_leases = false;
    fake.start(write(b"a", b"1"));
    fake.start(create());
    let mut attempts = 0;
    while fake.session.under_way_count() > 0 {
        if !fake.sent.is_empty() {
            attempts += fake.sent.len();
            fake.sent.clear();
            fake.lose(coordinator(0), Lost::Refused);
        }
        fake.wait(millis(5000));
    }
    assert!(attempts < 100, "{attempts} attempts in {seconds} seconds");
    for _ in 0..2 {
        let Outcome::Refused { status, cause, detail, .. } = fake.outcome().1 else { panic!("not refused") };
        assert_eq!((status, cause), (Status::Retry, Cause::Unreachable));
        assert!(detail.contains(&format!("tried for {seconds}.0s")), "{detail}");
        assert!(detail.contains("the coordinator at 10.0.0.100:7400 refused the connection"), "{detail}");
    }
}

#[test]
fn without_any_coordinator_the_session_says_so_at_once() {
    let mut fake = Fake::with(|config| config.coordinators.clear());
    fake.start(write(b"a", b"1"));
    fake.start(Operation::ClusterStatus);
    for _ in 0..2 {
        assert!(fake.expect_refused(Status::NotCoordinator).contains("no address"));
    }
    fake.expect_silence();
}

#[test]
fn a_description_asked_for_by_name_is_used_for_routing_too() {
    // A1, B5
    let mut fake = Fake::new();
    fake.start(Operation::DescribeTable { which: WhichTable::Name("seven".into()) });
    let sent = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.answer_with(&sent, &description(ALL_AT_1));
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Table(description(ALL_AT_1))));
    fake.start(read(b"a"));
    fake.expect(server(1), Opcode::Read);
}

#[test]
fn names_out_of_bounds_are_refused_before_anything_is_sent() {
    // A1
    let mut fake = Fake::new();
    for name in [String::new(), "x".repeat(256)] {
        fake.start(Operation::CreateTable { name: name.clone(), options: options(), left_open: None });
        fake.expect_refused(Status::NameTooLong);
        fake.start(Operation::DescribeTable { which: WhichTable::Name(name) });
        fake.expect_refused(Status::NameTooLong);
    }
    fake.expect_silence();
}

#[test]
fn a_process_can_be_asked_by_its_address() {
    let mut fake = Fake::new();
    fake.start(Operation::ServerStatus { address: server(4) });
    let sent = fake.expect(server(4), Opcode::ProcessStatus);
    fake.answer_with(&sent, &ProcessStatus::default());
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::ServerStatus(Box::default())));
    fake.start(Operation::Ping { address: Some(server(4)) });
    let sent = fake.expect(server(4), Opcode::Ping);
    let pong = Pong { server: ramhold_base::ServerId(4), list_version: 2, time_micros: None };
    fake.answer_with(&sent, &pong);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Pong(pong)));
}

#[test]
fn an_acknowledged_loss_may_be_acknowledged_again() {
    let mut fake = Fake::new();
    fake.start(Operation::AcknowledgeLoss { id: 3 });
    fake.request();
    fake.wait(millis(1001));
    let sent = fake.expect(coordinator(0), Opcode::LossAcknowledge);
    fake.answer_with(&sent, &Empty {});
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::LossAcknowledged));
}

// J4
#[test]
fn a_change_of_an_account_is_repeated_under_its_number_and_tells_no_password() {
    let mut fake = Fake::new();
    let rules = vec![b">canary".to_vec().into()];
    let set = Operation::SetAccount(AccountSet { name: "ann".into(), rules, presence: Presence::New });
    assert!(!format!("{set:?}").contains("canary"));
    fake.start(set);
    let first = fake.request();
    fake.wait(millis(1001));
    let sent = fake.expect(coordinator(0), Opcode::AccountSet);
    assert_eq!((sent.header.lease, sent.header.sequence), (first.header.lease, first.header.sequence));
    let changed = AccountsChanged { version: 7, count: 1, obstacle: None };
    fake.answer_with(&sent, &changed);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::AccountsChanged(changed)));
    fake.start(Operation::RemoveAccounts { names: vec!["ann".into(), "bob".into()] });
    let sent = fake.expect(coordinator(0), Opcode::AccountRemove);
    let kept = AccountsChanged { version: 0, count: 0, obstacle: Some(AccountObstacle::IsDefault) };
    fake.answer_with(&sent, &kept);
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::AccountsChanged(kept)));
    fake.start(Operation::ListAccounts);
    let sent = fake.expect(coordinator(0), Opcode::AccountList);
    assert!(sent.header.sequence.is_none());
    fake.answer_with(&sent, &Accounts::default());
    assert_eq!(fake.outcome().1, Outcome::Done(Reply::Accounts(Accounts::default())));
    let rules = vec![vec![b'x'; 1024 * 1024].into()];
    fake.start(Operation::SetAccount(AccountSet { name: "ann".into(), rules, presence: Presence::New }));
    fake.expect_refused(Status::FrameTooLarge);
}

#[test]
fn another_cluster_is_refused_for_good() {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    fake.answer(&sent, Status::WrongOwner, b"");
    let sent = fake.expect(coordinator(0), Opcode::TableDescribe);
    assert_eq!(sent.header.cluster, CLUSTER);
    fake.answer(&sent, Status::WrongCluster, b"");
    fake.expect_refused(Status::WrongCluster);
}

#[test]
fn the_cluster_is_asked_for_where_answers_do_not_tell_it() {
    let mut fake = Fake::new();
    fake.answers_name = ClusterId::NONE;
    fake.start(read(b"a"));
    fake.start(write(b"b", b"1"));
    fake.describe(ALL_AT_1);
    let sent = fake.expect(coordinator(0), Opcode::ClusterStatus);
    fake.answer_with(&sent, &cluster_status(ClusterId::NONE));
    fake.expect_silence();
    fake.wait(millis(10));
    let sent = fake.expect(coordinator(0), Opcode::ClusterStatus);
    fake.answer_with(&sent, &cluster_status(CLUSTER));
    assert_eq!(fake.sent.len(), 2);
    for sent in std::mem::take(&mut fake.sent) {
        assert_eq!((sent.to, sent.header.cluster), (server(1), CLUSTER));
    }
    assert_eq!(fake.session.cluster(), CLUSTER);
}

// A1, D3
#[test]
fn a_creation_that_lacks_backups_ends_at_once_with_what_is_missing() {
    let missing = Shortage { replicas: 3, up: 2, level: DomainLevel::Host, own_counts: false, bricks: false };
    let mut body = Vec::new();
    encode_into(&mut body, &missing);
    for operation in [create(), Operation::TruncateTable { table: TABLE }] {
        let mut fake = Fake::new();
        fake.start(operation);
        let sent = fake.request();
        fake.answer(&sent, Status::TooFewBackups, &body);
        match fake.outcome().1 {
            Outcome::Refused {
                status: Status::TooFewBackups,
                cause: Cause::Answered,
                shortage,
                detail,
                ..
            } => {
                assert_eq!(shortage, Some(missing));
                assert!(detail.contains("3 replicas need 3 other hosts, 2 are up"), "{detail}");
            }
            other => panic!("{other:?}"),
        }
    }
}

// A1, B5: nothing is recovered where a tablet is only being made.
#[test]
fn a_write_to_a_tablet_that_nobody_has_taken_says_what_the_table_lacks() {
    let missing =
        Shortage { replicas: 3, up: 1, level: DomainLevel::Server, own_counts: false, bricks: false };
    for (shortage, wanted) in [(None, Status::NotReady), (Some(missing), Status::TooFewBackups)] {
        let mut fake = Fake::new();
        fake.start(write(b"a", b"1"));
        while fake.session.under_way_count() > 0 {
            for sent in std::mem::take(&mut fake.sent) {
                let mut description = description(ALL_AT_1);
                description.shortage = shortage;
                for tablet in &mut description.tablets {
                    (tablet.state, tablet.address) = (TabletState::Creating, None);
                }
                fake.answer_with(&sent, &description);
            }
            fake.wait(millis(100));
        }
        match fake.outcome().1 {
            Outcome::Refused { status, shortage: told, detail, .. } => {
                assert_eq!((status, told), (wanted, shortage), "{detail}");
                assert!(detail.contains("is being made"), "{detail}");
                assert_eq!(detail.contains("3 replicas need 3 other servers, 1 is up"), shortage.is_some());
            }
            other => panic!("{other:?}"),
        }
    }
}
