//! Replies of both versions of the protocol, read and shown.

use std::fmt;
use std::io::{self, BufRead, Read};

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` and `_` are three different nulls.
    Null(NullKind),
    /// Arrays, sets, pushes and maps. Keys and values of a map alternate.
    Many(ManyKind, Vec<Reply>),
    Double(Vec<u8>),
    Boolean(bool),
    BigNumber(Vec<u8>),
    Verbatim(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullKind {
    Bulk,
    Array,
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManyKind {
    Array,
    Set,
    Push,
    Map,
}

const DEPTH_MAX: u32 = 32;
/// Longer than any reply to the episodes' commands. A server that announces more is wrong.
const BULK_BYTES_MAX: u64 = 64 * 1024 * 1024;
const COUNT_MAX: u64 = 1024 * 1024;
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads one reply. `InvalidData`: the bytes are no reply.
pub fn read(from: &mut impl BufRead) -> io::Result<Reply> {
    read_nested(from, 0)
}

fn read_nested(from: &mut impl BufRead, depth: u32) -> io::Result<Reply> {
    if depth > DEPTH_MAX {
        return Err(bad("nested too deep"));
    }
    let line = line(from)?;
    let (kind, rest) = line.split_first().ok_or_else(|| bad("an empty line"))?;
    let rest = rest.to_vec();
    Ok(match kind {
        b'+' => Reply::Simple(rest),
        b'-' => Reply::Error(rest),
        b':' => Reply::Integer(number(&rest)?),
        b'$' if rest == b"-1" => Reply::Null(NullKind::Bulk),
        b'*' if rest == b"-1" => Reply::Null(NullKind::Array),
        b'_' if rest.is_empty() => Reply::Null(NullKind::Plain),
        b'$' => Reply::Bulk(bulk(from, &rest)?),
        b'!' => Reply::Error(bulk(from, &rest)?),
        b'=' => Reply::Verbatim(bulk(from, &rest)?),
        b',' => Reply::Double(rest),
        b'(' => Reply::BigNumber(rest),
        b'#' if rest == b"t" => Reply::Boolean(true),
        b'#' if rest == b"f" => Reply::Boolean(false),
        b'*' => many(from, ManyKind::Array, &rest, 1, depth)?,
        b'~' => many(from, ManyKind::Set, &rest, 1, depth)?,
        b'>' => many(from, ManyKind::Push, &rest, 1, depth)?,
        b'%' => many(from, ManyKind::Map, &rest, 2, depth)?,
        _ => return Err(bad(&format!("this is no reply: {}", text(&line)))),
    })
}

fn many(from: &mut impl BufRead, kind: ManyKind, count: &[u8], each: u64, depth: u32) -> io::Result<Reply> {
    let count = u64::try_from(number(count)?).map_err(|_| bad("a negative count"))?;
    if count > COUNT_MAX {
        return Err(bad("too many elements"));
    }
    let elements: io::Result<Vec<Reply>> = (0..count * each).map(|_| read_nested(from, depth + 1)).collect();
    Ok(Reply::Many(kind, elements?))
}

fn bulk(from: &mut impl BufRead, length: &[u8]) -> io::Result<Vec<u8>> {
    let length = u64::try_from(number(length)?).map_err(|_| bad("a negative length"))?;
    if length > BULK_BYTES_MAX {
        return Err(bad("too long"));
    }
    let mut bytes = Vec::new();
    from.take(length + 2).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length + 2 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if bytes.split_off(length as usize) != b"\r\n" {
        return Err(bad("a bulk string does not end with CR LF"));
    }
    Ok(bytes)
}

fn line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.pop();
    if line.pop() != Some(b'\r') {
        return Err(bad("a line ends without CR"));
    }
    Ok(line)
}

fn number(digits: &[u8]) -> io::Result<i64> {
    std::str::from_utf8(digits).ok().and_then(|d| d.parse().ok()).ok_or_else(|| bad("no number"))
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

const ELEMENTS_SHOWN_MAX: usize = 24;

/// Bytes as redis-cli shows them, without quotes.
pub fn text(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 120;
    let mut text = bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string();
    if bytes.len() > SHOWN_MAX {
        text.push_str(&format!("… ({} bytes)", bytes.len()));
    }
    text
}

impl fmt::Display for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Simple(line) => write!(out, "+{}", text(line)),
            Reply::Error(line) => write!(out, "-{}", text(line)),
            Reply::Integer(number) => write!(out, ":{number}"),
            Reply::Bulk(bytes) => write!(out, "\"{}\"", text(bytes)),
            Reply::Null(NullKind::Bulk) => write!(out, "(nil)"),
            Reply::Null(NullKind::Array) => write!(out, "(nil array)"),
            Reply::Null(NullKind::Plain) => write!(out, "(null)"),
            Reply::Double(digits) => write!(out, ",{}", text(digits)),
            Reply::Boolean(is) => write!(out, "#{is}"),
            Reply::BigNumber(digits) => write!(out, "({}", text(digits)),
            Reply::Verbatim(bytes) => write!(out, "={}", text(bytes)),
            Reply::Many(kind, elements) => {
                let open = match kind {
                    ManyKind::Array => "[",
                    ManyKind::Set => "~[",
                    ManyKind::Push => ">[",
                    ManyKind::Map => "%[",
                };
                write!(out, "{open}")?;
                for (at, element) in elements.iter().enumerate() {
                    if at == ELEMENTS_SHOWN_MAX {
                        write!(out, ", … ({} elements)", elements.len())?;
                        break;
                    }
                    write!(out, "{}{element}", if at > 0 { ", " } else { "" })?;
                }
                write!(out, "]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        read(&mut &bytes[..]).map_or_else(|error| format!("{:?}", error.kind()), |reply| reply.to_string())
    }

    #[test]
    fn replies_of_both_versions_are_read() {
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], "+OK"),
            (b"-ERR no\r\n", "-ERR no"),
            (b":-5\r\n", ":-5"),
            (b"$3\r\na\r\nbc", "InvalidData"),
            (b"$3\r\n\0\r\n\r\n", "\"\\x00\\r\\n\""),
            (b"$-1\r\n", "(nil)"),
            (b"*-1\r\n", "(nil array)"),
            (b"_\r\n", "(null)"),
            (b"*2\r\n:1\r\n*1\r\n+a\r\n", "[:1, [+a]]"),
            (b"%1\r\n+k\r\n,1.5\r\n", "%[+k, ,1.5]"),
            (b"~1\r\n#t\r\n", "~[#true]"),
            (b">1\r\n=5\r\ntxt:x\r\n", ">[=txt:x]"),
            (b"!3\r\nbad\r\n", "-bad"),
            (b"*2\r\n:1\r\n", "UnexpectedEof"),
            (b"?\r\n", "InvalidData"),
            (b"+OK\n", "InvalidData"),
        ] {
            assert_eq!(shown(bytes), expected);
        }
        assert_eq!(shown("*1\r\n".repeat(40).as_bytes()), "InvalidData");
    }
}
