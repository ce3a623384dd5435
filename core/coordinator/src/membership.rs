//! Who is in the cluster: enlisting, the server list and its pushing, and what servers have recorded about themselves.
//!
//! Each Up server has a link, which remembers the version of the list that the server has reached. The server is sent
//! the difference until it has the newest version. A server becomes Crashed once, by `declare_crashed`, and its
//! recovery begins in the same commit.
//!
//! Invariants:
//! - the list's version rises with every change and never goes back;
//! - a token that was once given an id never gets another;
//! - the recorded head of a stream only rises.
//!
//! Not here: which servers are dead (`verify`). Protocol: docs/protocols/membership.md. Catalogue: B1, D8, F8.

use crate::asked::Asked;
use crate::gone;
use crate::list::ListHistory;
use crate::machine::Coordinator;
use crate::records::{Departed, Key, RecoveryRecord, ServerRecord};
use crate::recovery::Recovery;
use crate::retry::Retry;
use crate::streams::CEILING_STEP;
use ramhold_base::limits::{LABEL_BYTES_MAX, LABEL_COUNT_MAX, SERVER_COUNT_MAX};
use ramhold_base::{ClusterTime, DirectoryId, Instant, Level, Peer, RecoveryId, ServerId, Status, Version};
use ramhold_wire::control::Empty;
use ramhold_wire::membership::{
    Enlist, Enlisted, Label, ServerEntry, ServerListReached, ServerState, SuspectServer,
};
use ramhold_wire::status::RecoverySteps;
use ramhold_wire::{Header, decode};
use std::collections::{BTreeMap, BTreeSet};

/// After this time a live master that has heard that a server left the list has replaced its replicas on that server.
const DEPARTED_MILLIS: u64 = 60_000;
const DEPARTED_COUNT_MAX: usize = 1024;
/// The most recoveries that are over and still told of.
const HISTORY_COUNT_MAX: usize = 100;
/// A recovery that ended less than this ago is kept in any case: its masters may still repeat that they are done.
const HISTORY_MILLIS: u64 = 60_000;

/// The state of the connection to an Up server.
#[derive(Debug)]
pub(crate) struct Link {
    /// The version of the list that the server has acknowledged; 0: unknown.
    pub reached: u64,
    push: Retry,
    /// The server has answered under its own id since this coordinator started.
    pub confirmed: bool,
    /// The server knows its id: it has said so, or nothing speaks against it. A server that does not know its id can
    /// hold no copy of the state, and has nothing for which a copy would be needed.
    pub told: bool,
    /// The server can hold a copy of the state.
    pub holds: bool,
}

impl Coordinator {
    pub(crate) fn resume_membership(&mut self, now: Instant) {
        self.desk.list = ListHistory::new(self.desk.state.meta.list_version);
        let up: Vec<ServerId> = self.desk.state.all_up().map(|s| s.entry.id).collect();
        for id in &up {
            let link = Link { told: true, ..Link::new(Retry::new(&self.desk.config)) };
            self.links.insert(*id, link);
        }
        self.push_at = now;
        self.ping_at = now;
        self.begin_start_check(now, up);
    }

    // Enlisting.

    pub(crate) fn on_enlist(
        &mut self,
        now: Instant,
        to: Peer,
        header: &Header,
        message: Enlist,
    ) -> Result<(), Status> {
        check_enlist(&message)?;
        if header.cluster == self.desk.state.meta.cluster
            && let Some(newer) = message.replaces.filter(|id| *id > self.desk.state.meta.servers)
        {
            let text = format!(
                "a server is not taken in: its last life was {newer}, which this coordinator's state has not given out; \
                 the state may be an old copy"
            );
            self.desk.outbox.report(Level::Warn, text);
            return Err(Status::NotReady);
        }
        if let Some(known) = self.desk.state.servers.values().find(|s| s.token == message.token) {
            let id = known.entry.id;
            if known.entry.state == ServerState::Crashed {
                return Err(Status::Fenced);
            }
            self.answer_enlisted(now, to, header, id);
            return Ok(());
        }
        if self.desk.state.recoveries.values().any(|r| r.token == message.token) {
            return Err(Status::Fenced);
        }
        if self.desk.state.servers.len() >= SERVER_COUNT_MAX {
            return Err(Status::TooMany);
        }
        if let Some(before) = message.replaces.and_then(|id| self.desk.state.up(id)) {
            let id = before.entry.id;
            if before.entry.directory != message.directory {
                return Err(Status::NotAllowed);
            }
            let recovery = self.declare_crashed(now, id, "its directory was started again by a new process");
            self.note_replaced(id, recovery);
        }
        self.suspect_namesakes(now, &message);
        let id = self.enter_server(&message);
        self.answer_enlisted(now, to, header, id);
        Ok(())
    }

    /// Other servers with this directory or address are probably dead, but only their own silence proves it.
    fn suspect_namesakes(&mut self, now: Instant, message: &Enlist) {
        let same =
            |s: &&ServerRecord| s.entry.directory == message.directory || s.entry.address == message.address;
        let namesakes: Vec<ServerId> = self.desk.state.all_up().filter(same).map(|s| s.entry.id).collect();
        for id in namesakes {
            self.suspect(now, id, "another server enlisted with its directory or address".into());
        }
    }

    fn enter_server(&mut self, message: &Enlist) -> ServerId {
        let id = self.desk.state.meta.servers.next();
        self.desk.state.meta.servers = id;
        if self.desk.state.meta.index_secret == 0 {
            // The secret is stored together with the server's record, before anybody is told.
            self.desk.state.meta.index_secret = self.desk.rng.id();
        }
        self.desk.state.meta.departed.retain(|d| d.directory != message.directory);
        gone::is_back(&mut self.desk, message.directory, id);
        let entry = ServerEntry {
            id,
            address: message.address,
            labels: message.labels.clone(),
            state: ServerState::Up,
            master: message.master,
            backup: message.backup,
            read_speed: message.read_speed.max(1),
            directory: message.directory,
            kept: false,
            replicates: false,
            replicates_only: None,
            redis_cluster_port: message.redis_cluster_port,
        };
        let record = ServerRecord {
            entry,
            token: message.token,
            ceiling: Version(CEILING_STEP),
            streams: Vec::new(),
            log_bytes: message.log_bytes,
            disk_bytes: message.disk_bytes,
        };
        self.desk.state.servers.insert(id, record);
        self.links.insert(id, Link::new(Retry::new(&self.desk.config)));
        self.desk.list_changed(id);
        self.note_new_holder();
        self.wake_recoveries();
        self.progress.wake = Instant::ZERO;
        let text = format!(
            "{id} enlisted: {} directory {}{}",
            message.address.0,
            message.directory,
            message.replaces.map(|old| format!(", after {old}")).unwrap_or_default()
        );
        self.desk.outbox.report(Level::Info, text);
        id
    }

    fn answer_enlisted(&mut self, now: Instant, to: Peer, header: &Header, id: ServerId) {
        let list = self.desk.list_update(now, 0);
        let enlisted = Enlisted {
            server: id,
            cluster: self.desk.state.meta.cluster,
            term: self.desk.term,
            list,
            ceiling: self.desk.state.servers.get(&id).map(|s| s.ceiling).unwrap_or_default(),
            index_secret: (self.desk.state.meta.index_secret != 0)
                .then_some(self.desk.state.meta.index_secret),
        };
        self.desk.outbox.reply_with(to, header, &enlisted);
    }

    // The list.

    /// When servers are to be sent the list, or its differences.
    pub(crate) fn push_wake(&self) -> Instant {
        if self.push_version == self.desk.state.meta.list_version { self.push_at } else { Instant::ZERO }
    }

    pub(crate) fn advance_pushes(&mut self, now: Instant) {
        if self.push_wake() > now {
            return;
        }
        let version = self.desk.state.meta.list_version;
        if std::mem::replace(&mut self.push_version, version) != version {
            for link in self.links.values_mut() {
                link.push = Retry::new(&self.desk.config);
            }
        }
        let mut due: BTreeMap<u64, Vec<ServerId>> = BTreeMap::new();
        self.push_at = Instant::FAR;
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.reached != version) {
            if link.push.take(now, &self.desk.config) {
                due.entry(link.reached).or_default().push(*id);
            }
            self.push_at = self.push_at.min(link.push.next());
        }
        for (reached, servers) in due {
            let update = self.desk.list_update(now, reached);
            for id in servers {
                if !self.desk.ask(now, id, Asked::Push(id), &update) {
                    self.desk.outbox.report(Level::Error, "the server list does not fit a message");
                }
            }
        }
    }

    pub(crate) fn on_pushed(&mut self, now: Instant, id: ServerId, status: Status, body: &[u8]) {
        match status {
            Status::WrongServer => {
                self.suspect(now, id, "its address answers for another server".into());
            }
            Status::Ok => {
                let Ok(answer) = decode::<ServerListReached>(body) else { return };
                let version = self.desk.state.meta.list_version;
                let Some(link) = self.links.get_mut(&id) else { return };
                if !std::mem::replace(&mut link.told, true) {
                    self.copies.wake = Instant::ZERO;
                }
                let before = link.reached;
                // An answer to an earlier push may come late. A server with a version that was never this coordinator's
                // is sent the whole list.
                link.reached = if answer.version <= version { answer.version.max(link.reached) } else { 0 };
                if link.reached != version {
                    self.push_at = self.push_at.min(link.push.next());
                }
                let heard_now = before + 1..=link.reached;
                let time = self.desk.time(now);
                for departed in
                    self.desk.state.meta.departed.iter_mut().filter(|d| heard_now.contains(&d.version))
                {
                    departed.at = departed.at.max(time);
                }
            }
            _ => {}
        }
    }

    // Death.

    /// The verdict. From its commit on the server is fenced, and its recovery exists.
    pub(crate) fn declare_crashed(&mut self, now: Instant, id: ServerId, cause: &str) -> RecoveryId {
        let detected = self.desk.time(now);
        let directories = self.replica_directories(detected, id);
        let tablets = self.desk.state.tablets().filter(|t| t.owner == id && t.taken).count() as u32;
        let recovery = self.desk.state.meta.recoveries.next();
        self.desk.state.meta.recoveries = recovery;
        self.cleared.remove(&id);
        let server =
            self.desk.state.servers.get_mut(&id).expect("only servers in the list are declared crashed");
        assert!(server.entry.state == ServerState::Up, "a server is declared crashed once");
        server.entry.state = ServerState::Crashed;
        let record = RecoveryRecord {
            id: recovery,
            crashed: id,
            address: server.entry.address,
            token: server.token,
            detected,
            cause: cause.into(),
            cold: false,
            directories,
            plan: RecoveryId::NONE,
            ends: Vec::new(),
            published: Vec::new(),
            losses: Vec::new(),
            done: false,
            complete_millis: None,
            first_live_millis: None,
            done_millis: None,
            partitions: 0,
            segments: 0,
            bytes: 0,
            records: 0,
            failed_attempts: 0,
            tablets,
            steps: RecoverySteps {
                suspected_before: self
                    .suspects
                    .get(&id)
                    .map(|suspect| now.since(suspect.since).as_millis() as u64),
                ..RecoverySteps::default()
            },
            parts: Vec::new(),
            given_up: Vec::new(),
            backups: Vec::new(),
        };
        let text =
            format!("{id} at {} is dead: {cause}; {recovery} begins, {tablets} tablets", record.address.0);
        self.desk.outbox.report(Level::Warn, text);
        self.desk.outbox.report(Level::Debug, format!("fact:dead {}", id.raw()));
        self.desk.state.recoveries.insert(recovery, record);
        self.desk.outbox.touch(Key::Recovery(recovery));
        self.links.remove(&id);
        self.suspects.remove(&id);
        self.desk.list_changed(id);
        let lease_until = self.read_leases.granted_until(id);
        self.recoveries.insert(recovery, Recovery::new(now, lease_until));
        self.watch(now, recovery);
        self.take_partitions_from(id);
        self.wake_recoveries();
        self.move_untaken_tablets(id);
        self.progress.wake = Instant::ZERO;
        recovery
    }

    /// All directories that may hold replicas of a server that dies now. A directory that has left the list still
    /// counts for `DEPARTED_MILLIS`, and for as long as the dying server cannot be known to have heard of it: that
    /// server may go on with the replicas there, and be granted a lease by them.
    fn replica_directories(&self, now: ClusterTime, dying: ServerId) -> Vec<DirectoryId> {
        let reached = self.links.get(&dying).map_or(0, |link| link.reached);
        let listed = self.desk.state.servers.values().filter(|s| s.entry.backup).map(|s| s.entry.directory);
        let counts = |d: &&Departed| d.at.0 + DEPARTED_MILLIS > now.0 || d.version > reached;
        let departed = self.desk.state.meta.departed.iter().filter(counts);
        listed.chain(departed.map(|d| d.directory)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Nothing is left to recover of this server, so it leaves the list.
    pub(crate) fn remove_server(&mut self, now: Instant, id: ServerId) {
        let at = self.desk.time(now);
        let Some(server) = self.desk.state.servers.remove(&id) else { return };
        let (directory, address) = (server.entry.directory, Some(server.entry.address));
        let all_reached = self.links.values().map(|link| link.reached).min().unwrap_or(u64::MAX);
        // The version of the list that this removal makes.
        let version = self.desk.state.meta.list_version + 1;
        let departed = &mut self.desk.state.meta.departed;
        let counts = |d: &Departed| d.at.0 + DEPARTED_MILLIS > at.0 || d.version > all_reached;
        departed.retain(|d| counts(d) && d.directory != directory);
        if server.entry.backup && !self.desk.state.servers.values().any(|s| s.entry.directory == directory) {
            departed.push(Departed { directory, at, version, server: id, address });
            let excess = departed.len().saturating_sub(DEPARTED_COUNT_MAX);
            departed.drain(..excess);
        }
        self.desk.list_removed(id);
        self.forget_old_recoveries(at);
        self.progress.wake = Instant::ZERO;
    }

    fn forget_old_recoveries(&mut self, now: ClusterTime) {
        let ended = |r: &RecoveryRecord| r.detected.0.saturating_add(r.done_millis.unwrap_or(0));
        let is_over = |r: &&RecoveryRecord| r.done && !self.desk.state.servers.contains_key(&r.crashed);
        let over: Vec<RecoveryId> =
            self.desk.state.recoveries.values().filter(is_over).map(|r| r.id).collect();
        let excess = over.len().saturating_sub(HISTORY_COUNT_MAX);
        for id in over.into_iter().take(excess) {
            if self.desk.state.recoveries.get(&id).is_some_and(|r| ended(r) + HISTORY_MILLIS < now.0) {
                self.desk.state.recoveries.remove(&id);
                self.desk.outbox.touch(Key::Recovery(id));
            }
        }
    }

    // Requests of servers.

    pub(crate) fn on_suspect_server(
        &mut self,
        now: Instant,
        to: Peer,
        header: &Header,
        message: &SuspectServer,
    ) -> Result<(), Status> {
        let by = if header.sender.is_none() { "a client".into() } else { header.sender.to_string() };
        self.suspect(now, message.server, format!("reported by {by}"));
        self.desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }
}

impl Link {
    fn new(push: Retry) -> Link {
        Link { reached: 0, push, confirmed: false, told: false, holds: true }
    }
}

fn check_enlist(message: &Enlist) -> Result<(), Status> {
    let fits = |label: &Label| {
        !label.name.is_empty() && label.name.len() <= LABEL_BYTES_MAX && label.value.len() <= LABEL_BYTES_MAX
    };
    let labels = message.labels.len() <= LABEL_COUNT_MAX && message.labels.iter().all(fits);
    let address = message.address.0.port() != 0 && !message.address.0.ip().is_unspecified();
    let named = message.token != 0 && !message.directory.is_none();
    if labels && address && named { Ok(()) } else { Err(Status::BadRequest) }
}
