//! Requests of servers, clients and operators: which part answers which, and who may ask.
//!
//! Invariant: a server that is declared dead is answered nothing but that.
//!
//! Catalogue: B1.

use crate::accounts::remove_accounts;
use crate::desk::Desk;
use crate::parts::{Parts, surroundings};
use crate::roster::shown_accounts;
use crate::streams::{self, Registration};
use crate::{
    copies, enlist, forgetting, gone, losses, quorum_tables, reclassing, replacing, scaling, status, tables,
    updates,
};
use ramhold_base::{ConnId, Instant, Peer, Status};
use ramhold_wire::table::{TableCreate, TableDrop, TableTruncate};
use ramhold_wire::{Addressee, ForCoordinator, ForProcess, Gate, Header, Opcode, decode};

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
        if let Addressee::ForBrick(_) | Addressee::ForSupervisor(_) = opcode.addressee() {
            // A brick takes this process for a sibling. It is no server, and not declared dead.
            return Err(Status::UnknownOpcode);
        }
        check_sender(desk, opcode, header)?;
        self.links.note_told(header.sender);
        match opcode.addressee() {
            Addressee::ForProcess(ForProcess::Ping) => status::answer_ping(now, desk, to, header),
            Addressee::ForProcess(ForProcess::ProcessStatus) => {
                status::answer_process_status(now, desk, to, header)
            }
            Addressee::ForProcess(ForProcess::StateRead) => {
                self.copies.on_state_read(desk, to, header, &decode(body)?)
            }
            Addressee::ForCoordinator(request) => {
                self.answer_own_request(now, desk, request, header, body, from)
            }
            Addressee::ForSender(_)
            | Addressee::ForObject(_)
            | Addressee::ForMaster(_)
            | Addressee::ForBackup(_)
            | Addressee::ForBrick(_)
            | Addressee::ForSupervisor(_)
            | Addressee::ForServer(_) => Err(Status::UnknownOpcode),
        }
    }

    /// A request that only the coordinator answers.
    fn answer_own_request(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        request: ForCoordinator,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) -> Result<(), Status> {
        let to = Peer::Conn(from);
        let Parts { leases, progress, recoveries, bricks, accounts, .. } = &mut *self;
        match request {
            ForCoordinator::ClusterStatus => self.answer_cluster_status(now, desk, to, header),
            ForCoordinator::Recoveries => {
                let recoveries = self.sight(desk).all_recoveries();
                desk.outbox.show(to, header, &recoveries);
                Ok(())
            }
            ForCoordinator::LeaseOpen => self.leases.on_lease_open(now, desk, to, header, &decode(body)?),
            ForCoordinator::LeaseRenew => self.leases.on_lease_renew(now, desk, to, header, &decode(body)?),
            ForCoordinator::LeaseCheck => {
                self.leases.answer_lease_check(now, desk, &mut self.confirmed, to, header, &decode(body)?)
            }
            ForCoordinator::ReadLease => {
                self.read_leases.on_read_lease(now, desk, &mut self.confirmed, to, header)
            }
            ForCoordinator::TableCreate => {
                let message: TableCreate = decode(body)?;
                let quorum = message.options.quorum;
                let is_new = quorum.is_some() && updates::is_first(desk, header);
                if is_new && quorum_tables::is_too_early(now, desk, bricks) {
                    return Err(Status::NotReady);
                }
                updates::on_update(desk, leases, progress, from, header, |desk, progress| match quorum {
                    Some(quorum) => {
                        quorum_tables::create_quorum_table(now, desk, progress, bricks, &message, quorum)
                    }
                    None => tables::create_table(desk, progress, &message),
                })
            }
            ForCoordinator::TableDrop => {
                let message: TableDrop = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    if desk.state.quorum_tables.contains_key(&message.table) {
                        quorum_tables::drop_quorum_table(desk, progress, bricks, &message)
                    } else {
                        tables::drop_table(desk, progress, recoveries, &message)
                    }
                })
            }
            ForCoordinator::TableTruncate => {
                let message: TableTruncate = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    if desk.state.quorum_tables.contains_key(&message.table) {
                        quorum_tables::truncate_quorum_table(desk, progress, bricks, &message)
                    } else {
                        tables::truncate_table(desk, progress, recoveries, &message)
                    }
                })
            }
            ForCoordinator::TableDivide => self.weighings.on_table_divide(
                now,
                desk,
                &mut self.leases,
                &mut self.progress,
                from,
                header,
                decode(body)?,
            ),
            ForCoordinator::TableAlter => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    reclassing::alter_table(desk, progress, &message)
                })
            }
            ForCoordinator::LossAcknowledge => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, _| {
                    losses::acknowledge_loss(desk, &message)
                })
            }
            ForCoordinator::ServerForget => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, _| {
                    gone::forget_server(desk, &message)
                })
            }
            ForCoordinator::BrickReplace => {
                let message = decode(body)?;
                if updates::is_first(desk, header) && quorum_tables::is_too_early(now, desk, bricks) {
                    return Err(Status::NotReady);
                }
                updates::on_update(desk, leases, progress, from, header, |desk, _| {
                    replacing::replace_brick(now, desk, bricks, &message)
                })
            }
            ForCoordinator::BrickForget => {
                let message = decode(body)?;
                if updates::is_first(desk, header) && quorum_tables::is_too_early(now, desk, bricks) {
                    return Err(Status::NotReady);
                }
                updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                    forgetting::forget_brick(now, desk, progress, bricks, &message)
                })
            }
            ForCoordinator::BrickScale => {
                let message = decode(body)?;
                if updates::is_first(desk, header) && quorum_tables::is_too_early(now, desk, bricks) {
                    return Err(Status::NotReady);
                }
                updates::on_update(desk, leases, progress, from, header, |desk, _| {
                    Ok(scaling::order(now, desk, bricks, &message))
                })
            }
            ForCoordinator::LossAccept => {
                let message = decode(body)?;
                let around = surroundings(&self.links, &self.progress, &self.verification);
                self.acceptance.on_loss_accept(now, desk, around, &self.recoveries, from, header, message)
            }
            ForCoordinator::AccountList => {
                desk.outbox.show(to, header, &shown_accounts(&desk.state));
                Ok(())
            }
            ForCoordinator::AccountSet => {
                accounts.on_account_set(desk, leases, progress, from, header, decode(body)?)
            }
            ForCoordinator::AccountRemove => {
                let message = decode(body)?;
                updates::on_update(desk, leases, progress, from, header, |desk, _| {
                    Ok(remove_accounts(desk, &message))
                })
            }
            ForCoordinator::TableList => tables::answer_table_list(desk, to, header),
            ForCoordinator::TableDescribe => tables::answer_table_describe(desk, to, header, &decode(body)?),
            ForCoordinator::BrickHello => self.bricks.on_hello(now, desk, to, header, &decode(body)?),
            ForCoordinator::Enlist => {
                let message = decode(body)?;
                let (verification, mut affected) = self.verifying();
                enlist::on_enlist(now, desk, verification, &mut affected, to, header, message)
            }
            ForCoordinator::SuspectServer => {
                self.verification.on_suspect_server(now, desk, to, header, &decode(body)?)
            }
            ForCoordinator::NeighbourReport => {
                let Parts { neighbours, verification, links, .. } = &mut *self;
                neighbours.on_report(now, desk, (verification, links), to, header, decode(body)?)
            }
            ForCoordinator::MembershipVerify => {
                self.full_disks.on_membership_verify(now, desk, to, header, decode(body)?)
            }
            ForCoordinator::StreamRegister => {
                match streams::on_stream_register(desk, to, header, &decode(body)?)? {
                    Registration::New => self.progress.want_reclassed_from(desk, header.sender),
                    Registration::Known => {}
                }
                Ok(())
            }
            ForCoordinator::HeadRecord => streams::on_head_record(desk, to, header, &decode(body)?),
            ForCoordinator::CeilingRaise => streams::on_ceiling_raise(desk, to, header, &decode(body)?),
            ForCoordinator::Recovered => self.recoveries.on_recovered(now, desk, to, header, decode(body)?),
            ForCoordinator::TabletReclassed => {
                self.progress.on_reclassed(desk, &mut self.recoveries, to, header, &decode(body)?)
            }
            ForCoordinator::Settled => self.recoveries.on_settled(now, desk, to, header, &decode(body)?),
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
    let is_for_strangers = opcode == Opcode::Ping || opcode.gate() == Gate::LeaderOfStrangers;
    if header.sender.is_none() || is_for_strangers {
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
