//! Connections over memory that two processes of this host share.
//!
//! The poller cannot see such memory. So the loop looks into it at each look, and asks the poller only at every few looks
//! while it is awake. Before the loop sleeps it leaves word in each ring; whoever sends then rings the bell, which the
//! poller sees.
//!
//! Invariants:
//! - a loop that sleeps has left word in every ring that it hears, and in every ring that had no room for its output, and
//!   has looked into it afterwards;
//! - however busy shared memory is, the poller is asked after some microseconds.
//!
//! Not here: the rings (ramhold-ring), who may connect (link/local).

use super::limits::NetworkLimits;
use super::slots::Slots;
use crate::connection::{Connection, Phase, Side};
use crate::link::local::Strangers;
use crate::poll::{Interest, Ready};
use ramhold_base::map::FastMap;
use ramhold_base::{ConnId, Instant};
use std::net::SocketAddr;
use std::time::Duration;

/// The poller is asked whenever so much time has passed: it costs some ten times as much as a look into shared memory.
/// Less while nothing is found, so that whoever comes over a socket waits as long as before.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
const POLL_INTERVAL_IDLE: Duration = Duration::from_micros(2);
/// A process that has ended a connection over shared memory before it said anything may be of a version that shares
/// differently. Connections that are opened within this time from the next attempt on go over TCP.
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
    /// When the poller was asked last.
    asked: Instant,
    strangers: Strangers,
    avoided: FastMap<SocketAddr, Instant>,
}

impl Sharing {
    pub(super) fn strangers(&self) -> &Strangers {
        &self.strangers
    }

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
        now: Instant,
        wait: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> Look {
        if self.ids.is_empty() {
            return Look::Poll(wait);
        }
        let found = self.find(among, limits, false, ready);
        if found || wait.is_some_and(|wait| wait.is_zero()) {
            let interval = if found { POLL_INTERVAL } else { POLL_INTERVAL_IDLE };
            if now < self.asked + interval {
                return Look::Enough;
            }
            self.asked = now;
            return Look::Poll(Some(Duration::ZERO));
        }
        self.asked = now;
        let is_quiet = self.leave_word(among, limits);
        if is_quiet {
            return Look::Sleep;
        }
        self.take_word_back(among);
        self.find(among, limits, false, ready);
        Look::Poll(Some(Duration::ZERO))
    }

    /// Appends what is ready among the connections that are heard before those of clients.
    pub(super) fn look_at_first(&self, among: &mut Slots, limits: &NetworkLimits, ready: &mut Vec<Ready>) {
        self.find(among, limits, true, ready);
    }

    fn find(
        &self,
        among: &mut Slots,
        limits: &NetworkLimits,
        only_first: bool,
        ready: &mut Vec<Ready>,
    ) -> bool {
        let before = ready.len();
        for id in &self.ids {
            let Some(connection) = among.find(*id).filter(|found| found.goes_first || !only_first) else {
                continue;
            };
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
            let is_full = connection.output.len() == 0 || connection.link.waits_for_room();
            is_full && (!connection.hears(limits) || connection.link.sleeps())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use ramhold_ring::{DATA_WORDS_MIN, Memory, Side as End, ends};
    use std::mem::MaybeUninit;
    use std::os::unix::net::UnixStream;

    // E2: the other side reads while this one sends, so nothing was left in the ring that asks for a bell; then this one
    // has sent its share of the turn, and there is too little room to go on.
    #[test]
    fn a_loop_that_sleeps_over_output_has_left_word_that_it_waits_for_room() {
        let (ours, file) = Memory::new(DATA_WORDS_MIN).unwrap();
        let (_, mut receiver) = ends(Memory::handed(&file, DATA_WORDS_MIN).unwrap(), End::Other);
        let (bell, _other) = UnixStream::pair().unwrap();
        let mut slots = Slots::default();
        let id = slots.next_id();
        let link = Link::sharing(bell.into(), ours, End::Maker);
        let mut connection = Connection::new(id, link, Side::Accepted, Phase::Open, Instant::ZERO);
        connection.output.push(&[7; 400]);
        connection.output.flush(&mut connection.link);
        assert_eq!(connection.output.len(), 0);
        connection.output.push(&[7; 400]);
        slots.insert(connection);
        let mut sharing = Sharing::default();
        sharing.enter(id, Side::Accepted);

        let mut ready = Vec::new();
        let look = sharing.look(&mut slots, &NetworkLimits::default(), Instant(1), None, &mut ready);
        assert!(matches!(look, Look::Sleep) && ready.is_empty());
        let mut room = [MaybeUninit::new(0); 500];
        assert_eq!(receiver.pull(&mut room), Ok((400, true)), "it asks to be woken");
        // Now there is room, and nobody sleeps.
        let look = sharing.look(&mut slots, &NetworkLimits::default(), Instant(2), None, &mut ready);
        assert!(matches!(look, Look::Enough | Look::Poll(Some(Duration::ZERO))) && ready.len() == 1);
    }

    // E2: a busy ring keeps nobody from the poller for long.
    #[test]
    fn the_poller_is_asked_however_busy_the_memory_is() {
        let (ours, file) = Memory::new(DATA_WORDS_MIN).unwrap();
        let (mut sender, _) = ends(Memory::handed(&file, DATA_WORDS_MIN).unwrap(), End::Other);
        let (bell, _other) = UnixStream::pair().unwrap();
        let mut slots = Slots::default();
        let id = slots.next_id();
        let link = Link::sharing(bell.into(), ours, End::Maker);
        slots.insert(Connection::new(id, link, Side::Accepted, Phase::Open, Instant::ZERO));
        let mut sharing = Sharing::default();
        sharing.enter(id, Side::Accepted);
        assert_eq!(sender.push(b"never taken out"), Ok(15));
        let _ = sender.publish();
        let mut asked = Vec::new();
        for micros in 1000..1100 {
            let now = Instant(micros * 1000);
            let mut ready = Vec::new();
            let look =
                sharing.look(&mut slots, &NetworkLimits::default(), now, Some(Duration::ZERO), &mut ready);
            assert_eq!(ready.len(), 1);
            if matches!(look, Look::Poll(Some(Duration::ZERO))) {
                asked.push(micros);
            }
        }
        assert_eq!(asked, [1000, 1020, 1040, 1060, 1080]);
    }
}
