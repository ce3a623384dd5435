//! A real coordinator in a rig, with a store that takes its time, so that bricks can be added and removed.
//!
//! It takes over the bricks and the table that the rig has made. It may be killed at any moment: commits that are under way
//! have taken place or not, by chance.

use crate::host::COORDINATOR;
use crate::network::{CLUSTER, Party};
use crate::rig::{Event, MILLI, Rig, TABLE, key_of};
use ramhold_base::RpcId;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{
    Effect, Effects, Input, Instant, KeyHash, Machine, Rng, Sequence, ServerId, Status, StoreRequest,
    StoreResult, StoreToken, TableId,
};
use ramhold_coordinator::{
    BrickRecord, Coordinator, CoordinatorConfig, Key, Meta, QuorumTableRecord, QuorumTabletRecord, State,
};
use ramhold_quorum::BrickId;
use ramhold_wire::control::encode_into;
use ramhold_wire::lease::{LeaseOpen, LeaseOpened};
use ramhold_wire::quorum::{BrickScale, BrickScaled, QuorumOptions, ScaleOrder, WriteProtocol};
use ramhold_wire::table::TableOptions;
use ramhold_wire::{Header, Opcode, decode, frame};
use std::collections::BTreeMap;

/// Clients may be behind by so many changes of tablets.
const MAPS_KEPT: usize = 3;

/// The tablets of a table: first and last hash, epoch, bricks.
pub(crate) type Map = Vec<(KeyHash, KeyHash, u64, Vec<ServerId>)>;

pub(crate) enum HeadEvent {
    Tick { life: u64 },
    Store { life: u64, token: StoreToken, request: StoreRequest },
    Start,
}

pub(crate) struct Head {
    coordinator: Option<Coordinator>,
    life: u64,
    store: BTreeMap<String, (u64, Vec<u8>)>,
    /// Commits under way.
    open: Vec<StoreRequest>,
    auto_scale: bool,
    /// The maps that sessions may have, the newest last.
    pub maps: Vec<Map>,
    /// Sessions know the newest map.
    pub is_told: bool,
    pub reports: Vec<String>,
    rpc: u64,
}

fn execute(store: &mut BTreeMap<String, (u64, Vec<u8>)>, request: &StoreRequest) -> StoreResult {
    match request {
        StoreRequest::Get { key } => {
            let found = store.get(key).map(|(version, value)| (key.clone(), *version, value.clone()));
            StoreResult::Found(found.into_iter().collect())
        }
        StoreRequest::List { prefix } => {
            let below = store.iter().filter(|(key, _)| key.starts_with(prefix.as_str()));
            StoreResult::Found(below.map(|(k, (v, b))| (k.clone(), *v, b.clone())).collect())
        }
        StoreRequest::Commit { conditions, puts } => {
            for condition in conditions {
                if store.get(&condition.key).map(|(version, _)| *version) != condition.version {
                    return StoreResult::Conflict { key: condition.key.clone() };
                }
            }
            for (key, value) in puts {
                match value {
                    Some(value) => {
                        let version = store.get(key).map_or(0, |(version, _)| *version) + 1;
                        store.insert(key.clone(), (version, value.clone()));
                    }
                    None => _ = store.remove(key),
                }
            }
            StoreResult::Committed
        }
        StoreRequest::Watch { .. } => panic!("nothing is watched"),
    }
}

fn map_of(state: &State) -> Map {
    let tablets = state.quorum_tables.get(&TABLE).map_or(&[][..], |table| &table.tablets);
    tablets.iter().map(|tablet| (tablet.first, tablet.last, tablet.epoch, tablet.bricks.clone())).collect()
}

impl Rig {
    /// Starts a coordinator that knows the bricks and the table.
    pub fn found_head(&mut self, auto_scale: bool) {
        let count = self.hosts.len() as u64;
        let mut state = State {
            meta: Meta {
                cluster: CLUSTER,
                servers: ServerId(count),
                tables: TABLE,
                assignments: 1,
                index_secret: 77,
                ..Meta::default()
            },
            ..State::default()
        };
        for (host, hello) in &self.hellos {
            let id = self.hosts[*host].id;
            let record = BrickRecord {
                id,
                token: id.raw(),
                directory: hello.directory,
                address: hello.address,
                labels: Vec::new(),
                log_bytes: hello.log_bytes,
                assigned: u64::from(self.tablet.members.contains(host)),
                weight: None,
                is_replaced: false,
                supervisor: None,
                scaling: None,
                is_removed: false,
                is_destroyed: false,
                ended: None,
            };
            state.bricks.insert(id, record);
        }
        let thresholds = self.thresholds;
        let (bricks, write, read) =
            (thresholds.bricks() as u8, thresholds.write() as u8, thresholds.read() as u8);
        let quorum = QuorumOptions { bricks, write, read, protocol: WriteProtocol::Adaptive };
        let members = self.tablet.members.iter().map(|host| self.hosts[*host].id).collect();
        let table = QuorumTableRecord {
            id: TABLE,
            name: "carts".into(),
            options: TableOptions {
                durability: self.setting.durability,
                replicas: 0,
                tablets: 1,
                slots: false,
                zone: None,
                quorum: Some(quorum),
            },
            seed: PlacementSeed(5),
            dropping: false,
            tablets: vec![QuorumTabletRecord::new(KeyHash(0), KeyHash(u64::MAX), members)],
            version: 1,
        };
        state.quorum_tables.insert(TABLE, table);
        let keys = state.bricks.keys().map(|id| Key::Brick(*id)).chain([Key::Meta, Key::QuorumTable(TABLE)]);
        let record = |key: Key| (key.to_string(), (1, state.encode(key).unwrap()));
        let mut store: BTreeMap<String, (u64, Vec<u8>)> = keys.map(record).collect();
        let (key, term) = ramhold_coordinator::term_record(ramhold_base::Term(1));
        store.insert(key, (1, term));
        self.head = Some(Head {
            coordinator: None,
            life: 0,
            store,
            open: Vec::new(),
            auto_scale,
            maps: vec![map_of(&state)],
            is_told: false,
            reports: Vec::new(),
            rpc: 0,
        });
        self.start_head();
    }

    fn head_mut(&mut self) -> &mut Head {
        self.head.as_mut().unwrap()
    }

    pub fn start_head(&mut self) {
        let (now, seed) = (self.instant(), self.rng.u64());
        let head = self.head_mut();
        if head.coordinator.is_some() {
            return;
        }
        head.life += 1;
        let config = CoordinatorConfig {
            segment_bytes: 4096,
            auto_scale: head.auto_scale,
            ..CoordinatorConfig::new(COORDINATOR)
        };
        head.coordinator = Some(Coordinator::new(config, seed));
        let wall_millis = crate::host::DATE_MILLIS + now.0 / 1_000_000;
        self.step_head(Input::Start { wall_millis });
    }

    /// The coordinator ends, and starts again after this time.
    pub fn kill_head(&mut self, nanos: u64) {
        let mut rng = Rng::new(self.rng.u64());
        let head = self.head_mut();
        head.coordinator = None;
        // All that was under way has reached the store, up to some point.
        for request in std::mem::take(&mut head.open) {
            if rng.chance(1, 2) {
                break;
            }
            execute(&mut head.store, &request);
        }
        self.at(self.now + nanos, Event::Head { what: HeadEvent::Start });
    }

    pub fn head_state(&self) -> Option<&State> {
        let coordinator = self.head.as_ref()?.coordinator.as_ref()?;
        coordinator.is_active().then(|| coordinator.state())
    }

    pub(crate) fn send_to_head(&mut self, from: Party, bytes: Vec<u8>) {
        self.step_head(Input::Frame { from: from.conn(), bytes: &bytes });
    }

    pub(crate) fn on_head(&mut self, what: HeadEvent) {
        let now = self.instant();
        let head = self.head_mut();
        match what {
            HeadEvent::Start => self.start_head(),
            HeadEvent::Tick { life } if life == head.life => {
                let coordinator = head.coordinator.as_ref();
                if coordinator.and_then(Machine::deadline).is_some_and(|deadline| deadline <= now) {
                    self.step_head(Input::Tick);
                }
            }
            HeadEvent::Store { life, token, request } if life == head.life && head.coordinator.is_some() => {
                if let Some(at) = head.open.iter().position(|open| *open == request) {
                    head.open.remove(at);
                }
                let result = execute(&mut head.store, &request);
                self.step_head(Input::Store { token, result });
            }
            HeadEvent::Tick { .. } | HeadEvent::Store { .. } => {}
        }
    }

    fn step_head(&mut self, input: Input<'_>) {
        let now = self.instant();
        let head = self.head_mut();
        let Some(coordinator) = head.coordinator.as_mut() else { return };
        let mut effects = Effects::new();
        coordinator.step(now, input, &mut effects);
        let deadline: Option<Instant> = coordinator.deadline();
        let is_active = coordinator.is_active();
        let map = map_of(coordinator.state());
        let life = head.life;
        if is_active && head.maps.last() != Some(&map) {
            head.maps.push(map);
            if head.maps.len() > MAPS_KEPT {
                head.maps.remove(0);
            }
        }
        let mut at = self.now;
        let Effects { bytes, list, .. } = effects;
        for effect in list {
            match effect {
                Effect::Send { to, frame } => {
                    self.send(Party::Coordinator, Party::of(to), frame.of(&bytes).into_owned());
                }
                Effect::Store { token, request } => {
                    // In order, each after some time.
                    at += self.rng.between(MILLI / 10, 4 * MILLI);
                    if matches!(request, StoreRequest::Commit { .. }) {
                        self.head_mut().open.push(request.clone());
                    }
                    self.at(at, Event::Head { what: HeadEvent::Store { life, token, request } });
                }
                Effect::Report { text, .. } => self.head_mut().reports.push(text),
                Effect::Mark(_) | Effect::Close { .. } | Effect::Hear { .. } => {}
                other => panic!("a coordinator has no effect like {other:?}"),
            }
        }
        if let Some(deadline) = deadline {
            let at = deadline.0.max(self.now + MILLI / 10);
            self.at(at, Event::Head { what: HeadEvent::Tick { life } });
        }
    }

    /// The bricks that a session asks for a key: those of the newest tablet, or of an earlier one.
    pub(crate) fn order_of_head(&mut self, key: usize) -> Vec<BrickId> {
        let hash = PlacementHasher::new(PlacementSeed(5)).hash(&key_of(key));
        let head = self.head.as_ref().unwrap();
        let back =
            if head.is_told || !self.rng.chance(1, 3) { 0 } else { self.rng.below(head.maps.len() as u64) };
        let map = &head.maps[head.maps.len() - 1 - back as usize];
        let tablet = map.iter().find(|(first, last, ..)| (*first..=*last).contains(&hash)).unwrap();
        let mut order: Vec<BrickId> = tablet.3.iter().map(|brick| BrickId(brick.raw())).collect();
        self.rng.shuffle(&mut order);
        order
    }

    fn ask_head(&mut self, header: Header, message: impl FnOnce(&mut Vec<u8>)) -> Option<(Header, Vec<u8>)> {
        let head = self.head_mut();
        head.rpc += 1;
        let rpc = RpcId(1 << 40 | head.rpc);
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &Header { cluster: CLUSTER, rpc, ..header }, message);
        self.told.clear();
        self.send(Party::Test, Party::Coordinator, bytes);
        let end = self.now + 500 * MILLI;
        while self.now < end {
            self.run_for(10 * MILLI);
            if let Some(at) = self.told.iter().position(|(header, _)| header.rpc == rpc) {
                return Some(self.told.remove(at));
            }
        }
        None
    }

    /// Gives an order, again and again until it is answered.
    pub fn scale(&mut self, host: usize, order: ScaleOrder) -> BrickScaled {
        let message = BrickScale { brick: self.hosts[host].id, order, table: None::<TableId> };
        for _ in 0..100 {
            let open = LeaseOpen { term_millis: 600_000 };
            let opened =
                self.ask_head(Header::request(Opcode::LeaseOpen, RpcId(1)), |out| encode_into(out, &open));
            let Some((_, body)) = opened.filter(|(header, _)| header.status() == Status::Ok) else {
                continue;
            };
            let lease = decode::<LeaseOpened>(&body).unwrap().lease;
            for _ in 0..20 {
                let header = Header {
                    lease,
                    sequence: Sequence(1),
                    unacknowledged: Sequence(1),
                    ..Header::request(Opcode::BrickScale, RpcId(1))
                };
                match self.ask_head(header, |out| encode_into(out, &message)) {
                    Some((header, body)) if header.status() == Status::Ok => return decode(&body).unwrap(),
                    Some((header, _)) if header.status() == Status::LeaseOver => break,
                    // It has just started, or was killed.
                    Some(_) | None => {}
                }
            }
        }
        panic!("the order is never answered: {:?}", self.head.as_ref().unwrap().reports.last())
    }
}
