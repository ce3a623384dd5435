//! The turn of one connection: what beginning one of its requests works on.

use super::queue::Queue;
use super::running::{Running, Work};
use crate::front::access::Access;
use crate::front::clients::list::Clients;
use crate::front::execution::transact::Around;
use crate::front::host::Host;
use crate::front::request::CommandId;
use crate::front::step::Step;
use crate::{Fault, Protocol, Reply};
use ramhold_base::ConnId;
use ramhold_base::hash::PlacementHasher;
use ramhold_base::planted::{Defect, planted};

pub struct Turn<'a> {
    pub conn: ConnId,
    pub queue: &'a mut Queue,
    /// Replies that go out at the end of the turn.
    pub out: &'a mut Vec<u8>,
    pub hasher: &'a PlacementHasher,
    pub access: &'a mut Access,
}

impl Turn<'_> {
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

    /// Advances a command that is a transaction as far as possible, before it is entered.
    pub fn advance(
        &mut self,
        step: &mut Step<'_, impl Host>,
        clients: &mut Clients,
        Running { request, work, reply, .. }: &mut Running,
    ) {
        if let Work::Transact(transact) = work
            && transact.advance(step, Around { access: self.access, clients }, request, reply)
        {
            *work = Work::Done;
        }
    }

    /// Enters a command that has begun, unless its reply is there and can go out.
    pub fn enter(&mut self, running: Running) {
        if running.is_done() && self.queue.is_empty() {
            self.out.extend_from_slice(&running.reply);
        } else {
            self.queue.push(running);
        }
    }
}
