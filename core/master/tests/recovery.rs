//! A master between scripted backups and a scripted coordinator: recoveries, drops, and what hostile messages do.
//!
//! Catalogue: F4, F5, F6.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use ramhold_base::hash::PlacementSeed;
use ramhold_base::*;
use ramhold_log::Geometry;
use ramhold_master::{Master, MasterConfig};
use ramhold_wire::control::{Address, encode_into};
use ramhold_wire::data::{AppendReply, AppendRequest};
use ramhold_wire::membership::*;
use ramhold_wire::recovery::*;
use ramhold_wire::table::TabletDrop;
use ramhold_wire::{Header, Opcode, View, decode, frame};

struct Rig {
    master: Master,
    view: View,
    now: Instant,
    rpc: u64,
    asked: Vec<(Header, Vec<u8>)>,
    answers: Vec<(Header, Vec<u8>)>,
}
impl Rig {
    fn new() -> Rig {
        Rig::with(1 << 20)
    }
    fn with(log_bytes: u64) -> Rig {
        let mut view = View::new("10.0.0.250:1".parse().unwrap());
        view.me = ServerId(9);
        view.cluster = ClusterId(7);
        view.term = Term(1);
        let entry = |id: u64| ServerEntry {
            id: ServerId(id),
            address: Address(format!("10.0.0.{id}:1").parse().unwrap()),
            labels: vec![],
            state: ServerState::Up,
            master: true,
            backup: true,
            read_speed: 1,
            directory: Default::default(),
        };
        view.list.apply(&ServerListUpdate {
            from: 0,
            to: 1,
            changed: vec![entry(1), entry(2), entry(9)],
            removed: vec![],
            issued: ServerId(9),
            time: Default::default(),
            coordinator: None,
        });
        let geometry = Geometry { segment_bytes: 32768, seglet_bytes: 4096 };
        let config = MasterConfig::new(geometry, log_bytes, 1 << 16);
        let region = vec![0; config.log_bytes as usize];
        Rig {
            master: Master::new(config, region, &view, Version(1 << 20), 3),
            view,
            now: Instant(1),
            rpc: 1,
            asked: vec![],
            answers: vec![],
        }
    }
    fn request<M: ramhold_wire::Message>(&mut self, message: &M) -> Status {
        let mut body = Vec::new();
        encode_into(&mut body, message);
        self.rpc += 1;
        let header = Header {
            cluster: self.view.cluster,
            term: Term(1),
            target: self.view.me,
            ..Header::request(M::OPCODE, RpcId(self.rpc))
        };
        let mut effects = Effects::new();
        self.master.on_request(self.now, M::OPCODE, &header, &body, ConnId(1), &self.view, &mut effects);
        self.take(effects);
        self.settle();
        self.answers
            .iter()
            .rev()
            .find(|(h, _)| h.rpc == header.rpc)
            .map(|(h, _)| h.status())
            .unwrap_or(Status::NotReady)
    }
    fn take(&mut self, effects: Effects) {
        for e in effects.list {
            let Effect::Send { to, frame } = e else { continue };
            let (h, b) = frame::parse(&effects.bytes[frame]).unwrap();
            match to {
                Peer::Conn(_) => self.answers.push((h, b.to_vec())),
                Peer::Addr(_) => self.asked.push((h, b.to_vec())),
            }
        }
    }
    /// Backups and the coordinator answer all but `Recovered`.
    fn settle(&mut self) {
        for _ in 0..200 {
            let Some(at) = self.asked.iter().position(|(h, _)| h.opcode() != Some(Opcode::Recovered)) else {
                break;
            };
            let (h, b) = self.asked.remove(at);
            let mut body = Vec::new();
            if h.opcode() == Some(Opcode::Append) {
                let r = AppendRequest::decode(&b).unwrap();
                let end = r.offset + r.data.len() as u32;
                AppendReply {
                    length: end,
                    certified: if r.certificate.is_some() { end } else { 0 },
                    epoch: h.epoch,
                    closed: r.close,
                }
                .encode(&mut body);
                let mut effects = Effects::new();
                self.master.on_replication_reply(
                    self.now,
                    &h.answer(Status::Ok),
                    &body,
                    &self.view,
                    &mut effects,
                );
                self.take(effects);
            } else if matches!(h.opcode(), Some(Opcode::StreamRegister | Opcode::HeadRecord)) {
                encode_into(&mut body, &ramhold_wire::control::Empty {});
                let mut effects = Effects::new();
                self.master.on_replication_reply(
                    self.now,
                    &h.answer(Status::Ok),
                    &body,
                    &self.view,
                    &mut effects,
                );
                self.take(effects);
            }
        }
    }
    fn tick(&mut self) {
        let mut e = Effects::new();
        self.master.tick(self.now, &self.view, &mut e);
        self.take(e);
        self.settle();
    }
    fn recovered(&mut self) -> Option<(Header, Recovered)> {
        let at = self.asked.iter().position(|(h, _)| h.opcode() == Some(Opcode::Recovered))?;
        let (h, b) = self.asked.remove(at);
        Some((h, decode(&b).unwrap()))
    }
    fn answer(&mut self, h: &Header, status: Status) {
        let mut e = Effects::new();
        self.master.on_reply(self.now, &h.answer(status), &[], &self.view, &mut e);
        self.take(e);
        self.settle();
    }
}
fn range(first: u64, last: u64) -> PartitionRange {
    PartitionRange {
        partition: 0,
        table: TableId(5),
        seed: PlacementSeed(1),
        first: KeyHash(first),
        last: KeyHash(last),
        shard: ShardId(0),
        stream: StreamId(1),
        first_segment: SegmentId(1),
        durability: Durability::Buffered,
        replicas: 2,
    }
}
fn recover(attempt: u32, segments: Vec<RecoverySegment>) -> Recover {
    Recover {
        recovery: RecoveryId(1),
        crashed: ServerId(3),
        partition: 0,
        attempt,
        ranges: vec![range(0, u64::MAX)],
        segments,
        safe_version: Version(5),
        version_floor: Version(0),
    }
}
fn unusable() -> Vec<RecoverySegment> {
    vec![RecoverySegment {
        shard: ShardId(0),
        stream: StreamId(1),
        segment: SegmentId(1),
        end: 10,
        sources: vec![],
    }]
}

#[test]
fn late_answer_to_an_older_attempt_publishes_nothing() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, unusable())), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (old, report) = rig.recovered().expect("failed");
    assert!(matches!(report.outcome, RecoveryOutcome::Failed { .. }));
    assert_eq!(rig.request(&recover(2, vec![])), Status::Retry);
    assert_eq!(rig.request(&recover(3, vec![])), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (_, report) = rig.recovered().expect("done");
    assert!(matches!(report.outcome, RecoveryOutcome::Done { .. }), "{report:?}");
    assert_eq!(report.attempt, 3);
    rig.answer(&old, Status::Ok); // the late answer to the report of attempt 1's failure
    assert!(rig.master.tablets_seen().all(|t| !t.serving), "attempt 3 was never answered");
}

#[test]
fn entered_is_reported_without_another_input() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, vec![])), Status::Ok);
    let mut ticks = 0;
    loop {
        if rig.recovered().is_some() {
            break;
        }
        let d = rig.master.deadline();
        if d != Some(Instant::ZERO) {
            panic!("nothing is due, nothing is reported after {ticks} ticks");
        }
        ticks += 1;
        rig.tick();
    }
}

#[test]
fn drop_during_recovery_leaves_nothing_and_a_doubled_recover_does_no_harm() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, vec![])), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (h, _) = rig.recovered().expect("done");
    assert_eq!(rig.request(&TabletDrop { table: TableId(5) }), Status::Ok);
    rig.answer(&h, Status::NotAllowed);
    for _ in 0..5 {
        rig.tick();
    }
    assert_eq!(rig.master.log().stats().count(), 0, "a dropped range is still counted");
}
#[test]
fn drop_during_recovery_then_doubled_recover() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, vec![])), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (h, _) = rig.recovered().expect("done");
    assert_eq!(rig.request(&TabletDrop { table: TableId(5) }), Status::Ok);
    rig.answer(&h, Status::NotAllowed);
    for _ in 0..5 {
        rig.tick();
    }
    rig.request(&recover(1, vec![]));
}
#[test]
fn overlapping_ranges_are_refused() {
    let mut rig = Rig::new();
    let ranges = vec![range(0, 10), range(5, 20)];
    assert_eq!(rig.request(&Recover { ranges, ..recover(1, vec![]) }), Status::BadRequest);
}
#[test]
fn a_lost_coordinator_is_not_asked_in_a_loop() {
    let mut rig = Rig::new();
    let sent = |rig: &mut Rig| {
        let n = rig.asked.iter().filter(|(h, _)| h.opcode() == Some(Opcode::StreamRegister)).count();
        rig.asked.retain(|(h, _)| h.opcode() != Some(Opcode::StreamRegister));
        n
    };
    let mut body = Vec::new();
    encode_into(&mut body, &recover(1, vec![]));
    let header = Header {
        cluster: rig.view.cluster,
        target: rig.view.me,
        ..Header::request(Opcode::Recover, RpcId(77))
    };
    let mut e = Effects::new();
    rig.master.on_request(rig.now, Opcode::Recover, &header, &body, ConnId(1), &rig.view, &mut e);
    rig.take(e);
    // backups answer
    let appends: Vec<_> =
        rig.asked.iter().filter(|(h, _)| h.opcode() == Some(Opcode::Append)).cloned().collect();
    for (h, b) in appends {
        let r = AppendRequest::decode(&b).unwrap();
        let end = r.data.len() as u32;
        let mut body = vec![];
        AppendReply { length: end, certified: end, epoch: h.epoch, closed: false }.encode(&mut body);
        let mut e = Effects::new();
        rig.master.on_replication_reply(rig.now, &h.answer(Status::Ok), &body, &rig.view, &mut e);
        rig.take(e);
    }
    let mut total = sent(&mut rig);
    for _ in 0..100 {
        let mut e = Effects::new();
        rig.master.on_lost(rig.now, rig.view.coordinator, &rig.view, &mut e);
        rig.take(e);
        total += sent(&mut rig);
    }
    assert!(total < 10, "{total} requests at one instant");
}

#[test]
fn a_long_opening_does_not_end_the_process() {
    let mut rig = Rig::with(4 * 4096);
    let ranges = (0..400).map(|i| range(i * 10, i * 10 + 9)).collect();
    assert_eq!(rig.request(&Recover { ranges, ..recover(1, vec![]) }), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
}
#[test]
fn waiting_reads_are_bounded() {
    use ramhold_wire::data::{KeyRequest, RejectRules, WriteRequest};
    use ramhold_wire::table::TabletTake;
    let mut rig = Rig::new();
    let take = TabletTake {
        table: TableId(5),
        seed: PlacementSeed(1),
        first: KeyHash(0),
        last: KeyHash(u64::MAX),
        durability: Durability::Buffered,
        replicas: 2,
        version_floor: Version(0),
    };
    assert_eq!(rig.request(&take), Status::Ok);
    let send = |rig: &mut Rig, op: Opcode, body: &[u8], n: u64| {
        let h = Header {
            cluster: rig.view.cluster,
            target: rig.view.me,
            lease: LeaseId(4),
            sequence: Sequence(n),
            unacknowledged: Sequence(1),
            ..Header::request(op, RpcId(1000 + n))
        };
        let mut e = Effects::new();
        let view = rig.view.clone();
        rig.master.on_request(rig.now, op, &h, body, ConnId(1), &view, &mut e);
        rig.take(e);
    };
    let mut b = vec![];
    WriteRequest { table: TableId(5), rules: RejectRules::default(), key: b"k", value: &[1; 10_000] }
        .encode(&mut b);
    send(&mut rig, Opcode::Write, &b, 1); // the backups do not answer
    let mut b = vec![];
    KeyRequest { table: TableId(5), rules: RejectRules::default(), key: b"k" }.encode(&mut b);
    let before = rig.answers.len();
    for n in 0..70_000 {
        send(&mut rig, Opcode::Read, &b, n + 2);
    }
    assert!(rig.answers.len() > before, "70000 reads of 10 kB are all kept in memory");
}
