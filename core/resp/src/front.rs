//! Carries out commands: connections, their order, and the way to objects.
//!
//! A request is taken off a connection's bytes when it can begin, and becomes a running command until its reply is there.
//! Replies leave in the order of their requests. Objects whose tablets are in this process are asked for directly
//! (`Host`), all others, and whatever the direct way refuses, through a client session of the process's own.
//!
//! Order: requests of a connection have their effects as if each had waited for the one before. What the host carries out
//! at once is in order by itself; a request that touches a key of one that is still under way is not begun before that
//! is over, nor is one that is `exclusive` among others.
//!
//! Invariants:
//! - every whole request gets one reply, in order, unless the connection ends first;
//! - what a connection holds is bounded: bytes that are not taken stay in the socket.
//!
//! Not here: what commands mean (`commands`), sockets (io).

mod about;
mod answer;
mod clients;
mod cluster;
mod connection;
mod fast;
mod flow;
mod idle;
mod immediate;
mod keyspace;
mod latency;
mod muted;
mod pubsub;
mod ready;
mod running;
mod subscriptions;
mod tables;
mod tickets;
mod together;
mod transact;

use crate::ahead::Ahead;
use crate::{Fault, Limits};
use answer::Answer;
use connection::Connection;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::map::FastMap;
use ramhold_base::time::earliest;
use ramhold_base::{
    ConnId, Effect, Effects, Input, Instant, KeyHash, Latencies, LeaseId, Machine, Rng, ServerId, Status,
    TableId,
};
use ramhold_client_core::{Operation, Session, SessionConfig};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::status::ProcessStatus;
use ramhold_wire::{Calls, Header};
use std::net::SocketAddr;
use std::time::Duration;
use tables::Databases;
use tickets::{Part, Tickets};
pub use together::CrossSlot;

/// The top byte of the session's rpc ids in a server process, and of those of questions to other fronts and masters.
pub const CALLS_ROLE: u8 = 5;
pub const PEERS_ROLE: u8 = 6;

/// Why an answer of another server is awaited.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// A command waits for what the server's subscribers heard, or are.
    Listeners { conn: ConnId, seq: u64 },
    /// Its master was told of the session's lease.
    Met { server: ServerId, lease: LeaseId },
}

/// What the process around the front does for it.
pub trait Host {
    /// Treats a request about an object of this process, if it is one; the answer comes now or later among
    /// `swap_answers`. `NotServed`-like refusals come as statuses.
    fn treat(&mut self, now: Instant, request: &LocalRequest<'_>, ticket: u64, effects: &mut Effects);
    /// Requests about these keys follow: their memory can be fetched at once.
    fn prefetch(&self, table: TableId, keys: &mut dyn Iterator<Item = &[u8]>);
    /// After some requests, of so many bytes together.
    fn finish(&mut self, now: Instant, bytes: u64, effects: &mut Effects);
    fn swap_answers(&mut self, answers: &mut LocalAnswers);
    /// Milliseconds since 1970, as the cluster counts them.
    fn time(&self, now: Instant) -> u64;
    fn status(&self, now: Instant) -> ProcessStatus;
    /// How many objects of each table are in this process; none: nobody knows, since some were lost.
    fn objects_by_table(&self) -> FastMap<TableId, Option<u64>>;
    /// First and last hashes of the table's tablets that this process serves, from the lowest on.
    fn ranges_served(&self, table: TableId) -> Vec<(KeyHash, KeyHash)>;
    /// Whether this process may still refuse commands for tablets that it serves, until the coordinator has said that
    /// they are its own.
    fn has_unconfirmed(&self) -> bool;
    fn me(&self) -> ServerId;
    fn cluster(&self) -> u64;
    /// The servers of the cluster that serve, and where.
    fn servers(&self) -> Vec<(ServerId, SocketAddr)>;
    /// Those of them that keep data.
    fn masters(&self) -> Vec<(ServerId, SocketAddr)>;
    /// Where a server hears clients of Redis Cluster alone; none: it has no such port.
    fn cluster_address(&self, server: ServerId) -> Option<SocketAddr>;
    /// For a request to another server.
    fn to_server(&self, server: ServerId) -> Header;
}

/// The process that the front is in, as its operating system knows it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub id: u32,
    /// Name, release and machine.
    pub os: String,
}

#[derive(Clone, Debug)]
pub struct RespConfig {
    /// Databases that a connection may select.
    pub databases: u16,
    /// The table of a database, where it is not `db<n>`.
    pub tables: Vec<(u16, String)>,
    /// What connections must give with `AUTH` or `HELLO`; none: nothing.
    pub password: Option<String>,
    /// The port of ours for clients of Redis Cluster: whoever comes to it goes over the keys of each server by itself.
    pub cluster_port: Option<u16>,
    pub limits: Limits,
    /// Commands of one connection that run at once, and bytes of their requests.
    pub running_count_max: usize,
    pub running_bytes_max: usize,
    /// How long a command is tried.
    pub deadline: Duration,
    /// A connection that has asked for nothing for so long is ended, unless it listens to channels; none: never.
    pub idle: Option<Duration>,
    /// Commands that take at least this long are kept in the slow log.
    pub slow: Duration,
    pub slow_count_max: usize,
    /// Commands that take at least this long are told by `LATENCY`; 0: none.
    pub latency_threshold: Duration,
    /// The treatment of keys that are to take effect together and have different slots.
    pub cross_slot: CrossSlot,
    /// Facts of the process for `INFO`.
    pub process: Process,
    /// Whether `DEBUG` is allowed.
    pub debug: bool,
    pub session: SessionConfig,
}

impl RespConfig {
    pub fn new(coordinator: SocketAddr) -> RespConfig {
        let mut session = SessionConfig::new(vec![coordinator]);
        session.role = CALLS_ROLE;
        // The connections' own bounds count.
        session.operation_count_max = 1 << 20;
        RespConfig {
            databases: 16,
            tables: Vec::new(),
            password: None,
            cluster_port: None,
            limits: Limits { args: 1024 * 1024, arg_bytes: 8 * 1024 * 1024, bytes: 64 * 1024 * 1024 },
            running_count_max: 1024,
            running_bytes_max: 8 * 1024 * 1024,
            deadline: session.deadline,
            idle: None,
            slow: Duration::from_millis(10),
            slow_count_max: 128,
            latency_threshold: Duration::ZERO,
            cross_slot: CrossSlot::Strict,
            process: Process::default(),
            debug: false,
            session,
        }
    }

    fn table_name(&self, db: u16) -> String {
        let named = self.tables.iter().find(|(of, _)| *of == db);
        named.map_or_else(|| format!("db{db}"), |(_, name)| name.clone())
    }
}

/// Requests of one connection that are looked ahead to at once; more would push each other out of the caches.
const AHEAD_COUNT_MAX: usize = 256;

/// What a connection may send before it has given its password (Z9).
const LIMITS_BEFORE_AUTH: Limits = Limits { args: 8, arg_bytes: 4 * 1024, bytes: 16 * 1024 };
/// What a connection may be told before that; replies that nobody fetches must not fill the memory (Z9).
const STRANGER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one reply, and of what a command reads.
const REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;
const REPLY_TOO_LARGE: Fault =
    Fault::fixed("ERR a command reads and answers at most 33554432 bytes: ask for less at once");
/// Bytes of replies of one connection that wait for those before them; less than what a connection is closed for.
const REPLIES_BYTES_MAX: usize = 48 * 1024 * 1024;
const TOO_MANY_REPLIES: Fault =
    Fault::fixed("ERR replies of 50331648 bytes wait to be sent: ask for less at once");

/// A pattern's bytes: what matching takes grows with it (Z18).
const PATTERN_BYTES_MAX: usize = 1024;
const PATTERN_TOO_LONG: Fault = Fault::fixed("ERR a pattern has at most 1024 bytes");

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct RespStats {
    pub commands: u64,
    pub connections: u64,
    pub faults: u64,
    /// Keys that read-only commands asked for, and found or not.
    pub hits: u64,
    pub misses: u64,
    /// Operations that went through the session.
    pub posted: u64,
    /// Handlers that began again, since what they had read was changed meanwhile.
    pub retried: u64,
    /// `EXEC`s refused for a watched key.
    pub watch_failed: u64,
    /// How often a connection was left unheard for what it had under way.
    pub held: u64,
    /// Connections ended because they did not give the password, or asked for nothing.
    pub idled: u64,
    /// Commands that waited for the table of their database.
    pub table_waits: u64,
}

/// The front of one process.
pub struct Resp {
    config: RespConfig,
    session: Session,
    /// In boxes, since a connection is taken out while its bytes are looked at.
    connections: FastMap<ConnId, Box<Connection>>,
    client_last: u64,
    databases: Databases,
    tickets: Tickets,
    /// Operations that go out together at the end of the step.
    posted: Vec<(Operation, Part)>,
    /// Connections of which something has ended, to be looked at before the step ends.
    touched: Vec<ConnId>,
    answers: LocalAnswers,
    /// Answers for others that came with one that was asked for just then.
    late: Vec<(u64, Status, Vec<u8>)>,
    /// Of keys, to see which commands concern the same.
    hasher: PlacementHasher,
    /// Bytes of requests given to the host since it was told to finish.
    local_bytes: Option<u64>,
    /// Replies of the present connection, and memory for them.
    out: Vec<u8>,
    stats: RespStats,
    waits: Latencies,
    slow: about::SlowLog,
    latency: latency::Latency,
    subscribers: subscriptions::Subscribers,
    /// Messages of transactions that have had their effect, to go out before the step ends.
    publications: Vec<ramhold_wire::pubsub::Publish>,
    /// What other servers were asked and have not answered.
    calls: Calls<Awaited>,
    ready: ready::Ready,
    rng: Rng,
    now: Instant,
    /// When connections are looked through for those that say nothing; none: nobody is there who could be one.
    sweep_at: Option<Instant>,
}

impl Resp {
    pub fn new(config: RespConfig, seed: u64) -> Resp {
        let mut rng = Rng::new(seed);
        Resp {
            session: Session::new(config.session.clone(), rng.u64()),
            connections: FastMap::default(),
            client_last: 0,
            databases: Databases::default(),
            tickets: Tickets::default(),
            posted: Vec::new(),
            touched: Vec::new(),
            answers: LocalAnswers::default(),
            late: Vec::new(),
            hasher: PlacementHasher::new(PlacementSeed(rng.u64())),
            local_bytes: None,
            out: Vec::new(),
            stats: RespStats::default(),
            waits: Latencies::default(),
            slow: about::SlowLog::default(),
            latency: latency::Latency::default(),
            subscribers: subscriptions::Subscribers::default(),
            publications: Vec::new(),
            calls: Calls::new(PEERS_ROLE, rng.u64()),
            ready: ready::Ready::default(),
            rng,
            now: Instant::ZERO,
            sweep_at: None,
            config,
        }
    }

    pub fn stats(&self) -> RespStats {
        self.stats
    }

    /// How long replies took that were not written in the step in which their command came.
    pub fn waits(&self) -> &Latencies {
        &self.waits
    }

    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let at = earliest(earliest(self.session.deadline(), self.calls.deadline()), self.sweep_at);
        earliest(at, Some(self.ready.deadline()))
    }

    /// The keys that a connection will ask for, as far as can be guessed from what has come.
    pub fn ahead(&self, from: ConnId, bytes: &[u8], mut key: impl FnMut(TableId, &[u8])) {
        let table = self.connections.get(&from).and_then(|connection| self.databases.table(connection.db));
        if let Some(table) = table {
            Ahead::of(bytes).take(AHEAD_COUNT_MAX).for_each(|word| key(table, word));
        }
    }

    /// A connection begins to speak: from where, and to where.
    pub fn on_met(&mut self, now: Instant, conn: ConnId, addresses: Option<(SocketAddr, SocketAddr)>) {
        self.meet(now, conn);
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.addresses = addresses;
            let own_port = addresses.map(|(_, own)| own.port());
            connection.is_of_cluster = own_port.is_some() && own_port == self.config.cluster_port;
        }
    }

    fn meet(&mut self, now: Instant, conn: ConnId) {
        if !self.connections.contains_key(&conn) {
            self.client_last += 1;
            self.stats.connections += 1;
            let is_known = self.config.password.is_none();
            let connection = Connection::new(self.client_last, now, is_known);
            self.connections.insert(conn, Box::new(connection));
            self.await_sweep(now);
        }
    }

    /// Bytes of a connection; says in `effects.taken` what it takes.
    pub fn on_bytes(
        &mut self,
        now: Instant,
        from: ConnId,
        bytes: &[u8],
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        self.now = now;
        self.meet(now, from);
        let taken = self.take(now, from, bytes, host, effects);
        self.finish(now, host, effects);
        effects.taken = taken;
    }

    pub fn on_closed(&mut self, conn: ConnId) {
        // What it has begun goes on; nobody is told.
        if let Some(mut connection) = self.connections.remove(&conn) {
            self.subscribers.leave_all(conn, &mut connection.subscriptions);
        }
    }

    /// An answer for the session, or that a connection which it uses is gone, or the time that it waits for.
    pub fn on_session(
        &mut self,
        now: Instant,
        input: Input<'_>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        self.now = now;
        self.sweep(now, effects);
        self.on_calls(now, &input);
        self.look_ready(now, host, effects);
        self.session.step(now, input, effects);
        self.finish(now, host, effects);
    }

    /// After a step of the host in which answers may have become due.
    pub fn on_host(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        self.now = now;
        self.finish(now, host, effects);
    }

    /// Carries on whatever can go on, until nothing can.
    fn finish(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        loop {
            self.take_answers(now, host, effects);
            if let Some(bytes) = self.local_bytes.take() {
                host.finish(now, bytes, effects);
                continue;
            }
            if !self.posted.is_empty() {
                self.send_posted(now, effects);
            }
            if let Some((id, outcome)) = self.session.take_outcome() {
                if let Some(part) = self.tickets.of_operation(id) {
                    let answer = Answer::of_outcome(outcome);
                    self.on_answer(now, part, answer, host, effects);
                }
                continue;
            }
            if !self.publications.is_empty() {
                self.send_publications(now, host, effects);
                continue;
            }
            if let Some(conn) = self.touched.pop() {
                self.release(now, conn, host, effects);
                continue;
            }
            return;
        }
    }

    fn take_answers(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        for (ticket, status, body) in std::mem::take(&mut self.late) {
            if let Some((part, kind)) = self.tickets.of_local(ticket) {
                let answer = Answer::of_local(kind, status, &body);
                self.on_answer(now, part, answer, host, effects);
            }
        }
        let mut answers = std::mem::take(&mut self.answers);
        answers.clear();
        loop {
            host.swap_answers(&mut answers);
            if answers.is_empty() {
                break;
            }
            for (ticket, status, body) in answers.iter() {
                if let Some((part, kind)) = self.tickets.of_local(ticket) {
                    let answer = Answer::of_local(kind, status, body);
                    self.on_answer(now, part, answer, host, effects);
                }
            }
            answers.clear();
        }
        self.answers = answers;
    }

    fn send_posted(&mut self, now: Instant, effects: &mut Effects) {
        self.stats.posted += self.posted.len() as u64;
        let (operations, parts): (Vec<_>, Vec<_>) = self.posted.drain(..).unzip();
        let ids = self.session.start_all(now, operations, self.config.deadline, effects);
        for (id, part) in ids.into_iter().zip(parts) {
            self.tickets.enter_operation(id, part);
        }
    }

    fn count_lookups(&mut self, found: impl IntoIterator<Item = bool>) {
        for is_there in found {
            *if is_there { &mut self.stats.hits } else { &mut self.stats.misses } += 1;
        }
    }

    /// Sends the replies of a connection that are next, and hears it again.
    fn release(&mut self, now: Instant, conn: ConnId, host: &impl Host, effects: &mut Effects) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        while let Some(done) = connection.take_done() {
            let took = now.since(done.started);
            self.waits.count(took);
            let threshold = self.config.latency_threshold;
            if took >= self.config.slow {
                self.slow.note(&done, took, host.time(now) / 1000, connection, &self.config);
            }
            if took >= threshold && !threshold.is_zero() && done.args.bytes() > 0 {
                self.latency.note(done.row, took, host.time(now) / 1000);
            }
            if !done.is_muted {
                out.extend_from_slice(&done.reply);
            }
        }
        send(conn, &out, effects);
        self.out = out;
        if connection.is_held {
            connection.is_held = false;
            effects.push(Effect::Hear { conn });
        }
        if connection.closes && connection.running.is_empty() {
            effects.push(Effect::Close { conn });
        }
    }
}

/// Sends bytes over a connection, if there are any.
fn send(conn: ConnId, bytes: &[u8], effects: &mut Effects) {
    if !bytes.is_empty() {
        effects.send_with(ramhold_base::Peer::Conn(conn), |out| out.extend_from_slice(bytes));
    }
}

/// What a refusal says to a Redis client.
fn fault_of(status: Status, detail: &str) -> Fault {
    match status {
        Status::KeyTooLarge => Fault::KEY_TOO_LARGE,
        Status::ValueTooLarge => Fault::VALUE_TOO_LARGE,
        Status::OutOfMemory => Fault::OUT_OF_MEMORY,
        Status::NotTogether => Fault::CROSS_SERVER,
        Status::CommitTooLarge => Fault::fixed(
            "ERR transaction is too large: what has effect together has at most 256 keys and 4194304 bytes",
        ),
        Status::NotANumber => Fault::NOT_AN_INTEGER,
        Status::OutOfRange => Fault::OVERFLOW,
        Status::Corrupt | Status::NotAllowed => Fault::said(format!("ERR {}", status.text())),
        Status::TooFewBackups => Fault::said(format!("NOREPLICAS {}", status.text())),
        _ if detail.is_empty() => Fault::said(format!("TRYAGAIN {}", status.text())),
        _ => Fault::said(format!("TRYAGAIN {}: {detail}", status.text())),
    }
}
