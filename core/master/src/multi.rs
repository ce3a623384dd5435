//! Frames with many requests: each request is treated as if it had come alone, and one frame answers all of them.
//!
//! The code that answers a request knows its asker only as an `Asker`: a connection, an item of such a frame, or a
//! client in this process. The answers to the items are collected until the last item is settled. Some items wait for
//! replication meanwhile.
//!
//! Invariants:
//! - every item of a frame is settled once: it is answered, or the answer says that it is not;
//! - the collected answers, and those of the frame that wait, take at most `MULTI_ANSWER_BYTES_MAX` for one frame; the
//!   collected ones of all frames together take no more than parked answers may.
//!
//! Catalogue: A5. Bytes: docs/formats/messages.md.

use crate::answered::Answered;
use ramhold_base::map::FastMap;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Peer, Status};
use ramhold_wire::local::LocalAnswers;
use ramhold_wire::multi::{ANSWER_ITEM_BYTES, MULTI_ANSWER_BYTES_MAX, encode_answer};
use ramhold_wire::{Header, frame};

/// Memory of a body is used again up to this size.
const MEMORY_BYTES_MAX: usize = 64 * 1024;

/// The receiver of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    Conn(ConnId),
    Item {
        multi: u64,
        place: u16,
    },
    /// A client in this process, which gave this ticket.
    Local(u64),
}

/// The answer to a frame while it is put together.
#[derive(Debug)]
pub(crate) struct Collected {
    to: ConnId,
    header: Header,
    since: Instant,
    unsettled: usize,
    body: Vec<u8>,
    /// Bytes of the answers that wait. An item's room stays counted when its answer has come: the other items are taken
    /// in hand before that.
    waiting_bytes: usize,
}

impl Collected {
    /// The answer to the frame that came at `now`: `body` has the answers to all items but `unsettled` ones.
    pub fn of(to: ConnId, header: &Header, now: Instant, unsettled: usize, body: Vec<u8>) -> Collected {
        Collected { to, header: *header, since: now, unsettled, body, waiting_bytes: 0 }
    }
}

/// The frames whose items are not all settled.
#[derive(Debug, Default)]
pub(crate) struct Multis {
    open: FastMap<u64, Collected>,
    last: u64,
    /// Bytes of all bodies.
    bytes: usize,
    /// Memory for the body of the next frame.
    memory: Vec<u8>,
    pub local: LocalAnswers,
    pub answered: Answered,
    /// The instant of the present step, or of the last step in which anything was asked or answered.
    pub now: Instant,
    /// The item that is being treated, until it is answered or parked.
    in_hand: Option<Asker>,
}

impl Multis {
    /// Sends an answer to a connection, or adds it to the answers of its frame. These are sent when the last item is
    /// settled.
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
            let collected = self.open.remove(&multi).expect("it was just there");
            self.bytes -= collected.body.len();
            self.send(collected, effects);
        }
    }

    fn send(&mut self, collected: Collected, effects: &mut Effects) {
        let Collected { to, header, since, body, .. } = collected;
        self.answered.count(header.opcode);
        if since < self.now {
            self.answered.waited(header.opcode, since, self.now);
        }
        effects.send_with(Peer::Conn(to), |out| {
            frame::write(out, &header.answer(Status::Ok), |out| out.extend_from_slice(&body));
        });
        if body.capacity() <= MEMORY_BYTES_MAX {
            self.memory = body;
        }
    }

    /// Memory for the answers to a frame, empty.
    pub fn memory(&mut self) -> Vec<u8> {
        let mut memory = std::mem::take(&mut self.memory);
        memory.clear();
        memory
    }

    /// Begins the answer to a frame, and sends it if nothing is unsettled. Otherwise every unsettled item must be taken in
    /// hand, under the number that is returned.
    pub fn begin(&mut self, frame: Collected, effects: &mut Effects) -> Option<u64> {
        if frame.unsettled == 0 {
            self.send(frame, effects);
            return None;
        }
        self.last += 1;
        self.bytes += frame.body.len();
        self.open.insert(self.last, frame);
        Some(self.last)
    }

    /// An item of a frame is treated next.
    pub fn take_in_hand(&mut self, multi: u64, place: u16) -> Asker {
        let item = Asker::Item { multi, place };
        self.in_hand = Some(item);
        item
    }

    /// An item was treated. If it was neither answered nor parked, it is settled without an answer.
    pub fn let_go(&mut self, multi: u64, place: u16, effects: &mut Effects) {
        if self.in_hand.take().is_some() {
            self.settle(multi, place, None, |_| {}, effects);
        }
    }

    /// Answers with a status alone.
    pub fn refuse(&mut self, to: Asker, header: &Header, status: Status, effects: &mut Effects) {
        match to {
            // The asker sends the request again over the network, and the server that answers there counts it.
            Asker::Local(ticket) if status.is_retryable() => self.local.push(ticket, status, |_| {}),
            _ => self.answer(to, header, status, |_| {}, effects),
        }
    }

    /// Notes that an asker's answer of so many bytes waits for something. It keeps its room in the answer to its frame.
    pub fn waits(&mut self, to: Asker, answer_bytes: usize) {
        if let Asker::Item { multi, .. } = to
            && self.in_hand == Some(to)
            && let Some(collected) = self.open.get_mut(&multi)
        {
            collected.waiting_bytes += answer_bytes + ANSWER_ITEM_BYTES;
        }
        self.is_seen_to(to);
    }

    /// Notes that an asker is answered now.
    fn is_seen_to(&mut self, to: Asker) {
        if self.in_hand == Some(to) {
            self.in_hand = None;
        }
    }

    /// Whether the answer has room for a value of `value_bytes`. `AnswerFull`: the answer to its frame has no room.
    /// `TooMany`: the answers to all frames together have no room.
    pub fn check_room(&self, to: Asker, value_bytes: usize, bytes_max: usize) -> Result<(), Status> {
        let Asker::Item { multi, .. } = to else { return Ok(()) };
        let held =
            self.open.get(&multi).map_or(0, |collected| collected.body.len() + collected.waiting_bytes);
        self.check_room_behind(held, 0, value_bytes, bytes_max)
    }

    /// The same for an answer that holds `held` bytes, of which `uncounted` bytes are not in `self.bytes` yet.
    pub fn check_room_behind(
        &self,
        held: usize,
        uncounted: usize,
        value_bytes: usize,
        bytes_max: usize,
    ) -> Result<(), Status> {
        let bytes = value_bytes + ANSWER_ITEM_BYTES + 32;
        if held > 0 && held + bytes > MULTI_ANSWER_BYTES_MAX {
            Err(Status::AnswerFull)
        } else if self.bytes + uncounted + bytes > bytes_max.max(MULTI_ANSWER_BYTES_MAX) {
            Err(Status::TooMany)
        } else {
            Ok(())
        }
    }

    /// Panics when an invariant does not hold.
    pub fn check_invariants(&self) {
        assert_eq!(self.bytes, self.open.values().map(|collected| collected.body.len()).sum::<usize>());
        assert!(self.open.values().all(|collected| collected.unsettled > 0));
    }
}
