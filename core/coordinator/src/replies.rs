//! Answers of servers, answers that did not come, and lost connections: which part each is for.

use crate::asked::Asked;
use crate::copies::Answered;
use crate::desk::Desk;
use crate::parts::Parts;
use crate::reclassing;
use crate::reign::Ending;
use ramhold_base::{Instant, Lost, ServerId, Status};
use ramhold_wire::Header;
use std::net::SocketAddr;

impl Parts {
    /// A server has answered. If that ends the reign, returns why.
    pub fn on_reply(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        header: &Header,
        body: &[u8],
    ) -> Option<Ending> {
        let call = desk.calls.answered(header.rpc)?;
        let status = header.status();
        if status == Status::StaleTerm {
            let why = "a server follows a newer coordinator; if no other one runs, this directory is an old copy: make the state \
                 anew from the servers with 'ramhold coordinator --dir EMPTY --rebuild-from-servers'";
            return Some(Ending::Deposed(why.into()));
        }
        match call.context {
            Asked::Push(server) if status == Status::WrongServer => self.suspect_wrong(now, desk, server),
            Asked::Push(server) => self.links.on_pushed(now, desk, server, status, body),
            Asked::Ping { server, named } => {
                let (verification, mut affected) = self.verifying();
                verification.on_pong(now, desk, &mut affected, (server, named), status, body);
            }
            Asked::Verify { server, named } => {
                let (verification, mut affected) = self.verifying();
                verification.on_verified(now, desk, &mut affected, (server, named), status, body);
            }
            Asked::Take { table, first, last, server } => {
                self.progress.on_taken(desk, table, (first, last), server, status, body)
            }
            Asked::Drop { table, server } => self.progress.on_dropped(table, server, status),
            Asked::Divide { table, division, server } => {
                self.progress.on_divided(desk, table, division, server, status)
            }
            Asked::Reclass { table, server } => reclassing::on_reclass_heard(desk, table, server, status),
            Asked::Fence { recovery, server } => {
                self.recoveries.on_fenced(now, desk, recovery, server, status, body)
            }
            Asked::Reach(server) => self.acceptance.on_reached(server, status, body),
            Asked::Away(server) => self.acceptance.on_away_pong(server, body),
            Asked::Copy(server) => match self.copies.on_copied(desk, &mut self.links, server, status, body) {
                Answered::Taken => {}
                Answered::WrongServer => self.suspect_wrong(now, desk, server),
                Answered::Outdated(reason) => return Some(Ending::Outdated(reason)),
            },
            Asked::Tell(server) => {
                return self.copies.on_stranger_told(desk, server, body).map(Ending::Outdated);
            }
            Asked::Part(_) => {}
            Asked::Room(server) => self.recoveries.on_room(now, desk, server, status, body),
            Asked::Weights { table, server } => self.weighings.on_weighed(table, server, status, body),
            Asked::Work { recovery, server } => {
                self.recoveries.watches.on_worked(now, desk, recovery, server, status, body)
            }
            Asked::Recover { recovery, plan, partition, attempt, server } => {
                self.recoveries.on_recover_answered(
                    now,
                    desk,
                    recovery,
                    (plan, partition, attempt),
                    server,
                    status,
                );
            }
        }
        None
    }

    /// An address has answered for another server than the one that was meant.
    fn suspect_wrong(&mut self, now: Instant, desk: &Desk, id: ServerId) {
        let cause = "its address answers for another server";
        self.verification.suspect(now, desk, id, cause.into());
    }

    /// Looks at calls that were not answered in time.
    pub fn on_overdue(&mut self, now: Instant, desk: &mut Desk) {
        while let Some(call) = desk.calls.overdue(now) {
            match call.context {
                Asked::Ping { server, .. } => self.verification.on_ping_overdue(now, desk, server),
                // All other calls are repeated by the part that wants the answer.
                Asked::Verify { .. }
                | Asked::Push(_)
                | Asked::Take { .. }
                | Asked::Drop { .. }
                | Asked::Divide { .. }
                | Asked::Reclass { .. }
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

    /// A connection is lost, and with it the calls that were sent over it.
    pub fn on_lost(&mut self, now: Instant, desk: &mut Desk, addr: SocketAddr, how: Lost) {
        let calls = desk.calls.lost(addr);
        for call in calls {
            if let Asked::Verify { server, .. } = call.context {
                let (verification, mut affected) = self.verifying();
                verification.on_verify_lost(now, desk, &mut affected, server, how);
            }
        }
    }
}
