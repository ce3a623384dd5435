//! Connections between processes of one host: a name beside each address, and the hello over it.
//!
//! A process that listens at 10.0.0.5:7401 also listens at the abstract Unix name `ramhold/10.0.0.5:7401`. Such names
//! belong to a network namespace, as addresses do. So a process that finds the name of an address is on the same host as
//! whoever listens there, and one that does not find it connects over TCP. The name is free again when its holder ends.
//!
//! Any process of the host could take a name before a server does. So who opens a connection looks at the user whom the
//! kernel names as the listener's: it must be the own one or root. A server takes hellos from anybody who may also connect
//! to its address.
//!
//! The hello is four bytes, and may bring the descriptor of sealed memory (docs/formats/shared-memory.md).

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

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Words of data in each ring: 256 KiB, a quarter of a second-level cache.
const DATA_WORDS: usize = 32 * 1024;
const HELLO_PLAIN: [u8; 4] = *b"RHL\x01";
const HELLO_MEMORY: [u8; 4] = *b"RHS\x01";

/// How a process of this host will speak.
pub(crate) enum Hello {
    /// Over the Unix socket itself.
    Plain,
    Memory(Memory),
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
pub(super) fn open(addr: SocketAddr, shares: bool) -> rustix::io::Result<(OwnedFd, Option<Memory>)> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    rustix::net::connect(&socket, &name_of(addr)?)?;
    let listener = sockopt::socket_peercred(&socket)?;
    if !listener.uid.is_root() && listener.uid != rustix::process::geteuid() {
        return Err(Errno::PERM);
    }
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

pub(super) fn receive_hello(socket: &OwnedFd) -> rustix::io::Result<Hello> {
    let mut hello = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut hello)], &mut control, flags)?;
    // What the kernel did not find room for is closed. What is here is closed when it is dropped.
    let memory = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    // The kernel hands on together what was sent together: it comes whole or is wrong.
    match (received.bytes, hello, memory) {
        (4, HELLO_PLAIN, None) => Ok(Hello::Plain),
        (4, HELLO_MEMORY, Some(file)) => Memory::handed(&file).map(Hello::Memory).map_err(|_| Errno::INVAL),
        _ => Err(Errno::PROTO),
    }
}
