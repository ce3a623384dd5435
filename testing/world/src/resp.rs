//! A Redis client's connection: one at a time, commands out, replies in.
//!
//! A connection begins with an `ECHO` of a token of its own, as native connections begin with `HELLO`. Bytes
//! before the reply to that `ECHO` belong to an earlier connection. So a reply is never taken for that of
//! another connection's command.
//!
//! Not here: the choice of commands and the meaning of replies (`cluster::resp`, stage).

use ramhold_base::{ConnId, Effect, Effects, Lost, Peer, Rest, Taken};
use std::net::SocketAddr;

/// A reply of RESP2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Option<Vec<u8>>),
    Array(Option<Vec<Answer>>),
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        matches!(self, Answer::Simple(text) if text == "OK")
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Answer::Bulk(None) | Answer::Array(None))
    }

    /// The first whole reply, and its length; none while it is not whole. Panics when the bytes are no reply.
    pub fn parse(bytes: &[u8]) -> Option<(Answer, usize)> {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let text = || String::from_utf8_lossy(&bytes[1..end]).into_owned();
        let number = || text().parse::<i64>().unwrap_or_else(|_| panic!("{:?} in a reply", text()));
        let mut length = end + 2;
        let answer = match bytes[0] {
            b'+' => Answer::Simple(text()),
            b'-' => Answer::Error(text()),
            b':' => Answer::Integer(number()),
            b'$' => match usize::try_from(number()) {
                Err(_) => Answer::Bulk(None),
                Ok(count) => {
                    let value = bytes.get(length..length + count)?.to_vec();
                    let rest = bytes.get(length + count..length + count + 2)?;
                    assert_eq!(rest, b"\r\n", "the end of a value");
                    length += count + 2;
                    Answer::Bulk(Some(value))
                }
            },
            b'*' => match usize::try_from(number()) {
                Err(_) => Answer::Array(None),
                Ok(count) => {
                    let mut parts = Vec::new();
                    for _ in 0..count {
                        let (part, bytes) = Answer::parse(&bytes[length..])?;
                        parts.push(part);
                        length += bytes;
                    }
                    Answer::Array(Some(parts))
                }
            },
            other => panic!("a reply begins with {other:#x}"),
        };
        Some((answer, length))
    }
}

/// A command's words.
pub type Words = Vec<Vec<u8>>;

/// The words of a line, which has no spaces in words.
pub fn words(line: &str) -> Words {
    line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

fn write(command: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for word in command {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The meaning of some received bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The connection stands: its greeting was answered.
    Open,
    Reply(Answer),
    /// The server does not serve.
    Refused,
}

#[derive(Debug)]
pub struct Link {
    /// The address that it is connected to, or is being connected to.
    pub addr: Option<SocketAddr>,
    /// The connection's id here; none before the reply to its greeting.
    conn: Option<ConnId>,
    /// No two links of a world have the same.
    name: u64,
    opened: u64,
}

impl Link {
    pub fn new(name: u64) -> Link {
        Link { addr: None, conn: None, name, opened: 0 }
    }

    fn token(&self) -> Vec<u8> {
        format!("{:016x}-{}", self.name, self.opened).into_bytes()
    }

    pub fn is_open(&self) -> bool {
        self.conn.is_some()
    }

    pub fn open(&mut self, addr: SocketAddr, effects: &mut Effects) {
        self.abandon(effects);
        self.addr = Some(addr);
        self.opened += 1;
        let greeting = [b"ECHO".to_vec(), self.token()];
        effects.send_with(Peer::Addr(addr), |out| write(&greeting, out));
    }

    /// Leaves the connection.
    pub fn abandon(&mut self, effects: &mut Effects) {
        if let Some(conn) = self.conn.take() {
            effects.push(Effect::Close { conn });
        }
        self.addr = None;
    }

    /// Sends commands together.
    pub fn send(&mut self, commands: &[Words], effects: &mut Effects) {
        let conn = self.conn.expect("only an open connection is sent to");
        effects.send_with(Peer::Conn(conn), |out| commands.iter().for_each(|command| write(command, out)));
    }

    /// Takes bytes that came over a connection. Replies of earlier connections are skipped.
    pub fn on_bytes(&mut self, from: ConnId, bytes: &[u8], effects: &mut Effects) -> Vec<Heard> {
        let mut taken = 0;
        let mut heard = Vec::new();
        while let Some((answer, length)) = Answer::parse(&bytes[taken..]) {
            taken += length;
            if self.conn == Some(from) {
                heard.push(Heard::Reply(answer));
            } else if self.conn.is_none() && self.addr.is_some() {
                match answer {
                    Answer::Bulk(Some(token)) if token == self.token() => {
                        self.conn = Some(from);
                        heard.push(Heard::Open);
                    }
                    Answer::Error(_) => heard.push(Heard::Refused),
                    _ => {}
                }
            }
        }
        effects.taken = Taken { bytes: taken, rest: Rest::Part };
        heard
    }

    /// Whether this loss ends the connection.
    pub fn on_lost(&mut self, addr: SocketAddr, _: Lost, effects: &mut Effects) -> bool {
        let is_lost = self.addr == Some(addr);
        if is_lost {
            // The lost connection may be another one of this host.
            self.abandon(effects);
        }
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_parsed_when_they_are_whole() {
        let bytes = b"+OK\r\n-ERR no\r\n:-5\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n:1\r\n*-1\r\n";
        let mut at = 0;
        let mut all = Vec::new();
        while let Some((answer, length)) = Answer::parse(&bytes[at..]) {
            for cut in 0..length {
                assert_eq!(Answer::parse(&bytes[at..at + cut]), None, "{answer:?} cut at {cut}");
            }
            all.push(answer);
            at += length;
        }
        assert_eq!(at, bytes.len());
        assert_eq!(
            all,
            [
                Answer::Simple("OK".into()),
                Answer::Error("ERR no".into()),
                Answer::Integer(-5),
                Answer::Bulk(Some(b"a\r\n".to_vec())),
                Answer::Bulk(None),
                Answer::Array(Some(vec![Answer::Integer(1), Answer::Array(None)])),
            ]
        );
    }
}
