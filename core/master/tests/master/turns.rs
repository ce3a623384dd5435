//! Everything that comes in one turn goes to the backups together, and everything that a turn makes durable is answered
//! together.
//!
//! Catalogue: D1, E3. Protocol: docs/protocols/replication.md, "Batches".

use crate::rig::Rig;
use ramhold_base::*;
use ramhold_wire::data::{AppendReply, AppendRequest, RejectRules, WriteRequest};
use ramhold_wire::{Header, Opcode};

const TABLE: TableId = TableId(5);
/// Replicas of the table, and so messages of a round.
const REPLICAS: usize = 2;

/// A write that comes in the present turn.
fn come(rig: &mut Rig, key: &[u8], value: &[u8]) -> RpcId {
    let mut body = Vec::new();
    let rules = RejectRules::default();
    WriteRequest { table: TABLE, rules, expiry: None, key, value }.encode(&mut body);
    rig.rpc += 1;
    rig.sequence += 1;
    let header = Header {
        cluster: rig.view.cluster,
        target: rig.view.me,
        lease: LeaseId(4),
        sequence: Sequence(rig.sequence),
        unacknowledged: Sequence(1),
        ..Header::request(Opcode::Write, RpcId(rig.rpc))
    };
    let mut effects = Effects::new();
    rig.master.on_request(
        rig.now,
        Opcode::Write.try_into().expect("an operation of masters"),
        &header,
        &body,
        ConnId(1),
        &rig.view,
        &mut effects,
    );
    rig.take(effects);
    header.rpc
}

fn come_many(rig: &mut Rig, first: u8) -> Vec<RpcId> {
    (first..first + 20).map(|key| come(rig, &[key], b"value")).collect()
}

fn turn_over(rig: &mut Rig) {
    rig.end_turn(Effects::new());
}

fn appends(rig: &Rig) -> usize {
    rig.asked.iter().filter(|(header, _)| header.opcode() == Some(Opcode::Append)).count()
}

fn answered(rig: &Rig, asked: &[RpcId]) -> usize {
    asked.iter().filter(|rpc| rig.answer_to(**rpc).is_some_and(|(status, _)| status == Status::Ok)).count()
}

/// All backups answer what they were sent, within the present turn.
fn backups_answer(rig: &mut Rig) {
    for (header, body) in std::mem::take(&mut rig.asked) {
        assert_eq!(header.opcode(), Some(Opcode::Append));
        let request = AppendRequest::decode(&body).unwrap();
        let length = request.offset + request.data.len() as u32;
        let mut body = Vec::new();
        AppendReply { length, certified: length, epoch: header.epoch, closed: false, flushed: length }
            .encode(&mut body);
        rig.master.on_replication_reply(rig.now, &header.answer(Status::Ok), &body, &rig.view);
    }
}

fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.take_table();
    rig.settle();
    rig.asked.clear();
    rig
}

// E3
#[test]
fn a_turn_costs_one_message_for_each_backup_and_a_round_under_way_collects_the_next() {
    let mut rig = rig();
    let first = come_many(&mut rig, 0);
    assert_eq!(appends(&rig), 0, "the turn goes on");
    turn_over(&mut rig);
    assert_eq!(appends(&rig), REPLICAS, "at once: nothing is under way");
    let second = come_many(&mut rig, 20);
    turn_over(&mut rig);
    let third = come_many(&mut rig, 40);
    turn_over(&mut rig);
    assert_eq!(appends(&rig), REPLICAS, "the rest waits for the answers");

    backups_answer(&mut rig);
    assert_eq!((appends(&rig), answered(&rig, &first)), (0, 0), "the turn goes on");
    turn_over(&mut rig);
    assert_eq!(answered(&rig, &first), 20);
    assert_eq!(appends(&rig), REPLICAS, "all that has come meanwhile");
    assert_eq!(answered(&rig, &[second.clone(), third.clone()].concat()), 0);
    backups_answer(&mut rig);
    turn_over(&mut rig);
    assert_eq!(answered(&rig, &[second, third].concat()), 40);
    assert_eq!(appends(&rig), 0);
}

// D1, E3: an answer of one backup of two makes nothing durable, whenever it comes.
#[test]
fn one_answer_of_two_makes_nothing_durable() {
    let mut rig = rig();
    let asked = come_many(&mut rig, 0);
    turn_over(&mut rig);
    let other = rig.asked.pop().unwrap();
    backups_answer(&mut rig);
    turn_over(&mut rig);
    assert_eq!(answered(&rig, &asked), 0);
    rig.asked = vec![other];
    backups_answer(&mut rig);
    turn_over(&mut rig);
    assert_eq!(answered(&rig, &asked), 20);
}

// E3
#[test]
fn large_values_are_on_their_way_before_the_turn_is_over() {
    let mut rig = rig();
    let value = vec![7; 10_000];
    let mut asked = Vec::new();
    while appends(&rig) == 0 {
        assert!(asked.len() < 7, "70,000 bytes wait for the end of the turn");
        asked.push(come(&mut rig, &[asked.len() as u8], &value));
    }
    assert!(asked.len() > 1);
    turn_over(&mut rig);
    rig.settle();
    assert_eq!(answered(&rig, &asked), asked.len());
}

// D1, E3
#[test]
fn a_turn_in_which_the_head_is_filled_is_answered_as_a_whole() {
    let mut rig = rig();
    let first = rig.master.log_end(TABLE).segment;
    let value = vec![7; 1000];
    let mut asked = Vec::new();
    let mut left = 3;
    while left > 0 {
        assert!(asked.len() < 60, "the turn's bytes have been sent before the head is full");
        asked.push(come(&mut rig, &(asked.len() as u32).to_be_bytes(), &value));
        left -= u32::from(rig.master.log_end(TABLE).segment != first);
    }
    assert_eq!(answered(&rig, &asked), 0, "no backup has answered");
    turn_over(&mut rig);
    rig.settle();
    assert_eq!(answered(&rig, &asked), asked.len());
}

// E3
#[test]
fn a_turn_that_put_nothing_off_sends_nothing() {
    let mut rig = rig();
    assert!(!rig.master.puts_off());
    let mut effects = Effects::new();
    rig.master.turn_over(rig.now, &rig.view, &mut effects);
    assert!(effects.list.is_empty(), "{:?}", effects.list);
}
