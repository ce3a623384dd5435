//! Looks up many keys together, as fast as memory gives them.
//!
//! The memory of all keys is fetched first: buckets, then overflow buckets, then entries, without a wait for any of them.
//! Then each entry is verified and compared where it lies.
//!
//! Only the plain case is found here: the first entry with the key's tag is the key's object, intact and in one piece. So
//! a key that is not found here may still be there: the caller asks `lookup` for it, which alone says what is wrong.
//!
//! Not here: fetching memory for look-ups that are made one by one (`prefetch`). Catalogue: A5, E1.

use crate::index::First;
use crate::log::{Found, Log};
use crate::memory::Reference;
use ramhold_base::{KeyHash, TableId};

/// Keys that are looked up together: as many as keep the processor busy, few enough to stay in its caches.
pub const TOGETHER_COUNT_MAX: usize = 64;

/// A key to be looked up; `hash` is its placement hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SoughtKey<'a> {
    pub table: TableId,
    pub hash: KeyHash,
    pub key: &'a [u8],
}

impl Log {
    /// Tells the objects of the first 64 keys that are plain to find, each with its number among the keys.
    #[inline]
    pub fn lookup_together<'l>(&'l self, keys: &[SoughtKey<'_>], mut tell: impl FnMut(usize, &Found<'l>)) {
        let keys = &keys[..keys.len().min(TOGETHER_COUNT_MAX)];
        let mut places = [0; TOGETHER_COUNT_MAX];
        for (place, sought) in places.iter_mut().zip(keys) {
            *place = self.place(sought.table, sought.hash);
            self.index.fetch(*place);
        }
        let mut entries = [None; TOGETHER_COUNT_MAX];
        let (mut behind, mut behind_count) = ([0; TOGETHER_COUNT_MAX], 0);
        for (number, place) in places[..keys.len()].iter().enumerate() {
            match self.index.first(*place) {
                First::Entry(at) => {
                    self.memory.fetch(at);
                    entries[number] = Some(at);
                }
                First::MayBeBehind => {
                    self.index.fetch_next(*place);
                    behind[behind_count] = number;
                    behind_count += 1;
                }
                First::None => {}
            }
        }
        for number in &behind[..behind_count] {
            entries[*number] = self.index.find(places[*number], |at| {
                self.memory.fetch(at);
                Some(at)
            });
        }
        for (number, (sought, at)) in keys.iter().zip(entries).enumerate() {
            if let Some(found) = at.and_then(|at| self.found_at(at, sought)) {
                tell(number, &found);
            }
        }
    }

    #[inline]
    fn found_at(&self, at: Reference, sought: &SoughtKey<'_>) -> Option<Found<'_>> {
        let record = self.memory.intact_record_here(at)?;
        let is_it = record.table == sought.table && record.key.contiguous() == Some(sought.key);
        is_it.then(|| Found::of(at, record, &self.memory))
    }
}
