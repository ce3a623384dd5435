//! Carries out commands: connections, the order of their requests, and the way to objects.
//!
//! The front takes a request off a connection's bytes when the request can begin. The request is then a
//! running command until its reply is there. Replies leave in the order of their requests. The front asks
//! this process directly (`Host`) for objects whose tablets are here. All other requests go through a client
//! session of the process's own, and so do those that the direct way refuses but another server or a later
//! attempt may carry out.
//!
//! Order: requests of a connection take effect as if each had waited for the one before it. Requests that the
//! host carries out at once are in order by themselves. A request waits for an earlier one that is still
//! under way if they have a key in common and one of them may change it. An `exclusive` request runs alone on
//! its connection.
//!
//! Invariants:
//! - every whole request gets one reply, in order, unless the connection ends first;
//! - the bytes that a connection holds are bounded: bytes that are not taken stay in the socket.
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

/// The top byte of rpc ids: `CALLS_ROLE` for the client session of a server process, `PEERS_ROLE` for calls
/// to other fronts and to masters.
pub const CALLS_ROLE: u8 = 5;
pub const PEERS_ROLE: u8 = 6;

/// The reason why the front awaits an answer of another server.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// A command waits for how many of the server's subscribers heard a message, or for what they listen to.
    Listeners { conn: ConnId, seq: u64 },
    /// The server's master was told of the session's lease.
    Met { server: ServerId, lease: LeaseId },
}

/// The services of the process around the front.
pub trait Host {
    /// Treats a request about an object of this process, if the object is one. The answer comes among
    /// `swap_answers`, at once or later. Refusals like `NotServed` come as statuses.
    fn treat(&mut self, now: Instant, request: &LocalRequest<'_>, ticket: u64, effects: &mut Effects);
    /// Says that requests about these keys follow, so that the host can already fetch their memory.
    fn prefetch(&self, table: TableId, keys: &mut dyn Iterator<Item = &[u8]>);
    /// Ends a series of requests that have `bytes` bytes together.
    fn finish(&mut self, now: Instant, bytes: u64, effects: &mut Effects);
    fn swap_answers(&mut self, answers: &mut LocalAnswers);
    /// Milliseconds since 1970, as the cluster counts them.
    fn time(&self, now: Instant) -> u64;
    fn status(&self, now: Instant) -> ProcessStatus;
    /// Number of objects of each table in this process. `None`: the number is unknown, because objects were
    /// lost.
    fn objects_by_table(&self) -> FastMap<TableId, Option<u64>>;
    /// First and last hash of each of the table's tablets that this process serves, in ascending order.
    fn ranges_served(&self, table: TableId) -> Vec<(KeyHash, KeyHash)>;
    /// Whether this process may still refuse commands for tablets that it serves, because the coordinator has
    /// not yet said that they are its own.
    fn has_unconfirmed(&self) -> bool;
    fn me(&self) -> ServerId;
    fn cluster(&self) -> u64;
    /// The servers of the cluster that serve, with their addresses.
    fn servers(&self) -> Vec<(ServerId, SocketAddr)>;
    /// The servers of `servers` that keep data, with their addresses.
    fn masters(&self) -> Vec<(ServerId, SocketAddr)>;
    /// The address at which a server hears clients of Redis Cluster alone. `None`: the server has no such
    /// port.
    fn cluster_address(&self, server: ServerId) -> Option<SocketAddr>;
    /// The header of a request to another server.
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
    /// Tables of the databases whose table is not `db<n>`.
    pub tables: Vec<(u16, String)>,
    /// The password that connections must give with `AUTH` or `HELLO`. `None`: no password.
    pub password: Option<String>,
    /// This server's port for clients of Redis Cluster. Clients that come to it walk over the keys of each
    /// server separately.
    pub cluster_port: Option<u16>,
    pub limits: Limits,
    /// Commands of one connection that run at once, and bytes of their requests and replies.
    pub running_count_max: usize,
    pub running_bytes_max: usize,
    /// The time for which a command is tried.
    pub deadline: Duration,
    /// A connection that has asked for nothing for this long is closed, unless it has commands under way or
    /// listens to channels. `None`: never.
    pub idle: Option<Duration>,
    /// Commands that take at least this long are kept in the slow log.
    pub slow: Duration,
    pub slow_count_max: usize,
    /// Commands that take at least this long are told by `LATENCY`. 0: none are.
    pub latency_threshold: Duration,
    /// The treatment of commands and transactions whose keys have different slots.
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
        // The bounds of the connections count instead.
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

/// Keys whose memory is fetched ahead at once; more would push each other out of the caches.
const AHEAD_COUNT_MAX: usize = 256;

/// Limits of a request on a connection that has not given its password yet (Z9).
const LIMITS_BEFORE_AUTH: Limits = Limits { args: 8, arg_bytes: 4 * 1024, bytes: 16 * 1024 };
/// Bytes of replies on a connection before it has given its password. Replies that nobody fetches must not
/// fill the memory (Z9).
const STRANGER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one reply, and of the values that one command reads.
const REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;
const REPLY_TOO_LARGE: Fault =
    Fault::fixed("ERR a command reads and answers at most 33554432 bytes: ask for less at once");
/// Bytes of one connection's replies that wait for earlier ones. The bound is below the bytes that wait to be
/// sent when a connection is closed for them.
const REPLIES_BYTES_MAX: usize = 48 * 1024 * 1024;
const TOO_MANY_REPLIES: Fault =
    Fault::fixed("ERR replies of 50331648 bytes wait to be sent: ask for less at once");

/// Bytes of a pattern. The cost of matching grows with the pattern's length (Z18).
const PATTERN_BYTES_MAX: usize = 1024;
const PATTERN_TOO_LONG: Fault = Fault::fixed("ERR a pattern has at most 1024 bytes");

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct RespStats {
    pub commands: u64,
    pub connections: u64,
    pub faults: u64,
    /// Keys that read-only commands asked for, and found (`hits`) or did not find (`misses`).
    pub hits: u64,
    pub misses: u64,
    /// Operations that went through the session.
    pub posted: u64,
    /// Transactions that began again, because a key that they had read was changed meanwhile.
    pub retried: u64,
    /// `EXEC`s that gave up because a watched key had changed.
    pub watch_failed: u64,
    /// How often a connection was left unheard because of the commands that it had under way.
    pub held: u64,
    /// Connections that were closed because they did not give the password, or asked for nothing.
    pub idled: u64,
    /// Commands that waited for the table of their database.
    pub table_waits: u64,
}

/// The front of one process.
pub struct Resp {
    config: RespConfig,
    session: Session,
    /// Boxed, because a connection is taken out of the map while its bytes are looked at.
    connections: FastMap<ConnId, Box<Connection>>,
    client_last: u64,
    databases: Databases,
    tickets: Tickets,
    /// Operations that go out together at the end of the step.
    posted: Vec<(Operation, Part)>,
    /// Connections whose oldest command has ended. They are looked at before the step ends.
    touched: Vec<ConnId>,
    answers: LocalAnswers,
    /// Answers to earlier requests that came together with the answer to a later one.
    late: Vec<(u64, Status, Vec<u8>)>,
    /// Hashes keys, to see which commands concern the same key.
    hasher: PlacementHasher,
    /// Bytes of requests given to the host since it was last told to finish. `None`: no requests were given.
    local_bytes: Option<u64>,
    /// Replies of the connection that is being treated; the memory is kept for the next one.
    out: Vec<u8>,
    stats: RespStats,
    waits: Latencies,
    slow: about::SlowLog,
    latency: latency::Latency,
    subscribers: subscriptions::Subscribers,
    /// Messages of transactions that have taken effect. They go out before the step ends.
    publications: Vec<ramhold_wire::pubsub::Publish>,
    /// Calls to other servers that are not answered yet.
    calls: Calls<Awaited>,
    ready: ready::Ready,
    rng: Rng,
    now: Instant,
    /// The time of the next check for silent connections. `None`: there is no connection that could be one.
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

    /// Latencies of the replies that were not written in the step in which their command came.
    pub fn waits(&self) -> &Latencies {
        &self.waits
    }

    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let at = earliest(earliest(self.session.deadline(), self.calls.deadline()), self.sweep_at);
        let overdue = self.tickets.oldest_wait().map(|since| since + self.config.deadline);
        earliest(at, earliest(overdue, Some(self.ready.deadline())))
    }

    /// Tells `key` the keys that a connection will probably ask for, as far as its bytes so far let one guess
    /// them.
    pub fn ahead(&self, from: ConnId, bytes: &[u8], mut key: impl FnMut(TableId, &[u8])) {
        let table = self.connections.get(&from).and_then(|connection| self.databases.table(connection.db));
        if let Some(table) = table {
            Ahead::of(bytes).take(AHEAD_COUNT_MAX).for_each(|word| key(table, word));
        }
    }

    /// A connection begins to speak. `addresses`: the address of the other side, and the address of this
    /// process that the connection came to.
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

    /// Takes requests off a connection's bytes. `effects.taken` says how many bytes are taken.
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
        // Commands that the connection has begun go on, and nobody is told of their end.
        if let Some(mut connection) = self.connections.remove(&conn) {
            self.subscribers.leave_all(conn, &mut connection.subscriptions);
        }
    }

    /// Takes an answer for the session or for a call to another server, the loss of a connection that they
    /// use, or the time that they wait for.
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
        self.end_overdue(now, host, effects);
        self.session.step(now, input, effects);
        self.finish(now, host, effects);
    }

    /// Takes answers that may have become due in a step of the host.
    pub fn on_host(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        self.now = now;
        self.finish(now, host, effects);
    }

    /// Advances everything that can go on, until nothing can.
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

    /// Ends what the host has not answered in time. A write that was taken in just before its stream lost a backup waits
    /// until there is another one, which may be never.
    fn end_overdue(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        while let Some((waited, part, kind)) = self.tickets.overdue(now, self.config.deadline) {
            self.on_answer(now, part, Answer::of_silence(kind, waited), host, effects);
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

    /// Sends the next replies of a connection that are ready, and hears the connection again.
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

/// The error that tells a Redis client of a refusal.
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
