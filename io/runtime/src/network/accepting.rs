//! Listens, and accepts connections.
//!
//! If there are too many connections, a new one is accepted and closed at once, so that the kernel's queue
//! stays short. If the process has no descriptor for another connection, it stops accepting for a moment
//! (`PAUSE`) instead of spinning.

use super::Network;
use super::placed::{self, Placed};
use crate::StartError;
use crate::connection::{Connection, Phase, Side, tune};
use crate::link::{Link, local};
use crate::poll::{Interest, Poller};
use ramhold_base::Instant;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connections waiting in the kernel to be accepted.
const WAITING_COUNT_MAX: i32 = 1024;
/// Accepted in one turn.
const ACCEPT_COUNT_MAX: usize = 64;
/// How long not to accept when the process or the host has no room for another.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the name of an address is left to nobody when too many of other users came.
const NAME_LEFT: Duration = Duration::from_secs(10);
pub(super) const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Whether other processes may listen at the same address, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Others {
    Not,
    Too,
}

/// Where to accept connections.
#[derive(Debug)]
pub(crate) enum ListenAt {
    Address(SocketAddr, Others),
    /// A socket that listens already, and of which other processes accept too.
    Open(OwnedFd),
    /// A Unix socket with this mode.
    Path(PathBuf, u32),
}

pub(super) struct Listener {
    /// None: it listens at a path.
    pub addr: Option<SocketAddr>,
    key: u64,
    /// None: the name of an address was left, and is taken again at `again`.
    socket: Option<OwnedFd>,
    /// No other process listens there.
    pub is_alone: bool,
    /// Listens at the name of `addr` for processes of this host.
    is_local: bool,
    /// Accepted in one turn: of a queue that others accept from too only one, so that all get their share.
    accept_count_max: usize,
    /// Accepting is paused until then.
    pub again: Option<Instant>,
    /// Removes the path at the end.
    _placed: Option<Placed>,
}

impl Listener {
    pub(super) fn new(at: ListenAt, key: u64, poller: &Poller) -> Result<Listener, StartError> {
        match at {
            ListenAt::Address(addr, others) => Listener::bind(addr, others, key, poller)
                .map_err(|error| StartError::Listen { addr, error: error.into() }),
            ListenAt::Open(socket) => Listener::open(socket, key, poller).map_err(|error| {
                StartError::System { what: "the socket that it was handed", error: error.into() }
            }),
            ListenAt::Path(path, mode) => Listener::place(&path, mode, key, poller)
                .map_err(|error| StartError::ListenPath { path, error: error.into() }),
        }
    }

    fn bind(addr: SocketAddr, others: Others, key: u64, poller: &Poller) -> rustix::io::Result<Listener> {
        let socket = rustix::net::socket_with(family(addr), SocketType::STREAM, FLAGS, None)?;
        // A restarted process can thus take over its address while connections of the old process are still
        // closing.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, others == Others::Too)?;
        rustix::net::bind(&socket, &addr)?;
        rustix::net::listen(&socket, WAITING_COUNT_MAX)?;
        let addr = socket_addr(rustix::net::getsockname(&socket)?)?;
        poller.add(&socket, key, Interest::IN)?;
        let is_alone = others == Others::Not && !addr.ip().is_unspecified();
        Ok(Listener { is_alone, ..Listener::new_at(Some(addr), key, socket) })
    }

    fn open(socket: OwnedFd, key: u64, poller: &Poller) -> rustix::io::Result<Listener> {
        let addr = socket_addr(rustix::net::getsockname(&socket)?)?;
        if !sockopt::socket_acceptconn(&socket)? {
            return Err(Errno::INVAL);
        }
        // The socket must not block: another process may take the connection between the event and the
        // accept.
        rustix::io::ioctl_fionbio(&socket, true)?;
        poller.add(&socket, key, Interest::IN)?;
        Ok(Listener { accept_count_max: 1, ..Listener::new_at(Some(addr), key, socket) })
    }

    fn place(path: &Path, mode: u32, key: u64, poller: &Poller) -> rustix::io::Result<Listener> {
        let (socket, placed) = placed::listen(path, mode, WAITING_COUNT_MAX)?;
        poller.add(&socket, key, Interest::IN)?;
        Ok(Listener { _placed: Some(placed), ..Listener::new_at(None, key, socket) })
    }

    fn new_at(addr: Option<SocketAddr>, key: u64, socket: OwnedFd) -> Listener {
        Listener {
            addr,
            key,
            socket: Some(socket),
            is_alone: false,
            is_local: false,
            accept_count_max: ACCEPT_COUNT_MAX,
            again: None,
            _placed: None,
        }
    }

    /// At the name of an address at which this process listens already.
    pub(super) fn local(addr: SocketAddr, key: u64, poller: &Poller) -> rustix::io::Result<Listener> {
        let socket = local::listen(addr, WAITING_COUNT_MAX)?;
        poller.add(&socket, key, Interest::IN)?;
        Ok(Listener { is_local: true, ..Listener::new_at(Some(addr), key, socket) })
    }
}

/// Descriptors that accepted connections leave to the device's files, to other servers and to the admin port: a quarter
/// of what the process may have, and at least this many.
const SPARED_MIN: u64 = 64;

/// Connections that may be accepted when the process may have so many descriptors (none: any number). Who connects must
/// not be able to keep a server from its files and its peers.
pub(super) fn accepted_max(descriptors: Option<u64>) -> usize {
    let Some(descriptors) = descriptors else { return usize::MAX };
    let spared = (descriptors / 4).max(SPARED_MIN);
    usize::try_from(descriptors.saturating_sub(spared).max(1)).unwrap_or(usize::MAX)
}

impl Network {
    /// `place`: of the listener.
    pub(super) fn accept(&mut self, place: usize, now: Instant) {
        let count = self.listeners.get(place).map_or(0, |listener| listener.accept_count_max);
        for _ in 0..count {
            let Some(listener) = self.listeners.get(place) else { return };
            if listener.is_local && self.sharing.strangers().are_too_many() {
                return self.leave_name(place, now);
            }
            let Some(socket) = &listener.socket else { return };
            match rustix::net::accept_with(socket, FLAGS) {
                Ok(socket) => {
                    let (is_local, is_tcp) = (listener.is_local, listener.addr.is_some());
                    self.admit(socket, is_local, is_tcp, now);
                }
                Err(Errno::AGAIN) => return,
                // The client has already gone.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(_) => return self.pause_accepting(place, now),
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, is_local: bool, is_tcp: bool, now: Instant) {
        if self.accepted_count >= self.limits.connection_count_max {
            self.stats.connections_refused += 1;
            return;
        }
        let link = if is_local {
            match self.sharing.strangers().sort_out(socket) {
                Ok(socket) => Link::arriving(socket),
                Err(_) => {
                    self.stats.hellos_refused += 1;
                    return;
                }
            }
        } else if !is_tcp || tune(&socket, Side::Accepted).is_ok() {
            Link::socket(socket)
        } else {
            return; // The connection is broken before its first byte.
        };
        let deadline = now + self.limits.first_frame_within;
        let connection = Connection::new(self.slots.next_id(), link, Side::Accepted, Phase::Open, deadline);
        if self.enter(connection) {
            self.accepted_count += 1;
            self.stats.connections_accepted += 1;
        }
    }

    fn pause_accepting(&mut self, place: usize, now: Instant) {
        self.stats.accept_pauses += 1;
        let listener = &mut self.listeners[place];
        listener.again = Some(now + PAUSE);
        // If even this fails, the poller reports the listener again, and the loop tries again.
        let _ = listener
            .socket
            .as_ref()
            .map(|socket| self.poller.modify(socket, listener.key, Interest::empty()));
    }

    /// Too many of other users knock at a name: whoever wants to be served comes over TCP for a while, instead of waiting
    /// behind them.
    fn leave_name(&mut self, place: usize, now: Instant) {
        let listener = &mut self.listeners[place];
        listener.again = Some(now + NAME_LEFT);
        if let Some(socket) = listener.socket.take() {
            self.stats.names_left += 1;
            self.sharing.strangers().close(socket);
        }
    }

    pub(super) fn resume_accepting(&mut self, now: Instant) {
        for listener in &mut self.listeners {
            if listener.again.is_none_or(|again| again > now) {
                continue;
            }
            let (listening, pause) = match &listener.socket {
                Some(socket) => (self.poller.modify(socket, listener.key, Interest::IN).is_ok(), PAUSE),
                None if self.sharing.strangers().are_too_many() => (false, NAME_LEFT),
                None => {
                    let name = listener.addr.map(|addr| Listener::local(addr, listener.key, &self.poller));
                    listener.socket = name.and_then(Result::ok).and_then(|new| new.socket);
                    (listener.socket.is_some(), NAME_LEFT)
                }
            };
            listener.again = if listening { None } else { Some(now + pause) };
        }
    }
}

pub(super) fn family(addr: SocketAddr) -> AddressFamily {
    match addr {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

fn socket_addr(any: SocketAddrAny) -> rustix::io::Result<SocketAddr> {
    SocketAddr::try_from(any).map_err(|_| Errno::AFNOSUPPORT)
}
