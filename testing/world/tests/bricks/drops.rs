//! Tables that are dropped, and tables that come with the same assignment (docs/protocols/quorum.md, rules 17, 31).

use crate::network::{CLUSTER, Party};
use crate::rig::{MILLI, Rig, TABLE};
use crate::runs::{BUFFERED, seeds};
use ramhold_base::{RpcId, ServerId, Status, TableId};
use ramhold_wire::ask::{AskRequest, AskWhat};
use ramhold_wire::{Header, Opcode, frame};

/// The table that takes the place of the first one.
const NEXT: TableId = TableId(8);

/// The status with which each brick answers a question about a key of a table.
fn asked(rig: &mut Rig, table: TableId) -> Vec<Status> {
    rig.told.clear();
    for host in 0..3 {
        let target = ServerId(host as u64 + 1);
        let header = Header { cluster: CLUSTER, target, ..Header::request(Opcode::Ask, RpcId(1)) };
        let mut bytes = Vec::new();
        let request = AskRequest { table, key: b"key1", what: AskWhat::Value };
        frame::write(&mut bytes, &header, |out| request.encode(out));
        rig.on_frame(Party::Test, Party::Host(host), bytes);
    }
    rig.run_until(|rig| rig.told.len() == 3);
    rig.told.iter().map(|(header, _)| header.status()).collect()
}

fn keys(rig: &Rig, host: usize) -> u64 {
    rig.hosts[host].node.as_ref().unwrap().brick.log().unwrap().key_count()
}

// A1: a truncation drops a table and gives another one, in one assignment.
#[test]
fn a_table_goes_and_another_one_comes_with_one_assignment() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 100);
        rig.finish();
        assert_eq!(asked(&mut rig, TABLE), [Status::Ok; 3]);
        // Sometimes a brick is away, or is being rebuilt.
        if rig.rng.chance(1, 2) {
            rig.cut_power(0);
            rig.start_after(0, MILLI);
        }
        rig.assignment = Some(rig.assignment(2, NEXT, vec![TABLE]));
        let has_taken = |rig: &Rig| {
            rig.hosts.iter().all(|host| host.node.as_ref().is_some_and(|node| node.brick.taken() == 2))
        };
        rig.run_until(has_taken);
        assert_eq!(asked(&mut rig, TABLE), [Status::UnknownTable; 3]);
        rig.run_until(Rig::all_vote);
        assert_eq!(asked(&mut rig, NEXT), [Status::Ok; 3]);
        rig.run_until(|rig| (0..3).all(|host| keys(rig, host) == 0));
        for host in 0..3 {
            rig.kill(host);
            rig.start(host);
        }
        rig.run_until(Rig::all_vote);
        assert_eq!(asked(&mut rig, TABLE), [Status::UnknownTable; 3], "it is back");
        assert_eq!(asked(&mut rig, NEXT), [Status::Ok; 3]);
        assert!((0..3).all(|host| keys(&rig, host) == 0), "its keys are back");
        rig.hosts.iter().for_each(|host| host.node.as_ref().unwrap().check_invariants());
    }
}
