//! A tablet that changes its stream.
//!
//! Catalogue: A8, D2. Rules: docs/protocols/reclassing.md.

use crate::rig::Rig;
use ramhold_base::{DivisionId, Status, TableId};
use ramhold_wire::data::{RejectRules, WriteRequest};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::TabletReclass;
use ramhold_wire::{Opcode, decode};
use std::time::Duration;

const TABLE: TableId = TableId(5);

fn write(value: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules: RejectRules::default(), expiry: None, key: b"k", value }
        .encode(&mut body);
    body
}

fn is_asked_to_move(rig: &Rig) -> bool {
    rig.asked.iter().any(|(header, _)| header.opcode() == Some(Opcode::TabletReclassed))
}

/// A second: long enough for a reclassing to begin.
fn pass(rig: &mut Rig) {
    for _ in 0..100 {
        rig.now = rig.now + Duration::from_millis(10);
        rig.tick();
    }
}

#[test]
fn a_stretch_does_not_count_before_what_was_written_to_it_is_durable_where_it_was() {
    let mut rig = Rig::new();
    rig.take_table();
    rig.flushes = true;
    rig.send(Opcode::Write, &write(b"before"));
    rig.settle();
    // The answer to this one waits for backups; the copy of its key does not.
    rig.unanswered = |append| append.data.windows(8).any(|bytes| bytes == b"withheld") && !append.side;
    let written = rig.send(Opcode::Write, &write(b"withheld"));
    let reclass = TabletReclass {
        table: TABLE,
        durability: Durability::Buffered,
        replicas: 1,
        division: DivisionId(1),
    };
    assert_eq!(rig.request(&reclass), Status::Ok);
    pass(&mut rig);
    assert!(rig.reports.iter().any(|report| report == "mark:stretch_entered"), "{:?}", rig.reports);
    assert_eq!(rig.answer_to(written), None);
    assert!(!is_asked_to_move(&rig), "who is told of the copy would hear of what a crash may take back");

    rig.unanswered = |_| false;
    rig.settle();
    pass(&mut rig);
    assert!(rig.answer_to(written).is_some());
    assert!(is_asked_to_move(&rig));
    let moved = rig.asked.iter().find(|(header, _)| header.opcode() == Some(Opcode::TabletReclassed));
    let moved: ramhold_wire::table::TabletReclassed = decode(&moved.unwrap().1).unwrap();
    assert_eq!(moved.table, TABLE);
}
