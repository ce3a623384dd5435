//! One coordinator process: it starts from its store, answers requests, and moves all work on.
//!
//! A coordinator that starts reads the term and raises it, and only then loads the state. From then on no earlier
//! coordinator can commit, so the loaded state is final. Every step takes one input, lets each part advance, and ends
//! by emptying the outbox.
//!
//! Invariants:
//! - before the state is loaded under this coordinator's own term, every request is answered with `NotReady`;
//! - a failed or refused commit ends the process, and the next start goes on from the store; a commit that finds no
//!   room is repeated (`full`).
//!
//! Catalogue: B1, G1, G3.

use crate::accept::Acceptance;
use crate::asked::Asked;
use crate::clock::Clock;
use crate::config::CoordinatorConfig;
use crate::confirmed::{Answer, Confirmation, Confirmed};
use crate::copies::Answered;
use crate::copies::Copies;
use crate::death::Affected;
use crate::desk::Desk;
use crate::full::{FullDisks, FullStore};
use crate::gone;
use crate::leases::Leases;
use crate::links::Links;
use crate::list::ListHistory;
use crate::losses;
use crate::migration;
use crate::progress::Progress;
use crate::read_leases::ReadLeases;
use crate::recoveries::Recoveries;
use crate::reign::{Ending, Reign, Stored};
use crate::seen::CoordinatorSeen;
use crate::state::State;
use crate::status;
use crate::status::Sight;
use crate::streams;
use crate::streams::Registration;
use crate::surroundings::Surroundings;
use crate::tables;
use crate::updates;
use crate::verify::Verification;
use crate::weighing::Weighings;
use crate::{copies, enlist};
use ramhold_base::time::earliest;
use ramhold_base::{
    ConnId, Effects, Input, Instant, Machine, Peer, ServerId, Status, StoreResult, StoreToken, Term,
};
use ramhold_wire::{Header, Kind, Opcode, decode, frame, reply};
use std::net::SocketAddr;
use std::time::Duration;

/// How often the parts are advanced in one step. One part may give another something to do; what is left is done in the
/// next step.
const ROUNDS_MAX: u32 = 8;
/// A process that did nothing for this long may have missed renewals of leases.
const LEASE_STALL: Duration = Duration::from_secs(1);
pub struct Coordinator {
    desk: Desk,
    reign: Reign,
    /// The deadline that this process had promised to keep at the end of the last step.
    promised: Option<Instant>,

    /// One per Up server.
    links: Links,
    copies: Copies,
    verification: Verification,
    full_disks: FullDisks,
    full_store: FullStore,
    progress: Progress,
    leases: Leases,
    read_leases: ReadLeases,
    confirmed: Confirmed,

    recoveries: Recoveries,
    /// Tables whose owners are being asked where the bytes lie, before a cut.
    weighings: Weighings,
    /// The statement of an operator who does not want to wait for some servers any more.
    acceptance: Acceptance,
}

impl Coordinator {
    pub fn new(config: CoordinatorConfig, seed: u64) -> Coordinator {
        let mut desk = Desk::new(config, seed);
        let reign = Reign::new(desk.rng.u64());
        Coordinator {
            desk,
            reign,
            promised: None,
            links: Links::default(),
            copies: Copies::default(),
            verification: Verification::default(),
            full_disks: FullDisks::default(),
            full_store: FullStore::default(),
            progress: Progress::default(),
            leases: Leases::default(),
            read_leases: ReadLeases::default(),
            confirmed: Confirmed::default(),
            recoveries: Recoveries::default(),
            weighings: Weighings::default(),
            acceptance: Acceptance::default(),
        }
    }

    /// The state as it is in memory; its last changes may not be durable yet.
    pub fn state(&self) -> &State {
        &self.desk.state
    }

    pub fn term(&self) -> Term {
        self.desk.term
    }

    pub fn is_active(&self) -> bool {
        self.reign.is_active()
    }

    /// Servers that are dead and, by this coordinator's clock, cannot answer reads any more, whether or not their
    /// tablets are served elsewhere yet.
    pub fn read_leases_over(&self, now: Instant) -> impl Iterator<Item = ServerId> {
        let over = self.recoveries.open.iter().filter(move |(_, recovery)| recovery.is_lease_over(now));
        over.filter_map(|(id, _)| self.desk.state.recoveries.get(id).map(|record| record.crashed))
    }

    /// The number of owners that have not heard of a table's division.
    pub fn divisions_under_way(&self) -> usize {
        self.progress.divisions_under_way()
    }

    /// The number of owners that have tablets to move.
    pub fn migrations_under_way(&self) -> usize {
        migration::migrations_under_way(&self.desk.state)
    }

    /// Whether every server that is to hold a copy of the state has one that knows all holders.
    pub fn is_copied(&self) -> bool {
        self.copies.is_copied(&self.links)
    }

    /// For tests of what servers make of the clock.
    #[doc(hidden)]
    pub fn clock(&self) -> &Clock {
        &self.desk.clock
    }

    /// A snapshot for an observer in another thread.
    pub fn seen(&self, now: Instant) -> CoordinatorSeen {
        self.sight().seen(now, self.reign.why_not_active())
    }

    /// Warnings for operators. Each says what is wrong and, after the first semicolon, what to do.
    pub fn warnings(&self, now: Instant) -> Vec<String> {
        self.sight().warnings(now)
    }

    fn sight(&self) -> Sight<'_> {
        Sight {
            desk: &self.desk,
            links: &self.links,
            copies: &self.copies,
            verification: &self.verification,
            full_disks: &self.full_disks,
            full_store: &self.full_store,
            progress: &self.progress,
            recoveries: &self.recoveries,
        }
    }

    // The store.

    fn on_store(&mut self, now: Instant, token: StoreToken, result: StoreResult) {
        let result = match result {
            StoreResult::Failed(reason) => {
                return self.end(Ending::Store(format!("the store has failed: {reason}")));
            }
            StoreResult::NoRoom { request, reason } => {
                return self.full_store.on_full(now, &mut self.desk, (token, request), reason);
            }
            StoreResult::Committed => {
                self.full_store.has_room(now, &mut self.desk);
                StoreResult::Committed
            }
            StoreResult::Found(_) | StoreResult::Conflict { .. } | StoreResult::Changed { .. } => result,
        };
        match self.reign.on_store(now, &mut self.desk, token, result) {
            Stored::Taken => {}
            Stored::Loaded(records) => self.resume(now, &records),
            Stored::InReign(StoreResult::Committed) => {
                if let Some(puts) = self.desk.outbox.committed(token) {
                    self.copies.note_commit(puts);
                }
            }
            Stored::InReign(StoreResult::Conflict { .. }) => {
                self.deposed("another coordinator has taken over")
            }
            Stored::InReign(StoreResult::Found(found)) => self.on_term_confirmed(now, token, &found),
            Stored::InReign(
                StoreResult::Changed { .. } | StoreResult::NoRoom { .. } | StoreResult::Failed(_),
            ) => {}
        }
    }

    /// The state is loaded from these records: each part finds out what is to be done.
    fn resume(&mut self, now: Instant, records: &[(String, Vec<u8>)]) {
        let desk = &mut self.desk;
        self.copies.resume(desk, records);
        self.leases.resume(now, desk);
        self.read_leases.resume(now);
        self.recoveries.resume(now, desk, &mut self.read_leases);
        self.recoveries.watches.resume(now, desk);
        self.progress.resume(desk);
        self.progress.resume_divisions(desk);
        self.progress.resume_migrations(desk);
        gone::resume_gone(desk);
        let up: Vec<ServerId> = desk.state.all_up().map(|s| s.entry.id).collect();
        desk.list = ListHistory::new(desk.state.meta.list_version);
        self.links.resume(now, desk, &up);
        self.verification.resume(now, desk, &up);
    }

    fn deposed(&mut self, why: &str) {
        self.end(Ending::Deposed(why.into()));
    }

    fn end(&mut self, ending: Ending) {
        self.reign.end(&mut self.desk, ending);
    }

    /// The store has told which term it has; answers that waited for that may be given.
    fn on_term_confirmed(&mut self, now: Instant, token: StoreToken, found: &[(String, u64, Vec<u8>)]) {
        match self.confirmed.on_term(&self.desk, token, found) {
            Confirmation::None => {}
            Confirmation::Deposed => self.deposed("another coordinator has taken over"),
            Confirmation::Confirmed(answers) => {
                for (server, to, header, answer) in answers {
                    match answer {
                        Answer::ReadLease => self.read_leases.grant(now, &mut self.desk, server, to, &header),
                        Answer::Leases(checked) => self.desk.outbox.reply_with(to, &header, &checked),
                    }
                }
                self.confirmed.ask(&mut self.desk);
            }
        }
    }

    // Frames.

    fn on_frame(&mut self, now: Instant, from: ConnId, bytes: &[u8], effects: &mut Effects) {
        let (header, body) = match frame::parse(bytes) {
            Ok(parsed) => parsed,
            Err(bad) => return ramhold_wire::refuse_malformed(effects, from, bad),
        };
        match header.kind {
            Kind::Reply if self.is_active() => self.on_reply(now, &header, body),
            Kind::Reply => self.reign.on_early_reply(&mut self.desk, &header, body),
            Kind::Request if self.is_active() => self.on_request(now, &header, body, from),
            Kind::Request => {
                self.reign.on_early_request(&mut self.desk, &header, body);
                reply(effects, Peer::Conn(from), &header, Status::NotReady);
            }
        }
    }

    fn on_request(&mut self, now: Instant, header: &Header, body: &[u8], from: ConnId) {
        if let Err(status) = self.answer_request(now, header, body, from) {
            self.desk.outbox.reply(Peer::Conn(from), header, status);
        }
    }

    fn answer_request(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) -> Result<(), Status> {
        let to = Peer::Conn(from);
        let opcode = header.opcode().ok_or(Status::UnknownOpcode)?;
        if opcode == Opcode::MembershipVerify {
            copies::look_at_stranger(now, &mut self.desk, header, body);
        }
        self.check_sender(opcode, header)?;
        self.links.note_told(header.sender);
        let Coordinator { desk, leases, progress, recoveries, .. } = &mut *self;
        match opcode {
            Opcode::Ping => status::answer_ping(now, &mut self.desk, to, header),
            Opcode::ProcessStatus => status::answer_process_status(now, &mut self.desk, to, header),
            Opcode::ClusterStatus => self.answer_cluster_status(now, to, header),
            Opcode::Recoveries => {
                let recoveries = self.sight().all_recoveries();
                self.desk.outbox.show(to, header, &recoveries);
                Ok(())
            }
            Opcode::LeaseOpen => self.leases.on_lease_open(now, &mut self.desk, to, header, &decode(body)?),
            Opcode::LeaseRenew => self.leases.on_lease_renew(now, &mut self.desk, to, header, &decode(body)?),
            Opcode::LeaseCheck => self.leases.answer_lease_check(
                now,
                &mut self.desk,
                &mut self.confirmed,
                to,
                header,
                &decode(body)?,
            ),
            Opcode::ReadLease => {
                self.read_leases.on_read_lease(now, &mut self.desk, &mut self.confirmed, to, header)
            }
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
                &mut self.desk,
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
                self.acceptance.on_loss_accept(
                    now,
                    &mut self.desk,
                    around,
                    &self.recoveries,
                    from,
                    header,
                    message,
                )
            }
            Opcode::TableList => tables::answer_table_list(&mut self.desk, to, header),
            Opcode::TableDescribe => {
                tables::answer_table_describe(&mut self.desk, to, header, &decode(body)?)
            }
            Opcode::Enlist => {
                let message = decode(body)?;
                let (desk, verification, mut affected) = self.verifying();
                enlist::on_enlist(now, desk, verification, &mut affected, to, header, message)
            }
            Opcode::SuspectServer => {
                self.verification.on_suspect_server(now, &mut self.desk, to, header, &decode(body)?)
            }
            Opcode::MembershipVerify => {
                self.full_disks.on_membership_verify(now, &mut self.desk, to, header, decode(body)?)
            }
            Opcode::StreamRegister => {
                match streams::on_stream_register(&mut self.desk, to, header, &decode(body)?)? {
                    Registration::New => self.progress.want_migrated_from(&mut self.desk, header.sender),
                    Registration::Known => {}
                }
                Ok(())
            }
            Opcode::HeadRecord => streams::on_head_record(&mut self.desk, to, header, &decode(body)?),
            Opcode::CeilingRaise => streams::on_ceiling_raise(&mut self.desk, to, header, &decode(body)?),
            Opcode::Recovered => self.recoveries.on_recovered(now, &mut self.desk, to, header, decode(body)?),
            Opcode::TabletMigrated => {
                self.progress.on_migrated(&mut self.desk, &mut self.recoveries, to, header, &decode(body)?)
            }
            Opcode::Settled => self.recoveries.on_settled(now, &mut self.desk, to, header, &decode(body)?),
            Opcode::StateRead => self.copies.on_state_read(&mut self.desk, to, header, &decode(body)?),
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

    fn answer_cluster_status(&mut self, now: Instant, to: Peer, header: &Header) -> Result<(), Status> {
        let time = self.desk.time(now);
        let status = self.sight().cluster_status(now, time);
        if self.full_store.is_full() {
            self.desk.outbox.reply_at_once(to, header, &status);
        } else {
            self.desk.outbox.show(to, header, &status);
        }
        Ok(())
    }

    /// Whether the sender may ask this at all. Pings are answered to everybody, and a server that enlists has no id
    /// yet.
    fn check_sender(&self, opcode: Opcode, header: &Header) -> Result<(), Status> {
        let cluster = self.desk.state.meta.cluster;
        if !header.cluster.is_none() && header.cluster != cluster {
            return Err(Status::WrongCluster);
        }
        if header.term > self.desk.term {
            return Err(Status::NotCoordinator);
        }
        if header.sender.is_none() || matches!(opcode, Opcode::Ping | Opcode::Enlist) {
            return Ok(());
        }
        if header.cluster.is_none() {
            return Err(Status::WrongCluster);
        }
        if header.sender > self.desk.state.meta.servers {
            return Err(Status::NotInCluster);
        }
        if self.desk.state.is_up(header.sender) { Ok(()) } else { Err(Status::Fenced) }
    }

    fn on_reply(&mut self, now: Instant, header: &Header, body: &[u8]) {
        let Some(call) = self.desk.calls.answered(header.rpc) else { return };
        let status = header.status();
        if status == Status::StaleTerm {
            return self.deposed(
                "a server follows a newer coordinator; if no other one runs, this directory is an old copy: make the state \
                 anew from the servers with 'ramhold coordinator --dir EMPTY --rebuild-from-servers'",
            );
        }
        match call.context {
            Asked::Push(server) if status == Status::WrongServer => self.suspect_wrong(now, server),
            Asked::Push(server) => self.links.on_pushed(now, &mut self.desk, server, status, body),
            Asked::Ping { server, named } => {
                let (desk, verification, mut affected) = self.verifying();
                verification.on_pong(now, desk, &mut affected, (server, named), status, body);
            }
            Asked::Verify { server, named } => {
                let (desk, verification, mut affected) = self.verifying();
                verification.on_verified(now, desk, &mut affected, (server, named), status, body);
            }
            Asked::Take { table, first, last, server } => {
                self.progress.on_taken(&mut self.desk, table, (first, last), server, status, body)
            }
            Asked::Drop { table, server } => self.progress.on_dropped(table, server, status),
            Asked::Divide { table, division, server } => {
                self.progress.on_divided(&mut self.desk, table, division, server, status)
            }
            Asked::Migrate { table, server } => {
                migration::on_migrate_heard(&mut self.desk, table, server, status)
            }
            Asked::Fence { recovery, server } => {
                self.recoveries.on_fenced(now, &mut self.desk, recovery, server, status, body)
            }
            Asked::Reach(server) => self.acceptance.on_reached(server, status, body),
            Asked::Away(server) => self.acceptance.on_away_pong(server, body),
            Asked::Copy(server) => {
                match self.copies.on_copied(&mut self.desk, &mut self.links, server, status, body) {
                    Answered::Taken => {}
                    Answered::WrongServer => self.suspect_wrong(now, server),
                    Answered::Outdated(reason) => self.end(Ending::Outdated(reason)),
                }
            }
            Asked::Tell(server) => {
                if let Some(reason) = self.copies.on_stranger_told(&self.desk, server, body) {
                    self.end(Ending::Outdated(reason));
                }
            }
            Asked::Part(_) => {}
            Asked::Room(server) => self.recoveries.on_room(now, &mut self.desk, server, status, body),
            Asked::Weights { table, server } => self.weighings.on_weighed(table, server, status, body),
            Asked::Work { recovery, server } => {
                self.recoveries.watches.on_worked(now, &mut self.desk, recovery, server, status, body)
            }
            Asked::Recover { recovery, plan, partition, attempt, server } => {
                self.recoveries.on_recover_answered(
                    now,
                    &mut self.desk,
                    recovery,
                    (plan, partition, attempt),
                    server,
                    status,
                );
            }
        }
    }

    /// An address has answered for another server than the one that was meant.
    fn suspect_wrong(&mut self, now: Instant, id: ServerId) {
        let cause = "its address answers for another server";
        self.verification.suspect(now, &self.desk, id, cause.into());
    }

    fn on_overdue(&mut self, now: Instant) {
        while let Some(call) = self.desk.calls.overdue(now) {
            match call.context {
                Asked::Ping { server, .. } => self.verification.on_ping_overdue(now, &self.desk, server),
                // All other calls are repeated by the part that wants the answer.
                Asked::Verify { .. }
                | Asked::Push(_)
                | Asked::Take { .. }
                | Asked::Drop { .. }
                | Asked::Divide { .. }
                | Asked::Migrate { .. }
                | Asked::Fence { .. }
                | Asked::Reach(_)
                | Asked::Away(_)
                | Asked::Room(_)
                | Asked::Copy(_)
                | Asked::Tell(_)
                | Asked::Part(_)
                | Asked::Weights { .. }
                | Asked::Work { .. }
                | Asked::Recover { .. } => {}
            }
        }
    }

    fn on_lost(&mut self, now: Instant, addr: SocketAddr, how: ramhold_base::Lost) {
        let calls = self.desk.calls.lost(addr);
        for call in calls {
            if let Asked::Verify { server, .. } = call.context {
                let (desk, verification, mut affected) = self.verifying();
                verification.on_verify_lost(now, desk, &mut affected, server, how);
            }
        }
        if self.is_active() {
            self.verification.on_connection_lost(now, &self.desk, addr, how);
        }
    }

    fn advance(&mut self, now: Instant) {
        self.leases.advance(now, &mut self.desk);
        let (desk, verification, mut affected) = self.verifying();
        verification.advance(now, desk, &mut affected);
        self.acceptance.advance(now, &mut self.desk, &mut self.recoveries);
        self.advance_recoveries(now);
        self.recoveries.watches.advance(now, &mut self.desk, &self.recoveries.open);
        self.weighings.advance(now, &mut self.desk, &mut self.leases, &mut self.progress);
        self.progress.advance(now, &mut self.desk, &self.recoveries);
        self.links.advance(now, &mut self.desk);
        self.copies.advance(now, &mut self.desk, &mut self.links);
    }

    fn advance_recoveries(&mut self, now: Instant) {
        let around = surroundings(&self.links, &self.progress, &self.verification);
        for table in self.recoveries.advance(now, &mut self.desk, around) {
            self.progress.want_tablets(&mut self.desk, table);
        }
    }

    /// What is lent to the verification: the desk, and the parts that a server's death concerns.
    fn verifying(&mut self) -> (&mut Desk, &mut Verification, Affected<'_>) {
        let affected = Affected {
            links: &mut self.links,
            read_leases: &mut self.read_leases,
            recoveries: &mut self.recoveries,
            progress: &mut self.progress,
        };
        (&mut self.desk, &mut self.verification, affected)
    }

    fn check_invariants(&self) {
        assert!(
            self.links.count() == self.desk.state.all_up().count(),
            "every Up server has a link, nobody else"
        );
        assert!(
            self.verification.suspects.keys().all(|s| self.links.get(*s).is_some()),
            "only Up servers are suspects"
        );
        let open = self.desk.state.recoveries.values().filter(|r| !r.done);
        let is_at_work = |id| self.recoveries.open.contains_key(id);
        assert!(open.map(|r| &r.id).all(is_at_work), "every open recovery is at work");
        let is_kept = |id: ServerId| self.desk.state.servers.get(&id).is_some_and(|s| s.entry.kept);
        let mut working = self.recoveries.open.keys().filter_map(|id| self.desk.state.recoveries.get(id));
        assert!(working.all(|r| !r.done || is_kept(r.crashed)), "what is over is at work for others alone");
    }
}

/// The other parts as recoveries look at them.
fn surroundings<'a>(
    links: &'a Links,
    progress: &'a Progress,
    verification: &Verification,
) -> Surroundings<'a> {
    Surroundings { links, drops: &progress.dropping, is_starting: verification.is_starting() }
}

impl Machine for Coordinator {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        if self.reign.has_ended() {
            return;
        }
        let late = self.promised.map_or(Duration::ZERO, |at| now.since(at));
        if late > self.desk.config.ping_timeout / 2 {
            self.verification.on_stall(now);
        }
        if late > LEASE_STALL {
            self.leases.resume(now, &self.desk);
        }
        match input {
            Input::Start { wall_millis } => self.reign.on_start(now, &mut self.desk, wall_millis),
            Input::Tick => {}
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, effects),
            Input::Lost { addr, how } => self.on_lost(now, addr, how),
            Input::Closed { conn } => self.progress.forget(conn),
            Input::Disk { .. } | Input::Met { .. } | Input::Bytes { .. } => {}
            Input::Store { token, result } => self.on_store(now, token, result),
            Input::Stop => self.reign.stop(),
        }
        if self.is_active() {
            self.on_overdue(now);
        }
        if self.is_active() {
            // One part may give another something to do. Work that is left after `ROUNDS_MAX` rounds is done in the
            // next step.
            for _ in 0..ROUNDS_MAX {
                self.advance(now);
                if self.deadline().is_none_or(|at| at > now) {
                    break;
                }
            }
            self.check_invariants();
        }
        self.reign.advance(now, &mut self.desk);
        self.full_store.advance(now, &mut self.desk);
        if !self.reign.has_ended() {
            let copied = self.copies.released(&self.links);
            self.desk.note_time_stored(copied.min(self.desk.outbox.stored_state()));
            self.desk.outbox.flush(&self.desk.state, copied, effects);
        }
        // A change that is not stored was told to nobody.
        let may_stop = self.desk.outbox.is_settled() || self.full_store.is_full();
        if self.reign.is_stopping() && may_stop {
            self.end(Ending::Stopped);
        }
        if self.reign.has_ended() {
            self.desk.outbox.last_words(effects);
        }
        self.promised = self.deadline().map(|at| at.max(now));
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.is_active() {
            return self.reign.wake().into_iter().chain(self.full_store.wake()).min();
        }
        let wakes = [
            self.copies.wake(&self.links),
            self.links.wake(&self.desk),
            self.verification.wake(&self.desk, &self.links),
            self.progress.wake(&self.desk),
            self.recoveries.wake(&self.desk),
            self.recoveries.watches.wake(),
            self.weighings.wake(),
            self.acceptance.wake(),
            self.leases.wake(),
        ];
        wakes
            .into_iter()
            .filter(|at| *at != Instant::FAR)
            .chain(self.full_store.wake())
            .fold(self.desk.calls.deadline(), |a, b| earliest(a, Some(b)))
    }
}
