//! One connection and the phase of its life.
//!
//! ```text
//!   Connecting ──► Open ──► Flushing ──► Draining ──► gone
//!   (opened only)    │      (bytes sent   (has told the peer that no more comes; discards
//!                    │       before the    its input until the peer ends too, or a short
//!                    │       close go out) time is over, so that a reset does not overtake
//!                    ▼                     our last bytes)
//!                  gone (broken, reset, over a limit)
//! ```

use crate::link::Link;
use crate::network::limits::NetworkLimits;
use crate::poll::Interest;
use crate::receive::ReceiveBuffer;
use crate::send::SendBuffer;
use ramhold_base::time::earliest;
use ramhold_base::{ConnId, Instant};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::sockopt;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Accepted,
    Opened { addr: SocketAddr },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Connecting,
    Open,
    Flushing,
    Draining,
}

/// Whether whole frames wait in the input for a later turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backlog {
    Empty,
    /// Waits in the network's list; the next turn hands them on.
    Listed,
    /// Waits until what this connection was answered has gone out, or until the machine wants it.
    Held,
}

/// The bytes that the other side of a connection must fetch, and the time by which it must.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fetching {
    pub until: Instant,
    /// Bytes sent, of all that ever went out, by then.
    pub goal: u64,
}

/// A reader must fetch this part of the output that waits for it in time: the bytes divided by `FETCHED_PART`, at least
/// `FETCHED_BYTES_MIN`, or all if less waits.
const FETCHED_PART: usize = 16;
const FETCHED_BYTES_MIN: usize = 64 * 1024;

pub(crate) struct Connection {
    pub id: ConnId,
    pub link: Link,
    pub side: Side,
    pub phase: Phase,
    pub input: ReceiveBuffer,
    pub output: SendBuffer,
    pub backlog: Backlog,
    /// The interest that the poller was told last.
    pub interest: Interest,
    /// The other side has said that it sends no more.
    pub ended: bool,
    /// A first whole frame has come.
    pub spoken: bool,
    /// Its first byte was no frame's, and it is heard as bytes.
    pub is_bytes: bool,
    /// Heard before the requests of clients.
    pub goes_first: bool,
    /// Is in the list of those to flush.
    pub dirty: bool,
    /// Something came or went since the last sweep.
    pub busy: bool,
    /// When this connection has waited too long for what its phase waits for.
    pub deadline: Option<Instant>,
    /// By when the output must be down to so many bytes.
    pub fetching: Option<Fetching>,
    /// The entry of this connection in the heap of deadlines that counts.
    pub armed: Option<Instant>,
}

impl Connection {
    pub(crate) fn new(id: ConnId, link: Link, side: Side, phase: Phase, deadline: Instant) -> Connection {
        Connection {
            id,
            link,
            side,
            phase,
            input: ReceiveBuffer::default(),
            output: SendBuffer::default(),
            backlog: Backlog::Empty,
            interest: Interest::empty(),
            ended: false,
            spoken: false,
            is_bytes: false,
            goes_first: false,
            dirty: false,
            busy: true,
            deadline: Some(deadline),
            fetching: None,
            armed: None,
        }
    }

    /// An accepted connection whose answers are not fetched is not heard until they are: so a stranger cannot make us
    /// hold answers without bound. One that we opened is always heard, or two processes could wait for each other.
    pub(crate) fn is_paused(&self, limits: &NetworkLimits) -> bool {
        self.side == Side::Accepted && self.output.len() > limits.output_bytes_max / 4
    }

    /// Whether what comes is taken in now.
    pub(crate) fn hears(&self, limits: &NetworkLimits) -> bool {
        match self.phase {
            Phase::Open => !self.ended && self.backlog == Backlog::Empty && !self.is_paused(limits),
            Phase::Draining => true,
            Phase::Connecting | Phase::Flushing => false,
        }
    }

    /// The interest that the poller should have. Output of a connection that is dirty is flushed before the loop waits;
    /// asking the poller about it would cost two system calls per turn, and tell nothing. A bell is always heard: it is
    /// rung for room, too.
    pub(crate) fn wanted_interest(&self, limits: &NetworkLimits) -> Interest {
        let mut interest = Interest::empty();
        if self.link.is_shared() {
            interest.set(Interest::IN, !self.link.has_ended());
            return interest;
        }
        interest.set(Interest::IN, self.hears(limits));
        interest
            .set(Interest::OUT, self.phase == Phase::Connecting || (self.output.len() > 0 && !self.dirty));
        interest
    }

    /// The next thing that this connection must have done by some time.
    pub(crate) fn due(&self) -> Option<Instant> {
        earliest(self.deadline, self.fetching.map(|fetching| fetching.until))
    }

    /// After a flush: while output waits for the other side of an accepted connection, it must fetch a sixteenth of it
    /// within each `fetch_within`, and at least 64 KiB or all there is. Otherwise whoever asks for much and reads a byte now
    /// and then would hold memory for as long as he likes.
    pub(crate) fn time_fetching(&mut self, now: Instant, limits: &NetworkLimits) {
        let waiting = self.output.len();
        if waiting == 0 || self.side != Side::Accepted || self.phase != Phase::Open {
            self.fetching = None;
            return;
        }
        if self.fetching.is_none_or(|fetching| self.output.sent() >= fetching.goal) {
            let part = (waiting / FETCHED_PART).max(FETCHED_BYTES_MIN).min(waiting);
            let goal = self.output.sent() + part as u64;
            self.fetching = Some(Fetching { until: now + limits.fetch_within, goal });
        }
    }

    /// Sets the time by which an accepted, open connection must have brought its next whole frame;
    /// `handed` says that one has just been handed on.
    pub(crate) fn time_next_frame(&mut self, handed: bool, now: Instant, limits: &NetworkLimits) {
        self.spoken |= handed;
        if self.side != Side::Accepted || self.phase != Phase::Open || !self.spoken {
            return; // The timeout for the first frame began at the accept.
        }
        let begun = !self.input.is_empty() && self.backlog == Backlog::Empty && !self.is_paused(limits);
        self.deadline = match self.deadline {
            _ if !begun => None,
            Some(deadline) if !handed => Some(deadline),
            Some(_) | None => Some(now + limits.frame_within),
        };
    }
}

/// How long bytes may be on their way unacknowledged by the other host, before a connection that this side has opened is
/// broken. The kernel repeats them at longer and longer intervals: after some seconds without a network it takes as many
/// again until it looks whether there is one, and nothing passes meanwhile. The side that opened a connection opens another
/// one and asks again, so this is short; a process that is stopped does not count, its host acknowledges.
const OPENED_SILENT_MAX: Duration = Duration::from_secs(1);
/// The same for accepted ones: longer, so that who is slow to read what it asked for is not cut off.
const ACCEPTED_SILENT_MAX: Duration = Duration::from_secs(30);

/// Small messages go out at once, and a host that vanished without a word is noticed.
pub(crate) fn tune(socket: &OwnedFd, side: Side) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(socket, 4)?;
    let silent_max = match side {
        Side::Accepted => ACCEPTED_SILENT_MAX,
        Side::Opened { .. } => OPENED_SILENT_MAX,
    };
    sockopt::set_tcp_user_timeout(socket, silent_max.as_millis() as u32)?;
    do_not_pace(socket);
    Ok(())
}

/// Has what is sent go out as fast as windows allow, where the system's default is to pace it by timers (BBR), which costs
/// as much processor time as all the copying and wins nothing within a data centre. Any other default stays.
pub fn do_not_pace(socket: impl AsFd) {
    const PACING: &str = "bbr";
    const NOT_PACING: &str = "cubic";
    if sockopt::tcp_congestion(&socket).is_ok_and(|name| name.starts_with(PACING)) {
        // If the other algorithm is missing or may not be chosen, the default stays as well.
        let _ = sockopt::set_tcp_congestion(&socket, NOT_PACING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, socket};

    #[test]
    fn what_is_sent_is_not_paced_and_any_other_choice_stays() {
        for (before, after) in [("bbr", "cubic"), ("reno", "reno")] {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            // Not every system has all of these algorithms.
            if sockopt::set_tcp_congestion(&socket, before).is_ok() {
                tune(&socket, Side::Accepted).unwrap();
                assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), after);
            }
        }
    }
}
