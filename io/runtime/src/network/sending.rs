//! Sends frames, opens connections for them, and closes connections.

use super::accepting::{FLAGS, family};
use super::{Network, OPENED_COUNT_MAX, Transport};
use crate::connection::{Backlog, Connection, Phase, Side, tune};
use crate::link::Link;
use crate::pending::Pending;
use crate::send::Sent;
use ramhold_base::{ConnId, Instant, Lost, Outgoing, Peer};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use std::net::SocketAddr;
use std::sync::Arc;

/// Smaller frames are collected: a system call for each would cost more than a copy.
const DIRECT_BYTES_MIN: usize = 64 * 1024;

impl Network {
    /// Appends one frame to what goes out to `to` at the next flush; what of it is nobody else's lies in `memory`.
    pub(crate) fn send(&mut self, to: Peer, memory: &Arc<Vec<u8>>, frame: Outgoing, now: Instant) {
        let id = match to {
            Peer::Conn(id) => Some(id),
            Peer::Addr(addr) => self.by_addr.get(&addr).copied().or_else(|| self.open(addr, now)),
        };
        let found = id.and_then(|id| self.slots.find(id));
        let Some(connection) = found.filter(|found| matches!(found.phase, Phase::Connecting | Phase::Open))
        else {
            self.stats.frames_dropped += 1;
            return;
        };
        let Outgoing { own, shared } = frame;
        let shared_bytes = shared.as_ref().map_or(0, |shared| shared.len());
        if own.len() + shared_bytes < DIRECT_BYTES_MIN {
            connection.output.push(&memory[own]);
            shared.inspect(|shared| connection.output.push(shared));
        } else {
            // A large frame goes to the kernel from where it lies: as much as the kernel takes now, and the
            // rest later.
            let parts = [&memory[own.clone()], shared.as_ref().map_or(&[][..], |shared| shared)];
            let taken = match connection.phase {
                Phase::Open => connection.output.send_at_once(&mut connection.link, parts),
                _ => 0,
            };
            self.stats.bytes_sent += taken as u64;
            let rest = own.start + taken.min(own.len())..own.end;
            if own.len() < DIRECT_BYTES_MIN {
                connection.output.push(&memory[rest]);
            } else {
                connection.output.push_lent(memory, rest);
            }
            if let Some(shared) = shared {
                connection.output.push_lent(&shared, taken.saturating_sub(own.len())..shared.len());
            }
        }
        if connection.output.len() > self.limits.output_bytes_max {
            self.stats.output_overflows += 1;
            let id = connection.id;
            self.end(id, Lost::Broken);
        } else if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(connection.id);
        }
    }

    /// Begins a connection to `addr`. When that fails at once, its end is told like any other's.
    fn open(&mut self, addr: SocketAddr, now: Instant) -> Option<ConnId> {
        let how = if self.by_addr.len() >= OPENED_COUNT_MAX {
            Lost::Broken
        } else {
            match self.connect_to(addr, now) {
                Ok((link, phase)) => {
                    let id = self.slots.next_id();
                    let deadline = now + self.limits.connect_within;
                    let side = Side::Opened { addr };
                    self.stats.connections_shared += u64::from(link.is_shared());
                    let mut connection = Connection::new(id, link, side, phase, deadline);
                    if phase == Phase::Open {
                        connection.deadline = None;
                    }
                    if self.enter(connection) {
                        self.by_addr.insert(addr, id);
                        self.stats.connections_opened += 1;
                        return Some(id);
                    }
                    Lost::Broken
                }
                Err(Errno::CONNREFUSED) => Lost::Refused,
                // An error of this side says nothing about the peer.
                Err(_) => Lost::Broken,
            }
        };
        self.ends.push(Pending::Lost { addr, how });
        None
    }

    /// Begins to connect. A process of the same host is reached at once or not at all.
    fn connect_to(&mut self, addr: SocketAddr, now: Instant) -> rustix::io::Result<(Link, Phase)> {
        let transport = self.limits.transport;
        let is_automatic = transport == Transport::Automatic;
        if transport == Transport::Tcp || is_automatic && self.sharing.avoids(addr, now) {
            return Ok((Link::socket(connect_over_tcp(addr)?), Phase::Connecting));
        }
        match Link::open_local(addr, transport != Transport::Unix, self.sharing.strangers()) {
            Ok(link) => Ok((link, Phase::Open)),
            Err(_) if is_automatic => Ok((Link::socket(connect_over_tcp(addr)?), Phase::Connecting)),
            Err(error) => Err(error),
        }
    }

    /// The socket of a beginning connection can be written or has an error: it has worked out or it has not.
    pub(super) fn on_connected(&mut self, id: ConnId) {
        let Some(connection) = self.slots.find(id) else { return };
        let how = match sockopt::socket_error(connection.link.descriptor()) {
            Ok(Ok(())) if !is_own_echo(connection.link.descriptor()) => {
                connection.phase = Phase::Open;
                connection.deadline = None;
                if !connection.dirty {
                    connection.dirty = true;
                    self.dirty.push(id);
                }
                self.watch(id);
                return;
            }
            Ok(Ok(()) | Err(Errno::CONNREFUSED)) => Lost::Refused,
            Ok(Err(_)) | Err(_) => Lost::Broken,
        };
        self.end(id, how);
    }

    /// Ends a connection after what was sent before has gone out. Until then frames for it are dropped, and whoever
    /// sends them learns their fate by the `Closed` or `Lost` that follows.
    pub(crate) fn close(&mut self, id: ConnId, now: Instant) {
        let Some(connection) = self.slots.find(id) else { return };
        if connection.phase == Phase::Open {
            connection.phase = Phase::Flushing;
            connection.deadline = Some(now + self.limits.flush_within);
            self.timers.arm(connection);
            if !connection.dirty {
                connection.dirty = true;
                self.dirty.push(id);
            }
        }
    }

    /// Gives the kernel what waits, at most once per connection.
    pub(crate) fn flush(&mut self, now: Instant) {
        // Nothing below appends to the list. The list is put back at the end, so that its memory is kept.
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            if let Some(connection) = self.slots.find(id) {
                connection.dirty = false;
                self.flush_one(id, now);
            }
        }
        assert!(self.dirty.is_empty());
        self.dirty = dirty;
    }

    /// Sends what waits before the turn is over, always (`sends`) or only if that costs no system call.
    pub(crate) fn show(&mut self, id: ConnId, sends: bool, now: Instant) {
        let Some(connection) = self.slots.find(id) else { return };
        let is_cheap = sends || connection.link.is_shared();
        if is_cheap && connection.phase == Phase::Open && connection.output.len() > 0 {
            self.flush_one(id, now);
        }
    }

    /// Whether a flush has something to do.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether anything waits to go out.
    pub(crate) fn is_flushed(&mut self) -> bool {
        self.slots.iter_mut().all(|connection| connection.output.len() == 0)
    }

    pub(super) fn flush_one(&mut self, id: ConnId, now: Instant) {
        let Some(connection) = self.slots.find(id) else { return };
        if connection.phase == Phase::Connecting {
            return;
        }
        let before = connection.output.len();
        let sent = connection.output.flush(&mut connection.link);
        self.stats.bytes_sent += (before - connection.output.len()) as u64;
        connection.busy = true;
        match (sent, connection.phase) {
            (Sent::Broken, _) => return self.end(id, Lost::Broken),
            (Sent::All, Phase::Flushing) => {
                let told = connection.link.end_sending().is_ok();
                if connection.ended || !told {
                    return self.end(id, Lost::Broken);
                }
                connection.phase = Phase::Draining;
                connection.deadline = Some(now + self.limits.drain_within);
            }
            (Sent::All | Sent::Some, _) => {}
        }
        connection.time_fetching(now, &self.limits);
        // Enough answers have gone out: this connection is heard again.
        if connection.phase == Phase::Open && !connection.is_paused(&self.limits) {
            if connection.backlog == Backlog::Held {
                connection.backlog = Backlog::Listed;
                self.backlog.push(id);
            }
            connection.time_next_frame(false, now, &self.limits);
        }
        self.timers.arm(connection);
        self.watch(id);
    }
}

fn connect_over_tcp(addr: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(family(addr), SocketType::STREAM, FLAGS, None)?;
    tune(&socket, Side::Opened { addr })?;
    match rustix::net::connect(&socket, &addr) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Whether a socket is connected to itself: TCP allows that when nobody listens at a local address and the kernel
/// happens to choose the same port for our side.
fn is_own_echo(socket: &OwnedFd) -> bool {
    match (rustix::net::getsockname(socket), rustix::net::getpeername(socket)) {
        (Ok(ours), Ok(Some(theirs))) => ours == theirs,
        _ => false,
    }
}
