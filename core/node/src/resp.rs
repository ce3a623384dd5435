//! The Redis protocol in a server process: gives its front access to the other roles.

use crate::ServerConfig;
use crate::doors::Doors;
use crate::server::{Phase, ServerNode};
use ramhold_access::{AtOnce, Begun, Roster};
use ramhold_backup::Backup;
use ramhold_base::map::FastMap;
use ramhold_base::{
    ConnId, Effect, Effects, Input, Instant, KeyHash, Peer, Rest, SecretResult, SecretToken, SecretWork,
    ServerId, Status, TableId, Taken,
};
use ramhold_master::Master;
use ramhold_resp::{Attempt, Host};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::status::ProcessStatus;
use ramhold_wire::{Header, View};
use std::net::{IpAddr, SocketAddr};

/// The other roles, as the front sees them.
struct Roles<'a> {
    config: &'a ServerConfig,
    view: &'a View,
    backup: &'a Backup,
    master: Option<&'a mut Master>,
    /// Answers of a process that has no master.
    unserved: LocalAnswers,
    doors: &'a mut Doors,
    bad_frames: u64,
    started: Instant,
}

impl Host for Roles<'_> {
    fn treat(&mut self, now: Instant, request: &LocalRequest<'_>, ticket: u64, effects: &mut Effects) {
        match &mut self.master {
            Some(master) => master.on_local(now, request, ticket, self.view, effects),
            None => self.unserved.push(ticket, Status::WrongOwner, |_| {}),
        }
    }

    fn prefetch(&self, table: TableId, keys: &mut dyn Iterator<Item = &[u8]>) {
        if let Some(master) = &self.master {
            let mut wanted = master.wanted();
            keys.for_each(|key| wanted.key(table, key));
            wanted.fetch();
        }
    }

    fn finish(&mut self, now: Instant, bytes: u64, effects: &mut Effects) {
        if let Some(master) = &mut self.master {
            master.finish_local(now, bytes, self.view, effects);
        }
    }

    fn swap_answers(&mut self, answers: &mut LocalAnswers) {
        match &mut self.master {
            Some(master) => master.swap_local_answers(answers),
            None => std::mem::swap(&mut self.unserved, answers),
        }
    }

    fn time(&self, now: Instant) -> u64 {
        self.view.time(now).0
    }

    fn status(&self, now: Instant) -> ProcessStatus {
        status(
            self.config,
            self.view,
            self.backup,
            self.master.as_deref(),
            self.bad_frames,
            (self.started, now),
        )
    }

    fn objects_by_table(&self) -> FastMap<TableId, Option<u64>> {
        self.master.as_ref().map_or_else(FastMap::default, |master| master.objects_by_table())
    }

    fn ranges_served(&self, table: TableId) -> Vec<(KeyHash, KeyHash)> {
        self.master.as_ref().map_or_else(Vec::new, |master| master.ranges_served(table))
    }

    fn has_unconfirmed(&self) -> bool {
        self.master.as_ref().is_some_and(|master| master.has_unconfirmed())
    }

    fn roster(&self) -> &Roster {
        &self.doors.roster
    }

    fn login(&mut self, now: Instant, attempt: Attempt<'_>, effects: &mut Effects) -> Begun {
        self.doors.login(now, attempt, effects)
    }

    fn login_at_once(
        &mut self,
        now: Instant,
        address: Option<IpAddr>,
        is_right: &dyn Fn() -> bool,
    ) -> AtOnce {
        self.doors.logins.compare_at_once(now, address, is_right)
    }

    fn random(&mut self, bytes: u16, effects: &mut Effects) -> SecretToken {
        let token = self.doors.logins.next_token();
        effects.push(Effect::Secret { token, work: SecretWork::Random { bytes } });
        token
    }

    fn me(&self) -> ServerId {
        self.view.me
    }

    fn cluster(&self) -> u64 {
        self.view.cluster.0
    }

    fn bricks(&self) -> Vec<SocketAddr> {
        self.view.bricks.iter().map(|address| address.0).collect()
    }

    fn to_server(&self, server: ServerId) -> Header {
        self.view.to_server(server)
    }

    fn cluster_address(&self, server: ServerId) -> Option<SocketAddr> {
        let entry = self.view.list.entry(server)?;
        Some(SocketAddr::new(entry.address.0.ip(), entry.redis_cluster_port?))
    }

    fn masters(&self) -> Vec<(ServerId, SocketAddr)> {
        let masters = self.view.list.up().filter(|server| server.master);
        masters.map(|server| (server.id, server.address.0)).collect()
    }

    fn servers(&self) -> Vec<(ServerId, SocketAddr)> {
        self.view.list.up().map(|server| (server.id, server.address.0)).collect()
    }
}

/// The part of the front that is meant, with its input.
pub(crate) enum For<'a> {
    Met {
        conn: ConnId,
        peer: Option<SocketAddr>,
        own: Option<SocketAddr>,
    },
    Bytes {
        from: ConnId,
        bytes: &'a [u8],
    },
    Closed(ConnId),
    /// Input for the front's client session.
    Session(Input<'a>),
    /// Work with passwords is done.
    Secret(SecretToken, SecretResult),
    /// The accounts were told anew.
    Roster,
    /// Answers of the master may be there to be fetched.
    Answers,
}

impl ServerNode {
    /// Runs a part of the front, with the other roles around it.
    pub(crate) fn resp(&mut self, now: Instant, what: For<'_>, effects: &mut Effects) {
        let Some(resp) = &mut self.resp else { return };
        let mut roles = Roles {
            config: &self.config,
            view: &self.view,
            backup: &self.backup,
            master: self.master.as_mut(),
            unserved: LocalAnswers::default(),
            doors: &mut self.doors,
            bad_frames: self.bad_frames,
            started: self.started,
        };
        match what {
            For::Bytes { from, bytes } if self.phase == Phase::Serving => {
                resp.on_bytes(now, from, bytes, &mut roles, effects);
            }
            For::Bytes { from, bytes } => {
                let text = b"-LOADING the server is not serving yet, or not any more\r\n";
                effects.send_with(Peer::Conn(from), |out| out.extend_from_slice(text));
                effects.push(Effect::Close { conn: from });
                effects.taken = Taken { bytes: bytes.len(), rest: Rest::Part };
            }
            For::Met { conn, peer, own } => resp.on_met(now, conn, peer.zip(own), &roles),
            For::Closed(conn) => resp.on_closed(conn),
            For::Session(input) => resp.on_session(now, input, &mut roles, effects),
            For::Secret(token, result) => {
                let verdicts = roles.doors.logins.answered(now, token, &result);
                if verdicts.is_empty() {
                    resp.on_random(now, (token, result), &mut roles, effects);
                } else {
                    resp.on_logins(now, verdicts, &mut roles, effects);
                }
            }
            For::Roster => resp.on_roster(now, &mut roles, effects),
            For::Answers => resp.on_host(now, &mut roles, effects),
        }
    }
}

/// The status that a server reports of itself.
pub(crate) fn status(
    config: &ServerConfig,
    view: &View,
    backup: &Backup,
    master: Option<&Master>,
    bad_frames: u64,
    (started, now): (Instant, Instant),
) -> ProcessStatus {
    let mut status = ProcessStatus {
        server: view.me,
        version: config.version.clone(),
        uptime_millis: u64::try_from(now.since(started).as_millis()).unwrap_or(u64::MAX),
        memory_bytes: config.memory_bytes,
        backup: Some(backup.status(now)),
        bad_frames,
        ..ProcessStatus::default()
    };
    if let Some(master) = master {
        master.status_into(&mut status, view);
    }
    status.buffer_bytes = status
        .memory_bytes
        .saturating_sub(config.master_config.log_bytes)
        .saturating_sub(config.master_config.index_bytes_max);
    status
}
