//! memcached's text protocol: writes commands, and finds replies in the bytes of a connection.
//!
//! A `get` is answered with the values that are there, in order, and `END`. Values are not copied.

use super::redis::Strange;
use std::io::Write;

/// memcached takes no longer keys.
pub const KEY_BYTES_MAX: usize = 250;
const LINE_BYTES_MAX: usize = 2048;
/// Larger than any value that is asked for.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    Stored,
    /// So many values.
    Values(usize),
    Refused(&'a [u8]),
}

/// `get` of one key or several.
pub fn get(out: &mut Vec<u8>, keys: impl Iterator<Item = Vec<u8>>) {
    out.extend_from_slice(b"get");
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(&key);
    }
    out.extend_from_slice(b"\r\n");
}

pub fn set(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    write!(out, " 0 0 {}\r\n", value.len()).expect("memory takes all that is written");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The length of the first reply. `None`: it is not whole yet.
pub fn whole(bytes: &[u8]) -> Result<Option<usize>, Strange> {
    Ok(scan(bytes)?.map(|(_, length)| length))
}

/// A whole reply, taken apart.
pub fn read(bytes: &[u8]) -> Result<Reply<'_>, Strange> {
    scan(bytes)?.map(|(reply, _)| reply).ok_or_else(|| Strange::reply(bytes))
}

fn scan(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Strange> {
    let (mut at, mut count) = (0, 0);
    loop {
        let rest = &bytes[at..];
        let Some(end) = rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
            return if rest.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Strange::reply(rest)) };
        };
        let line = rest[..end].strip_suffix(b"\r").ok_or_else(|| Strange::reply(rest))?;
        at += end + 1;
        if let Some(head) = line.strip_prefix(b"VALUE ") {
            at += value_bytes(head).ok_or_else(|| Strange::reply(rest))?;
            match bytes.get(at..at + 2) {
                None => return Ok(None),
                Some(b"\r\n") => at += 2,
                Some(_) => return Err(Strange::reply(rest)),
            }
            count += 1;
            continue;
        }
        let reply = match line {
            b"END" => Reply::Values(count),
            _ if count > 0 => return Err(Strange::reply(rest)),
            b"STORED" => Reply::Stored,
            _ if is_refusal(line) => Reply::Refused(line),
            _ => return Err(Strange::reply(rest)),
        };
        return Ok(Some((reply, at)));
    }
}

/// The last number of `key flags bytes`.
fn value_bytes(head: &[u8]) -> Option<usize> {
    let mut words = std::str::from_utf8(head).ok()?.split(' ');
    let bytes = words.nth(2)?.parse::<usize>().ok()?;
    (bytes <= VALUE_BYTES_MAX).then_some(bytes)
}

fn is_refusal(line: &[u8]) -> bool {
    line == b"ERROR"
        || line == b"NOT_STORED"
        || line.starts_with(b"CLIENT_ERROR ")
        || line.starts_with(b"SERVER_ERROR ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: [(&[u8], Reply<'_>); 5] = [
        (b"STORED\r\n", Reply::Stored),
        (b"END\r\n", Reply::Values(0)),
        (b"VALUE k 0 2\r\n\r\n\r\nEND\r\n", Reply::Values(1)),
        (b"VALUE k 0 0\r\n\r\nVALUE l 7 3 99\r\nEND\r\nEND\r\n", Reply::Values(2)),
        (
            b"SERVER_ERROR object too large for cache\r\n",
            Reply::Refused(b"SERVER_ERROR object too large for cache"),
        ),
    ];

    #[test]
    fn a_reply_is_found_when_all_of_it_is_there_and_not_before() {
        let stream = REPLIES.map(|(bytes, _)| bytes).concat();
        let mut at = 0;
        for (bytes, reply) in REPLIES {
            for end in at..at + bytes.len() {
                assert_eq!(whole(&stream[at..end]), Ok(None), "{end}");
            }
            assert_eq!(whole(&stream[at..]), Ok(Some(bytes.len())));
            assert_eq!(read(&stream[at..]), Ok(reply));
            at += bytes.len();
        }
    }

    #[test]
    fn what_is_no_reply_is_refused_before_memory_is_taken() {
        for bytes in [
            &b"END\n"[..],
            b"+OK\r\n",
            b"VALUE k 0\r\n",
            b"VALUE k 0 99999999999\r\n",
            b"VALUE k 0 1\r\nab\r\n",
            b"VALUE k 0 1\r\na\r\nSTORED\r\n",
            &[b'x'; LINE_BYTES_MAX],
        ] {
            assert!(whole(bytes).is_err(), "{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        }
    }

    #[test]
    fn commands_are_lines() {
        let mut out = Vec::new();
        get(&mut out, [b"a".to_vec(), b"b".to_vec()].into_iter());
        set(&mut out, b"a", b"xyz");
        assert_eq!(out, b"get a b\r\nset a 0 0 3\r\nxyz\r\n");
    }
}
