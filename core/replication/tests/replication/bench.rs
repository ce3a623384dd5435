//! The replicator, simple backups with devices, a coordinator, and a network that loses, doubles and reorders.
//!
//! Checked at every moment, for every set of backups: a recovery would find what the durable position covers, and the
//! flushed position covers only what as many devices have had.

use ramhold_base::{
    ClusterId, Effect, Effects, Epoch, Instant, Position, Rng, SegmentId, ServerId, ShardId, Status,
    StreamId, Term,
};
use ramhold_replication::{ReplicationConfig, Replicator, Segments, Tail};
use ramhold_wire::class::StreamClass;
use ramhold_wire::control::Address;
use ramhold_wire::data::{AppendReply, AppendRequest};
use ramhold_wire::membership::{
    Durability, HeadRecord, Label, ReplicaName, ReplicasNeeded, ServerEntry, ServerListUpdate, ServerState,
    StreamRegister,
};
use ramhold_wire::{Header, Opcode, View, decode, frame};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

pub const STREAM: StreamId = StreamId(1);
pub const OPENING: usize = 20;

/// Segments that are nothing but bytes.
#[derive(Default)]
pub struct Log(pub BTreeMap<SegmentId, (Vec<u8>, bool)>, pub BTreeMap<SegmentId, Position>);

impl Segments for Log {
    fn copy_after(&self, segment: SegmentId) -> Position {
        self.1.get(&segment).copied().unwrap_or_default()
    }

    fn tail(&self, segment: SegmentId) -> Option<Tail> {
        let (bytes, closed) = self.0.get(&segment)?;
        Some(Tail { length: bytes.len() as u32, crc: ramhold_base::checksum::crc(bytes), closed: *closed })
    }
    fn copy(&self, segment: SegmentId, from: u32, to: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[&segment].0[from as usize..to as usize]);
    }
}

#[derive(Default, Clone, Debug)]
pub struct Replica {
    bytes: Vec<u8>,
    certified: usize,
    epoch: Epoch,
    closed: bool,
    pub device: Device,
}

/// The state of a replica that a loss of power would leave.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    pub certified: usize,
    pub epoch: Epoch,
    pub closed: bool,
}

#[derive(Default)]
pub struct Backup {
    pub replicas: BTreeMap<SegmentId, Replica>,
    fresh: BTreeMap<SegmentId, Replica>,
    /// When it last accepted an append.
    pub accepted: Instant,
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
            flushed: if (r.device.epoch, r.device.closed) == (r.epoch, r.closed) {
                r.device.certified as u32
            } else {
                0
            },
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

pub struct Bench {
    pub rng: Rng,
    pub now: Instant,
    pub view: View,
    pub log: Log,
    pub replicator: Replicator,
    /// A backup that died keeps what it held: it may come back in a recovery.
    pub alive: BTreeMap<ServerId, Backup>,
    pub dead: Vec<Backup>,
    /// Those of the dead that the server list still has.
    pub recovering: BTreeSet<ServerId>,
    /// The coordinator's record: the oldest (segment, epoch) that may be a head.
    recorded: Option<(SegmentId, Epoch)>,
    pub wire: Vec<(Instant, bool, SocketAddr, Vec<u8>)>,
    next_segment: u64,
    /// The next head, if frames are held for it.
    pub head_held: Option<SegmentId>,
    version: u64,
    pub paused: BTreeSet<ServerId>,
    pub refuse: bool,
    /// This backup and those after it have no room for another replica.
    pub full_from: Option<ServerId>,
    pub late: bool,
    /// Nothing is lost or doubled, and every frame takes a millisecond.
    pub calm: bool,
    /// Answers about these segments, of one backup or of all, do not come before they are let go.
    pub holds: Vec<(Option<ServerId>, SegmentId)>,
    pub held: Vec<(SocketAddr, Vec<u8>)>,
    /// The most that each device ever had of each segment.
    had: BTreeMap<SegmentId, BTreeMap<ServerId, Device>>,
    flushed_before: Position,
    /// Who ever held the opening of each segment.
    opened: BTreeMap<SegmentId, BTreeSet<ServerId>>,
    /// Appends that were sent, in all.
    pub appends: usize,
    /// Data bytes in them, by when they were sent.
    pub sent: Vec<(Instant, SegmentId, usize)>,
    /// The zone of each server, if there are zones; the master is in the list then.
    pub zone_of: Option<fn(ServerId) -> &'static str>,
}

fn address(server: ServerId) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, server.raw() as u8], 1))
}

fn zone_label(zone: &str) -> Label {
    Label { name: "zone".into(), value: zone.into() }
}

impl Bench {
    pub fn new(seed: u64, backups: u64) -> Bench {
        let mut config = ReplicationConfig::new(ShardId(0));
        config.append_bytes_max = 64;
        Bench::with(config, seed, backups)
    }

    pub fn with(config: ReplicationConfig, seed: u64, backups: u64) -> Bench {
        let mut view = View::new(SocketAddr::from(([10, 0, 0, 250], 1)));
        view.me = ServerId(200);
        view.cluster = ClusterId(7);
        view.term = Term(1);
        let mut bench = Bench {
            rng: Rng::new(seed),
            now: Instant(1),
            view,
            log: Log::default(),
            replicator: Replicator::new(config, seed),
            alive: (1..=backups).map(|id| (ServerId(id), Backup::default())).collect(),
            dead: Vec::new(),
            recovering: BTreeSet::new(),
            recorded: None,
            wire: Vec::new(),
            next_segment: 1,
            head_held: None,
            version: 0,
            paused: Default::default(),
            refuse: false,
            full_from: None,
            late: false,
            calm: false,
            holds: Vec::new(),
            held: Vec::new(),
            had: BTreeMap::new(),
            flushed_before: Position::default(),
            opened: BTreeMap::new(),
            appends: 0,
            sent: Vec::new(),
            zone_of: None,
        };
        bench.publish();
        bench.replicator.add_stream(
            STREAM,
            StreamClass { durability: Durability::Buffered, replicas: 3 },
            None,
        );
        bench.roll();
        bench
    }

    pub fn publish(&mut self) {
        self.version += 1;
        let changed = self
            .alive
            .keys()
            .map(|id| (id, ServerState::Up))
            .chain(self.recovering.iter().map(|id| (id, ServerState::Crashed)))
            .chain(self.zone_of.map(|_| (&self.view.me, ServerState::Up)))
            .map(|(id, state)| ServerEntry {
                id: *id,
                address: Address(address(*id)),
                labels: self.zone_of.map(|zone| zone_label(zone(*id))).into_iter().collect(),
                state,
                master: true,
                backup: *id != self.view.me,
                read_speed: 1,
                directory: Default::default(),
                kept: false,
                replicates: false,
                replicates_only: None,
                redis_cluster_port: None,
                links: None,
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
            copyset_rings: None,
            placement: None,
            topology: Default::default(),
            bricks: None,
            accounts: None,
        });
        self.replicator.on_list(self.now, &self.view);
    }

    fn new_id(&mut self) -> SegmentId {
        let id = SegmentId(self.next_segment);
        self.next_segment += 1;
        id
    }

    /// Has frames held for the next head, or gives up those that are held.
    pub fn hold_or_abandon(&mut self) {
        match self.head_held.take() {
            Some(held) => self.replicator.abandon(held),
            None => {
                let id = self.new_id();
                self.replicator.hold_head(STREAM, id);
                self.head_held = Some(id);
            }
        }
    }

    pub fn roll(&mut self) {
        if let Some((_, (_, closed))) = self.log.0.iter_mut().next_back() {
            *closed = true;
        }
        // Whether all its frames are there or not; but not while an earlier head is not open.
        let held = self.head_held.take();
        let id = match held.filter(|_| self.replicator.is_head_open(STREAM)) {
            Some(held) => held,
            None => {
                held.into_iter().for_each(|held| self.replicator.abandon(held));
                self.new_id()
            }
        };
        self.log.0.insert(id, (vec![id.raw() as u8; OPENING], false));
        let tail = self.log.tail(id).unwrap();
        self.replicator.head_rolled(STREAM, id, tail);
    }

    pub fn advance(&mut self) {
        let mut effects = Effects::new();
        self.replicator.advance(self.now, &self.log, &self.view, &mut effects);
        self.send(effects);
        self.replicator.check_invariants();
    }

    pub fn send(&mut self, effects: Effects) {
        for effect in effects.list {
            let Effect::Send { to: ramhold_base::Peer::Addr(to), frame } = effect else { continue };
            let bytes = frame.of(&effects.bytes).into_owned();
            let (header, body) = frame::parse(&bytes).unwrap();
            if header.opcode() == Some(Opcode::Append) {
                self.appends += 1;
                let bytes = AppendRequest::decode(body).unwrap().data.len();
                self.sent.push((self.now, header.segment, bytes));
            }
            self.post(true, to, bytes.clone());
        }
    }

    fn post(&mut self, request: bool, to: SocketAddr, bytes: Vec<u8>) {
        let segment = frame::parse(&bytes).unwrap().0.segment;
        let is_of = |backup: Option<ServerId>| backup.is_none_or(|backup| address(backup) == to);
        if !request && self.holds.iter().any(|(backup, held)| *held == segment && is_of(*backup)) {
            return self.held.push((to, bytes));
        }
        if self.calm {
            self.wire.push((Instant(self.now.0 + 1_000_000), request, to, bytes));
            return;
        }
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

    /// Answers about this segment that were held come now, in their order.
    pub fn let_go(&mut self, segment: SegmentId) {
        self.holds.retain(|(_, held)| *held != segment);
        for (to, bytes) in std::mem::take(&mut self.held) {
            self.post(false, to, bytes);
        }
    }

    /// Whom a message that opens a segment is on its way to.
    pub fn opens(&self, segment: SegmentId) -> Option<ServerId> {
        self.wire.iter().filter(|(_, is_request, ..)| *is_request).find_map(|(.., bytes)| {
            let (header, body) = frame::parse(bytes).unwrap();
            let is_open =
                header.opcode() == Some(Opcode::Append) && AppendRequest::decode(body).unwrap().open;
            (is_open && header.segment == segment).then_some(header.target)
        })
    }

    /// Brings to a backup's device what it holds under certificates.
    pub fn flush(&mut self, server: ServerId) {
        let Some(backup) = self.alive.get_mut(&server) else { return };
        for (segment, replica) in backup.replicas.iter_mut().filter(|(_, r)| r.certified > 0) {
            let Replica { certified, epoch, closed, .. } = *replica;
            replica.device = Device { certified, epoch, closed };
            let had = self.had.entry(*segment).or_default().entry(server).or_default();
            had.certified = had.certified.max(certified);
            had.closed |= closed;
        }
    }

    /// Each backup asks about all of its replicas, and frees those that are not needed.
    pub fn collect(&mut self) {
        for (id, backup) in &mut self.alive {
            let name = |(segment, replica): (&SegmentId, &Replica)| ReplicaName {
                shard: ShardId(0),
                stream: STREAM,
                segment: *segment,
                epoch: replica.epoch,
                side: false,
            };
            let asked = ReplicasNeeded { replicas: backup.replicas.iter().map(name).collect() };
            for name in self.replicator.not_needed(*id, &asked).replicas {
                backup.replicas.remove(&name.segment);
            }
        }
    }

    /// The number of whole closed replicas of a segment that living backups have.
    pub fn whole_count(&self, segment: SegmentId) -> usize {
        let replicas = self.alive.values().filter_map(|backup| backup.replicas.get(&segment));
        replicas.filter(|r| r.closed && r.certified >= self.log.0[&segment].0.len()).count()
    }

    /// Lets time pass, as an event loop would: frames arrive, and the replicator is called when it asked for it.
    pub fn pass(&mut self, millis: u64) {
        let end = Instant(self.now.0 + millis * 1_000_000);
        self.advance();
        loop {
            let frame = self.wire.iter().map(|(at, ..)| *at).min();
            let deadline = self.replicator.deadline();
            let Some(next) = [frame, deadline].into_iter().flatten().min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if frame == Some(next) {
                self.deliver_one();
            } else {
                self.replicator.tick(self.now);
            }
            self.advance();
            self.check_flushed();
        }
        self.now = end;
        self.check();
    }

    pub fn end(&self) -> Position {
        let (id, (bytes, _)) = self.log.0.iter().next_back().unwrap();
        Position { segment: *id, offset: bytes.len() as u32 }
    }

    pub fn kill(&mut self, server: ServerId) {
        let backup = self.alive.remove(&server).unwrap();
        self.dead.push(backup);
        self.publish();
    }

    pub fn deliver_one(&mut self) {
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
                let is_full = self.full_from.is_some_and(|from| header.target >= from);
                if (is_full || self.refuse)
                    && !backup.replicas.contains_key(&header.segment)
                    && AppendRequest::decode(body).unwrap().open
                    && (is_full || self.rng.chance(1, 3))
                {
                    let mut bytes = Vec::new();
                    frame::write(&mut bytes, &header.answer(Status::OpenRefused), |out| {
                        AppendReply::default().encode(out)
                    });
                    return self.post(false, to, bytes);
                }
                let (status, answer) = backup.append(&header, body);
                if status == Status::Ok {
                    backup.accepted = self.now;
                    self.check_order(&header, &answer);
                }
                (status, Some(answer))
            }
            Opcode::ReplicaFree => {
                if let Some(backup) = self.alive.get_mut(&header.target) {
                    backup.replicas.remove(&header.segment);
                }
                (Status::Ok, None)
            }
            Opcode::StreamRegister => {
                let register: StreamRegister = decode(body).unwrap();
                self.record(register.stream, (register.segment, register.epoch));
                (Status::Ok, None)
            }
            Opcode::HeadRecord => {
                let record: HeadRecord = decode(body).unwrap();
                self.record(record.stream, (record.segment, record.epoch));
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

    /// The head order: before a segment is closed anywhere the next one has been open on all backups.
    fn check_order(&mut self, header: &Header, answer: &AppendReply) {
        let is_side = header.segment.raw() >= self.next_segment;
        if is_side {
            return;
        }
        if answer.certified as usize >= OPENING {
            self.opened.entry(header.segment).or_default().insert(header.target);
        }
        let next = self.log.0.range(header.segment.next()..).next().map(|(id, _)| id);
        let holders = next.and_then(|next| self.opened.get(next)).map_or(0, BTreeSet::len);
        assert!(!answer.closed || holders >= 3, "{} is closed, {next:?} open on {holders}", header.segment);
    }

    fn record(&mut self, stream: StreamId, head: (SegmentId, Epoch)) {
        if stream == STREAM {
            self.recorded = self.recorded.max(Some(head));
        }
    }

    /// The end of the log for a recovery that reaches these backups, or none if it had to wait.
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
                .any(|b| b.replicas.get(older.0).is_some_and(|r| r.closed && r.certified >= older.1.0.len()));
            if !whole {
                return None;
            }
        }
        let end =
            candidates.filter(|(id, r)| **id == head && r.epoch == epoch).map(|(_, r)| r.certified).max()?;
        Some(Position { segment: head, offset: end as u32 })
    }

    /// Each backup has reached what the replicator takes it to have reached, at the same epoch.
    fn check_reached(&self) {
        for seen in self.replicator.replicas() {
            let held = self.alive.get(&seen.backup).and_then(|backup| backup.replicas.get(&seen.segment));
            let Some(held) = held.filter(|held| held.epoch == seen.epoch) else { continue };
            assert!(held.closed || !seen.closed, "{seen:?}, it is {held:?}");
            assert!(held.certified >= seen.certified as usize, "{seen:?}, it is {held:?}");
        }
    }

    /// Any set of backups, dead ones come back, that is enough for a recovery must give at least what is durable.
    pub fn check(&mut self) {
        self.check_flushed();
        self.check_reached();
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
                // Their last acceptance bounds the lease that was granted: else the recovery could end before the lease.
                let accepted = some.iter().map(|backup| backup.accepted).max();
                let granted = self.replicator.granted_since();
                assert!(granted <= accepted, "granted since {granted:?}, they accepted until {accepted:?}");
            }
        }
        let all = self.recover(self.alive.values());
        if self.dead.is_empty() {
            assert!(all.is_some(), "with every backup there the log must be complete");
        }
    }
    /// A flushed segment was on three devices. One that counts as flushed now is on all that the replicator names.
    fn check_flushed(&mut self) {
        let flushed = self.replicator.flushed(STREAM);
        assert!(flushed >= self.flushed_before, "a position never goes back");
        // A device never loses what it had, so earlier looks still hold. Only for new segments the places are those that
        // were asked.
        let is_new = flushed > self.flushed_before;
        for (id, (bytes, _)) in
            self.log.0.range(self.flushed_before.segment..=flushed.segment).filter(|_| is_new)
        {
            let is_end = *id == flushed.segment;
            let had = self.had.get(id).into_iter().flat_map(|had| had.values()).filter(|had| {
                if is_end {
                    had.certified >= flushed.offset as usize
                } else {
                    had.closed && had.certified >= bytes.len()
                }
            });
            // A lost place of a head that was durably closed does not count; nor does its successor, if the position was
            // at this head's end before it had that.
            let places = self.replicator.replicas_of(*id).filter(|seen| seen.closed).count();
            let before = self.flushed_before;
            let was_here = before == Position { segment: *id, offset: bytes.len() as u32 };
            let wanted = if !was_here && (places == 0 || places == 3) { 3 } else { 1 };
            assert!(
                had.count() >= wanted || flushed == Position::default(),
                "{id} counts as flushed, with {flushed:?}; replicas {:?}; devices had {:?}; {} bytes",
                self.replicator.replicas_of(*id).collect::<Vec<_>>(),
                self.had.get(id),
                bytes.len(),
            );
        }
        self.flushed_before = flushed;
        let mut places: BTreeMap<SegmentId, u32> = BTreeMap::new();
        for seen in self.replicator.replicas().filter(|seen| self.replicator.is_flushed(seen.segment)) {
            let id = seen.segment;
            *places.entry(id).or_default() += 1;
            let device = self.alive[&seen.backup].replicas[&id].device;
            assert!(device.closed, "{id}: {device:?}");
            assert!(device.certified >= self.log.0[&id].0.len(), "{id}: {device:?}");
        }
        assert!(places.values().all(|count| *count == 3), "{places:?}");
    }
}
