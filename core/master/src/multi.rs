//! Frames with many requests: each is treated as if it had come alone, and one frame answers all of them.
//!
//! Whatever answers a request knows its asker only as one of these: a connection, a place in such a frame, or somebody in
//! this process. What has become of the items is collected until the last one is settled; some wait for replication
//! meanwhile.
//!
//! Invariants:
//! - every item of a frame is settled once: answered, or said not to be;
//! - what is collected takes at most `MULTI_ANSWER_BYTES_MAX` for one frame, and no more for all than parked answers may.
//!
//! Catalogue: A5. Bytes: docs/formats/messages.md.

use crate::Master;
use crate::answered::Answered;
use crate::parked::Answer;
use ramhold_base::map::FastMap;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Level, Peer, Status};
use ramhold_wire::local::LocalAnswers;
use ramhold_wire::multi::{ANSWER_ITEM_BYTES, MULTI_ANSWER_BYTES_MAX, MultiRequest, encode_answer};
use ramhold_wire::{Header, Opcode, Step, frame, reply};

/// Who is to hear an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    Conn(ConnId),
    Item {
        multi: u64,
        place: u16,
    },
    /// In this process, who gave this ticket.
    Local(u64),
}

/// The answer to a frame while it is put together.
#[derive(Debug)]
struct Collected {
    to: ConnId,
    header: Header,
    since: Instant,
    unsettled: usize,
    body: Vec<u8>,
}

/// The frames whose items are not all settled.
#[derive(Debug, Default)]
pub(crate) struct Multis {
    open: FastMap<u64, Collected>,
    last: u64,
    /// Of all bodies.
    bytes: usize,
    pub local: LocalAnswers,
    pub answered: Answered,
    /// Of the present step, or of the last one in which anything was asked or answered.
    pub now: Instant,
    /// The item that is being treated, as long as it is neither answered nor parked.
    in_hand: Option<Asker>,
}

impl Multis {
    /// Sends an answer to a connection, or puts it to those of its frame, which goes with the last one.
    pub fn answer(
        &mut self,
        to: Asker,
        request: &Header,
        status: Status,
        body: impl FnOnce(&mut Vec<u8>),
        effects: &mut Effects,
    ) {
        self.answered.count(request.opcode);
        match to {
            Asker::Conn(conn) => effects.send_with(Peer::Conn(conn), |out| {
                frame::write(out, &request.answer(status), body);
            }),
            Asker::Item { multi, place } => self.settle(multi, place, Some(status), body, effects),
            Asker::Local(ticket) => self.local.push(ticket, status, body),
        }
    }

    fn settle(
        &mut self,
        multi: u64,
        place: u16,
        status: Option<Status>,
        body: impl FnOnce(&mut Vec<u8>),
        effects: &mut Effects,
    ) {
        self.is_seen_to(Asker::Item { multi, place });
        let collected = self.open.get_mut(&multi).expect("a frame is there until its last item is settled");
        let before = collected.body.len();
        collected.unsettled -= 1;
        let place = if planted(Defect::ItemsMixedUp) { collected.unsettled as u16 } else { place };
        encode_answer(place, status, &mut collected.body, body);
        self.bytes += collected.body.len() - before;
        if collected.unsettled == 0 {
            let Collected { to, header, since, body, .. } =
                self.open.remove(&multi).expect("it was just there");
            self.bytes -= body.len();
            self.answered.count(header.opcode);
            if since < self.now {
                self.answered.waited(header.opcode, since, self.now);
            }
            effects.send_with(Peer::Conn(to), |out| {
                frame::write(out, &header.answer(Status::Ok), |out| out.extend_from_slice(&body));
            });
        }
    }

    /// Somebody is answered now, or his answer waits for something.
    pub fn is_seen_to(&mut self, to: Asker) {
        if self.in_hand == Some(to) {
            self.in_hand = None;
        }
    }

    /// Whether a value of so many bytes can be told: `AnswerFull` when the frame's answer has no room for it, `TooMany`
    /// when all of them together have none.
    pub fn check_room(&self, to: Asker, value_bytes: usize, bytes_max: usize) -> Result<(), Status> {
        let Asker::Item { multi, .. } = to else { return Ok(()) };
        let held = self.open.get(&multi).map_or(0, |collected| collected.body.len());
        let bytes = value_bytes + ANSWER_ITEM_BYTES + 32;
        if held > 0 && held + bytes > MULTI_ANSWER_BYTES_MAX {
            Err(Status::AnswerFull)
        } else if self.bytes + bytes > bytes_max.max(MULTI_ANSWER_BYTES_MAX) {
            Err(Status::TooMany)
        } else {
            Ok(())
        }
    }

    /// Panics when something that must always hold does not.
    pub fn check_invariants(&self) {
        assert_eq!(self.bytes, self.open.values().map(|collected| collected.body.len()).sum::<usize>());
        assert!(self.open.values().all(|collected| collected.unsettled > 0));
    }
}

impl Master {
    pub(crate) fn on_multi(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let request = match MultiRequest::decode(body) {
            Ok(request) => request,
            Err(status) => return reply(step.effects, Peer::Conn(from), header, status),
        };
        step.effects.report(Level::Debug, "mark:multi");
        self.multis.last += 1;
        let multi = self.multis.last;
        let unsettled = request.count();
        let collected = Collected { to: from, header: *header, since: step.now, unsettled, body: Vec::new() };
        self.multis.open.insert(multi, collected);
        for (place, item) in (0..).zip(request.items()) {
            let to = Asker::Item { multi, place };
            let header = Header {
                opcode: item.opcode.code(),
                sequence: item.sequence,
                repeated: item.repeated,
                ..*header
            };
            self.multis.in_hand = Some(to);
            self.on_object_request(step, item.opcode, &header, item.body, to);
            if self.multis.in_hand.take().is_some() {
                self.multis.settle(multi, place, None, |_| {}, step.effects);
            }
        }
    }

    /// A request of a client about one object.
    pub(crate) fn on_object_request(
        &mut self,
        step: &mut Step<'_>,
        opcode: Opcode,
        header: &Header,
        body: &[u8],
        from: Asker,
    ) {
        match opcode {
            Opcode::Read => self.on_read(step, header, body, from),
            Opcode::Write => self.on_write(step, header, body, from),
            Opcode::Remove => self.on_remove(step, header, body, from),
            Opcode::Increment => self.on_increment(step, header, body, from),
            _ => self.refuse(from, header, Status::UnknownOpcode, step.effects),
        }
    }

    /// Answers with a status alone.
    pub(crate) fn refuse(&mut self, to: Asker, header: &Header, status: Status, effects: &mut Effects) {
        match to {
            // Who asked takes the way over the network, and whoever answers there counts it.
            Asker::Local(ticket) if status.is_retryable() => self.multis.local.push(ticket, status, |_| {}),
            _ => self.multis.answer(to, header, status, |_| {}, effects),
        }
    }

    pub(crate) fn send(&mut self, to: Asker, header: &Header, answer: &Answer, effects: &mut Effects) {
        answer.send(&mut self.multis, to, header, effects);
    }
}
