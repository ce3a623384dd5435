//! Bodies of the data plane, laid out by hand.
//!
//! `decode` takes bytes from outside: it answers a status, never panics, and allocates nothing.

use ramhold_base::bytes::{Put, Reader};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterTime, Epoch, Status, TableId, Version};

/// Under which conditions an operation is refused (A4). For an absent object only `absent` counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RejectRules {
    /// Refuse with `NotFound` when the object does not exist.
    pub absent: bool,
    /// Refuse with `Exists` when it does.
    pub exists: bool,
    /// Refuse with `WrongVersion` when its version is not greater than this.
    pub version_at_most: Option<Version>,
    /// Refuse with `WrongVersion` when its version is another.
    pub version_other_than: Option<Version>,
}

impl RejectRules {
    const ABSENT: u8 = 1;
    const EXISTS: u8 = 2;
    const AT_MOST: u8 = 4;
    const OTHER_THAN: u8 = 8;

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut flags = 0;
        flags |= if self.absent { Self::ABSENT } else { 0 };
        flags |= if self.exists { Self::EXISTS } else { 0 };
        flags |= if self.version_at_most.is_some() { Self::AT_MOST } else { 0 };
        flags |= if self.version_other_than.is_some() { Self::OTHER_THAN } else { 0 };
        out.put_u8(flags);
        for version in [self.version_at_most, self.version_other_than].into_iter().flatten() {
            out.put_u64(version.raw());
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<RejectRules> {
        let flags = reader.u8()?;
        if flags & !(Self::ABSENT | Self::EXISTS | Self::AT_MOST | Self::OTHER_THAN) != 0 {
            return None;
        }
        let version_at_most = if flags & Self::AT_MOST != 0 { Some(Version(reader.u64()?)) } else { None };
        let version_other_than =
            if flags & Self::OTHER_THAN != 0 { Some(Version(reader.u64()?)) } else { None };
        Some(RejectRules {
            absent: flags & Self::ABSENT != 0,
            exists: flags & Self::EXISTS != 0,
            version_at_most,
            version_other_than,
        })
    }

    /// What the rules say of an object with this version, or of an absent one.
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

/// The body of `Read` and `Remove`: table u32, rules, key.
/// Answers: `Read` gives [`ReadReply`]; `Remove` gives version u64, that of the removal, or 0 when nothing was there.
/// A refusal by the rules gives the version that the object has, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRequest<'a> {
    pub table: TableId,
    pub rules: RejectRules,
    pub key: &'a [u8],
}

impl<'a> KeyRequest<'a> {
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

/// The body of `Write`: table u32, rules, key length u32, key, value. Its answer: version u64 (also when refused by
/// the rules: that of the object there).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteRequest<'a> {
    pub table: TableId,
    pub rules: RejectRules,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.table.raw());
        self.rules.encode(out);
        out.put_u32(self.key.len() as u32);
        out.put_bytes(self.key);
        out.put_bytes(self.value);
    }

    pub fn decode(body: &'a [u8]) -> Result<WriteRequest<'a>, Status> {
        let mut reader = Reader::new(body);
        let mut head = || Some((TableId(reader.u32()?), RejectRules::decode(&mut reader)?, reader.u32()?));
        let (table, rules, key_bytes) = head().ok_or(Status::BadRequest)?;
        if key_bytes as usize > KEY_BYTES_MAX {
            return Err(Status::KeyTooLarge);
        }
        let key = reader.take(key_bytes as usize).ok_or(Status::BadRequest)?;
        let value = reader.rest();
        if value.len() > VALUE_BYTES_MAX {
            return Err(Status::ValueTooLarge);
        }
        Ok(WriteRequest { table, rules, key, value })
    }
}

/// The body of the answer to `Read`: version u64, write time u32 (cluster seconds), value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadReply<'a> {
    pub version: Version,
    pub time: u32,
    pub value: &'a [u8],
}

impl<'a> ReadReply<'a> {
    pub fn encode_head(out: &mut Vec<u8>, version: Version, time: u32) {
        out.put_u64(version.raw());
        out.put_u32(time);
    }

    pub fn decode(body: &'a [u8]) -> Result<ReadReply<'a>, Status> {
        let mut reader = Reader::new(body);
        let mut head = || Some((Version(reader.u64()?), reader.u32()?));
        let (version, time) = head().ok_or(Status::BadRequest)?;
        Ok(ReadReply { version, time, value: reader.rest() })
    }
}

pub fn encode_version(out: &mut Vec<u8>, version: Version) {
    out.put_u64(version.raw());
}

pub fn decode_version(body: &[u8]) -> Result<Version, Status> {
    Reader::new(body).u64().map(Version).ok_or(Status::BadRequest)
}

/// What makes a replica's bytes count: its first `length` bytes have this CRC32C. The cluster time says when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Certificate {
    pub length: u32,
    pub crc: u32,
    pub time: ClusterTime,
}

/// The body of `Append`: flags u32, offset u32, certificate (length u32, crc u32, time u64), data.
/// The header names log (sender, shard), stream, segment and epoch.
///
/// - `open`: the replica may be new; the data starts at offset 0.
/// - `close`: nothing follows; with a certificate of the whole.
/// - `primary`: this replica is read first in a recovery. `side`: the segment is outside the head order.
/// - `certificate`: without one the data counts only when a later message brings one.
/// - `raise_epoch`: the replica takes the header's epoch even if its own is lower; otherwise epochs must be equal.
///
/// An append without data and with the present certificate is a keepalive: checked like any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AppendRequest<'a> {
    pub open: bool,
    pub close: bool,
    pub primary: bool,
    pub side: bool,
    pub raise_epoch: bool,
    pub certificate: Option<Certificate>,
    pub offset: u32,
    pub data: &'a [u8],
}

impl<'a> AppendRequest<'a> {
    const OPEN: u32 = 1;
    const CLOSE: u32 = 2;
    const PRIMARY: u32 = 4;
    const SIDE: u32 = 8;
    const RAISE: u32 = 16;
    const CERTIFICATE: u32 = 32;
    const KNOWN: u32 = 63;

    /// Everything but the data, which the caller appends after it.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        out.put_u32(
            bit(self.open, Self::OPEN)
                | bit(self.close, Self::CLOSE)
                | bit(self.primary, Self::PRIMARY)
                | bit(self.side, Self::SIDE)
                | bit(self.raise_epoch, Self::RAISE)
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
            certificate: has_certificate.then_some(certificate),
            offset,
            data,
        })
    }
}

/// The body of the answer to `Append`: what the replica holds now; also with `OutOfOrder` and `StaleEpoch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AppendReply {
    /// Bytes held without a gap.
    pub length: u32,
    /// Bytes that a certificate covers.
    pub certified: u32,
    pub epoch: Epoch,
    pub closed: bool,
}

impl AppendReply {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.length);
        out.put_u32(self.certified);
        out.put_u32(self.epoch.raw());
        out.put_u32(u32::from(self.closed));
    }

    pub fn decode(body: &[u8]) -> Result<AppendReply, Status> {
        let mut reader = Reader::new(body);
        let mut read = || {
            Some(AppendReply {
                length: reader.u32()?,
                certified: reader.u32()?,
                epoch: Epoch(reader.u32()?),
                closed: reader.u32()? != 0,
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

    proptest! {
        #[test]
        fn requests_round_trip(table: u32, key in proptest::collection::vec(any::<u8>(), 0..50),
                               value in proptest::collection::vec(any::<u8>(), 0..50),
                               absent: bool, exists: bool, at_most: Option<u64>, other: Option<u64>) {
            let rules = RejectRules { absent, exists, version_at_most: at_most.map(Version), version_other_than: other.map(Version) };
            let request = WriteRequest { table: TableId(table), rules, key: &key, value: &value };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            prop_assert_eq!(WriteRequest::decode(&bytes), Ok(request));
            let request = KeyRequest { table: TableId(table), rules, key: &key };
            bytes.clear();
            request.encode(&mut bytes);
            prop_assert_eq!(KeyRequest::decode(&bytes), Ok(request));
        }

        #[test]
        fn hostile_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = WriteRequest::decode(&bytes);
            let _ = KeyRequest::decode(&bytes);
            let _ = AppendRequest::decode(&bytes);
            let _ = AppendReply::decode(&bytes);
            let _ = ReadReply::decode(&bytes);
        }

        #[test]
        fn appends_round_trip(open: bool, close: bool, primary: bool, side: bool, raise: bool, certified: bool,
                              offset in 0u32..1_000_000, crc: u32, time: u64,
                              data in proptest::collection::vec(any::<u8>(), 0..50)) {
            let certificate = certified.then_some(Certificate { length: offset + data.len() as u32, crc, time: ClusterTime(time) });
            let request = AppendRequest { open, close, primary, side, raise_epoch: raise, certificate, offset, data: &data };
            let mut bytes = Vec::new();
            request.encode_head(&mut bytes);
            bytes.extend_from_slice(&data);
            prop_assert_eq!(AppendRequest::decode(&bytes), Ok(request));
        }
    }
}
