//! The two languages that the stores speak: RESP and memcached's text protocol.
//!
//! The workloads need two commands only: store a value, delete a key. Every answer is one line.

use ramhold_workload::KeyId;
use std::io::Write;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dialect {
    Resp,
    Text,
}

/// A store's answer to one command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    Stored,
    Deleted,
    /// The key to delete is not there.
    Missing,
    /// There is no memory for the value.
    Refused,
}

/// Bytes that values are cut from. No value is longer.
static VALUES: [u8; 16_384] = [b'v'; 16_384];

impl Dialect {
    pub fn set(self, out: &mut Vec<u8>, key: KeyId, value_bytes: u32) {
        let key = key.bytes();
        match self {
            Dialect::Resp => {
                let _ = write!(out, "*3\r\n$3\r\nSET\r\n${}\r\n", key.len());
                out.extend_from_slice(&key);
                let _ = write!(out, "\r\n${value_bytes}\r\n");
            }
            Dialect::Text => {
                out.extend_from_slice(b"set ");
                out.extend_from_slice(&key);
                let _ = write!(out, " 0 0 {value_bytes}\r\n");
            }
        }
        out.extend_from_slice(&VALUES[..value_bytes as usize]);
        out.extend_from_slice(b"\r\n");
    }

    pub fn delete(self, out: &mut Vec<u8>, key: KeyId) {
        let key = key.bytes();
        match self {
            Dialect::Resp => {
                let _ = write!(out, "*2\r\n$3\r\nDEL\r\n${}\r\n", key.len());
            }
            Dialect::Text => out.extend_from_slice(b"delete "),
        }
        out.extend_from_slice(&key);
        out.extend_from_slice(b"\r\n");
    }

    /// The meaning of a line without its end. An unexpected line is an error.
    pub fn answer(self, line: &[u8]) -> Result<Answer, String> {
        let answer = match (self, line) {
            (Dialect::Resp, b"+OK") | (Dialect::Text, b"STORED") => Answer::Stored,
            (Dialect::Resp, b":1") | (Dialect::Text, b"DELETED") => Answer::Deleted,
            (Dialect::Resp, b":0") | (Dialect::Text, b"NOT_FOUND") => Answer::Missing,
            (Dialect::Resp, line) if line.starts_with(b"-OOM ") => Answer::Refused,
            (Dialect::Text, line) if line.starts_with(b"SERVER_ERROR out of memory") => Answer::Refused,
            (_, line) => return Err(format!("the store answered {:?}", String::from_utf8_lossy(line))),
        };
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_the_protocols_say() {
        let mut out = Vec::new();
        Dialect::Resp.set(&mut out, KeyId(7), 3);
        Dialect::Resp.delete(&mut out, KeyId(7));
        Dialect::Text.set(&mut out, KeyId(7), 3);
        Dialect::Text.delete(&mut out, KeyId(7));
        let key = "key-00000000000000000000000007";
        let expected = format!(
            "*3\r\n$3\r\nSET\r\n$30\r\n{key}\r\n$3\r\nvvv\r\n*2\r\n$3\r\nDEL\r\n$30\r\n{key}\r\n\
             set {key} 0 0 3\r\nvvv\r\ndelete {key}\r\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn an_unexpected_answer_is_an_error() {
        assert_eq!(Dialect::Resp.answer(b"-OOM command not allowed"), Ok(Answer::Refused));
        assert_eq!(Dialect::Text.answer(b"SERVER_ERROR out of memory storing object"), Ok(Answer::Refused));
        assert!(Dialect::Resp.answer(b"-ERR unknown command").is_err());
        assert!(Dialect::Text.answer(b"SERVER_ERROR object too large for cache").is_err());
        assert!(Dialect::Text.answer(b"+OK").is_err());
    }
}
