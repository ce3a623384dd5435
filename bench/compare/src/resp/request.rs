//! Requests and the replies to them, byte by byte.
//!
//! Redis's have keys of 16 B and values of 3 B, as redis-benchmark has. Ramhold's frames have keys of 30 B
//! and values of 100 B. The load writes a key's digits into each command of Redis's. It leaves frames as they
//! are, since their checksums cover the key: only the empty server is asked with them, and it looks at nothing.

use ramhold_base::{ClusterId, RpcId, ServerId, Status, TableId, Version};
use ramhold_wire::data::{KeyRequest, ReadReply, RejectRules, WriteRequest, encode_version};
use ramhold_wire::multi::{encode_multi, encode_read, encode_read_item};
use ramhold_wire::{Header, Opcode, frame};
use std::fmt;
use std::ops::Range;

pub const KEY_BYTES: usize = 16;
pub const VALUE_BYTES: usize = 3;
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\nxxx\r\n";
/// The key's digits in a command of Redis's.
const DIGITS: Range<usize> = 22..34;

const FRAME_KEY: [u8; 30] = [b'0'; 30];
const FRAME_VALUE: [u8; 100] = [b'x'; 100];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Get,
    Set,
    /// A read in Ramhold's own protocol.
    Read,
    /// A write in Ramhold's own protocol.
    Write,
    /// A frame of `TOGETHER` reads in Ramhold's own protocol.
    ReadTogether,
}

/// Reads of one frame.
pub const TOGETHER: usize = 70;

/// The bytes that go over the wire.
#[derive(Clone, Debug)]
pub struct Form {
    pub request: Vec<u8>,
    pub reply: Vec<u8>,
    /// Where the request has the digits of its key; empty: it is the same each time.
    pub digits: Range<usize>,
}

impl Request {
    pub fn form(self) -> Form {
        match self {
            Request::Get => Form { request: GET.to_vec(), reply: b"$3\r\nxxx\r\n".to_vec(), digits: DIGITS },
            Request::Set => Form { request: SET.to_vec(), reply: b"+OK\r\n".to_vec(), digits: DIGITS },
            Request::Read => frames(
                Opcode::Read,
                |out| {
                    KeyRequest { table: TableId(1), rules: RejectRules::default(), key: &FRAME_KEY }
                        .encode(out)
                },
                |out| {
                    ReadReply::encode_head(out, Version(1), 1, None);
                    out.extend_from_slice(&FRAME_VALUE);
                },
            ),
            Request::Write => frames(
                Opcode::Write,
                |out| {
                    let (table, rules, expiry) = (TableId(1), RejectRules::default(), None);
                    WriteRequest { table, rules, expiry, key: &FRAME_KEY, value: &FRAME_VALUE }.encode(out);
                },
                |out| encode_version(out, Version(1)),
            ),
            Request::ReadTogether => frames(
                Opcode::Multi,
                |out| {
                    encode_multi(TOGETHER, out, |out| {
                        (0..TOGETHER).for_each(|_| encode_read_item(TableId(1), &FRAME_KEY, out));
                    });
                },
                |out| {
                    let reply =
                        ReadReply { version: Version(1), time: 1, expires: None, value: &FRAME_VALUE };
                    (0..TOGETHER).for_each(|place| encode_read(place as u16, &reply, out));
                },
            ),
        }
    }
}

fn frames(opcode: Opcode, request: impl FnOnce(&mut Vec<u8>), reply: impl FnOnce(&mut Vec<u8>)) -> Form {
    let head = Header { cluster: ClusterId(1), target: ServerId(1), ..Header::request(opcode, RpcId(1)) };
    let mut form = Form { request: Vec::new(), reply: Vec::new(), digits: 0..0 };
    frame::write(&mut form.request, &head, request);
    frame::write(&mut form.reply, &head.answer(Status::Ok), reply);
    form
}

impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Request::Get => "GET",
            Request::Set => "SET",
            Request::Read => "read",
            Request::Write => "write",
            Request::ReadTogether => "reads in a frame",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_wire::multi::{MultiRequest, decode_answers};

    #[test]
    fn the_digits_are_those_of_the_key() {
        for request in [Request::Get, Request::Set] {
            let form = request.form();
            assert_eq!(form.request[form.digits.clone()], [b'0'; 12]);
            assert_eq!(&form.request[form.digits.start - 4..form.digits.start], b"key:");
        }
    }

    // E2
    #[test]
    fn frames_are_those_that_servers_and_clients_exchange() {
        let Form { request, reply, .. } = Request::Read.form();
        let (header, body) = frame::parse(&request).unwrap();
        assert_eq!(header.opcode(), Some(Opcode::Read));
        assert_eq!(KeyRequest::decode(body).unwrap().key, FRAME_KEY);
        let (_, body) = frame::parse(&reply).unwrap();
        assert_eq!(ReadReply::decode(body).unwrap().value, FRAME_VALUE);
        let Form { request, reply, .. } = Request::Write.form();
        let (_, body) = frame::parse(&request).unwrap();
        assert_eq!(WriteRequest::decode(body).unwrap().value, FRAME_VALUE);
        assert_eq!(frame::parse(&reply).unwrap().0.status(), Status::Ok);
        let Form { request, reply, .. } = Request::ReadTogether.form();
        let (_, body) = frame::parse(&request).unwrap();
        let items = MultiRequest::decode(body).unwrap();
        assert!(items.items().all(|item| KeyRequest::decode(item.body).unwrap().key == FRAME_KEY));
        let (_, body) = frame::parse(&reply).unwrap();
        let values = decode_answers(body).map(|answer| ReadReply::decode(answer.body).unwrap().value);
        assert_eq!(
            (items.count(), values.filter(|value| *value == FRAME_VALUE).count()),
            (TOGETHER, TOGETHER)
        );
    }
}
