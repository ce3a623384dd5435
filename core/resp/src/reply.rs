//! Writes replies straight into the bytes that go out, in the connection's version of the protocol.
//!
//! RESP3 has types that RESP2 lacks. In RESP2 their values are written as Redis does it: maps as flat arrays,
//! sets and pushes as arrays, doubles as strings, booleans as 0 and 1.

use crate::Fault;
use std::fmt::Write as _;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// Writes one reply. After the head of an aggregate, the caller writes its elements.
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Reply<'a> {
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Reply<'a> {
        Reply { out, protocol }
    }

    /// A writer to the same bytes, for a part of the reply that another function writes.
    pub fn by_ref(&mut self) -> Reply<'_> {
        Reply { out: self.out, protocol: self.protocol }
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes back the bytes that were written behind `len`.
    pub fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    fn head(&mut self, kind: u8, number: i64) {
        self.out.push(kind);
        put_integer(self.out, number);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A status line; `text` must not have a line break.
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    pub fn fault(&mut self, fault: &Fault) {
        self.out.push(b'-');
        // A character that is no byte does not come from a client.
        self.out.extend(fault.0.chars().map(|said| u8::try_from(said).unwrap_or(b'?')));
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn integer(&mut self, value: i64) {
        self.head(b':', value);
    }

    pub fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string of `len` bytes, which `write` appends.
    pub fn bulk_with(&mut self, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.head(b'$', len as i64);
        let before = self.out.len();
        write(self.out);
        assert_eq!(self.out.len() - before, len, "as many bytes as were announced");
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer, as a string.
    pub fn bulk_integer(&mut self, value: i64) {
        let mut text = Vec::with_capacity(20);
        put_integer(&mut text, value);
        self.bulk(&text);
    }

    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The null that stands for an absent array.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    pub fn array(&mut self, count: usize) {
        self.head(b'*', count as i64);
    }

    /// The head of a map of `count` pairs; keys and values follow in turn.
    pub fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', 2 * count as i64),
            Protocol::Resp3 => self.head(b'%', count as i64),
        }
    }

    pub fn set(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', count as i64),
            Protocol::Resp3 => self.head(b'~', count as i64),
        }
    }

    /// The head of a message that answers no request.
    pub fn push(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', count as i64),
            Protocol::Resp3 => self.head(b'>', count as i64),
        }
    }

    pub fn truth(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(i64::from(value)),
            Protocol::Resp3 => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    pub fn double(&mut self, value: f64) {
        let mut text = String::new();
        if value.is_infinite() {
            text.push_str(if value > 0.0 { "inf" } else { "-inf" });
        } else {
            let _ = write!(text, "{value}");
        }
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.out.push(b',');
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Text for people, of several lines.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.head(b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Appends a decimal number.
pub fn put_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, protocol));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_error_repeats_the_bytes_of_a_client() {
        let mut out = Vec::new();
        let said = format!("ERR '{}'", crate::fault::shown(b"\xff\x00\xc3\xa9"));
        Reply::new(&mut out, Protocol::Resp2).fault(&Fault::said(said));
        assert_eq!(out, b"-ERR '\xff\x00\xc3\xa9'\r\n");
    }

    // J1: the form that each version of the protocol has for each kind of reply.
    #[test]
    fn each_protocol_has_its_own_types() {
        type Write = fn(&mut Reply<'_>);
        let table: &[(Write, &str, &str)] = &[
            (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
            (|r| r.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|r| r.integer(0), ":0\r\n", ":0\r\n"),
            (|r| r.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.push(3), "*3\r\n", ">3\r\n"),
            (|r| r.truth(true), ":1\r\n", "#t\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.verbatim("hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|r| r.fault(&Fault::said("ERR a\r\nb")), "-ERR a  b\r\n", "-ERR a  b\r\n"),
        ];
        for (write, resp2, resp3) in table {
            assert_eq!(written(Protocol::Resp2, write), *resp2);
            assert_eq!(written(Protocol::Resp3, write), *resp3);
        }
    }
}
