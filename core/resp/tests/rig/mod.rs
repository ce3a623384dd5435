//! The front over a host that answers when the test says so, and a coordinator that knows one table.

#![allow(dead_code, reason = "the tests of the front and the fuzzer each use a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

pub mod accounts;
pub mod bricks;

use accounts::Accounts;
use bricks::{Bricks, CARTS};
use ramhold_access::{AtOnce, Begun, Roster};
use ramhold_base::hash::{Placement, PlacementHasher, PlacementSeed};
use ramhold_base::map::FastMap;
use ramhold_base::time::earliest;
use ramhold_base::*;
use ramhold_resp::{Attempt, Host, Resp, RespConfig};
use ramhold_wire::accounts::AccountsChanged;
use ramhold_wire::commit::{CommitAction, CommitRequest};
use ramhold_wire::control::{Address, decode, encode_into};
use ramhold_wire::count::{CountReply, CountRequest};
use ramhold_wire::data::{IncrementReply, ReadReply, encode_version};
use ramhold_wire::lease::{LeaseMeet, LeaseOpened, LeaseRenewed};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::membership::Durability;
use ramhold_wire::scan::{ScanHead, ScanRequest, encode_object_head};
use ramhold_wire::status::ProcessStatus;
use ramhold_wire::table::{
    TableDescribe, TableDescription, TableOptions, TableSummary, TableTruncated, Tables, TabletDescription,
    TabletState,
};
use ramhold_wire::{Header, Opcode, frame};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::time::Duration;

const PLACEMENT_SEED: PlacementSeed = PlacementSeed(1);
static PLACEMENT: LazyLock<PlacementHasher> =
    LazyLock::new(|| PlacementHasher::new(Placement { seed: PLACEMENT_SEED, slots: true }));

const COORDINATOR: &str = "10.0.0.250:1";

/// Objects of this process; answers wait while `delays`.
#[derive(Default)]
pub struct Shelf {
    pub objects: BTreeMap<Vec<u8>, (Version, Vec<u8>)>,
    pub version: u64,
    pub delays: bool,
    pub ready: LocalAnswers,
    pub waiting: Vec<(u64, Status, Vec<u8>)>,
    pub asked: Vec<String>,
    pub has_losses: bool,
    pub has_unconfirmed: bool,
    /// Tablets of this server, and where it hears clients of Redis Cluster; none: the table is one tablet, and nowhere.
    pub served: Vec<(KeyHash, KeyHash)>,
    pub cluster_address: Option<SocketAddr>,
    /// Where bricks listen, as this server was told.
    pub bricks: Vec<SocketAddr>,
    pub accounts: Accounts,
}

impl Shelf {
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> Version {
        self.version += 1;
        self.objects.insert(key.to_vec(), (Version(self.version), value.to_vec()));
        Version(self.version)
    }

    pub fn say(&mut self, ticket: u64, status: Status, body: Vec<u8>) {
        if self.delays {
            self.waiting.push((ticket, status, body));
        } else {
            self.ready.push(ticket, status, |out| out.extend_from_slice(&body));
        }
    }

    pub fn commit(&mut self, commit: &CommitRequest<'_>) -> Status {
        let names: Vec<_> = commit.items().iter().map(|item| String::from_utf8_lossy(item.key)).collect();
        self.asked.push(format!("commit {}", names.join(" ")));
        for item in commit.items() {
            let current = self.objects.get(item.key).map(|(version, _)| *version);
            if let Err(status) = item.rules.check(current) {
                return status;
            }
        }
        for item in commit.items() {
            match item.action {
                CommitAction::Check => {}
                CommitAction::Remove => drop(self.objects.remove(item.key)),
                CommitAction::Write { value, .. } => drop(self.write(item.key, value)),
            }
        }
        Status::Ok
    }

    /// The end of the tablet, ours or another's, that a hash is in.
    fn tablet_end(&self, hash: KeyHash) -> KeyHash {
        let ends = self.served.iter().flat_map(|(first, last)| [first.0.wrapping_sub(1), last.0]);
        KeyHash(ends.filter(|end| *end >= hash.0).min().unwrap_or(u64::MAX))
    }

    fn keys_between(&self, first: KeyHash, last: KeyHash) -> Vec<Vec<u8>> {
        let is_between = |key: &&Vec<u8>| (first..=last).contains(&PLACEMENT.hash(key));
        self.objects.keys().filter(is_between).cloned().collect()
    }

    pub fn release(&mut self) {
        for (ticket, status, body) in std::mem::take(&mut self.waiting) {
            self.ready.push(ticket, status, |out| out.extend_from_slice(&body));
        }
    }
}

impl Host for Shelf {
    fn prefetch(&self, _table: TableId, keys: &mut dyn Iterator<Item = &[u8]>) {
        // The front looks ahead at keys only.
        keys.for_each(|key| assert!(key.len() <= limits::KEY_BYTES_MAX));
    }

    fn objects_by_table(&self) -> FastMap<TableId, Option<u64>> {
        let count = (!self.has_losses).then_some(self.objects.len() as u64);
        FastMap::from_iter([(TableId(3), count), (TableId(4), Some(5))])
    }

    fn treat(&mut self, _now: Instant, request: &LocalRequest<'_>, ticket: u64, _effects: &mut Effects) {
        let mut body = Vec::new();
        if let LocalRequest::Commit(commit) = request {
            let status = self.commit(commit);
            encode_version(&mut body, Version(self.version));
            return self.say(ticket, status, body);
        }
        let (key, rules, name) = match request {
            LocalRequest::Read(read) => (read.key, read.rules, "read"),
            LocalRequest::Remove(remove) => (remove.key, remove.rules, "remove"),
            LocalRequest::Write(write) => (write.key, write.rules, "write"),
            LocalRequest::Increment(increment) => (increment.key, increment.rules, "increment"),
            LocalRequest::Commit(_) => unreachable!(),
        };
        self.asked.push(format!("{name} {}", String::from_utf8_lossy(key)));
        let found = self.objects.get(key).cloned();
        let status = match rules.check(found.as_ref().map(|(version, _)| *version)) {
            Err(status) => {
                encode_version(&mut body, Version::NONE);
                status
            }
            Ok(()) => match (request, found) {
                (LocalRequest::Read(_), None) => Status::NotFound,
                (LocalRequest::Read(_), Some((version, value))) => {
                    ReadReply::encode_head(&mut body, version, 0, None);
                    body.extend_from_slice(&value);
                    Status::Ok
                }
                (LocalRequest::Write(write), _) => {
                    encode_version(&mut body, self.write(key, write.value));
                    Status::Ok
                }
                (LocalRequest::Remove(_), found) => {
                    self.objects.remove(key);
                    encode_version(&mut body, found.map_or(Version::NONE, |(version, _)| version));
                    Status::Ok
                }
                (LocalRequest::Commit(_), _) => unreachable!(),
                (LocalRequest::Increment(by), found) => {
                    let found = found.map_or(b"0".to_vec(), |(_, value)| value);
                    match by.by.parse_alike(&found).and_then(|old| old.sum(by.by)) {
                        Err(status) => status,
                        Ok(sum) => {
                            let version = self.write(key, sum.to_string().as_bytes());
                            IncrementReply { version, bits: sum.bits() }.encode(&mut body);
                            Status::Ok
                        }
                    }
                }
            },
        };
        self.say(ticket, status, body);
    }

    fn finish(&mut self, _now: Instant, _bytes: u64, _effects: &mut Effects) {}

    fn swap_answers(&mut self, answers: &mut LocalAnswers) {
        std::mem::swap(&mut self.ready, answers);
    }

    fn time(&self, now: Instant) -> u64 {
        1_700_000_000_000 + now.0 / 1_000_000
    }

    fn status(&self, _now: Instant) -> ProcessStatus {
        ProcessStatus::default()
    }

    fn ranges_served(&self, _table: TableId) -> Vec<(KeyHash, KeyHash)> {
        self.served.clone()
    }

    fn cluster_address(&self, _server: ServerId) -> Option<SocketAddr> {
        self.cluster_address
    }

    fn has_unconfirmed(&self) -> bool {
        self.has_unconfirmed
    }

    fn roster(&self) -> &Roster {
        &self.accounts.roster
    }

    fn login(&mut self, now: Instant, attempt: Attempt<'_>, effects: &mut Effects) -> Begun {
        self.accounts.login(now, attempt, effects)
    }

    fn login_at_once(
        &mut self,
        now: Instant,
        address: Option<IpAddr>,
        is_right: &dyn Fn() -> bool,
    ) -> AtOnce {
        self.accounts.logins.compare_at_once(now, address, is_right)
    }

    fn random(&mut self, bytes: u16, effects: &mut Effects) -> SecretToken {
        let token = self.accounts.logins.next_token();
        effects.push(Effect::Secret { token, work: SecretWork::Random { bytes } });
        token
    }

    fn me(&self) -> ServerId {
        ServerId(1)
    }

    fn cluster(&self) -> u64 {
        7
    }

    fn masters(&self) -> Vec<(ServerId, SocketAddr)> {
        self.servers()
    }

    fn servers(&self) -> Vec<(ServerId, SocketAddr)> {
        vec![(ServerId(1), "10.0.0.1:1".parse().unwrap())]
    }

    fn bricks(&self) -> Vec<SocketAddr> {
        self.bricks.clone()
    }

    fn to_server(&self, server: ServerId) -> Header {
        Header { cluster: ClusterId(7), sender: ServerId(1), target: server, ..Header::default() }
    }
}

pub struct Rig {
    pub resp: Resp,
    pub shelf: Shelf,
    pub now: Instant,
    /// The bytes of each connection that were not heard yet.
    pub inputs: BTreeMap<ConnId, Vec<u8>>,
    pub outputs: BTreeMap<ConnId, Vec<u8>>,
    pub closed: Vec<ConnId>,
    pub held: Vec<ConnId>,
    /// Whatever else the session asks for is refused, instead of being a failure of the test.
    pub refuses: bool,
    /// Masters that were told of a lease, and what they answer.
    pub met: Vec<(ServerId, LeaseId)>,
    pub meets: Status,
    /// How often the table was described, and the owner that was told.
    pub described: usize,
    pub owner: ServerId,
    pub bricks: Bricks,
    /// The coordinator does not answer.
    pub is_coordinator_silent: bool,
    /// Refusals of bricks that are still to come.
    pub late: VecDeque<(Instant, Header, Status)>,
}

pub const A: ConnId = ConnId(1);
pub const B: ConnId = ConnId(2);

impl Rig {
    pub fn new() -> Rig {
        Rig::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut RespConfig)) -> Rig {
        let mut config = RespConfig::new(COORDINATOR.parse().unwrap());
        change(&mut config);
        Rig {
            resp: Resp::new(config, &ramhold_resp::catalog(), 5),
            shelf: Shelf::default(),
            now: Instant(1),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            closed: Vec::new(),
            held: Vec::new(),
            refuses: false,
            met: Vec::new(),
            meets: Status::Ok,
            described: 0,
            owner: ServerId(1),
            bricks: Bricks::default(),
            is_coordinator_silent: false,
            late: VecDeque::new(),
        }
    }

    /// Bytes come over a connection.
    pub fn feed(&mut self, conn: ConnId, bytes: &[u8]) {
        self.inputs.entry(conn).or_default().extend_from_slice(bytes);
        // A connection that is held is not read.
        if !self.held.contains(&conn) {
            self.hear(conn);
        }
    }

    pub fn hear(&mut self, conn: ConnId) {
        loop {
            let bytes = self.inputs.get(&conn).cloned().unwrap_or_default();
            if bytes.is_empty() || self.closed.contains(&conn) {
                return;
            }
            let mut effects = Effects::new();
            self.resp.on_bytes(self.now, conn, &bytes, &mut self.shelf, &mut effects);
            let taken = effects.taken;
            self.inputs.insert(conn, bytes[taken.bytes..].to_vec());
            if taken.rest == Rest::Held {
                self.held.push(conn);
            }
            self.execute(effects);
            if taken.rest != Rest::More {
                return;
            }
        }
    }

    pub fn execute(&mut self, effects: Effects) {
        // Answers of others come after everything that this step does.
        let (mut again, mut asked) = (Vec::new(), Vec::new());
        for effect in &effects.list {
            match effect {
                Effect::Send { to: Peer::Conn(conn), frame } => {
                    let bytes = frame.of(&effects.bytes);
                    self.outputs.entry(*conn).or_default().extend_from_slice(&bytes);
                }
                Effect::Send { to: Peer::Addr(to), frame } => {
                    let bytes = frame.of(&effects.bytes);
                    let (header, body) = frame::parse(&bytes).unwrap();
                    let is_of_brick = Bricks::listens(*to);
                    if is_of_brick || !self.is_coordinator_silent {
                        asked.push((header, body.to_vec()));
                    }
                }
                Effect::Hear { conn } => again.push(*conn),
                Effect::Close { conn } => self.closed.push(*conn),
                Effect::Secret { token, work } => self.shelf.accounts.secrets.push((*token, work.clone())),
                _ => {}
            }
        }
        asked.iter().for_each(|(header, body)| self.answer(header, body));
        for conn in again {
            if let Some(at) = self.held.iter().position(|held| *held == conn) {
                self.held.remove(at);
                self.hear(conn);
            }
        }
    }

    /// Answers a request of the session, in place of the coordinator, the bricks and the masters.
    pub fn answer(&mut self, header: &Header, body: &[u8]) {
        match header.opcode() {
            Some(Opcode::TableDescribe) => {
                self.described += 1;
                let asked: TableDescribe = decode(body).unwrap();
                let carts = self.bricks.describe();
                let is_there = !self.bricks.is_over;
                if is_there && (asked.name == CARTS || asked.name.is_empty() && asked.table == carts.table) {
                    return self.answer_with(header, Status::Ok, |out| encode_into(out, &carts));
                }
                if self.bricks.is_gone(asked.table) {
                    return self.answer_with(header, Status::UnknownTable, |_| {});
                }
            }
            Some(Opcode::Ask | Opcode::BrickPage) => {
                let Some((status, body)) = self.bricks.answer(self.now, header, body) else { return };
                if status != Status::Ok {
                    // A session that is refused at once asks the next brick at once.
                    return self.late.push_back((self.now + Duration::from_millis(1), *header, status));
                }
                return self.answer_with(header, status, |out| out.extend_from_slice(&body));
            }
            Some(Opcode::TableList) if !self.refuses => {
                let TableDescription { table, name, options, .. } = self.bricks.describe();
                let tables = vec![TableSummary { table, name, options, tablets: 1, losses: 0 }];
                return self.answer_with(header, Status::Ok, |out| encode_into(out, &Tables { tables }));
            }
            Some(Opcode::TableTruncate) if !self.refuses => {
                let table = self.bricks.replace();
                return self
                    .answer_with(header, Status::Ok, |out| encode_into(out, &TableTruncated { table }));
            }
            Some(Opcode::LeaseOpen) => {
                let opened = LeaseOpened { lease: LeaseId(7), term_millis: 1_800_000 };
                return self.answer_with(header, Status::Ok, |out| encode_into(out, &opened));
            }
            Some(Opcode::LeaseRenew) => {
                let renewed = LeaseRenewed { term_millis: 1_800_000 };
                return self.answer_with(header, Status::Ok, |out| encode_into(out, &renewed));
            }
            Some(Opcode::LeaseMeet) => {
                self.met.push((header.target, decode::<LeaseMeet>(body).unwrap().lease));
                return self.answer_with(header, self.meets, |_| {});
            }
            Some(Opcode::AccountSet) => {
                let changed = self.shelf.accounts.on_set(body);
                return self.answer_change(header, &changed);
            }
            Some(Opcode::AccountRemove) => {
                let changed = self.shelf.accounts.on_remove(body);
                return self.answer_change(header, &changed);
            }
            _ if self.refuses => return self.answer_with(header, Status::BadRequest, |_| {}),
            Some(Opcode::Count) if !self.shelf.served.is_empty() => {
                let asked = CountRequest::decode(body).unwrap();
                let last = self.shelf.tablet_end(asked.first);
                let objects = self.shelf.keys_between(asked.first, last).len() as u64;
                return self.answer_with(header, Status::Ok, |out| CountReply { last, objects }.encode(out));
            }
            // Objects were lost: nobody knows how many there are, and a page shows those that are left.
            Some(Opcode::Count) => {
                return self.answer_with(header, Status::Corrupt, |out| encode_version(out, Version::NONE));
            }
            Some(Opcode::Scan) => {
                let first = ScanRequest::decode(body).unwrap().first;
                let last = self.shelf.tablet_end(first);
                let keys = self.shelf.keys_between(first, last);
                return self.answer_with(header, Status::Ok, |out| {
                    ScanHead { last, next: None }.encode(out);
                    for key in &keys {
                        encode_object_head(out, (Version(1), 0, None), key.len(), 0);
                        out.extend_from_slice(key);
                    }
                });
            }
            other => panic!("objects are this process's own: {other:?}"),
        }
        let description = TableDescription {
            shortage: None,
            table: TableId(3),
            name: "db0".into(),
            options: TableOptions {
                durability: Durability::Buffered,
                replicas: 1,
                tablets: 1,
                slots: true,
                zone: None,
                quorum: None,
            },
            reclassing: 0,
            seed: PLACEMENT_SEED,
            tablets: vec![TabletDescription {
                first: KeyHash(0),
                last: KeyHash(u64::MAX),
                state: TabletState::Serving,
                owner: self.owner,
                shard: ShardId(0),
                address: Some(Address("10.0.0.1:1".parse().unwrap())),
                stream: StreamId(0),
                first_segment: SegmentId(0),
            }],
            outside: None,
            quorum: None,
            zones: None,
        };
        self.answer_with(header, Status::Ok, |out| encode_into(out, &description));
    }

    /// A change is told in time, unless the test wants it to be late.
    fn answer_change(&mut self, header: &Header, changed: &AccountsChanged) {
        if !self.shelf.accounts.is_told_late {
            self.tell_accounts();
        }
        self.answer_with(header, Status::Ok, |out| encode_into(out, changed));
    }

    /// Tells this process the accounts that the coordinator has.
    pub fn tell_accounts(&mut self) {
        if self.shelf.accounts.tell() {
            let mut effects = Effects::new();
            self.resp.on_roster(self.now, &mut self.shelf, &mut effects);
            self.execute(effects);
        }
    }

    /// Changes an account, and tells this process.
    pub fn set_account(&mut self, name: &str, words: &[&str]) {
        assert_eq!(self.shelf.accounts.set(name, words).obstacle, None);
        self.tell_accounts();
    }

    /// Does the work with passwords that was asked for. Returns how much it was.
    pub fn do_secrets(&mut self) -> usize {
        let works = std::mem::take(&mut self.shelf.accounts.secrets);
        for (token, work) in &works {
            let result = self.shelf.accounts.carry_out(work);
            let mut effects = Effects::new();
            let verdicts = self.shelf.accounts.logins.answered(self.now, *token, &result);
            if verdicts.is_empty() {
                self.resp.on_random(self.now, (*token, result), &mut self.shelf, &mut effects);
            } else {
                self.resp.on_logins(self.now, verdicts, &mut self.shelf, &mut effects);
            }
            self.execute(effects);
        }
        works.len()
    }

    /// Sends lines, does work with passwords, and gives what is answered then.
    pub fn ask_slowly(&mut self, conn: ConnId, lines: &str) -> String {
        let at_once = self.ask(conn, lines);
        while self.do_secrets() > 0 {}
        at_once + &self.said(conn)
    }

    fn answer_with(&mut self, header: &Header, status: Status, body: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        let answer = Header { cluster: ClusterId(7), ..header.answer(status) };
        frame::write(&mut bytes, &answer, body);
        let mut effects = Effects::new();
        let input = Input::Frame { from: ConnId(99), bytes: &bytes };
        self.resp.on_session(self.now, input, &mut self.shelf, &mut effects);
        self.execute(effects);
    }

    pub fn release(&mut self) {
        self.shelf.release();
        let mut effects = Effects::new();
        self.resp.on_host(self.now, &mut self.shelf, &mut effects);
        self.execute(effects);
    }

    /// Time passes, and whatever waits for it is told.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let refused = self.late.front().map(|(at, ..)| *at);
            let Some(at) = earliest(self.resp.deadline(), refused).filter(|at| *at <= end) else { break };
            if refused.is_some_and(|refused| refused <= at) {
                self.now = at.max(self.now);
                let (_, header, status) = self.late.pop_front().unwrap();
                self.answer_with(&header, status, |_| {});
                continue;
            }
            self.now = at.max(self.now);
            let mut effects = Effects::new();
            self.resp.on_session(self.now, Input::Tick, &mut self.shelf, &mut effects);
            self.execute(effects);
        }
        self.now = end;
    }

    pub fn said(&mut self, conn: ConnId) -> String {
        String::from_utf8(std::mem::take(self.outputs.entry(conn).or_default())).unwrap()
    }

    /// Sends lines and gives what is answered at once.
    pub fn ask(&mut self, conn: ConnId, lines: &str) -> String {
        let lines = lines.replace('\n', "\r\n") + "\r\n";
        self.feed(conn, lines.as_bytes());
        self.said(conn)
    }
}
