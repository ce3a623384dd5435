//! The things that every part of the coordinator works with: the state, the clock, and the way out.
//!
//! The desk is lent to a part for the time of a call. A part changes a record of the state, touches its key, and asks
//! servers; the outbox stores the change before anything leaves that depends on it. A part may also leave a note, which
//! says that another part has to look again at what it waits for.
//!
//! Not here: the parts; the desk knows none of them.

use crate::asked::Asked;
use crate::clock::Clock;
use crate::config::CoordinatorConfig;
use crate::leading::told_bricks;
use crate::list::ListHistory;
use crate::outbox::Outbox;
use crate::records::Key;
use crate::roster::told_accounts;
use crate::state::State;
use ramhold_base::limits::{COPYSET_RINGS_MAX, REPLICA_COUNT_MAX};
use ramhold_base::{ClusterTime, Instant, Peer, Rng, ServerId, Term};
use ramhold_wire::control::Address;
use ramhold_wire::membership::ServerListUpdate;
use ramhold_wire::{CallRole, Calls, Header, Message};
use std::net::SocketAddr;
use std::time::Duration;

/// How long an answer is still taken. Messages are repeated much earlier, and an answer to any of them counts.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How far ahead of its use the ceiling of cluster time is stored.
const TIME_STEP_MILLIS: u64 = 10_000;

pub(crate) struct Desk {
    pub config: CoordinatorConfig,
    pub rng: Rng,
    pub term: Term,
    pub state: State,
    pub outbox: Outbox,
    pub calls: Calls<Asked>,
    /// The changes of the server list.
    pub list: ListHistory,
    /// The cluster time at an instant of this process.
    pub clock: Clock,
    /// The ceiling of the clock that is stored and copied, so that nobody can forget it any more.
    time_stored: ClusterTime,
    /// A higher ceiling that is not stored and copied yet: the state that has it, and the ceiling.
    time_raised: Option<(u64, ClusterTime)>,
    pub started: Instant,
    pub notes: Notes,
}

/// Notes that one part leaves for another, which takes the note when it advances.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Something has changed for which the tables' parts may wait.
    pub tablets: bool,
    /// Something has changed for which recoveries may wait.
    pub recoveries: bool,
}

impl Desk {
    pub fn new(config: CoordinatorConfig, seed: u64) -> Desk {
        assert!(config.default_replicas <= REPLICA_COUNT_MAX);
        assert!(
            config.placement.copyset_rings().is_none_or(|rings| (1..=COPYSET_RINGS_MAX).contains(&rings))
        );
        let mut rng = Rng::new(seed);
        let calls = Calls::new(CallRole::Process, rng.u64());
        Desk {
            config,
            rng,
            term: Term::NONE,
            state: State::default(),
            outbox: Outbox::default(),
            calls,
            list: ListHistory::default(),
            clock: Clock::default(),
            time_stored: ClusterTime::default(),
            time_raised: None,
            started: Instant::ZERO,
            notes: Notes::default(),
        }
    }

    /// The cluster time. Every time that is told to anybody is below the stored ceiling, so the time never goes back.
    /// The ceiling is raised early, so that a time can be told without waiting for the store (`tells_time_at_once`).
    pub fn time(&mut self, now: Instant) -> ClusterTime {
        ClusterTime(self.time_micros(now) / 1000)
    }

    /// The cluster time in microseconds since 1970.
    pub fn time_micros(&mut self, now: Instant) -> u64 {
        let micros = self.clock.micros(now);
        let time = ClusterTime(micros / 1000);
        // A clock that stands still at its ceiling needs no higher one, and each start would add to the ceiling.
        if !self.clock.is_standing(now) && time.0 + TIME_STEP_MILLIS / 2 > self.state.meta.time_ceiling.0 {
            self.state.meta.time_ceiling = ClusterTime(time.0 + TIME_STEP_MILLIS);
            self.outbox.touch(Key::Meta);
            if self.time_raised.is_none() {
                self.time_raised = Some((self.outbox.next_state(), self.state.meta.time_ceiling));
            }
        }
        micros
    }

    /// The store and the holders have everything up to this state.
    pub fn note_time_stored(&mut self, state: u64) {
        if let Some((_, ceiling)) = self.time_raised.take_if(|(raised, _)| *raised <= state) {
            self.time_stored = ceiling;
        }
    }

    /// Whether a time is below the ceiling that nobody can forget any more.
    pub fn tells_time_at_once(&self, micros: u64) -> bool {
        micros / 1000 < self.time_stored.0
    }

    /// How long this process has run.
    pub fn uptime(&self, now: Instant) -> Duration {
        now.since(self.started)
    }

    /// The header of a message to a server.
    pub fn header_to(&self, target: ServerId) -> Header {
        Header { cluster: self.state.meta.cluster, term: self.term, target, ..Header::default() }
    }

    /// Asks an Up server something. `false`: the message is too large to be sent at all.
    pub fn ask<M: Message>(&mut self, now: Instant, server: ServerId, asked: Asked, message: &M) -> bool {
        let Some(addr) = self.state.up(server).map(|s| s.entry.address.0) else { return true };
        let rpc = self.calls.open(addr, now, now + ANSWER_MAX, asked);
        let header = self.header_to(server);
        self.outbox.request(Peer::Addr(addr), &header, rpc, message)
    }

    /// Like `ask`, but the message is encoded by `encode`. It has about `about` bytes, and no more than a frame may
    /// have.
    pub fn ask_encoded<M: Message>(
        &mut self,
        now: Instant,
        server: ServerId,
        asked: Asked,
        about: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(addr) = self.state.up(server).map(|s| s.entry.address.0) else { return };
        let rpc = self.calls.open(addr, now, now + ANSWER_MAX, asked);
        let header = self.header_to(server);
        self.outbox.request_encoded::<M>(Peer::Addr(addr), &header, rpc, about, encode);
    }

    /// Pings an address at once; an answer counts within `timeout`.
    pub fn ping(&mut self, now: Instant, addr: SocketAddr, timeout: Duration, asked: Asked) {
        let rpc = self.calls.open(addr, now, now + timeout, asked);
        let header = self.header_to(ServerId::NONE);
        self.outbox.request_at_once(Peer::Addr(addr), &header, rpc, &ramhold_wire::status::Ping {});
    }

    /// Like `ask`, but the message leaves before the store has the changes that were made before it.
    pub fn ask_at_once<M: Message>(&mut self, now: Instant, server: ServerId, asked: Asked, message: &M) {
        let Some(addr) = self.state.up(server).map(|s| s.entry.address.0) else { return };
        self.ask_address(now, (addr, self.header_to(server)), asked, message);
    }

    /// Like `ask_at_once`, to an address and with a header for the server there.
    pub fn ask_address<M: Message>(
        &mut self,
        now: Instant,
        (addr, header): (SocketAddr, Header),
        asked: Asked,
        message: &M,
    ) {
        let rpc = self.calls.open(addr, now, now + ANSWER_MAX, asked);
        self.outbox.request_at_once(Peer::Addr(addr), &header, rpc, message);
    }

    /// The secret of the index hash is made with the first server or brick. It is stored together with that record, before
    /// anybody is told.
    pub fn make_index_secret(&mut self) {
        if self.state.meta.index_secret == 0 {
            self.state.meta.index_secret = self.rng.id();
            self.outbox.touch(Key::Meta);
        }
    }

    // Notes.

    /// A server has come or gone, or is proven to be silent: tablets may wait for that.
    pub fn look_at_tablets(&mut self) {
        self.notes.tablets = true;
    }

    /// A server has come or gone, or a table has: recoveries may wait for that.
    pub fn look_at_recoveries(&mut self) {
        self.notes.recoveries = true;
    }

    // The server list.

    /// This entry is new or different, so the list gets a new version, which is pushed to all servers.
    pub fn list_changed(&mut self, id: ServerId) {
        self.state.meta.list_version += 1;
        self.list.note_changed(self.state.meta.list_version, id);
        self.outbox.touch(Key::Meta);
        self.outbox.touch(Key::Server(id));
    }

    /// This entry has left the list.
    pub fn list_removed(&mut self, id: ServerId) {
        self.state.meta.list_version += 1;
        self.list.note_removed(self.state.meta.list_version, id);
        self.outbox.touch(Key::Meta);
        self.outbox.touch(Key::Server(id));
    }

    /// The bricks that the list names may have changed.
    pub fn bricks_changed(&mut self, before: Option<Vec<Address>>) {
        if told_bricks(&self.state) != before {
            self.state.meta.list_version += 1;
            self.outbox.touch(Key::Meta);
        }
    }

    /// Accounts have changed: all servers are told.
    pub fn accounts_changed(&mut self) {
        self.state.meta.list_version += 1;
        self.list.note_accounts(self.state.meta.list_version);
        self.outbox.touch(Key::Meta);
    }

    /// The part of the list that a server at version `reached` lacks; the whole list if differences do not go back that
    /// far.
    pub fn list_update(&mut self, now: Instant, reached: u64) -> ServerListUpdate {
        let to = self.state.meta.list_version;
        let whole = !self.list.has_difference(reached, to);
        let changed = self.state.servers.values().map(|s| &s.entry);
        let changed =
            changed.filter(|e| whole || self.list.is_changed_since(reached, e.id)).cloned().collect();
        let removed = if whole { Vec::new() } else { self.list.removed_since(reached).collect() };
        ServerListUpdate {
            from: if whole { 0 } else { reached },
            to,
            changed,
            removed,
            issued: self.state.meta.servers,
            time: self.time(now),
            coordinator: Some(Address(self.config.advertise)),
            copyset_rings: self.config.placement.copyset_rings(),
            placement: self.config.placement.named(),
            topology: self.state.meta.topology.clone(),
            bricks: told_bricks(&self.state),
            accounts: (whole || self.list.has_accounts_since(reached)).then(|| told_accounts(&self.state)),
        }
    }
}
