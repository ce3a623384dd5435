//! Many keys of one table that are read together.
//!
//! They lie one behind the other in one piece of memory, so that a read of a thousand objects does not take memory a
//! thousand times.
//!
//! Not here: what is found under them (`outcome`), sending them (`session::reading`). Catalogue: A5, E1.

use ramhold_base::limits::KEY_BYTES_MAX;
use ramhold_base::{Status, TableId};

/// Keys that are read together, in the order in which their objects are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    table: TableId,
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
}

impl Keys {
    /// Most keys that are read together.
    pub const COUNT_MAX: usize = 4096;
    /// Most bytes of them together.
    pub const BYTES_MAX: usize = 8 << 20;

    pub fn of(table: TableId) -> Keys {
        Keys { table, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Adds a key of at most 65,535 bytes. `TooMany`: with it there would be more than [`Keys::COUNT_MAX`], or more than
    /// [`Keys::BYTES_MAX`]. `KeyTooLarge`.
    pub fn push(&mut self, key: &[u8]) -> Result<(), Status> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Status::KeyTooLarge);
        }
        if self.ends.len() >= Keys::COUNT_MAX || self.bytes.len() + key.len() > Keys::BYTES_MAX {
            return Err(Status::TooMany);
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
        Ok(())
    }

    pub fn table(&self) -> TableId {
        self.table
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all keys.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn at(&self, place: u32) -> &[u8] {
        let place = place as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[place] as usize]
    }
}

const _: () = assert!(Keys::BYTES_MAX <= u32::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    // A5
    #[test]
    fn keys_keep_their_order_and_their_limits() {
        let mut keys = Keys::of(TableId(3));
        assert!(keys.is_empty());
        for key in [&b"one"[..], b"", b"three"] {
            assert_eq!(keys.push(key), Ok(()));
        }
        assert_eq!([keys.at(0), keys.at(1), keys.at(2)], [&b"one"[..], b"", b"three"]);
        assert_eq!(keys.push(&vec![0; KEY_BYTES_MAX + 1]), Err(Status::KeyTooLarge));
        while keys.len() < Keys::COUNT_MAX {
            assert_eq!(keys.push(b"key"), Ok(()));
        }
        assert_eq!(keys.push(b"key"), Err(Status::TooMany));
        assert_eq!(keys.len(), Keys::COUNT_MAX);
        let mut large = Keys::of(TableId(3));
        while large.push(&[7; 60_000]).is_ok() {}
        assert_eq!((large.len(), large.bytes()), (139, 139 * 60_000));
        assert_eq!(large.push(&[7; 60_000]), Err(Status::TooMany));
    }
}
