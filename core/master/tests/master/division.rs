//! Tablets that are cut and joined as the coordinator says.
//!
//! Catalogue: A6, A8. Rules: docs/protocols/tablets.md, 6 and 7.

use crate::rig::Rig;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::control::encode_into;
use ramhold_wire::count::{CountReply, CountRequest};
use ramhold_wire::data::{RejectRules, WriteRequest};
use ramhold_wire::table::{HashSpan, TabletDivide, TabletDrop, TabletWeights, TabletsWeighed};

const TABLE: TableId = TableId(5);
const HALF: u64 = 1 << 63;

fn put(rig: &mut Rig, key: u32) {
    let (rules, key) = (RejectRules::default(), key.to_le_bytes());
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules, expiry: None, key: &key, value: b"v" }.encode(&mut body);
    rig.send(Opcode::Write, &body);
}

fn message(division: u64, spans: &[(u64, u64)]) -> TabletDivide {
    let span = |(first, last): &(u64, u64)| HashSpan { first: KeyHash(*first), last: KeyHash(*last) };
    TabletDivide { table: TABLE, division: DivisionId(division), tablets: spans.iter().map(span).collect() }
}

fn ask(rig: &mut Rig, division: u64, spans: &[(u64, u64)]) -> RpcId {
    let mut body = Vec::new();
    encode_into(&mut body, &message(division, spans));
    rig.send(Opcode::TabletDivide, &body)
}

fn divide(rig: &mut Rig, division: u64, spans: &[(u64, u64)]) -> Status {
    let rpc = ask(rig, division, spans);
    (0..1000).find(|_| {
        rig.tick();
        rig.answer_to(rpc).is_some()
    });
    rig.master.check_invariants();
    rig.answer_to(rpc).expect("it is answered").0
}

/// The tablets that are served, and the objects of each.
fn counts(rig: &mut Rig) -> Vec<(u64, u64)> {
    let (mut first, mut counts) = (0, Vec::new());
    loop {
        let mut body = Vec::new();
        CountRequest { table: TABLE, first: KeyHash(first) }.encode(&mut body);
        let rpc = rig.send(Opcode::Count, &body);
        rig.settle();
        let (status, body) = rig.answer_to(rpc).unwrap();
        assert_eq!(status, Status::Ok);
        let CountReply { last, objects } = CountReply::decode(&body).unwrap();
        counts.push((first, objects));
        match last.0.checked_add(1) {
            Some(next) => first = next,
            None => return counts,
        }
    }
}

#[test]
fn tablets_are_cut_and_joined_with_their_counts() {
    let mut rig = Rig::new();
    rig.take_table();
    (0..500).for_each(|key| put(&mut rig, key));
    rig.settle();
    assert_eq!(divide(&mut rig, 1, &[(0, HALF - 1), (HALF, u64::MAX)]), Status::Ok);
    let halves = counts(&mut rig);
    assert_eq!(halves.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0, HALF]);
    assert_eq!(halves.iter().map(|(_, objects)| objects).sum::<u64>(), 500);
    assert!(halves.iter().all(|(_, objects)| (150..350).contains(objects)), "{halves:?}");
    // Joined on one side, cut on the other, by one division.
    assert_eq!(divide(&mut rig, 2, &[(0, 99), (100, u64::MAX)]), Status::Ok);
    let (small, large) = (counts(&mut rig)[0].1, counts(&mut rig)[1].1);
    assert_eq!(small + large, 500);
    (500..600).for_each(|key| put(&mut rig, key));
    assert_eq!(divide(&mut rig, 3, &[(0, u64::MAX)]), Status::Ok);
    assert_eq!(counts(&mut rig), [(0, 600)]);
}

// B3
#[test]
fn an_older_division_undoes_nothing_and_what_is_not_served_is_not_divided() {
    let mut rig = Rig::new();
    rig.take_table();
    let (halves, whole) = ([(0, HALF - 1), (HALF, u64::MAX)], [(0, u64::MAX)]);
    assert_eq!(divide(&mut rig, 7, &halves), Status::Ok);
    assert_eq!(divide(&mut rig, 6, &whole), Status::NotAllowed);
    assert_eq!(divide(&mut rig, 7, &halves), Status::Ok, "repeated");
    assert_eq!(counts(&mut rig).len(), 2);
    assert_eq!(divide(&mut rig, 8, &[(0, HALF)]), Status::Retry, "a part of a tablet alone");
    assert_eq!(divide(&mut rig, 8, &[(5, 4)]), Status::BadRequest);
    assert_eq!(divide(&mut rig, 8, &[(0, 9), (9, 20)]), Status::BadRequest);
    assert_eq!(divide(&mut rig, 8, &[]), Status::BadRequest);
    assert_eq!(rig.request(&TabletDrop { table: TABLE }), Status::Ok);
    assert_eq!(divide(&mut rig, 9, &whole), Status::UnknownTable);
}

// A6: a walk that did not come to its end counts nothing.
#[test]
fn a_cut_that_is_overtaken_by_a_join_leaves_the_counts_alone() {
    let mut rig = Rig::new();
    rig.take_table();
    (0..9000).for_each(|key| put(&mut rig, key));
    rig.settle();
    let all = counts(&mut rig);
    let rpc = ask(&mut rig, 1, &[(0, HALF - 1), (HALF, u64::MAX)]);
    assert_eq!(rig.answer_to(rpc), None, "the walk has slices");
    assert_eq!(divide(&mut rig, 2, &[(0, u64::MAX)]), Status::Ok);
    assert_eq!(counts(&mut rig), all);
    assert_eq!(divide(&mut rig, 3, &[(0, HALF - 1), (HALF, u64::MAX)]), Status::Ok);
    assert_eq!(counts(&mut rig).iter().map(|(_, objects)| objects).sum::<u64>(), all[0].1);
}

#[test]
fn a_table_that_is_dropped_during_the_walk_is_divided_no_more() {
    let mut rig = Rig::new();
    rig.take_table();
    (0..9000).for_each(|key| put(&mut rig, key));
    rig.settle();
    let rpc = ask(&mut rig, 1, &[(0, HALF - 1), (HALF, u64::MAX)]);
    assert_eq!(rig.answer_to(rpc), None, "the walk has slices");
    assert_eq!(rig.request(&TabletDrop { table: TABLE }), Status::Ok);
    assert_eq!(rig.answer_to(rpc).unwrap().0, Status::UnknownTable);
    (0..1000).for_each(|_| rig.tick());
    rig.master.check_invariants();
}

// A8, C3
#[test]
fn the_coordinator_is_told_where_what_lies() {
    let mut rig = Rig::new();
    rig.take_table();
    (0..50).for_each(|key| put(&mut rig, key));
    rig.settle();
    let mut weigh = |table| {
        let mut body = Vec::new();
        encode_into(&mut body, &TabletWeights { table });
        let rpc = rig.send(Opcode::TabletWeights, &body);
        let (status, body) = rig.answer_to(rpc).expect("it is answered at once");
        assert_eq!(status, Status::Ok);
        ramhold_wire::decode::<TabletsWeighed>(&body).unwrap().rows
    };
    let rows = weigh(TABLE);
    assert_eq!(rows.iter().map(|row| row.records).sum::<u64>(), 50);
    assert!(rows.iter().all(|row| row.table == TABLE && row.bytes > 0));
    assert_eq!(weigh(TableId(77)), []);
}
