//! A coordinator, its store, and servers that answer by script, in one thread and one made-up clock.

use ramhold_base::{
    ConnId, DirectoryId, Effect, Effects, Input, Instant, KeyHash, LeaseId, Lost, Machine, Password, Peer,
    RpcId, SecretResult, SecretToken, SecretWork, SegmentId, Sequence, ServerId, ShardId, Status,
    StoreRequest, StoreResult, StoreToken, StreamId,
};
use ramhold_coordinator::{Coordinator, CoordinatorConfig, State, TabletRecord};
use ramhold_wire::accounts::Accounts;
use ramhold_wire::control::{Address, Empty, encode_into};
use ramhold_wire::copies::{
    StateCopied, StateCopy, StatePart, StatePosition, StateRead, StateRecord, StateTold,
};
use ramhold_wire::lease::LeaseOpen;
use ramhold_wire::membership::*;
use ramhold_wire::recovery::*;
use ramhold_wire::status::{ClusterStatus, ClusterStatusRequest, Pong, Reach, ReachTarget, Reached};
use ramhold_wire::table::*;
use ramhold_wire::{Header, Kind, Message, Opcode, ReplicaPlacement, decode, frame};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

pub fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    Answering,
    Silent,
    Refusing,
}

/// One server process as the coordinator sees it.
pub struct Server {
    pub id: ServerId,
    pub mood: Mood,
    /// Requests that it leaves unanswered.
    pub deaf: BTreeSet<Opcode>,
    /// Requests that its version does not know.
    pub ignorant: BTreeSet<Opcode>,
    /// How many those were.
    pub unheard: u32,
    /// Its answers to pings are on their way until `release_pongs`.
    pub holds_pongs: bool,
    held_pongs: Vec<(Header, Pong)>,
    /// Its answers to `Fence`, by the dead server.
    pub replicas: BTreeMap<ServerId, Vec<ReplicaReport>>,
    pub list: ramhold_wire::ServerList,
    pub takes: Vec<TabletTake>,
    /// It takes tablets but says so only when `answer_takes` is called.
    pub tardy: bool,
    unanswered: Vec<(Header, TabletTake)>,
    /// Tables that it was told to drop, deaf or not.
    pub drops: Vec<ramhold_base::TableId>,
    /// Tablets that it was told it has, unless it was deaf.
    pub divides: Vec<TabletDivide>,
    pub recovers: Vec<Recover>,
    pub fences: u32,
    /// Its device has failed.
    pub has_failed: bool,
    /// The rest of a dead server's read lease that it reports.
    pub lease_millis: u64,
    /// Servers that have left and still answer this one.
    pub reaches: Vec<ServerId>,
    /// As the last update of the list told.
    pub placement: ReplicaPlacement,
    pub topology: ramhold_wire::topology::Topology,
    pub bricks: Option<Vec<Address>>,
    /// As it was last told, and how often it was told of any.
    pub accounts: Option<Accounts>,
    pub accounts_told: u32,
    /// The room that it reports.
    pub room: RoomReport,
    /// Where its tables lie, and how often it was asked.
    pub weights: Vec<TabletStat>,
    pub weights_asked: u32,
    /// Its work for any recovery, and how often it was asked.
    pub worked: RecoveryWorked,
    pub worked_asked: u32,
    /// It finishes what it is told to recover by itself.
    pub diligent: bool,
    /// The state that it holds a copy of, record by record, and the last message about it.
    pub state: BTreeMap<String, Vec<u8>>,
    pub held: Option<StatePosition>,
    copied: (u64, u64),
    /// The highest term that it was asked under.
    pub term: ramhold_base::Term,
    registered: BTreeMap<(Durability, u8), SegmentId>,
    segment: u64,
}

impl Server {
    fn hear_accounts(&mut self, told: Option<Accounts>) {
        self.accounts_told += u32::from(told.is_some());
        self.accounts = told.or(self.accounts.take());
    }

    /// Takes a message with records; a server's own tests tell which it must refuse.
    fn copy(&mut self, copy: StateCopy) -> (Status, StateCopied) {
        let reign = copy.state.reign;
        if self.copied.0 == reign && copy.number <= self.copied.1 {
            return (Status::Ok, StateCopied { number: self.copied.1, held: self.held });
        }
        if let Some(lineage) = &copy.begins {
            if self.held.is_some_and(|held| !lineage.follows(held)) {
                return (Status::StateIsOld, StateCopied { number: 0, held: self.held });
            }
            self.state.clear();
        } else if self.copied != (reign, copy.number - 1) {
            return (Status::OutOfOrder, StateCopied { number: self.copied.1, held: self.held });
        }
        for record in copy.records {
            match record.value {
                Some(value) => self.state.insert(record.key, value),
                None => self.state.remove(&record.key),
            };
        }
        self.held = if copy.complete { Some(copy.state) } else { self.held };
        self.copied = (reign, copy.number);
        (Status::Ok, StateCopied { number: copy.number, held: self.held })
    }
}

pub struct World {
    pub now: Instant,
    pub config: CoordinatorConfig,
    pub coordinator: Coordinator,
    pub store: BTreeMap<String, (u64, Vec<u8>)>,
    pub servers: BTreeMap<SocketAddr, Server>,
    pub reports: Vec<String>,
    pub exit: Option<(u8, String)>,
    /// Store requests wait until `release_store`.
    pub store_held: bool,
    /// Its device has no room for a commit.
    pub is_store_full: bool,
    held: VecDeque<(StoreToken, StoreRequest)>,
    /// The folders that were listed.
    pub listed: Vec<String>,
    /// Work with passwords waits until `release_secrets`, or fails.
    pub secrets_held: bool,
    pub secrets_fail: bool,
    pub held_secrets: VecDeque<(SecretToken, SecretWork)>,
    /// Everything sent that no scripted server took.
    pub sent: Vec<(Peer, Header, Vec<u8>)>,
    pub commits: u64,
    /// The coordinator dies at this commit: before it is applied, or right after.
    pub crash_at: Option<(u64, bool)>,
    pub crashes: u32,
    inputs: VecDeque<Pending>,
    rpc: u64,
    seed: u64,
    /// The client's lease, its last number, and under which it has asked for what.
    pub lease: LeaseId,
    sequence: Sequence,
    numbers: BTreeMap<Vec<u8>, Header>,
}

enum Pending {
    Frame(ConnId, Vec<u8>),
    Lost(SocketAddr, Lost),
    Store(StoreToken, StoreResult),
    Secret(SecretToken, SecretResult),
}

pub const CLIENT: ConnId = ConnId(1_000_000);

impl World {
    /// A started coordinator on an empty store.
    pub fn new() -> World {
        World::on(BTreeMap::new(), 1)
    }

    pub fn on(store: BTreeMap<String, (u64, Vec<u8>)>, seed: u64) -> World {
        let config = CoordinatorConfig { segment_bytes: 4096, ..CoordinatorConfig::new(addr(7400)) };
        let mut world = World {
            now: Instant(1_000_000_000),
            coordinator: Coordinator::new(config.clone(), seed),
            config,
            store,
            servers: BTreeMap::new(),
            reports: Vec::new(),
            exit: None,
            store_held: false,
            is_store_full: false,
            held: VecDeque::new(),
            listed: Vec::new(),
            secrets_held: false,
            secrets_fail: false,
            held_secrets: VecDeque::new(),
            sent: Vec::new(),
            commits: 0,
            crash_at: None,
            crashes: 0,
            inputs: VecDeque::new(),
            rpc: 1,
            seed,
            lease: LeaseId::NONE,
            sequence: Sequence::NONE,
            numbers: BTreeMap::new(),
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let wall_millis = 1_700_000_000_000 + self.now.0 / 1_000_000;
        self.step(Input::Start { wall_millis });
        self.settle();
    }

    /// The process dies and a new one starts on the same store.
    pub fn restart(&mut self) {
        self.seed += 1;
        self.crashes += 1;
        self.inputs.clear();
        self.held.clear();
        self.held_secrets.clear();
        self.exit = None;
        self.coordinator = Coordinator::new(self.config.clone(), self.seed);
        self.start();
    }

    pub fn state(&self) -> &State {
        self.coordinator.state()
    }

    pub fn step(&mut self, input: Input<'_>) {
        let mut effects = Effects::new();
        self.coordinator.step(self.now, input, &mut effects);
        let Effects { bytes, list, .. } = effects;
        for effect in list {
            assert!(self.exit.is_none(), "nothing follows an exit");
            match effect {
                Effect::Send { to, frame } => self.on_sent(to, &frame.of(&bytes)),
                Effect::Store { token, request } => self.held.push_back((token, request)),
                Effect::Secret { token, work } => self.held_secrets.push_back((token, work)),
                Effect::Mark(mark) => self.reports.push(format!("mark:{mark}")),
                Effect::Report { text, .. } => self.reports.push(text),
                // Bytes that were no frame: the sender is told why, then the connection ends.
                Effect::Close { .. } | Effect::Hear { .. } => {}
                Effect::Exit { code, reason } => self.exit = Some((code, reason)),
                other => panic!("a coordinator has no effect like {other:?}"),
            }
        }
    }

    /// Delivers all that is under way, at this instant.
    pub fn settle(&mut self) {
        loop {
            if !self.store_held {
                self.release_store();
            }
            if !self.secrets_held {
                self.release_secrets();
            }
            match self.inputs.pop_front() {
                None if self.held.is_empty() || self.store_held => return,
                None => {}
                Some(Pending::Frame(from, bytes)) => self.step(Input::Frame { from, bytes: &bytes }),
                Some(Pending::Lost(addr, how)) => self.step(Input::Lost { addr, how }),
                Some(Pending::Store(token, result)) => self.step(Input::Store { token, result }),
                Some(Pending::Secret(token, result)) => self.step(Input::Secret { token, result }),
            }
        }
    }

    /// Does the work with passwords that waits.
    pub fn release_secrets(&mut self) {
        while let Some((token, work)) = self.held_secrets.pop_front() {
            let SecretWork::Prepare { add, find, stored } = work else { panic!("nothing else is asked for") };
            let place = |password| stored.iter().position(|other| *other == stored_as(password));
            let found = find.iter().map(place).collect();
            let result = match self.secrets_fail {
                true => SecretResult::Failed("no memory".into()),
                false => SecretResult::Prepared { added: add.iter().map(stored_as).collect(), found },
            };
            self.inputs.push_back(Pending::Secret(token, result));
        }
    }

    /// Executes the store requests that wait.
    pub fn release_store(&mut self) {
        while let Some((token, request)) = self.held.pop_front() {
            if let StoreRequest::Commit { .. } = request {
                self.commits += 1;
                if let Some((at, applied)) = self.crash_at
                    && at == self.commits
                {
                    self.crash_at = None;
                    if applied {
                        self.execute(&request);
                    }
                    return self.restart();
                }
            }
            let result = match request {
                StoreRequest::Commit { .. } if self.is_store_full => {
                    StoreResult::NoRoom { request, reason: "0 of 2048 KiB free in /c".into() }
                }
                request => self.execute(&request),
            };
            self.inputs.push_back(Pending::Store(token, result));
        }
    }

    fn execute(&mut self, request: &StoreRequest) -> StoreResult {
        match request {
            StoreRequest::Get { key } => {
                let found =
                    self.store.get(key).map(|(version, value)| (key.clone(), *version, value.clone()));
                StoreResult::Found(found.into_iter().collect())
            }
            StoreRequest::List { prefix } => {
                self.listed.push(prefix.clone());
                let below = self.store.iter().filter(|(key, _)| key.starts_with(prefix.as_str()));
                StoreResult::Found(below.map(|(k, (v, b))| (k.clone(), *v, b.clone())).collect())
            }
            StoreRequest::Commit { conditions, puts } => {
                for condition in conditions {
                    let version = self.store.get(&condition.key).map(|(version, _)| *version);
                    if version != condition.version {
                        return StoreResult::Conflict { key: condition.key.clone() };
                    }
                }
                for (key, value) in puts {
                    match value {
                        Some(value) => {
                            let version = self.store.get(key).map_or(0, |(version, _)| *version) + 1;
                            self.store.insert(key.clone(), (version, value.clone()));
                        }
                        None => {
                            self.store.remove(key);
                        }
                    }
                }
                StoreResult::Committed
            }
            StoreRequest::Watch { .. } => panic!("nothing is watched"),
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        for turn in 0.. {
            assert!(turn < 100_000, "the coordinator spins");
            self.settle();
            if self.exit.is_some() {
                return;
            }
            match self.coordinator.deadline() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            self.step(Input::Tick);
        }
        self.now = end;
        self.step(Input::Tick);
        self.settle();
    }

    pub fn run_until(&mut self, what: &str, mut condition: impl FnMut(&World) -> bool) {
        for _ in 0..600 {
            if condition(self) {
                return;
            }
            self.run(Duration::from_millis(100));
        }
        panic!("never: {what}\n{}", self.reports.join("\n"));
    }

    // Messages of the coordinator.

    fn on_sent(&mut self, to: Peer, bytes: &[u8]) {
        let (header, body) = frame::parse(bytes).expect("the coordinator writes whole frames");
        let at = match to {
            Peer::Addr(at) => at,
            Peer::Conn(_) => return self.sent.push((to, header, body.to_vec())),
        };
        assert_eq!(header.kind, Kind::Request);
        assert_eq!(header.term, self.coordinator.term());
        let Some(server) = self.servers.get_mut(&at) else {
            return self.inputs.push_back(Pending::Lost(at, Lost::Refused));
        };
        match server.mood {
            Mood::Answering => {}
            Mood::Silent => return,
            Mood::Refusing => return self.inputs.push_back(Pending::Lost(at, Lost::Refused)),
        }
        let opcode = header.opcode().expect("a known opcode");
        if opcode != Opcode::Ping && header.target == server.id {
            if header.term < server.term && opcode != Opcode::StateTell {
                return self.answer(at, &header, Status::StaleTerm, &Empty {});
            }
            server.term = server.term.max(header.term);
        }
        if opcode == Opcode::TabletDrop {
            server.drops.push(decode::<TabletDrop>(body).expect("a table").table);
        }
        if server.deaf.contains(&opcode) {
            server.unheard += 1;
            return;
        }
        if server.ignorant.contains(&opcode) {
            return self.answer(at, &header, Status::UnknownOpcode, &Empty {});
        }
        if opcode != Opcode::Ping && header.target != server.id {
            return self.answer(at, &header, Status::WrongServer, &Empty {});
        }
        match opcode {
            Opcode::Ping => {
                let pong = Pong { server: server.id, list_version: server.list.version(), time_micros: None };
                if server.holds_pongs {
                    return server.held_pongs.push((header, pong));
                }
                self.answer(at, &header, Status::Ok, &pong);
            }
            Opcode::ServerListUpdate => {
                let update: ServerListUpdate = decode(body).expect("a list");
                server.list.apply(&update);
                server.placement = update.replica_placement();
                server.topology = update.topology.clone();
                server.bricks = update.bricks.clone();
                server.hear_accounts(update.accounts);
                let reached = ServerListReached { version: server.list.version() };
                self.answer(at, &header, Status::Ok, &reached);
            }
            Opcode::Fence => {
                let fence: Fence = decode(body).expect("a fence");
                server.fences += 1;
                if server.has_failed {
                    return self.answer(at, &header, Status::DeviceFailed, &Empty {});
                }
                let replicas = server.replicas.get(&fence.crashed).cloned().unwrap_or_default();
                let lease_millis = server.lease_millis;
                self.answer(at, &header, Status::Ok, &Fenced { replicas, lease_millis });
            }
            Opcode::Reach => {
                let reach: Reach = decode(body).expect("servers");
                let reaches = |target: &&ReachTarget| server.reaches.contains(&target.server);
                let answering = reach.servers.iter().filter(reaches).map(|target| target.server).collect();
                self.answer(at, &header, Status::Ok, &Reached { answering });
            }
            Opcode::Room => {
                let room = server.room;
                self.answer(at, &header, Status::Ok, &room);
            }
            Opcode::TabletWeights => {
                let weights: TabletWeights = decode(body).expect("a table");
                server.weights_asked += 1;
                let rows = server.weights.iter().filter(|row| row.table == weights.table).copied().collect();
                self.answer(at, &header, Status::Ok, &TabletsWeighed { rows });
            }
            Opcode::RecoveryWork => {
                let _: RecoveryWork = decode(body).expect("a server");
                server.worked_asked += 1;
                let worked = server.worked;
                self.answer(at, &header, Status::Ok, &worked);
            }
            Opcode::TabletTake => {
                let take: TabletTake = decode(body).expect("a tablet");
                server.takes.push(take.clone());
                if server.tardy {
                    return server.unanswered.push((header, take));
                }
                self.answer_take(at, &header, &take);
            }
            Opcode::TabletDrop => self.answer(at, &header, Status::Ok, &Empty {}),
            Opcode::TabletDivide => {
                server.divides.push(decode(body).expect("tablets"));
                self.answer(at, &header, Status::Ok, &Empty {});
            }
            Opcode::Recover => {
                let recover: Recover = decode(body).expect("a recovery");
                server.recovers.push(recover.clone());
                let diligent = server.diligent;
                self.answer(at, &header, Status::Ok, &Empty {});
                if diligent {
                    self.finish(at, &recover);
                }
            }
            Opcode::StateCopy => {
                let copy: StateCopy = decode(body).expect("records");
                let (status, copied) = server.copy(copy);
                self.answer(at, &header, status, &copied);
            }
            Opcode::StateTell => {
                let list_version = server.list.version();
                let (held, term) = (server.held, server.term);
                let told = StateTold { server: server.id, term, list_version, held };
                let status = if header.term < term { Status::StaleTerm } else { Status::Ok };
                self.answer(at, &header, status, &told);
            }
            Opcode::StateRead => {
                let read: StateRead = decode(body).expect("a place");
                assert!(read.position.is_none() || read.position == server.held);
                let after = server.state.iter().filter(|(key, _)| **key > read.after);
                let record = |(key, value): (&String, &Vec<u8>)| StateRecord {
                    key: key.clone(),
                    value: Some(value.clone()),
                };
                let records: Vec<StateRecord> = after.map(record).collect();
                // In parts of ten records.
                let last = records.len() <= 10;
                let part = StatePart {
                    cluster: header.cluster,
                    position: server.held.expect("a copy"),
                    records: records.into_iter().take(10).collect(),
                    last,
                };
                self.answer(at, &header, Status::Ok, &part);
            }
            other => panic!("a coordinator does not send {other:?}"),
        }
    }

    fn answer<T: minicbor::Encode<()>>(
        &mut self,
        from: SocketAddr,
        request: &Header,
        status: Status,
        body: &T,
    ) {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &request.answer(status), |out| encode_into(out, body));
        self.inputs.push_back(Pending::Frame(ConnId(u64::from(from.port())), bytes));
    }

    fn answer_take(&mut self, at: SocketAddr, header: &Header, take: &TabletTake) {
        let Assignment { shard, stream, first_segment } = self.place(at, take.durability, take.replicas);
        self.answer(at, header, Status::Ok, &TabletTaken { shard, stream, first_segment });
    }

    /// A tardy server answers what it was told to take so far.
    pub fn answer_takes(&mut self, port: u16) {
        for (header, take) in std::mem::take(&mut self.server_mut(port).unanswered) {
            self.answer_take(addr(port), &header, &take);
        }
        self.settle();
    }

    /// Opens (and registers) the stream of this class, and gives a place in it.
    fn place(&mut self, at: SocketAddr, durability: Durability, replicas: u8) -> Assignment {
        let server = self.servers.get_mut(&at).expect("a server");
        let stream = match durability {
            Durability::None => StreamId(100),
            Durability::Buffered => StreamId(u16::from(replicas)),
            Durability::Synced => StreamId(10 + u16::from(replicas)),
        };
        server.segment += 1;
        let segment = SegmentId(server.segment);
        let new = !server.registered.contains_key(&(durability, replicas));
        let first = *server.registered.entry((durability, replicas)).or_insert(segment);
        // A server repeats its registration until it is answered; here: whenever one may have been lost.
        if new || self.crashes > 0 {
            let register = StreamRegister {
                neighbourhood: None,
                shard: ShardId(0),
                stream,
                durability,
                replicas,
                segment: first,
                epoch: ramhold_base::Epoch(0),
            };
            self.post(at, &register);
        }
        Assignment { shard: ShardId(0), stream, first_segment: segment }
    }

    /// The recovery master is done.
    pub fn finish(&mut self, at: SocketAddr, recover: &Recover) {
        let ranges: Vec<PartitionRange> =
            recover.ranges.iter().filter(|r| r.partition == recover.partition).copied().collect();
        let assignments = ranges.iter().map(|r| self.place(at, r.durability, r.replicas)).collect();
        let outcome = RecoveryOutcome::Done {
            assignments,
            bytes: 1000,
            records: 10,
            times: Default::default(),
            own_bytes: None,
        };
        self.post(at, &recovered(recover, outcome));
    }

    /// The devices have all that recovery masters have told of, and they say so.
    pub fn settle_recovered(&mut self) {
        self.tell_settled(true);
    }

    /// The same; or that the buffers of R backups have it.
    pub fn tell_settled(&mut self, flushed: bool) {
        let state = self.state();
        let pieces = state.tables.values().flat_map(|table| &table.tablets);
        let unsettled = pieces.filter(|piece| piece.earlier.is_some() && state.is_up(piece.owner));
        let told: Vec<(SocketAddr, Settled)> = unsettled
            .map(|piece| {
                let TabletRecord { shard, stream, first_segment, .. } = *piece;
                (
                    state.servers[&piece.owner].entry.address.0,
                    Settled { shard, stream, first_segment, flushed },
                )
            })
            .collect();
        for (at, settled) in told {
            assert_eq!(self.server(at, &settled), Some(Ok(Empty {})));
        }
    }

    /// A server sends a request; its answer is found in `sent`.
    pub fn post<M: Message>(&mut self, at: SocketAddr, message: &M) -> RpcId {
        let id = self.servers.get(&at).expect("a server").id;
        let header = Header { sender: id, ..self.header() };
        self.push(ConnId(u64::from(at.port())), header, message)
    }

    pub fn header(&self) -> Header {
        Header { cluster: self.state().meta.cluster, ..Header::default() }
    }

    pub fn push<M: Message>(&mut self, from: ConnId, header: Header, message: &M) -> RpcId {
        self.rpc += 1;
        let rpc = RpcId(self.rpc);
        let header = Header { kind: Kind::Request, opcode: M::OPCODE.code(), rpc, ..header };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| encode_into(out, message));
        self.inputs.push_back(Pending::Frame(from, bytes));
        rpc
    }

    /// The answer to a request that was pushed, if there is one by now.
    pub fn answer_to(&self, rpc: RpcId) -> Option<(Status, &[u8])> {
        let answers = self.sent.iter().filter(|(_, h, _)| h.kind == Kind::Reply);
        answers.rev().find(|(_, h, _)| h.rpc == rpc).map(|(_, h, body)| (h.status(), body.as_slice()))
    }

    /// A client asks; `None` when nothing comes at once. An update that it has asked for before is repeated under its
    /// number.
    pub fn client<M: Message>(&mut self, message: &M) -> Option<Result<M::Reply, Status>> {
        let mut body = vec![u8::try_from(M::OPCODE.code()).expect("a small number")];
        encode_into(&mut body, message);
        let header = match M::OPCODE {
            Opcode::TableCreate
            | Opcode::TableDrop
            | Opcode::TableDivide
            | Opcode::LossAcknowledge
            | Opcode::ServerForget => match self.numbers.get(&body) {
                Some(header) => *header,
                None => {
                    let header = self.number();
                    self.numbers.insert(body, header);
                    header
                }
            },
            _ => Header::default(),
        };
        self.ask_as(CLIENT, header, message)
    }

    /// A client asks for an update under a number of its own.
    pub fn client_anew<M: Message>(&mut self, message: &M) -> Option<Result<M::Reply, Status>> {
        let header = self.number();
        self.ask_as(CLIENT, header, message)
    }

    /// The next number of the client's lease, with nothing acknowledged.
    pub fn number(&mut self) -> Header {
        for _ in 0..10 {
            if !self.lease.is_none() {
                break;
            }
            // The coordinator may die before it answers.
            let opened = self.ask_as(CLIENT, Header::default(), &LeaseOpen { term_millis: 30 * 60_000 });
            self.lease = opened.map_or(LeaseId::NONE, |opened| opened.expect("a lease").lease);
        }
        self.sequence = self.sequence.next();
        Header {
            lease: self.lease,
            sequence: self.sequence,
            unacknowledged: Sequence(1),
            ..Header::default()
        }
    }

    pub fn ask_as<M: Message>(
        &mut self,
        from: ConnId,
        header: Header,
        message: &M,
    ) -> Option<Result<M::Reply, Status>> {
        let rpc = self.push(from, header, message);
        self.settle();
        let (status, body) = self.answer_to(rpc)?;
        Some(if status == Status::Ok { Ok(decode(body).expect("a whole answer")) } else { Err(status) })
    }

    /// A server asks under its id.
    pub fn server<M: Message>(&mut self, at: SocketAddr, message: &M) -> Option<Result<M::Reply, Status>> {
        let sender = self.servers.get(&at).expect("a server").id;
        let header = Header { sender, ..self.header() };
        self.ask_as(ConnId(u64::from(at.port())), header, message)
    }

    // Cluster.

    pub fn enlist_message(port: u16, token: u64, directory: u64, replaces: Option<ServerId>) -> Enlist {
        Enlist {
            token,
            directory: DirectoryId(directory),
            replaces,
            address: Address(addr(port)),
            labels: Vec::new(),
            master: true,
            backup: true,
            read_speed: 100,
            log_bytes: 1 << 20,
            disk_bytes: 1 << 20,
            redis_cluster_port: None,
            links: None,
        }
    }

    /// Starts a server with its own directory on this port (its directory's id is the port).
    pub fn enlist(&mut self, port: u16) -> ServerId {
        self.enlist_again(port, None)
    }

    pub fn enlist_again(&mut self, port: u16, replaces: Option<ServerId>) -> ServerId {
        self.enlist_as(port, port, replaces, Vec::new())
    }

    /// A server on this port with the directory of another.
    pub fn enlist_with_directory_of(&mut self, other: u16, port: u16) -> ServerId {
        self.enlist_as(port, other, None, Vec::new())
    }

    pub fn enlist_labelled(&mut self, port: u16, labels: Vec<Label>) -> ServerId {
        self.enlist_as(port, port, None, labels)
    }

    fn enlist_as(
        &mut self,
        port: u16,
        directory: u16,
        replaces: Option<ServerId>,
        labels: Vec<Label>,
    ) -> ServerId {
        let token = 77_000_000 + self.rpc;
        let message = World::enlist_message(port, token, u64::from(directory), replaces);
        let message = Enlist { labels, ..message };
        // The new process listens before it has an id.
        let server = Server {
            id: ServerId::NONE,
            mood: Mood::Answering,
            deaf: BTreeSet::new(),
            ignorant: BTreeSet::new(),
            unheard: 0,
            holds_pongs: false,
            held_pongs: Vec::new(),
            replicas: BTreeMap::new(),
            list: ramhold_wire::ServerList::default(),
            takes: Vec::new(),
            tardy: false,
            unanswered: Vec::new(),
            drops: Vec::new(),
            divides: Vec::new(),
            recovers: Vec::new(),
            fences: 0,
            has_failed: false,
            lease_millis: 0,
            placement: ReplicaPlacement::Scatter,
            topology: Default::default(),
            bricks: None,
            accounts: None,
            accounts_told: 0,
            room: RoomReport { frames: 1 << 20, log_bytes: 1 << 40, lone_segments: 0 },
            weights: Vec::new(),
            weights_asked: 0,
            worked: RecoveryWorked::default(),
            worked_asked: 0,
            diligent: true,
            reaches: Vec::new(),
            state: BTreeMap::new(),
            held: None,
            copied: (0, 0),
            term: Default::default(),
            registered: BTreeMap::new(),
            segment: 0,
        };
        self.servers.insert(addr(port), server);
        let mut enlisted = None;
        for _ in 0..10 {
            // A server repeats until it is answered.
            enlisted = self.ask_as(ConnId(u64::from(port)), Header::default(), &message);
            if enlisted.is_some() {
                break;
            }
        }
        let enlisted: Enlisted = enlisted.expect("an answer").expect("to be taken in");
        let server = self.server_mut(port);
        server.id = enlisted.server;
        server.list.apply(&enlisted.list);
        server.bricks = enlisted.list.bricks;
        server.hear_accounts(enlisted.list.accounts);
        enlisted.server
    }

    /// A cluster of servers on ports 1 to `count`.
    pub fn cluster(count: u16) -> World {
        let mut world = World::new();
        for port in 1..=count {
            world.enlist(port);
        }
        world.run(Duration::from_millis(500));
        world
    }

    pub fn server_mut(&mut self, port: u16) -> &mut Server {
        self.servers.get_mut(&addr(port)).expect("a server")
    }

    /// Answers to pings arrive that were on their way; false: there were none.
    pub fn release_pongs(&mut self, port: u16) -> bool {
        let held = std::mem::take(&mut self.server_mut(port).held_pongs);
        for (header, pong) in &held {
            self.answer(addr(port), header, Status::Ok, pong);
        }
        self.settle();
        !held.is_empty()
    }

    pub fn kill(&mut self, port: u16) {
        self.server_mut(port).mood = Mood::Refusing;
    }

    pub fn create(&mut self, name: &str, options: TableOptions) -> ramhold_base::TableId {
        let message = TableCreate { name: name.into(), options, left_open: None };
        let header = self.number();
        for _ in 0..100 {
            if let Some(answer) = self.ask_as(CLIENT, header, &message) {
                return answer.expect("a table").table;
            }
            self.run(Duration::from_millis(300));
        }
        panic!("table {name} was never created");
    }

    pub fn describe(&mut self, name: &str) -> TableDescription {
        self.client(&TableDescribe { name: name.into(), table: Default::default() })
            .expect("an answer")
            .expect("a table")
    }

    pub fn status(&mut self) -> ClusterStatus {
        self.client(&ClusterStatusRequest {}).expect("an answer").expect("a status")
    }

    /// Backups on these ports hold a whole one-segment log of the server's stream: an open head with data.
    pub fn give_head(&mut self, dead: ServerId, stream: u16, ports: &[u16]) {
        for port in ports {
            let report = head_report(stream, 1, 0, 500, &[1], &[]);
            self.server_mut(*port).replicas.entry(dead).or_default().push(report);
        }
    }

    pub fn is_over(&self, crashed: ServerId) -> bool {
        self.state().recoveries.values().any(|r| r.crashed == crashed && r.done)
    }
}

/// A cheap stand-in for hashing.
pub fn stored_as(password: &Password) -> String {
    let bytes = match password {
        Password::Plain(plain) => plain.as_slice(),
        Password::Sha256(hash) => hash.as_bytes(),
    };
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    format!("$test${:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

pub fn buffered(replicas: u8, tablets: u32) -> TableOptions {
    TableOptions {
        durability: Durability::Buffered,
        replicas,
        tablets,
        slots: false,
        zone: None,
        quorum: None,
    }
}

pub fn recovered(recover: &Recover, outcome: RecoveryOutcome) -> Recovered {
    let Recover { recovery, partition, attempt, .. } = *recover;
    Recovered { recovery, partition, attempt, outcome }
}

/// An open head as a backup reports it.
pub fn head_report(
    stream: u16,
    segment: u64,
    epoch: u32,
    certified: u32,
    digest: &[u64],
    stats: &[TabletStat],
) -> ReplicaReport {
    ReplicaReport {
        shard: ShardId(0),
        stream: StreamId(stream),
        segment: SegmentId(segment),
        epoch: ramhold_base::Epoch(epoch),
        closed: false,
        certified,
        primary: false,
        cut: false,
        side: false,
        time: ramhold_base::ClusterTime(7),
        opening: Some(Opening {
            digest: digest.iter().map(|s| SegmentId(*s)).collect(),
            safe_version: ramhold_base::Version(30),
            stats: stats.to_vec(),
        }),
    }
}

/// Tablets in order, covering everything.
pub fn assert_covered(description: &TableDescription) {
    let mut next = Some(0u64);
    for tablet in &description.tablets {
        assert_eq!(Some(tablet.first.0), next, "{description:?}");
        next = tablet.last.0.checked_add(1);
    }
    assert_eq!(next, None);
    assert_ne!(description.tablets.len(), 0);
    let _ = KeyHash(0);
}
