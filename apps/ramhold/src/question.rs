//! One question to one process, over a connection of its own: for processes that no client session speaks to.
//!
//! A session asks servers, bricks and the coordinator on behalf of keys. A supervisor is none of these, and an operator wants
//! the answer of one named brick, not that of a quorum.

use ramhold_base::{RpcId, Status};
use ramhold_wire::control::{decode, encode_into};
use ramhold_wire::{Header, Kind, Message, frame};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An answer has a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Nobody is there, or nobody answers in time.
    Silent(String),
    Refused(Status),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Silent(why) => f.write_str(why),
            NoAnswer::Refused(status) => write!(f, "{status}"),
        }
    }
}

/// Asks, and waits for the answer. `header` brings the identity fields.
pub fn ask<M: Message>(
    address: SocketAddr,
    header: &Header,
    message: &M,
    within: Duration,
) -> Result<M::Reply, NoAnswer> {
    let header = Header { opcode: M::OPCODE.code(), rpc: RpcId(1), kind: Kind::Request, ..*header };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| encode_into(out, message));
    let answer = exchange(address, &bytes, within)
        .map_err(|error| NoAnswer::Silent(format!("no answer from {address}: {error}")))?;
    let (header, body) =
        frame::parse(&answer).map_err(|bad| NoAnswer::Silent(format!("{address} is no ramhold: {bad}")))?;
    match header.status() {
        Status::Ok => decode(body).map_err(NoAnswer::Refused),
        status => Err(NoAnswer::Refused(status)),
    }
}

fn exchange(address: SocketAddr, question: &[u8], within: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + within;
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_write_timeout(Some(within))?;
    stream.write_all(question)?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = frame::length(&answer).map_err(|bad| io::Error::other(bad.to_string()))?;
        if length.is_some_and(|length| length <= answer.len()) || answer.len() > ANSWER_BYTES_MAX {
            return Ok(answer);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
}
