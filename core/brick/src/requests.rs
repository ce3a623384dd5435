//! Requests of sessions and siblings, as they come over the network.
//!
//! Not here: checks of cluster and target, which the process makes (core/node). Bytes: docs/formats/messages.md. Catalogue: I1.

use crate::Brick;
use crate::question::{Answered, Asker};
use crate::words::{answer_asked, answer_refused, ask_of};
use ramhold_base::{ConnId, Peer, Status};
use ramhold_wire::ask::AskRequest;
use ramhold_wire::{ForBrick, Header, Step, decode, reply};

impl Brick {
    pub fn on_request(
        &mut self,
        step: &mut Step<'_>,
        request: ForBrick,
        header: &Header,
        body: &[u8],
        conn: ConnId,
    ) {
        let asker = Asker { conn, rpc: header.rpc, brick: header.sender };
        let refused = match request {
            ForBrick::Ask => self.on_ask(step, body, asker).err(),
            ForBrick::Announce => decode(body).map(|announce| self.on_announce(step, &announce, asker)).err(),
            ForBrick::BrickPage => self.on_brick_page(step, body, asker).err(),
            ForBrick::TabletPage => decode(body).map(|ask| self.on_tablet_page(step, ask, asker)).err(),
        };
        if let Some(status) = refused {
            reply(step.effects, Peer::Conn(conn), header, status);
        }
    }

    fn on_ask(&mut self, step: &mut Step<'_>, body: &[u8], asker: Asker) -> Result<(), Status> {
        let AskRequest { table, key, what } = AskRequest::decode(body)?;
        if let Err(refusal) = self.ask(step, (table, key), ask_of(what), asker) {
            answer_refused(step, ramhold_wire::Opcode::Ask, asker, refusal);
        }
        Ok(())
    }

    /// Sends the answers that have become due.
    pub fn send_answers(&mut self, step: &mut Step<'_>) {
        let is_wanted = |answered: &Answered| answered.asker != Asker::NOBODY;
        for answered in std::mem::take(&mut self.answers).into_iter().filter(is_wanted) {
            answer_asked(step, &answered);
        }
    }
}
