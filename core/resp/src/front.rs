//! Carries out commands: connections, the order of their requests, and the way to objects.
//!
//! The front takes a request off a connection's bytes when the request can begin. The request is then a
//! running command until its reply is there. Replies leave in the order of their requests. The front asks
//! this process directly (`Host`) for objects whose tablets are here. All other requests go through a client
//! session of the process's own, and so do those that the direct way refuses but another server or a later
//! attempt may carry out.
//!
//! The front has four rooms, and each imports only the rooms below it:
//! - `ordering`: which request of a connection begins when, and which reply goes out when;
//! - `execution`: commands that read or write data;
//! - `clients`: commands about clients, the process and the cluster, and messages to subscribers;
//! - `access`: the ways to objects, tables and other servers.
//!
//! `Resp` owns the parts that the rooms work on, and lends them a `Step`.
//!
//! Not here: what commands mean (`commands`), sockets (io).

pub mod access;
mod bounds;
mod clients;
pub mod config;
mod execution;
pub mod host;
mod kinds;
mod ordering;
mod refusals;
mod request;
pub mod stats;
mod step;
pub mod together;

use crate::ahead::Ahead;
use crate::catalog::Numbers;
use access::Access;
use access::peers::{Awaited, Peers};
use access::posted::Posted;
use access::tables::Known;
use bounds::AHEAD_COUNT_MAX;
use clients::list::Clients;
use clients::pubsub;
use clients::timings::Timings;
use config::RespConfig;
use host::Host;
use ordering::accounts::{end_changes, on_random, renew_members};
use ordering::answers::on_heard;
use ordering::finish::{end_overdue, finish};
use ordering::idle::Sweep;
use ordering::lines::{Line, Lines, Parts};
use ordering::logins::{on_verdict, stranger};
use ordering::taking::take;
use ramhold_access::{Catalog, Verdict};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::time::earliest;
use ramhold_base::{
    ConnId, Effects, Input, Instant, Latencies, Machine, Rng, SecretResult, SecretToken, Status, TableId,
};
use ramhold_wire::local::LocalAnswers;
use ramhold_wire::pubsub::{Listeners, ListenersTold, Publish, Published};
use stats::RespStats;
use std::net::SocketAddr;
use step::Step;

/// The front of one process.
pub struct Resp {
    config: RespConfig,
    /// The commands, as rules of accounts name them.
    numbers: Numbers,
    stats: RespStats,
    rng: Rng,
    parts: Parts,
    sweep: Sweep,
    /// Memory for answers of the host, kept from one step for the next.
    answers: LocalAnswers,
}

impl Resp {
    /// `catalog`: everything that rules of accounts can name, the commands of this front among it.
    pub fn new(config: RespConfig, catalog: &Catalog, seed: u64) -> Resp {
        let mut rng = Rng::new(seed);
        let posted = Posted::new(config.session.clone(), rng.u64());
        let lines = Lines::new(PlacementSeed(rng.u64()));
        let peers = Peers::new(rng.u64());
        let clients = Clients::new(Timings::new(config.timing));
        Resp {
            numbers: Numbers::of(catalog),
            config,
            stats: RespStats::default(),
            rng,
            parts: Parts { lines, clients, access: Access::new(posted, peers) },
            sweep: Sweep::default(),
            answers: LocalAnswers::default(),
        }
    }

    pub fn stats(&self) -> RespStats {
        self.stats
    }

    /// Requests that were refused for want of a right and logins that failed, by what was lacking.
    pub fn denied(&self) -> Vec<(&'static str, u64)> {
        self.parts.clients.denials.counts().collect()
    }

    /// Latencies of the replies that were not written in the step in which their command came.
    pub fn waits(&self) -> &Latencies {
        &self.parts.clients.timings.waits
    }

    pub fn connection_count(&self) -> usize {
        self.parts.clients.all.len()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let Access { direct, .. } = &self.parts.access;
        let overdue = direct.oldest_wait().map(|since| since + self.config.deadline);
        earliest(earliest(self.parts.access.deadline(), self.sweep.deadline()), overdue)
    }

    /// Tells `key` the keys that a connection will probably ask for, as far as its bytes so far let one guess
    /// them.
    pub fn ahead(&self, from: ConnId, bytes: &[u8], mut key: impl FnMut(TableId, &[u8])) {
        let Parts { clients, access, .. } = &self.parts;
        let table = clients.get(from).and_then(|client| access.databases.known(client.db));
        // No master has keys of quorum tables.
        if let Some(Known { table, is_quorum: false }) = table {
            Ahead::of(bytes).take(AHEAD_COUNT_MAX).for_each(|word| key(table, word));
        }
    }

    /// A connection begins to speak. `addresses`: the address of the other side, and the address of this
    /// process that the connection came to.
    pub fn on_met(
        &mut self,
        now: Instant,
        conn: ConnId,
        addresses: Option<(SocketAddr, SocketAddr)>,
        host: &impl Host,
    ) {
        self.meet(now, conn, host);
        if let Some(client) = self.parts.clients.get_mut(conn) {
            client.addresses = addresses;
            let own_port = addresses.map(|(_, own)| own.port());
            client.is_of_cluster = own_port.is_some() && own_port == self.config.cluster_port;
        }
    }

    fn meet(&mut self, now: Instant, conn: ConnId, host: &impl Host) {
        let Parts { lines, clients, .. } = &mut self.parts;
        if clients.get(conn).is_none() {
            self.stats.connections += 1;
            let member = stranger(&self.config, host);
            self.sweep.plan(now, &self.config, member.is_none());
            clients.enter(now, conn, member);
            lines.all.insert(conn, Line::default());
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
        self.meet(now, from, host);
        let Resp { config, numbers, stats, rng, parts, answers, .. } = self;
        let step = &mut Step { now, config, numbers, stats, rng, host, effects };
        let taken = take(step, parts, from, bytes);
        finish(step, parts, answers);
        step.effects.taken = taken;
    }

    pub fn on_closed(&mut self, conn: ConnId) {
        // Commands that the connection has begun go on, and nobody is told of their end.
        self.parts.lines.all.remove(&conn);
        self.parts.clients.remove(conn);
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
        let Resp { config, numbers, stats, rng, parts, sweep, answers } = self;
        let step = &mut Step { now, config, numbers, stats, rng, host, effects };
        sweep.run(step, parts);
        on_calls(step, parts, &input);
        parts.access.look_ready(step);
        end_overdue(step, parts);
        end_changes(step, parts);
        parts.access.posted.session.step(now, input, step.effects);
        finish(step, parts, answers);
    }

    /// Takes answers that may have become due in a step of the host.
    pub fn on_host(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        let Resp { config, numbers, stats, rng, parts, answers, .. } = self;
        finish(&mut Step { now, config, numbers, stats, rng, host, effects }, parts, answers);
    }

    /// Takes verdicts on logins that the host has begun.
    pub fn on_logins(
        &mut self,
        now: Instant,
        verdicts: Vec<(SecretToken, Verdict)>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        let Resp { config, numbers, stats, rng, parts, answers, .. } = self;
        let step = &mut Step { now, config, numbers, stats, rng, host, effects };
        for (token, verdict) in verdicts {
            on_verdict(step, parts, token, verdict);
        }
        finish(step, parts, answers);
    }

    /// Takes random bytes that the host was asked for.
    pub fn on_random(
        &mut self,
        now: Instant,
        (token, result): (SecretToken, SecretResult),
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        let Resp { config, numbers, stats, rng, parts, answers, .. } = self;
        on_random(parts, token, &result);
        finish(&mut Step { now, config, numbers, stats, rng, host, effects }, parts, answers);
    }

    /// The host was told the accounts anew.
    pub fn on_roster(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        let Resp { config, numbers, stats, rng, parts, sweep, answers } = self;
        let step = &mut Step { now, config, numbers, stats, rng, host, effects };
        end_changes(step, parts);
        finish(step, parts, answers);
        renew_members(step, parts);
        let must_log_in = stranger(step.config, step.host).is_none();
        sweep.plan(now, step.config, must_log_in && !parts.clients.all.is_empty());
    }

    /// Takes a message that a client of another server has published.
    pub fn on_publish(&mut self, message: &Publish, effects: &mut Effects) -> Published {
        pubsub::on_publish(&self.parts.clients, message, effects)
    }

    /// Names that clients of this server listen to.
    pub fn on_listeners(&self, message: &Listeners) -> ListenersTold {
        pubsub::listeners(&self.parts.clients.subscribers, message)
    }
}

/// Takes the answers of other servers to calls of this one, or the news that none will come.
fn on_calls(step: &mut Step<'_, impl Host>, parts: &mut Parts, input: &Input<'_>) {
    for (awaited, answer) in parts.access.peers.take_over(step.now, input) {
        match awaited {
            Awaited::Listeners(command) => {
                let body = answer.filter(|(status, _)| *status == Status::Ok).map(|(_, body)| body);
                on_heard(parts, command, body);
            }
            Awaited::Met { server, lease } => {
                let Access { ready, posted, .. } = &mut parts.access;
                ready.on_met(step, posted, server, lease, answer.map(|(status, _)| status));
            }
        }
    }
}
