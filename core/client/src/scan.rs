//! The progress of a scan of a table, and the objects that a page has shown (A6).
//!
//! A scan goes through the table's hashes from the lowest on, one tablet at a time, and through a tablet in
//! the order of the masters' positions. A cursor holds the first hash that is not finished. From there on it
//! holds stretches of hashes, each with the position up to which the stretch has been shown: one stretch
//! while tablets stay as they are, and one more for each time that a partly shown tablet has been divided. A
//! cursor depends on keys alone, so it stays valid whichever servers own them.
//!
//! Invariants:
//! - an outer stretch ends at a higher hash and has been shown less far than an inner one;
//! - an object that is there all the time is in exactly one page.
//!
//! Not here: which objects a master shows (core/master/src/scan.rs), what bricks of a quorum table tell
//! (`quorum::paging`), the order of positions (core/log/src/scan.rs).

use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::crc;
use ramhold_base::{ClusterTime, KeyHash, ServerId, Status, TableId, Version};
use ramhold_wire::scan::{ScanHead, decode_page};
use std::fmt;
use std::str::FromStr;

/// The most stretches of a cursor: a tablet would have to be divided this often while it is scanned.
const STRETCH_COUNT_MAX: usize = 64;
const TOKEN_VERSION: u8 = 1;
/// The bits of a placement hash below its slot, and the bits below the part of a position that a short cursor
/// tells.
const SLOT_SHIFT: u32 = 50;
const BELOW_SLOT: u64 = (1 << SLOT_SHIFT) - 1;
const SHORT_POSITION_BITS: u32 = 36;
const SHORT_POSITION_SHIFT: u32 = 64 - SHORT_POSITION_BITS;

/// Hashes up to `last` have been shown up to `position`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    last: KeyHash,
    position: u64,
}

/// Where the next page of a scan begins. The cursor's text may be kept anywhere and for any time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanCursor {
    table: TableId,
    first: KeyHash,
    /// The innermost stretch is the last one. Hashes beyond the outermost stretch have not been shown at all.
    stretches: Vec<Stretch>,
}

impl ScanCursor {
    /// The beginning of a table.
    pub fn new(table: TableId) -> ScanCursor {
        ScanCursor::at(table, KeyHash(0))
    }

    /// At the first key of a table whose hash is this hash or a higher one.
    pub fn at(table: TableId, first: KeyHash) -> ScanCursor {
        ScanCursor { table, first, stretches: Vec::new() }
    }

    /// The cursor as a number: the slot (the top 14 bits of a placement hash) of the first hash that is not
    /// finished, the slot of the last hash of the innermost stretch, and the top 36 bits of the position up
    /// to which that stretch has been shown. The number is rounded so that a walk from there on leaves no
    /// object out, but may show some again. 0 stands only for the beginning.
    pub fn to_short(&self) -> u64 {
        let first = self.first.0 >> SLOT_SHIFT;
        let whole = |stretch: &&Stretch| stretch.last.0 & BELOW_SLOT == BELOW_SLOT;
        let (last, position) = match self.stretches.last().filter(whole) {
            Some(stretch) => (stretch.last.0 >> SLOT_SHIFT, stretch.position >> SHORT_POSITION_SHIFT),
            None => (first, 0),
        };
        first << SLOT_SHIFT | last << SHORT_POSITION_BITS | position
    }

    /// The cursor of a number that `to_short` gave, or of any other number: each number is a valid place.
    pub fn from_short(table: TableId, short: u64) -> ScanCursor {
        let first = KeyHash(short >> SLOT_SHIFT << SLOT_SHIFT);
        let last = KeyHash(((short >> SHORT_POSITION_BITS) & 0x3FFF) << SLOT_SHIFT | BELOW_SLOT);
        let position = (short & ((1 << SHORT_POSITION_BITS) - 1)) << SHORT_POSITION_SHIFT;
        let is_shown = position > 0 && last >= first;
        let stretches = if is_shown { vec![Stretch { last, position }] } else { Vec::new() };
        ScanCursor { table, first, stretches }
    }

    pub fn table(&self) -> TableId {
        self.table
    }

    /// The first hash that is not finished.
    pub fn first(&self) -> KeyHash {
        self.first
    }

    /// The request for the next page: up to which hash, and from which position.
    pub(crate) fn wanted(&self) -> (KeyHash, u64) {
        let innermost = self.stretches.last();
        innermost.map_or((KeyHash(u64::MAX), 0), |stretch| (stretch.last, stretch.position))
    }

    /// The cursor after a page with this head. `Ok(None)`: the scan is at its end. `BadRequest`: the page is
    /// no answer to the question. `TooMany`: the tablet was divided too often since the scan came to it.
    pub(crate) fn after(&self, head: &ScanHead) -> Result<Option<ScanCursor>, Status> {
        let (last, position) = self.wanted();
        if head.last > last || head.last < self.first || head.next.is_some_and(|next| next <= position) {
            return Err(Status::BadRequest);
        }
        let mut after = self.clone();
        if let Some(innermost) = after.stretches.last()
            && innermost.last == head.last
        {
            after.stretches.pop();
        }
        match head.next {
            Some(position) if after.stretches.len() >= STRETCH_COUNT_MAX => {
                let _ = position;
                return Err(Status::TooMany);
            }
            Some(position) => after.stretches.push(Stretch { last: head.last, position }),
            None => match head.last.0.checked_add(1) {
                Some(first) => after.first = KeyHash(first),
                None => return Ok(None),
            },
        }
        Ok(Some(after))
    }
}

/// The text: hexadecimal digits, with a checksum.
impl fmt::Display for ScanCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![TOKEN_VERSION];
        bytes.put_u32(self.table.raw());
        bytes.put_u64(self.first.0);
        for stretch in &self.stretches {
            bytes.put_u64(stretch.last.0);
            bytes.put_u64(stretch.position);
        }
        let sum = crc(&bytes);
        bytes.put_u32(sum);
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is no cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoCursor;

impl fmt::Display for NoCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a cursor of a scan, or not the whole of one")
    }
}

impl std::error::Error for NoCursor {}

impl FromStr for ScanCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<ScanCursor, NoCursor> {
        let is_short = text.len() <= 2 * (17 + 16 * STRETCH_COUNT_MAX);
        let digits = text.as_bytes();
        if !is_short || !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(NoCursor);
        }
        let byte =
            |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        bytes.and_then(|bytes| decode_cursor(&bytes)).ok_or(NoCursor)
    }
}

fn decode_cursor(bytes: &[u8]) -> Option<ScanCursor> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut reader = Reader::new(body);
    if reader.u8()? != TOKEN_VERSION {
        return None;
    }
    let mut cursor = ScanCursor::new(TableId(reader.u32()?));
    cursor.first = KeyHash(reader.u64()?);
    while !reader.is_empty() {
        let stretch = Stretch { last: KeyHash(reader.u64()?), position: reader.u64()? };
        let outer = cursor.stretches.last();
        let is_inside =
            outer.is_none_or(|outer| stretch.last < outer.last && stretch.position > outer.position);
        if !is_inside || stretch.last < cursor.first || stretch.position == 0 {
            return None;
        }
        cursor.stretches.push(stretch);
    }
    Some(cursor)
}

/// The size of a page; by default as much as a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLimits {
    /// Objects, from 1. A page may have no object at all although more follow.
    pub count: u32,
    /// Bytes of keys and values, from 1. The first object is shown however large it is.
    pub bytes: u32,
    pub keys_only: bool,
    /// Pass over objects without replicas that were lost, instead of ending the scan with `Corrupt`.
    pub pass_lost: bool,
}

impl Default for PageLimits {
    fn default() -> PageLimits {
        PageLimits { count: u32::MAX, bytes: u32::MAX, keys_only: false, pass_lost: false }
    }
}

/// An object as a scan has found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScannedObject {
    pub key: Vec<u8>,
    pub version: Version,
    /// When the object was written, in seconds of cluster time.
    pub time: u32,
    pub expires: Option<ClusterTime>,
    /// Empty when only keys were asked for.
    pub value: Vec<u8>,
}

/// A page of a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub objects: Vec<ScannedObject>,
    /// Where the next page begins. None: the scan is at its end.
    pub next: Option<ScanCursor>,
    pub answered_by: ServerId,
}

impl Page {
    pub(crate) fn decode(cursor: &ScanCursor, body: &[u8], answered_by: ServerId) -> Result<Page, Status> {
        let (head, objects) = decode_page(body)?;
        let next = cursor.after(&head)?;
        let objects = objects.into_iter().map(|object| ScannedObject {
            key: object.key.to_vec(),
            version: object.version,
            time: object.time,
            expires: object.expires,
            value: object.value.to_vec(),
        });
        Ok(Page { objects: objects.collect(), next, answered_by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;

    fn head(last: u64, next: Option<u64>) -> ScanHead {
        ScanHead { last: KeyHash(last), next }
    }

    /// The next request of a scan with this cursor: from and up to which hash, and from which position.
    fn asks(cursor: &Option<ScanCursor>) -> Option<(u64, u64, u64)> {
        cursor.as_ref().map(|cursor| {
            let (last, position) = cursor.wanted();
            (cursor.first().0, last.0, position)
        })
    }

    // A6
    #[test]
    fn a_tablet_that_is_divided_while_it_is_scanned_is_finished_part_by_part() {
        let begin = ScanCursor::new(TableId(1));
        let mut cursor = begin.after(&head(100, Some(7))).unwrap();
        assert_eq!(asks(&cursor), Some((0, 100, 7)));
        // Divided at 40: the first part goes on, and the second part has been shown as far as both.
        for (told, wanted) in [
            (head(40, Some(9)), (0, 40, 9)),
            (head(20, Some(12)), (0, 20, 12)),
            (head(20, None), (21, 40, 9)),
            (head(40, None), (41, 100, 7)),
            (head(100, Some(8)), (41, 100, 8)),
            (head(100, None), (101, u64::MAX, 0)),
        ] {
            cursor = cursor.unwrap().after(&told).unwrap();
            assert_eq!(asks(&cursor), Some(wanted));
            let text = cursor.as_ref().unwrap().to_string();
            assert_eq!(text.parse(), Ok(cursor.clone().unwrap()));
        }
        let last = cursor.unwrap();
        assert_eq!(last.after(&head(u64::MAX, None)), Ok(None));
        // No answer to the question.
        for bad in [head(99, None), head(u64::MAX, Some(0))] {
            assert_eq!(last.after(&bad), Err(Status::BadRequest));
        }
        let divided = (0..STRETCH_COUNT_MAX as u64)
            .try_fold(begin, |cursor, n| cursor.after(&head(1000 - n, Some(n + 1))).map(Option::unwrap));
        assert_eq!(divided.unwrap().after(&head(500, Some(1000))), Err(Status::TooMany));
    }

    /// However tablets are divided and joined between pages, each key is shown once.
    // A6
    #[test]
    fn every_key_is_shown_once_whatever_becomes_of_the_tablets() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            // A key is its hash and its position.
            let keys: Vec<(u64, u64)> = (0..rng.below(200)).map(|_| (rng.u64(), rng.u64())).collect();
            let mut shown = vec![0; keys.len()];
            let mut cursor = Some(ScanCursor::new(TableId(1)));
            while let Some(at) = cursor {
                let (last, position) = at.wanted();
                // The tablet of the first hash ends somewhere.
                let owned = if rng.chance(1, 3) { u64::MAX } else { rng.u64().max(at.first().0) };
                let last = owned.min(last.0);
                let in_range =
                    |key: &&(u64, u64)| (at.first().0..=last).contains(&key.0) && key.1 >= position;
                let mut positions: Vec<u64> = keys.iter().filter(in_range).map(|key| key.1).collect();
                positions.sort_unstable();
                let next = positions.get(rng.between(1, 5) as usize).copied();
                for (key, shown) in keys.iter().zip(&mut shown) {
                    *shown += u32::from(in_range(&key) && next.is_none_or(|next| key.1 < next));
                }
                cursor = at.after(&head(last, next)).unwrap();
            }
            assert!(shown.iter().all(|count| *count == 1), "seed {seed}: {shown:?}");
        }
    }

    /// A walk that goes on from short cursors shows every key at least once, whatever becomes of the tablets.
    // A6, J1
    #[test]
    fn short_cursors_leave_nothing_out() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let keys: Vec<(u64, u64)> = (0..rng.below(200)).map(|_| (rng.u64(), rng.u64())).collect();
            let by_slots = rng.chance(3, 4);
            let mut shown = vec![0; keys.len()];
            let mut short = 0;
            loop {
                let mut cursor = Some(ScanCursor::from_short(TableId(1), short));
                // Read pages until the number tells where the walk is.
                let next = loop {
                    let Some(at) = cursor else { break None };
                    let (last, position) = at.wanted();
                    let mut owned = if rng.chance(1, 3) { u64::MAX } else { rng.u64().max(at.first().0) };
                    if by_slots {
                        owned |= BELOW_SLOT;
                    }
                    let last = owned.min(last.0);
                    let in_range =
                        |key: &&(u64, u64)| (at.first().0..=last).contains(&key.0) && key.1 >= position;
                    let mut positions: Vec<u64> = keys.iter().filter(in_range).map(|key| key.1).collect();
                    positions.sort_unstable();
                    let next = positions.get(rng.between(1, 5) as usize).copied();
                    for (key, shown) in keys.iter().zip(&mut shown) {
                        *shown += u32::from(in_range(&key) && next.is_none_or(|next| key.1 < next));
                    }
                    cursor = at.after(&head(last, next)).unwrap();
                    match cursor.as_ref().map(ScanCursor::to_short) {
                        Some(next) if next != 0 && next != short => break Some(next),
                        _ => {}
                    }
                };
                match next {
                    Some(next) => short = next,
                    None => break,
                }
            }
            assert!(shown.iter().all(|count| *count >= 1), "seed {seed}: {shown:?}");
        }
    }

    // A6
    #[test]
    fn a_text_that_is_no_cursor_is_told_apart() {
        let text = ScanCursor::new(TableId(7)).after(&head(9, Some(3))).unwrap().unwrap().to_string();
        assert!(text.parse::<ScanCursor>().is_ok());
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(changed.parse::<ScanCursor>(), Err(NoCursor), "{changed}");
            assert_eq!(text[..at].parse::<ScanCursor>(), Err(NoCursor));
        }
        for bad in ["zz", "é", &"00".repeat(5000)] {
            assert_eq!(bad.parse::<ScanCursor>(), Err(NoCursor));
        }
    }
}
