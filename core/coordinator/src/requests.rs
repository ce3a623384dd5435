//! Requests of servers, clients and operators: which part answers which, and who may ask.
//!
//! Invariant: a server that is declared dead is answered nothing but that.
//!
//! Catalogue: B1.

use crate::desk::Desk;
use crate::parts::{Parts, surroundings};
use crate::streams::{self, Registration};
use crate::{copies, enlist, gone, losses, migration, status, tables, updates};
use ramhold_base::{ConnId, Instant, Peer, Status};
use ramhold_wire::{Header, Opcode, decode};

impl Parts {
    pub fn on_request(&mut self, now: Instant, desk: &mut Desk, header: &Header, body: &[u8], from: ConnId) {
        if let Err(status) = self.answer_request(now, desk, header, body, from) {
            desk.outbox.reply(Peer::Conn(from), header, status);
        }
    }

    fn answer_request(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) -> Result<(), Status> {
        let to = Peer::Conn(from);
        let opcode = header.opcode().ok_or(Status::UnknownOpcode)?;
        if opcode == Opcode::MembershipVerify {
            copies::look_at_stranger(now, desk, header, body);
        }
        check_sender(desk, opcode, header)?;
        self.links.note_told(header.sender);
        let Parts { leases, progress, recoveries, .. } = &mut *self;
        match opcode {
            Opcode::Ping => status::answer_ping(now, desk, to, header),
            Opcode::ProcessStatus => status::answer_process_status(now, desk, to, header),
            Opcode::ClusterStatus => self.answer_cluster_status(now, desk, to, header),
            Opcode::Recoveries => {
                let recoveries = self.sight(desk).all_recoveries();
                desk.outbox.show(to, header, &recoveries);
                Ok(())
            }
            Opcode::LeaseOpen => self.leases.on_lease_open(now, desk, to, header, &decode(body)?),
            Opcode::LeaseRenew => self.leases.on_lease_renew(now, desk, to, header, &decode(body)?),
            Opcode::LeaseCheck => {
                self.leases.answer_lease_check(now, desk, &mut self.confirmed, to, header, &decode(body)?)
            }
            Opcode::ReadLease => self.read_leases.on_read_lease(now, desk, &mut self.confirmed, to, header),
            Opcode::TableCreate => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    tables::create_table(desk, progress, &message)
                })
            }
            Opcode::TableDrop => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    tables::drop_table(desk, progress, recoveries, &message)
                })
            }
            Opcode::TableTruncate => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    tables::truncate_table(desk, progress, recoveries, &message)
                })
            }
            Opcode::TableDivide => self.weighings.on_table_divide(
                now,
                desk,
                &mut self.leases,
                &mut self.progress,
                from,
                header,
                decode(body)?,
            ),
            Opcode::TableAlter => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    migration::alter_table(desk, progress, &message)
                })
            }
            Opcode::LossAcknowledge => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, _| {
                    losses::acknowledge_loss(desk, &message)
                })
            }
            Opcode::ServerForget => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, _| {
                    gone::forget_server(desk, &message)
                })
            }
            Opcode::LossAccept => {
                let message = decode(body)?;
                let around = surroundings(&self.links, &self.progress, &self.verification);
                self.acceptance.on_loss_accept(now, desk, around, &self.recoveries, from, header, message)
            }
            Opcode::TableList => tables::answer_table_list(desk, to, header),
            Opcode::TableDescribe => tables::answer_table_describe(desk, to, header, &decode(body)?),
            Opcode::Enlist => {
                let message = decode(body)?;
                let (verification, mut affected) = self.verifying();
                enlist::on_enlist(now, desk, verification, &mut affected, to, header, message)
            }
            Opcode::SuspectServer => {
                self.verification.on_suspect_server(now, desk, to, header, &decode(body)?)
            }
            Opcode::MembershipVerify => {
                self.full_disks.on_membership_verify(now, desk, to, header, decode(body)?)
            }
            Opcode::StreamRegister => {
                match streams::on_stream_register(desk, to, header, &decode(body)?)? {
                    Registration::New => self.progress.want_migrated_from(desk, header.sender),
                    Registration::Known => {}
                }
                Ok(())
            }
            Opcode::HeadRecord => streams::on_head_record(desk, to, header, &decode(body)?),
            Opcode::CeilingRaise => streams::on_ceiling_raise(desk, to, header, &decode(body)?),
            Opcode::Recovered => self.recoveries.on_recovered(now, desk, to, header, decode(body)?),
            Opcode::TabletMigrated => {
                self.progress.on_migrated(desk, &mut self.recoveries, to, header, &decode(body)?)
            }
            Opcode::Settled => self.recoveries.on_settled(now, desk, to, header, &decode(body)?),
            Opcode::StateRead => self.copies.on_state_read(desk, to, header, &decode(body)?),
            Opcode::Malformed
            | Opcode::Read
            | Opcode::Write
            | Opcode::Remove
            | Opcode::Increment
            | Opcode::Multi
            | Opcode::Scan
            | Opcode::Commit
            | Opcode::Count
            | Opcode::Append
            | Opcode::ReplicaFree
            | Opcode::ReplicasNeeded
            | Opcode::ReplicaRead
            | Opcode::RecoveryRead
            | Opcode::Fence
            | Opcode::Recover
            | Opcode::ServerListUpdate
            | Opcode::TabletTake
            | Opcode::TabletDrop
            | Opcode::TabletDivide
            | Opcode::TabletMigrate
            | Opcode::Reach
            | Opcode::Room
            | Opcode::RecoveryWork
            | Opcode::TabletWeights
            | Opcode::StateCopy
            | Opcode::StateTell
            | Opcode::Publish
            | Opcode::Listeners
            | Opcode::LeaseMeet => Err(Status::UnknownOpcode),
        }
    }

    fn answer_cluster_status(
        &self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
    ) -> Result<(), Status> {
        let time = desk.time(now);
        let status = self.sight(desk).cluster_status(now, time);
        if self.full_store.is_full() {
            desk.outbox.reply_at_once(to, header, &status);
        } else {
            desk.outbox.show(to, header, &status);
        }
        Ok(())
    }
}

/// Whether the sender may ask this at all. Pings are answered to everybody, and a server that enlists has no id yet.
fn check_sender(desk: &Desk, opcode: Opcode, header: &Header) -> Result<(), Status> {
    let cluster = desk.state.meta.cluster;
    if !header.cluster.is_none() && header.cluster != cluster {
        return Err(Status::WrongCluster);
    }
    if header.term > desk.term {
        return Err(Status::NotCoordinator);
    }
    if header.sender.is_none() || matches!(opcode, Opcode::Ping | Opcode::Enlist) {
        return Ok(());
    }
    if header.cluster.is_none() {
        return Err(Status::WrongCluster);
    }
    if header.sender > desk.state.meta.servers {
        return Err(Status::NotInCluster);
    }
    if desk.state.is_up(header.sender) { Ok(()) } else { Err(Status::Fenced) }
}
