//! A session that begins while no coordinator answers: bricks and servers lead it to all tablets of a table.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::limits::BRICKS_TOLD_MAX;
use ramhold_base::{Instant, KeyHash, Lost, ServerId, Status, TableId};
use ramhold_client_core::{Operation, Outcome, Reply, WhichTable};
use ramhold_wire::Opcode;
use ramhold_wire::control::{Address, encode_into};
use ramhold_wire::quorum::BrickTablet;
use ramhold_wire::quorum::WriteProtocol::Adaptive;
use ramhold_wire::table::{TableDescription, TableHint};

/// The hashes of the table's three tablets.
const PARTS: [(u64, u64); 3] =
    [(0, u64::MAX / 4), (u64::MAX / 4 + 1, u64::MAX / 2), (u64::MAX / 2 + 1, u64::MAX)];

/// The bricks of a tablet.
fn three(part: usize) -> [u64; 3] {
    [1, 2, 3].map(|number| number + 3 * part as u64)
}

fn tablet(part: usize, epoch: u64) -> BrickTablet {
    let (first, last) = (KeyHash(PARTS[part].0), KeyHash(PARTS[part].1));
    BrickTablet {
        table: TABLE,
        first,
        last,
        epoch,
        bricks: places(three(part)),
        joined: Vec::new(),
        giving: None,
    }
}

/// The table, with these tablets.
fn with(tablets: Vec<BrickTablet>) -> TableDescription {
    TableDescription { quorum: Some(tablets), ..held_by([1, 2, 3], 1, Adaptive) }
}

fn hint(part: Option<TableDescription>, bricks: &[u64]) -> TableHint {
    TableHint { part, bricks: bricks.iter().map(|brick| Address(server(*brick))).collect() }
}

/// The words of a brick of this tablet, and the bricks that it names.
fn told(part: usize, bricks: &[u64]) -> TableHint {
    hint(Some(with(vec![tablet(part, 1)])), bricks)
}

impl Fake {
    /// A session that is given the address of one process, which is no coordinator.
    fn at(process: u64) -> Fake {
        Fake::with(|config| config.coordinators = vec![server(process)])
    }

    /// The one question for the table, which goes to this process.
    fn expect_question(&mut self, process: u64) -> Sent {
        self.expect(server(process), Opcode::TableDescribe)
    }

    fn answer_hint(&mut self, request: &Sent, hint: &TableHint) {
        let mut bytes = Vec::new();
        encode_into(&mut bytes, hint);
        self.answer(request, Status::NotCoordinator, &bytes);
    }

    /// The process is asked at once, and tells this.
    fn hear(&mut self, process: u64, hint: &TableHint) {
        let request = self.expect_question(process);
        self.answer_hint(&request, hint);
    }

    fn expect_table(&mut self) -> TableDescription {
        match self.outcome().1 {
            Outcome::Done(Reply::Table(table)) => table,
            other => panic!("wanted a table: {other:?}"),
        }
    }

    /// Answers each question for the table as `tells` says, until the operation has ended.
    fn answer_all(&mut self, tells: impl Fn(u64) -> Option<TableHint>) -> Outcome {
        for _ in 0..20_000 {
            if let Some((_, outcome)) = self.session.take_outcome() {
                return outcome;
            }
            match self.sent.pop() {
                Some(request) => {
                    let process = (1..=9).find(|it| server(*it) == request.to).expect("a known process");
                    if let Some(hint) = tells(process) {
                        self.answer_hint(&request, &hint);
                    }
                }
                None => _ = self.wait(millis(10_000)),
            }
        }
        panic!("it does not end");
    }
}

fn describe() -> Operation {
    Operation::DescribeTable { which: WhichTable::Name("seven".into()) }
}

#[test]
fn tablets_that_several_bricks_tell_make_a_table() {
    // I1: brick 1 names bricks of the next tablet, and these the next ones.
    let mut fake = Fake::at(1);
    fake.start(describe());
    fake.hear(1, &told(0, &[4, 5, 6]));
    // The other bricks of a tablet that is known are not asked.
    fake.hear(4, &told(1, &[7, 8, 9]));
    fake.hear(7, &told(2, &[1, 2, 3]));
    let table = fake.expect_table();
    assert_eq!(table.quorum, Some((0..3).map(|part| tablet(part, 1)).collect()));
    assert_eq!((table.table, table.options.tablets), (TABLE, 3));
    fake.expect_silence();
    // The description is used, in the cluster that the answers named.
    fake.start(read(KEY));
    assert!(!fake.asked().is_empty());
}

#[test]
fn an_operation_on_a_table_that_is_known_by_its_id_waits_for_its_tablets() {
    // I1
    let mut fake = Fake::at(1);
    fake.start(read(KEY));
    fake.hear(1, &told(0, &[4]));
    fake.hear(4, &told(1, &[7]));
    fake.expect_none_ended();
    fake.hear(7, &told(2, &[]));
    assert_eq!(fake.asked().len(), 3, "all bricks of the key are asked for the time");
}

#[test]
fn a_server_leads_to_bricks() {
    // I1: it holds nothing of the table itself.
    let mut fake = Fake::at(9);
    fake.start(describe());
    fake.hear(9, &hint(None, &[2, 5]));
    fake.hear(2, &told(0, &[]));
    fake.hear(5, &told(1, &[8]));
    fake.hear(8, &told(2, &[]));
    assert_eq!(fake.expect_table().quorum.map(|tablets| tablets.len()), Some(3));
}

#[test]
fn a_brick_that_does_not_answer_is_passed_over_soon() {
    // I1
    let mut fake = Fake::at(1);
    fake.start(describe());
    fake.hear(1, &told(0, &[4, 5, 7]));
    let silent = fake.expect_question(4);
    assert_eq!(fake.wait(millis(1000)), millis(100));
    let request = fake.expect_question(5);
    // Its later words count no more, and do no harm.
    fake.answer_hint(&silent, &told(1, &[]));
    fake.expect_silence();
    fake.lose(server(5), Lost::Refused);
    fake.hear(7, &told(2, &[6]));
    fake.answer_hint(&request, &told(1, &[]));
    fake.hear(6, &told(1, &[]));
    fake.expect_table();
}

#[test]
fn bricks_are_asked_again_when_all_have_been_asked_in_vain() {
    // I1: in a later round each has more time.
    let mut fake = Fake::at(1);
    fake.start(describe());
    fake.hear(1, &told(0, &[4]));
    let _ = fake.expect_question(4);
    fake.wait(millis(100));
    for known in [2, 3] {
        fake.hear(known, &told(0, &[4]));
    }
    fake.expect_silence();
    fake.wait(millis(1000));
    fake.hear(1, &told(0, &[4]));
    let _ = fake.expect_question(4);
    assert_eq!(fake.wait(millis(1000)), millis(200));
    for known in [2, 3] {
        fake.hear(known, &hint(None, &[]));
    }
    fake.wait(millis(1000));
    fake.hear(1, &told(0, &[4]));
    let late = fake.expect_question(4);
    fake.wait(millis(300));
    fake.expect_silence();
    fake.answer_hint(&late, &hint(Some(with(vec![tablet(1, 1), tablet(2, 1)])), &[]));
    fake.expect_table();
}

#[test]
fn tablets_that_nobody_tells_end_the_operation_in_time_with_what_was_tried() {
    // I1, B1
    let mut fake = Fake::at(1);
    let began = fake.now;
    fake.start(read(KEY));
    let outcome = fake.answer_all(|process| match process {
        1..=3 => Some(told(0, &[4, 5])),
        4..=6 => Some(told(1, &[7, 8])),
        _ => None,
    });
    assert!(fake.now.since(began) <= millis(10_000));
    let Outcome::Refused { status: Status::NoQuorum, detail, .. } = outcome else { panic!("{outcome:?}") };
    assert!(detail.contains("2 tablets with 50 % of the hashes found"), "{detail}");
    for asked in [1, 4, 7, 8] {
        assert!(detail.contains(&server(asked).to_string()), "{detail}");
    }
}

#[test]
fn a_table_that_no_brick_has_is_said_to_be_nowhere() {
    // I1
    let mut fake = Fake::at(9);
    let began = fake.now;
    fake.start(describe());
    let outcome = fake.answer_all(|process| match process {
        9 => Some(hint(None, &[1, 4])),
        1 => Some(hint(None, &[4])),
        _ => Some(hint(None, &[1])),
    });
    assert!(fake.now.since(began) <= millis(1000), "it is an ordinary one, or none at all");
    let Outcome::Refused { status: Status::NotCoordinator, detail, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(detail.contains("no brick that answered has a tablet of the table"), "{detail}");
    assert!(detail.contains(&format!("asked {}, {}", server(9), server(1))), "{detail}");
    assert!(detail.contains("only the coordinator knows tables"), "{detail}");
}

#[test]
fn a_brick_that_is_silent_or_an_address_that_is_may_know_the_table() {
    // I1: it is waited for until the deadline.
    let mut fake = Fake::at(9);
    let began = fake.now;
    fake.start(describe());
    let outcome = fake.answer_all(|process| (process != 4).then(|| hint(None, &[1, 4])));
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome:?}");
    assert!(fake.now.since(began) > millis(5000));
    let mut fake = Fake::with(|config| config.coordinators = vec![server(9), server(8)]);
    let began = fake.now;
    fake.start(describe());
    let outcome = fake.answer_all(|process| (process != 8).then(|| hint(None, &[1])));
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome:?}");
    assert!(fake.now.since(began) > millis(5000));
    // One that comes back in time tells it.
    let mut fake = Fake::at(9);
    fake.start(describe());
    fake.hear(9, &hint(None, &[1]));
    fake.hear(1, &hint(None, &[]));
    fake.wait(millis(1000));
    fake.hear(9, &hint(None, &[1]));
    fake.hear(1, &hint(Some(with((0..3).map(|part| tablet(part, 1)).collect())), &[]));
    fake.expect_table();
}

#[test]
fn the_newest_tablets_and_the_newest_table_count() {
    // I1
    let mut fake = Fake::at(1);
    fake.start(describe());
    fake.hear(1, &hint(Some(with(vec![tablet(0, 1), tablet(1, 1)])), &[]));
    // Another brick knows that the first two tablets are one now.
    let joined = BrickTablet { last: tablet(1, 1).last, bricks: places([4, 5, 6]), ..tablet(0, 2) };
    fake.hear(2, &hint(Some(with(vec![joined.clone()])), &[7]));
    // Older ones do not come back.
    fake.hear(7, &hint(Some(with(vec![tablet(1, 1), tablet(2, 1)])), &[]));
    assert_eq!(fake.expect_table().quorum, Some(vec![joined, tablet(2, 1)]));

    // A table of this name was dropped, and one of its bricks has not heard of it.
    let dropped = |part| {
        let table = TableId(TABLE.raw() - 1);
        TableDescription { table, ..with(vec![BrickTablet { table, ..tablet(part, 1) }]) }
    };
    let mut fake = Fake::at(1);
    fake.start(describe());
    fake.hear(1, &hint(Some(dropped(0)), &[4, 7]));
    fake.hear(4, &told(1, &[]));
    fake.hear(7, &hint(Some(dropped(2)), &[]));
    fake.hear(2, &hint(Some(with(vec![tablet(0, 1), tablet(2, 1)])), &[]));
    assert_eq!(fake.expect_table().table, TABLE);
}

#[test]
fn parts_that_make_no_sense_are_not_used() {
    // I1
    let turned = BrickTablet { first: tablet(1, 9).last, last: tablet(1, 9).first, ..tablet(1, 9) };
    let foreign = BrickTablet { table: TableId(99), ..tablet(1, 9) };
    let mut lacking = tablet(1, 9);
    lacking.bricks.pop();
    let mut fake = Fake::at(1);
    fake.start(describe());
    fake.hear(1, &hint(Some(with(vec![tablet(0, 1), turned, foreign, lacking])), &[2, 3, 4]));
    fake.hear(4, &hint(Some(TableDescription { name: "eight".into(), ..with(vec![tablet(1, 9)]) }), &[5]));
    let mut other = with(vec![tablet(1, 9)]);
    other.options.slots = true;
    fake.hear(5, &hint(Some(other), &[6]));
    fake.hear(6, &hint(Some(with(vec![tablet(1, 1), tablet(2, 1)])), &[]));
    assert_eq!(fake.expect_table().quorum, Some((0..3).map(|part| tablet(part, 1)).collect()));
}

#[test]
fn whoever_describes_the_whole_table_ends_the_search() {
    // I1
    let mut fake = Fake::with(|config| config.coordinators = vec![coordinator(0), server(1)]);
    fake.start(describe());
    let _ = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.lose(coordinator(0), Lost::Refused);
    fake.hear(1, &told(0, &[4]));
    let request = fake.expect_question(4);
    let whole = with((0..3).map(|part| tablet(part, 1)).collect());
    fake.answer_with(&request, &whole);
    assert_eq!(fake.expect_table(), whole);
    fake.expect_silence();
}

#[test]
fn a_session_that_knows_bricks_asks_them_when_the_coordinator_is_silent() {
    // I1, J1
    let mut fake = Fake::new();
    fake.session.know_bricks(&[server(2)]);
    fake.start(describe());
    let _ = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.wait(millis(1000));
    fake.hear(2, &told(0, &[4]));
    fake.hear(4, &hint(Some(with(vec![tablet(1, 1), tablet(2, 1)])), &[]));
    fake.expect_table();
    // Nobody else is asked for them as long as the coordinator answers.
    let mut fake = Fake::new();
    fake.session.know_bricks(&[server(2)]);
    fake.start(describe());
    let request = fake.expect(coordinator(0), Opcode::TableDescribe);
    fake.answer(&request, Status::UnknownTable, b"");
    fake.expect_refused(Status::UnknownTable);
    fake.expect_silence();
}

#[test]
fn one_answer_names_a_bounded_number_of_bricks() {
    // I1
    let many: Vec<Address> = (0..1000).map(|port| Address(([10, 0, 9, 9], 1000 + port).into())).collect();
    let mut fake = Fake::at(1);
    fake.start(describe());
    let request = fake.expect_question(1);
    fake.answer_hint(&request, &TableHint { part: None, bricks: many });
    let mut asked = 0;
    let began: Instant = fake.now;
    while fake.sent.iter().all(|sent| sent.to != server(1)) {
        asked += fake.sent.len();
        fake.sent.clear();
        fake.wait(millis(1000));
        assert!(fake.now.since(began) < millis(10_000));
    }
    assert_eq!(asked, BRICKS_TOLD_MAX);
    assert_eq!(fake.session.cluster(), CLUSTER);
}

// J5: bricks and servers are told from a coordinator that does not reign by their ids.
#[test]
fn a_command_for_the_coordinator_ends_at_once_where_a_brick_answers() {
    let mut fake = Fake::new();
    fake.start(Operation::ClusterStatus);
    let mut sent = fake.request();
    // A coordinator that does not reign has no id: the session goes on.
    fake.answer(&sent, Status::NotCoordinator, b"");
    assert_eq!(fake.session.under_way_count(), 1);
    fake.wait(millis(2000));
    sent = fake.request();
    sent.header.target = ServerId(4);
    fake.answer(&sent, Status::NotCoordinator, b"");
    let detail = fake.expect_refused(Status::NotCoordinator);
    assert!(detail.contains("s4 at ") && detail.contains("is a brick or a server"), "{detail}");
    fake.expect_silence();
}

#[test]
fn an_address_of_a_coordinator_beside_that_of_a_brick_is_still_tried() {
    let mut fake = Fake::with(|config| config.coordinators = vec![coordinator(0), coordinator(1)]);
    fake.start(Operation::ClusterStatus);
    let mut sent = fake.request();
    sent.header.target = ServerId(4);
    fake.answer(&sent, Status::NotCoordinator, b"");
    assert_eq!(fake.session.under_way_count(), 1);
    if fake.sent.is_empty() {
        fake.wait(millis(2000));
    }
    assert_eq!(fake.request().to, coordinator(1));
}
