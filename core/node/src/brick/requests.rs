//! Frames that come to a brick over the network.
//!
//! A brick describes the tables of which it has all tablets, so that sessions can begin while the coordinator is away. Of
//! other tables it tells its own tablets, if it has any, and names bricks that may have more.
//!
//! Not here: questions about keys (core/brick). Catalogue: I1, I4.

use crate::BrickNode;
use ramhold_base::hash::covers;
use ramhold_base::{ConnId, Effects, Instant, KeyHash, Peer, Status};
use ramhold_brick::TableState;
use ramhold_placement::zone_of;
use ramhold_wire::control::decode;
use ramhold_wire::quorum::BrickZone;
use ramhold_wire::status::{Pong, ProcessStatus};
use ramhold_wire::table::{TableDescribe, TableDescription, TableHint, TableOptions};
use ramhold_wire::{
    Addressee, CallRole, ForBrick, ForCoordinator, ForProcess, Gate, Header, Kind, Step, frame, reply,
    reply_with,
};

impl BrickNode {
    pub(super) fn on_frame(&mut self, now: Instant, from: ConnId, bytes: &[u8], effects: &mut Effects) {
        let (header, body) = match frame::parse(bytes) {
            Ok(parsed) => parsed,
            Err(bad) => {
                self.bad_frames += 1;
                ramhold_wire::refuse_malformed(effects, from, bad);
                return;
            }
        };
        match (header.kind, CallRole::of(header.rpc)) {
            (Kind::Request, _) => {
                if let Err(status) = self.on_request(now, &header, body, from, effects) {
                    // A session that takes this brick for the coordinator learns that it will never be one.
                    let is_meant = status != Status::NotCoordinator;
                    let target = if is_meant { header.target } else { self.view.me };
                    reply(effects, Peer::Conn(from), &Header { target, ..header }, status);
                }
            }
            (Kind::Reply, Some(CallRole::Process)) => self.on_welcome(now, &header, body, effects),
            (Kind::Reply, Some(CallRole::Brick)) => {
                self.brick.on_reply(now, &header, body, &self.view, effects);
            }
            // Nobody here asked that of another process.
            (Kind::Reply, _) => {}
        }
    }

    /// `Err`: the request is refused with this status.
    fn on_request(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let to = Peer::Conn(from);
        let opcode = header.opcode().ok_or(Status::UnknownOpcode)?;
        match opcode.addressee() {
            Addressee::ForProcess(ForProcess::Ping) => {
                let pong = Pong { server: self.view.me, list_version: 0, time_micros: None };
                reply_with(effects, to, &self.of_cluster(header)?, Status::Ok, &pong);
                Ok(())
            }
            Addressee::ForProcess(ForProcess::ProcessStatus) => {
                reply_with(effects, to, header, Status::Ok, &self.status(now));
                Ok(())
            }
            // The supervisor does not know yet which brick this is.
            Addressee::ForBrick(ForBrick::BrickProbe) => {
                let step = &mut Step { now, view: &self.view, effects };
                self.brick.on_request(step, ForBrick::BrickProbe, header, body, from);
                Ok(())
            }
            Addressee::ForBrick(request) => {
                if opcode.gate() != Gate::Open {
                    if !self.has_enlisted {
                        return Err(Status::NotReady);
                    }
                    self.view.check_target(header)?;
                }
                let step = &mut Step { now, view: &self.view, effects };
                self.brick.on_request(step, request, header, body, from);
                Ok(())
            }
            // It does not know its tables yet, and may have the one that is meant.
            Addressee::ForCoordinator(ForCoordinator::TableDescribe) if !self.brick.is_serving() => {
                Err(Status::NotReady)
            }
            Addressee::ForCoordinator(ForCoordinator::TableDescribe) => {
                let (asked, header) = (decode(body)?, self.of_cluster(header)?);
                match self.describe(&asked) {
                    Some(whole) if is_whole(&whole) => reply_with(effects, to, &header, Status::Ok, &whole),
                    part => {
                        let hint = TableHint { part, bricks: self.brick.named() };
                        reply_with(effects, to, &header, Status::NotCoordinator, &hint);
                    }
                }
                Ok(())
            }
            Addressee::ForProcess(ForProcess::StateRead)
            | Addressee::ForCoordinator(_)
            | Addressee::ForSender(_) => Err(Status::NotCoordinator),
            // The sender takes this brick for a server. Its own backup is nobody else's.
            Addressee::ForObject(_) | Addressee::ForMaster(_) => Err(Status::WrongOwner),
            // A brick does not restart itself.
            Addressee::ForBackup(_) | Addressee::ForServer(_) | Addressee::ForSupervisor(_) => {
                Err(Status::NotAllowed)
            }
        }
    }

    /// The header of a request with this cluster: a session may not know yet which cluster it speaks to.
    fn of_cluster(&self, header: &Header) -> Result<Header, Status> {
        if header.cluster.is_none() || header.cluster == self.view.cluster {
            Ok(Header { cluster: self.view.cluster, ..*header })
        } else {
            Err(Status::WrongCluster)
        }
    }

    /// The table that is asked for, with its tablets here.
    fn describe(&self, asked: &TableDescribe) -> Option<TableDescription> {
        let is_meant = |table: &TableState| {
            if asked.name.is_empty() { table.table == asked.table } else { table.name == asked.name }
        };
        let (table, tablets) = self.brick.describe(is_meant)?;
        Some(TableDescription {
            table: table.table,
            name: table.name,
            options: TableOptions {
                durability: table.durability,
                replicas: 0,
                tablets: u32::try_from(tablets.len()).unwrap_or(u32::MAX),
                slots: table.slots,
                zone: None,
                quorum: Some(table.quorum),
            },
            seed: table.seed,
            tablets: Vec::new(),
            reclassing: 0,
            shortage: None,
            outside: None,
            quorum: Some(tablets),
            zones: self.own_zone(),
        })
    }

    /// The zone of this brick. It does not know those of others.
    fn own_zone(&self) -> Option<Vec<BrickZone>> {
        let zone = zone_of(&self.config.labels)?.to_owned();
        Some(vec![BrickZone { brick: self.view.me, zone }])
    }

    pub(super) fn status(&self, now: Instant) -> ProcessStatus {
        let config = &self.config;
        let mut status = ProcessStatus {
            server: self.view.me,
            version: config.version.clone(),
            uptime_millis: u64::try_from(now.since(self.started).as_millis()).unwrap_or(u64::MAX),
            memory_bytes: config.memory_bytes,
            log_bytes: config.brick.log_bytes,
            index_bytes_max: config.brick.index_bytes_max,
            backup: Some(self.backup.status(now)),
            bad_frames: self.bad_frames,
            ..ProcessStatus::default()
        };
        self.brick.status_into(now, &config.labels, &mut status);
        status.buffer_bytes = status
            .memory_bytes
            .saturating_sub(config.brick.log_bytes)
            .saturating_sub(config.brick.index_bytes_max);
        status
    }
}

/// Whether the tablets, in order of hashes, cover all hashes.
fn is_whole(description: &TableDescription) -> bool {
    let tablets = description.quorum.as_deref().unwrap_or_default();
    covers(tablets.iter().map(|tablet| (tablet.first, tablet.last)), (KeyHash(0), KeyHash(u64::MAX)))
}
