//! Requests of sessions and siblings, as they come over the network.
//!
//! Not here: checks of cluster and target, which the process makes (core/node). Bytes: docs/formats/messages.md. Catalogue: I1.

use crate::Brick;
use crate::phase::Phase;
use crate::question::{Answered, Asker, Load, Refusal};
use crate::queues::Queued;
use crate::words::{answer_asked, answer_refused, answer_told, ask_of};
use ramhold_base::{ConnId, Peer, Status};
use ramhold_quorum::Class;
use ramhold_wire::ask::{AskRequest, AskWhat};
use ramhold_wire::brick_status::BrickEvents;
use ramhold_wire::restart::BrickProbe;
use ramhold_wire::{ForBrick, Header, Opcode, Step, decode, reply, reply_with};

impl Brick {
    pub fn on_request(
        &mut self,
        step: &mut Step<'_>,
        request: ForBrick,
        header: &Header,
        body: &[u8],
        conn: ConnId,
    ) {
        let (rpc, brick, came) = (header.rpc, header.sender, self.judging.measuring.came(step.now));
        let asker = Asker { conn, rpc, brick, came, ..Asker::NOBODY };
        let refused = match request {
            ForBrick::Ask => self.on_ask(step, body, asker).err(),
            ForBrick::Announce => decode(body).map(|announce| self.on_announce(step, &announce, asker)).err(),
            ForBrick::BrickPage => self.on_brick_page(step, body, asker).err(),
            ForBrick::StatisticsReport => {
                decode(body).and_then(|report| self.on_report(step, header.sender, &report)).err()
            }
            ForBrick::BrickProbe => {
                // A question of an older program is empty, and wants to know of the life alone.
                if decode(body).is_ok_and(|asked: BrickProbe| asked.wants_restart) {
                    self.want_restart(step.now);
                }
                reply_with(step.effects, Peer::Conn(conn), header, Status::Ok, &self.probed(step.now));
                None
            }
            ForBrick::BrickEvents => decode::<BrickEvents>(body)
                .map(|asked| {
                    answer_told(step, Opcode::BrickEvents, asker, &self.events_after(asked.after));
                })
                .err(),
            ForBrick::TabletPage => decode(body).map(|ask| self.on_tablet_page(step, ask, asker)).err(),
        };
        if let Some(status) = refused {
            reply(step.effects, Peer::Conn(conn), header, status);
        }
    }

    fn on_ask(&mut self, step: &mut Step<'_>, body: &[u8], asker: Asker) -> Result<(), Status> {
        let request = AskRequest::decode(body)?;
        let asker = Asker { load: load_of(&request), ..asker };
        self.counts.asked(asker.load.class);
        if !self.queues.admits(asker.load) {
            self.refuse(step, asker, Refusal::TooMany);
        } else if self.phase != Phase::Serving || self.queues.takes_turn() {
            self.serve_ask(step, request, asker);
        } else {
            self.queues.push(Queued { asker, body: body.to_vec() });
        }
        Ok(())
    }

    fn serve_ask(&mut self, step: &mut Step<'_>, request: AskRequest<'_>, asker: Asker) {
        let AskRequest { table, key, what } = request;
        self.queues.served(step.now, asker);
        if let Err(refusal) = self.ask(step, (table, key), ask_of(what), asker) {
            self.refuse(step, asker, refusal);
        }
    }

    fn refuse(&mut self, step: &mut Step<'_>, asker: Asker, refusal: Refusal) {
        if matches!(refusal, Refusal::TooMany | Refusal::OutOfMemory) {
            self.queues.dropped(asker.load.class);
        }
        self.counts.refused(asker.load.class);
        answer_refused(step, Opcode::Ask, asker, refusal);
    }

    /// Serves questions that wait for their turn.
    pub(crate) fn serve_queued(&mut self, step: &mut Step<'_>) {
        for Queued { asker, body } in self.queues.take_rounds() {
            let request = AskRequest::decode(&body).expect("it was decoded when it came");
            self.serve_ask(step, request, asker);
        }
    }

    /// Sends the answers that have become due.
    pub fn send_answers(&mut self, step: &mut Step<'_>) {
        let is_wanted = |answered: &Answered| answered.asker != Asker::NOBODY;
        let clock = self.clock.told(step.now);
        for mut answered in std::mem::take(&mut self.answers).into_iter().filter(is_wanted) {
            answered.answer.clock = clock;
            self.queues.answered(step.now, answered.asker);
            self.counts.said(answered.asker.load.class, &answered.answer.said);
            answer_asked(step, &answered);
        }
    }
}

fn load_of(request: &AskRequest<'_>) -> Load {
    let (class, value_bytes) = match request.what {
        AskWhat::Value => (Class::Get, 0),
        AskWhat::Stamp => (Class::Stamp, 0),
        AskWhat::Write(write) => (Class::Put, write.value.map_or(0, |value| value.bytes.len())),
    };
    let bytes = u32::try_from(request.key.len() + value_bytes).expect("a frame is smaller");
    Load { class, bytes }
}
