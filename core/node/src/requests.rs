//! Routes each request to the role that answers it, after the checks that every request must pass first.

use crate::resp::For;
use crate::server::{Phase, ServerNode};
use ramhold_base::{ConnId, Effects, Instant, Level, Peer, ServerId, Status};
use ramhold_master::{Master, MasterRequest};
use ramhold_wire::membership::{ServerListReached, ServerListUpdate, ServerState};
use ramhold_wire::neighbours::ReachNeighbour;
use ramhold_wire::pubsub::{Listeners, ListenersTold, Publish, Published};
use ramhold_wire::recovery::RoomReport;
use ramhold_wire::status::{Pong, ProcessStatus, Reach};
use ramhold_wire::table::TableHint;
use ramhold_wire::{
    Addressee, ForProcess, ForServer, Gate, Header, Opcode, Standing, decode, reply, reply_with,
};

impl ServerNode {
    pub(crate) fn on_request(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
        effects: &mut Effects,
    ) {
        let to = Peer::Conn(from);
        let Some(opcode) = header.opcode() else {
            return reply(effects, to, header, Status::UnknownOpcode);
        };
        if let Err(status) = self.check(opcode.gate(), header) {
            if status == Status::NotCoordinator && opcode == Opcode::TableDescribe {
                return self.hint(header, to, effects);
            }
            // A session that takes this server for the coordinator learns that it will never be one.
            let is_meant = status != Status::NotCoordinator;
            let target = if is_meant { header.target } else { self.view.me };
            return reply(effects, to, &Header { target, ..*header }, status);
        }
        match opcode.addressee() {
            Addressee::ForProcess(request) => {
                self.on_process_request(now, request, header, body, to, effects)
            }
            Addressee::ForObject(request) => {
                self.hand_to_master(now, MasterRequest::Object(request), header, body, from, effects);
            }
            Addressee::ForMaster(request) => {
                self.hand_to_master(now, MasterRequest::Master(request), header, body, from, effects);
            }
            Addressee::ForBackup(request) => {
                self.backup.on_request(now, request, header, body, from, &self.view, effects);
            }
            Addressee::ForServer(request) => {
                self.on_server_request(now, request, header, body, from, effects)
            }
            // The sender takes this server for a brick.
            Addressee::ForBrick(_) => reply(effects, to, header, Status::WrongOwner),
            // No server is restarted by order.
            Addressee::ForSupervisor(_) => reply(effects, to, header, Status::NotAllowed),
            Addressee::ForCoordinator(_) | Addressee::ForSender(_) => {
                reply(effects, to, header, Status::NotCoordinator);
            }
        }
    }

    /// A session has asked this server for a table: the coordinator is away, or the session was given this address. Bricks
    /// may describe the table.
    fn hint(&self, header: &Header, to: Peer, effects: &mut Effects) {
        let is_ours = header.cluster.is_none() || header.cluster == self.view.cluster;
        if !is_ours || self.view.bricks.is_empty() || self.phase != Phase::Serving {
            return reply(effects, to, header, Status::NotCoordinator);
        }
        let hint = TableHint { part: None, bricks: self.view.bricks.clone() };
        let header = Header { cluster: self.view.cluster, ..*header };
        reply_with(effects, to, &header, Status::NotCoordinator, &hint);
    }

    /// A request that every process answers.
    fn on_process_request(
        &mut self,
        now: Instant,
        request: ForProcess,
        header: &Header,
        body: &[u8],
        to: Peer,
        effects: &mut Effects,
    ) {
        match request {
            ForProcess::Ping => self.on_ping(header, to, effects),
            ForProcess::ProcessStatus => {
                let status = self.status(now);
                reply_with(effects, to, header, Status::Ok, &status);
            }
            ForProcess::StateRead => self.on_state_read(header, body, to, effects),
        }
    }

    /// A request to this server as a whole.
    fn on_server_request(
        &mut self,
        now: Instant,
        request: ForServer,
        header: &Header,
        body: &[u8],
        from: ConnId,
        effects: &mut Effects,
    ) {
        let to = Peer::Conn(from);
        match request {
            ForServer::ServerListUpdate => self.on_server_list(now, header, body, to, effects),
            ForServer::Reach => match decode::<Reach>(body) {
                Ok(message) => self.on_reach(now, header, from, &message, effects),
                Err(status) => reply(effects, to, header, status),
            },
            ForServer::ReachNeighbour => match decode::<ReachNeighbour>(body) {
                Ok(message) => self.on_reach_neighbour(now, header, from, &message, effects),
                Err(status) => reply(effects, to, header, status),
            },
            ForServer::Room => {
                let report = RoomReport {
                    frames: self.backup.frames_left(),
                    log_bytes: self.master.as_ref().map_or(0, Master::room_bytes),
                    lone_segments: self.master.as_ref().map_or(0, Master::lone_segments),
                };
                reply_with(effects, to, header, Status::Ok, &report);
            }
            ForServer::StateCopy => self.on_state_copy(header, body, to, effects),
            ForServer::StateTell => self.on_state_tell(header, to, effects),
            ForServer::Publish => match (decode::<Publish>(body), &mut self.resp) {
                (Ok(message), Some(resp)) => {
                    let published = resp.on_publish(&message, effects);
                    reply_with(effects, to, header, Status::Ok, &published);
                }
                (Ok(_), None) => reply_with(effects, to, header, Status::Ok, &Published { heard: 0 }),
                (Err(status), _) => reply(effects, to, header, status),
            },
            ForServer::Listeners => match (decode::<Listeners>(body), &self.resp) {
                (Ok(message), Some(resp)) => {
                    reply_with(effects, to, header, Status::Ok, &resp.on_listeners(&message));
                }
                (Ok(_), None) => {
                    reply_with(effects, to, header, Status::Ok, &ListenersTold { names: Vec::new() });
                }
                (Err(status), _) => reply(effects, to, header, status),
            },
        }
    }

    /// The check that a request must pass before its body is looked at.
    fn check(&mut self, gate: Gate, header: &Header) -> Result<(), Status> {
        match gate {
            Gate::Open => Ok(()),
            Gate::Member => self.check_identity(header),
            Gate::Coordinator => self.check_identity(header).and_then(|()| self.check_term(header)),
            Gate::Serving => self.check_serving(header),
            Gate::ServingCoordinator => self.check_serving(header).and_then(|()| self.check_term(header)),
            Gate::Leader | Gate::LeaderOfStrangers => Err(Status::NotCoordinator),
        }
    }

    fn hand_to_master(
        &mut self,
        now: Instant,
        request: MasterRequest,
        header: &Header,
        body: &[u8],
        from: ConnId,
        effects: &mut Effects,
    ) {
        match &mut self.master {
            Some(master) => master.on_request(now, request, header, body, from, &self.view, effects),
            None => reply(effects, Peer::Conn(from), header, Status::WrongOwner),
        }
    }

    /// Answers a ping with this server's id, so that the asker finds out if another life is here. A sender that was
    /// declared dead is told so.
    fn on_ping(&self, header: &Header, to: Peer, effects: &mut Effects) {
        let dead = header.cluster == self.view.cluster
            && !header.sender.is_none()
            && matches!(self.view.list.standing(header.sender), Standing::Crashed | Standing::Removed);
        let status = if dead { Status::Fenced } else { Status::Ok };
        let pong = Pong { server: self.view.me, list_version: self.view.list.version(), time_micros: None };
        reply_with(effects, to, header, status, &pong);
    }

    fn on_server_list(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        to: Peer,
        effects: &mut Effects,
    ) {
        let update = match decode::<ServerListUpdate>(body) {
            Ok(update) => update,
            Err(status) => return reply(effects, to, header, status),
        };
        self.view.tell_time(now, update.time);
        self.view.placement = update.replica_placement();
        self.view.topology = update.topology.clone();
        let before = self.view.list.version();
        if update.to >= before {
            self.view.bricks = update.bricks.clone().unwrap_or_default();
        }
        let is_newer = update.to > before && self.view.list.apply(&update);
        let reached = ServerListReached { version: self.view.list.version() };
        reply_with(effects, to, header, Status::Ok, &reached);
        if reached.version == before {
            return;
        }
        let me = self.view.list.entry(self.view.me);
        if !me.is_some_and(|e| e.state == ServerState::Up) {
            return self.declared_dead(effects);
        }
        if is_newer && self.doors.on_list(&update, effects) {
            self.resp(now, For::Roster, effects);
        }
        effects.report(Level::Debug, format!("server list is at version {}", reached.version));
        self.backup.on_list(now, &self.view, effects);
        if let Some(master) = &mut self.master {
            master.on_list(now, &self.view, effects);
        }
    }

    /// Checks that a request is for this cluster, and for this life of this server.
    pub(crate) fn check_identity(&self, header: &Header) -> Result<(), Status> {
        match self.phase {
            Phase::Starting | Phase::Enlisting => Err(Status::NotReady),
            Phase::Installing | Phase::Serving | Phase::Stopping | Phase::Ended => {
                self.view.check_target(header)
            }
        }
    }

    fn check_serving(&self, header: &Header) -> Result<(), Status> {
        self.check_identity(header)?;
        if header.shard != self.config.master_config.shard {
            return Err(Status::WrongOwner);
        }
        if self.phase == Phase::Serving { Ok(()) } else { Err(Status::NotReady) }
    }

    /// Checks the term of a coordinator's message, and notes the term. A message of a lower term comes from a deposed
    /// coordinator.
    pub(crate) fn check_term(&mut self, header: &Header) -> Result<(), Status> {
        self.compare_term(header)?;
        self.view.term = header.term;
        self.heard = self.now;
        Ok(())
    }

    /// Checks the term without noting it, for a coordinator that may not act yet, or not at all.
    pub(crate) fn compare_term(&self, header: &Header) -> Result<(), Status> {
        let is_stale = header.term < self.view.least_term() || header.sender != ServerId::NONE;
        if is_stale { Err(Status::StaleTerm) } else { Ok(()) }
    }

    pub(crate) fn status(&self, now: Instant) -> ProcessStatus {
        let (master, times) = (self.master.as_ref(), (self.started, now));
        let status =
            crate::resp::status(&self.config, &self.view, &self.backup, master, self.bad_frames, times);
        ProcessStatus { silent_links: self.paths.silent_links(now), ..status }
    }
}
