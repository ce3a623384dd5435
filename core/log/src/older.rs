//! The list of segments that a record names: those of its own log that hold older versions of its key.
//!
//! The list is kept as the bytes of the entry: a count, then ids of five bytes, rising. It has exact ids and not a
//! range, because segments within a range that have nothing to do with the key would keep the record needed.
//!
//! Invariants:
//! - the ids are rising and none of them is zero;
//! - the bytes after the last id are zero, so that equal lists have equal bytes.
//!
//! Not here: which of the segments still count (`tombstones`). Bytes: docs/formats/log.md. Catalogue: C4.

use ramhold_base::SegmentId;

/// The most segments that an object names. The tombstone of its remove names one more: the object's own segment.
pub const OBJECT_OLDER_COUNT_MAX: usize = 8;
/// The most segments that a tombstone names: those that its object names, and the object's own.
pub const TOMBSTONE_OLDER_COUNT_MAX: usize = OBJECT_OLDER_COUNT_MAX + 1;

/// Ids have five bytes: enough for more segments, of 8 MiB each, than any server will write.
const ID_BYTES: usize = 5;
const ID_MAX: u64 = (1 << (8 * ID_BYTES)) - 1;
/// The bytes of the longest list in an entry.
pub(crate) const OLDER_BYTES_MAX: usize = older_bytes(TOMBSTONE_OLDER_COUNT_MAX);

/// Segments that hold older versions of a key, at most nine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OlderList {
    /// The count, then the ids.
    bytes: [u8; OLDER_BYTES_MAX],
}

fn segment_id(bytes: &[u8; ID_BYTES]) -> SegmentId {
    let [a, b, c, d, e] = *bytes;
    SegmentId(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
}

/// The bytes of a list of `count` segments in an entry.
pub(crate) const fn older_bytes(count: usize) -> usize {
    if count == 0 { 0 } else { 1 + count * ID_BYTES }
}

impl OlderList {
    /// The list that names no segment. An entry with it has no list.
    pub const NONE: OlderList = OlderList { bytes: [0; OLDER_BYTES_MAX] };

    pub fn is_empty(&self) -> bool {
        self.bytes[0] == 0
    }

    pub fn count(&self) -> usize {
        usize::from(self.bytes[0])
    }

    /// The segments, rising.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = SegmentId> {
        let (ids, _) = self.bytes[1..].as_chunks::<ID_BYTES>();
        ids[..self.count()].iter().map(segment_id)
    }

    /// The highest of the segments.
    pub fn highest(&self) -> Option<SegmentId> {
        self.iter().next_back()
    }

    /// The list with one more segment, or the same list if it names that segment already. `None` if the list is full.
    /// Panics when the id is none, or does not fit five bytes.
    pub fn with(&self, segment: SegmentId) -> Option<OlderList> {
        assert!(!segment.is_none());
        assert!(segment.0 <= ID_MAX);
        if self.iter().any(|named| named == segment) {
            return Some(*self);
        }
        if self.count() == TOMBSTONE_OLDER_COUNT_MAX {
            return None;
        }
        let before = self.iter().filter(|named| *named < segment).count();
        let at = 1 + before * ID_BYTES;
        let end = 1 + self.count() * ID_BYTES;
        let mut list = *self;
        list.bytes.copy_within(at..end, at + ID_BYTES);
        list.bytes[at..at + ID_BYTES].copy_from_slice(&segment.0.to_le_bytes()[..ID_BYTES]);
        list.bytes[0] += 1;
        Some(list)
    }

    /// The list of those segments for which `is_kept` holds.
    pub(crate) fn keep(mut self, mut is_kept: impl FnMut(SegmentId) -> bool) -> OlderList {
        let before = self;
        let mut end = 1;
        for id in before.bytes[1..].as_chunks::<ID_BYTES>().0.iter().take(before.count()) {
            if is_kept(segment_id(id)) {
                self.bytes[end..end + ID_BYTES].copy_from_slice(id);
                end += ID_BYTES;
            }
        }
        self.bytes[0] = ((end - 1) / ID_BYTES) as u8;
        self.bytes[end..].fill(0);
        self
    }

    /// The bytes of the list in an entry: none if the list is empty.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.bytes[..older_bytes(self.count())]
    }

    /// The length of the list that `bytes` start with. `None` if they contradict the format, or the list names more
    /// than `count_max` segments.
    #[inline(never)]
    pub(crate) fn check(bytes: &[u8], count_max: usize) -> Option<usize> {
        let count = usize::from(*bytes.first()?);
        let list_bytes = older_bytes(count);
        if count == 0 || count > count_max || list_bytes > bytes.len() {
            return None;
        }
        let (ids, _) = bytes[1..list_bytes].as_chunks::<ID_BYTES>();
        // The ids rise from `SegmentId::NONE` on, so no id is none.
        let mut before = SegmentId::NONE;
        for id in ids {
            let id = segment_id(id);
            if id <= before {
                return None;
            }
            before = id;
        }
        Some(list_bytes)
    }

    /// The list of `encoded`, which has passed `check` or is empty.
    pub(crate) fn decode(encoded: &[u8]) -> OlderList {
        let mut list = OlderList::NONE;
        list.bytes[..encoded.len()].copy_from_slice(encoded);
        list
    }
}

/// Panics when there are more than nine.
impl FromIterator<SegmentId> for OlderList {
    fn from_iter<T: IntoIterator<Item = SegmentId>>(segments: T) -> OlderList {
        segments
            .into_iter()
            .fold(OlderList::NONE, |list, segment| list.with(segment).expect("a list names at most nine"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn a_list_is_a_small_set_in_order() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut list, mut model) = (OlderList::NONE, BTreeSet::new());
            for _ in 0..30 {
                let segment = SegmentId(rng.between(1, 14) * rng.between(1, ID_MAX / 14));
                let is_full = model.len() == TOMBSTONE_OLDER_COUNT_MAX && !model.contains(&segment);
                match list.with(segment) {
                    Some(longer) => (list, _) = (longer, model.insert(segment)),
                    None => assert!(is_full),
                }
                assert!(list.iter().eq(model.iter().copied()));
                assert_eq!(list.highest(), model.last().copied());
                assert_eq!(list, model.iter().rev().copied().collect());
                let even = list.keep(|segment| segment.0 % 2 == 0);
                assert_eq!(even, model.iter().copied().filter(|segment| segment.0 % 2 == 0).collect());
                assert_eq!(OlderList::decode(list.encoded()), list);
                assert_eq!(OlderList::check(list.encoded(), 9), Some(list.encoded().len()));
                assert_eq!(OlderList::check(list.encoded(), list.count() - 1), None);
            }
        }
    }

    // C1
    #[test]
    fn bytes_that_contradict_the_format_are_no_list() {
        assert_eq!(OlderList::check(&[2, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 77], 9), Some(11));
        for bytes in [
            &[][..],
            &[0],
            &[0, 1, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0],
            &[1, 1, 0, 0, 0],
            &[2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0],
            &[2, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0],
            &[10; 60],
            &[255; 60],
        ] {
            assert_eq!(OlderList::check(bytes, 9), None, "{bytes:?}");
        }
    }
}
