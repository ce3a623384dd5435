//! The progress of a count of a table's objects: tablet after tablet, from the lowest hash on.

use crate::operation::Operation;
use ramhold_base::{KeyHash, Status, TableId};

/// A count under way. Carry out the operation that `ask` returns until it returns none, and give each answer
/// to `take`.
///
/// Like the pages of a scan, the numbers in the sum were right one after the other, not at one moment. A
/// tablet that has lost objects refuses with `Corrupt`: then only a scan can tell. If tablets that were
/// counted are joined with the next one, the count begins again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableCount {
    table: TableId,
    /// Where the next tablet begins. None: the count is done.
    first: Option<KeyHash>,
    objects: u64,
    /// How often the count may still begin again.
    again: u32,
}

/// Tablets were joined during the count each time: this is more often than operators do so.
const AGAIN_COUNT_MAX: u32 = 16;

impl TableCount {
    pub fn new(table: TableId) -> TableCount {
        TableCount { table, first: Some(KeyHash(0)), objects: 0, again: AGAIN_COUNT_MAX }
    }

    /// The next question. None: the count is done.
    pub fn ask(&self) -> Option<Operation> {
        self.first.map(|first| Operation::Count { table: self.table, first })
    }

    /// Takes the answer `Reply::Counted` about the tablet that was asked for.
    pub fn take(&mut self, last: KeyHash, objects: u64) {
        self.first = last.0.checked_add(1).map(KeyHash);
        self.objects = self.objects.saturating_add(objects);
    }

    /// Takes the refusal of the last question. `true`: the count begins again, since the tablet that it has
    /// come to was joined with one that it has counted.
    pub fn refused(&mut self, status: Status) -> bool {
        let was_joined = status == Status::NotAllowed && self.first.is_some_and(|first| first > KeyHash(0));
        if was_joined && self.again > 0 {
            (self.first, self.objects) = (Some(KeyHash(0)), 0);
            self.again -= 1;
            return true;
        }
        false
    }

    /// The objects of the tablets so far.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}
