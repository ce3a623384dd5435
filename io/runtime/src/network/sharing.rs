//! Connections over memory that two processes of this host share.
//!
//! The poller cannot see such memory. So the loop looks into it at each look, and asks the poller only at every few looks
//! while it is awake. Before the loop sleeps it leaves word in each ring; whoever sends then rings the bell, which the
//! poller sees.
//!
//! Invariants:
//! - a loop that sleeps has left word in every ring that it hears, and has looked into it afterwards;
//! - however busy shared memory is, the poller is asked after a few turns.
//!
//! Not here: the rings (ramhold-ring), who may connect (link/local).

use super::limits::NetworkLimits;
use super::slots::Slots;
use crate::connection::{Connection, Phase, Side};
use crate::poll::{Interest, Ready};
use ramhold_base::map::FastMap;
use ramhold_base::{ConnId, Instant};
use std::net::SocketAddr;
use std::time::Duration;

/// Looks into shared memory for each question to the poller, which costs some ten times as much. A look that finds
/// something counts for several: what it leads to takes time, and others wait.
const LOOKS_PER_POLL: u32 = 32;
const LOOKS_OF_FOUND: u32 = 4;
/// A process that has ended a connection over shared memory before it said anything is reached over TCP for so long: it
/// may share with too many, or be of a version that shares differently.
const AVOIDED: Duration = Duration::from_secs(10);

/// The loop's next step after a look into shared memory.
pub(super) enum Look {
    /// The poller is not asked this time.
    Enough,
    Poll(Option<Duration>),
    /// Word was left everywhere.
    Sleep,
}

#[derive(Default)]
pub(super) struct Sharing {
    ids: Vec<ConnId>,
    accepted_count: usize,
    looks: u32,
    avoided: FastMap<SocketAddr, Instant>,
}

impl Sharing {
    pub(super) fn accepted_count(&self) -> usize {
        self.accepted_count
    }

    pub(super) fn enter(&mut self, id: ConnId, side: Side) {
        self.ids.push(id);
        self.accepted_count += usize::from(side == Side::Accepted);
    }

    pub(super) fn forget(&mut self, id: ConnId, side: Side) {
        self.ids.retain(|known| *known != id);
        self.accepted_count -= usize::from(side == Side::Accepted);
    }

    /// An opened connection has ended.
    pub(super) fn opened_ended(&mut self, addr: SocketAddr, connection: &Connection) {
        if connection.link.is_shared() && !connection.spoken {
            self.avoided.insert(addr, Instant::ZERO);
        }
    }

    /// Whether this address is reached over TCP, although its process is on this host.
    pub(super) fn avoids(&mut self, addr: SocketAddr, now: Instant) -> bool {
        let Some(until) = self.avoided.get_mut(&addr) else { return false };
        if *until == Instant::ZERO {
            *until = now + AVOIDED;
        }
        let avoids = now < *until;
        if !avoids {
            self.avoided.remove(&addr);
        }
        avoids
    }

    /// Looks into shared memory, and tells what to ask the poller then.
    pub(super) fn look(
        &mut self,
        among: &mut Slots,
        limits: &NetworkLimits,
        wait: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> Look {
        if self.ids.is_empty() {
            return Look::Poll(wait);
        }
        let found = self.find(among, limits, ready);
        if found || wait.is_some_and(|wait| wait.is_zero()) {
            self.looks += if found { LOOKS_OF_FOUND } else { 1 };
            if self.looks < LOOKS_PER_POLL {
                return Look::Enough;
            }
            self.looks = 0;
            return Look::Poll(Some(Duration::ZERO));
        }
        self.looks = 0;
        let is_quiet = self.leave_word(among, limits);
        if is_quiet {
            return Look::Sleep;
        }
        self.take_word_back(among);
        self.find(among, limits, ready);
        Look::Poll(Some(Duration::ZERO))
    }

    fn find(&self, among: &mut Slots, limits: &NetworkLimits, ready: &mut Vec<Ready>) -> bool {
        let before = ready.len();
        for id in &self.ids {
            let Some(connection) = among.find(*id) else { continue };
            let mut flags = Interest::empty();
            flags.set(Interest::IN, connection.link.has_input() && connection.hears(limits));
            let waits = connection.output.len() > 0 && !connection.dirty;
            flags.set(Interest::OUT, waits && connection.link.has_room());
            if !flags.is_empty() {
                ready.push(Ready { key: id.0, flags, polled: false });
            }
        }
        ready.len() > before
    }

    /// False: something has come meanwhile.
    fn leave_word(&self, among: &mut Slots, limits: &NetworkLimits) -> bool {
        self.ids.iter().all(|id| {
            let Some(connection) = among.find(*id) else { return true };
            !connection.hears(limits) || connection.link.sleeps()
        })
    }

    pub(super) fn take_word_back(&self, among: &mut Slots) {
        for id in &self.ids {
            if let Some(connection) = among.find(*id)
                && connection.phase != Phase::Connecting
            {
                connection.link.wakes();
            }
        }
    }
}
