//! A connection's bytes go through a link: a socket, or memory that another process of this host shares.
//!
//! ```text
//!   opened, elsewhere  ─────────────────────────────► Socket (TCP)
//!   opened, this host  ── hello, with memory ───────► Shared
//!   accepted at an address ─────────────────────────► Socket (TCP)
//!   accepted from this host ── Arriving ── hello ──┬► Shared   (memory came with it)
//!                                                  └► Socket   (Unix, none came)
//! ```
//!
//! The code that sends and receives does not see which it is: `recv` and `send` answer as a socket would. Shared memory has a
//! Unix socket beside it, the bell: a byte in it wakes the other side, and its end is the end of the connection.
//!
//! Not here: who may connect from this host, and when (local, network).

pub(crate) mod local;

use local::{Hello, Strangers};
use ramhold_ring::{Memory, Receiver, Sender, Side};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::SocketAddr;

pub(crate) struct Link {
    /// Over which the bytes go, or the bell of shared memory.
    socket: OwnedFd,
    kind: Kind,
}

enum Kind {
    Socket,
    /// Accepted from a process of this host, which has not said yet how it will speak.
    Arriving,
    Shared(Shared),
}

pub(crate) struct Shared {
    sender: Sender<Memory>,
    receiver: Receiver<Memory>,
    memory: Memory,
    /// The other side sends no more than what lies in the memory.
    ended: bool,
    /// This side has made the memory, and the other one has not rung yet: it may still refuse.
    may_be_refused: bool,
}

/// Taken from a bell in one turn. One byte is enough to be woken by; more come of a side that is wrong.
const RINGS_MAX: usize = 4096;

impl Link {
    pub(crate) fn socket(socket: OwnedFd) -> Link {
        Link { socket, kind: Kind::Socket }
    }

    pub(crate) fn arriving(socket: OwnedFd) -> Link {
        Link { socket, kind: Kind::Arriving }
    }

    /// Connects to whoever listens at this address, if it is on this host and can be trusted. Does not wait.
    pub(crate) fn open_local(
        addr: SocketAddr,
        shares: bool,
        strangers: &Strangers,
    ) -> rustix::io::Result<Link> {
        let (socket, memory) = local::open(addr, shares, strangers)?;
        let kind = memory.map_or(Kind::Socket, |memory| Kind::Shared(Shared::new(memory, Side::Maker)));
        Ok(Link { socket, kind })
    }

    #[cfg(test)]
    pub(crate) fn sharing(bell: OwnedFd, memory: Memory, side: Side) -> Link {
        Link { socket: bell, kind: Kind::Shared(Shared::new(memory, side)) }
    }

    /// The descriptor that the poller watches.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.socket
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Shared(_))
    }

    pub(crate) fn is_arriving(&self) -> bool {
        matches!(self.kind, Kind::Arriving)
    }

    /// Takes the hello of a process that has connected from this host. True: it offered memory and was refused. An error: the
    /// hello has not come yet (`AGAIN`) or is wrong.
    pub(crate) fn arrive(&mut self, may_share: bool) -> rustix::io::Result<bool> {
        let hello = local::receive_hello(&self.socket, may_share)?;
        let is_refused = matches!(hello, Hello::Refused);
        self.kind = match hello {
            Hello::Plain | Hello::Refused => Kind::Socket,
            Hello::Memory(memory) => Kind::Shared(Shared::new(memory, Side::Other)),
        };
        Ok(is_refused)
    }

    /// Receives what has come, at most so much; zero bytes are the end.
    pub(crate) fn recv(&mut self, out: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize> {
        match &mut self.kind {
            Kind::Socket => {
                let ((filled, _), _) = rustix::net::recv(&self.socket, out, RecvFlags::DONTWAIT)?;
                Ok(filled.len())
            }
            Kind::Arriving => Err(Errno::AGAIN),
            Kind::Shared(shared) => shared.recv(&self.socket, out),
        }
    }

    /// Sends two pieces, of which the second may be empty: how many bytes of them were taken.
    pub(crate) fn send(&mut self, parts: [&[u8]; 2]) -> rustix::io::Result<usize> {
        match &mut self.kind {
            Kind::Socket => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                if parts[1].is_empty() {
                    return rustix::net::send(&self.socket, parts[0], flags);
                }
                let mut nothing = SendAncillaryBuffer::default();
                rustix::net::sendmsg(&self.socket, &parts.map(IoSlice::new), &mut nothing, flags)
            }
            Kind::Arriving => Err(Errno::AGAIN),
            Kind::Shared(shared) => shared.send(&self.socket, parts),
        }
    }

    /// Tells the other side that no more is sent.
    pub(crate) fn end_sending(&self) -> rustix::io::Result<()> {
        rustix::net::shutdown(&self.socket, Shutdown::Write)
    }

    /// The poller says that the bell was rung, or that the other side has ended. If the other side shares no memory, this is
    /// a socket from now on; gives what was sent through the memory, of which it has read nothing.
    pub(crate) fn hear_bell(&mut self) -> Option<Vec<u8>> {
        let Kind::Shared(shared) = &mut self.kind else { return None };
        let mut rings = [0; RINGS_MAX];
        loop {
            // Bytes that follow a refusal are no rings of the bell.
            let count_max = if shared.may_be_refused { 1 } else { RINGS_MAX };
            match rustix::net::recv(&self.socket, &mut rings[..count_max], RecvFlags::DONTWAIT) {
                Ok((_, 1..)) if shared.may_be_refused && rings[0] == local::REFUSED => break,
                Ok((_, 1..)) if shared.may_be_refused => {
                    shared.may_be_refused = false;
                    continue;
                }
                Ok((_, 1..)) | Err(Errno::AGAIN) => return None,
                Err(Errno::INTR) => continue,
                Ok((_, 0)) | Err(_) => {
                    shared.ended = true;
                    return None;
                }
            }
        }
        let unread = ramhold_ring::take_back(shared.memory.clone(), Side::Maker);
        if unread.is_err() {
            // It has read, or stored what cannot be.
            shared.ended = true;
            return None;
        }
        self.kind = Kind::Socket;
        unread.ok()
    }

    /// The bell has told the end, and need not be watched for more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(&self.kind, Kind::Shared(shared) if shared.ended)
    }

    /// Whether something lies in shared memory, or its end.
    pub(crate) fn has_input(&self) -> bool {
        matches!(&self.kind, Kind::Shared(shared) if shared.ended || shared.receiver.has_input())
    }

    /// Whether a good part of what waits may go into shared memory now. A broken ring shows at the next `send`.
    pub(crate) fn has_room(&mut self) -> bool {
        match &mut self.kind {
            Kind::Shared(shared) => shared.sender.finds_room().unwrap_or(true),
            Kind::Socket | Kind::Arriving => false,
        }
    }

    /// Leaves word for the other side to ring the bell when there is room. False: there is some already, or it is broken.
    pub(crate) fn waits_for_room(&mut self) -> bool {
        match &mut self.kind {
            Kind::Shared(shared) => shared.sender.waits() == Ok(false),
            Kind::Socket | Kind::Arriving => true,
        }
    }

    /// Leaves word for the other side to ring the bell. False: something has come already, or its end.
    pub(crate) fn sleeps(&mut self) -> bool {
        match &mut self.kind {
            Kind::Shared(shared) => !shared.ended && shared.receiver.sleeps(),
            Kind::Socket | Kind::Arriving => true,
        }
    }

    pub(crate) fn wakes(&mut self) {
        if let Kind::Shared(shared) = &mut self.kind {
            shared.receiver.wakes();
        }
    }
}

impl Shared {
    fn new(memory: Memory, side: Side) -> Shared {
        let (sender, receiver) = ramhold_ring::ends(memory.clone(), side);
        Shared { sender, receiver, memory, ended: false, may_be_refused: side == Side::Maker }
    }

    fn recv(&mut self, bell: &OwnedFd, out: &mut [MaybeUninit<u8>]) -> rustix::io::Result<usize> {
        let (filled, waits) = self.receiver.pull(out).map_err(|_| Errno::PROTO)?;
        if waits {
            ring(bell);
        }
        if filled == 0 && !self.ended { Err(Errno::AGAIN) } else { Ok(filled) }
    }

    fn send(&mut self, bell: &OwnedFd, parts: [&[u8]; 2]) -> rustix::io::Result<usize> {
        let wanted = parts[0].len() + parts[1].len();
        let mut taken = 0;
        loop {
            let first = parts[0].len().min(taken);
            let more = self.push([&parts[0][first..], &parts[1][taken - first..]])?;
            taken += more;
            // A sender that finds no room leaves word, and looks once more.
            if taken == wanted || !self.sender.waits().map_err(|_| Errno::PROTO)? {
                break;
            }
        }
        if self.sender.publish() {
            ring(bell);
        }
        if taken == 0 { Err(Errno::AGAIN) } else { Ok(taken) }
    }

    fn push(&mut self, [first, second]: [&[u8]; 2]) -> rustix::io::Result<usize> {
        let taken = self.sender.push(first).map_err(|_| Errno::PROTO)?;
        if taken < first.len() {
            return Ok(taken);
        }
        Ok(taken + self.sender.push(second).map_err(|_| Errno::PROTO)?)
    }
}

/// Wakes the other side. A bell that is full wakes it as well, and one that is broken tells its end.
fn ring(bell: &OwnedFd) {
    let _ = rustix::net::send(bell, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
