//! The master counts an answer when it is given, with the time for which the answer was waited for.
//!
//! Catalogue: J5.

use crate::rig::Rig;
use ramhold_base::{Effects, RpcId, Sequence, Status, TableId};
use ramhold_wire::Opcode;
use ramhold_wire::data::{KeyRequest, RejectRules, WriteRequest};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::multi::{encode_item, encode_multi};
use std::time::Duration;

const TABLE: TableId = TableId(5);

fn write() -> Vec<u8> {
    let mut body = Vec::new();
    let rules = RejectRules::default();
    WriteRequest { table: TABLE, rules, expiry: None, key: b"k", value: b"value" }.encode(&mut body);
    body
}

fn read() -> Vec<u8> {
    let mut body = Vec::new();
    KeyRequest { table: TABLE, rules: RejectRules::default(), key: b"k" }.encode(&mut body);
    body
}

/// Answers of a kind so far, and how long they waited together.
fn counted(rig: &Rig, opcode: Opcode) -> (u64, Duration) {
    let operations = rig.master.operations();
    let (_, latencies) = operations.iter().find(|(of, _)| *of == opcode).unwrap();
    (latencies.total(), Duration::from_nanos(latencies.sum_nanos()))
}

/// Backups answer after so long.
fn settle_after(rig: &mut Rig, wait: Duration, rpc: RpcId) {
    assert!(rig.answer_to(rpc).is_none(), "it waits for the backups");
    rig.now = rig.now + wait;
    rig.settle();
    assert!(rig.answer_to(rpc).is_some());
}

/// An eighth of this log's quarter at a time; then nothing is due for it any more.
// F11
#[test]
fn memory_that_will_be_used_next_is_touched_when_there_is_nothing_else_to_do() {
    let mut rig = Rig::with(8 << 20);
    rig.take_table();
    rig.settle();
    let mut ticks = 0;
    while rig.master.untouched_bytes() >= 256 << 10 {
        let due = rig.master.deadline().unwrap();
        assert!(due <= rig.now + Duration::from_millis(1), "{due:?}");
        rig.now = rig.now.max(due);
        rig.master.tick(rig.now, &rig.view, &mut Effects::new());
        ticks += 1;
    }
    assert!((7..=9).contains(&ticks), "{ticks}");
    let rpc = rig.send(Opcode::Write, &write());
    settle_after(&mut rig, Duration::from_millis(1), rpc);
    rig.master.check_invariants();
}

#[test]
fn a_write_counts_when_its_backups_have_it_and_a_read_at_once() {
    let mut rig = Rig::new();
    rig.take_table();
    let (writes, waited) = counted(&rig, Opcode::Write);
    let rpc = rig.send(Opcode::Write, &write());
    assert_eq!(counted(&rig, Opcode::Write), (writes, waited));
    settle_after(&mut rig, Duration::from_millis(5), rpc);
    assert_eq!(counted(&rig, Opcode::Write), (writes + 1, waited + Duration::from_millis(5)));

    let (reads, waited) = counted(&rig, Opcode::Read);
    rig.send(Opcode::Read, &read());
    assert_eq!(counted(&rig, Opcode::Read), (reads + 1, waited));
    // One that finds what is not durable yet waits with it.
    rig.send(Opcode::Write, &write());
    let rpc = rig.send(Opcode::Read, &read());
    settle_after(&mut rig, Duration::from_millis(2), rpc);
    assert_eq!(counted(&rig, Opcode::Read), (reads + 2, waited + Duration::from_millis(2)));
}

#[test]
fn a_frame_of_many_counts_itself_and_its_items() {
    let mut rig = Rig::new();
    rig.take_table();
    let (writes, waited) = counted(&rig, Opcode::Write);
    let mut frame = Vec::new();
    encode_multi(2, &mut frame, |out| {
        for sequence in [20, 21] {
            encode_item(Opcode::Write, false, Sequence(sequence), out, |out| out.extend_from_slice(&write()));
        }
    });
    let rpc = rig.send_as(Opcode::Multi, &frame, (4, 0, 20));
    settle_after(&mut rig, Duration::from_millis(3), rpc);
    assert_eq!(counted(&rig, Opcode::Multi), (1, Duration::from_millis(3)));
    assert_eq!(counted(&rig, Opcode::Write), (writes + 2, waited + Duration::from_millis(6)));
}

#[test]
fn what_another_server_is_asked_instead_counts_there_alone() {
    let mut rig = Rig::new();
    rig.take_confirmed();
    rig.send(Opcode::Write, &write());
    rig.settle();
    let (reads, waited) = counted(&rig, Opcode::Read);
    let mut ask = |table, ticket| {
        let request = LocalRequest::Read(KeyRequest { table, rules: RejectRules::default(), key: b"k" });
        let mut effects = Effects::new();
        rig.master.on_local(rig.now, &request, ticket, &rig.view, &mut effects);
        let mut answers = LocalAnswers::default();
        rig.master.swap_local_answers(&mut answers);
        let found: Vec<(u64, Status)> = answers.iter().map(|(ticket, status, _)| (ticket, status)).collect();
        assert_eq!(found.len(), 1);
        (found[0], counted(&rig, Opcode::Read))
    };
    assert_eq!(ask(TableId(6), 1), ((1, Status::WrongOwner), (reads, waited)));
    assert_eq!(ask(TABLE, 2), ((2, Status::Ok), (reads + 1, waited)));
}
