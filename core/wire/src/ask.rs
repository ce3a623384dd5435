//! The words between a session and a brick about one key of a quorum table, laid out by hand (I1).
//!
//! `decode` takes bytes from outside: it answers a status, never panics, and takes no memory that the bytes do not fill.
//!
//! Not here: what a brick does with it (core/brick, core/quorum). Format: docs/formats/messages.md.

use ramhold_base::bytes::{Put, Reader};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterTime, ServerId, Stamp, Status, TableId};

/// The most siblings that an answer tells of.
pub const SIBLINGS_MAX: usize = 6;

const HAS_VALUE: u8 = 1;
const HAS_END: u8 = 2;

/// The body of `Ask`: table u32, what u8 (1 value, 2 stamp, 3 write, 4 repair), flags u8 (1: it has a value, 2: the value
/// has an end), key length u16. A write and a repair go on with their stamp (time u64, session u64), begun u64, and end
/// u64 if flag 2 is set. Then the key, then the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskRequest<'a> {
    pub table: TableId,
    pub key: &'a [u8],
    pub what: AskWhat<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskWhat<'a> {
    /// The newest value and its stamp.
    Value,
    /// The newest stamp alone.
    Stamp,
    /// Store this.
    Write(AskedWrite<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedWrite<'a> {
    pub stamp: Stamp,
    /// When the put began, or the value of a repair was read: microseconds of the session's clock.
    pub begun: u64,
    pub is_repair: bool,
    /// None: a tombstone.
    pub value: Option<StampedValue<'a>>,
}

/// A value, and the time from which it does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampedValue<'a> {
    pub bytes: &'a [u8],
    pub expires: Option<ClusterTime>,
}

impl<'a> AskRequest<'a> {
    const VALUE: u8 = 1;
    const STAMP: u8 = 2;
    const WRITE: u8 = 3;
    const REPAIR: u8 = 4;

    pub fn encode(&self, out: &mut Vec<u8>) {
        let (what, write) = match &self.what {
            AskWhat::Value => (Self::VALUE, None),
            AskWhat::Stamp => (Self::STAMP, None),
            AskWhat::Write(write) if write.is_repair => (Self::REPAIR, Some(write)),
            AskWhat::Write(write) => (Self::WRITE, Some(write)),
        };
        let value = write.and_then(|write| write.value);
        out.put_u32(self.table.raw());
        out.put_u8(what);
        out.put_u8(flags(value));
        out.put_u16(self.key.len() as u16);
        if let Some(write) = write {
            put_stamp(out, write.stamp);
            out.put_u64(write.begun);
            value.and_then(|value| value.expires).into_iter().for_each(|end| out.put_u64(end.0));
        }
        out.put_bytes(self.key);
        out.put_bytes(value.map_or(&[], |value| value.bytes));
    }

    pub fn decode(body: &'a [u8]) -> Result<AskRequest<'a>, Status> {
        let mut reader = Reader::new(body);
        let request = Self::read(&mut reader).ok_or(Status::BadRequest)?;
        let value = match request.what {
            AskWhat::Write(write) => write.value.map_or(0, |value| value.bytes.len()),
            AskWhat::Value | AskWhat::Stamp => 0,
        };
        if value > VALUE_BYTES_MAX {
            return Err(Status::ValueTooLarge);
        }
        Ok(request)
    }

    fn read(reader: &mut Reader<'a>) -> Option<AskRequest<'a>> {
        let (table, what, flags) = (TableId(reader.u32()?), reader.u8()?, reader.u8()?);
        let key_bytes = usize::from(reader.u16()?);
        let is_write = matches!(what, Self::WRITE | Self::REPAIR);
        if !are_sound(flags) || (!is_write && flags != 0) {
            return None;
        }
        let what = match what {
            Self::VALUE => AskWhat::Value,
            Self::STAMP => AskWhat::Stamp,
            _ if is_write => {
                let (stamp, begun) = (stamp(reader)?, reader.u64()?);
                let expires = end(reader, flags)?;
                let (key, bytes) = (reader.take(key_bytes)?, reader.rest());
                let value = (flags & HAS_VALUE != 0).then_some(StampedValue { bytes, expires });
                let write = AskedWrite { stamp, begun, is_repair: what == Self::REPAIR, value };
                let is_sound = value.is_some() || bytes.is_empty();
                let request = AskRequest { table, key, what: AskWhat::Write(write) };
                return is_sound.then_some(request);
            }
            _ => return None,
        };
        let key = reader.take(key_bytes)?;
        reader.is_empty().then_some(AskRequest { table, key, what })
    }
}

/// The body of the answer to `Ask`: said u8 (1 value, 2 stamp, 3 applied, 4 rejected, 5 unknown, 6 wrong owner), flags u8
/// (1: there is a value, 2: it has an end), number of siblings u8, 0 u8, life u64, epoch u64, clock u64, stamp (time u64,
/// session u64), end u64 if flag 2 is set. Then each sibling (brick u64, life u64), then the value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskReply<'a> {
    pub life: u64,
    /// The newest lives of the key's other bricks that the brick knows.
    pub siblings: Vec<(ServerId, u64)>,
    /// The tablet's; rises with each change of its bricks.
    pub epoch: u64,
    /// The brick's time, in microseconds.
    pub clock: u64,
    pub said: AskSaid<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskSaid<'a> {
    /// The newest value. None: a tombstone, or the key was never written, and the stamp is 0.
    Value(Stamp, Option<StampedValue<'a>>),
    Stamp(Stamp),
    Applied,
    Rejected(Stamp),
    Unknown(Stamp),
    WrongOwner,
}

impl<'a> AskReply<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (said, stamp, value) = match self.said {
            AskSaid::Value(stamp, value) => (1, stamp, value),
            AskSaid::Stamp(stamp) => (2, stamp, None),
            AskSaid::Applied => (3, Stamp::NONE, None),
            AskSaid::Rejected(stamp) => (4, stamp, None),
            AskSaid::Unknown(stamp) => (5, stamp, None),
            AskSaid::WrongOwner => (6, Stamp::NONE, None),
        };
        out.put_u8(said);
        out.put_u8(flags(value));
        out.put_u8(self.siblings.len().min(SIBLINGS_MAX) as u8);
        out.put_u8(0);
        out.put_u64(self.life);
        out.put_u64(self.epoch);
        out.put_u64(self.clock);
        put_stamp(out, stamp);
        value.and_then(|value| value.expires).into_iter().for_each(|end| out.put_u64(end.0));
        for (brick, life) in self.siblings.iter().take(SIBLINGS_MAX) {
            out.put_u64(brick.raw());
            out.put_u64(*life);
        }
        out.put_bytes(value.map_or(&[], |value| value.bytes));
    }

    pub fn decode(body: &'a [u8]) -> Result<AskReply<'a>, Status> {
        Self::read(&mut Reader::new(body)).ok_or(Status::BadRequest)
    }

    fn read(reader: &mut Reader<'a>) -> Option<AskReply<'a>> {
        let (said, flags, count) = (reader.u8()?, reader.u8()?, usize::from(reader.u8()?));
        reader.u8()?;
        if count > SIBLINGS_MAX || !are_sound(flags) || (said != 1 && flags != 0) {
            return None;
        }
        let (life, epoch, clock, stamp) = (reader.u64()?, reader.u64()?, reader.u64()?, stamp(reader)?);
        let expires = end(reader, flags)?;
        let mut siblings = Vec::with_capacity(count);
        for _ in 0..count {
            siblings.push((ServerId(reader.u64()?), reader.u64()?));
        }
        let bytes = reader.rest();
        let value = (flags & HAS_VALUE != 0).then_some(StampedValue { bytes, expires });
        if (value.is_none() && !bytes.is_empty()) || bytes.len() > VALUE_BYTES_MAX {
            return None;
        }
        let said = match said {
            1 => AskSaid::Value(stamp, value),
            2 => AskSaid::Stamp(stamp),
            3 => AskSaid::Applied,
            4 => AskSaid::Rejected(stamp),
            5 => AskSaid::Unknown(stamp),
            6 => AskSaid::WrongOwner,
            _ => return None,
        };
        Some(AskReply { life, siblings, epoch, clock, said })
    }
}

fn flags(value: Option<StampedValue<'_>>) -> u8 {
    match value {
        None => 0,
        Some(value) => HAS_VALUE | if value.expires.is_some() { HAS_END } else { 0 },
    }
}

/// An end belongs to a value.
fn are_sound(flags: u8) -> bool {
    matches!(flags, 0 | HAS_VALUE) || flags == HAS_VALUE | HAS_END
}

pub(crate) fn put_stamp(out: &mut Vec<u8>, stamp: Stamp) {
    out.put_u64(stamp.time);
    out.put_u64(stamp.session);
}

pub(crate) fn stamp(reader: &mut Reader<'_>) -> Option<Stamp> {
    Some(Stamp { time: reader.u64()?, session: reader.u64()? })
}

fn end(reader: &mut Reader<'_>, flags: u8) -> Option<Option<ClusterTime>> {
    if flags & HAS_END == 0 { Some(None) } else { Some(Some(ClusterTime(reader.u64()?))) }
}

// Every key has a length that fits its field.
const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: StampedValue<'_> = StampedValue { bytes: b"value", expires: Some(ClusterTime(9)) };
    const STAMP: Stamp = Stamp { time: 7, session: 8 };

    fn asks() -> Vec<AskRequest<'static>> {
        let write =
            |is_repair, value| AskWhat::Write(AskedWrite { stamp: STAMP, begun: 5, is_repair, value });
        let unending = StampedValue { expires: None, bytes: b"" };
        let whats = [
            AskWhat::Value,
            AskWhat::Stamp,
            write(false, Some(VALUE)),
            write(true, Some(unending)),
            write(true, None),
        ];
        whats.map(|what| AskRequest { table: TableId(3), key: b"key", what }).to_vec()
    }

    fn replies() -> Vec<AskReply<'static>> {
        let saids = [
            AskSaid::Value(STAMP, Some(VALUE)),
            AskSaid::Value(Stamp::NONE, None),
            AskSaid::Stamp(STAMP),
            AskSaid::Applied,
            AskSaid::Rejected(STAMP),
            AskSaid::Unknown(STAMP),
            AskSaid::WrongOwner,
        ];
        let siblings = vec![(ServerId(2), 5), (ServerId(9), 1)];
        saids.map(|said| AskReply { life: 4, siblings: siblings.clone(), epoch: 6, clock: 1, said }).to_vec()
    }

    // I1
    #[test]
    fn asks_and_answers_are_read_as_they_were_written_and_cut_ones_are_refused() {
        for ask in asks() {
            let mut bytes = Vec::new();
            ask.encode(&mut bytes);
            assert_eq!(AskRequest::decode(&bytes), Ok(ask));
            let head = bytes.len() - ask.key.len() - 5;
            for cut in 0..head {
                assert!(AskRequest::decode(&bytes[..cut]).is_err(), "{ask:?} cut at {cut}");
            }
        }
        for reply in replies() {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            assert_eq!(AskReply::decode(&bytes), Ok(reply.clone()));
            for cut in 0..bytes.len() - 5 {
                assert!(AskReply::decode(&bytes[..cut]).is_err(), "{reply:?} cut at {cut}");
            }
        }
    }

    // I1
    #[test]
    fn what_is_no_ask_is_refused() {
        let mut bytes = Vec::new();
        asks()[2].encode(&mut bytes);
        for (at, byte) in [(4, 0), (4, 5), (5, 2), (5, 4), (5, 0)] {
            let mut strange = bytes.clone();
            strange[at] = byte;
            assert_eq!(AskRequest::decode(&strange), Err(Status::BadRequest), "{at} {byte}");
        }
        let large = StampedValue { bytes: &vec![0; VALUE_BYTES_MAX + 1], expires: None };
        let write = AskedWrite { stamp: STAMP, begun: 0, is_repair: false, value: Some(large) };
        let mut bytes = Vec::new();
        AskRequest { table: TableId(1), key: b"", what: AskWhat::Write(write) }.encode(&mut bytes);
        assert_eq!(AskRequest::decode(&bytes), Err(Status::ValueTooLarge));
    }
}
