//! Objects that end by themselves: what their readers and writers are told, and when.
//!
//! Catalogue: A4, A12.

use crate::rig::Rig;
use ramhold_base::limits::EXPIRY_MILLIS_MAX;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::data::{Expiry, KeyRequest, ReadReply, RejectRules, WriteRequest, decode_version};

const TABLE: TableId = TableId(5);
const START: ClusterTime = ClusterTime(1_700_000_000_000);
const NOTHING: Version = Version(0);

fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.view.tell_time(rig.now, START);
    rig.take_table();
    rig
}

fn after(millis: u64) -> Option<Expiry> {
    Some(Expiry::After { millis })
}

impl Rig {
    /// The cluster time is so long after the start.
    fn pass_until(&mut self, millis: u64) {
        self.now = Instant(1 + millis * 1_000_000);
    }

    fn send_write(&mut self, rules: RejectRules, expiry: Option<Expiry>) -> RpcId {
        let mut body = vec![];
        WriteRequest { table: TABLE, rules, expiry, key: b"k", value: b"v" }.encode(&mut body);
        self.send(Opcode::Write, &body)
    }

    fn send_key(&mut self, opcode: Opcode, rules: RejectRules) -> RpcId {
        let mut body = vec![];
        KeyRequest { table: TABLE, rules, key: b"k" }.encode(&mut body);
        self.send(opcode, &body)
    }

    /// The status and the version of the answer, once the backups have answered.
    fn ended(&mut self, rpc: RpcId) -> (Status, Version) {
        self.settle();
        let (status, body) = self.answer_to(rpc).expect("everything is durable");
        (status, decode_version(&body).unwrap_or_default())
    }

    fn write(&mut self, rules: RejectRules, expiry: Option<Expiry>) -> (Status, Version) {
        let rpc = self.send_write(rules, expiry);
        self.ended(rpc)
    }

    fn plain_write(&mut self, expiry: Option<Expiry>) -> Version {
        let (status, version) = self.write(RejectRules::default(), expiry);
        assert_eq!(status, Status::Ok);
        version
    }

    /// When the object that is read ends; `Err`: it is not there.
    fn read(&mut self) -> Result<Option<ClusterTime>, Status> {
        let rpc = self.send_key(Opcode::Read, RejectRules::default());
        self.settle();
        let (status, body) = self.answer_to(rpc).expect("everything is durable");
        if status == Status::Ok { Ok(ReadReply::decode(&body).unwrap().expires) } else { Err(status) }
    }

    fn expired(&self) -> usize {
        self.reports.iter().filter(|text| *text == "mark:expired").count()
    }
}

#[test]
fn an_object_is_returned_until_its_time_is_over() {
    let mut rig = rig();
    rig.pass_until(30);
    rig.plain_write(after(100));
    assert_eq!(rig.read(), Ok(Some(ClusterTime(START.0 + 130))));
    rig.pass_until(129);
    assert_eq!(rig.read(), Ok(Some(ClusterTime(START.0 + 130))));
    assert_eq!(rig.expired(), 0);
    rig.pass_until(130);
    assert_eq!(rig.read(), Err(Status::NotFound));
    rig.pass_until(131);
    assert_eq!(rig.read(), Err(Status::NotFound));
    assert_eq!(rig.expired(), 1, "it is taken out once");
}

/// Whoever hears that it is over may rely on it, also when this server dies: the tombstone is on the backups before.
#[test]
fn nobody_hears_of_an_end_before_it_is_durable() {
    for rules in [RejectRules::default(), RejectRules { absent: true, ..RejectRules::default() }] {
        for opcode in [Opcode::Read, Opcode::Remove] {
            let mut rig = rig();
            rig.plain_write(after(100));
            rig.pass_until(100);
            let first = rig.send_key(opcode, rules);
            let second = rig.send_key(Opcode::Read, RejectRules::default());
            assert_eq!((rig.answer_to(first), rig.answer_to(second)), (None, None), "{opcode:?} {rules:?}");
            let status =
                if opcode == Opcode::Remove && !rules.absent { Status::Ok } else { Status::NotFound };
            assert_eq!(rig.ended(first), (status, NOTHING), "{opcode:?} {rules:?}");
            assert_eq!(rig.ended(second), (Status::NotFound, NOTHING));
        }
    }
    let mut rig = rig();
    rig.plain_write(after(100));
    rig.pass_until(100);
    let refused = rig.send_write(RejectRules { absent: true, ..RejectRules::default() }, None);
    assert_eq!(rig.answer_to(refused), None);
    assert_eq!(rig.ended(refused), (Status::NotFound, NOTHING));
}

#[test]
fn conditions_see_an_object_that_is_over_as_absent() {
    let of =
        |version| RejectRules { absent: true, version_other_than: Some(version), ..RejectRules::default() };
    let none = RejectRules { exists: true, ..RejectRules::default() };
    let mut rig = rig();
    let version = rig.plain_write(after(100));
    assert_eq!(rig.write(none, None), (Status::Exists, version));
    rig.pass_until(100);
    assert_eq!(rig.write(of(version), None), (Status::NotFound, NOTHING));
    assert_eq!(rig.write(none, None).0, Status::Ok);
}

#[test]
fn versions_grow_through_an_end() {
    let mut rig = rig();
    let mut last = NOTHING;
    for round in 0..20 {
        rig.pass_until(10 * round);
        let version = rig.plain_write(after(10));
        // Not the version of the tombstone either, which nobody was told.
        assert!(version > last && (round == 0 || version > last.next()), "{version:?} after {last:?}");
        last = version;
    }
    assert_eq!(rig.expired(), 19);
}

#[test]
fn a_plain_write_takes_the_end_away() {
    let mut rig = rig();
    rig.plain_write(after(100));
    rig.pass_until(50);
    rig.plain_write(None);
    rig.pass_until(1000);
    assert_eq!(rig.read(), Ok(None));
    rig.plain_write(after(100));
    rig.plain_write(after(900));
    rig.pass_until(1899);
    assert_eq!(rig.read(), Ok(Some(ClusterTime(START.0 + 1900))));
}

#[test]
fn an_end_in_the_past_is_a_write_and_an_end() {
    let mut rig = rig();
    rig.pass_until(10);
    let first = rig.plain_write(None);
    let past = Some(Expiry::At(ClusterTime(START.0 + 10)));
    let second = rig.plain_write(past);
    assert!(second > first);
    assert_eq!(rig.read(), Err(Status::NotFound));
    assert!(rig.plain_write(None) > second.next());
}

#[test]
fn an_end_outside_its_limits_changes_nothing() {
    let mut rig = rig();
    rig.plain_write(None);
    let last = START.0 + EXPIRY_MILLIS_MAX;
    let outside = [
        after(0).unwrap(),
        after(EXPIRY_MILLIS_MAX + 1).unwrap(),
        Expiry::At(ClusterTime(0)),
        Expiry::At(ClusterTime(last + 1)),
    ];
    for expiry in outside {
        assert_eq!(rig.write(RejectRules::default(), Some(expiry)).0, Status::BadRequest, "{expiry:?}");
        assert_eq!(rig.read(), Ok(None));
    }
    rig.plain_write(Some(Expiry::At(ClusterTime(last))));
    assert_eq!(rig.read(), Ok(Some(ClusterTime(last))));
}
