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

use crate::departed;
use crate::gone;
use crate::list::ListHistory;
use crate::machine::Coordinator;
use crate::records::{Key, RecoveryRecord, ServerRecord};
use crate::streams::CEILING_STEP;
use ramhold_base::limits::{LABEL_BYTES_MAX, LABEL_COUNT_MAX, SERVER_COUNT_MAX};
use ramhold_base::{Instant, Level, Peer, RecoveryId, ServerId, Status, Version};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::membership::{Enlist, Enlisted, Label, ServerEntry, ServerState, SuspectServer};
use ramhold_wire::status::RecoverySteps;

impl Coordinator {
    pub(crate) fn resume_membership(&mut self, now: Instant) {
        self.desk.list = ListHistory::new(self.desk.state.meta.list_version);
        let up: Vec<ServerId> = self.desk.state.all_up().map(|s| s.entry.id).collect();
        self.links.resume(now, &self.desk, &up);
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
        self.links.enter(&self.desk, id);
        self.desk.list_changed(id);
        self.desk.look_at_recoveries();
        self.desk.look_at_tablets();
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

    // Death.

    /// The verdict. From its commit on the server is fenced, and its recovery exists.
    pub(crate) fn declare_crashed(&mut self, now: Instant, id: ServerId, cause: &str) -> RecoveryId {
        let detected = self.desk.time(now);
        let directories = departed::replica_directories(&self.desk, &self.links, detected, id);
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
        self.links.remove(id);
        self.suspects.remove(&id);
        self.desk.list_changed(id);
        let lease_until = self.read_leases.granted_until(id);
        self.recoveries.begin(now, recovery, lease_until);
        self.recoveries.take_partitions_from(&mut self.desk, id);
        self.desk.look_at_recoveries();
        self.progress.move_untaken_tablets(&mut self.desk, id);
        self.desk.look_at_tablets();
        recovery
    }
}

impl Coordinator {
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

fn check_enlist(message: &Enlist) -> Result<(), Status> {
    let fits = |label: &Label| {
        !label.name.is_empty() && label.name.len() <= LABEL_BYTES_MAX && label.value.len() <= LABEL_BYTES_MAX
    };
    let labels = message.labels.len() <= LABEL_COUNT_MAX && message.labels.iter().all(fits);
    let address = message.address.0.port() != 0 && !message.address.0.ip().is_unspecified();
    let named = message.token != 0 && !message.directory.is_none();
    if labels && address && named { Ok(()) } else { Err(Status::BadRequest) }
}
