//! A page of a table: which objects there are (A6).
//!
//! The messages are laid out by hand. A page covers the objects whose placement hashes are in a range and
//! whose positions are at or above one position. Positions are the masters' own order of keys, the same on
//! all servers of a cluster, and have no other meaning.
//!
//! `decode` takes bytes from outside: it answers a status, never panics, and takes no memory that the bytes
//! do not fill.

use ramhold_base::bytes::{Put, Reader};
use ramhold_base::limits::{FRAME_BODY_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterTime, KeyHash, Status, TableId, Version};

/// The most objects and bytes of a page, unless the request asks for fewer.
pub const PAGE_COUNT_MAX: u32 = 4096;
pub const PAGE_BYTES_MAX: u32 = 1024 * 1024;
/// Objects whose keys have the same hash are in one page together: for them a page may grow up to this size.
pub const PAGE_BYTES_ALWAYS: u32 = FRAME_BODY_BYTES_MAX;
/// The bytes of an object in a page, without key and value.
pub const PAGE_OBJECT_BYTES: usize = 28;
/// The bytes of a page before its objects.
pub const PAGE_HEAD_BYTES: usize = 17;

const KEYS_ONLY: u8 = 1;
const PASS_LOST: u8 = 2;

// The largest object fits a page.
const _: () = assert!(
    KEY_BYTES_MAX + VALUE_BYTES_MAX + PAGE_OBJECT_BYTES + PAGE_HEAD_BYTES < PAGE_BYTES_ALWAYS as usize
);

/// The body of `Scan`: table u32, flags u8, first hash u64, last hash u64, position u64, count u32, bytes
/// u32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanRequest {
    pub table: TableId,
    /// The page covers hashes of the tablet that has this hash.
    pub first: KeyHash,
    /// Inclusive. Hashes beyond the tablet are left out.
    pub last: KeyHash,
    pub position: u64,
    /// The most objects and bytes of the page, each at least 1. More than the maxima count as the maxima.
    pub count: u32,
    pub bytes: u32,
    /// Values are left out.
    pub keys_only: bool,
    /// Go on where objects were lost, instead of refusing with `Corrupt`.
    pub pass_lost: bool,
}

impl ScanRequest {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.table.raw());
        let keys_only = if self.keys_only { KEYS_ONLY } else { 0 };
        out.put_u8(keys_only | if self.pass_lost { PASS_LOST } else { 0 });
        out.put_u64(self.first.0);
        out.put_u64(self.last.0);
        out.put_u64(self.position);
        out.put_u32(self.count);
        out.put_u32(self.bytes);
    }

    pub fn decode(body: &[u8]) -> Result<ScanRequest, Status> {
        let mut reader = Reader::new(body);
        let mut read = || {
            let table = TableId(reader.u32()?);
            let flags = reader.u8()?;
            let (first, last) = (KeyHash(reader.u64()?), KeyHash(reader.u64()?));
            let (position, count, bytes) = (reader.u64()?, reader.u32()?, reader.u32()?);
            let (keys_only, pass_lost) = (flags & KEYS_ONLY != 0, flags & PASS_LOST != 0);
            let is_sound = flags & !(KEYS_ONLY | PASS_LOST) == 0 && first <= last && count > 0 && bytes > 0;
            let request = ScanRequest { table, first, last, position, count, bytes, keys_only, pass_lost };
            (is_sound && reader.is_empty()).then_some(request)
        };
        read().ok_or(Status::BadRequest)
    }
}

/// The body of the answer to `Scan`: last hash u64, flag u8 (1: there is more), next position u64. Then the
/// objects, each version u64, write time u32, end u64 (0: none), key length u32, value length u32, key,
/// value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanHead {
    /// The last hash of the range that the page covers.
    pub last: KeyHash,
    /// Where the next page of this range begins. None: the page was the last one.
    pub next: Option<u64>,
}

/// One object of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageObject<'a> {
    pub version: Version,
    pub time: u32,
    pub expires: Option<ClusterTime>,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl ScanHead {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last.0);
        out.put_u8(u8::from(self.next.is_some()));
        out.put_u64(self.next.unwrap_or_default());
    }
}

/// Appends the fields that come before an object's key and value.
pub fn encode_object_head(
    out: &mut Vec<u8>,
    (version, time, expires): (Version, u32, Option<ClusterTime>),
    key_bytes: usize,
    value_bytes: usize,
) {
    out.put_u64(version.raw());
    out.put_u32(time);
    out.put_u64(expires.unwrap_or_default().0);
    out.put_u32(key_bytes as u32);
    out.put_u32(value_bytes as u32);
}

/// Takes a page apart. `BadRequest`: the body is no page.
pub fn decode_page(body: &[u8]) -> Result<(ScanHead, Vec<PageObject<'_>>), Status> {
    let mut reader = Reader::new(body);
    let mut head = || {
        let (last, more, next) = (KeyHash(reader.u64()?), reader.u8()?, reader.u64()?);
        (more <= 1).then_some(ScanHead { last, next: (more == 1).then_some(next) })
    };
    let head = head().ok_or(Status::BadRequest)?;
    let mut objects = Vec::new();
    while !reader.is_empty() {
        objects.push(read_object(&mut reader).ok_or(Status::BadRequest)?);
    }
    Ok((head, objects))
}

fn read_object<'a>(reader: &mut Reader<'a>) -> Option<PageObject<'a>> {
    let (version, time, end) = (Version(reader.u64()?), reader.u32()?, ClusterTime(reader.u64()?));
    let (key_bytes, value_bytes) = (reader.u32()? as usize, reader.u32()? as usize);
    let (key, value) = (reader.take(key_bytes)?, reader.take(value_bytes)?);
    Some(PageObject { version, time, expires: (end.0 != 0).then_some(end), key, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_and_pages_round_trip(table: u32, a: u64, b: u64, position: u64, count in 1u32.., bytes in 1u32..,
                                         keys_only: bool, pass_lost: bool, next: Option<u64>,
                                         objects in proptest::collection::vec((any::<u64>(), any::<u32>(),
                                             proptest::option::of(1u64..), proptest::collection::vec(any::<u8>(), 0..9),
                                             proptest::collection::vec(any::<u8>(), 0..9)), 0..9)) {
            let (first, last) = (KeyHash(a.min(b)), KeyHash(a.max(b)));
            let table = TableId(table);
            let request = ScanRequest { table, first, last, position, count, bytes, keys_only, pass_lost };
            let mut encoded = Vec::new();
            request.encode(&mut encoded);
            prop_assert_eq!(ScanRequest::decode(&encoded), Ok(request));
            for cut in 0..encoded.len() {
                prop_assert_eq!(ScanRequest::decode(&encoded[..cut]), Err(Status::BadRequest));
            }
            let mut page = Vec::new();
            let head = ScanHead { last, next };
            head.encode(&mut page);
            prop_assert_eq!(page.len(), PAGE_HEAD_BYTES);
            let mut expected = Vec::new();
            for (version, time, end, key, value) in &objects {
                let (version, expires) = (Version(*version), end.map(ClusterTime));
                encode_object_head(&mut page, (version, *time, expires), key.len(), value.len());
                page.extend_from_slice(key);
                page.extend_from_slice(value);
                expected.push(PageObject { version, time: *time, expires, key, value });
            }
            prop_assert_eq!(decode_page(&page), Ok((head, expected)));
        }

        #[test]
        fn hostile_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = ScanRequest::decode(&bytes);
            let _ = decode_page(&bytes);
        }
    }

    #[test]
    fn a_request_that_makes_no_sense_is_refused() {
        let request = ScanRequest {
            table: TableId(1),
            first: KeyHash(2),
            last: KeyHash(2),
            position: 0,
            count: 1,
            bytes: 1,
            keys_only: false,
            pass_lost: false,
        };
        let refused = |request: ScanRequest| {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            ScanRequest::decode(&bytes) == Err(Status::BadRequest)
        };
        assert!(!refused(request));
        assert!(refused(ScanRequest { last: KeyHash(1), ..request }));
        assert!(refused(ScanRequest { count: 0, ..request }));
        assert!(refused(ScanRequest { bytes: 0, ..request }));
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        bytes[4] = 4;
        assert_eq!(ScanRequest::decode(&bytes), Err(Status::BadRequest));
    }
}
