//! Incoming data: bytes, frames, and the ends of connections.
//!
//! The loop passes on a bounded number of frames of one connection per turn; the rest waits as backlog. A
//! connection is not read while it has backlog, or while its peer does not fetch the answers. TCP's
//! back-pressure then makes the peer wait.

use super::{Event, Network};
use crate::connection::{Backlog, Phase, Side};
use crate::poll::{Interest, Ready};
use crate::receive::{ReceiveBuffer, Received};
use ramhold_base::{ConnId, Instant, Lost, RpcId};
use ramhold_wire::{BadFrame, Header, Kind, Opcode, frame};
use rustix::io::Errno;

/// How far the loop got with the frames of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fed {
    /// All whole frames were handed on.
    Drained,
    /// There may be more, for a later turn.
    More,
    /// There is more, for when the machine wants it.
    Held,
    /// The next bytes are no frame.
    Bad(BadFrame),
}

/// How a connection is heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    Frames,
    Bytes,
    /// As bytes, from now on.
    BytesFirst,
}

impl Network {
    pub(super) fn on_connection_ready(&mut self, id: ConnId, ready: Ready, now: Instant) -> Event {
        let flags = ready.flags;
        if !self.arrives(id) {
            return Event::Done;
        }
        let Some(connection) = self.slots.find(id) else { return Event::Done };
        if ready.polled && connection.link.is_shared() {
            if let Some(unread) = connection.link.hear_bell() {
                connection.output.take_back(unread);
                self.sharing.forget(id, connection.side);
                if connection.goes_first {
                    // It is a socket now.
                    self.let_first(id);
                }
                self.flush_one(id, now);
            }
            self.watch(id);
        }
        let Some(connection) = self.slots.find(id) else { return Event::Done };
        let gone = flags.intersects(Interest::HUP | Interest::ERR);
        match connection.phase {
            Phase::Connecting => {
                self.on_connected(id);
                return Event::Done;
            }
            Phase::Flushing if gone => {
                self.end(id, Lost::Broken);
                return Event::Done;
            }
            Phase::Draining => {
                match connection.input.fill(&mut connection.link, &mut self.left) {
                    Received::Bytes(_) => connection.input = ReceiveBuffer::default(),
                    Received::Nothing => {}
                    Received::End | Received::Broken => self.end(id, Lost::Broken),
                }
                return Event::Done;
            }
            Phase::Open | Phase::Flushing => {}
        }
        // A bell is rung for bytes or for room.
        let may_have_room = connection.link.is_shared() && connection.output.len() > 0;
        if flags.contains(Interest::OUT) || may_have_room {
            self.flush_one(id, now);
        }
        let Some(connection) = self.slots.find(id).filter(|connection| connection.phase == Phase::Open)
        else {
            return Event::Done;
        };
        let hears = if connection.link.is_shared() {
            connection.hears(&self.limits)
        } else {
            connection.interest.contains(Interest::IN) && (gone || flags.contains(Interest::IN))
        };
        if hears {
            return self.receive(id);
        }
        // A listed backlog is handed on in this turn, and then the connection is read. Any other connection
        // ends here: it is held back and not read, so the poller would report its end for ever.
        if gone && connection.backlog != Backlog::Listed {
            self.end(id, Lost::Broken);
        }
        Event::Done
    }

    /// False: the other process has not said yet how it speaks, or was refused.
    fn arrives(&mut self, id: ConnId) -> bool {
        let Some(connection) = self.slots.find(id).filter(|connection| connection.link.is_arriving()) else {
            return true;
        };
        match connection.link.arrive(self.sharing.accepted_count() < self.limits.shared_count_max) {
            Ok(is_refused) => {
                self.stats.memory_refused += u64::from(is_refused);
                if connection.link.is_shared() {
                    self.sharing.enter(id, Side::Accepted);
                    self.stats.connections_shared += 1;
                }
                self.watch(id);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => {
                self.stats.hellos_refused += 1;
                self.end(id, Lost::Broken);
                false
            }
        }
    }

    fn receive(&mut self, id: ConnId) -> Event {
        let Some(connection) = self.slots.find(id) else { return Event::Done };
        match connection.input.fill(&mut connection.link, &mut self.left) {
            Received::Bytes(count) => {
                connection.busy = true;
                self.stats.bytes_received += count as u64;
                Event::Feed(id)
            }
            Received::Nothing => Event::Done,
            Received::End => {
                connection.ended = true;
                Event::Feed(id)
            }
            Received::Broken => {
                self.end(id, Lost::Broken);
                Event::Done
            }
        }
    }

    /// Connections with backlog from before, into `ids`; they may be gone by now.
    pub(crate) fn take_backlog(&mut self, ids: &mut Vec<ConnId>) {
        ids.append(&mut self.backlog);
    }

    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether frames of this connection may be handed on.
    pub(crate) fn is_heard(&mut self, id: ConnId) -> bool {
        let limits = &self.limits;
        self.slots.find(id).is_some_and(|found| found.phase == Phase::Open && !found.is_paused(limits))
    }

    /// How this connection is heard, of which this has come: the first byte decides.
    pub(crate) fn speaks(&mut self, id: ConnId, input: &ReceiveBuffer) -> Speaks {
        let hears_bytes = self.hears_bytes;
        let Some(connection) = self.slots.find(id).filter(|found| found.side == Side::Accepted) else {
            return Speaks::Frames;
        };
        if !connection.is_bytes && !connection.spoken && hears_bytes {
            let first = input.waiting().first();
            connection.is_bytes = first.is_some_and(|first| *first != frame::MAGIC[0]);
            connection.spoken = connection.is_bytes;
            if connection.is_bytes {
                return Speaks::BytesFirst;
            }
        }
        if connection.is_bytes { Speaks::Bytes } else { Speaks::Frames }
    }

    /// The machine wants what it has left of this connection.
    pub(crate) fn hear(&mut self, id: ConnId) {
        if let Some(connection) = self.slots.find(id)
            && connection.backlog == Backlog::Held
        {
            connection.backlog = Backlog::Listed;
            self.backlog.push(id);
        }
    }

    /// The bytes that have come over a connection and are not handed on yet.
    pub(crate) fn waiting(&self, id: ConnId) -> &[u8] {
        self.slots.get(id).map_or(&[], |connection| connection.input.waiting())
    }

    /// Lends out what has come in, so that frames are handed on from where they lie; ends with `give_back`.
    pub(crate) fn take_input(&mut self, id: ConnId) -> Option<ReceiveBuffer> {
        let connection = self.slots.find(id).filter(|connection| connection.phase == Phase::Open)?;
        Some(std::mem::take(&mut connection.input))
    }

    /// Takes the input back after `frame_count` frames of it were handed on.
    pub(crate) fn give_back(
        &mut self,
        id: ConnId,
        input: ReceiveBuffer,
        frame_count: u64,
        fed: Fed,
        now: Instant,
    ) {
        self.stats.frames_received += frame_count;
        let Some(connection) = self.slots.find(id) else { return };
        connection.input = input;
        connection.input.leave(&mut self.left);
        connection.backlog = Backlog::Empty;
        connection.spoken |= frame_count > 0;
        if connection.phase != Phase::Open {
            return;
        }
        match fed {
            Fed::More if connection.is_paused(&self.limits) => connection.backlog = Backlog::Held,
            Fed::Held => connection.backlog = Backlog::Held,
            Fed::More => {
                connection.backlog = Backlog::Listed;
                self.backlog.push(id);
            }
            Fed::Drained if connection.ended => match connection.side {
                Side::Accepted => self.close(id, now),
                Side::Opened { .. } => self.end(id, Lost::Broken),
            },
            Fed::Drained => {}
            Fed::Bad(bad) => {
                self.stats.bad_frames += 1;
                match connection.side {
                    Side::Accepted => {
                        let (kind, opcode) = (Kind::Reply, Opcode::Malformed.code());
                        let header =
                            Header { kind, opcode, status: bad.status().code(), ..Header::default() };
                        assert_eq!(header.rpc, RpcId::NONE);
                        frame::write(connection.output.tail(), &header, |_| {});
                        self.close(id, now);
                    }
                    // The peer that we called sends something that is no frame. Nobody could use an error
                    // answer.
                    Side::Opened { .. } => self.end(id, Lost::Broken),
                }
            }
        }
        if let Some(connection) = self.slots.find(id) {
            connection.time_next_frame(frame_count > 0, now, &self.limits);
            self.timers.arm(connection);
            self.watch(id);
        }
    }
}
