//! Pages of a quorum table: which bricks are asked what, which keys are read one by one, and where a page ends.

use crate::bricks::*;
use crate::fake::*;
use ramhold_base::{ClusterTime, KeyHash, Lost, Machine, ServerId, Stamp, Status};
use ramhold_client_core::{Operation, Outcome, Page, PageLimits, Reply, ScanCursor};
use ramhold_wire::Opcode;
use ramhold_wire::ask::{AskSaid, StampedValue};
use ramhold_wire::brick_page::{
    BrickPageHead, BrickPageReply, BrickPageRequest, BrickPageSaid, BrickRecord, PageWants, RecordState,
};
use ramhold_wire::quorum::WriteProtocol::Adaptive;
use ramhold_wire::table::TableDescription;

const NEW: Stamp = Stamp { time: OLD.time + 1, session: 4 };
const LIMITS: PageLimits = PageLimits { count: 100, bytes: 10_000, keys_only: false, pass_lost: false };

/// A question for a page.
#[derive(Clone, Debug)]
struct Paged {
    brick: u64,
    request: BrickPageRequest,
    sent: Sent,
}

/// The newest record of a key: position, key, state.
type Record = (u64, &'static str, State);

#[derive(Clone, Copy)]
enum State {
    Open,
    Gone(Stamp),
    Is(Stamp, &'static str),
    /// Until this many milliseconds after the beginning of the bricks' time.
    Until(Stamp, &'static str, u64),
}
use State::{Gone, Is, Open, Until};

fn scan(limits: PageLimits) -> Operation {
    Operation::Scan { cursor: ScanCursor::new(TABLE), limits }
}

impl Fake {
    /// The questions for pages that the test has not looked at yet, in the order of bricks.
    fn paged(&mut self) -> Vec<Paged> {
        let (pages, others) =
            std::mem::take(&mut self.sent).into_iter().partition(|it| it.opcode() == Opcode::BrickPage);
        self.sent = others;
        let pages: Vec<Sent> = pages;
        let mut pages: Vec<Paged> = pages
            .into_iter()
            .map(|sent| {
                let brick = sent.header.target.raw();
                assert_eq!((sent.to, sent.header.cluster), (server(brick), CLUSTER));
                let request = BrickPageRequest::decode(&sent.body).unwrap();
                assert_eq!(request.table, TABLE);
                Paged { brick, request, sent }
            })
            .collect();
        pages.sort_by_key(|it| it.brick);
        pages
    }

    fn tell(&mut self, paged: &Paged, records: &[Record], next: Option<u64>) {
        self.tell_as(paged, VOICE, records, next);
    }

    fn tell_as(&mut self, paged: &Paged, voice: Voice, records: &[Record], next: Option<u64>) {
        let has_values = paged.request.what == PageWants::Values;
        let said = BrickPageSaid::Page { next, has_values };
        let record = |(position, key, state): &Record| {
            let value = |stamp: Stamp, value: &'static str, expires| RecordState::Value {
                stamp,
                expires,
                bytes: value.len() as u32,
                value: has_values.then_some(value.as_bytes()),
            };
            let state = match *state {
                Open => RecordState::Open,
                Gone(stamp) => RecordState::Tombstone(stamp),
                Is(stamp, it) => value(stamp, it, None),
                Until(stamp, it, millis) => value(stamp, it, Some(ClusterTime(DATE / 1000 + millis))),
            };
            BrickRecord { position: *position, key: key.as_bytes(), state }
        };
        let records = records.iter().map(record).collect();
        self.tell_page(paged, voice, said, records);
    }

    fn tell_page(&mut self, paged: &Paged, voice: Voice, said: BrickPageSaid, records: Vec<BrickRecord<'_>>) {
        let (life, epoch, clock) = (voice.life, voice.epoch, self.date() + voice.ahead);
        // Brick 3 knows that brick 1 has begun its second life.
        let siblings = if paged.brick == 3 && life > 1 { vec![(ServerId(1), 2)] } else { vec![] };
        let head = BrickPageHead { life, siblings, epoch, clock, said };
        let mut body = Vec::new();
        BrickPageReply { head, records }.encode(&mut body);
        self.answer(&paged.sent, Status::Ok, &body);
    }

    fn page(&mut self) -> (Vec<String>, Page) {
        match self.outcome().1 {
            Outcome::Done(Reply::Page(page)) => {
                let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
                let objects = page.objects.iter();
                let shown = objects.map(|it| format!("{}={}", text(&it.key), text(&it.value)));
                (shown.collect(), page)
            }
            other => panic!("wanted a page: {other:?}"),
        }
    }
}

fn wants(paged: &[Paged]) -> Vec<PageWants> {
    paged.iter().map(|it| it.request.what).collect()
}

/// The table is cut in two, each half held by bricks 1, 2 and 3.
fn halves() -> TableDescription {
    let mut description = held_by([1, 2, 3], 1, Adaptive);
    let half = KeyHash(u64::MAX / 2);
    let tablets = description.quorum.as_mut().unwrap();
    let mut upper = tablets[0].clone();
    (tablets[0].last, upper.first) = (half, KeyHash(half.0 + 1));
    tablets.push(upper);
    description
}

// A6: two messages for a page on which the bricks agree, and no greeting.
#[test]
fn pages_of_two_bricks_become_one_and_the_scan_goes_on_in_the_next_tablet() {
    let mut fake = Fake::new();
    fake.start(scan(LIMITS));
    fake.describe_bricks(&halves());
    let paged = fake.paged();
    assert_eq!(paged.len(), 2, "the larger quorum is asked");
    fake.expect_silence();
    let mut wanted = wants(&paged);
    wanted.sort_by_key(|it| *it != PageWants::Values);
    assert_eq!(wanted, [PageWants::Values, PageWants::Lengths], "one tells values");
    let BrickPageRequest { first, last, position, count, bytes, .. } = paged[0].request;
    assert_eq!((first, last), (KeyHash(0), KeyHash(u64::MAX / 2)), "not beyond the tablet");
    assert_eq!((position, count, bytes), (0, LIMITS.count, LIMITS.bytes));
    let records: &[Record] = &[(1, "a", Is(OLD, "A")), (2, "b", Gone(NEW)), (8, "c", Is(NEW, "C"))];
    fake.tell(&paged[0], records, Some(9));
    fake.expect_none_ended();
    // The shorter page ends it.
    fake.tell(&paged[1], &records[..2], Some(5));
    let (shown, page) = fake.page();
    assert_eq!(shown, ["a=A"]);
    let object = &page.objects[0];
    assert_eq!((object.version.raw(), object.time), (OLD.time, (OLD.time / 1_000_000) as u32));
    let teller = paged.iter().find(|it| it.request.what == PageWants::Values).unwrap();
    assert_eq!(page.answered_by, ServerId(teller.brick));
    fake.start(Operation::Scan { cursor: page.next.unwrap(), limits: LIMITS });
    let paged = fake.paged();
    assert!(paged.iter().all(|it| it.request.position == 5 && it.request.first == KeyHash(0)));
    paged.iter().for_each(|it| fake.tell(it, &records[2..], None));
    let (shown, page) = fake.page();
    assert_eq!(shown, ["c=C"]);
    fake.start(Operation::Scan { cursor: page.next.unwrap(), limits: LIMITS });
    let paged = fake.paged();
    let upper = (KeyHash(u64::MAX / 2 + 1), KeyHash(u64::MAX));
    assert!(paged.iter().all(|it| (it.request.first, it.request.last) == upper && it.request.position == 0));
    paged.iter().for_each(|it| fake.tell(it, &[], None));
    assert_eq!(
        fake.page(),
        (
            vec![],
            Page {
                objects: vec![],
                next: None,
                answered_by: ServerId(
                    paged.iter().find(|it| it.request.what == PageWants::Values).unwrap().brick
                )
            }
        )
    );
    fake.expect_silence();
}

// A6, I1: a key on which bricks differ is told as a get tells it, and is repaired by it.
#[test]
fn keys_on_which_bricks_differ_are_read_and_repaired_one_by_one() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(LIMITS));
    let paged = fake.paged();
    fake.tell(&paged[0], &[(1, "a", Is(OLD, "A")), (2, "b", Is(OLD, "old")), (4, "d", Is(OLD, "D"))], None);
    fake.tell(
        &paged[1],
        &[(1, "a", Is(OLD, "A")), (2, "b", Is(NEW, "B")), (3, "c", Open), (4, "d", Gone(NEW))],
        None,
    );
    fake.expect_none_ended();
    let asked = fake.asked();
    let mut keys: Vec<&[u8]> = asked.iter().map(|it| &it.key[..]).collect();
    keys.sort_unstable();
    assert_eq!(keys, [b"b", b"b", b"c", b"c", b"d", b"d"], "a read quorum for each, and nothing for 'a'");
    for it in &asked {
        // Nobody has "d" by now. One brick lacks "b", and "c" is whole.
        let (stamp, value) = match (&it.key[..], it.what == Asks::Value) {
            (b"b", true) => (NEW, Some(&b"B"[..])),
            (b"b", false) => (OLD, None),
            (b"c", _) => (NEW, Some(&b"C"[..])),
            _ => (NEW, None),
        };
        fake.say_stored(it, stamp, value);
    }
    fake.expect_none_ended();
    let repairs = fake.asked();
    assert!(repairs.iter().all(|it| it.key == b"b" && it.what == Asks::Repair(NEW, Some(b"B".to_vec()))));
    assert_eq!(repairs.len(), 1, "{repairs:?}");
    fake.say(&repairs[0], AskSaid::Applied);
    assert_eq!(fake.page().0, ["a=A", "b=B", "c=C"]);
    fake.expect_silence();
    assert_eq!(fake.session.under_way_count(), 0);
}

// A6, A12
#[test]
fn a_value_whose_end_has_come_is_ended_by_a_get_before_it_is_left_out() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(LIMITS));
    let records: &[Record] = &[(1, "a", Until(OLD, "A", 3_600_000)), (2, "b", Until(OLD, "B", 0))];
    fake.paged().iter().for_each(|it| fake.tell(it, records, None));
    let asked = fake.asked();
    assert!(asked.iter().all(|it| it.key == b"b") && asked.len() == 2);
    let value = StampedValue { bytes: b"B", expires: Some(ClusterTime(DATE / 1000)) };
    for it in &asked {
        match it.what {
            Asks::Value => fake.say(it, AskSaid::Value(OLD, Some(value))),
            _ => fake.say(it, AskSaid::Stamp(OLD)),
        }
    }
    let tombstones = fake.asked();
    assert!(tombstones.iter().all(|it| it.what == Asks::Repair(OLD.of_expiry(), None)));
    fake.expect_none_ended();
    tombstones.iter().for_each(|it| fake.say(it, AskSaid::Applied));
    let (shown, page) = fake.page();
    assert_eq!(shown, ["a=A"]);
    assert_eq!(page.objects[0].expires, Some(ClusterTime(DATE / 1000 + 3_600_000)));
}

// A6, I1
#[test]
fn a_silent_brick_is_replaced_within_the_page_and_a_refusing_one_at_once() {
    for refuses in [false, true] {
        let mut fake = Fake::with_bricks(Adaptive);
        fake.start(scan(LIMITS));
        let paged = fake.paged();
        let absent = paged.iter().find(|it| it.request.what == PageWants::Values).unwrap();
        let here = paged.iter().find(|it| it.brick != absent.brick).unwrap();
        let records: &[Record] = &[(1, "a", Is(OLD, "A"))];
        fake.tell(here, records, None);
        if refuses {
            fake.answer(&absent.sent, Status::NotReady, b"");
        } else {
            assert_eq!(fake.wait(millis(5000)), millis(100));
        }
        let more = fake.paged();
        let fresh = more.iter().find(|it| ![absent.brick, here.brick].contains(&it.brick)).unwrap();
        assert_eq!(fresh.request.what, PageWants::Values);
        assert_eq!(more.len(), if refuses { 1 } else { 2 }, "a silent one is asked again");
        fake.tell(fresh, records, None);
        assert_eq!(fake.page().0, ["a=A"]);
        // For a second the silent brick is asked last.
        fake.start(scan(LIMITS));
        assert!(fake.paged().iter().all(|it| it.brick != absent.brick));
    }
}

// A6, I1
#[test]
fn too_few_bricks_end_a_page_as_no_quorum_and_are_named() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(LIMITS));
    let mut told = false;
    let detail = loop {
        for it in fake.paged() {
            match it.brick {
                2 => fake.lose(server(2), Lost::Refused),
                3 => {
                    fake.tell(&it, &[], None);
                    told = true;
                }
                _ => {}
            }
        }
        fake.sent.retain(|it| it.opcode() == Opcode::BrickPage);
        if fake.session.under_way_count() == 0 {
            break fake.expect_refused(Status::NoQuorum);
        }
        fake.wait(millis(10_000));
    };
    assert!(told);
    assert!(detail.starts_with("1 of the tablet's 3 bricks answered, 2 must"), "{detail}");
    assert!(detail.contains("brick s1 at 10.0.0.1:7401 did not answer"), "{detail}");
    assert!(detail.contains("brick s2 at 10.0.0.2:7401 refused the connection"), "{detail}");
}

// A6, I1: the page ends with the time, and says which bricks of the key were silent.
#[test]
fn a_key_that_cannot_be_read_ends_its_page_as_no_quorum() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(LIMITS));
    let paged = fake.paged();
    fake.tell(&paged[0], &[(1, "a", Is(OLD, "A"))], None);
    fake.tell(&paged[1], &[], None);
    let Outcome::Refused { status, detail, .. } = fake.run_out() else { panic!("not refused") };
    assert_eq!(status, Status::NoQuorum);
    assert!(detail.starts_with("0 of the key's 3 bricks answered"), "{detail}");
    fake.expect_none_ended();
    assert_eq!((fake.session.under_way_count(), fake.session.deadline()), (0, None));
}

// A6, I6
#[test]
fn a_page_of_an_old_life_is_not_counted() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(PageLimits { keys_only: true, ..LIMITS }));
    let paged = fake.paged();
    assert!(paged.iter().all(|it| it.request.what == PageWants::Keys));
    let of = |paged: &[Paged], brick: u64| paged.iter().find(|it| it.brick == brick).cloned();
    // Whichever two were asked: the third is asked when one of them refuses.
    let mut known = paged.clone();
    if let Some(second) = of(&paged, 2) {
        fake.answer(&second.sent, Status::NotReady, b"");
        known.extend(fake.paged());
    }
    let (first, third) = (of(&known, 1).unwrap(), of(&known, 3).unwrap());
    fake.tell(&first, &[(1, "a", Is(OLD, ""))], None);
    fake.tell_as(&third, Voice { life: 2, ..VOICE }, &[(1, "a", Is(OLD, ""))], None);
    fake.expect_none_ended();
    fake.wait(millis(1000));
    let again = of(&fake.paged(), 1).expect("it is asked again");
    fake.tell_as(&again, Voice { life: 2, ..VOICE }, &[(1, "a", Is(OLD, ""))], None);
    assert_eq!(fake.page().0, ["a="]);
}

// A6, I4
#[test]
fn bricks_that_do_not_hold_the_range_send_the_scan_to_those_that_do() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(LIMITS));
    for it in fake.paged() {
        fake.tell_page(&it, VOICE, BrickPageSaid::WrongOwner, vec![]);
    }
    fake.expect_none_ended();
    fake.describe_bricks(&held_by([1, 2, 4], 2, Adaptive));
    fake.wait(millis(300));
    let mut pages = fake.paged();
    if pages.is_empty() {
        fake.wait(millis(300));
        pages = fake.paged();
    }
    assert_eq!(pages.len(), 2);
    let voice = Voice { epoch: 2, ..VOICE };
    pages.iter().for_each(|it| fake.tell_as(it, voice, &[(1, "a", Is(OLD, "A"))], None));
    assert_eq!(fake.page().0, ["a=A"]);
}

// A6: a page has at most as many objects and bytes as it may, also with keys that were read one by one.
#[test]
fn a_page_ends_at_its_limits_and_the_next_one_begins_there() {
    let keys: [(u64, &str); 4] = [(1, "a"), (2, "b"), (3, "c"), (4, "d")];
    for limits in [PageLimits { count: 2, ..LIMITS }, PageLimits { bytes: 70, ..LIMITS }] {
        let mut fake = Fake::with_bricks(Adaptive);
        fake.start(scan(limits));
        let paged = fake.paged();
        // Each brick has half of the keys, so the union is more than a page.
        let half = |odd: bool| -> Vec<Record> {
            let its = keys.iter().filter(|(position, _)| (position % 2 == 1) == odd);
            its.map(|(position, key)| (*position, *key, Is(OLD, "x"))).collect()
        };
        fake.tell(&paged[0], &half(true), None);
        fake.tell(&paged[1], &half(false), None);
        let asked = fake.asked();
        assert_eq!(asked.len(), 8);
        for it in &asked {
            fake.say_stored(it, OLD, Some(&[b'v'; 5]));
        }
        let (shown, page) = fake.page();
        assert_eq!(shown, ["a=vvvvv", "b=vvvvv"]);
        assert_eq!(fake.session.under_way_count(), 0);
        fake.start(Operation::Scan { cursor: page.next.unwrap(), limits });
        assert!(fake.paged().iter().all(|it| it.request.position == 3));
    }
}

// A6: many keys on which bricks differ are read some at a time.
#[test]
fn at_most_64_keys_of_a_page_are_read_at_a_time() {
    let names: Vec<&'static str> =
        (0..200).map(|n| &*Box::leak(format!("k{n:03}").into_boxed_str())).collect();
    let records: Vec<Record> = names.iter().zip(1..).map(|(key, at)| (at, *key, Is(OLD, "x"))).collect();
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(PageLimits { count: 1000, ..LIMITS }));
    let paged = fake.paged();
    fake.tell(&paged[0], &records, None);
    fake.tell(&paged[1], &[], None);
    let mut read = 0;
    loop {
        let asked = fake.asked();
        if asked.is_empty() {
            break;
        }
        assert!(asked.len() <= 2 * 64, "{}", asked.len());
        read += asked.len();
        asked.iter().for_each(|it| fake.say_stored(it, OLD, Some(b"v")));
    }
    assert_eq!(read, 400);
    assert_eq!(fake.page().0.len(), 200);
}

// A6, B5
#[test]
fn a_page_that_is_no_answer_to_the_question_is_silence() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(LIMITS));
    let paged = fake.paged();
    fake.answer(&paged[0].sent, Status::Ok, b"xy");
    let more = fake.paged();
    assert_eq!(more.len(), 1, "another brick is asked");
    // A page that goes back.
    let records: &[Record] = &[(1, "a", Is(OLD, "A"))];
    fake.tell(&paged[1], records, None);
    fake.tell(&more[0], records, None);
    let (_, page) = fake.page();
    assert_eq!(page.next, None);
    fake.start(Operation::Scan { cursor: "not".parse().unwrap_or(ScanCursor::new(TABLE)), limits: LIMITS });
    let paged = fake.paged();
    paged.iter().for_each(|it| fake.tell(it, records, Some(2)));
    let cursor = fake.page().1.next.unwrap();
    fake.start(Operation::Scan { cursor, limits: LIMITS });
    let paged = fake.paged();
    fake.tell(&paged[0], records, Some(2));
    fake.expect_none_ended();
    let fresh = fake.paged();
    assert_eq!(fresh.len(), 1, "a page before the position is none");
}

// A1: the table is dropped while keys of a page are read.
#[test]
fn a_table_that_is_gone_ends_a_page_and_its_reads() {
    let mut fake = Fake::with_bricks(Adaptive);
    fake.start(scan(LIMITS));
    let paged = fake.paged();
    fake.tell(&paged[0], &[(1, "a", Is(OLD, "A")), (2, "b", Is(OLD, "B"))], None);
    fake.tell(&paged[1], &[], None);
    for it in fake.asked() {
        fake.refuse(&it, Status::UnknownTable);
    }
    let is_it = |it: &Sent| it.opcode() == Opcode::TableDescribe;
    for _ in 0..20 {
        fake.sent.retain(is_it);
        fake.wait(millis(1000));
    }
    let describe = fake.sent.iter().find(|it| is_it(it)).cloned().expect("the table is described again");
    fake.answer(&describe, Status::UnknownTable, b"");
    fake.expect_refused(Status::UnknownTable);
    fake.expect_none_ended();
    assert_eq!((fake.session.under_way_count(), fake.session.deadline()), (0, None));
}
