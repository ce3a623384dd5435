//! Memory that rots under a master: its backups keep real bytes and give them back, or not.
//!
//! Catalogue: C8.

use crate::rig::{Rig, entry};
use ramhold_base::checksum::crc;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::*;
use ramhold_wire::control::encode_into;
use ramhold_wire::count::CountRequest;
use ramhold_wire::data::*;
use ramhold_wire::membership::*;
use ramhold_wire::table::{TabletDrop, TabletTake};
use ramhold_wire::{Header, Opcode, decode};
use std::collections::BTreeMap;
use std::time::Duration;

const TABLE: TableId = TableId(5);

#[derive(Clone, Default)]
struct Replica {
    bytes: Vec<u8>,
    certified: u32,
    closed: bool,
    side: bool,
}

/// A rig whose backups check certificates and keep what they are sent.
struct World {
    rig: Rig,
    replicas: BTreeMap<(ServerId, SegmentId), Replica>,
    /// Backups that answer `ReplicaRead` with this instead of their bytes.
    refusing: BTreeMap<ServerId, Result<Vec<u8>, Status>>,
    reads: Vec<(ServerId, SegmentId)>,
    refused_appends: u32,
    /// Their devices keep what they are sent at once.
    flushes: bool,
    /// The same for heads; side segments are kept all the same.
    flushes_heads: bool,
    opened: Vec<(ServerId, SegmentId)>,
}

impl World {
    fn new(replicas: u8) -> World {
        World::with(replicas, 1 << 20)
    }

    fn with(replicas: u8, log_bytes: u64) -> World {
        let mut world = World {
            rig: Rig::with(log_bytes),
            replicas: BTreeMap::new(),
            refusing: BTreeMap::new(),
            reads: Vec::new(),
            refused_appends: 0,
            flushes: true,
            flushes_heads: true,
            opened: Vec::new(),
        };
        let take = TabletTake {
            table: TABLE,
            seed: PlacementSeed(1),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            durability: if replicas == 0 { Durability::None } else { Durability::Buffered },
            replicas,
            version_floor: Version(0),
            slots: false,
        };
        let mut body = Vec::new();
        encode_into(&mut body, &take);
        let rpc = world.rig.send(Opcode::TabletTake, &body);
        world.exchange();
        assert_eq!(world.rig.answer_to(rpc).unwrap().0, Status::Ok);
        world.rig.confirm_lease(4);
        world
    }

    /// The coordinator says something.
    fn tell<M: ramhold_wire::Message>(&mut self, message: &M) {
        let mut body = Vec::new();
        encode_into(&mut body, message);
        let rpc = self.rig.send(M::OPCODE, &body);
        self.exchange();
        assert_eq!(self.rig.answer_to(rpc).unwrap().0, Status::Ok);
    }

    /// Backups and coordinator answer until nobody asks.
    fn exchange(&mut self) {
        for _ in 0..10_000 {
            if self.rig.asked.is_empty() {
                return;
            }
            let (header, body) = self.rig.asked.remove(0);
            let (status, answer) = match header.opcode() {
                Some(Opcode::Append) => self.append(&header, &body),
                Some(Opcode::ReplicaRead) => self.replica_read(&header, &body),
                Some(Opcode::LeaseCheck) => (Status::Ok, self.rig.checked(&body)),
                Some(Opcode::ReplicaFree) => {
                    self.replicas.remove(&(header.target, header.segment));
                    (Status::Ok, Vec::new())
                }
                _ => {
                    let mut body = Vec::new();
                    encode_into(&mut body, &ramhold_wire::control::Empty {});
                    (Status::Ok, body)
                }
            };
            let mut effects = Effects::new();
            let Rig { master, view, now, .. } = &mut self.rig;
            match ramhold_wire::CallRole::of(header.rpc) {
                Some(ramhold_wire::CallRole::Master) => {
                    master.on_reply(*now, &header.answer(status), &answer, view, &mut effects);
                }
                _ => master.on_replication_reply(*now, &header.answer(status), &answer, view),
            }
            self.rig.end_turn(effects);
        }
        panic!("they never stop asking");
    }

    fn append(&mut self, header: &Header, body: &[u8]) -> (Status, Vec<u8>) {
        let request = AppendRequest::decode(body).unwrap();
        let held = self.replicas.entry((header.target, header.segment)).or_default();
        if request.open {
            self.opened.push((header.target, header.segment));
            *held = Replica { side: request.side, ..Replica::default() };
        }
        let mut after = held.clone();
        let skip = (after.bytes.len() - request.offset as usize).min(request.data.len());
        after.bytes.extend_from_slice(&request.data[skip..]);
        let mut status = Status::Ok;
        if let Some(certificate) = request.certificate {
            if crc(&after.bytes[..certificate.length as usize]) == certificate.crc {
                after.certified = certificate.length;
            } else {
                status = Status::CorruptReplica;
                self.refused_appends += 1;
            }
        }
        after.closed |= request.close;
        match status {
            Status::Ok => *held = after,
            _ => *held = Replica::default(),
        }
        let mut answer = Vec::new();
        AppendReply {
            length: held.bytes.len() as u32,
            certified: held.certified,
            epoch: header.epoch,
            closed: held.closed,
            flushed: if self.flushes && (self.flushes_heads || held.side) { held.certified } else { 0 },
        }
        .encode(&mut answer);
        (status, answer)
    }

    fn replica_read(&mut self, header: &Header, body: &[u8]) -> (Status, Vec<u8>) {
        let name = decode::<ReplicaRead>(body).unwrap().replica;
        self.reads.push((header.target, name.segment));
        match self.refusing.get(&header.target) {
            Some(Ok(bytes)) => (Status::Ok, bytes.clone()),
            Some(Err(status)) => (*status, Vec::new()),
            None => match self.replicas.get(&(header.target, name.segment)) {
                Some(replica) => (Status::Ok, replica.bytes[..replica.certified as usize].to_vec()),
                None => (Status::UnknownReplica, Vec::new()),
            },
        }
    }

    fn pass(&mut self, time: Duration) {
        self.rig.now = self.rig.now + time;
        let mut effects = Effects::new();
        self.rig.master.tick(self.rig.now, &self.rig.view, &mut effects);
        self.rig.take(effects);
    }

    fn ask(&mut self, opcode: Opcode, body: &[u8]) -> (Status, Vec<u8>) {
        let rpc = self.rig.send(opcode, body);
        self.exchange();
        let answer = self.rig.answer_to(rpc).expect("everything is durable");
        // Meanwhile the coordinator has granted it.
        if answer.0 == Status::NotLeased { self.ask(opcode, body) } else { answer }
    }

    fn key_body(&self, number: u32, rules: RejectRules) -> Vec<u8> {
        let mut body = Vec::new();
        KeyRequest { table: TABLE, rules, key: &key(number) }.encode(&mut body);
        body
    }

    fn read(&mut self, number: u32) -> Result<Vec<u8>, Status> {
        let body = self.key_body(number, RejectRules::default());
        match self.ask(Opcode::Read, &body) {
            (Status::Ok, body) => Ok(ReadReply::decode(&body).unwrap().value.to_vec()),
            (status, _) => Err(status),
        }
    }

    fn remove(&mut self, number: u32) -> Status {
        let body = self.key_body(number, RejectRules::default());
        self.ask(Opcode::Remove, &body).0
    }

    fn write_with(&mut self, number: u32, value: &[u8], rules: RejectRules) -> (Status, Version) {
        let mut body = Vec::new();
        WriteRequest { table: TABLE, rules, expiry: None, key: &key(number), value }.encode(&mut body);
        let (status, body) = self.ask(Opcode::Write, &body);
        (status, decode_version(&body).unwrap_or_default())
    }

    fn write(&mut self, number: u32, value: &[u8]) -> Status {
        self.write_with(number, value, RejectRules::default()).0
    }

    /// Writes until there is a closed segment with objects in it; returns it. Key 0 is in it.
    fn closed_segment(&mut self) -> SegmentId {
        assert_eq!(self.write(0, &value(0)), Status::Ok);
        let segment = self.rig.master.log().stream_segments(StreamId(1)).last().unwrap();
        for number in 1.. {
            assert_eq!(self.write(number, &value(number)), Status::Ok);
            if self.rig.master.log().segment(segment).unwrap().closed {
                return segment;
            }
        }
        unreachable!()
    }

    /// Flips a bit of key 0's value, which is the first object of its segment.
    fn damage(&mut self, segment: SegmentId) {
        let opening = self.rig.master.log().segment(segment).unwrap().opening_bytes;
        // Before it stands the result of its write.
        self.rig.master.flip_bit(segment, opening + 46 + 60, 3);
        assert!(self.rig.master.log().damage_in(segment).is_some());
    }

    fn status(&self) -> ramhold_wire::status::ScrubStatus {
        let mut status = ramhold_wire::status::ProcessStatus::default();
        self.rig.master.status_into(&mut status, &self.rig.view);
        status.scrub.unwrap()
    }

    fn counts(&self) -> [u64; 4] {
        let status = self.status();
        [status.damaged, status.repaired, status.lost, status.waiting]
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 1000]
}

#[test]
fn a_damaged_object_is_asked_for_and_then_served() {
    let mut world = World::new(2);
    let segment = world.closed_segment();
    world.damage(segment);
    assert_eq!(world.read(0), Err(Status::Retry));
    assert_eq!(world.reads.len(), 1, "the question left with the answer");
    assert_eq!(world.read(0), Ok(value(0)));
    assert_eq!(world.counts(), [1, 1, 0, 0]);
    world.rig.master.check_invariants();
}

#[test]
fn writes_and_removes_of_a_damaged_key_wait_for_the_repair() {
    for removes in [false, true] {
        let mut world = World::new(2);
        let segment = world.closed_segment();
        world.damage(segment);
        world.refusing.insert(ServerId(1), Err(Status::Retry));
        world.refusing.insert(ServerId(2), Err(Status::Retry));
        let mutate = |world: &mut World| if removes { world.remove(0) } else { world.write(0, b"new") };
        assert_eq!(mutate(&mut world), Status::Retry);
        world.refusing.clear();
        world.pass(Duration::from_millis(60));
        world.exchange();
        assert_eq!(mutate(&mut world), Status::Ok);
        assert_eq!(world.read(0), if removes { Err(Status::NotFound) } else { Ok(b"new".to_vec()) });
        world.rig.master.check_invariants();
    }
}

#[test]
fn the_next_backup_is_asked_when_one_has_nothing_that_fits() {
    let rotten = |world: &World, segment| {
        let mut bytes = world.replicas[&(ServerId(1), segment)].bytes.clone();
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    for trouble in [Err(Status::CorruptReplica), Err(Status::UnknownReplica), Ok(())] {
        for bad in [ServerId(1), ServerId(2)] {
            let mut world = World::new(2);
            let segment = world.closed_segment();
            let answer = trouble.map(|()| rotten(&world, segment));
            world.refusing.insert(bad, answer);
            world.damage(segment);
            assert_eq!(world.read(0), Err(Status::Retry));
            assert_eq!(world.read(0), Ok(value(0)), "{trouble:?} from {bad}");
            world.opened.clear();
            for _ in 0..10 {
                world.pass(Duration::from_secs(1));
                world.exchange();
            }
            // Who was not asked before another one helped has said nothing about its own.
            let said = world.reads.contains(&(bad, segment)) && trouble == Err(Status::CorruptReplica);
            assert_eq!(
                world.opened.contains(&(bad, segment)),
                said,
                "a replica that is corrupt is made anew"
            );
            assert!(world.rig.master.is_fully_replicated());
        }
    }
}

#[test]
fn with_no_replica_that_fits_the_answer_is_final_until_there_is_one() {
    let mut world = World::new(2);
    let segment = world.closed_segment();
    world.damage(segment);
    for backup in [ServerId(1), ServerId(2)] {
        world.refusing.insert(backup, Err(Status::CorruptReplica));
    }
    assert_eq!(world.read(0), Err(Status::Retry));
    for _ in 0..5 {
        world.pass(Duration::from_secs(1));
        world.exchange();
    }
    assert_eq!(world.read(0), Err(Status::Corrupt));
    assert_eq!(world.write(0, b"new"), Status::Corrupt);
    assert!(world.read(1).is_ok(), "others are served");
    assert_eq!(world.counts(), [1, 0, 0, 1]);
    let asked = world.reads.len();
    for _ in 0..100 {
        world.pass(Duration::from_millis(10));
        world.exchange();
    }
    assert!(world.reads.len() - asked <= 4, "it is not asked for all the time");
    world.refusing.clear();
    for _ in 0..40 {
        world.pass(Duration::from_secs(1));
        world.exchange();
    }
    assert_eq!(world.read(0), Ok(value(0)));
}

#[test]
fn a_backup_that_does_not_answer_is_passed_over() {
    let mut world = World::new(2);
    let segment = world.closed_segment();
    world.damage(segment);
    let body = world.key_body(0, RejectRules::default());
    world.rig.send(Opcode::Read, &body);
    world.rig.asked.retain(|(header, _)| header.opcode() != Some(Opcode::ReplicaRead));
    world.pass(Duration::from_secs(11));
    world.exchange();
    assert_eq!(world.read(0), Ok(value(0)));
}

#[test]
fn the_scrub_finds_what_nobody_reads() {
    let mut world = World::new(2);
    let segment = world.closed_segment();
    // Into the first round, which has seen nothing closed, and its rest.
    world.pass(Duration::from_millis(1));
    world.damage(segment);
    for _ in 0..700 {
        world.pass(Duration::from_secs(1));
        world.exchange();
    }
    assert_eq!(world.counts(), [1, 1, 0, 0]);
    assert!(world.status().rounds >= 2);
    assert!(world.status().bytes > u64::from(world.rig.master.log().segment(segment).unwrap().len_bytes));
    assert_eq!(world.read(0), Ok(value(0)));
}

#[test]
fn the_scrub_keeps_its_pace() {
    let mut world = World::with(2, 2 << 20);
    for number in 0..1000 {
        assert_eq!(world.write(number, &value(number)), Status::Ok);
    }
    let begun = world.status().bytes;
    for _ in 0..60 {
        // Whenever it wants to be called, but never without time having passed.
        let due = world.rig.master.deadline().unwrap().max(world.rig.now + Duration::from_micros(100));
        let pause = due.since(world.rig.now).min(Duration::from_micros(500));
        world.pass(pause);
        world.exchange();
    }
    let elapsed = world.rig.now.since(Instant(1));
    let scrubbed = world.status().bytes - begun;
    assert!(scrubbed > 0);
    let allowed = 8 * 1024 * 1024 * (elapsed.as_micros() as u64) / 1_000_000 + 128 * 1024;
    assert!(scrubbed <= allowed, "{scrubbed} bytes in {elapsed:?}");
}

/// A pass that meets damage asks for the segment and waits, without turning in circles; then it goes on.
#[test]
fn cleaning_stops_at_damage_and_goes_on_after_the_repair() {
    let mut world = World::with(2, 512 * 1024);
    // The scrub is done for the next minutes: it must not be what finds it.
    world.pass(Duration::from_millis(1));
    let segment = world.closed_segment();
    world.damage(segment);
    for backup in [ServerId(1), ServerId(2)] {
        world.refusing.insert(backup, Err(Status::Retry));
    }
    let mut waits = 0;
    for round in 0..2000_u32 {
        let status = world.write(1 + round % 60, &value(round));
        assert!(matches!(status, Status::Ok | Status::Retry | Status::OutOfMemory), "{status:?}");
        if world.rig.master.cleaning().damaged > 0 {
            waits += 1;
        }
        if waits == 20 {
            assert_eq!(world.counts(), [1, 0, 0, 1]);
            assert_eq!(world.read(0), Err(Status::Retry));
            assert!(world.rig.master.deadline() > Some(world.rig.now), "it waits for the repair in peace");
            world.refusing.clear();
        }
        world.pass(Duration::from_millis(10));
        world.exchange();
    }
    assert!(waits > 20, "a pass met the damage");
    assert_eq!(world.counts(), [1, 1, 0, 0]);
    assert_eq!(world.read(0), Ok(value(0)));
    let cleaning = world.rig.master.cleaning();
    assert!(cleaning.segments_retired + cleaning.compactions > 5, "{cleaning:?}");
    world.rig.master.check_invariants();
}

/// The head of a stream is rolled for every tablet that it takes: of tables that come and go nothing is left but frames,
/// and these do not grow without bound although there is memory.
// C6, E3
#[test]
fn frames_of_dropped_tables_come_free() {
    let mut world = World::with(2, 512 * 1024);
    let limit = 2 * 512 / 32;
    for number in 10..200 {
        let table = TableId(number);
        let take = TabletTake {
            table,
            seed: PlacementSeed(1),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            durability: Durability::Buffered,
            replicas: 2,
            version_floor: Version(0),
            slots: false,
        };
        world.tell(&take);
        world.tell(&TabletDrop { table });
        for _ in 0..20 {
            world.pass(Duration::from_millis(10));
            world.exchange();
        }
        let frames = world.replicas.len() / 2;
        assert!(frames <= limit + 8, "{frames} frames on each backup after {number}");
    }
    world.rig.master.check_invariants();
}

/// A pass that has copied everything waits until its survivors are on the devices, then until the head is that does not
/// name the sources: before, those may be all that there is after a loss of power.
// C6
#[test]
fn survivors_and_sources_wait_for_the_devices() {
    let mut world = World::with(2, 512 * 1024);
    let has = |world: &World, mark: &str| world.rig.reports.iter().any(|report| report == mark);
    world.flushes = false;
    for round in 0..2000_u32 {
        world.write(1 + round % 60, &value(round));
        world.pass(Duration::from_millis(10));
        world.exchange();
        if has(&world, "mark:survivors_copied") {
            break;
        }
    }
    assert!(has(&world, "mark:survivors_copied"));
    let wait = |world: &mut World| {
        for _ in 0..50 {
            world.pass(Duration::from_millis(20));
            world.exchange();
        }
    };
    wait(&mut world);
    assert!(!has(&world, "mark:survivors_entered"));
    world.flushes = true;
    world.flushes_heads = false;
    wait(&mut world);
    assert!(has(&world, "mark:survivors_entered"));
    assert!(!has(&world, "mark:sources_retired"), "no device has a head that does not name them");
    world.flushes_heads = true;
    wait(&mut world);
    assert!(has(&world, "mark:sources_retired"));
    world.rig.master.check_invariants();
}

/// A new replica is made from memory: the backup refuses what its certificate, which is of the bytes as they were
/// appended, does not confirm. That begins the repair, also of a head, which no scrub looks at.
#[test]
fn damage_is_never_replicated_again() {
    for is_head in [false, true] {
        let mut world = World::new(2);
        // The scrub is done for the next minutes: it must not be what finds it.
        world.pass(Duration::from_millis(1));
        let segment = world.closed_segment();
        let segment = if is_head {
            world.rig.master.log().stream_segments(StreamId(1)).last().unwrap()
        } else {
            segment
        };
        world.damage(segment);
        world.rig.list_changes(vec![entry(3)], vec![ServerId(2)]);
        for _ in 0..20 {
            let copy = world.replicas.get(&(ServerId(3), segment));
            let is_whole = world.rig.master.log().damage_in(segment).is_none();
            assert!(is_whole || copy.is_none_or(|copy| copy.certified == 0), "nothing of it exists");
            world.pass(Duration::from_secs(1));
            world.exchange();
        }
        assert!(world.refused_appends > 0);
        assert_eq!(world.counts(), [1, 1, 0, 0], "the new backup has found it out");
        let copies: Vec<_> = [1, 3].map(|id| world.replicas[&(ServerId(id), segment)].bytes.clone()).to_vec();
        assert_eq!(copies[0], copies[1]);
        assert_eq!(world.read(0), Ok(value(0)));
        assert!(world.rig.master.is_fully_replicated());
        assert!(world.rig.master.take_events().is_empty());
    }
}

/// All backups of a segment die while it is damaged here, and come back under other ids with what they held.
#[test]
fn backups_that_came_back_are_asked_too() {
    let mut world = World::new(2);
    let segment = world.closed_segment();
    world.damage(segment);
    let replicas = std::mem::take(&mut world.replicas);
    world.replicas = replicas.into_iter().map(|((id, seg), it)| ((ServerId(id.0 + 2), seg), it)).collect();
    world.refusing.insert(ServerId(3), Err(Status::UnknownReplica));
    world.rig.list_changes(vec![entry(3), entry(4)], vec![ServerId(1), ServerId(2)]);
    world.rig.asked.retain(|(header, _)| header.opcode() != Some(Opcode::Append));
    assert_eq!(world.read(0), Err(Status::Retry));
    for _ in 0..5 {
        world.pass(Duration::from_millis(500));
        world.exchange();
    }
    assert_eq!(world.read(0), Ok(value(0)));
    assert!(world.reads.contains(&(ServerId(4), segment)));
}

/// An entry that is damaged before any backup has it cannot be repaired, and no later append can be acknowledged. The
/// entry was not acknowledged itself: the server must end, to be recovered up to there.
#[test]
fn damage_that_nobody_has_a_copy_of_ends_the_server() {
    let mut world = World::new(2);
    assert_eq!(world.write(0, &value(0)), Status::Ok);
    let segment = world.rig.master.log().stream_segments(StreamId(1)).last().unwrap();
    let mut body = Vec::new();
    let request = WriteRequest {
        table: TABLE,
        rules: RejectRules::default(),
        expiry: None,
        key: &key(1),
        value: &value(1),
    };
    request.encode(&mut body);
    let rpc = world.rig.send(Opcode::Write, &body);
    // Lost on its way; it will be sent again from memory.
    world.rig.asked.clear();
    let end = world.rig.master.log().segment(segment).unwrap().len_bytes;
    world.rig.master.flip_bit(segment, end - 10, 3);
    for _ in 0..20 {
        assert!(world.rig.master.take_events().is_empty());
        world.pass(Duration::from_millis(100));
        world.exchange();
        if world.refused_appends > 0 {
            break;
        }
    }
    assert!(world.refused_appends > 0);
    for _ in 0..20 {
        world.pass(Duration::from_millis(100));
        world.exchange();
    }
    assert_eq!(world.rig.answer_to(rpc), None, "it is not acknowledged");
    let events = world.rig.master.take_events();
    assert!(events.contains(&ramhold_master::Event::Beyond(segment)), "{events:?}");
}

#[test]
fn without_replicas_the_object_is_lost_and_says_so() {
    let mut world = World::new(0);
    let segment = world.closed_segment();
    world.damage(segment);
    assert_eq!(world.read(0), Err(Status::Retry));
    assert_eq!(world.counts(), [1, 0, 1, 0]);
    assert!(world.rig.reports.iter().any(|text| text.contains("objects lost: 1")));
    assert_eq!(world.read(0), Err(Status::Corrupt), "it is not absent");
    let mut count = Vec::new();
    CountRequest { table: TABLE, first: KeyHash(0) }.encode(&mut count);
    assert_eq!(world.ask(Opcode::Count, &count).0, Status::Corrupt, "nobody knows which objects are lost");
    assert_eq!(world.rig.master.objects_by_table().get(&TABLE), Some(&None));
    assert!(world.read(2).is_ok());
    let exists = RejectRules { exists: true, ..RejectRules::default() };
    assert_eq!(world.write_with(0, b"new", exists).0, Status::Corrupt, "nobody knows whether it exists");
    let (status, version) = world.write_with(0, b"new", RejectRules::default());
    assert_eq!(status, Status::Ok);
    assert!(version > Version(1), "above every version that it may have had");
    assert_eq!(world.read(0), Ok(b"new".to_vec()));
    assert_eq!(world.remove(0), Status::Ok);
    assert_eq!(world.read(0), Err(Status::NotFound));
    world.rig.master.check_invariants();
}

#[test]
fn a_dropped_table_waits_for_what_is_damaged_and_does_not_come_back() {
    let mut world = World::new(2);
    let segment = world.closed_segment();
    world.damage(segment);
    for backup in [ServerId(1), ServerId(2)] {
        world.refusing.insert(backup, Err(Status::Retry));
    }
    let mut body = Vec::new();
    encode_into(&mut body, &TabletDrop { table: TABLE });
    assert_eq!(world.ask(Opcode::TabletDrop, &body).0, Status::Ok);
    for _ in 0..10 {
        world.pass(Duration::from_millis(1));
    }
    assert_eq!(world.rig.master.log().usage().index_entry_count, 1);
    assert!(world.rig.master.deadline() > Some(world.rig.now), "it waits in peace");
    world.refusing.clear();
    for _ in 0..10 {
        world.pass(Duration::from_secs(1));
        world.exchange();
    }
    assert_eq!(world.rig.master.log().usage().index_entry_count, 0);
    world.rig.master.check_invariants();
}
