//! One frame: a header with every identity field, then a body, both under one CRC32C. Two messages carry much
//! of a log. Their checksum ends where the log's bytes begin, since those have checksums of their own, which
//! the reader verifies.
//!
//! ```text
//!   0  magic A7 52 48 44      4  protocol version    5  header bytes / 8    6  opcode
//!   8  flags                 10  status             12  body bytes         16  crc32c
//!  20  kind  21 (zero)       22  shard              24  rpc id
//!  32  cluster               40  coordinator term   48  sender             56  target
//!  64  stream 66 covered     68  segment epoch      72  segment
//!  80  lease                 88  sequence           96  lowest unacknowledged sequence
//! 104  body
//! ```
//!
//! All numbers are little-endian. The format can grow by these rules:
//! - the first 20 bytes stay for ever, and new fields come only at the end of the header;
//! - a reader copies the fields that it knows of a longer header, and takes missing fields of a shorter one
//!   as zero;
//! - unknown flag bits of the low byte are ignored, those of the high byte refused.
//!
//! Full description: docs/formats/frame.md.

use crate::Opcode;
use crate::data::AppendRequest;
use crate::read_times::ReadTimes;
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::{crc, crc_append};
use ramhold_base::limits::FRAME_BODY_BYTES_MAX;
use ramhold_base::planted::{BUILT_IN, Defect, planted};
use ramhold_base::{
    ClusterId, Effects, Epoch, LeaseId, Peer, RpcId, SegmentId, Sequence, ServerId, ShardId, Status,
    StreamId, Term,
};
use std::fmt;
use std::sync::Arc;

/// The first byte is not ASCII, so that no text protocol (RESP, HTTP) is ever taken for a frame.
pub const MAGIC: [u8; 4] = [0xA7, b'R', b'H', b'D'];
pub const VERSION: u8 = 1;
pub const HEADER_BYTES: usize = 104;
/// The bytes that are needed to know the length of a frame.
pub const PREFIX_BYTES: usize = 16;
pub const FRAME_BYTES_MAX: usize = 255 * 8 + FRAME_BODY_BYTES_MAX as usize;

const REPEATED: u16 = 1;
/// The checksum covers the header and the first bytes of the body, as many as the field `covered` tells.
const PARTLY: u16 = 1 << 8;
const FLAGS_REFUSED: u16 = 0xFF00 & !PARTLY;
const CRC_AT: usize = 16;
const COVERED_AT: usize = 66;
/// Log bytes fewer than this are covered like all the rest: that costs nothing.
const UNCOVERED_BYTES_MIN: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Kind {
    #[default]
    Request = 1,
    Reply = 2,
}

/// The header's fields that have a meaning beyond framing. A field that a message does not use is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    pub kind: Kind,
    /// Raw, so that an unknown opcode can be answered; see [`Header::opcode`].
    pub opcode: u16,
    /// Raw status of a reply; see [`Header::status`].
    pub status: u16,
    pub shard: ShardId,
    pub rpc: RpcId,
    pub cluster: ClusterId,
    pub term: Term,
    /// The server that sends; none for clients and the coordinator.
    pub sender: ServerId,
    /// The life of the server that the frame is for. None for the coordinator, and where any life will do.
    pub target: ServerId,
    pub stream: StreamId,
    pub epoch: Epoch,
    pub segment: SegmentId,
    pub lease: LeaseId,
    pub sequence: Sequence,
    pub unacknowledged: Sequence,
    /// An earlier request with the same lease and sequence may have been carried out.
    pub repeated: bool,
}

impl Header {
    pub fn request(opcode: Opcode, rpc: RpcId) -> Header {
        Header { kind: Kind::Request, opcode: opcode.code(), rpc, ..Header::default() }
    }

    /// The header of the answer to this request: same opcode, rpc id and cluster; sender and target are
    /// exchanged.
    pub fn answer(&self, status: Status) -> Header {
        Header { kind: Kind::Reply, status: status.code(), sender: self.target, target: self.sender, ..*self }
    }

    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::from_code(self.opcode)
    }

    /// An unknown status of a newer peer counts as `BadRequest`.
    pub fn status(&self) -> Status {
        Status::from_code(self.status).unwrap_or(Status::BadRequest)
    }
}

/// Why bytes are no frame. The connection ends after such an answer, since the stream is out of step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadFrame {
    Magic,
    Version { theirs: u8 },
    HeaderLength { bytes: usize },
    TooLarge { bytes: u64 },
    Flags { flags: u16 },
    Kind { kind: u8 },
    Uncovered { bytes: usize },
    Truncated { bytes: usize },
    Checksum,
}

impl BadFrame {
    pub fn status(self) -> Status {
        match self {
            BadFrame::Version { .. } => Status::UnsupportedVersion,
            BadFrame::TooLarge { .. } => Status::FrameTooLarge,
            BadFrame::Magic
            | BadFrame::HeaderLength { .. }
            | BadFrame::Flags { .. }
            | BadFrame::Kind { .. }
            | BadFrame::Uncovered { .. }
            | BadFrame::Truncated { .. }
            | BadFrame::Checksum => Status::BadFrame,
        }
    }
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Magic => write!(f, "does not start with the magic bytes of a frame"),
            BadFrame::Version { theirs } => {
                write!(f, "protocol version {theirs} is not spoken here (this is version {VERSION})")
            }
            BadFrame::HeaderLength { bytes } => write!(f, "header length {bytes} is impossible"),
            BadFrame::TooLarge { bytes } => {
                write!(f, "body of {bytes} bytes is larger than the {FRAME_BODY_BYTES_MAX} allowed")
            }
            BadFrame::Flags { flags } => write!(f, "unknown critical flags {flags:#06x}"),
            BadFrame::Kind { kind } => write!(f, "kind {kind} is neither request nor reply"),
            BadFrame::Uncovered { bytes } => {
                write!(
                    f,
                    "the checksum of such a message does not leave out what follows byte {bytes} of its body"
                )
            }
            BadFrame::Truncated { bytes } => write!(f, "only {bytes} bytes of it are there"),
            BadFrame::Checksum => write!(f, "checksum does not match"),
        }
    }
}

/// The whole length of the frame that begins with `bytes`. None while fewer than [`PREFIX_BYTES`] are there.
/// Every limit is checked here, before any memory is taken for the body.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, BadFrame> {
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return Err(BadFrame::Magic);
    }
    if bytes.len() < PREFIX_BYTES {
        return Ok(None);
    }
    if bytes[4] != VERSION {
        return Err(BadFrame::Version { theirs: bytes[4] });
    }
    let header = usize::from(bytes[5]) * 8;
    if header < HEADER_BYTES {
        return Err(BadFrame::HeaderLength { bytes: header });
    }
    let flags = u16::from_le_bytes([bytes[8], bytes[9]]);
    if flags & FLAGS_REFUSED != 0 {
        return Err(BadFrame::Flags { flags });
    }
    let body = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    if body > FRAME_BODY_BYTES_MAX {
        return Err(BadFrame::TooLarge { bytes: u64::from(body) });
    }
    Ok(Some(header + body as usize))
}

/// The id and opcode of a request that this process has made itself; none: the frame is an answer.
pub fn peek(bytes: &[u8]) -> Option<(RpcId, Option<Opcode>)> {
    let rpc = u64::from_le_bytes(bytes.get(24..32)?.try_into().ok()?);
    let opcode = Opcode::from_code(u16::from_le_bytes([bytes[6], bytes[7]]));
    (bytes[20] == Kind::Request as u8).then_some((RpcId(rpc), opcode))
}

/// Takes one whole frame apart, and checks everything that needs no context.
pub fn parse(bytes: &[u8]) -> Result<(Header, &[u8]), BadFrame> {
    let whole = length(bytes)?.ok_or(BadFrame::Truncated { bytes: bytes.len() })?;
    if bytes.len() != whole {
        return Err(BadFrame::Truncated { bytes: bytes.len() });
    }
    let header_bytes = usize::from(bytes[5]) * 8;
    let stored = u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
    let body_bytes = whole - header_bytes;
    let covered = covered(bytes).unwrap_or(body_bytes);
    let uncovered = BadFrame::Uncovered { bytes: covered };
    let end = header_bytes + Some(covered).filter(|covered| *covered <= body_bytes).ok_or(uncovered)?;
    if checksum(&bytes[..end]) != stored && !planted(Defect::FrameUnchecked) {
        return Err(BadFrame::Checksum);
    }
    let header = fields(&bytes[..header_bytes])?;
    if end < whole && own_checksums_from(&header) != Some(covered) {
        return Err(uncovered);
    }
    Ok((header, &bytes[header_bytes..]))
}

/// The offset in a message's body at which the log's bytes begin. These are the data of an append, which
/// counts only when a certificate covers it, and the records of a recovery read, each with a checksum,
/// without which no record is taken in.
fn own_checksums_from(header: &Header) -> Option<usize> {
    match (header.kind, header.opcode()?) {
        (Kind::Request, Opcode::Append) => Some(AppendRequest::HEAD_BYTES),
        (Kind::Reply, Opcode::RecoveryRead) => Some(ReadTimes::BYTES),
        _ => None,
    }
}

/// The number of bytes of the body that the checksum covers, if not all.
fn covered(frame: &[u8]) -> Option<usize> {
    let number = |at: usize| u16::from_le_bytes([frame[at], frame[at + 1]]);
    (number(8) & PARTLY != 0).then(|| usize::from(number(COVERED_AT)))
}

/// The opcode and the body of a whole frame, as `length` has found it. None of it is verified.
pub fn glance(whole: &[u8]) -> (Option<Opcode>, &[u8]) {
    let opcode = u16::from_le_bytes([whole[6], whole[7]]);
    (Opcode::from_code(opcode), &whole[usize::from(whole[5]) * 8..])
}

fn checksum(frame: &[u8]) -> u32 {
    let before = crc(&frame[..CRC_AT]);
    crc_append(crc_append(before, &[0; 4]), &frame[CRC_AT + 4..])
}

fn fields(header: &[u8]) -> Result<Header, BadFrame> {
    let short = BadFrame::HeaderLength { bytes: header.len() };
    let mut reader = Reader::new(header);
    let mut read = || {
        reader.take(6)?;
        let opcode = reader.u16()?;
        let flags = reader.u16()?;
        let status = reader.u16()?;
        reader.take(8)?;
        let kind = reader.u8()?;
        reader.u8()?;
        let shard = ShardId(reader.u16()?);
        let rpc = RpcId(reader.u64()?);
        let cluster = ClusterId(reader.u64()?);
        let term = Term(reader.u64()?);
        let sender = ServerId(reader.u64()?);
        let target = ServerId(reader.u64()?);
        let stream = StreamId(reader.u16()?);
        reader.u16()?;
        let epoch = Epoch(reader.u32()?);
        let segment = SegmentId(reader.u64()?);
        let lease = LeaseId(reader.u64()?);
        let sequence = Sequence(reader.u64()?);
        let unacknowledged = Sequence(reader.u64()?);
        Some((
            kind,
            Header {
                kind: Kind::Request,
                opcode,
                status,
                shard,
                rpc,
                cluster,
                term,
                sender,
                target,
                stream,
                epoch,
                segment,
                lease,
                sequence,
                unacknowledged,
                repeated: flags & REPEATED != 0,
            },
        ))
    };
    let (kind, mut header) = read().ok_or(short)?;
    header.kind = match kind {
        1 => Kind::Request,
        2 => Kind::Reply,
        kind => return Err(BadFrame::Kind { kind }),
    };
    Ok(header)
}

/// The header as a planted defect of the writer would make it; without a defect, as it is.
fn as_planted(header: &Header) -> Header {
    let Header { cluster, term, sender, target, epoch, segment, .. } = *header;
    let is_request = header.kind == Kind::Request;
    let server_or_zero = ClusterId(sender.raw());
    match () {
        () if planted(Defect::ClusterZeroed) => Header { cluster: ClusterId::NONE, ..*header },
        () if planted(Defect::ClusterAged) => {
            Header { cluster: ClusterId(cluster.raw().saturating_sub(1)), ..*header }
        }
        () if planted(Defect::ClusterSwapped) => Header { cluster: server_or_zero, ..*header },
        () if planted(Defect::TermZeroed) => Header { term: Term::NONE, ..*header },
        () if planted(Defect::TermAged) => Header { term: Term(term.raw().saturating_sub(1)), ..*header },
        () if planted(Defect::TermSwapped) => {
            Header { term: Term(epoch.raw().into()), epoch: Epoch(term.raw() as u32), ..*header }
        }
        () if planted(Defect::LifeZeroed) && is_request => Header { target: ServerId::NONE, ..*header },
        () if planted(Defect::LifeAged) && is_request => {
            Header { target: ServerId(target.raw().saturating_sub(1)), ..*header }
        }
        () if planted(Defect::LifeSwapped) && is_request => {
            Header { sender: target, target: sender, ..*header }
        }
        () if planted(Defect::EpochZeroed) && is_request => Header { epoch: Epoch::NONE, ..*header },
        () if planted(Defect::EpochAged) && is_request => {
            Header { epoch: Epoch(epoch.raw().saturating_sub(1)), ..*header }
        }
        () if planted(Defect::EpochSwapped) && is_request => {
            Header { epoch: Epoch(segment.raw() as u32), ..*header }
        }
        () => *header,
    }
}

/// Appends a frame to `out`; `body` appends the body's bytes. The checksum leaves out log bytes with
/// checksums of their own.
pub fn write(out: &mut Vec<u8>, header: &Header, body: impl FnOnce(&mut Vec<u8>)) {
    write_before(out, header, body, 0);
}

/// Sends a frame whose body ends with `shared`. A large `shared` with checksums of its own is sent from where
/// it lies.
pub fn send_sharing(
    effects: &mut Effects,
    to: Peer,
    header: &Header,
    head: impl FnOnce(&mut Vec<u8>),
    shared: &Arc<Vec<u8>>,
) {
    if own_checksums_from(header).is_some() && shared.len() >= UNCOVERED_BYTES_MIN {
        effects.send_sharing(to, shared, |out| write_before(out, header, head, shared.len()));
    } else {
        let body = |out: &mut Vec<u8>| {
            head(out);
            out.extend_from_slice(shared);
        };
        effects.send_with(to, |out| write(out, header, body));
    }
}

/// Appends a frame without the last `behind` bytes of its body, which the checksum has to leave out.
fn write_before(out: &mut Vec<u8>, header: &Header, body: impl FnOnce(&mut Vec<u8>), behind: usize) {
    let planted_header;
    let header = if BUILT_IN {
        planted_header = as_planted(header);
        &planted_header
    } else {
        header
    };
    let start = out.len();
    out.put_bytes(&MAGIC);
    out.put_u8(VERSION);
    out.put_u8((HEADER_BYTES / 8) as u8);
    out.put_u16(header.opcode);
    out.put_u16(if header.repeated { REPEATED } else { 0 });
    out.put_u16(header.status);
    out.put_u64(0); // Body length and checksum, filled in below.
    out.put_u8(header.kind as u8);
    out.put_u8(0);
    out.put_u16(header.shard.raw());
    out.put_u64(header.rpc.raw());
    out.put_u64(header.cluster.raw());
    out.put_u64(header.term.raw());
    out.put_u64(header.sender.raw());
    out.put_u64(header.target.raw());
    out.put_u16(header.stream.raw());
    out.put_u16(0);
    out.put_u32(header.epoch.raw());
    out.put_u64(header.segment.raw());
    out.put_u64(header.lease.raw());
    out.put_u64(header.sequence.raw());
    out.put_u64(header.unacknowledged.raw());
    debug_assert_eq!(out.len() - start, HEADER_BYTES);
    body(out);
    let body_bytes = out.len() - start - HEADER_BYTES + behind;
    assert!(body_bytes <= FRAME_BODY_BYTES_MAX as usize, "a body of {body_bytes} bytes is over the limit");
    out[start + 12..start + 16].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    let mut end = out.len();
    let is_partly = |covered: &usize| body_bytes >= *covered + UNCOVERED_BYTES_MIN;
    if let Some(covered) = own_checksums_from(header).filter(is_partly) {
        out[start + 9] |= (PARTLY >> 8) as u8;
        out[start + COVERED_AT..start + COVERED_AT + 2].copy_from_slice(&(covered as u16).to_le_bytes());
        end = start + HEADER_BYTES + covered;
    }
    assert!(behind == 0 || end == out.len(), "what is behind is what the checksum leaves out");
    let sum = crc(&out[start..end]); // The checksum field is still zero.
    out[start + CRC_AT..start + CRC_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Header {
        Header {
            kind: Kind::Request,
            opcode: Opcode::Append.code(),
            status: 0,
            shard: ShardId(1),
            rpc: RpcId(2),
            cluster: ClusterId(3),
            term: Term(4),
            sender: ServerId(5),
            target: ServerId(6),
            stream: StreamId(7),
            epoch: Epoch(8),
            segment: SegmentId(9),
            lease: LeaseId(10),
            sequence: Sequence(11),
            unacknowledged: Sequence(12),
            repeated: true,
        }
    }

    #[test]
    fn a_frame_comes_back_as_it_went() {
        let mut bytes = Vec::new();
        write(&mut bytes, &example(), |out| out.extend_from_slice(b"body"));
        assert_eq!(length(&bytes), Ok(Some(bytes.len())));
        assert_eq!(parse(&bytes), Ok((example(), &b"body"[..])));
    }

    #[test]
    fn what_ends_with_shared_bytes_is_the_frame_that_holds_them() {
        let kinds = [(Kind::Request, Opcode::Append), (Kind::Reply, Opcode::RecoveryRead)];
        for (kind, opcode) in kinds.into_iter().chain([(Kind::Request, Opcode::Write)]) {
            let header = Header { kind, opcode: opcode.code(), ..example() };
            let head_bytes = own_checksums_from(&header).unwrap_or(20);
            for bytes in [0, 1, UNCOVERED_BYTES_MIN - 1, UNCOVERED_BYTES_MIN, 100_000] {
                let shared = Arc::new((0..bytes).map(|byte| byte as u8).collect::<Vec<u8>>());
                let mut effects = Effects::new();
                let to = Peer::Conn(ramhold_base::ConnId(1));
                let head = |out: &mut Vec<u8>| out.resize(out.len() + head_bytes, 7);
                send_sharing(&mut effects, to, &header, head, &shared);
                let [ramhold_base::Effect::Send { frame, .. }] = &effects.list[..] else { unreachable!() };
                let is_apart = opcode != Opcode::Write && bytes >= UNCOVERED_BYTES_MIN;
                assert_eq!(frame.shared.is_some(), is_apart, "{opcode:?} with {bytes}");

                let mut whole = Vec::new();
                let body = |out: &mut Vec<u8>| {
                    head(out);
                    out.extend_from_slice(&shared);
                };
                write(&mut whole, &header, body);
                assert!(frame.of(&effects.bytes) == whole, "{opcode:?} with {bytes}");
                assert_eq!(parse(&whole).map(|(parsed, _)| parsed), Ok(header));
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let mut bytes = Vec::new();
        write(&mut bytes, &example(), |out| out.extend_from_slice(b"some body"));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    fn partly(kind: Kind, opcode: Opcode, body: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let header = Header { kind, opcode: opcode.code(), ..example() };
        write(&mut bytes, &header, |out| out.resize(out.len() + body, 7));
        bytes
    }

    // F9
    #[test]
    fn a_flipped_bit_is_detected_or_lies_among_what_has_checksums_of_its_own() {
        for (kind, opcode, covered) in [
            (Kind::Request, Opcode::Append, AppendRequest::HEAD_BYTES),
            (Kind::Reply, Opcode::RecoveryRead, ReadTimes::BYTES),
        ] {
            let mut bytes = partly(kind, opcode, covered + UNCOVERED_BYTES_MIN);
            let (header, body) = parse(&bytes).unwrap();
            assert_eq!(
                (header, body.len()),
                (Header { kind, opcode: opcode.code(), ..example() }, covered + 1024)
            );
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(parse(&bytes).is_ok(), bit / 8 >= HEADER_BYTES + covered, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn only_the_bytes_of_a_log_may_be_left_out() {
        let seal = |bytes: &mut Vec<u8>, covered: usize| {
            bytes[9] |= 1;
            bytes[COVERED_AT..COVERED_AT + 2].copy_from_slice(&(covered as u16).to_le_bytes());
            bytes[16..20].fill(0);
            let sum = crc(&bytes[..bytes.len().min(HEADER_BYTES + covered)]);
            bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        };
        let refused = |mut bytes: Vec<u8>, covered: usize| {
            seal(&mut bytes, covered);
            assert_eq!(parse(&bytes), Err(BadFrame::Uncovered { bytes: covered }));
        };
        refused(partly(Kind::Request, Opcode::Append, 2000), 23);
        refused(partly(Kind::Request, Opcode::Append, 2000), 2001);
        refused(partly(Kind::Reply, Opcode::Append, 2000), 24);
        refused(partly(Kind::Request, Opcode::Write, 2000), 24);
        let mut whole = partly(Kind::Request, Opcode::Write, 2000);
        seal(&mut whole, 2000);
        assert!(parse(&whole).is_ok());
    }

    #[test]
    fn a_longer_header_of_the_future_is_read() {
        let mut bytes = Vec::new();
        write(&mut bytes, &example(), |_| {});
        bytes.splice(HEADER_BYTES..HEADER_BYTES, [0xEE; 16]);
        bytes[5] += 2;
        bytes[16..20].fill(0);
        let sum = crc(&bytes);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(parse(&bytes), Ok((example(), &b""[..])));
    }

    #[test]
    fn limits_are_answers() {
        let mut bytes = Vec::new();
        write(&mut bytes, &example(), |_| {});
        let mut other = bytes.clone();
        other[4] = 9;
        assert_eq!(parse(&other), Err(BadFrame::Version { theirs: 9 }));
        let mut large = bytes.clone();
        large[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(length(&large), Err(BadFrame::TooLarge { bytes: u64::from(u32::MAX) }));
        assert_eq!(length(b"GET / HTTP"), Err(BadFrame::Magic));
        let mut flagged = bytes.clone();
        flagged[9] = 2;
        assert_eq!(length(&flagged), Err(BadFrame::Flags { flags: 513 }));
        flagged[9] = 0;
        flagged[8] = 2;
        assert_eq!(length(&flagged), Ok(Some(HEADER_BYTES)));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
            if magic && bytes.len() >= 6 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = VERSION;
                bytes[5] = 13;
            }
            let _ = length(&bytes);
            let _ = parse(&bytes);
        }
    }
}
