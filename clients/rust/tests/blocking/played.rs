//! A cluster of one process that plays both coordinator and server: enough to answer every operation over
//! real sockets.
//!
//! It keeps objects in a map and forgets them when the process ends. It can be told to misbehave. Its cluster
//! time stands still, so an object either ends at once or never.

#[path = "played/accounts.rs"]
mod accounts;

use accounts::PlayedAccounts;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{
    ClusterId, ClusterTime, ConnId, DirectoryId, Effect, Effects, Input, Instant, KeyHash, LeaseId, Machine,
    Peer, RecoveryId, SegmentId, Sequence, ServerId, ShardId, Stamp, Status, StreamId, TableId, Term,
    Version,
};
use ramhold_runtime::{Runtime, RuntimeConfig, StopHandle};
use ramhold_wire::ask::{AskReply, AskRequest, AskSaid, AskWhat, StampedValue};
use ramhold_wire::commit::{CommitAction, CommitRequest};
use ramhold_wire::control::{Address, Empty, decode, encode_into};
use ramhold_wire::count::{CountReply, CountRequest};
use ramhold_wire::data::{
    IncrementReply, IncrementRequest, KeyRequest, ReadReply, WriteRequest, encode_version,
};
use ramhold_wire::lease::{LeaseOpen, LeaseOpened, LeaseRenewed};
use ramhold_wire::membership::{Label, ServerEntry, ServerState};
use ramhold_wire::multi::{MultiRequest, encode_answer};
use ramhold_wire::quorum::{BrickPlace, BrickTablet};
use ramhold_wire::scan::{ScanHead, ScanRequest, encode_object_head};
use ramhold_wire::status::{
    BackupReport, BackupStatus, ClusterStatus, GoneReport, LossReport, Pong, ProcessStatus, Recoveries,
    RecoveryPhase, RecoveryReport, ServerForget, StreamStatus, WorkReport,
};
use ramhold_wire::table::{
    TableCreate, TableCreated, TableDescribe, TableDescription, TableDrop, TableSummary, Tables,
    TabletDescription, TabletState,
};
use ramhold_wire::topology::Topology;
use ramhold_wire::{Header, Opcode, frame};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread::JoinHandle;

const BRICKS: [ServerId; 3] = [ServerId(11), ServerId(12), ServerId(13)];

/// How the played server misbehaves.
#[derive(Clone, Copy, Default)]
pub struct Mischief {
    /// Every so many requests for objects is refused with `Retry`.
    pub retry_every: u64,
    /// Every so many writes is done, and then the connection ends without an answer.
    pub break_every: u64,
    /// Every write is refused with this.
    pub refuse_writes: Option<Status>,
    /// So many writes to bricks are refused with `NotReady`, except those to the first brick.
    pub refuse_brick_writes: u64,
    /// The servers stand at places 00, 01, ... of this network.
    pub topology: Option<&'static str>,
}

/// Runs until dropped.
pub struct Played {
    pub address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl Played {
    pub fn start(mischief: Mischief) -> Played {
        let machine = Cluster { mischief, ..Cluster::default() };
        let listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let config = RuntimeConfig { listen, report: Box::new(|_, _| {}), ..RuntimeConfig::default() };
        let mut runtime = Runtime::new(machine, config).unwrap();
        let address = runtime.local_addr().unwrap();
        runtime.machine_mut().address = Some(address);
        let stop = runtime.stop_handle();
        let thread = std::thread::spawn(move || {
            runtime.run();
        });
        Played { address, stop, thread: Some(thread) }
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[derive(Clone)]
struct Object {
    version: Version,
    expires: Option<ClusterTime>,
    value: Vec<u8>,
}

#[derive(Default)]
struct Cluster {
    mischief: Mischief,
    address: Option<SocketAddr>,
    tables: BTreeMap<TableId, TableCreate>,
    tables_made: u32,
    objects: BTreeMap<(TableId, Vec<u8>), Object>,
    version: u64,
    time: u32,
    requests: u64,
    writes: u64,
    /// The stamps and values of bricks.
    stored: BTreeMap<BrickKey, (Stamp, Option<Vec<u8>>)>,
    brick_writes_refused: u64,
    pages: u64,
    loss_is_acknowledged: bool,
    is_forgotten: bool,
    accounts: PlayedAccounts,
    leases: u64,
    results: BTreeMap<(LeaseId, Sequence), (Status, Vec<u8>)>,
}

impl Machine for Cluster {
    fn step(&mut self, _now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { wall_millis } => self.time = u32::try_from(wall_millis / 1000).unwrap(),
            Input::Frame { from, bytes } => {
                let (header, body) = frame::parse(bytes).unwrap();
                self.on_request(from, &header, body, effects);
            }
            Input::Stop => effects.push(Effect::Exit { code: 0, reason: "stopped".into() }),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// A brick, and a key of a table that it holds.
type BrickKey = (ServerId, TableId, Vec<u8>);

/// The status and the body of an answer; none breaks the connection.
type Answer = Option<(Status, Vec<u8>)>;

fn ok<T: minicbor::Encode<()>>(body: &T) -> Answer {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, body);
    Some((Status::Ok, bytes))
}

fn version(status: Status, version: Version) -> Answer {
    let mut body = Vec::new();
    encode_version(&mut body, version);
    Some((status, body))
}

fn every(count: u64, every: u64) -> bool {
    every > 0 && count.is_multiple_of(every)
}

impl Cluster {
    fn on_request(&mut self, from: ConnId, header: &Header, body: &[u8], effects: &mut Effects) {
        let answer = match header.opcode().unwrap() {
            Opcode::Multi => self.respond_to_all(header, body),
            opcode => self.respond(opcode, header, body),
        };
        match answer {
            Some((status, body)) => {
                let answer = Header { cluster: ClusterId(77), ..header.answer(status) };
                effects.send_with(Peer::Conn(from), |out| {
                    frame::write(out, &answer, |out| out.extend_from_slice(&body));
                });
            }
            None => effects.push(Effect::Close { conn: from }),
        }
    }

    /// One answer for many. A frame of items counts as one write where connections break.
    fn respond_to_all(&mut self, header: &Header, body: &[u8]) -> Answer {
        let mut bytes = Vec::new();
        self.writes += 1;
        let is_broken = every(self.writes, self.mischief.break_every);
        for (place, item) in (0..).zip(MultiRequest::decode(body).unwrap().items()) {
            let header = Header { sequence: item.sequence, repeated: item.repeated, ..*header };
            let (status, body) = self.respond_unbroken(item.request.into(), &header, item.body).unwrap();
            encode_answer(place, Some(status), &mut bytes, |out| out.extend_from_slice(&body));
        }
        (!is_broken).then_some((Status::Ok, bytes))
    }

    fn respond(&mut self, opcode: Opcode, header: &Header, body: &[u8]) -> Answer {
        if opcode == Opcode::Ask {
            return self.ask(header.target, &AskRequest::decode(body).unwrap());
        }
        self.writes += u64::from(opcode == Opcode::Write);
        let is_broken = opcode == Opcode::Write && every(self.writes, self.mischief.break_every);
        let answer = self.respond_unbroken(opcode, header, body);
        if is_broken { None } else { answer }
    }

    fn respond_unbroken(&mut self, opcode: Opcode, header: &Header, body: &[u8]) -> Answer {
        let is_data = matches!(opcode, Opcode::Read | Opcode::Write | Opcode::Remove | Opcode::Increment);
        self.requests += u64::from(is_data);
        if is_data && header.cluster != ClusterId(77) {
            Some((Status::WrongCluster, Vec::new()))
        } else if is_data && every(self.requests, self.mischief.retry_every) {
            Some((Status::Retry, Vec::new()))
        } else if opcode == Opcode::Write && self.mischief.refuse_writes.is_some() {
            self.mischief.refuse_writes.map(|status| (status, Vec::new()))
        } else {
            self.answer_once(header, opcode, body)
        }
    }

    /// A mutation is carried out once under its number.
    fn answer_once(&mut self, header: &Header, opcode: Opcode, body: &[u8]) -> Answer {
        if !matches!(
            opcode,
            Opcode::Write
                | Opcode::Remove
                | Opcode::Increment
                | Opcode::Commit
                | Opcode::TableCreate
                | Opcode::TableDrop
                | Opcode::TableDivide
                | Opcode::LossAcknowledge
                | Opcode::ServerForget
                | Opcode::AccountSet
                | Opcode::AccountRemove
        ) {
            return self.answer(opcode, body);
        }
        let number = (header.lease, header.sequence);
        assert!(!number.0.is_none() && number.0.raw() <= self.leases);
        if let Some(result) = self.results.get(&number) {
            assert!(header.repeated, "the client knows that it may have been carried out");
            return Some(result.clone());
        }
        let result = self.answer(opcode, body);
        self.results.insert(number, result.clone().unwrap());
        result
    }

    fn answer(&mut self, opcode: Opcode, body: &[u8]) -> Answer {
        match opcode {
            Opcode::LeaseOpen => {
                let LeaseOpen { term_millis } = decode(body).unwrap();
                self.leases += 1;
                ok(&LeaseOpened { lease: LeaseId(self.leases), term_millis })
            }
            // The term is long, so that a client on a slow machine can renew its lease in time.
            Opcode::LeaseRenew => ok(&LeaseRenewed { term_millis: 60_000 }),
            Opcode::Ping => ok(&Pong { server: ServerId::NONE, list_version: 0, time_micros: None }),
            Opcode::TableCreate => self.create(decode(body).unwrap()),
            Opcode::TableList => ok(&Tables { tables: self.tables.iter().map(summary).collect() }),
            Opcode::TableDescribe => self.describe(&decode(body).unwrap()),
            Opcode::TableDrop => {
                let TableDrop { table } = decode(body).unwrap();
                self.tables.remove(&table);
                self.objects.retain(|(of, _), _| *of != table);
                ok(&Empty {})
            }
            Opcode::ClusterStatus => ok(&self.status()),
            Opcode::Recoveries => ok(&Recoveries { recoveries: vec![recovery(self.address.unwrap())] }),
            Opcode::LossAcknowledge => {
                self.loss_is_acknowledged = true;
                ok(&Empty {})
            }
            Opcode::ServerForget => match decode(body).unwrap() {
                ServerForget { server: GONE } if !self.is_forgotten => {
                    self.is_forgotten = true;
                    ok(&Empty {})
                }
                ServerForget { server: ServerId(1..=2) } => Some((Status::NotAllowed, Vec::new())),
                ServerForget { .. } => Some((Status::NotFound, Vec::new())),
            },
            Opcode::AccountList => ok(&self.accounts.list()),
            Opcode::AccountSet => ok(&self.accounts.set(decode(body).unwrap())),
            Opcode::AccountRemove => ok(&self.accounts.remove(decode(body).unwrap())),
            Opcode::ProcessStatus => ok(&self.process()),
            Opcode::Read => self.read(&KeyRequest::decode(body).unwrap()),
            Opcode::Write => self.write(&WriteRequest::decode(body).unwrap()),
            Opcode::Remove => self.remove(&KeyRequest::decode(body).unwrap()),
            Opcode::Scan => self.page(&ScanRequest::decode(body).unwrap()),
            Opcode::Count => {
                let CountRequest { table, .. } = CountRequest::decode(body).unwrap();
                let objects = self.objects.keys().filter(|(of, _)| *of == table).count() as u64;
                let mut body = Vec::new();
                CountReply { last: KeyHash(u64::MAX), objects }.encode(&mut body);
                Some((Status::Ok, body))
            }
            Opcode::Commit => self.commit(&CommitRequest::decode(body).unwrap()),
            Opcode::Increment => self.increment(&IncrementRequest::decode(body).unwrap()),
            other => panic!("nobody asks for {other:?}"),
        }
    }

    fn create(&mut self, request: TableCreate) -> Answer {
        if self.tables.values().any(|there| there.name == request.name) {
            return Some((Status::TableExists, Vec::new()));
        }
        self.tables_made += 1;
        let table = TableId(self.tables_made);
        self.tables.insert(table, request);
        ok(&TableCreated { table })
    }

    fn describe(&self, request: &TableDescribe) -> Answer {
        let mut tables = self.tables.iter();
        let found = tables.find(|(id, there)| there.name == request.name || **id == request.table);
        let Some((table, there)) = found else {
            return Some((Status::UnknownTable, Vec::new()));
        };
        ok(&TableDescription {
            shortage: None,
            table: *table,
            name: there.name.clone(),
            options: there.options.clone(),
            seed: PlacementSeed(9),
            reclassing: 0,
            tablets: vec![TabletDescription {
                first: KeyHash(0),
                last: KeyHash(u64::MAX),
                state: TabletState::Serving,
                owner: ServerId(1),
                shard: ShardId(0),
                address: self.address.map(Address),
                stream: StreamId(1),
                first_segment: SegmentId(1),
            }],
            outside: None,
            quorum: there.options.quorum.map(|_| self.bricks_of(*table)),
            zones: None,
        })
    }

    /// A brick answers; all of them are in this process.
    fn ask(&mut self, brick: ServerId, request: &AskRequest<'_>) -> Answer {
        let place = (brick, request.table, request.key.to_vec());
        let (newest, value) = self.stored.get(&place).cloned().unwrap_or((Stamp::NONE, None));
        let bytes = value.as_deref();
        let said = match request.what {
            AskWhat::Value => {
                AskSaid::Value(newest, bytes.map(|bytes| StampedValue { bytes, expires: None }))
            }
            AskWhat::Stamp => AskSaid::Stamp(newest),
            AskWhat::Write(_)
                if brick > BRICKS[0] && self.brick_writes_refused < self.mischief.refuse_brick_writes =>
            {
                self.brick_writes_refused += 1;
                return Some((Status::NotReady, Vec::new()));
            }
            AskWhat::Write(write) if write.stamp < newest => AskSaid::Rejected(newest),
            AskWhat::Write(write) => {
                let value = write.value.map(|value| value.bytes.to_vec());
                self.stored.insert(place, (write.stamp, value));
                AskSaid::Applied
            }
        };
        let clock = u64::from(self.time) * 1_000_000;
        let mut body = Vec::new();
        AskReply { life: 1, siblings: Vec::new(), epoch: 1, clock, said }.encode(&mut body);
        Some((Status::Ok, body))
    }

    fn bricks_of(&self, table: TableId) -> Vec<BrickTablet> {
        let address = Address(self.address.unwrap());
        let bricks = BRICKS.map(|brick| BrickPlace { brick, address }).to_vec();
        vec![BrickTablet {
            table,
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            epoch: 1,
            bricks,
            joined: vec![],
            giving: None,
        }]
    }

    fn now(&self) -> ClusterTime {
        ClusterTime(u64::from(self.time) * 1000)
    }

    fn read(&self, request: &KeyRequest<'_>) -> Answer {
        let there = self.objects.get(&(request.table, request.key.to_vec()));
        let current = there.map(|there| there.version);
        if let Err(status) = request.rules.check(current) {
            return version(status, current.unwrap_or_default());
        }
        let Some(there) = there else {
            return version(Status::NotFound, Version::NONE);
        };
        let mut body = Vec::new();
        ReadReply::encode_head(&mut body, there.version, self.time, there.expires);
        body.extend_from_slice(&there.value);
        Some((Status::Ok, body))
    }

    fn write(&mut self, request: &WriteRequest<'_>) -> Answer {
        let key = (request.table, request.key.to_vec());
        let current = self.objects.get(&key).map(|there| there.version);
        if let Err(status) = request.rules.check(current) {
            return version(status, current.unwrap_or_default());
        }
        let expires = match request.expiry.map(|expiry| expiry.end(self.now())).transpose() {
            Ok(expires) => expires,
            Err(status) => return Some((status, Vec::new())),
        };
        self.version += 1;
        let written = Version(self.version);
        if expires.is_some_and(|end| end <= self.now()) {
            self.version += 1;
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, Object { version: written, expires, value: request.value.to_vec() });
        }
        version(Status::Ok, written)
    }

    fn remove(&mut self, request: &KeyRequest<'_>) -> Answer {
        let key = (request.table, request.key.to_vec());
        let current = self.objects.get(&key).map(|there| there.version);
        if let Err(status) = request.rules.check(current) {
            return version(status, current.unwrap_or_default());
        }
        if self.objects.remove(&key).is_none() {
            return version(Status::Ok, Version::NONE);
        }
        self.version += 1;
        version(Status::Ok, Version(self.version))
    }

    fn increment(&mut self, request: &IncrementRequest<'_>) -> Answer {
        let key = (request.table, request.key.to_vec());
        let there = self.objects.get(&key);
        let current = there.map(|there| there.version);
        let sum = request.rules.check(current).and_then(|()| match there {
            Some(there) => request.by.parse_alike(&there.value)?.sum(request.by),
            None => Ok(request.by),
        });
        let sum = match sum {
            Ok(sum) => sum,
            Err(status) => return version(status, current.unwrap_or_default()),
        };
        let expires = there.and_then(|there| there.expires);
        self.version += 1;
        let written = Version(self.version);
        self.objects.insert(key, Object { version: written, expires, value: sum.to_string().into_bytes() });
        let mut body = Vec::new();
        IncrementReply { version: written, bits: sum.bits() }.encode(&mut body);
        Some((Status::Ok, body))
    }

    fn commit(&mut self, request: &CommitRequest<'_>) -> Answer {
        for (place, item) in (0u64..).zip(request.items()) {
            let there = self.objects.get(&(item.table, item.key.to_vec()));
            let current = there.map(|there| there.version);
            if let Err(status) = item.rules.check(current) {
                let (_, mut body) = version(status, current.unwrap_or_default()).unwrap();
                body.extend_from_slice(&place.to_le_bytes());
                return Some((status, body));
            }
        }
        self.version += 1;
        let written = Version(self.version);
        for item in request.items() {
            let key = (item.table, item.key.to_vec());
            match item.action {
                CommitAction::Check => {}
                CommitAction::Remove => drop(self.objects.remove(&key)),
                CommitAction::Write { value, .. } => {
                    let object = Object { version: written, expires: None, value: value.to_vec() };
                    self.objects.insert(key, object);
                }
            }
        }
        version(Status::Ok, written)
    }

    /// A page of at most three objects, in the order of their hashes.
    fn page(&mut self, request: &ScanRequest) -> Answer {
        self.pages += 1;
        if every(self.pages, self.mischief.retry_every) {
            return Some((Status::Retry, Vec::new()));
        }
        let hasher = PlacementHasher::new(PlacementSeed(9));
        let objects = self.objects.iter().filter(|((table, _), _)| *table == request.table);
        let objects = objects.map(|((_, key), object)| (hasher.hash(key).0.max(1), key, object));
        let mut objects: Vec<_> = objects.filter(|(at, ..)| *at >= request.position).collect();
        objects.sort_by_key(|(at, ..)| *at);
        let count = request.count.min(3) as usize;
        let next = objects.get(count).map(|(at, ..)| *at);
        let mut body = Vec::new();
        ScanHead { last: request.last, next }.encode(&mut body);
        for (_, key, object) in objects.into_iter().take(count) {
            let value: &[u8] = if request.keys_only { &[] } else { &object.value };
            let fields = (object.version, self.time, object.expires);
            encode_object_head(&mut body, fields, key.len(), value.len());
            body.extend_from_slice(key);
            body.extend_from_slice(value);
        }
        Some((Status::Ok, body))
    }

    fn status(&self) -> ClusterStatus {
        let topology: Topology = self.mischief.topology.map(|text| text.parse().unwrap()).unwrap_or_default();
        let place = topology.label_name();
        let labels = |id: u64| {
            let host = Label { name: "host".into(), value: format!("h{id}") };
            let place = place.map(|name| Label { name: name.into(), value: format!("0{}", id - 1) });
            [host].into_iter().chain(place).collect::<Vec<_>>()
        };
        let server = |id, address: SocketAddr, state| ServerEntry {
            id: ServerId(id),
            address: Address(address),
            labels: labels(id),
            state,
            master: true,
            backup: true,
            read_speed: 100,
            directory: DirectoryId(id),
            kept: false,
            replicates: false,
            replicates_only: None,
            redis_cluster_port: None,
            links: None,
        };
        let address = self.address.unwrap();
        // Nobody listens on port 1 of this machine.
        let gone = SocketAddr::from(([127, 0, 0, 1], 1));
        let loss = LossReport {
            id: 4,
            crashed: ServerId(9),
            stream: StreamId(1),
            durability: ramhold_wire::membership::Durability::None,
            tables: vec![TableId(1)],
            certified: ClusterTime(0),
            crash: ClusterTime(1000),
            reason: "the table keeps no replicas".into(),
        };
        ClusterStatus {
            cluster: ClusterId(77),
            term: Term(2),
            time: ClusterTime(u64::from(self.time) * 1000),
            servers: vec![
                server(1, address, ServerState::Up),
                server(2, gone, ServerState::Up),
                server(3, gone, ServerState::Crashed),
            ],
            tables: self.tables.len() as u64,
            tablets: self.tables.len() as u64,
            tablets_recovering: 0,
            recoveries: vec![recovery(address)],
            losses: if self.loss_is_acknowledged { vec![] } else { vec![loss] },
            warnings: vec!["fewer failure domains than replicas; start more".into()],
            version: "0.1.0".into(),
            cleared: vec![],
            outages: None,
            copyset_rings: None,
            placement: None,
            topology,
            expected: Some(if self.is_forgotten { 3 } else { 4 }),
            gone: Some(if self.is_forgotten { vec![] } else { vec![gone_report()] }),
            bricks: vec![],
        }
    }

    fn process(&self) -> ProcessStatus {
        let stream = StreamStatus {
            stream: StreamId(1),
            durability: ramhold_wire::membership::Durability::Buffered,
            replicas: 3,
            segments: 5,
            incomplete_segments: 2,
            waits_for: Some("a third backup".into()),
            unreplicated_bytes: 100,
            unspread_segments: 0,
            outside_segments: 0,
        };
        ProcessStatus {
            server: ServerId(1),
            version: "0.1.0".into(),
            log_bytes: 1 << 30,
            log_used_bytes: 1 << 20,
            objects: self.objects.len() as u64,
            streams: vec![stream],
            backup: Some(BackupStatus {
                frames_used: 3,
                frames_max: 10,
                mode: "buffers".into(),
                ..BackupStatus::default()
            }),
            ..ProcessStatus::default()
        }
    }
}

/// Dead for good, and not in the list any more.
const GONE: ServerId = ServerId(6);

fn gone_report() -> GoneReport {
    GoneReport {
        server: GONE,
        directory: DirectoryId(6),
        address: Address(SocketAddr::from(([10, 0, 0, 6], 7401))),
        labels: vec![Label { name: "host".into(), value: "h6".into() }],
        since: ClusterTime(1_700_000_000_000),
        cause: "connection refused twice".into(),
    }
}

fn summary((table, there): (&TableId, &TableCreate)) -> TableSummary {
    TableSummary {
        table: *table,
        name: there.name.clone(),
        options: there.options.clone(),
        tablets: 1,
        losses: 0,
    }
}

fn backups() -> BackupReport {
    let work =
        |count, from, to| WorkReport { count, bytes: 4096, busy: 9000, from: Some(from), to: Some(to) };
    BackupReport {
        server: ServerId::NONE,
        read: work(33, 130, 150),
        divide: work(32, 140, 160),
        free: WorkReport::default(),
        held: 7,
    }
}

fn recovery(address: SocketAddr) -> RecoveryReport {
    RecoveryReport {
        waits_for: None,
        backups: vec![BackupReport { server: ServerId(4), ..backups() }],
        backups_total: backups(),
        recovery: RecoveryId(5),
        crashed: ServerId(3),
        address: Address(address),
        detected: ClusterTime(1000),
        phase: RecoveryPhase::Incomplete,
        complete_millis: Some(120),
        first_live_millis: None,
        done_millis: None,
        partitions: 4,
        partitions_live: 0,
        segments: 10,
        bytes: 2048,
        records: 100,
        missing: vec!["segment seg7".into()],
        failed_attempts: 0,
        tablets: 1,
        cause: "connection refused twice".into(),
        steps: Default::default(),
        parts: Vec::new(),
        away: Vec::new(),
        given_up: Vec::new(),
    }
}
