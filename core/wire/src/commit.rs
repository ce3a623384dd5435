//! Several objects checked and changed as one: all of the commit or none of it.
//!
//! The body of `Commit`: count u16. Then for each item: action u8 (0 check, 1 write, 2 remove), table u32,
//! rules, expiry u64 if the rules' flags of a write have a bit for it, key length u32, key, and for a write
//! value length u32, value.
//!
//! `decode` takes bytes from outside. It checks every length before anything is carried out, and allocates no
//! more than one place per item.

use crate::data::{Expiry, RejectRules};
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::limits::{KEY_BYTES_MAX, SEGMENT_BYTES, VALUE_BYTES_MAX};
use ramhold_base::{Status, TableId, Version};

/// Items of one commit: as many as a frame of many requests has.
pub const COMMIT_COUNT_MAX: usize = 256;
/// Bytes of a commit's body. The entries of a commit take about as much, and must fit half a segment.
pub const COMMIT_BYTES_MAX: usize = SEGMENT_BYTES as usize / 2;

/// The change to an object when no rule of the commit refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitAction<'a> {
    /// No change: only the rules of the item count.
    Check,
    Write {
        value: &'a [u8],
        expiry: Option<Expiry>,
    },
    /// Removing an object that does not exist does nothing.
    Remove,
}

/// One object of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitItem<'a> {
    pub table: TableId,
    pub key: &'a [u8],
    pub rules: RejectRules,
    pub action: CommitAction<'a>,
}

/// The items of a commit: at least one, of different keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitRequest<'a> {
    items: Vec<CommitItem<'a>>,
}

/// Appends the body of a commit of `count` items, whose bytes `put` appends with `CommitItem::encode`.
pub fn encode_commit(count: usize, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.put_u16(u16::try_from(count).expect("whoever commits keeps to the limit"));
    put(out);
}

impl<'a> CommitItem<'a> {
    const CHECK: u8 = 0;
    const WRITE: u8 = 1;
    const REMOVE: u8 = 2;

    /// The bytes that the item takes in a request, at most.
    pub fn bytes_max(&self) -> usize {
        /// Action, table, rules, expiry, lengths.
        const FIELDS: usize = 38;
        let value_bytes = match self.action {
            CommitAction::Write { value, .. } => value.len(),
            CommitAction::Check | CommitAction::Remove => 0,
        };
        FIELDS + self.key.len() + value_bytes
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let (action, expiry) = match self.action {
            CommitAction::Check => (Self::CHECK, None),
            CommitAction::Write { expiry, .. } => (Self::WRITE, expiry),
            CommitAction::Remove => (Self::REMOVE, None),
        };
        out.put_u8(action);
        out.put_u32(self.table.raw());
        self.rules.encode_with_expiry(expiry, out);
        put_with_length(self.key, out);
        if let CommitAction::Write { value, .. } = self.action {
            put_with_length(value, out);
        }
    }

    fn decode(reader: &mut Reader<'a>) -> Result<CommitItem<'a>, Status> {
        let mut head = || {
            let action = reader.u8()?;
            let table = TableId(reader.u32()?);
            let (rules, expiry) = if action == Self::WRITE {
                RejectRules::decode_with_expiry(reader)?
            } else {
                (RejectRules::decode(reader)?, None)
            };
            Some((action, table, rules, expiry))
        };
        let (action, table, rules, expiry) = head().ok_or(Status::BadRequest)?;
        expiry.map_or(Ok(()), Expiry::check)?;
        let key = take_with_length(reader, KEY_BYTES_MAX, Status::KeyTooLarge)?;
        let action = match action {
            Self::CHECK => CommitAction::Check,
            Self::WRITE => {
                let value = take_with_length(reader, VALUE_BYTES_MAX, Status::ValueTooLarge)?;
                CommitAction::Write { value, expiry }
            }
            Self::REMOVE => CommitAction::Remove,
            _ => return Err(Status::BadRequest),
        };
        Ok(CommitItem { table, key, rules, action })
    }
}

impl<'a> CommitRequest<'a> {
    /// `CommitTooLarge`: more than `COMMIT_COUNT_MAX` items or `COMMIT_BYTES_MAX` bytes. `KeyTooLarge`,
    /// `ValueTooLarge`: one item is over that limit. `BadRequest`: no item, one key twice, or fields that
    /// make no sense.
    pub fn decode(body: &'a [u8]) -> Result<CommitRequest<'a>, Status> {
        let mut reader = Reader::new(body);
        let count = usize::from(reader.u16().ok_or(Status::BadRequest)?);
        if count > COMMIT_COUNT_MAX || body.len() > COMMIT_BYTES_MAX {
            return Err(Status::CommitTooLarge);
        }
        let items = (0..count).map(|_| CommitItem::decode(&mut reader)).collect::<Result<Vec<_>, _>>()?;
        if items.is_empty() || !reader.is_empty() || has_key_twice(&items) {
            return Err(Status::BadRequest);
        }
        Ok(CommitRequest { items })
    }

    /// A commit that this process makes itself. It is refused with the same statuses as by `decode`.
    pub fn new(items: Vec<CommitItem<'a>>) -> Result<CommitRequest<'a>, Status> {
        let bytes: usize = items.iter().map(CommitItem::bytes_max).sum();
        if items.len() > COMMIT_COUNT_MAX || bytes > COMMIT_BYTES_MAX {
            return Err(Status::CommitTooLarge);
        }
        for item in &items {
            if item.key.len() > KEY_BYTES_MAX {
                return Err(Status::KeyTooLarge);
            }
            if let CommitAction::Write { value, .. } = item.action
                && value.len() > VALUE_BYTES_MAX
            {
                return Err(Status::ValueTooLarge);
            }
        }
        if items.is_empty() || has_key_twice(&items) {
            return Err(Status::BadRequest);
        }
        Ok(CommitRequest { items })
    }

    /// The first item: the owner of its key carries the commit out, and the result stays with its key.
    pub fn first(&self) -> &CommitItem<'a> {
        &self.items[0]
    }

    pub fn items(&self) -> &[CommitItem<'a>] {
        &self.items
    }
}

/// Whether a commit names an object more than once.
pub fn has_key_twice(items: &[CommitItem<'_>]) -> bool {
    let mut keys: Vec<_> = items.iter().map(|item| (item.table, item.key)).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

fn put_with_length(bytes: &[u8], out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(bytes.len()).expect("limits are far below 4 GiB"));
    out.put_bytes(bytes);
}

fn take_with_length<'a>(
    reader: &mut Reader<'a>,
    bytes_max: usize,
    beyond: Status,
) -> Result<&'a [u8], Status> {
    let length = reader.u32().ok_or(Status::BadRequest)? as usize;
    if length > bytes_max {
        return Err(beyond);
    }
    reader.take(length).ok_or(Status::BadRequest)
}

/// The body of the answer when a rule refuses a commit: version u64 of the object, 0 when it does not exist,
/// and u64 the place of the item, from 0. The body of `Ok` is the version u64 of everything that was written
/// and removed, 0 when nothing was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitRefused {
    pub version: Version,
    pub item: u64,
}

impl CommitRefused {
    pub fn decode(body: &[u8]) -> Option<CommitRefused> {
        let mut reader = Reader::new(body);
        Some(CommitRefused { version: Version(reader.u64()?), item: reader.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ramhold_base::ClusterTime;

    fn encoded(items: &[CommitItem<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_commit(items.len(), &mut bytes, |out| items.iter().for_each(|item| item.encode(out)));
        bytes
    }

    fn check(key: &[u8]) -> CommitItem<'_> {
        CommitItem { table: TableId(1), key, rules: RejectRules::default(), action: CommitAction::Check }
    }

    // A4
    #[test]
    fn limits_and_nonsense_are_refused_before_anything_is_done() {
        let rules = RejectRules { exists: true, ..RejectRules::default() };
        let write = CommitAction::Write { value: b"v", expiry: Some(Expiry::At(ClusterTime(258))) };
        let items = [
            CommitItem { table: TableId(1), key: b"k", rules, action: write },
            CommitItem { action: CommitAction::Remove, ..check(b"") },
        ];
        let bytes = encoded(&items);
        assert_eq!(bytes[..2], [2, 0]);
        assert_eq!(bytes[2..26], *b"\x01\x01\0\0\0\x22\x02\x01\0\0\0\0\0\0\x01\0\0\0k\x01\0\0\0v");
        assert_eq!(bytes[26..], *b"\x02\x01\0\0\0\0\0\0\0\0");
        assert_eq!(CommitRequest::decode(&bytes).unwrap().items(), items);
        for cut in 0..bytes.len() {
            assert_eq!(CommitRequest::decode(&bytes[..cut]), Err(Status::BadRequest), "{cut}");
        }
        assert_eq!(CommitRequest::decode(&[&bytes[..], &[0]].concat()), Err(Status::BadRequest));
        assert_eq!(CommitRequest::decode(&encoded(&[])), Err(Status::BadRequest));
        // An unknown action, and an expiry for an item that is not written.
        for (at, byte) in [(2, 3), (31, 16)] {
            let mut bad = bytes.clone();
            bad[at] = byte;
            assert_eq!(CommitRequest::decode(&bad), Err(Status::BadRequest), "byte {at}");
        }
        let twice = [check(b"a"), check(b"b"), CommitItem { action: CommitAction::Remove, ..check(b"a") }];
        assert_eq!(CommitRequest::decode(&encoded(&twice)), Err(Status::BadRequest));
        let of_two_tables = [check(b"a"), CommitItem { table: TableId(2), ..check(b"a") }];
        assert!(CommitRequest::decode(&encoded(&of_two_tables)).is_ok());
    }

    // A2
    #[test]
    fn a_commit_has_so_many_items_and_bytes_and_no_more() {
        let keys: Vec<[u8; 2]> = (0..=COMMIT_COUNT_MAX as u16).map(u16::to_le_bytes).collect();
        let items: Vec<_> = keys.iter().map(|key| check(key)).collect();
        assert!(CommitRequest::decode(&encoded(&items[1..])).is_ok());
        assert_eq!(CommitRequest::decode(&encoded(&items)), Err(Status::CommitTooLarge));
        let value = vec![0; VALUE_BYTES_MAX + 1];
        let write = |value| CommitAction::Write { value, expiry: None };
        let most = CommitItem { action: write(&value[1..]), ..check(b"k") };
        assert!(CommitRequest::decode(&encoded(&[most])).is_ok());
        let larger = CommitItem { action: write(&value), ..check(b"k") };
        assert_eq!(CommitRequest::decode(&encoded(&[larger])), Err(Status::ValueTooLarge));
        let key = vec![0; KEY_BYTES_MAX + 1];
        assert_eq!(CommitRequest::decode(&encoded(&[check(&key)])), Err(Status::KeyTooLarge));
        let many: Vec<_> = keys[..4].iter().map(|key| CommitItem { key, ..most }).collect();
        assert_eq!(CommitRequest::decode(&encoded(&many)), Err(Status::CommitTooLarge));
    }

    proptest! {
        #[test]
        fn commits_round_trip(items in proptest::collection::btree_map(
            (0u32..3, proptest::collection::vec(any::<u8>(), 0..10)),
            (0..3, any::<bool>(), any::<Option<u64>>(), proptest::option::of(1u64..),
             proptest::collection::vec(any::<u8>(), 0..20)), 1..20)) {
            let items: Vec<_> = items.iter().map(|((table, key), (action, absent, other, end, value))| {
                let rules = RejectRules {
                    absent: *absent,
                    version_other_than: other.map(Version),
                    ..RejectRules::default()
                };
                let expiry = end.map(|end| Expiry::At(ClusterTime(end)));
                let action = match action {
                    0 => CommitAction::Check,
                    1 => CommitAction::Write { value, expiry },
                    _ => CommitAction::Remove,
                };
                CommitItem { table: TableId(*table), key, rules, action }
            }).collect();
            let bytes = encoded(&items);
            prop_assert!(bytes.len() <= 2 + items.iter().map(CommitItem::bytes_max).sum::<usize>());
            let decoded = CommitRequest::decode(&bytes).unwrap();
            prop_assert_eq!(decoded.items(), &items[..]);
        }

        #[test]
        fn hostile_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = CommitRequest::decode(&bytes);
            let _ = CommitRefused::decode(&bytes);
        }
    }
}
