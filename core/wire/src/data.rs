//! Bodies of the data plane, laid out by hand.
//!
//! `decode` takes bytes from outside: it answers a status, never panics, and allocates nothing.

use crate::control::{decode, encode_into};
use crate::status::DiskFull;
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::limits::{EXPIRY_MILLIS_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterTime, Epoch, Number, Status, TableId, Version};

/// The conditions under which an operation is refused (A4). For an absent object only `absent` counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RejectRules {
    /// Refuse with `NotFound` when the object does not exist.
    pub absent: bool,
    /// Refuse with `Exists` when the object exists.
    pub exists: bool,
    /// Refuse with `WrongVersion` when the object's version is not greater than this one.
    pub version_at_most: Option<Version>,
    /// Refuse with `WrongVersion` when the object has another version than this one.
    pub version_other_than: Option<Version>,
}

impl RejectRules {
    const ABSENT: u8 = 1;
    const EXISTS: u8 = 2;
    const AT_MOST: u8 = 4;
    const OTHER_THAN: u8 = 8;

    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_with(0, out);
    }

    /// Encodes the rules, with `others` added to their flags: bits that belong to the request that the rules
    /// are a part of.
    fn encode_with(&self, others: u8, out: &mut Vec<u8>) {
        let mut flags = others;
        flags |= if self.absent { Self::ABSENT } else { 0 };
        flags |= if self.exists { Self::EXISTS } else { 0 };
        flags |= if self.version_at_most.is_some() { Self::AT_MOST } else { 0 };
        flags |= if self.version_other_than.is_some() { Self::OTHER_THAN } else { 0 };
        out.put_u8(flags);
        for version in [self.version_at_most, self.version_other_than].into_iter().flatten() {
            out.put_u64(version.raw());
        }
    }

    /// Encodes the rules, with the bits of an expiry, and the expiry behind them.
    pub(crate) fn encode_with_expiry(&self, expiry: Option<Expiry>, out: &mut Vec<u8>) {
        match expiry {
            None => self.encode(out),
            Some(Expiry::After { millis }) => {
                self.encode_with(Expiry::AFTER, out);
                out.put_u64(millis);
            }
            Some(Expiry::At(end)) => {
                self.encode_with(Expiry::AT, out);
                out.put_u64(end.0);
            }
        }
    }

    pub(crate) fn decode_with_expiry(reader: &mut Reader<'_>) -> Option<(RejectRules, Option<Expiry>)> {
        let (rules, bits) = RejectRules::decode_with(Expiry::AFTER | Expiry::AT, reader)?;
        let expiry = match bits {
            0 => None,
            Expiry::AFTER => Some(Expiry::After { millis: reader.u64()? }),
            Expiry::AT => Some(Expiry::At(ClusterTime(reader.u64()?))),
            _ => return None,
        };
        Some((rules, expiry))
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<RejectRules> {
        Self::decode_with(0, reader).map(|(rules, _)| rules)
    }

    /// The rules, and those bits of their flags that are among `others`.
    fn decode_with(others: u8, reader: &mut Reader<'_>) -> Option<(RejectRules, u8)> {
        let flags = reader.u8()?;
        if flags & !(Self::ABSENT | Self::EXISTS | Self::AT_MOST | Self::OTHER_THAN | others) != 0 {
            return None;
        }
        let version_at_most = if flags & Self::AT_MOST != 0 { Some(Version(reader.u64()?)) } else { None };
        let version_other_than =
            if flags & Self::OTHER_THAN != 0 { Some(Version(reader.u64()?)) } else { None };
        let rules = RejectRules {
            absent: flags & Self::ABSENT != 0,
            exists: flags & Self::EXISTS != 0,
            version_at_most,
            version_other_than,
        };
        Some((rules, flags & others))
    }

    /// The verdict of the rules on an object with this version, or on an absent one.
    pub fn check(&self, current: Option<Version>) -> Result<(), Status> {
        match current {
            None if self.absent => Err(Status::NotFound),
            None => Ok(()),
            Some(_) if self.exists => Err(Status::Exists),
            Some(version) if self.version_at_most.is_some_and(|given| version <= given) => {
                Err(Status::WrongVersion)
            }
            Some(version) if self.version_other_than.is_some_and(|given| version != given) => {
                Err(Status::WrongVersion)
            }
            Some(_) => Ok(()),
        }
    }
}

/// The body of `Read` and `Remove`: table u32, rules, key. Answers: `Read` gives [`ReadReply`]. `Remove`
/// gives the version u64 of the removal, or 0 when no object was there. A refusal by the rules gives the
/// version that the object has, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRequest<'a> {
    pub table: TableId,
    pub rules: RejectRules,
    pub key: &'a [u8],
}

impl<'a> KeyRequest<'a> {
    /// The bytes before the key of a request without rules: the table, and that there are none.
    pub const PLAIN_HEAD_BYTES: usize = 5;

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.table.raw());
        self.rules.encode(out);
        out.put_bytes(self.key);
    }

    pub fn decode(body: &'a [u8]) -> Result<KeyRequest<'a>, Status> {
        let mut reader = Reader::new(body);
        let mut head = || Some((TableId(reader.u32()?), RejectRules::decode(&mut reader)?));
        let (table, rules) = head().ok_or(Status::BadRequest)?;
        let key = reader.rest();
        if key.len() > KEY_BYTES_MAX {
            return Err(Status::KeyTooLarge);
        }
        Ok(KeyRequest { table, rules, key })
    }
}

/// When a written object ends by itself (A12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Time to live in milliseconds, counted from the moment at which the write is carried out: 1 to
    /// [`EXPIRY_MILLIS_MAX`].
    After { millis: u64 },
    /// Ends at this cluster time, which is not 0 and at most [`EXPIRY_MILLIS_MAX`] ahead. If that time has
    /// passed, the object is written and is over at once.
    At(ClusterTime),
}

impl Expiry {
    const AFTER: u8 = 16;
    const AT: u8 = 32;

    /// Checks the limits that need no knowledge of the time. `BadRequest`: the expiry is outside them.
    pub fn check(self) -> Result<(), Status> {
        match self {
            Expiry::After { millis: 1..=EXPIRY_MILLIS_MAX } => Ok(()),
            Expiry::At(end) if end.0 > 0 => Ok(()),
            Expiry::After { .. } | Expiry::At(_) => Err(Status::BadRequest),
        }
    }

    /// The first moment at which an object written at `now` is over. `BadRequest`: the expiry is outside its
    /// limits.
    pub fn end(self, now: ClusterTime) -> Result<ClusterTime, Status> {
        self.check()?;
        match self {
            Expiry::After { millis } => Ok(ClusterTime(now.0.saturating_add(millis))),
            Expiry::At(end) if end.0 > now.0.saturating_add(EXPIRY_MILLIS_MAX) => Err(Status::BadRequest),
            Expiry::At(end) => Ok(end),
        }
    }
}

/// The body of `Write`: table u32, rules, expiry u64 if the rules' flags have a bit for it, key length u32,
/// key, value. Its answer: version u64. A refusal by the rules gives the version of the object there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteRequest<'a> {
    pub table: TableId,
    pub rules: RejectRules,
    /// None: the object stays until it is removed, even if it replaces an object that was to end.
    pub expiry: Option<Expiry>,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.table.raw());
        self.rules.encode_with_expiry(self.expiry, out);
        out.put_u32(self.key.len() as u32);
        out.put_bytes(self.key);
        out.put_bytes(self.value);
    }

    pub fn decode(body: &'a [u8]) -> Result<WriteRequest<'a>, Status> {
        let mut reader = Reader::new(body);
        let mut head = || {
            let table = TableId(reader.u32()?);
            let (rules, expiry) = RejectRules::decode_with_expiry(&mut reader)?;
            Some((table, rules, expiry, reader.u32()?))
        };
        let (table, rules, expiry, key_bytes) = head().ok_or(Status::BadRequest)?;
        expiry.map_or(Ok(()), Expiry::check)?;
        if key_bytes as usize > KEY_BYTES_MAX {
            return Err(Status::KeyTooLarge);
        }
        let key = reader.take(key_bytes as usize).ok_or(Status::BadRequest)?;
        let value = reader.rest();
        if value.len() > VALUE_BYTES_MAX {
            return Err(Status::ValueTooLarge);
        }
        Ok(WriteRequest { table, rules, expiry, key, value })
    }
}

/// The body of the answer to `Read`: version u64, write time u32 (cluster seconds), end u64 (cluster
/// milliseconds, 0: none), value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadReply<'a> {
    pub version: Version,
    pub time: u32,
    /// From this time on the object is not returned any more.
    pub expires: Option<ClusterTime>,
    pub value: &'a [u8],
}

impl<'a> ReadReply<'a> {
    /// The bytes before the value.
    pub const HEAD_BYTES: usize = 20;

    pub fn encode_head(out: &mut Vec<u8>, version: Version, time: u32, expires: Option<ClusterTime>) {
        out.put_u64(version.raw());
        out.put_u32(time);
        out.put_u64(expires.unwrap_or_default().0);
    }

    pub fn decode(body: &'a [u8]) -> Result<ReadReply<'a>, Status> {
        let mut reader = Reader::new(body);
        let mut head = || Some((Version(reader.u64()?), reader.u32()?, ClusterTime(reader.u64()?)));
        let (version, time, end) = head().ok_or(Status::BadRequest)?;
        let expires = (end.0 != 0).then_some(end);
        Ok(ReadReply { version, time, expires, value: reader.rest() })
    }
}

/// The body of `Increment`: table u32, rules, amount 8 bytes, key. Its answer: [`IncrementReply`].
/// A refusal gives the version that the object has, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncrementRequest<'a> {
    pub table: TableId,
    pub rules: RejectRules,
    /// The amount to add. The object's value is read as a number of the same kind.
    pub by: Number,
    pub key: &'a [u8],
}

impl<'a> IncrementRequest<'a> {
    const FLOAT: u8 = 16;

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.table.raw());
        let kind = match self.by {
            Number::Integer(_) => 0,
            Number::Float(_) => Self::FLOAT,
        };
        self.rules.encode_with(kind, out);
        out.put_u64(self.by.bits());
        out.put_bytes(self.key);
    }

    pub fn decode(body: &'a [u8]) -> Result<IncrementRequest<'a>, Status> {
        let mut reader = Reader::new(body);
        let mut head = || {
            let table = TableId(reader.u32()?);
            let (rules, kind) = RejectRules::decode_with(Self::FLOAT, &mut reader)?;
            let kind = if kind == Self::FLOAT { Number::Float(0.0) } else { Number::Integer(0) };
            Some((table, rules, kind.alike_from_bits(reader.u64()?)?))
        };
        let (table, rules, by) = head().ok_or(Status::BadRequest)?;
        let key = reader.rest();
        if key.len() > KEY_BYTES_MAX {
            return Err(Status::KeyTooLarge);
        }
        Ok(IncrementRequest { table, rules, by, key })
    }
}

/// The body of the answer to `Increment`: version u64, and the sum in 8 bytes, of the kind that was asked
/// for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncrementReply {
    pub version: Version,
    pub bits: u64,
}

impl IncrementReply {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.version.raw());
        out.put_u64(self.bits);
    }

    pub fn decode(body: &[u8]) -> Result<IncrementReply, Status> {
        let mut reader = Reader::new(body);
        let mut read = || Some(IncrementReply { version: Version(reader.u64()?), bits: reader.u64()? });
        read().ok_or(Status::BadRequest)
    }
}

pub fn encode_version(out: &mut Vec<u8>, version: Version) {
    out.put_u64(version.raw());
}

pub fn decode_version(body: &[u8]) -> Result<Version, Status> {
    Reader::new(body).u64().map(Version).ok_or(Status::BadRequest)
}

/// Makes a replica's bytes count: the first `length` bytes have this CRC32C. The cluster time says when that
/// was so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Certificate {
    pub length: u32,
    pub crc: u32,
    pub time: ClusterTime,
}

/// The body of `Append`: flags u32, offset u32, certificate (length u32, crc u32, time u64), data. The header
/// names log (sender, shard), stream, segment and epoch.
///
/// - `open`: the replica may be new; the data starts at offset 0.
/// - `close`: no data follows; the message has a certificate of the whole segment.
/// - `primary`: this replica is read first in a recovery. `side`: the segment is outside the head order.
/// - `certificate`: the message brings a certificate. Without it the data counts only when a later message
///   brings one.
/// - `synced`, with `open`: an append with a certificate is answered when the certified bytes outlive a loss
///   of power.
/// - `raise_epoch`: the replica takes the header's epoch even if its own is lower. Otherwise epochs must be
///   equal.
///
/// An append without data and with the present certificate is a keepalive, checked like any other append. An
/// append without flags and data, at offset 0, is a probe: it changes nothing, and its answer tells which
/// bytes are held and flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AppendRequest<'a> {
    pub open: bool,
    pub close: bool,
    pub primary: bool,
    pub side: bool,
    pub raise_epoch: bool,
    pub synced: bool,
    pub certificate: Option<Certificate>,
    pub offset: u32,
    pub data: &'a [u8],
}

impl<'a> AppendRequest<'a> {
    /// The bytes before the data.
    pub const HEAD_BYTES: usize = 24;
    const OPEN: u32 = 1;
    const CLOSE: u32 = 2;
    const PRIMARY: u32 = 4;
    const SIDE: u32 = 8;
    const RAISE: u32 = 16;
    const CERTIFICATE: u32 = 32;
    const SYNCED: u32 = 64;
    const KNOWN: u32 = 127;

    /// Encodes everything but the data, which the caller appends after it.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        out.put_u32(
            bit(self.open, Self::OPEN)
                | bit(self.close, Self::CLOSE)
                | bit(self.primary, Self::PRIMARY)
                | bit(self.side, Self::SIDE)
                | bit(self.raise_epoch, Self::RAISE)
                | bit(self.synced, Self::SYNCED)
                | bit(self.certificate.is_some(), Self::CERTIFICATE),
        );
        out.put_u32(self.offset);
        let certificate = self.certificate.unwrap_or_default();
        out.put_u32(certificate.length);
        out.put_u32(certificate.crc);
        out.put_u64(certificate.time.0);
    }

    pub fn decode(body: &'a [u8]) -> Result<AppendRequest<'a>, Status> {
        let mut reader = Reader::new(body);
        let mut head = || {
            let flags = reader.u32()?;
            let offset = reader.u32()?;
            let certificate =
                Certificate { length: reader.u32()?, crc: reader.u32()?, time: ClusterTime(reader.u64()?) };
            Some((flags, offset, certificate))
        };
        let (flags, offset, certificate) = head().ok_or(Status::BadRequest)?;
        let data = reader.rest();
        let end = u64::from(offset) + data.len() as u64;
        if flags & !Self::KNOWN != 0 || end > u64::from(u32::MAX) {
            return Err(Status::BadRequest);
        }
        let has_certificate = flags & Self::CERTIFICATE != 0;
        if has_certificate && u64::from(certificate.length) != end {
            return Err(Status::BadRequest);
        }
        Ok(AppendRequest {
            open: flags & Self::OPEN != 0,
            close: flags & Self::CLOSE != 0,
            primary: flags & Self::PRIMARY != 0,
            side: flags & Self::SIDE != 0,
            raise_epoch: flags & Self::RAISE != 0,
            synced: flags & Self::SYNCED != 0,
            certificate: has_certificate.then_some(certificate),
            offset,
            data,
        })
    }
}

/// The body of the answer to `Append`: the replica as it is now. Also sent with `OutOfOrder` and
/// `StaleEpoch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AppendReply {
    /// Bytes held without a gap.
    pub length: u32,
    /// Bytes that a certificate covers. For a replica that was opened as `synced`, this field, the epoch and
    /// the closing tell the state on the backup's device.
    pub certified: u32,
    pub epoch: Epoch,
    pub closed: bool,
    /// Bytes that a certificate on the backup's device covers, when bytes and certificate are synced, so that
    /// they outlive a loss of power. 0 as long as the device does not have the epoch and the closing that
    /// this answer tells; a closed replica is therefore flushed as a whole or not at all. A backup of a
    /// version without this field tells 0.
    pub flushed: u32,
}

impl AppendReply {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.length);
        out.put_u32(self.certified);
        out.put_u32(self.epoch.raw());
        out.put_u32(u32::from(self.closed));
        out.put_u32(self.flushed);
    }

    /// The length of an answer.
    const BYTES: usize = 20;

    /// Adds to an `OpenRefused` that the device is full.
    pub fn encode_full(full: &DiskFull, out: &mut Vec<u8>) {
        encode_into(out, full);
    }

    /// Why a backup has no frame for a replica, when its device is full. None: its configuration allows no
    /// more frames.
    pub fn decode_full(body: &[u8]) -> Option<DiskFull> {
        decode(body.get(AppendReply::BYTES..)?).ok()
    }

    pub fn decode(body: &[u8]) -> Result<AppendReply, Status> {
        let mut reader = Reader::new(body);
        let mut read = || {
            Some(AppendReply {
                length: reader.u32()?,
                certified: reader.u32()?,
                epoch: Epoch(reader.u32()?),
                closed: reader.u32()? != 0,
                flushed: reader.u32().unwrap_or(0),
            })
        };
        read().ok_or(Status::BadRequest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_are_checked_in_the_documented_order() {
        // A4
        let rules = RejectRules { version_other_than: Some(Version(5)), ..RejectRules::default() };
        assert_eq!(rules.check(None), Ok(()));
        assert_eq!(rules.check(Some(Version(5))), Ok(()));
        assert_eq!(rules.check(Some(Version(6))), Err(Status::WrongVersion));
        let rules = RejectRules { absent: true, exists: true, ..RejectRules::default() };
        assert_eq!(rules.check(None), Err(Status::NotFound));
        assert_eq!(rules.check(Some(Version(1))), Err(Status::Exists));
        let rules = RejectRules { version_at_most: Some(Version(5)), ..RejectRules::default() };
        assert_eq!(rules.check(Some(Version(5))), Err(Status::WrongVersion));
        assert_eq!(rules.check(Some(Version(6))), Ok(()));
    }

    /// The bytes of a plain write are what they were before objects could end; the bits mean nothing
    /// elsewhere. // A12
    #[test]
    fn an_expiry_stands_behind_the_rules_and_only_in_a_write() {
        let bytes_of = |expiry| {
            let rules = RejectRules { exists: true, ..RejectRules::default() };
            let mut bytes = Vec::new();
            WriteRequest { table: TableId(1), rules, expiry, key: b"k", value: b"v" }.encode(&mut bytes);
            bytes
        };
        assert_eq!(bytes_of(None), *b"\x01\0\0\0\x02\x01\0\0\0kv");
        let after = bytes_of(Some(Expiry::After { millis: 258 }));
        assert_eq!(after, *b"\x01\0\0\0\x12\x02\x01\0\0\0\0\0\0\x01\0\0\0kv");
        let at = bytes_of(Some(Expiry::At(ClusterTime(258))));
        assert_eq!(at, *b"\x01\0\0\0\x22\x02\x01\0\0\0\0\0\0\x01\0\0\0kv");
        let mut both = at.clone();
        both[4] |= Expiry::AFTER;
        assert_eq!(WriteRequest::decode(&both), Err(Status::BadRequest));
        assert_eq!(WriteRequest::decode(&at[..12]), Err(Status::BadRequest));
        for bits in [Expiry::AFTER, Expiry::AT, 64, 128] {
            assert_eq!(
                KeyRequest::decode(&[1, 0, 0, 0, bits, 0, 0, 0, 0, 0, 0, 0, 1]),
                Err(Status::BadRequest)
            );
        }
    }

    // A7
    #[test]
    fn an_amount_stands_behind_the_rules_and_is_finite() {
        let bytes_of = |by| {
            let mut bytes = Vec::new();
            let rules = RejectRules { exists: true, ..RejectRules::default() };
            IncrementRequest { table: TableId(1), rules, by, key: b"k" }.encode(&mut bytes);
            bytes
        };
        assert_eq!(bytes_of(Number::Integer(258)), *b"\x01\0\0\0\x02\x02\x01\0\0\0\0\0\0k");
        let float = bytes_of(Number::Float(1.5));
        assert_eq!(float, *b"\x01\0\0\0\x12\0\0\0\0\0\0\xf8\x3fk");
        for infinite in [f64::NAN, f64::INFINITY] {
            assert_eq!(IncrementRequest::decode(&bytes_of(Number::Float(infinite))), Err(Status::BadRequest));
        }
        assert_eq!(IncrementRequest::decode(&float[..12]), Err(Status::BadRequest));
        let mut unknown = float.clone();
        unknown[4] |= 32;
        assert_eq!(IncrementRequest::decode(&unknown), Err(Status::BadRequest));
    }

    #[test]
    fn an_expiry_outside_its_limits_is_refused() {
        // A12
        let now = ClusterTime(1_700_000_000_000);
        let decoded = |expiry| {
            let mut bytes = Vec::new();
            let rules = RejectRules::default();
            WriteRequest { table: TableId(1), rules, expiry: Some(expiry), key: b"k", value: b"" }
                .encode(&mut bytes);
            WriteRequest::decode(&bytes).map(|request| request.expiry)
        };
        for (millis, holds) in [
            (0, false),
            (1, true),
            (EXPIRY_MILLIS_MAX, true),
            (EXPIRY_MILLIS_MAX + 1, false),
            (u64::MAX, false),
        ] {
            let after = Expiry::After { millis };
            assert_eq!(decoded(after).is_ok(), holds, "{millis}");
            assert_eq!(after.end(now).ok(), holds.then(|| ClusterTime(now.0 + millis)), "{millis}");
        }
        let last = now.0 + EXPIRY_MILLIS_MAX;
        for (at, holds) in [(1, true), (now.0, true), (last, true), (last + 1, false), (u64::MAX, false)] {
            assert_eq!(decoded(Expiry::At(ClusterTime(at))), Ok(Some(Expiry::At(ClusterTime(at)))));
            assert_eq!(Expiry::At(ClusterTime(at)).end(now).ok(), holds.then_some(ClusterTime(at)), "{at}");
        }
        assert_eq!(decoded(Expiry::At(ClusterTime(0))), Err(Status::BadRequest));
    }

    proptest! {
        #[test]
        fn requests_round_trip(table: u32, key in proptest::collection::vec(any::<u8>(), 0..50),
                               value in proptest::collection::vec(any::<u8>(), 0..50),
                               absent: bool, exists: bool, at_most: Option<u64>, other: Option<u64>,
                               after in proptest::option::of(1..=EXPIRY_MILLIS_MAX), at in proptest::option::of(1u64..)) {
            let rules = RejectRules { absent, exists, version_at_most: at_most.map(Version), version_other_than: other.map(Version) };
            let after = after.map(|millis| Expiry::After { millis });
            let expiry = after.or(at.map(|at| Expiry::At(ClusterTime(at))));
            let request = WriteRequest { table: TableId(table), rules, expiry, key: &key, value: &value };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            prop_assert_eq!(WriteRequest::decode(&bytes), Ok(request));
            let request = KeyRequest { table: TableId(table), rules, key: &key };
            bytes.clear();
            request.encode(&mut bytes);
            prop_assert_eq!(KeyRequest::decode(&bytes), Ok(request));
        }

        #[test]
        fn increments_round_trip(table: u32, key in proptest::collection::vec(any::<u8>(), 0..50), bits: u64,
                                 is_float: bool, absent: bool, other: Option<u64>, version: u64) {
            let rules = RejectRules { absent, version_other_than: other.map(Version), ..RejectRules::default() };
            let kind = if is_float { Number::Float(0.0) } else { Number::Integer(0) };
            let by = kind.alike_from_bits(bits).unwrap_or(kind);
            let request = IncrementRequest { table: TableId(table), rules, by, key: &key };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            prop_assert_eq!(IncrementRequest::decode(&bytes), Ok(request));
            let reply = IncrementReply { version: Version(version), bits };
            bytes.clear();
            reply.encode(&mut bytes);
            prop_assert_eq!(IncrementReply::decode(&bytes), Ok(reply));
            prop_assert_eq!(IncrementReply::decode(&bytes[..15]), Err(Status::BadRequest));
        }

        #[test]
        fn append_replies_round_trip(length: u32, certified: u32, epoch: u32, closed: bool, flushed: u32) {
            let reply = AppendReply { length, certified, epoch: Epoch(epoch), closed, flushed };
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            prop_assert_eq!(AppendReply::decode(&bytes), Ok(reply));
            // An older backup ends before `flushed`; a newer one may append more fields behind it.
            prop_assert_eq!(AppendReply::decode(&bytes[..16]), Ok(AppendReply { flushed: 0, ..reply }));
            prop_assert_eq!(AppendReply::decode(&bytes[..15]), Err(Status::BadRequest));
            bytes.push(7);
            prop_assert_eq!(AppendReply::decode(&bytes), Ok(reply));
        }

        #[test]
        fn read_replies_round_trip(version: u64, time: u32, end in proptest::option::of(1u64..),
                                   value in proptest::collection::vec(any::<u8>(), 0..50)) {
            let (version, expires) = (Version(version), end.map(ClusterTime));
            let mut bytes = Vec::new();
            ReadReply::encode_head(&mut bytes, version, time, expires);
            bytes.extend_from_slice(&value);
            prop_assert_eq!(ReadReply::decode(&bytes), Ok(ReadReply { version, time, expires, value: &value }));
        }

        #[test]
        fn hostile_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = WriteRequest::decode(&bytes);
            let _ = KeyRequest::decode(&bytes);
            let _ = IncrementRequest::decode(&bytes);
            let _ = AppendRequest::decode(&bytes);
            let _ = AppendReply::decode(&bytes);
            let _ = ReadReply::decode(&bytes);
        }

        #[test]
        fn appends_round_trip(open: bool, close: bool, primary: bool, side: bool, raise: bool, synced: bool, certified: bool,
                              offset in 0u32..1_000_000, crc: u32, time: u64,
                              data in proptest::collection::vec(any::<u8>(), 0..50)) {
            let certificate = certified.then_some(Certificate { length: offset + data.len() as u32, crc, time: ClusterTime(time) });
            let request = AppendRequest { open, close, primary, side, raise_epoch: raise, synced, certificate, offset, data: &data };
            let mut bytes = Vec::new();
            request.encode_head(&mut bytes);
            bytes.extend_from_slice(&data);
            prop_assert_eq!(AppendRequest::decode(&bytes), Ok(request));
        }
    }
}
