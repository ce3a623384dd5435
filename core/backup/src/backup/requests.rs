//! The requests to a backup: who may ask, and the part that answers.

use crate::Backup;
use crate::keys::ReplicaKey;
use crate::recovery_read::Lent;
use crate::request::Request;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Peer, Status};
use ramhold_wire::data::{AppendReply, AppendRequest};
use ramhold_wire::recovery::{RecoveryRead, RecoveryWork};
use ramhold_wire::{ForBackup, Header, Standing, View, decode, frame, reply, reply_with};

impl Backup {
    /// A request to this role.
    pub fn on_request(
        &mut self,
        now: Instant,
        asked: ForBackup,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        let request = &Request { header, body, from };
        match asked {
            ForBackup::Append => self.on_append(now, request, view, effects),
            ForBackup::ReplicaFree => {
                let status = self.try_replica_free(header, view).err().unwrap_or(Status::Ok);
                reply(effects, Peer::Conn(from), header, status);
            }
            ForBackup::ReplicaRead => {
                let taken = self.try_replica_read(now, request, view, effects);
                refuse(taken, request, effects);
            }
            ForBackup::Fence => refuse(self.try_fence(request, view), request, effects),
            ForBackup::RecoveryRead => {
                let taken = self.try_recovery_read(now, request, view, effects);
                refuse(taken, request, effects);
            }
            ForBackup::RecoveryWork => {
                let answered = self.try_recovery_work(now, request, view, effects);
                refuse(answered, request, effects);
            }
        }
        self.advance(now, view, effects);
    }

    /// Checks that a request is for this server, and that its sender may ask: the coordinator, or a server that is Up.
    fn check_sender(&self, header: &Header, view: &View) -> Result<(), Status> {
        self.life.check_serving()?;
        view.check_target(header)?;
        if header.sender.is_none() {
            return Ok(());
        }
        if planted(Defect::FenceIgnored) {
            return Ok(());
        }
        match view.list.standing(header.sender) {
            Standing::Up if self.fences.is_fenced(header.sender) => Err(Status::Fenced),
            Standing::Up => Ok(()),
            Standing::Crashed | Standing::Removed => Err(Status::Fenced),
            Standing::Unknown => Err(Status::NotInCluster),
        }
    }

    /// Checks that the sender is a master of this cluster, and that the device has not failed.
    fn check_master(&self, header: &Header, view: &View) -> Result<(), Status> {
        self.check_sender(header, view)?;
        if header.sender.is_none() {
            return Err(Status::NotInCluster);
        }
        self.device.disk.check()
    }

    fn on_append(&mut self, now: Instant, request: &Request<'_>, view: &View, effects: &mut Effects) {
        let key = ReplicaKey::of(request.header);
        let Err(status) = self.try_append(now, key, request, view, effects) else { return };
        let held = self.replicas.present().get(&key).map(|number| &self.replicas[*number]);
        let reply = held.map_or(AppendReply::default(), |replica| replica.reply(replica.accepted.length));
        let full = self.full(now).filter(|_| status == Status::OpenRefused);
        effects.send_with(Peer::Conn(request.from), |out| {
            frame::write(out, &request.header.answer(status), |out| {
                reply.encode(out);
                full.iter().for_each(|full| AppendReply::encode_full(full, out));
            });
        });
    }

    fn try_append(
        &mut self,
        now: Instant,
        key: ReplicaKey,
        request: &Request<'_>,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_master(request.header, view)?;
        let step = &mut self.device.step(now, effects);
        let number = self.replicas.append(key, request, (&mut self.space, &self.growth), step)?;
        // Without neighbourhoods a server has few streams, so a fence reads few openings.
        if view.placement.neighbouring().is_some() {
            let append = AppendRequest::decode(request.body)?;
            if append.open && !append.side {
                self.fences.openings.kept.keep(number, &key, append.data);
            }
        }
        self.grants.note(now, request.header.sender);
        Ok(())
    }

    fn try_replica_free(&mut self, header: &Header, view: &View) -> Result<(), Status> {
        self.check_master(header, view)?;
        self.replicas.free_for_master(header)
    }

    fn try_replica_read(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_master(request.header, view)?;
        self.replica_reads.read(request, &mut self.replicas, &mut self.device.step(now, effects))
    }

    fn try_fence(&mut self, request: &Request<'_>, view: &View) -> Result<(), Status> {
        self.check_sender(request.header, view)?;
        self.fences.fence(request, view, &self.device.disk)
    }

    fn try_recovery_read(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_sender(request.header, view)?;
        self.device.disk.check()?;
        let question: RecoveryRead = decode(request.body)?;
        let dead = question.log.server;
        if view.list.standing(dead) != Standing::Crashed && !self.fences.is_fenced(dead) {
            return Err(Status::NotAllowed);
        }
        let step = &mut self.device.step(now, effects);
        let mut lent = Lent { replicas: &mut self.replicas, works: &mut self.works, step };
        self.divisions.ask(&question, request.asker(), &mut lent)
    }

    fn try_recovery_work(
        &self,
        now: Instant,
        request: &Request<'_>,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_sender(request.header, view)?;
        let question: RecoveryWork = decode(request.body)?;
        let worked = self.works.told(now, question.crashed, &self.replicas);
        reply_with(effects, Peer::Conn(request.from), request.header, Status::Ok, &worked);
        Ok(())
    }
}

/// Answers a request that was not taken.
fn refuse(taken: Result<(), Status>, request: &Request<'_>, effects: &mut Effects) {
    if let Err(status) = taken {
        reply(effects, Peer::Conn(request.from), request.header, status);
    }
}
