//! More than bricks can do, and a brick that is slow (docs/protocols/quorum.md, rules 7, 38 to 40).

use crate::host::brick_config;
use crate::network::{CLUSTER, Party, address};
use crate::rig::{MILLI, Rig, Setting, TABLE, key_of};
use crate::runs::{SYNCED, seeds};
use crate::sessions::Doing;
use ramhold_base::{RpcId, ServerId, SessionId, Stamp, Status};
use ramhold_node::BrickStatistics;
use ramhold_quorum::Class;
use ramhold_wire::ask::{AskRequest, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::{Header, Opcode, frame};

const WIDE: Setting = Setting { log_bytes: 4 * 1024 * 1024, ..SYNCED };
const PUTS: u64 = 600;
const GETS: u64 = 200;
/// The numbers of gets begin here.
const FIRST_GET: u64 = 1_000_000;
const VALUE: [u8; 700] = [5; 700];

/// Sends a question of the test to the first brick.
fn ask(rig: &mut Rig, number: u64, request: AskRequest<'_>) {
    let header =
        Header { cluster: CLUSTER, target: ServerId(1), ..Header::request(Opcode::Ask, RpcId(number)) };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| request.encode(out));
    rig.send(Party::Test, Party::Host(0), bytes);
}

fn put(rig: &mut Rig, number: u64) {
    let begun = rig.hosts[0].node.as_ref().unwrap().brick.time(rig.instant());
    let stamp = Stamp::new(begun + number, SessionId::of(4).unwrap());
    let value = Some(StampedValue { bytes: &VALUE, expires: None });
    let write = AskedWrite { stamp, begun, is_repair: false, value };
    let key = format!("flood{number}");
    ask(rig, number, AskRequest { table: TABLE, key: key.as_bytes(), what: AskWhat::Write(write) });
}

fn statuses(rig: &Rig, is_one: impl Fn(u64) -> bool) -> Vec<Status> {
    let told = rig.told.iter().filter(|(header, _)| is_one(header.rpc.raw()));
    told.map(|(header, _)| header.status()).collect()
}

fn statistics(rig: &Rig) -> BrickStatistics {
    rig.hosts[0].node.as_ref().unwrap().brick.statistics()
}

/// The most bytes that may wait at a brick of the rig.
fn bound(rig: &Rig) -> usize {
    brick_config(address(0), 0, rig.setting.log_bytes).queue_bytes_max as usize
}

// I5: far more puts than a slow device takes.
#[test]
fn a_flood_of_puts_is_refused_beyond_the_bound_while_gets_go_on_and_all_is_well_afterwards() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, WIDE);
        rig.add_clients(2, 60);
        rig.finish();
        rig.run_for(500 * MILLI);
        let before = statistics(&rig);
        assert_eq!(before.of(Class::Put).queue_length, 0);
        let bound = bound(&rig);
        rig.device_nanos = 400 * MILLI;
        (1..=PUTS).for_each(|number| put(&mut rig, number));
        for number in FIRST_GET..FIRST_GET + GETS {
            let key = key_of(number as usize % rig.setting.keys);
            ask(&mut rig, number, AskRequest { table: TABLE, key: &key, what: AskWhat::Value });
        }
        // No get waits for the device. Frames take 50 ms at most.
        for _ in 0..120 {
            rig.run_for(MILLI);
            let node = rig.hosts[0].node.as_ref().unwrap();
            assert!(node.brick.queued_bytes() <= bound, "memory is bounded");
        }
        assert_eq!(statuses(&rig, |number| number >= FIRST_GET), vec![Status::Ok; GETS as usize]);
        let refused = statuses(&rig, |number| number <= PUTS);
        let now = statistics(&rig);
        let (dropped, waiting) = (now.of(Class::Put).dropped, now.of(Class::Put).queue_length);
        assert!(refused.iter().all(|status| *status == Status::TooMany), "{refused:?}");
        assert_eq!((refused.len() as u64, PUTS), (dropped, dropped + waiting));
        assert!(dropped > PUTS / 2 && waiting > 5, "{dropped} are refused, {waiting} wait");
        assert_eq!((now.of(Class::Get).dropped, now.of(Class::Stamp).dropped), (0, 0));
        assert!(now.of(Class::Get).success >= before.of(Class::Get).success + GETS);
        // The device gets to everything that was taken.
        rig.run_until(|rig| rig.told.len() as u64 == PUTS + GETS);
        let taken = statuses(&rig, |number| number <= PUTS);
        assert_eq!(taken.iter().filter(|status| **status == Status::Ok).count() as u64, waiting);
        let after = statistics(&rig);
        assert_eq!(after.of(Class::Put).queue_length, 0);
        assert!(after.of(Class::Put).latency.nanos() > before.of(Class::Put).latency.nanos());
        // Everything is as before.
        rig.device_nanos = 0;
        rig.told.clear();
        put(&mut rig, PUTS + 1);
        rig.run_until(|rig| rig.told.len() == 1);
        assert_eq!(rig.told[0].0.status(), Status::Ok);
        rig.left += 60;
        (0..2).for_each(|client| rig.go_on(client));
        rig.finish();
        rig.check();
    }
}

// I1: docs/protocols/quorum.md, rule 7.
#[test]
fn a_slow_brick_is_replaced_within_the_operation() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, SYNCED);
        rig.add_clients(1, 80);
        rig.finish();
        let slow = rig.rng.below(3) as usize;
        // An answer of it would come after the deadline of a get.
        rig.far = Some((slow, 300 * MILLI));
        let mut longest = 0;
        for at in 0..40 {
            let begun = rig.now;
            let failed = rig.failed;
            rig.begin_on(0, at % rig.setting.keys, false);
            rig.run_until(|rig| matches!(rig.clients[0].doing, Doing::Nothing));
            assert_eq!(rig.failed, failed, "the others answer");
            longest = longest.max(rig.now - begun);
        }
        assert!(longest >= 60 * MILLI, "the slow brick was asked");
        rig.far = None;
        rig.check();
    }
}
