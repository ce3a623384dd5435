//! Nobody hears of what a crash could still take back, neither of what is there nor of what is not.
//!
//! Catalogue: J2. Rules: docs/protocols/consistency.md.

use crate::rig::Rig;
use ramhold_base::{RpcId, Status, TableId, Version};
use ramhold_wire::Opcode;
use ramhold_wire::data::{KeyRequest, RejectRules, WriteRequest};

const TABLE: TableId = TableId(5);

fn write(rules: RejectRules) -> Vec<u8> {
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules, expiry: None, key: b"k", value: b"value" }.encode(&mut body);
    body
}

fn key(rules: RejectRules) -> Vec<u8> {
    let mut body = Vec::new();
    KeyRequest { table: TABLE, rules, key: b"k" }.encode(&mut body);
    body
}

const PLAIN: RejectRules =
    RejectRules { exists: false, absent: false, version_other_than: None, version_at_most: None };

fn is_there(rig: &Rig, rpc: RpcId) -> Option<Status> {
    rig.answer_to(rpc).map(|(status, _)| status)
}

#[test]
fn what_is_there_is_told_when_it_is_durable() {
    let mut rig = Rig::new();
    rig.take_table();
    let questions = [
        (Opcode::Read, key(PLAIN), Status::Ok),
        (Opcode::Write, write(RejectRules { exists: true, ..PLAIN }), Status::Exists),
        (
            Opcode::Read,
            key(RejectRules { version_other_than: Some(Version(77)), ..PLAIN }),
            Status::WrongVersion,
        ),
    ];
    rig.send(Opcode::Write, &write(PLAIN));
    let asked = questions.map(|(opcode, body, status)| (rig.send(opcode, &body), status));
    for (rpc, _) in asked {
        assert_eq!(is_there(&rig, rpc), None, "no backup has the write yet");
    }
    rig.settle();
    for (rpc, status) in asked {
        assert_eq!(is_there(&rig, rpc), Some(status));
    }
}

#[test]
fn what_is_not_there_is_told_when_its_remove_is_durable() {
    let mut rig = Rig::new();
    rig.take_table();
    rig.send(Opcode::Write, &write(PLAIN));
    rig.settle();
    let removed = rig.send(Opcode::Remove, &key(PLAIN));
    let questions = [
        (Opcode::Read, key(PLAIN), Status::NotFound),
        (Opcode::Read, key(RejectRules { absent: true, ..PLAIN }), Status::NotFound),
        (Opcode::Write, write(RejectRules { absent: true, ..PLAIN }), Status::NotFound),
    ];
    let asked = questions.map(|(opcode, body, status)| (rig.send(opcode, &body), status));
    assert_eq!(is_there(&rig, removed), None);
    for (rpc, _) in asked {
        assert_eq!(is_there(&rig, rpc), None, "no backup has the remove yet");
    }
    rig.settle();
    for (rpc, status) in asked {
        assert_eq!(is_there(&rig, rpc), Some(status));
    }
}
