//! A server that does no work. All requests have one length, so it counts bytes and answers each request with
//! the same reply.
//!
//! It has one thread and one epoll. For each batch of requests that has arrived it does one read and one
//! write. Its cost is the kernel's cost for the sockets and nothing else. No server on sockets is faster on
//! the same machine, so it is the floor.

use clap::Args;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Answers every so many bytes with the same reply.
#[derive(Args, Debug)]
pub struct Empty {
    #[arg(long)]
    port: u16,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    request_bytes: u32,
    /// In hexadecimal.
    #[arg(long, value_parser = parse_hex)]
    reply: Bytes,
}

/// A type of its own, since a list would be an option that may be repeated.
#[derive(Clone, Debug)]
struct Bytes(Vec<u8>);

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex(text: &str) -> Result<Bytes, String> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    match digits {
        Some(digits) if !digits.is_empty() && digits.len() % 2 == 0 => {
            Ok(Bytes(digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()))
        }
        _ => Err("an even number of hexadecimal digits is needed".to_owned()),
    }
}

const LISTENER: u64 = u64::MAX;
const BUFFER_BYTES: usize = 64 * 1024;
const EVENT_COUNT: usize = 256;

struct Connection {
    stream: TcpStream,
    /// Bytes received of a request that is not complete yet.
    begun_bytes: usize,
}

impl Empty {
    pub fn run(self) -> Result<(), String> {
        self.serve().map_err(|error| format!("empty server: {error}"))
    }

    fn serve(&self) -> io::Result<()> {
        let request_bytes = self.request_bytes as usize;
        let replies = self.reply.0.repeat(BUFFER_BYTES / request_bytes + 1);
        let listener = TcpListener::bind(("127.0.0.1", self.port))?;
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let mut connections: BTreeMap<u64, Connection> = BTreeMap::new();
        let mut next = 0;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut events: Vec<Event> = Vec::with_capacity(EVENT_COUNT);
        loop {
            events.clear();
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
            for event in &events {
                let token = event.data.u64();
                if token == LISTENER {
                    let (stream, _) = listener.accept()?;
                    stream.set_nodelay(true)?;
                    epoll::add(&poll, &stream, EventData::new_u64(next), EventFlags::IN)?;
                    connections.insert(next, Connection { stream, begun_bytes: 0 });
                    next += 1;
                    continue;
                }
                let Some(connection) = connections.get_mut(&token) else { continue };
                let count = match connection.stream.read(&mut buffer) {
                    Ok(count) => count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => 0,
                };
                if count == 0 {
                    // Closing a socket removes it from the epoll.
                    connections.remove(&token);
                    continue;
                }
                let bytes = connection.begun_bytes + count;
                connection.begun_bytes = bytes % request_bytes;
                let answer = &replies[..bytes / request_bytes * self.reply.0.len()];
                if connection.stream.write_all(answer).is_err() {
                    connections.remove(&token);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_survive_the_command_line() {
        let bytes = [0, 1, 0x7f, 0xa7, 255];
        assert_eq!(parse_hex(&hex(&bytes)).map(|bytes| bytes.0), Ok(bytes.to_vec()));
        assert!(["", "a", "0g"].into_iter().all(|text| parse_hex(text).is_err()));
    }
}
