//! Many requests in one frame: each as if it had come alone, and one answer for all.
//!
//! Catalogue: A5. Bytes: docs/formats/messages.md.

use crate::rig::Rig;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::*;
use ramhold_wire::Opcode;
use ramhold_wire::data::*;
use ramhold_wire::multi::{MULTI_ANSWER_BYTES_MAX, decode_answers, encode_item, encode_multi};

const TABLE: TableId = TableId(5);
const LEASE: u64 = 4;

type Item = (Opcode, u64, Vec<u8>);

fn write(sequence: u64, key: &[u8], value: &[u8]) -> Item {
    let mut body = Vec::new();
    WriteRequest { table: TABLE, rules: RejectRules::default(), expiry: None, key, value }.encode(&mut body);
    (Opcode::Write, sequence, body)
}

fn read(key: &[u8]) -> Item {
    let mut body = Vec::new();
    KeyRequest { table: TABLE, rules: RejectRules::default(), key }.encode(&mut body);
    (Opcode::Read, 0, body)
}

fn increment(sequence: u64, key: &[u8], by: i64) -> Item {
    let mut body = Vec::new();
    let by = Number::Integer(by);
    IncrementRequest { table: TABLE, rules: RejectRules::default(), by, key }.encode(&mut body);
    (Opcode::Increment, sequence, body)
}

fn frame(items: &[Item], repeated: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_multi(items.len(), &mut bytes, |out| {
        for (opcode, sequence, body) in items {
            encode_item(*opcode, repeated, Sequence(*sequence), out, |out| out.extend_from_slice(body));
        }
    });
    bytes
}

/// Status and body of each item's answer by its place; none for one that is not answered.
fn answers(rig: &Rig, rpc: RpcId) -> Vec<Option<(Status, Vec<u8>)>> {
    let (status, body) = rig.answer_to(rpc).expect("it is answered");
    assert_eq!(status, Status::Ok);
    let mut found: Vec<_> = decode_answers(&body)
        .map(|a| (a.place, a.status.map(|status| (Status::from_code(status).unwrap(), a.body.to_vec()))))
        .collect();
    found.sort_by_key(|(place, _)| *place);
    assert!(found.iter().enumerate().all(|(at, (place, _))| usize::from(*place) == at), "each once");
    found.into_iter().map(|(_, answer)| answer).collect()
}

fn sum(answer: &Option<(Status, Vec<u8>)>) -> (Status, i64) {
    let (status, body) = answer.as_ref().unwrap();
    (*status, IncrementReply::decode(body).unwrap().bits.cast_signed())
}

#[test]
fn a_frame_is_answered_when_its_last_item_is_durable_and_an_item_sees_those_before_it() {
    let mut rig = Rig::new();
    rig.take_table();
    let items = [
        write(20, b"a", b"one"),
        increment(21, b"n", 5),
        increment(22, b"n", -2),
        read(b"absent"),
        increment(23, b"a", 1),
    ];
    let rpc = rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 20));
    assert!(rig.answer_to(rpc).is_none(), "nobody hears what a crash could take back");
    rig.settle();
    let answered = answers(&rig, rpc);
    assert_eq!(answered[0].as_ref().unwrap().0, Status::Ok);
    assert_eq!((sum(&answered[1]), sum(&answered[2])), ((Status::Ok, 5), (Status::Ok, 3)));
    assert_eq!(answered[3].as_ref().unwrap().0, Status::NotFound);
    assert_eq!(answered[4].as_ref().unwrap().0, Status::NotANumber);
    // The whole frame comes once more: nothing is done again.
    let rpc = rig.send_as(Opcode::Multi, &frame(&items, true), (LEASE, 0, 20));
    assert_eq!(answers(&rig, rpc), answered);
    let rpc = rig.send(Opcode::Read, &read(b"n").2);
    let (_, body) = rig.answer_to(rpc).unwrap();
    assert_eq!(ReadReply::decode(&body).unwrap().value, b"3");
    rig.master.check_invariants();
}

#[test]
fn an_item_ends_on_its_own_and_one_that_may_not_be_remembered_is_not_answered() {
    let mut rig = Rig::new();
    rig.take_table();
    let mut elsewhere = write(30, b"a", b"1");
    elsewhere.2[..4].copy_from_slice(&9u32.to_le_bytes());
    let mut malformed = write(31, b"a", b"1");
    malformed.2.truncate(5);
    // Below the floor: its client knows what it came to.
    let items = [write(25, b"a", b"1"), elsewhere, malformed, write(0, b"b", b"1"), write(32, b"b", b"2")];
    let rpc = rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 28));
    rig.settle();
    let answered = answers(&rig, rpc);
    let statuses: Vec<_> = answered.iter().map(|answer| answer.as_ref().map(|(status, _)| *status)).collect();
    let refused = |status| Some(status);
    assert_eq!(
        statuses,
        [
            None,
            refused(Status::WrongOwner),
            refused(Status::BadRequest),
            refused(Status::BadRequest),
            Some(Status::Ok)
        ]
    );
    // A sequence that was refused is burnt, in a frame as alone.
    let again = [write(30, b"a", b"1"), write(33, b"a", b"1")];
    let rpc = rig.send_as(Opcode::Multi, &frame(&again, false), (LEASE, 0, 30));
    rig.settle();
    let answered = answers(&rig, rpc);
    assert_eq!(answered[0].as_ref().unwrap().0, Status::Retry);
    assert_eq!(answered[1].as_ref().unwrap().0, Status::Ok);
    rig.master.check_invariants();
}

#[test]
fn a_frame_beyond_the_limits_or_within_another_is_refused_whole() {
    let mut rig = Rig::new();
    rig.take_table();
    let nested = (Opcode::Multi, 0, frame(&[read(b"a"), read(b"b")], false));
    let cases = [
        (frame(&[write(40, b"a", b"1"), nested], false), Status::BadRequest),
        (frame(&vec![read(b"a"); 257], false), Status::TooMany),
        (
            frame(&[write(40, b"a", b"1"), write(41, b"a", &vec![0; 1024 * 1024])], false),
            Status::FrameTooLarge,
        ),
        (vec![], Status::BadRequest),
    ];
    for (body, status) in cases {
        let rpc = rig.send_as(Opcode::Multi, &body, (LEASE, 0, 40));
        assert_eq!(rig.answer_to(rpc).unwrap().0, status);
    }
    let rpc = rig.send(Opcode::Read, &read(b"a").2);
    assert_eq!(rig.answer_to(rpc).unwrap().0, Status::NotFound, "nothing of it was done");
}

/// Fails unless the answer to a frame of 200 reads of this value keeps to its bound, with the rest to be asked again.
fn check_full(rig: &Rig, rpc: RpcId, value: &[u8]) {
    let bytes = rig.answer_to(rpc).unwrap().1.len();
    assert!(bytes <= MULTI_ANSWER_BYTES_MAX + 201 * 24, "{bytes}");
    let answered = answers(rig, rpc);
    let full = answered.iter().flatten().filter(|(status, _)| *status == Status::AnswerFull).count();
    let read = answered.iter().flatten().filter(|(status, body)| {
        *status == Status::Ok && ReadReply::decode(body).is_ok_and(|reply| reply.value == value)
    });
    assert_eq!(read.count() + full, 200);
    assert!(full > 20, "{full}");
}

// A5, F8: answers that wait are not in the answer to their frame yet, and have to fit in.
#[test]
fn reads_that_wait_keep_their_room_in_the_answer() {
    let value = vec![7; 12_000];
    let items = vec![read(b"large"); 200];
    let mut rig = Rig::with(4 << 20);
    rig.take_table();
    let written = rig.send(Opcode::Write, &write(0, b"large", &value).2);
    let for_backups = rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 60));
    assert_eq!((rig.answer_to(written), rig.answer_to(for_backups)), (None, None));
    rig.settle();
    check_full(&rig, for_backups, &value);
    rig.now = rig.now + READ_LEASE * 2;
    let for_the_lease = rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 60));
    assert_eq!(rig.answer_to(for_the_lease), None);
    rig.settle();
    check_full(&rig, for_the_lease, &value);
    rig.master.check_invariants();
}

#[test]
fn reads_beyond_what_an_answer_holds_are_to_be_asked_again_and_mutations_are_not() {
    let mut rig = Rig::with(4 << 20);
    rig.take_table();
    // Each takes nearly a whole group; many reads of it are more than one answer.
    let value = vec![7; 12_000];
    let rpc = rig.send(Opcode::Write, &write(0, b"large", &value).2);
    rig.settle();
    assert_eq!(rig.answer_to(rpc).unwrap().0, Status::Ok);
    let mut items = vec![read(b"large"); 200];
    items.push(increment(60, b"n", 1));
    let rpc = rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 60));
    rig.settle();
    check_full(&rig, rpc, &value);
    assert_eq!(sum(&answers(&rig, rpc)[200]), (Status::Ok, 1));
    rig.master.check_invariants();
}

// A5, E1: reads that are answered together are answered as each alone would be.
#[test]
fn reads_of_any_kind_are_answered_in_a_frame_as_alone() {
    let mut rig = Rig::new();
    rig.take_table();
    let key = |number: u64| format!("key {number}").into_bytes();
    let mut rng = Rng::new(5);
    for number in 0..150 {
        // Some are overwritten, and their entries name segments.
        for _ in 0..rng.between(1, 3) {
            rig.send(Opcode::Write, &write(0, &key(number), &vec![number as u8; rng.below(300) as usize]).2);
        }
        rig.settle();
    }
    let expiring = WriteRequest {
        table: TABLE,
        rules: RejectRules::default(),
        expiry: Some(Expiry::After { millis: 1 }),
        key: b"over",
        value: b"v",
    };
    let mut body = Vec::new();
    expiring.encode(&mut body);
    rig.send(Opcode::Write, &body);
    rig.settle();
    rig.now = rig.now + std::time::Duration::from_millis(5);
    rig.tick();
    rig.settle();
    let of_rules = |key: &[u8], rules: RejectRules| {
        let mut body = Vec::new();
        KeyRequest { table: TABLE, rules, key }.encode(&mut body);
        (Opcode::Read, 0, body)
    };
    let mut items: Vec<Item> = (0..190).map(|number| read(&key(number))).collect();
    items.insert(3, read(b"over"));
    items.insert(70, of_rules(&key(1), RejectRules { exists: true, ..RejectRules::default() }));
    let newer = RejectRules { version_at_most: Some(Version(1 << 60)), ..RejectRules::default() };
    items.insert(140, of_rules(&key(2), newer));
    let mut elsewhere = read(b"a");
    elsewhere.2[..4].copy_from_slice(&9u32.to_le_bytes());
    items.insert(9, elsewhere);
    let mut malformed = read(b"a");
    malformed.2.truncate(3);
    items.push(malformed);
    let alone: Vec<_> = items
        .iter()
        .map(|(opcode, _, body)| {
            let rpc = rig.send(*opcode, body);
            rig.settle();
            rig.answer_to(rpc)
        })
        .collect();
    let rpc = rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 20));
    rig.settle();
    assert_eq!(answers(&rig, rpc), alone);
    let statuses = |status| alone.iter().flatten().filter(|(told, _)| *told == status).count();
    assert_eq!((statuses(Status::Ok), statuses(Status::NotFound)), (150, 41));
    assert_eq!(
        [Status::Exists, Status::WrongVersion, Status::WrongOwner, Status::BadRequest].map(statuses),
        [1; 4]
    );
    rig.master.check_invariants();
}

// A5, B2: an object that backups do not have yet is told with the frame when they have it.
#[test]
fn a_read_in_a_frame_waits_for_its_object_to_be_durable() {
    let mut rig = Rig::new();
    rig.take_table();
    rig.send(Opcode::Write, &write(0, b"old", b"1").2);
    rig.settle();
    rig.send(Opcode::Write, &write(0, b"new", b"2").2);
    let items = [read(b"old"), read(b"new"), read(b"absent")];
    let rpc = rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 20));
    assert!(rig.answer_to(rpc).is_none(), "nobody hears what a crash could take back");
    rig.settle();
    let values: Vec<_> = answers(&rig, rpc)
        .iter()
        .flatten()
        .map(|(status, body)| (*status, ReadReply::decode(body).map(|reply| reply.value.to_vec()).ok()))
        .collect();
    assert_eq!(
        values,
        [(Status::Ok, Some(b"1".to_vec())), (Status::Ok, Some(b"2".to_vec())), (Status::NotFound, None)]
    );
    rig.master.check_invariants();
}

// A5: frames that wait for one of their items hold the answers to the others, and those are bounded for all of them together.
#[test]
fn answers_of_frames_that_wait_are_bounded_together() {
    let mut rig = Rig::with(4 << 20);
    rig.take_table();
    rig.send(Opcode::Write, &write(0, b"large", &vec![7; 12_000]).2);
    rig.settle();
    rig.send(Opcode::Write, &write(0, b"new", b"v").2);
    let mut items = vec![read(b"large"); 160];
    items.push(read(b"new"));
    let frames: Vec<RpcId> =
        (0..40).map(|_| rig.send_as(Opcode::Multi, &frame(&items, false), (LEASE, 0, 20))).collect();
    assert!(rig.answer_to(frames[0]).is_none(), "it has an item that is not durable");
    rig.settle();
    let bytes: usize = frames.iter().map(|rpc| rig.answer_to(*rpc).unwrap().1.len()).sum();
    assert!((30 << 20..=33 << 20).contains(&bytes), "{bytes}");
    let too_many = answers(&rig, *frames.last().unwrap())
        .iter()
        .flatten()
        .filter(|(status, _)| *status == Status::TooMany)
        .count();
    assert_eq!(too_many, 161);
    rig.master.check_invariants();
}
