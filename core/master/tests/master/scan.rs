//! Pages of a table: complete, within their limits, and never of what a crash could take back.
//!
//! Catalogue: A6.

use crate::rig::Rig;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::data::*;
use ramhold_wire::scan::{ScanHead, ScanRequest, decode_page};
use std::collections::BTreeMap;
use std::time::Duration;

const TABLE: TableId = TableId(5);

fn write(rig: &mut Rig, key: &[u8], value: &[u8], expiry: Option<Expiry>) -> RpcId {
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules: RejectRules::default(), expiry, key, value }.encode(&mut body);
    rig.send(Opcode::Write, &body)
}

fn key_body(key: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    KeyRequest { table: TABLE, rules: RejectRules::default(), key }.encode(&mut body);
    body
}

fn all() -> ScanRequest {
    ScanRequest {
        table: TABLE,
        first: KeyHash(0),
        last: KeyHash(u64::MAX),
        position: 0,
        count: u32::MAX,
        bytes: u32::MAX,
        keys_only: false,
        pass_lost: false,
    }
}

fn ask(rig: &mut Rig, request: ScanRequest) -> RpcId {
    let mut body = Vec::new();
    request.encode(&mut body);
    rig.send(Opcode::Scan, &body)
}

type Objects = Vec<(Vec<u8>, Vec<u8>)>;

fn page(rig: &Rig, rpc: RpcId) -> (ScanHead, Objects, usize) {
    let (status, body) = rig.answer_to(rpc).expect("it is answered");
    assert_eq!(status, Status::Ok);
    let (head, objects) = decode_page(&body).unwrap();
    let objects = objects.into_iter().map(|object| (object.key.to_vec(), object.value.to_vec())).collect();
    (head, objects, body.len())
}

/// All pages of a table, with these limits.
fn pages(rig: &mut Rig, count: u32, bytes: u32) -> Vec<Objects> {
    let mut pages = Vec::new();
    let mut position = Some(0);
    while let Some(from) = position {
        let rpc = ask(rig, ScanRequest { position: from, count, bytes, ..all() });
        rig.settle();
        let (head, objects, length) = page(rig, rpc);
        assert_eq!(head.last, KeyHash(u64::MAX));
        assert!(head.next.is_none_or(|next| next > from));
        assert!(objects.len() <= count as usize);
        assert!(objects.len() <= 1 || length <= bytes as usize + 17);
        position = head.next;
        pages.push(objects);
    }
    pages
}

#[test]
fn pages_hold_every_object_once_within_their_limits() {
    let mut rig = Rig::with(4 << 20);
    rig.take_table();
    let mut model = BTreeMap::new();
    for n in 0..700u32 {
        let (key, value) = (format!("key {n}").into_bytes(), vec![n as u8; n as usize % 300]);
        write(&mut rig, &key, &value, None);
        rig.settle();
        model.insert(key, value);
    }
    for n in (0..700).step_by(3) {
        let key = format!("key {n}").into_bytes();
        rig.send(Opcode::Remove, &key_body(&key));
        rig.settle();
        model.remove(&key);
    }
    for (count, bytes) in [(u32::MAX, u32::MAX), (1, u32::MAX), (7, 900), (1000, 1), (50, 4000)] {
        let pages = pages(&mut rig, count, bytes);
        let met: Vec<_> = pages.into_iter().flatten().collect();
        assert_eq!(met.len(), model.len(), "each once");
        assert_eq!(met.into_iter().collect::<BTreeMap<_, _>>(), model);
    }
    let rpc = ask(&mut rig, ScanRequest { keys_only: true, ..all() });
    assert!(page(&rig, rpc).1.iter().all(|(_, value)| value.is_empty()));
    // Only what is in the range, and only of this table.
    let rpc = ask(&mut rig, ScanRequest { first: KeyHash(1 << 63), ..all() });
    let upper = page(&rig, rpc).1.len();
    assert!(upper > 100 && upper < 400, "{upper}");
    let rpc = ask(&mut rig, ScanRequest { table: TableId(6), ..all() });
    assert_eq!(rig.answer_to(rpc).unwrap().0, Status::WrongOwner);
    let rpc = rig.send(Opcode::Scan, &[1, 2, 3]);
    assert_eq!(rig.answer_to(rpc).unwrap().0, Status::BadRequest);
}

#[test]
fn a_page_waits_for_what_it_shows_and_for_what_it_does_not_show_any_more() {
    // A3: no dirty reads.
    let mut rig = Rig::new();
    rig.take_table();
    write(&mut rig, b"a", b"1", None);
    let dirty = ask(&mut rig, all());
    assert!(rig.answer_to(dirty).is_none());
    rig.settle();
    assert_eq!(page(&rig, dirty).1, [(b"a".to_vec(), b"1".to_vec())]);
    rig.send(Opcode::Remove, &key_body(b"a"));
    let missing = ask(&mut rig, all());
    assert!(rig.answer_to(missing).is_none(), "the remove is not durable");
    rig.settle();
    assert_eq!(page(&rig, missing).1, []);
    let rpc = ask(&mut rig, all());
    assert!(rig.answer_to(rpc).is_some(), "nothing to wait for");
}

#[test]
fn an_object_whose_time_is_over_is_gone_before_a_page_leaves_it_out() {
    // A12
    let mut rig = Rig::new();
    rig.take_table();
    write(&mut rig, b"stays", b"1", None);
    write(&mut rig, b"ends", b"1", Some(Expiry::After { millis: 1000 }));
    rig.settle();
    let rpc = ask(&mut rig, all());
    assert_eq!(page(&rig, rpc).1.len(), 2);
    rig.now = rig.now + Duration::from_secs(2);
    let rpc = ask(&mut rig, all());
    assert!(rig.answer_to(rpc).is_none(), "its removal is on its way");
    rig.settle();
    assert_eq!(page(&rig, rpc).1, [(b"stays".to_vec(), b"1".to_vec())]);
    rig.master.check_invariants();
}

#[test]
fn a_damaged_object_is_not_passed_over() {
    // C8
    let mut rig = Rig::new();
    rig.take_unreplicated();
    // The first asks for the read lease, without which nothing about such a table is told.
    for n in 0..40u8 {
        write(&mut rig, &[b'k', n], &[n; 100], None);
        rig.settle();
        rig.tick();
    }
    let segment = rig.master.log().segments().find(|segment| segment.len_bytes > 2000).unwrap().id;
    rig.master.flip_bit(segment, 1500, 3);
    let rpc = ask(&mut rig, all());
    // That it is lost for good is told under the read lease only.
    rig.tick();
    let (status, _) = rig.answer_to(rpc).unwrap();
    assert!(matches!(status, Status::Retry | Status::Corrupt), "{status:?}");
}
