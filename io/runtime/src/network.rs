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
mod first;
mod hearing;
pub(crate) mod limits;
mod placed;
mod sending;
mod sharing;
mod slots;
mod timing;

pub(crate) use hearing::{Fed, Speaks};

use crate::connection::{Connection, Side};
use crate::error::StartError;
use crate::pending::Pending;
use crate::poll::{Interest, Poller, Ready};
use crate::receive::Left;
use accepting::Listener;
pub(crate) use accepting::{ListenAt, Others};
pub use limits::{NetworkLimits, Stats, Transport};
use ramhold_base::limits::{CONNECTION_COUNT_MAX, SERVER_COUNT_MAX};
use ramhold_base::map::FastMap;
use ramhold_base::{ConnId, Instant, Lost};
use ramhold_wire::frame::FRAME_BYTES_MAX;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sharing::{Look, Sharing};
use slots::Slots;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use timing::Timers;

/// Poller keys that are no connection; listeners count down from theirs.
const KEY_WAKER: u64 = u64::MAX;
const KEY_LISTENER: u64 = u64::MAX - 1;
const LISTENER_COUNT_MAX: u64 = 32;

/// Connections that this process opens: one to each server and coordinator, with room for those just replaced.
const OPENED_COUNT_MAX: usize = 2 * SERVER_COUNT_MAX;
const _: () = assert!(CONNECTION_COUNT_MAX + OPENED_COUNT_MAX <= slots::SLOT_COUNT_MAX);

pub(crate) struct Network {
    pub limits: NetworkLimits,
    pub stats: Stats,
    /// Ends of connections, for the machine.
    pub ends: Vec<Pending>,
    poller: Poller,
    /// Watches only the connections that are heard before those of clients, and the waker.
    first: Poller,
    pub hears_bytes: bool,
    /// An address at which processes of this host cannot be served past the network, and why.
    pub no_local: Option<(SocketAddr, Errno)>,
    listeners: Vec<Listener>,
    slots: Slots,
    accepted_count: usize,
    /// Opened connections that have not ended.
    by_addr: FastMap<SocketAddr, ConnId>,
    dirty: Vec<ConnId>,
    backlog: Vec<ConnId>,
    timers: Timers,
    left: Left,
    sharing: Sharing,
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
        reached_at: Option<SocketAddr>,
        mut limits: NetworkLimits,
        waker: impl AsFd,
    ) -> Result<Network, StartError> {
        assert!(limits.connection_count_max <= CONNECTION_COUNT_MAX);
        assert!(limits.output_bytes_max >= FRAME_BYTES_MAX);
        let share = u64::from(limits.process_share.max(1));
        let descriptors = getrlimit(Resource::Nofile).current.map(|all| all / share);
        limits.connection_count_max = limits.connection_count_max.min(accepting::accepted_max(descriptors));
        let refused =
            |error: rustix::io::Errno| StartError::System { what: "an event queue", error: error.into() };
        let poller = Poller::new().map_err(refused)?;
        let first = Poller::new().map_err(refused)?;
        for poller in [&poller, &first] {
            poller.add(&waker, KEY_WAKER, Interest::IN).map_err(refused)?;
        }
        assert!(2 * (listen.len() as u64) < LISTENER_COUNT_MAX);
        let mut listeners = Vec::new();
        for (key, at) in (0..).map(|place| KEY_LISTENER - place).zip(listen) {
            listeners.push(Listener::new(at, key, &poller)?);
        }
        let mut no_local = None;
        if limits.shared_count_max > 0 {
            let alone =
                listeners.iter().filter(|listener| listener.is_alone).filter_map(|listener| listener.addr);
            for addr in alone.chain(reached_at).collect::<BTreeSet<_>>() {
                let key = KEY_LISTENER - listeners.len() as u64;
                match Listener::local(addr, key, &poller) {
                    Ok(listener) => listeners.push(listener),
                    Err(error) => no_local = no_local.or(Some((addr, error))),
                }
            }
        }
        Ok(Network {
            limits,
            stats: Stats::default(),
            ends: Vec::new(),
            poller,
            first,
            hears_bytes: false,
            no_local,
            listeners,
            slots: Slots::default(),
            accepted_count: 0,
            by_addr: FastMap::default(),
            dirty: Vec::new(),
            backlog: Vec::new(),
            timers: Timers::default(),
            left: Left::default(),
            sharing: Sharing::default(),
        })
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.listeners.first().and_then(|listener| listener.addr)
    }

    /// Connections that are there now, accepted and opened.
    pub(crate) fn connection_count(&self) -> usize {
        self.slots.count()
    }

    /// The other side of a connection, for reports.
    pub(crate) fn peer(&mut self, id: ConnId) -> Option<SocketAddr> {
        let connection = self.slots.find(id)?;
        SocketAddr::try_from(rustix::net::getpeername(connection.link.descriptor()).ok()??).ok()
    }

    /// Our side of a connection.
    pub(crate) fn own(&mut self, id: ConnId) -> Option<SocketAddr> {
        let connection = self.slots.find(id)?;
        SocketAddr::try_from(rustix::net::getsockname(connection.link.descriptor()).ok()?).ok()
    }

    /// Waits at most `wait` (none: for ever) and appends what is ready. False: only shared memory was looked into.
    pub(crate) fn wait(
        &mut self,
        now: Instant,
        wait: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> rustix::io::Result<bool> {
        let look = self.sharing.look(&mut self.slots, &self.limits, now, wait, ready);
        match look {
            Look::Enough => return Ok(false),
            Look::Poll(wait) => self.poller.wait(wait, ready)?,
            Look::Sleep => {
                self.poller.wait(wait, ready)?;
                self.sharing.take_word_back(&mut self.slots);
            }
        }
        Ok(true)
    }

    pub(crate) fn on_ready(&mut self, ready: Ready, now: Instant) -> Event {
        match ready.key {
            KEY_WAKER => Event::Woken,
            key if key > KEY_LISTENER - LISTENER_COUNT_MAX => {
                self.accept((KEY_LISTENER - key) as usize, now);
                Event::Done
            }
            key => self.on_connection_ready(ConnId(key), ready, now),
        }
    }

    /// Takes a connection out and tells the machine; `how` matters for one that was opened.
    fn end(&mut self, id: ConnId, how: Lost) {
        let Some(connection) = self.slots.remove(id) else { return };
        if connection.link.is_shared() {
            self.sharing.forget(id, connection.side);
        }
        match connection.side {
            Side::Accepted => {
                self.accepted_count -= 1;
                self.ends.push(Pending::Closed { conn: id });
            }
            Side::Opened { addr } => {
                self.by_addr.remove(&addr);
                self.sharing.opened_ended(addr, &connection);
                self.ends.push(Pending::Lost { addr, how });
            }
        }
        // The connection's only descriptor is dropped here, which also removes the connection from the
        // pollers.
    }

    /// Tells the poller what this connection waits for now.
    fn watch(&mut self, id: ConnId) {
        let Some(connection) = self.slots.find(id) else { return };
        let wanted = connection.wanted_interest(&self.limits);
        if wanted != connection.interest {
            connection.interest = wanted;
            self.stats.interest_changes += 1;
            if self.poller.modify(connection.link.descriptor(), id.0, wanted).is_err() {
                self.end(id, Lost::Broken);
            }
        }
    }

    /// Enters a new connection and its deadline. False when the poller does not take it.
    fn enter(&mut self, mut connection: Connection) -> bool {
        connection.interest = connection.wanted_interest(&self.limits);
        if self.poller.add(connection.link.descriptor(), connection.id.0, connection.interest).is_err() {
            return false;
        }
        self.timers.arm(&mut connection);
        if connection.link.is_shared() {
            self.sharing.enter(connection.id, connection.side);
        }
        let (id, is_opened) = (connection.id, connection.side != Side::Accepted);
        self.slots.insert(connection);
        if is_opened {
            self.let_first(id);
        }
        true
    }
}
