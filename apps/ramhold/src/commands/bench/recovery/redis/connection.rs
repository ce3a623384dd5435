//! A connection that speaks Redis's protocol as far as a benchmark needs it: flat commands, flat replies.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Longer than any command takes that is answered at all.
const READ_WITHIN: Duration = Duration::from_secs(120);
/// Longest bulk string: none here is longer.
const BULK_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Text(Vec<u8>),
    Number(i64),
    Absent,
    Refused(String),
}

impl Reply {
    /// The reply in words, for an error about an unexpected one.
    pub fn text(&self) -> String {
        match self {
            Reply::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Reply::Number(number) => number.to_string(),
            Reply::Absent => "(nil)".to_owned(),
            Reply::Refused(text) => text.clone(),
        }
    }
}

pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(port: u16) -> Result<Connection> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_WITHIN))?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    pub fn ask(&mut self, words: &[&[u8]]) -> Result<Reply> {
        let mut out = Vec::new();
        command(&mut out, words);
        self.send(&out)?;
        self.reply()
    }

    pub fn send(&mut self, commands: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(commands)
    }

    pub fn reply(&mut self) -> Result<Reply> {
        reply(&mut self.stream)
    }
}

/// Adds a command to those that are sent together.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend_from_slice(word);
        out.extend(b"\r\n");
    }
}

fn reply(from: &mut impl BufRead) -> Result<Reply> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    let Some((kind, rest)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the connection was closed within a reply"));
    };
    let text = || String::from_utf8_lossy(rest).into_owned();
    let strange = || Error::new(ErrorKind::InvalidData, format!("a reply begins with {:?}", text()));
    let number = || text().parse::<i64>().map_err(|_| strange());
    match kind {
        b'+' => Ok(Reply::Text(rest.to_vec())),
        b'-' => Ok(Reply::Refused(text())),
        b':' => Ok(Reply::Number(number()?)),
        b'$' => match number()? {
            -1 => Ok(Reply::Absent),
            length => {
                let length = usize::try_from(length).ok().filter(|length| *length <= BULK_BYTES_MAX);
                let mut bulk = vec![0; length.ok_or_else(strange)? + 2];
                from.read_exact(&mut bulk)?;
                bulk.truncate(bulk.len() - 2);
                Ok(Reply::Text(bulk))
            }
        },
        _ => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8]) -> Vec<Result<Reply>> {
        let mut replies = Vec::new();
        while !bytes.is_empty() {
            replies.push(reply(&mut bytes));
        }
        replies
    }

    #[test]
    fn replies_are_told_apart() {
        let replies = all(b"+OK\r\n$3\r\na\r\n\r\n$-1\r\n:7\r\n-LOADING wait\r\n");
        let replies: Vec<Reply> = replies.into_iter().map(|reply| reply.unwrap()).collect();
        let expected = [
            Reply::Text(b"OK".to_vec()),
            Reply::Text(b"a\r\n".to_vec()),
            Reply::Absent,
            Reply::Number(7),
            Reply::Refused("LOADING wait".to_owned()),
        ];
        assert_eq!(replies, expected);
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [&b"+O"[..], b"\r\n", b"$x\r\n", b"$-2\r\n", b"$99999999999\r\n", b"*1\r\n", b"$3\r\nab"]
        {
            assert!(all(bytes)[0].is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_command_is_counted_in_bytes() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"a\r\n"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }
}
