//! The turn of one connection: what beginning one of its requests works on.

use super::queue::Queue;
use super::running::{Running, Work};
use crate::front::access::Access;
use crate::front::clients::client::Client;
use crate::front::clients::list::Clients;
use crate::front::execution::transact::Around;
use crate::front::host::Host;
use crate::front::request::{Args, CommandId, Request};
use crate::front::step::Step;
use crate::{Command, Fault, Protocol, Reply};
use ramhold_base::ConnId;
use ramhold_base::hash::PlacementHasher;
use ramhold_base::planted::{Defect, planted};

pub struct Turn<'a> {
    pub conn: ConnId,
    pub queue: &'a mut Queue,
    /// Replies that go out at the end of the turn.
    pub out: &'a mut Vec<u8>,
    pub hasher: &'a PlacementHasher,
    pub clients: &'a mut Clients,
    pub access: &'a mut Access,
}

impl Turn<'_> {
    pub fn client(&mut self) -> &mut Client {
        self.clients.get_mut(self.conn).expect("a connection has a client as long as it has a line")
    }

    pub fn next_command(&mut self) -> CommandId {
        self.access.direct.next_command(self.conn)
    }

    /// Puts a reply that is there at once straight among those that go out, or behind replies that are still
    /// awaited.
    pub fn reply<H>(&mut self, step: &Step<'_, H>, reply: Vec<u8>) {
        if self.queue.is_empty() || planted(Defect::RespReplyOvertakes) {
            self.out.extend_from_slice(&reply);
        } else {
            let id = self.next_command();
            self.queue.push(Running::done(id, step.now, reply));
        }
    }

    pub fn fault<H>(&mut self, step: &Step<'_, H>, protocol: Protocol, fault: &Fault) {
        let mut reply = Vec::new();
        Reply::new(&mut reply, protocol).fault(fault);
        self.reply(step, reply);
    }

    /// Enters a command whose reply comes later. Nothing of the connection runs beside it.
    pub fn enter<H>(
        &mut self,
        step: &Step<'_, H>,
        id: CommandId,
        (row, args): (&'static Command, &[&[u8]]),
        work: Work,
    ) {
        let db = self.client().db;
        let request = Request { id, row, args: Args::of(args), db, started: step.now };
        self.queue.push(Running::alone(request, work));
    }

    /// Advances a command that is a transaction and has not been entered yet, as far as possible.
    pub fn advance(&mut self, step: &mut Step<'_, impl Host>, running: &mut Running) {
        let Work::Transact(transact) = &mut running.work else { return };
        let around = Around { access: self.access, clients: self.clients };
        if transact.advance(step, around, &running.request, &mut running.reply) {
            running.work = Work::Done;
        }
    }
}
