//! All connections of one process: accepted, opened on demand, limited and timed.
//!
//! This module knows only the length of a frame. The loop takes the input of a connection, passes its frames
//! to the machine, and gives the input back. Frames that the machine sends are appended to output buffers,
//! which are flushed once per turn.
//!
//! Invariants:
//! - each connection ends with exactly one `Closed` (accepted) or `Lost` (opened)
//! - a connection id is never used again; frames sent to a connection that is gone are dropped
//! - no buffer and no number of connections grows without bound
//!
//! Not here: the meaning of a frame (the machine), when to wait (the loop).

mod accepting;
mod hearing;
mod sending;
mod slots;
mod timing;

pub(crate) use hearing::{Fed, Speaks};

use crate::connection::{Connection, Side};
use crate::error::StartError;
use crate::pending::Pending;
use crate::poll::{Interest, Poller, Ready};
use crate::receive::Left;
use accepting::Listener;
pub(crate) use accepting::{ListenAt, Sharing};
use ramhold_base::limits::{CONNECTION_COUNT_MAX, SERVER_COUNT_MAX};
use ramhold_base::map::FastMap;
use ramhold_base::{ConnId, Instant, Lost};
use ramhold_wire::frame::FRAME_BYTES_MAX;
use rustix::fd::AsFd;
use rustix::process::{Resource, getrlimit};
use slots::Slots;
use std::net::SocketAddr;
use std::time::Duration;
use timing::Timers;

/// Poller keys that are no connection; listeners count down from theirs.
const KEY_WAKER: u64 = u64::MAX;
const KEY_LISTENER: u64 = u64::MAX - 1;
const LISTENER_COUNT_MAX: u64 = 16;

/// Connections that this process opens: one to each server and coordinator, with room for those just replaced.
const OPENED_COUNT_MAX: usize = 2 * SERVER_COUNT_MAX;
const _: () = assert!(CONNECTION_COUNT_MAX + OPENED_COUNT_MAX <= slots::SLOT_COUNT_MAX);

/// Limits that one process sets to its connections. The default is for production.
#[derive(Clone, Debug)]
pub struct NetworkLimits {
    /// Accepted connections at one time; further ones are closed at once. At most 10 000, and at most what leaves the
    /// process descriptors for its files and its own connections.
    pub connection_count_max: usize,
    /// Bytes waiting to go out over one connection; with more it is closed. At least one largest frame.
    /// An accepted connection is not heard while a quarter of this waits.
    pub output_bytes_max: usize,
    /// From accepting to the first whole frame.
    pub first_frame_within: Duration,
    /// From the first byte of a later frame to its last.
    pub frame_within: Duration,
    /// In this time an accepted connection must fetch a good part of what waits for it; see `Connection::time_fetching`.
    pub fetch_within: Duration,
    /// From the wish to connect to being connected.
    pub connect_within: Duration,
    /// From closing a connection to its last byte having gone out.
    pub flush_within: Duration,
    /// From our last byte to giving up on the other side's end.
    pub drain_within: Duration,
}

impl Default for NetworkLimits {
    fn default() -> NetworkLimits {
        NetworkLimits {
            connection_count_max: CONNECTION_COUNT_MAX,
            output_bytes_max: 64 * 1024 * 1024,
            first_frame_within: Duration::from_secs(10),
            frame_within: Duration::from_secs(30),
            fetch_within: Duration::from_secs(30),
            connect_within: Duration::from_secs(1),
            flush_within: Duration::from_secs(10),
            drain_within: Duration::from_secs(1),
        }
    }
}

/// Counts of the network since the start; each only grows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    pub frames_received: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    /// Connections closed because their bytes were no frame.
    pub bad_frames: u64,
    pub connections_accepted: u64,
    /// Closed at once because there were too many.
    pub connections_refused: u64,
    pub connections_opened: u64,
    /// Closed because too much waited to go out.
    pub output_overflows: u64,
    /// Closed because a frame took too long.
    pub frames_overdue: u64,
    /// Closed because the other side was too slow to fetch what it had asked for.
    pub outputs_overdue: u64,
    /// Frames for connections that were gone or closing.
    pub frames_dropped: u64,
    /// Times that the poller was told to watch a connection for something else.
    pub interest_changes: u64,
    /// Times that accepting was paused for want of file descriptors or memory.
    pub accept_pauses: u64,
}

pub(crate) struct Network {
    pub limits: NetworkLimits,
    pub stats: Stats,
    /// Ends of connections, for the machine.
    pub ends: Vec<Pending>,
    poller: Poller,
    pub hears_bytes: bool,
    listeners: Vec<Listener>,
    slots: Slots,
    accepted_count: usize,
    /// Opened connections that have not ended.
    by_addr: FastMap<SocketAddr, ConnId>,
    dirty: Vec<ConnId>,
    backlog: Vec<ConnId>,
    timers: Timers,
    left: Left,
}

/// The work that an event leaves to the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Done already.
    Done,
    /// Bytes have come over this connection or it has ended: hand on its frames.
    Feed(ConnId),
    /// Another thread has something.
    Woken,
}

impl Network {
    pub(crate) fn new(
        listen: Vec<ListenAt>,
        mut limits: NetworkLimits,
        waker: impl AsFd,
    ) -> Result<Network, StartError> {
        assert!(limits.connection_count_max <= CONNECTION_COUNT_MAX);
        assert!(limits.output_bytes_max >= FRAME_BYTES_MAX);
        let descriptors = getrlimit(Resource::Nofile).current;
        limits.connection_count_max = limits.connection_count_max.min(accepting::accepted_max(descriptors));
        let refused =
            |error: rustix::io::Errno| StartError::System { what: "an event queue", error: error.into() };
        let poller = Poller::new().map_err(refused)?;
        poller.add(waker, KEY_WAKER, Interest::IN).map_err(refused)?;
        assert!(listen.len() as u64 <= LISTENER_COUNT_MAX);
        let mut listeners = Vec::new();
        for (key, at) in (0..).map(|place| KEY_LISTENER - place).zip(listen) {
            listeners.push(Listener::new(at, key, &poller)?);
        }
        Ok(Network {
            limits,
            stats: Stats::default(),
            ends: Vec::new(),
            poller,
            hears_bytes: false,
            listeners,
            slots: Slots::default(),
            accepted_count: 0,
            by_addr: FastMap::default(),
            dirty: Vec::new(),
            backlog: Vec::new(),
            timers: Timers::default(),
            left: Left::default(),
        })
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.listeners.first().map(|listener| listener.addr)
    }

    /// Connections that are there now, accepted and opened.
    pub(crate) fn connection_count(&self) -> usize {
        self.slots.count()
    }

    /// The other side of a connection, for reports.
    pub(crate) fn peer(&mut self, id: ConnId) -> Option<SocketAddr> {
        let connection = self.slots.find(id)?;
        SocketAddr::try_from(rustix::net::getpeername(&connection.socket).ok()??).ok()
    }

    /// Our side of a connection.
    pub(crate) fn own(&mut self, id: ConnId) -> Option<SocketAddr> {
        let connection = self.slots.find(id)?;
        SocketAddr::try_from(rustix::net::getsockname(&connection.socket).ok()?).ok()
    }

    /// Waits at most `wait` (none: for ever) and appends what is ready.
    pub(crate) fn wait(&self, wait: Option<Duration>, ready: &mut Vec<Ready>) -> rustix::io::Result<()> {
        self.poller.wait(wait, ready)
    }

    pub(crate) fn on_ready(&mut self, ready: Ready, now: Instant) -> Event {
        match ready.key {
            KEY_WAKER => Event::Woken,
            key if key > KEY_LISTENER - LISTENER_COUNT_MAX => {
                self.accept((KEY_LISTENER - key) as usize, now);
                Event::Done
            }
            key => self.on_connection_ready(ConnId(key), ready.flags, now),
        }
    }

    /// Takes a connection out and tells the machine; `how` matters for one that was opened.
    fn end(&mut self, id: ConnId, how: Lost) {
        let Some(connection) = self.slots.remove(id) else { return };
        match connection.side {
            Side::Accepted => {
                self.accepted_count -= 1;
                self.ends.push(Pending::Closed { conn: id });
            }
            Side::Opened { addr } => {
                self.by_addr.remove(&addr);
                self.ends.push(Pending::Lost { addr, how });
            }
        }
        // The connection's only descriptor is dropped here, which also removes the connection from the
        // poller.
    }

    /// Tells the poller what this connection waits for now.
    fn watch(&mut self, id: ConnId) {
        let Some(connection) = self.slots.find(id) else { return };
        let wanted = connection.wanted_interest(&self.limits);
        if wanted != connection.interest {
            connection.interest = wanted;
            self.stats.interest_changes += 1;
            if self.poller.modify(&connection.socket, id.0, wanted).is_err() {
                self.end(id, Lost::Broken);
            }
        }
    }

    /// Enters a new connection and its deadline. False when the poller does not take it.
    fn enter(&mut self, mut connection: Connection) -> bool {
        connection.interest = connection.wanted_interest(&self.limits);
        if self.poller.add(&connection.socket, connection.id.0, connection.interest).is_err() {
            return false;
        }
        self.timers.arm(&mut connection);
        self.slots.insert(connection);
        true
    }
}
