//! The replicator against simple backups behind a network that loses, doubles and reorders, while backups die.
//!
//! What must hold at every moment, for every stream: whatever the durable position covers, a recovery would find, from
//! any set of backups that holds one current replica of the head. Catalogue: D1, D6, D8, D9.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use ramhold_base::{
    ClusterId, Effect, Effects, Epoch, Instant, Position, Rng, SegmentId, ServerId, ShardId, Status,
    StreamId, Term,
};
use ramhold_replication::{ReplicationConfig, Replicator, Segments, Tail};
use ramhold_wire::control::Address;
use ramhold_wire::data::{AppendReply, AppendRequest};
use ramhold_wire::membership::{
    Durability, HeadRecord, ServerEntry, ServerListUpdate, ServerState, StreamRegister,
};
use ramhold_wire::{Header, Opcode, View, decode, frame};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

const STREAM: StreamId = StreamId(1);
const OPENING: usize = 20;

/// Segments that are nothing but bytes.
#[derive(Default)]
struct Log(BTreeMap<SegmentId, (Vec<u8>, bool)>);

impl Segments for Log {
    fn tail(&self, segment: SegmentId) -> Option<Tail> {
        let (bytes, closed) = self.0.get(&segment)?;
        Some(Tail { length: bytes.len() as u32, crc: ramhold_base::checksum::crc(bytes), closed: *closed })
    }
    fn copy(&self, segment: SegmentId, from: u32, to: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[&segment].0[from as usize..to as usize]);
    }
}

#[derive(Default, Clone)]
struct Replica {
    bytes: Vec<u8>,
    certified: usize,
    epoch: Epoch,
    closed: bool,
}

#[derive(Default)]
struct Backup {
    replicas: BTreeMap<SegmentId, Replica>,
    fresh: BTreeMap<SegmentId, Replica>,
}

impl Backup {
    fn append(&mut self, header: &Header, body: &[u8]) -> (Status, AppendReply) {
        let request = AppendRequest::decode(body).unwrap();
        let blank = Replica { epoch: header.epoch, ..Replica::default() };
        match self.replicas.entry(header.segment) {
            Entry::Occupied(_) => {}
            Entry::Vacant(place) if request.open => {
                place.insert(blank.clone());
            }
            Entry::Vacant(_) => return (Status::UnknownReplica, AppendReply::default()),
        }
        let newest = self.fresh.get(&header.segment).unwrap_or(&self.replicas[&header.segment]).epoch;
        if request.open && !request.raise_epoch && header.epoch > newest {
            self.fresh.insert(header.segment, blank);
        }
        let is_fresh = self.fresh.contains_key(&header.segment);
        let replica = if is_fresh {
            self.fresh.get_mut(&header.segment).unwrap()
        } else {
            self.replicas.get_mut(&header.segment).unwrap()
        };
        let told = |r: &Replica| AppendReply {
            length: r.bytes.len() as u32,
            certified: r.certified as u32,
            epoch: r.epoch,
            closed: r.closed,
        };
        if header.epoch < replica.epoch || (header.epoch > replica.epoch && !request.raise_epoch) {
            return (Status::StaleEpoch, told(replica));
        }
        let offset = request.offset as usize;
        if offset > replica.bytes.len() {
            return (Status::OutOfOrder, told(replica));
        }
        let end = offset + request.data.len();
        if end > replica.bytes.len() {
            if replica.closed {
                return (Status::NotAllowed, told(replica));
            }
            let held = replica.bytes.len() - offset;
            replica.bytes.extend_from_slice(&request.data[held..]);
        }
        replica.epoch = header.epoch;
        if let Some(certificate) = request.certificate {
            let covered = &replica.bytes[..certificate.length as usize];
            assert_eq!(ramhold_base::checksum::crc(covered), certificate.crc);
            replica.certified = replica.certified.max(certificate.length as usize);
            replica.closed |= request.close;
        }
        let answer = told(replica);
        if is_fresh && replica.certified > 0 {
            let r = self.fresh.remove(&header.segment).unwrap();
            self.replicas.insert(header.segment, r);
        }
        (Status::Ok, answer)
    }
}

struct Bench {
    rng: Rng,
    now: Instant,
    view: View,
    log: Log,
    replicator: Replicator,
    /// A backup that died keeps what it held: it may come back in a recovery.
    alive: BTreeMap<ServerId, Backup>,
    dead: Vec<Backup>,
    /// What the coordinator has stored: the oldest (segment, epoch) that may be a head.
    recorded: Option<(SegmentId, Epoch)>,
    wire: Vec<(Instant, bool, SocketAddr, Vec<u8>)>,
    next_segment: u64,
    version: u64,
    paused: std::collections::BTreeSet<ServerId>,
    refuse: bool,
    late: bool,
}

fn address(server: ServerId) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, server.raw() as u8], 1))
}

impl Bench {
    fn new(seed: u64, backups: u64) -> Bench {
        let mut view = View::new(SocketAddr::from(([10, 0, 0, 250], 1)));
        view.me = ServerId(200);
        view.cluster = ClusterId(7);
        view.term = Term(1);
        let mut config = ReplicationConfig::new(ShardId(0));
        config.append_bytes_max = 64;
        let mut bench = Bench {
            rng: Rng::new(seed),
            now: Instant(1),
            view,
            log: Log::default(),
            replicator: Replicator::new(config, seed),
            alive: (1..=backups).map(|id| (ServerId(id), Backup::default())).collect(),
            dead: Vec::new(),
            recorded: None,
            wire: Vec::new(),
            next_segment: 1,
            version: 0,
            paused: Default::default(),
            refuse: false,
            late: false,
        };
        bench.publish();
        bench.replicator.add_stream(STREAM, Durability::Buffered, 3);
        bench.roll();
        bench
    }

    fn publish(&mut self) {
        self.version += 1;
        let changed = self
            .alive
            .keys()
            .map(|id| ServerEntry {
                id: *id,
                address: Address(address(*id)),
                labels: vec![],
                state: ServerState::Up,
                master: true,
                backup: true,
                read_speed: 1,
                directory: Default::default(),
            })
            .collect();
        self.view.list.apply(&ServerListUpdate {
            from: 0,
            to: self.version,
            changed,
            removed: vec![],
            issued: ServerId(250),
            time: Default::default(),
            coordinator: None,
        });
        self.replicator.on_list(self.now, &self.view);
    }

    fn roll(&mut self) {
        if let Some((_, (_, closed))) = self.log.0.iter_mut().next_back() {
            *closed = true;
        }
        let id = SegmentId(self.next_segment);
        self.next_segment += 1;
        self.log.0.insert(id, (vec![id.raw() as u8; OPENING], false));
        let tail = self.log.tail(id).unwrap();
        self.replicator.head_rolled(STREAM, id, tail);
    }

    fn advance(&mut self) {
        let mut effects = Effects::new();
        self.replicator.advance(self.now, &self.log, &self.view, &mut effects);
        self.take(effects);
        self.replicator.check_invariants();
    }

    fn take(&mut self, effects: Effects) {
        for effect in effects.list {
            let Effect::Send { to: ramhold_base::Peer::Addr(to), frame } = effect else { continue };
            self.post(true, to, effects.bytes[frame].to_vec());
        }
    }

    fn post(&mut self, request: bool, to: SocketAddr, bytes: Vec<u8>) {
        if self.rng.chance(1, 10) {
            return;
        }
        let copies = if self.rng.chance(1, 10) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = if self.late && self.rng.chance(1, 10) {
                self.rng.between(3_000_000, 600_000_000)
            } else {
                self.rng.between(10_000, 3_000_000)
            };
            self.wire.push((Instant(self.now.0 + delay), request, to, bytes.clone()));
        }
    }

    fn deliver_one(&mut self) {
        let Some(next) = (0..self.wire.len()).min_by_key(|i| self.wire[*i].0) else { return };
        let (at, is_request, to, bytes) = self.wire.swap_remove(next);
        self.now = self.now.max(at);
        let (header, body) = frame::parse(&bytes).unwrap();
        if !is_request {
            self.replicator.on_reply(self.now, &header, body, &self.log, &self.view);
            return;
        }
        let (status, answer) = match header.opcode().unwrap() {
            Opcode::Append => {
                if self.paused.contains(&header.target) {
                    return;
                }
                let Some(backup) = self.alive.get_mut(&header.target) else { return };
                if self.refuse
                    && !backup.replicas.contains_key(&header.segment)
                    && AppendRequest::decode(body).unwrap().open
                    && self.rng.chance(1, 3)
                {
                    let mut bytes = Vec::new();
                    frame::write(&mut bytes, &header.answer(Status::OpenRefused), |out| {
                        AppendReply::default().encode(out)
                    });
                    return self.post(false, to, bytes);
                }
                let (status, answer) = backup.append(&header, body);
                (status, Some(answer))
            }
            Opcode::StreamRegister => {
                let register: StreamRegister = decode(body).unwrap();
                self.record((register.segment, register.epoch));
                (Status::Ok, None)
            }
            Opcode::HeadRecord => {
                let record: HeadRecord = decode(body).unwrap();
                self.record((record.segment, record.epoch));
                (Status::Ok, None)
            }
            other => panic!("unexpected {other:?}"),
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header.answer(status), |out| {
            if let Some(answer) = answer {
                answer.encode(out);
            }
        });
        self.post(false, to, bytes);
    }

    fn record(&mut self, head: (SegmentId, Epoch)) {
        self.recorded = self.recorded.max(Some(head));
    }

    /// What a recovery that reaches these backups would take for the end of the log, or none if it had to wait.
    fn recover<'a>(&self, reached: impl Iterator<Item = &'a Backup> + Clone) -> Option<Position> {
        let recorded = self.recorded?;
        let candidates = reached.clone().flat_map(|b| b.replicas.iter()).filter(|(id, r)| {
            !r.closed && r.certified >= OPENING && (**id > recorded.0 || (**id, r.epoch) >= recorded)
        });
        let head = *candidates.clone().map(|(id, _)| id).min()?;
        let epoch = candidates.clone().filter(|(id, _)| **id == head).map(|(_, r)| r.epoch).max()?;
        for older in self.log.0.range(..head) {
            let whole = reached
                .clone()
                .any(|b| b.replicas.get(older.0).is_some_and(|r| r.closed && r.certified == older.1.0.len()));
            if !whole {
                return None;
            }
        }
        let end =
            candidates.filter(|(id, r)| **id == head && r.epoch == epoch).map(|(_, r)| r.certified).max()?;
        Some(Position { segment: head, offset: end as u32 })
    }

    /// Any set of backups, dead ones come back, that is enough for a recovery must give at least what is durable.
    fn check(&mut self) {
        let durable = self.replicator.durable(STREAM);
        if durable == Position::default() {
            return;
        }
        for _ in 0..4 {
            let all: Vec<&Backup> = self.alive.values().chain(&self.dead).collect();
            let mut rng = self.rng.clone();
            let some: Vec<&Backup> = all.iter().filter(|_| rng.chance(1, 2)).copied().collect();
            self.rng = rng;
            if let Some(found) = self.recover(some.iter().copied()) {
                assert!(found >= durable, "a recovery would end at {found:?}, acknowledged is {durable:?}");
            }
        }
        let all = self.recover(self.alive.values());
        if self.dead.is_empty() {
            assert!(all.is_some(), "with every backup there the log must be complete");
        }
    }
}

/// What goes wrong besides a network that loses, doubles and reorders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Backups die and may come back in a recovery.
    Deaths,
    /// One backup after the other is silent for so long that it loses its replicas, and is chosen again later.
    Silences,
    /// Backups have no room now and then, and messages come very late.
    Refusals,
}

fn run(seed: u64, trouble: Trouble) {
    let mut bench = Bench::new(seed, 6);
    bench.refuse = trouble == Trouble::Refusals;
    bench.late = trouble == Trouble::Refusals;
    let pauses = trouble == Trouble::Silences;
    let mut kills = if trouble == Trouble::Deaths { 2 } else { 0 };
    for step in 0..4000u32 {
        match bench.rng.below(20) {
            0..=5 => {
                let bytes = bench.rng.between(1, 100) as usize;
                let (_, (segment, _)) = bench.log.0.iter_mut().next_back().unwrap();
                if segment.len() < 600 {
                    segment.extend(std::iter::repeat_n(step as u8, bytes));
                } else if bench.rng.chance(1, 20) {
                    bench.roll();
                }
            }
            6 if kills > 0 && bench.rng.chance(1, 40) => {
                kills -= 1;
                let ids: Vec<ServerId> = bench.alive.keys().copied().collect();
                let victim = *bench.rng.pick(&ids).unwrap();
                let backup = bench.alive.remove(&victim).unwrap();
                bench.dead.push(backup);
                bench.publish();
            }
            6 if pauses && bench.rng.chance(1, 10) => {
                if bench.paused.is_empty() {
                    let ids: Vec<ServerId> = bench.alive.keys().copied().collect();
                    let one = *bench.rng.pick(&ids).unwrap();
                    bench.paused.insert(one);
                } else {
                    bench.paused.clear();
                }
            }
            7 => {
                let ms = if pauses && bench.rng.chance(1, 3) { 500 } else { 20 };
                bench.now = bench.now + std::time::Duration::from_millis(ms);
                bench.replicator.tick(bench.now);
            }
            _ => bench.deliver_one(),
        }
        bench.advance();
        bench.check();
    }
    bench.paused.clear();
    bench.refuse = false;
    bench.late = false;
    let (id, (bytes, _)) = bench.log.0.iter().next_back().unwrap();
    let end = Position { segment: *id, offset: bytes.len() as u32 };
    for _ in 0..100_000 {
        if bench.replicator.durable(STREAM) == end {
            break;
        }
        bench.deliver_one();
        bench.now = bench.now + std::time::Duration::from_millis(1);
        bench.replicator.tick(bench.now);
        bench.advance();
    }
    bench.check();
    assert_eq!(bench.replicator.durable(STREAM), end, "seed {seed}: not live");
}

#[test]
fn what_is_acknowledged_is_found_by_every_recovery() {
    (0..80).for_each(|seed| run(seed, Trouble::Deaths));
}

/// A backup that is chosen again for a segment may still hold its old, shorter replica of it: raised before it is whole
/// that would pass for the head.
#[test]
fn a_backup_that_was_silent_never_proves_a_shorter_head() {
    (0..300).for_each(|seed| run(seed, Trouble::Silences));
}

/// A refused open may still arrive late, when there is room, and leave an open replica behind.
#[test]
fn a_refused_backup_never_proves_an_empty_head() {
    (0..80).for_each(|seed| run(seed, Trouble::Refusals));
}
