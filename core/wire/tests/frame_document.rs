//! docs/formats/frame.md and testing/vectors/frames.hex say what the code does.
//!
//! The page's table of fields is laid over the page's example, so a wrong offset there is found as well as a wrong
//! byte. The vectors were made by another program than the code here, and other languages' tests read them too.

use ramhold_base::limits::FRAME_BODY_BYTES_MAX;
use ramhold_base::{
    ClusterId, ClusterTime, Epoch, KeyHash, LeaseId, Number, RpcId, SegmentId, Sequence, ServerId, ShardId,
    Status, StreamId, TableId, Term, Version,
};
use ramhold_wire::control::encode_into;
use ramhold_wire::data::{
    AppendReply, AppendRequest, Certificate, IncrementReply, IncrementRequest, KeyRequest, ReadReply,
    RejectRules, WriteRequest, decode_version, encode_version,
};
use ramhold_wire::membership::HeadRecord;
use ramhold_wire::multi::{Item, MultiRequest, decode_answers, encode_answer, encode_item, encode_multi};
use ramhold_wire::scan::{PageObject, ScanHead, ScanRequest, decode_page, encode_object_head};
use ramhold_wire::status::{Ping, Pong};
use ramhold_wire::table::TableDescribe;
use ramhold_wire::{Header, Kind, Opcode, decode, frame};
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../../docs/formats/frame.md");
const VECTORS: &str = include_str!("../../../testing/vectors/frames.hex");

/// The part of the page from a heading to the next.
fn section(heading: &str) -> &'static str {
    let from = DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("the page has this heading").1;
    from.split("\n## ").next().expect("a split has a first part")
}

/// The cells of a section's table, without its head.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let lines = section(heading).lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn number(cell: &str) -> u64 {
    cell.replace(',', "").parse().expect("the cell is a number")
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "hex has two digits a byte: {hex}");
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex digits");
    (0..hex.len() / 2).map(byte).collect()
}

fn example() -> Vec<u8> {
    let block = section("Example").split("```").nth(1).expect("the example has a block of hex");
    let mut bytes = Vec::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let (offset, hex) = line.split_once("  ").expect("an offset, then bytes");
        assert_eq!(usize::from_str_radix(offset, 16), Ok(bytes.len()));
        bytes.extend(bytes_of_hex(&hex.replace(' ', "")));
    }
    bytes
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// One frame of the vectors.
struct Vector {
    name: &'static str,
    header: Header,
    body: Vec<u8>,
    frame: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let lines = VECTORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(vector).collect()
}

fn vector(line: &'static str) -> Vector {
    let (name, fields) = line.split_once(' ').expect("a name, then fields");
    let mut fields: BTreeMap<&str, &str> =
        fields.split(' ').map(|field| field.split_once('=').expect("a field and its value")).collect();
    let kind = match fields.remove("kind") {
        Some("request") => Kind::Request,
        Some("reply") => Kind::Reply,
        other => panic!("{name}: {other:?} is no kind"),
    };
    let opcode = fields.remove("opcode").expect("every frame names its opcode");
    let opcode = Opcode::ALL.iter().find(|o| o.name() == opcode).expect("an opcode of the code");
    let status = fields.remove("status").unwrap_or("Ok");
    let status = Status::ALL.iter().find(|s| format!("{s:?}") == status).expect("a status of the code");
    let body = bytes_of_hex(fields.remove("body").expect("every frame states its body"));
    let frame = bytes_of_hex(fields.remove("frame").expect("every frame states its bytes"));
    let mut take = |field: &str| fields.remove(field).map_or(0, number);
    let header = Header {
        kind,
        opcode: opcode.code(),
        status: status.code(),
        shard: ShardId(u16::try_from(take("shard")).expect("16 bits")),
        rpc: RpcId(take("rpc")),
        cluster: ClusterId(take("cluster")),
        term: Term(take("term")),
        sender: ServerId(take("sender")),
        target: ServerId(take("target")),
        stream: StreamId(u16::try_from(take("stream")).expect("16 bits")),
        epoch: Epoch(u32::try_from(take("epoch")).expect("32 bits")),
        segment: SegmentId(take("segment")),
        lease: LeaseId(take("lease")),
        sequence: Sequence(take("sequence")),
        unacknowledged: Sequence(take("unacknowledged")),
        repeated: take("flags") & 1 != 0,
    };
    assert!(fields.is_empty(), "{name}: unknown fields {fields:?}");
    Vector { name, header, body, frame }
}

// E1
#[test]
fn the_fields_of_the_page_follow_each_other_and_fill_the_header() {
    let mut end = 0;
    for row in rows("Fields") {
        assert_eq!(number(row[0]), end, "{row:?}");
        end += number(row[1]);
    }
    assert_eq!(end, frame::HEADER_BYTES as u64);
}

// E1
#[test]
fn the_example_of_the_page_says_what_the_page_says() {
    let bytes = example();
    let stated: BTreeMap<&str, u64> = rows("Example").iter().map(|row| (row[0], number(row[1]))).collect();
    let mut unstated = BTreeSet::new();
    for row in rows("Fields") {
        let (offset, size) = (number(row[0]) as usize, number(row[1]) as usize);
        match stated.get(row[2]) {
            Some(value) => assert_eq!(little_endian(&bytes[offset..offset + size]), *value, "{row:?}"),
            None => {
                unstated.insert(row[2]);
            }
        }
    }
    assert_eq!(unstated, BTreeSet::from(["magic", "zero"]), "every other field is in the example");

    let (header, body) = frame::parse(&bytes).expect("the example is a frame");
    let want = Header {
        cluster: ClusterId(stated["cluster"]),
        target: ServerId(stated["target"]),
        lease: LeaseId(stated["lease"]),
        sequence: Sequence(stated["sequence"]),
        unacknowledged: Sequence(stated["unacknowledged"]),
        ..Header::request(Opcode::Write, RpcId(stated["rpc"]))
    };
    assert_eq!(header, want);
    assert_eq!(body.len() as u64, stated["body length"]);
    assert!(vectors().iter().any(|vector| vector.frame == bytes), "the example is among the vectors");
}

/// The example has zeroes in many fields; a header with a value of its own in each finds fields that changed places.
// E1
#[test]
fn every_field_lies_where_the_page_says() {
    let header = Header {
        kind: Kind::Reply,
        opcode: 0x0a01,
        status: 0x0a02,
        shard: ShardId(0x0a03),
        rpc: RpcId(0x0a04),
        cluster: ClusterId(0x0a05),
        term: Term(0x0a06),
        sender: ServerId(0x0a07),
        target: ServerId(0x0a08),
        stream: StreamId(0x0a09),
        epoch: Epoch(0x0a0a),
        segment: SegmentId(0x0a0b),
        lease: LeaseId(0x0a0c),
        sequence: Sequence(0x0a0d),
        unacknowledged: Sequence(0x0a0e),
        repeated: true,
    };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| out.extend_from_slice(b"body"));
    let crc = little_endian(&bytes[16..20]);
    for row in rows("Fields") {
        let (offset, size) = (number(row[0]) as usize, number(row[1]) as usize);
        let want = match row[2] {
            "magic" => little_endian(&frame::MAGIC),
            "version" => u64::from(frame::VERSION),
            "header length" => 13,
            "opcode" => 0x0a01,
            "flags" => 1,
            "zero" | "covered" => 0,
            "status" => 0x0a02,
            "body length" => 4,
            "crc32c" => crc,
            "kind" => 2,
            "shard" => 0x0a03,
            "rpc" => 0x0a04,
            "cluster" => 0x0a05,
            "term" => 0x0a06,
            "sender" => 0x0a07,
            "target" => 0x0a08,
            "stream" => 0x0a09,
            "epoch" => 0x0a0a,
            "segment" => 0x0a0b,
            "lease" => 0x0a0c,
            "sequence" => 0x0a0d,
            "unacknowledged" => 0x0a0e,
            other => panic!("the page names a field that the header has not: {other}"),
        };
        assert_eq!(little_endian(&bytes[offset..offset + size]), want, "{row:?}");
    }
}

// E1
#[test]
fn the_limits_of_the_page_are_those_of_the_code() {
    let stated: BTreeMap<&str, u64> = rows("Limits").iter().map(|row| (row[0], number(row[1]))).collect();
    let limits = BTreeMap::from([
        ("needed to know the length", frame::PREFIX_BYTES as u64),
        ("header", frame::HEADER_BYTES as u64),
        ("header of a later version", u64::from(u8::MAX) * 8),
        ("body", u64::from(FRAME_BODY_BYTES_MAX)),
        ("frame", frame::FRAME_BYTES_MAX as u64),
    ]);
    assert_eq!(stated, limits);
}

// E1
#[test]
fn every_vector_is_read_and_written_as_it_stands() {
    let vectors = vectors();
    assert!(vectors.len() >= 12);
    for vector in &vectors {
        assert_eq!(frame::length(&vector.frame), Ok(Some(vector.frame.len())), "{}", vector.name);
        let parsed = frame::parse(&vector.frame);
        assert_eq!(parsed, Ok((vector.header, &vector.body[..])), "{}", vector.name);
        let mut written = Vec::new();
        frame::write(&mut written, &vector.header, |out| out.extend_from_slice(&vector.body));
        assert_eq!(written, vector.frame, "{}", vector.name);
    }
}

// E1
#[test]
fn the_bodies_of_the_vectors_mean_what_their_names_say() {
    for vector in vectors() {
        let body = &vector.body[..];
        let mut written = Vec::new();
        match vector.name {
            "ping_request" => {
                assert_eq!(decode::<Ping>(body), Ok(Ping {}));
                encode_into(&mut written, &Ping {});
            }
            "ping_reply" => {
                let pong = Pong { server: ServerId(8), list_version: 12, time_micros: None };
                assert_eq!(decode::<Pong>(body), Ok(pong));
                encode_into(&mut written, &pong);
            }
            "malformed_reply" => {
                let reason = frame::BadFrame::Version { theirs: 9 };
                assert_eq!(reason.status(), vector.header.status());
                written.extend_from_slice(reason.to_string().as_bytes());
            }
            "read_request" => {
                let request = KeyRequest { table: TableId(1), rules: RejectRules::default(), key: b"k" };
                assert_eq!(KeyRequest::decode(body), Ok(request));
                request.encode(&mut written);
            }
            "read_reply" => {
                let reply =
                    ReadReply { version: Version(1), time: 1_700_000_000, expires: None, value: b"one" };
                assert_eq!(ReadReply::decode(body), Ok(reply));
                ReadReply::encode_head(&mut written, reply.version, reply.time, reply.expires);
                written.extend_from_slice(reply.value);
            }
            "write_request" => {
                let rules = RejectRules { version_other_than: Some(Version(1)), ..RejectRules::default() };
                let request =
                    WriteRequest { table: TableId(1), rules, expiry: None, key: b"k", value: b"two" };
                assert_eq!(WriteRequest::decode(body), Ok(request));
                request.encode(&mut written);
            }
            "write_refused_reply" => {
                assert_eq!(decode_version(body), Ok(Version(2)));
                encode_version(&mut written, Version(2));
            }
            "remove_request" => {
                let rules =
                    RejectRules { absent: true, version_at_most: Some(Version(9)), ..RejectRules::default() };
                let request = KeyRequest { table: TableId(1), rules, key: b"k" };
                assert_eq!(KeyRequest::decode(body), Ok(request));
                request.encode(&mut written);
            }
            "increment_request" => {
                let (rules, by) = (RejectRules::default(), Number::Float(1.5));
                let request = IncrementRequest { table: TableId(1), rules, by, key: b"k" };
                assert_eq!(IncrementRequest::decode(body), Ok(request));
                request.encode(&mut written);
            }
            "increment_reply" => {
                let reply = IncrementReply { version: Version(3), bits: 2.5f64.to_bits() };
                assert_eq!(IncrementReply::decode(body), Ok(reply));
                reply.encode(&mut written);
            }
            "multi_request" => {
                let items: Vec<Item<'_>> = MultiRequest::decode(body).unwrap().items().collect();
                let said: Vec<_> = items
                    .iter()
                    .map(|item| (Opcode::from(item.request), item.repeated, item.sequence.raw()))
                    .collect();
                assert_eq!(said, [(Opcode::Remove, true, 6), (Opcode::Increment, false, 7)]);
                let rules = RejectRules::default();
                let remove = KeyRequest { table: TableId(1), rules, key: b"k" };
                assert_eq!(KeyRequest::decode(items[0].body), Ok(remove));
                let (by, key) = (Number::Integer(2), &b"n"[..]);
                let increment = IncrementRequest { table: TableId(1), rules, by, key };
                assert_eq!(IncrementRequest::decode(items[1].body), Ok(increment));
                encode_multi(items.len(), &mut written, |out| {
                    encode_item(Opcode::Remove, true, Sequence(6), out, |out| remove.encode(out));
                    encode_item(Opcode::Increment, false, Sequence(7), out, |out| increment.encode(out));
                });
            }
            "multi_reply" => {
                let answers: Vec<_> =
                    decode_answers(body).map(|answer| (answer.place, answer.status)).collect();
                assert_eq!(answers, [(1, Some(Status::Ok.code())), (0, None)]);
                let sum = IncrementReply { version: Version(4), bits: 5 };
                encode_answer(1, Some(Status::Ok), &mut written, |out| sum.encode(out));
                encode_answer(0, None, &mut written, |_| {});
            }
            "scan_request" => {
                let (table, first, last) = (TableId(1), KeyHash(0), KeyHash(u64::MAX));
                let (position, count, bytes) = (7, 100, 4096);
                let (keys_only, pass_lost) = (true, false);
                let request =
                    ScanRequest { table, first, last, position, count, bytes, keys_only, pass_lost };
                assert_eq!(ScanRequest::decode(body), Ok(request));
                request.encode(&mut written);
            }
            "scan_reply" => {
                let head = ScanHead { last: KeyHash(u64::MAX / 2), next: Some(9) };
                let (version, time) = (Version(3), 1_700_000_000);
                let object = PageObject { version, time, expires: None, key: b"k", value: b"" };
                assert_eq!(decode_page(body), Ok((head, vec![object])));
                head.encode(&mut written);
                encode_object_head(&mut written, (version, time, None), 1, 0);
                written.push(b'k');
            }
            "append_request" => {
                let crc = ramhold_base::checksum::crc(b"bytes");
                let certificate = Certificate { length: 5, crc, time: ClusterTime(1_700_000_000_000) };
                let request = AppendRequest {
                    open: true,
                    primary: true,
                    raise_epoch: true,
                    certificate: Some(certificate),
                    data: b"bytes",
                    ..AppendRequest::default()
                };
                assert_eq!(AppendRequest::decode(body), Ok(request));
                request.encode_head(&mut written);
                written.extend_from_slice(request.data);
            }
            "append_large_request" => {
                let data: Vec<u8> = (0..1024u32).map(|at| at as u8).collect();
                let crc = ramhold_base::checksum::crc(&data);
                let certificate = Certificate { length: 1024, crc, time: ClusterTime(1_700_000_000_000) };
                let request = AppendRequest {
                    open: true,
                    certificate: Some(certificate),
                    data: &data,
                    ..AppendRequest::default()
                };
                assert_eq!(AppendRequest::decode(body), Ok(request));
                request.encode_head(&mut written);
                written.extend_from_slice(request.data);
            }
            "append_out_of_order_reply" => {
                let reply =
                    AppendReply { length: 5, certified: 5, epoch: Epoch(2), closed: false, flushed: 3 };
                assert_eq!(AppendReply::decode(body), Ok(reply));
                reply.encode(&mut written);
            }
            "head_record_request" => {
                let record = HeadRecord {
                    shard: ShardId(0),
                    stream: StreamId(1),
                    segment: SegmentId(3),
                    epoch: Epoch(2),
                };
                assert_eq!(decode::<HeadRecord>(body), Ok(record));
                encode_into(&mut written, &record);
            }
            "table_describe_request" => {
                let request = TableDescribe { name: "users".into(), table: TableId(0) };
                assert_eq!(decode::<TableDescribe>(body), Ok(request.clone()));
                encode_into(&mut written, &request);
            }
            other => panic!("nobody checks the body of {other}"),
        }
        assert_eq!(written, vector.body, "{}", vector.name);
    }
}
