//! A page of a quorum table, as one of its bricks tells it to a session, laid out by hand (A6).
//!
//! A page covers the keys of one tablet whose placement hashes are in a range and whose positions are at or above one
//! position, up to a position of its own. It tells the newest record of each key, tombstones included: the session
//! compares the pages of several bricks.
//!
//! `decode` takes bytes from outside: it answers a status, never panics, and takes no memory that the bytes do not fill.
//!
//! Not here: what a brick tells (core/brick), how pages are compared (core/quorum). Format: docs/formats/messages.md.

use crate::ask::{SIBLINGS_MAX, put_stamp, stamp};
use crate::scan::PAGE_BYTES_ALWAYS;
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterTime, KeyHash, ServerId, Stamp, Status, TableId};

/// The bytes of a record without its end, its key and its value.
pub const RECORD_BYTES: usize = 32;
/// The most bytes of a page before its records.
pub const HEAD_BYTES_MAX: usize = 36 + 16 * SIBLINGS_MAX;

const HAS_VALUE: u8 = 1;
const HAS_END: u8 = 2;
const IS_OPEN: u8 = 4;

const HAS_NEXT: u8 = 1;
const HAS_VALUES: u8 = 2;

const VALUES: u8 = 1;
const LENGTHS: u8 = 2;
const KEYS: u8 = 3;

const PAGE: u8 = 1;
const WRONG_OWNER: u8 = 2;

// The largest record fits a page.
const _: () =
    assert!(HEAD_BYTES_MAX + RECORD_BYTES + 8 + KEY_BYTES_MAX + VALUE_BYTES_MAX < PAGE_BYTES_ALWAYS as usize);

/// The body of `BrickPage`: table u32, what u8 (1 values, 2 lengths, 3 keys), first hash u64, last hash u64, position u64,
/// count u32, bytes u32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrickPageRequest {
    pub table: TableId,
    pub what: PageWants,
    /// A range within one tablet.
    pub first: KeyHash,
    /// Inclusive.
    pub last: KeyHash,
    pub position: u64,
    /// The most records and bytes of the page, each at least 1. More than the maxima of `scan` count as the maxima.
    pub count: u32,
    pub bytes: u32,
}

/// The part of a value that a page tells, and counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageWants {
    Values,
    /// Values are left out, but count towards the bytes of the page. So the page ends where one with values does.
    Lengths,
    /// Values are left out, and do not count.
    Keys,
}

impl BrickPageRequest {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.table.raw());
        out.put_u8(match self.what {
            PageWants::Values => VALUES,
            PageWants::Lengths => LENGTHS,
            PageWants::Keys => KEYS,
        });
        out.put_u64(self.first.0);
        out.put_u64(self.last.0);
        out.put_u64(self.position);
        out.put_u32(self.count);
        out.put_u32(self.bytes);
    }

    pub fn decode(body: &[u8]) -> Result<BrickPageRequest, Status> {
        let mut reader = Reader::new(body);
        let request = Self::read(&mut reader).filter(|_| reader.is_empty());
        request.ok_or(Status::BadRequest)
    }

    fn read(reader: &mut Reader<'_>) -> Option<BrickPageRequest> {
        let table = TableId(reader.u32()?);
        let what = match reader.u8()? {
            VALUES => PageWants::Values,
            LENGTHS => PageWants::Lengths,
            KEYS => PageWants::Keys,
            _ => return None,
        };
        let (first, last) = (KeyHash(reader.u64()?), KeyHash(reader.u64()?));
        let (position, count, bytes) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let is_sound = first <= last && count > 0 && bytes > 0;
        is_sound.then_some(BrickPageRequest { table, what, first, last, position, count, bytes })
    }
}

/// The body of the answer to `BrickPage`: said u8 (1 page, 2 wrong owner), flags u8 (1: there is more, 2: values are
/// told), number of siblings u8, 0 u8, life u64, epoch u64, clock u64, next position u64 (0 without flag 1). Then each
/// sibling (brick u64, life u64), then the records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrickPageReply<'a> {
    pub head: BrickPageHead,
    /// In order of their positions. Empty if the brick does not hold the range.
    pub records: Vec<BrickRecord<'a>>,
}

/// The fields before the records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrickPageHead {
    pub life: u64,
    /// The newest lives of the tablet's other bricks that the brick knows.
    pub siblings: Vec<(ServerId, u64)>,
    /// The tablet's; rises with each change of its bricks.
    pub epoch: u64,
    /// The brick's time, in microseconds.
    pub clock: u64,
    pub said: BrickPageSaid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrickPageSaid {
    Page {
        /// Where the next page begins. None: the page was the last one of the range.
        next: Option<u64>,
        /// Values are told, and not their lengths alone.
        has_values: bool,
    },
    /// The brick does not hold the whole range.
    WrongOwner,
}

/// The newest record of a key: position u64, stamp (time u64, session u64), flags u8 (1: a value, 2: the value has an end,
/// 4: not durable yet), 0 u8, key length u16, value length u32, end u64 if flag 2 is set, key, and the value if values are
/// told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrickRecord<'a> {
    /// The key's place in the order of walks.
    pub position: u64,
    pub key: &'a [u8],
    pub state: RecordState<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordState<'a> {
    /// The newest record is not as durable yet as the table promises, so the page tells nothing about the key.
    Open,
    Tombstone(Stamp),
    Value {
        stamp: Stamp,
        expires: Option<ClusterTime>,
        bytes: u32,
        /// None: values are left out.
        value: Option<&'a [u8]>,
    },
}

impl BrickPageHead {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (said, next, has_values) = match self.said {
            BrickPageSaid::Page { next, has_values } => (PAGE, next, has_values),
            BrickPageSaid::WrongOwner => (WRONG_OWNER, None, false),
        };
        out.put_u8(said);
        let has_next = if next.is_some() { HAS_NEXT } else { 0 };
        out.put_u8(has_next | if has_values { HAS_VALUES } else { 0 });
        out.put_u8(self.siblings.len().min(SIBLINGS_MAX) as u8);
        out.put_u8(0);
        out.put_u64(self.life);
        out.put_u64(self.epoch);
        out.put_u64(self.clock);
        out.put_u64(next.unwrap_or_default());
        for (brick, life) in self.siblings.iter().take(SIBLINGS_MAX) {
            out.put_u64(brick.raw());
            out.put_u64(*life);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<BrickPageHead> {
        let (said, flags, count) = (reader.u8()?, reader.u8()?, usize::from(reader.u8()?));
        let (zero, life, epoch) = (reader.u8()?, reader.u64()?, reader.u64()?);
        let (clock, next) = (reader.u64()?, reader.u64()?);
        let has_next = flags & HAS_NEXT != 0;
        if zero != 0
            || count > SIBLINGS_MAX
            || flags & !(HAS_NEXT | HAS_VALUES) != 0
            || has_next != (next != 0)
        {
            return None;
        }
        let said = match said {
            PAGE => {
                BrickPageSaid::Page { next: has_next.then_some(next), has_values: flags & HAS_VALUES != 0 }
            }
            WRONG_OWNER if flags == 0 => BrickPageSaid::WrongOwner,
            _ => return None,
        };
        let mut siblings = Vec::with_capacity(count);
        for _ in 0..count {
            siblings.push((ServerId(reader.u64()?), reader.u64()?));
        }
        Some(BrickPageHead { life, siblings, epoch, clock, said })
    }
}

impl BrickRecord<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let BrickRecord { position, key, state } = *self;
        encode_record_head(out, position, key.len(), state);
        out.put_bytes(key);
        if let RecordState::Value { value: Some(value), .. } = state {
            out.put_bytes(value);
        }
    }
}

/// Appends the fields of a record that come before its key and its value.
pub fn encode_record_head(out: &mut Vec<u8>, position: u64, key_bytes: usize, state: RecordState<'_>) {
    let (flags, stamp, bytes, end) = match state {
        RecordState::Open => (IS_OPEN, Stamp::NONE, 0, None),
        RecordState::Tombstone(stamp) => (0, stamp, 0, None),
        RecordState::Value { stamp, expires: None, bytes, .. } => (HAS_VALUE, stamp, bytes, None),
        RecordState::Value { stamp, expires, bytes, .. } => (HAS_VALUE | HAS_END, stamp, bytes, expires),
    };
    out.put_u64(position);
    put_stamp(out, stamp);
    out.put_u8(flags);
    out.put_u8(0);
    out.put_u16(key_bytes as u16);
    out.put_u32(bytes);
    end.into_iter().for_each(|end| out.put_u64(end.0));
}

impl<'a> BrickPageReply<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.head.encode(out);
        self.records.iter().for_each(|record| record.encode(out));
    }

    pub fn decode(body: &'a [u8]) -> Result<BrickPageReply<'a>, Status> {
        Self::read(&mut Reader::new(body)).ok_or(Status::BadRequest)
    }

    fn read(reader: &mut Reader<'a>) -> Option<BrickPageReply<'a>> {
        let head = BrickPageHead::read(reader)?;
        let mut records: Vec<BrickRecord<'a>> = Vec::new();
        let BrickPageSaid::Page { next, has_values } = head.said else {
            return reader.is_empty().then_some(BrickPageReply { head, records });
        };
        while !reader.is_empty() {
            let record = read_record(reader, has_values)?;
            let is_in_order = records.last().is_none_or(|before| before.position <= record.position);
            if !is_in_order || next.is_some_and(|next| record.position >= next) {
                return None;
            }
            records.push(record);
        }
        Some(BrickPageReply { head, records })
    }
}

fn read_record<'a>(reader: &mut Reader<'a>, has_values: bool) -> Option<BrickRecord<'a>> {
    let (position, stamp, flags, zero) = (reader.u64()?, stamp(reader)?, reader.u8()?, reader.u8()?);
    let (key_bytes, bytes) = (usize::from(reader.u16()?), reader.u32()?);
    let is_value = flags & HAS_VALUE != 0;
    if zero != 0 || (!is_value && bytes != 0) || bytes as usize > VALUE_BYTES_MAX {
        return None;
    }
    let end = if flags == HAS_VALUE | HAS_END { Some(ClusterTime(reader.u64()?)) } else { None };
    let key = reader.take(key_bytes)?;
    let state = match flags {
        IS_OPEN if stamp.is_none() => RecordState::Open,
        0 => RecordState::Tombstone(stamp),
        _ if flags & !HAS_END == HAS_VALUE => {
            let value = if has_values { Some(reader.take(bytes as usize)?) } else { None };
            RecordState::Value { stamp, expires: end, bytes, value }
        }
        _ => return None,
    };
    Some(BrickRecord { position, key, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { time: 7, session: 8 };

    fn request() -> BrickPageRequest {
        BrickPageRequest {
            table: TableId(3),
            what: PageWants::Values,
            first: KeyHash(4),
            last: KeyHash(9),
            position: 5,
            count: 6,
            bytes: 7,
        }
    }

    fn head(said: BrickPageSaid) -> BrickPageHead {
        BrickPageHead {
            life: 4,
            siblings: vec![(ServerId(2), 5), (ServerId(9), 1)],
            epoch: 6,
            clock: 1,
            said,
        }
    }

    fn replies() -> Vec<BrickPageReply<'static>> {
        let records = |has_values: bool| {
            let value = |bytes: &'static [u8], expires| RecordState::Value {
                stamp: STAMP,
                expires,
                bytes: bytes.len() as u32,
                value: has_values.then_some(bytes),
            };
            let states = [
                RecordState::Open,
                RecordState::Tombstone(STAMP),
                value(b"value", None),
                value(b"", Some(ClusterTime(9))),
            ];
            let records = states.into_iter().zip([3, 8, 8, 11]);
            records.map(|(state, position)| BrickRecord { position, key: b"key", state }).collect()
        };
        let page = |next, has_values| BrickPageSaid::Page { next, has_values };
        vec![
            BrickPageReply { head: head(page(Some(12), true)), records: records(true) },
            BrickPageReply { head: head(page(None, false)), records: records(false) },
            BrickPageReply { head: head(page(Some(1), true)), records: Vec::new() },
            BrickPageReply { head: head(BrickPageSaid::WrongOwner), records: Vec::new() },
        ]
    }

    // A6
    #[test]
    fn pages_are_read_as_they_were_written_and_cut_ones_are_refused_or_shorter() {
        for what in [PageWants::Values, PageWants::Lengths, PageWants::Keys] {
            let request = BrickPageRequest { what, ..request() };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert_eq!(BrickPageRequest::decode(&bytes), Ok(request));
            (0..bytes.len()).for_each(|cut| assert!(BrickPageRequest::decode(&bytes[..cut]).is_err()));
            bytes.push(0);
            assert!(BrickPageRequest::decode(&bytes).is_err());
        }
        for reply in replies() {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            assert_eq!(BrickPageReply::decode(&bytes), Ok(reply.clone()));
            for cut in 0..bytes.len() {
                // Whole records are a page, too.
                let read = BrickPageReply::decode(&bytes[..cut]);
                assert!(read.is_err() || read.is_ok_and(|read| read.records.len() < reply.records.len()));
            }
        }
    }

    // A6
    #[test]
    fn what_is_no_page_is_refused() {
        let mut bytes = Vec::new();
        request().encode(&mut bytes);
        for (at, byte) in [(4, 0), (4, 4), (5, 10), (29, 0), (33, 0)] {
            let mut strange = bytes.clone();
            strange[at] = byte;
            assert_eq!(BrickPageRequest::decode(&strange), Err(Status::BadRequest), "{at} {byte}");
        }
        let mut bytes = Vec::new();
        replies()[0].encode(&mut bytes);
        let records = 36 + 2 * 16;
        // Said, flags, siblings, zero; a next position that is missing, or not above the records.
        let mut strange: Vec<(usize, u8)> =
            vec![(0, 2), (0, 3), (1, 7), (1, 2), (2, 7), (3, 1), (28, 0), (28, 11)];
        // A record: its order, the stamp of an open one, flags, zero, the value of a tombstone.
        strange.extend(
            [(0, 9), (8, 1), (24, 2), (24, 6), (24, 8), (25, 1)].map(|(at, byte)| (records + at, byte)),
        );
        strange.push((records + RECORD_BYTES + 3 + 28, 1));
        for (at, byte) in strange {
            let mut strange = bytes.clone();
            strange[at] = byte;
            assert_eq!(BrickPageReply::decode(&strange), Err(Status::BadRequest), "{at} {byte}");
        }
    }
}
