//! How many objects a tablet has.
//!
//! Catalogue: A6. Rules: docs/protocols/enumeration.md, "Counts".

use crate::rig::Rig;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::count::{CountReply, CountRequest};
use ramhold_wire::data::{Expiry, KeyRequest, RejectRules, WriteRequest};
use ramhold_wire::table::TabletDrop;
use std::time::Duration;

const TABLE: TableId = TableId(5);
const FREE: RejectRules =
    RejectRules { absent: false, exists: false, version_at_most: None, version_other_than: None };

fn ask(rig: &mut Rig, first: u64) -> RpcId {
    let mut body = Vec::new();
    CountRequest { table: TABLE, first: KeyHash(first) }.encode(&mut body);
    rig.send(Opcode::Count, &body)
}

/// The number, once it has been told.
fn told(rig: &Rig, rpc: RpcId) -> u64 {
    let (status, body) = rig.answer_to(rpc).expect("it is answered");
    assert_eq!(status, Status::Ok);
    let reply = CountReply::decode(&body).unwrap();
    assert_eq!(reply.last, KeyHash(u64::MAX));
    reply.objects
}

fn count(rig: &mut Rig) -> u64 {
    let rpc = ask(rig, 0);
    rig.settle();
    rig.master.check_invariants();
    told(rig, rpc)
}

fn put(rig: &mut Rig, key: &[u8], expiry: Option<Expiry>) {
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules: FREE, expiry, key, value: b"v" }.encode(&mut body);
    rig.send(Opcode::Write, &body);
}

fn with_key(rig: &mut Rig, opcode: Opcode, key: &[u8]) -> RpcId {
    let mut body = Vec::new();
    KeyRequest { table: TABLE, rules: FREE, key }.encode(&mut body);
    rig.send(opcode, &body)
}

#[test]
fn objects_are_counted_as_they_come_and_go() {
    for replicated in [true, false] {
        let mut rig = Rig::new();
        if replicated {
            rig.take_table()
        } else {
            rig.take_unreplicated()
        }
        assert_eq!(count(&mut rig), 0);
        (0..100u8).for_each(|key| put(&mut rig, &[key], None));
        (0..50u8).for_each(|key| put(&mut rig, &[key], None));
        assert_eq!(count(&mut rig), 100);
        for key in 90..110u8 {
            with_key(&mut rig, Opcode::Remove, &[key]);
        }
        assert_eq!(count(&mut rig), 90);
        assert_eq!(rig.master.objects_by_table().get(&TABLE), Some(&Some(90)));
        // One whose time is over counts until somebody has found that out.
        put(&mut rig, b"short", Some(Expiry::After { millis: 10 }));
        rig.settle();
        rig.now = rig.now + Duration::from_millis(20);
        assert_eq!(count(&mut rig), 91);
        with_key(&mut rig, Opcode::Read, b"short");
        assert_eq!(count(&mut rig), 90);
        assert_eq!(rig.request(&TabletDrop { table: TABLE }), Status::Ok);
        let gone = ask(&mut rig, 0);
        assert_eq!(rig.answer_to(gone).unwrap().0, Status::WrongOwner);
        rig.master.check_invariants();
    }
}

// F8, J2
#[test]
fn a_count_waits_for_what_it_counts_and_for_the_read_lease() {
    let mut rig = Rig::new();
    rig.take_table();
    put(&mut rig, b"a", None);
    let early = ask(&mut rig, 0);
    assert!(rig.answer_to(early).is_none(), "a crash could still take the object back");
    rig.settle();
    assert_eq!(told(&rig, early), 1);
    let removed = with_key(&mut rig, Opcode::Remove, b"a");
    let early = ask(&mut rig, 0);
    assert!(rig.answer_to(removed).is_none() && rig.answer_to(early).is_none());
    rig.settle();
    assert_eq!(told(&rig, early), 0);
    rig.now = rig.now + Duration::from_millis(300);
    let unleased = ask(&mut rig, 0);
    assert!(rig.answer_to(unleased).is_none(), "another server may count by now");
    rig.tick();
    assert_eq!(told(&rig, unleased), 0);
}

#[test]
fn a_count_is_asked_for_where_a_tablet_begins() {
    let mut rig = Rig::new();
    rig.take_table();
    let within = ask(&mut rig, 7);
    assert_eq!(rig.answer_to(within).unwrap().0, Status::NotAllowed);
    let malformed = rig.send(Opcode::Count, b"short");
    assert_eq!(rig.answer_to(malformed).unwrap().0, Status::BadRequest);
}
