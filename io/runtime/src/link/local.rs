//! Connections between processes of one host: a name beside each address, and the hello over it.
//!
//! A process that listens at 10.0.0.5:7401 also listens at the abstract Unix name `ramhold/10.0.0.5:7401`. Such names
//! belong to a network namespace, as addresses do. So a process that finds the name of an address is on the same host as
//! whoever listens there, and one that does not find it connects over TCP. The name is free again when its holder ends.
//!
//! Only processes of one user share memory: both sides look at the user whom the kernel names as the other's. Any process
//! of the host can take a name before a server does, and whoever may send descriptors could make this process wait: closing
//! a socket that came in a message can take as long as its sender wants (`SO_LINGER`), even if nobody has received the
//! message. So a connection with another user is closed on a thread of its own (`Strangers`).
//!
//! The hello is four bytes, and may bring the descriptor of sealed memory (docs/formats/shared-memory.md). A process that
//! shares with too many already answers it with one byte and reads nothing from the memory; both sides then go on over the
//! socket.

use ramhold_ring::Memory;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Words of data in each ring: 256 KiB, a quarter of a second-level cache.
const DATA_WORDS: usize = 32 * 1024;
const HELLO_PLAIN: [u8; 4] = *b"RHL\x01";
const HELLO_MEMORY: [u8; 4] = *b"RHS\x01";
/// The answer of who shares no more memory.
pub(super) const REFUSED: u8 = b'N';
/// Connections with other users that are being closed. With so many, nobody of this host is met past the network.
const STRANGER_COUNT_MAX: usize = 16;

/// How a process of this host will speak.
pub(crate) enum Hello {
    /// Over the Unix socket itself.
    Plain,
    Memory(Memory),
    /// It offered memory and was told to do without.
    Refused,
}

/// Closes connections with processes of other users where nobody waits for it.
#[derive(Clone, Default)]
pub(crate) struct Strangers(Arc<AtomicUsize>);

impl Strangers {
    pub(crate) fn are_too_many(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= STRANGER_COUNT_MAX
    }

    /// The socket, if it leads to a process of this user. Otherwise it is closed elsewhere.
    pub(crate) fn sort_out(&self, socket: OwnedFd) -> rustix::io::Result<OwnedFd> {
        let other = sockopt::socket_peercred(&socket)?;
        if other.uid == rustix::process::geteuid() {
            return Ok(socket);
        }
        self.close(socket);
        Err(Errno::PERM)
    }

    /// Closes a socket to which others may have sent descriptors.
    pub(crate) fn close(&self, socket: OwnedFd) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let count = Arc::clone(&self.0);
        let closes = move || {
            drop(socket);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        // If there is no thread for it, the closure and its socket are dropped here: this may wait, but loses no
        // descriptor.
        if std::thread::Builder::new().name("strangers".into()).spawn(closes).is_err() {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn name_of(addr: SocketAddr) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("ramhold/{addr}").as_bytes())
}

/// Listens at the name of an address.
pub(crate) fn listen(addr: SocketAddr, waiting_count_max: i32) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    rustix::net::bind(&socket, &name_of(addr)?)?;
    rustix::net::listen(&socket, waiting_count_max)?;
    Ok(socket)
}

/// Connects to whoever listens at this address, if it is on this host and can be trusted: the socket, and the memory that
/// is shared if that is wished.
pub(super) fn open(
    addr: SocketAddr,
    shares: bool,
    strangers: &Strangers,
) -> rustix::io::Result<(OwnedFd, Option<Memory>)> {
    if strangers.are_too_many() {
        return Err(Errno::PERM);
    }
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    rustix::net::connect(&socket, &name_of(addr)?)?;
    let socket = strangers.sort_out(socket)?;
    if !shares {
        send_hello(socket.as_fd(), HELLO_PLAIN, None)?;
        return Ok((socket, None));
    }
    let (memory, file) = Memory::new(DATA_WORDS)?;
    send_hello(socket.as_fd(), HELLO_MEMORY, Some(file.as_fd()))?;
    Ok((socket, Some(memory)))
}

fn send_hello(
    socket: BorrowedFd<'_>,
    hello: [u8; 4],
    memory: Option<BorrowedFd<'_>>,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let memory = memory.as_slice();
    if !memory.is_empty() && !control.push(SendAncillaryMessage::ScmRights(memory)) {
        return Err(Errno::NOBUFS);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match rustix::net::sendmsg(socket, &[IoSlice::new(&hello)], &mut control, flags)? {
        sent if sent == hello.len() => Ok(()),
        _ => Err(Errno::PIPE),
    }
}

pub(super) fn receive_hello(socket: &OwnedFd, may_share: bool) -> rustix::io::Result<Hello> {
    let mut hello = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut hello)], &mut control, flags)?;
    // The kernel closes descriptors for which there is no room. The others are closed when they are dropped.
    let memory = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    // The kernel hands on together what was sent together: it comes whole or is wrong.
    match (received.bytes, hello, memory) {
        (4, HELLO_PLAIN, None) => Ok(Hello::Plain),
        (4, HELLO_MEMORY, Some(_)) if !may_share => {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            rustix::net::send(socket, &[REFUSED], flags).map(|_| Hello::Refused)
        }
        (4, HELLO_MEMORY, Some(file)) => {
            Memory::handed(&file, DATA_WORDS).map(Hello::Memory).map_err(|_| Errno::INVAL)
        }
        _ => Err(Errno::PROTO),
    }
}
