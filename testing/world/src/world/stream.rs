//! Connections that carry bytes, in order and whole, cut anywhere, until the connection ends.
//!
//! Received bytes wait until the process takes them, as under `io/runtime`. The process is offered everything
//! from the first byte that it has not taken, and says when the rest is offered again. A lost or late packet
//! holds up the packets behind it. A packet that is lost across a cut is the last of its direction, and its
//! sender finds the connection broken.
//!
//! An end that comes while bytes wait is told after them (the other side has closed) or before them (a
//! reset), by chance.

use super::World;
use super::connection::conn_id;
use super::event::{Happening, Side};
use super::node::Pending;
use crate::network::MILLI;
use ramhold_base::{ConnId, Effects, Input, Machine, Rest};

/// One direction of a connection, at its receiver.
#[derive(Debug, Default)]
pub(super) struct Stream {
    waiting: Vec<u8>,
    /// An input for the waiting bytes is planned.
    is_offered: bool,
    /// The process will say when it wants the rest.
    is_held: bool,
    /// The process asked for the rest in the same step in which it left the rest.
    is_wanted: bool,
    /// The other side has closed: nothing more will come.
    is_ended: bool,
    /// A packet was lost on the way: nothing behind it arrives.
    is_lost: bool,
}

/// The time until a lost packet is sent again.
const AGAIN_AFTER: u64 = 200 * MILLI;

impl<M: Machine> World<M> {
    fn stream(&mut self, connection: usize, side: Side) -> Option<&mut Stream> {
        self.connections[connection].streams.as_mut().map(|streams| &mut streams[side as usize])
    }

    /// Sends bytes towards `side`, in one or more parts.
    pub(super) fn transmit_bytes(
        &mut self,
        connection: usize,
        side: Side,
        (from, to): (usize, usize),
        bytes: &[u8],
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.stream(connection, side).is_none_or(|stream| stream.is_lost) {
                return;
            }
            let length = rest.len() as u64;
            let cut = if self.rng.chance(1, 3) { self.rng.between(1, length) } else { length };
            let (part, later) = rest.split_at(cut as usize);
            rest = later;
            let mut delay = self.network.options.latency_min;
            if from != to {
                let way = self.way(connection, from, to);
                let passage = self.network.pass(self.now, way, &mut self.rng);
                if self.network.is_cut(way) {
                    self.lose_bytes(connection, side);
                    return self.fall_silent(connection, side.other());
                }
                if passage.breaks {
                    self.count("broken connection");
                    self.tell_end(connection, Side::Caller, 0);
                    self.tell_end(connection, Side::Callee, 0);
                }
                delay = passage.delay.unwrap_or_else(|| self.network.latency(&mut self.rng) + AGAIN_AFTER);
            }
            let last = &mut self.connections[connection].last_arrival[side as usize];
            let at = (self.now + delay).max(*last + 1);
            *last = at;
            let bytes = self.copy(part);
            self.queue.push(at, Happening::Arrive { connection, side, bytes });
        }
        // As an event loop that has sent answers hears their connection again.
        if self.stream(connection, side.other()).is_some_and(|back| back.is_held) && self.rng.chance(1, 2) {
            self.offer(connection, side.other(), from);
        }
    }

    /// Nothing more arrives at this side.
    pub(super) fn lose_bytes(&mut self, connection: usize, side: Side) {
        if let Some(stream) = self.stream(connection, side) {
            stream.is_lost = true;
        }
    }

    /// Bytes have reached the host of this end.
    pub(super) fn take_in(&mut self, connection: usize, side: Side, node: usize, bytes: Vec<u8>) {
        if self.is_end_of(connection, side, node)
            && let Some(stream) = self.stream(connection, side)
            && !stream.is_lost
        {
            stream.waiting.extend_from_slice(&bytes);
            if !stream.is_held {
                self.offer(connection, side, node);
            }
        }
        self.give_back(bytes);
    }

    /// Plans an input with the waiting bytes for the process.
    fn offer(&mut self, connection: usize, side: Side, node: usize) {
        let life = self.nodes[node].life;
        let Some(stream) = self.stream(connection, side) else { return };
        stream.is_held = false;
        if !stream.is_offered {
            stream.is_offered = true;
            // It always comes behind the present step, also when nothing else waits.
            let pending = Pending::Bytes { from: conn_id(connection, side) };
            self.queue.push(self.now, Happening::Input { node, life, pending });
        }
    }

    /// The process wants the bytes that it has left on this connection.
    pub(super) fn hear(&mut self, node: usize, conn: ConnId) {
        let Some((connection, side)) = self.own_end(node, conn) else { return };
        let Some(stream) = self.stream(connection, side) else { return };
        if stream.is_held {
            self.offer(connection, side, node);
        } else {
            stream.is_wanted = true;
        }
    }

    /// One step of a process with the bytes that wait on a connection, if there still are any.
    pub(super) fn step_with_bytes(&mut self, node: usize, from: ConnId, effects: &mut Effects) {
        let Some((connection, side)) = self.own_end(node, from) else { return };
        let Some(stream) = self.stream(connection, side) else { return };
        (stream.is_offered, stream.is_wanted) = (false, false);
        let mut bytes = std::mem::take(&mut stream.waiting);
        self.steps += 1;
        self.trace.note(self.now);
        self.trace.note((node as u64) << 8 | Pending::Bytes { from }.shape().0);
        self.trace.note(bytes.len() as u64);
        let host = &mut self.nodes[node];
        host.hasty_ticks = 0;
        let now = host.clock.local(self.now);
        let machine = host.machine.as_mut().expect("only a live process is stepped");
        effects.clear();
        machine.step(now, Input::Bytes { from, bytes: &bytes }, effects);
        let taken = effects.taken;
        assert!(taken.bytes <= bytes.len(), "{} takes more than there is", self.nodes[node].name);
        self.execute(node, effects, &[]);
        if self.own_end(node, from).is_none() {
            return;
        }
        bytes.drain(..taken.bytes);
        let Some(stream) = self.stream(connection, side) else { return };
        bytes.append(&mut stream.waiting);
        stream.waiting = bytes;
        let (is_ended, is_wanted) = (stream.is_ended, stream.is_wanted);
        match taken.rest {
            Rest::Part if is_ended => self.end_heard(connection, side, node),
            Rest::Part => {}
            Rest::More => self.offer(connection, side, node),
            Rest::Held => {
                stream.is_held = true;
                if is_wanted {
                    self.offer(connection, side, node);
                }
            }
        }
    }

    /// Whether the end of a connection must come only after the waiting bytes have been heard.
    pub(super) fn hears_on(&mut self, connection: usize, side: Side) -> bool {
        let waits = self.stream(connection, side).is_some_and(|stream| {
            side == Side::Callee && !stream.is_ended && !stream.is_lost && !stream.waiting.is_empty()
        });
        let hears_on = waits && self.rng.chance(1, 2);
        if hears_on && let Some(stream) = self.stream(connection, side) {
            stream.is_ended = true;
        }
        hears_on
    }

    /// All bytes of a connection that the other side has closed have been heard.
    fn end_heard(&mut self, connection: usize, side: Side, node: usize) {
        let life = self.nodes[node].life;
        self.shut(connection, side);
        self.deliver(node, life, Pending::Closed { conn: conn_id(connection, side) });
    }
}
