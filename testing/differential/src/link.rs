//! Connections: one to a server, and two side by side.

use crate::reply::{self, Reply};
use crate::step::{Command, encode};
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that does not answer within this time counts as silent.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

pub struct Link {
    stream: TcpStream,
    input: BufReader<TcpStream>,
}

impl Link {
    pub fn open(address: SocketAddr) -> io::Result<Link> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
        let input = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
        Ok(Link { stream, input })
    }

    /// Where the server listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next answer. A missing reply is also an answer, so that it can be compared.
    pub fn receive(&mut self) -> Answer {
        match reply::read(&mut self.input) {
            Ok(reply) => Answer::Reply(reply),
            Err(error) => Answer::of(&error),
        }
    }

    pub fn ask(&mut self, command: &Command) -> Answer {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        match self.send(&bytes) {
            Ok(()) => self.receive(),
            Err(error) => Answer::of(&error),
        }
    }
}

/// A server's answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Reply(Reply),
    /// It closed the connection.
    Closed,
    /// It sent nothing for long.
    Silent,
    /// It sent bytes that are no reply.
    Garbage(String),
}

impl Answer {
    fn of(error: &io::Error) -> Answer {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Answer::Silent,
            io::ErrorKind::InvalidData => Answer::Garbage(error.to_string()),
            _ => Answer::Closed,
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Answer::Reply(reply) => write!(out, "{reply}"),
            Answer::Closed => write!(out, "(closed the connection)"),
            Answer::Silent => write!(out, "(no answer within {} s)", ANSWERS_WITHIN.as_secs()),
            Answer::Garbage(why) => write!(out, "(no RESP: {why})"),
        }
    }
}

/// The two servers.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    pub left: SocketAddr,
    pub right: SocketAddr,
}

/// A connection to each.
pub struct Pair {
    pub left: Link,
    pub right: Link,
}

impl Pair {
    pub fn open(servers: Servers) -> io::Result<Pair> {
        Ok(Pair { left: Link::open(servers.left)?, right: Link::open(servers.right)? })
    }

    pub fn ask(&mut self, command: &Command) -> (Answer, Answer) {
        (self.left.ask(command), self.right.ask(command))
    }
}
