//! A brick whose memory is full (docs/protocols/quorum.md, rule 40).

use crate::network::{CLUSTER, Party};
use crate::rig::{Rig, TABLE};
use crate::runs::{BUFFERED, seeds};
use ramhold_base::{RpcId, ServerId, SessionId, Stamp, Status};
use ramhold_wire::ask::{AskRequest, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::{Header, Opcode, frame};

const VALUE: [u8; 700] = [5; 700];
/// More values than the log has room for.
const PUTS_MAX: u64 = 1000;

/// Asks the first brick, and waits for its answer.
fn ask(rig: &mut Rig, number: u64, key: &str, what: AskWhat<'_>) -> Status {
    let header =
        Header { cluster: CLUSTER, target: ServerId(1), ..Header::request(Opcode::Ask, RpcId(number)) };
    let mut bytes = Vec::new();
    let request = AskRequest { table: TABLE, key: key.as_bytes(), what };
    frame::write(&mut bytes, &header, |out| request.encode(out));
    rig.told.clear();
    rig.send(Party::Test, Party::Host(0), bytes);
    rig.run_until(|rig| !rig.told.is_empty());
    rig.told[0].0.status()
}

fn write(rig: &mut Rig, number: u64, key: &str, value: Option<&[u8]>, is_repair: bool) -> Status {
    let begun = rig.hosts[0].node.as_ref().unwrap().brick.time(rig.instant());
    let stamp = Stamp::new(begun + number, SessionId::of(4).unwrap());
    let value = value.map(|bytes| StampedValue { bytes, expires: None });
    ask(rig, number, key, AskWhat::Write(AskedWrite { stamp, begun, is_repair, value }))
}

fn is_full(rig: &Rig) -> bool {
    rig.hosts[0].node.as_ref().unwrap().seen(rig.instant()).status.cleaning.unwrap().is_full
}

// I5, C6: it says so, and reads with their repairs go on, and the removal of what others have.
#[test]
fn a_full_brick_says_so_and_takes_repairs() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        let mut number = 1;
        let key = |number: u64| format!("fill{number}");
        while write(&mut rig, number, &key(number), Some(&VALUE), false) == Status::Ok {
            assert!(number < PUTS_MAX && !is_full(&rig), "after {number} puts");
            number += 1;
        }
        let stored = number - 1;
        assert!(stored > 100, "{stored} puts were stored");
        number += 1;
        assert_eq!(write(&mut rig, number, "more", Some(&VALUE), false), Status::OutOfMemory);
        assert!(is_full(&rig));
        number += 1;
        assert_eq!(ask(&mut rig, number, &key(1), AskWhat::Value), Status::Ok);
        // Others have stored these, and a get waits for one more brick.
        for missed in 0..4 {
            number += 1;
            let status = write(&mut rig, number, &format!("missed{missed}"), Some(&VALUE), true);
            assert_eq!(status, Status::Ok, "repair {missed}");
        }
        number += 1;
        assert_eq!(write(&mut rig, number, "missed by this one", None, false), Status::Ok);
        assert!(is_full(&rig), "repairs say nothing of room for puts");
        rig.check();
    }
}
