//! Connections between processes, and frames on them.
//!
//! A connection belongs to one life of its caller and, once a frame has been accepted, to one life of its
//! callee. Either end is open until its process has been told of the end. Frames reach only open ends of
//! living lives. Connections that carry bytes instead of frames are in `stream`.

use super::World;
use super::event::{Happening, Side};
use super::node::Pending;
use super::pace::Passed;
use super::stream::Stream;
use crate::network::Way;
use ramhold_base::{ConnId, Lost, Machine, Peer};
use std::net::SocketAddr;

/// The way in which a process leaves its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parting {
    /// The kernel of its host tells the peers, mostly at once.
    Killed,
    /// The peers are not told.
    Silent,
}

#[derive(Debug)]
pub(super) struct Connection {
    caller: usize,
    caller_life: u64,
    addr: SocketAddr,
    /// The plane of that address.
    pub(super) plane: usize,
    /// The host with that address; none: no host has it.
    callee: Option<usize>,
    callee_life: Option<u64>,
    caller_open: bool,
    callee_open: bool,
    /// Refused or reset: nothing that is still under way arrives at the callee.
    dead: bool,
    /// The caller's end is planned already because of silence.
    silent: bool,
    /// The arrival time of the last frame that keeps its order, at the caller and at the callee.
    pub(super) last_arrival: [u64; 2],
    /// The bytes that it carries, to the caller and to the callee; none: it carries frames.
    pub(super) streams: Option<Box<[Stream; 2]>>,
}

/// The two ends of one connection have different names, since both may be in one process.
pub(super) fn conn_id(connection: usize, side: Side) -> ConnId {
    ConnId(connection as u64 * 2 + 1 + u64::from(side == Side::Callee))
}

impl<M: Machine> World<M> {
    pub(super) fn send(&mut self, node: usize, to: Peer, bytes: &[u8]) {
        let (connection, side) = match to {
            Peer::Addr(addr) => (self.connection_to(node, addr, bytes), Side::Caller),
            Peer::Conn(conn) => match self.own_end(node, conn) {
                Some(end) => end,
                None => return,
            },
        };
        self.transmit(connection, side, bytes);
    }

    pub(super) fn close(&mut self, node: usize, conn: ConnId) {
        let Some((connection, side)) = self.own_end(node, conn) else { return };
        self.shut(connection, side);
        // Frames that were sent before arrive before the end does.
        let latency = self.network.latency(&mut self.rng);
        let other = side.other();
        let at = (self.now + latency).max(self.connections[connection].last_arrival[other as usize] + 1);
        self.queue.push(at, Happening::End { connection, side: other, how: Lost::Broken });
    }

    pub(super) fn part_connections(&mut self, node: usize, parting: Parting) {
        let silence = self.network.options.silence;
        self.nodes[node].outgoing.clear();
        for connection in std::mem::take(&mut self.nodes[node].connections) {
            for side in [Side::Caller, Side::Callee] {
                if !self.is_end_of(connection, side, node) {
                    continue;
                }
                self.shut(connection, side);
                let prompt = parting == Parting::Killed && self.rng.chance(7, 8);
                let delay = if prompt {
                    self.network.latency(&mut self.rng)
                } else {
                    silence + self.rng.below(2 * silence)
                };
                self.tell_end(connection, side.other(), delay);
            }
        }
    }

    /// The connection to an address, opened if there is none. The first bytes sent decide what it carries.
    fn connection_to(&mut self, node: usize, addr: SocketAddr, first: &[u8]) -> usize {
        let is_bytes = self.hears_bytes && first.first() != Some(&ramhold_wire::frame::MAGIC[0]);
        if let Some(connection) = self.nodes[node].outgoing.get(&(addr, is_bytes)) {
            return *connection;
        }
        let connection = self.connections.len();
        self.connections.push(Connection {
            caller: node,
            caller_life: self.nodes[node].life,
            addr,
            plane: self.by_addr.get(&addr).map_or(0, |(_, plane)| *plane),
            callee: self.by_addr.get(&addr).map(|(node, _)| *node),
            callee_life: None,
            caller_open: true,
            callee_open: false,
            dead: false,
            silent: false,
            last_arrival: [0; 2],
            streams: is_bytes.then(Box::default),
        });
        self.nodes[node].outgoing.insert((addr, is_bytes), connection);
        self.nodes[node].connections.insert(connection);
        connection
    }

    /// The connection that this process calls `conn`, if its end there is open.
    pub(super) fn own_end(&self, node: usize, conn: ConnId) -> Option<(usize, Side)> {
        let raw = conn.0.checked_sub(1)?;
        let side = if raw % 2 == 0 { Side::Caller } else { Side::Callee };
        let connection = usize::try_from(raw / 2).ok()?;
        self.connections.get(connection)?;
        self.is_end_of(connection, side, node).then_some((connection, side))
    }

    /// Whether this end is open and belongs to the present life of `node`.
    pub(super) fn is_end_of(&self, connection: usize, side: Side, node: usize) -> bool {
        let life = self.nodes[node].life;
        let c = &self.connections[connection];
        match side {
            Side::Caller => c.caller_open && c.caller == node && c.caller_life == life,
            Side::Callee => c.callee_open && c.callee == Some(node) && c.callee_life == Some(life),
        }
    }

    pub(super) fn host_at(&self, connection: usize, side: Side) -> Option<usize> {
        let c = &self.connections[connection];
        match side {
            Side::Caller => Some(c.caller),
            Side::Callee => c.callee,
        }
    }

    fn transmit(&mut self, connection: usize, from_side: Side, bytes: &[u8]) {
        let side = from_side.other();
        let from = self.host_at(connection, from_side).expect("who sends is somebody");
        let Some(to) = self.host_at(connection, side) else {
            let latency = self.network.latency(&mut self.rng);
            self.queue
                .push(self.now + latency, Happening::End { connection, side: from_side, how: Lost::Refused });
            return;
        };
        if self.connections[connection].streams.is_some() {
            return self.transmit_bytes(connection, side, (from, to), bytes);
        }
        if let Some(pace) = &mut self.pace {
            let at = pace.leaves(self.leaves_at, bytes);
            let bytes = self.copy(bytes);
            let first = Happening::Pass { connection, side, port: 0, bytes };
            return self.queue.push(at, first);
        }
        if from == to {
            let at = (self.now + self.network.options.latency_min)
                .max(self.connections[connection].last_arrival[side as usize] + 1);
            self.connections[connection].last_arrival[side as usize] = at;
            let copy = self.copy(bytes);
            self.queue.push(at, Happening::Arrive { connection, side, bytes: copy });
            return;
        }
        let way = self.way(connection, from, to);
        let passage = self.network.pass(self.now, way, &mut self.rng);
        if self.network.is_cut(way) {
            self.fall_silent(connection, from_side);
        }
        if passage.breaks {
            self.count("broken connection");
            self.tell_end(connection, Side::Caller, 0);
            self.tell_end(connection, Side::Callee, 0);
        }
        match passage.delay {
            Some(delay) => {
                let last = &mut self.connections[connection].last_arrival[side as usize];
                let mut at = self.now + delay;
                if passage.held {
                    self.count("held frame");
                } else {
                    at = at.max(*last + 1);
                    *last = at;
                }
                let mut copy = self.copy(bytes);
                if passage.corrupt {
                    self.count("corrupt frame");
                    self.corrupt(&mut copy);
                }
                self.queue.push(at, Happening::Arrive { connection, side, bytes: copy });
            }
            None => self.count("lost frame"),
        }
        if let Some(again) = passage.again {
            self.count("doubled frame");
            let copy = self.copy(bytes);
            self.queue.push(self.now + again, Happening::Arrive { connection, side, bytes: copy });
        }
    }

    /// The first byte of a frame towards `side` is at a port. A host sends to itself without a port.
    pub(super) fn pass(&mut self, connection: usize, side: Side, port: usize, bytes: Vec<u8>) {
        let from = self.host_at(connection, side.other()).expect("a frame comes from somebody");
        let to = self.host_at(connection, side).expect("a frame goes to somebody");
        let way = self.way(connection, from, to);
        let passed = match &mut self.pace {
            Some(pace) if from != to => pace.pass(self.now, way, port, &bytes),
            _ => Passed::Through(self.now),
        };
        match passed {
            Passed::Onward(at) => {
                self.queue.push(at, Happening::Pass { connection, side, port: port + 1, bytes });
            }
            Passed::Through(at) => {
                let last = &mut self.connections[connection].last_arrival[side as usize];
                let at = at.max(*last + 1);
                *last = at;
                self.queue.push(at, Happening::Arrive { connection, side, bytes });
            }
        }
    }

    /// Flips one bit behind the part that a receiver needs to find the end of a frame.
    fn corrupt(&mut self, bytes: &mut [u8]) {
        let start = ramhold_wire::frame::PREFIX_BYTES.min(bytes.len().saturating_sub(1)) as u64;
        if !bytes.is_empty() {
            let at = self.rng.between(start, bytes.len() as u64 - 1) as usize;
            bytes[at] ^= 1 << self.rng.below(8);
        }
    }

    pub(super) fn arrive(&mut self, connection: usize, side: Side, bytes: Vec<u8>) {
        let from = self.host_at(connection, side.other()).expect("a frame comes from somebody");
        let to = self.host_at(connection, side).expect("a frame arrives at somebody");
        if self.network.is_cut(self.way(connection, from, to)) {
            self.lose_bytes(connection, side);
            self.fall_silent(connection, side.other());
            return self.give_back(bytes);
        }
        if side == Side::Callee && !self.accept(connection, to) {
            return self.give_back(bytes);
        }
        if self.connections[connection].streams.is_some() {
            return self.take_in(connection, side, to, bytes);
        }
        if self.is_end_of(connection, side, to) {
            let life = self.nodes[to].life;
            self.deliver(to, life, Pending::Frame { from: conn_id(connection, side), bytes });
        } else {
            self.give_back(bytes);
        }
    }

    /// A frame has reached the callee's host. Returns whether a process takes it there. If not, the caller is
    /// told.
    fn accept(&mut self, connection: usize, to: usize) -> bool {
        if self.connections[connection].dead {
            return false;
        }
        let (up, powered, life) = (self.nodes[to].is_up(), self.nodes[to].powered, self.nodes[to].life);
        let c = &mut self.connections[connection];
        match c.callee_life {
            None if up => {
                c.callee_life = Some(life);
                c.callee_open = true;
                self.nodes[to].connections.insert(connection);
                true
            }
            None if powered => {
                c.dead = true;
                let latency = self.network.latency(&mut self.rng);
                let caller = self.connections[connection].caller;
                if self.network.is_cut(self.way(connection, to, caller)) {
                    self.fall_silent(connection, Side::Caller);
                } else {
                    let end = Happening::End { connection, side: Side::Caller, how: Lost::Refused };
                    self.queue.push(self.now + latency, end);
                }
                false
            }
            None => {
                self.fall_silent(connection, Side::Caller);
                false
            }
            Some(accepted) if up && accepted == life && c.callee_open => true,
            Some(_) => {
                c.dead = true;
                if powered {
                    let latency = self.network.latency(&mut self.rng);
                    self.tell_end(connection, Side::Caller, latency);
                } else {
                    self.fall_silent(connection, Side::Caller);
                }
                false
            }
        }
    }

    /// The way from one of the two hosts of a connection to the other.
    pub(super) fn way(&self, connection: usize, from: usize, to: usize) -> Way {
        let c = &self.connections[connection];
        Way { plane: c.plane, from, to, is_answer: to == c.caller && from != to }
    }

    /// This end has sent something that will never be acknowledged: it will find the connection broken.
    pub(super) fn fall_silent(&mut self, connection: usize, side: Side) {
        if side == Side::Caller {
            if self.connections[connection].silent {
                return;
            }
            self.connections[connection].silent = true;
        }
        let silence = self.network.options.silence;
        let delay = silence * 4 / 5 + self.rng.below(silence / 2 + 1);
        self.queue.push(self.now + delay, Happening::End { connection, side, how: Lost::Broken });
    }

    /// Plans that this end learns of the end of the connection. Across a cut that takes a silence.
    pub(super) fn tell_end(&mut self, connection: usize, side: Side, delay: u64) {
        let (Some(from), Some(to)) = (self.host_at(connection, side.other()), self.host_at(connection, side))
        else {
            return;
        };
        let is_cut = self.network.is_cut(self.way(connection, from, to));
        let delay = if is_cut { delay + self.network.options.silence } else { delay };
        self.queue.push(self.now + delay, Happening::End { connection, side, how: Lost::Broken });
    }

    pub(super) fn end(&mut self, connection: usize, side: Side, how: Lost) {
        let Some(node) = self.host_at(connection, side) else { return };
        if !self.nodes[node].is_up() || !self.is_end_of(connection, side, node) {
            return;
        }
        let life = self.nodes[node].life;
        if how == Lost::Broken && self.hears_on(connection, side) {
            return;
        }
        self.shut(connection, side);
        if how == Lost::Broken {
            // The other end learns of it, if only by its own silence.
            let silence = self.network.options.silence;
            self.tell_end(connection, side.other(), 2 * silence);
        }
        let pending = match side {
            Side::Caller => Pending::Lost { addr: self.connections[connection].addr, how },
            Side::Callee => Pending::Closed { conn: conn_id(connection, side) },
        };
        self.deliver(node, life, pending);
    }

    pub(super) fn shut(&mut self, connection: usize, side: Side) {
        let c = &mut self.connections[connection];
        let node = match side {
            Side::Caller => {
                c.caller_open = false;
                let host = &mut self.nodes[c.caller];
                let which = (c.addr, c.streams.is_some());
                if host.outgoing.get(&which) == Some(&connection) {
                    host.outgoing.remove(&which);
                }
                c.caller
            }
            Side::Callee => {
                c.callee_open = false;
                match c.callee {
                    Some(node) => node,
                    None => return,
                }
            }
        };
        self.nodes[node].connections.remove(&connection);
    }

    pub(super) fn count(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        copy
    }

    pub(super) fn give_back(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < 1024 {
            self.spare.push(bytes);
        }
    }
}
