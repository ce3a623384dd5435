//! Where a count of a table's objects stands: tablet after tablet, from the lowest hash on.

use crate::operation::Operation;
use ramhold_base::{KeyHash, Status, TableId};

/// A count under way. Do what it asks for until that is nothing, and give each answer to `take`.
///
/// The sum is of numbers that were right one after the other, as a scan's pages are. A tablet that has lost objects
/// refuses with `Corrupt`: then only a scan can tell. Where tablets were joined behind its back it begins again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableCount {
    table: TableId,
    /// Where the next tablet begins; none: it is done.
    first: Option<KeyHash>,
    objects: u64,
    /// How often it may still begin again.
    again: u32,
}

/// Each time somebody has joined tablets during the count: more often than operators do.
const AGAIN_COUNT_MAX: u32 = 16;

impl TableCount {
    pub fn new(table: TableId) -> TableCount {
        TableCount { table, first: Some(KeyHash(0)), objects: 0, again: AGAIN_COUNT_MAX }
    }

    /// What to ask next; none: that was all.
    pub fn ask(&self) -> Option<Operation> {
        self.first.map(|first| Operation::Count { table: self.table, first })
    }

    /// Takes what `Reply::Counted` says of the tablet that was asked for.
    pub fn take(&mut self, last: KeyHash, objects: u64) {
        self.first = last.0.checked_add(1).map(KeyHash);
        self.objects = self.objects.saturating_add(objects);
    }

    /// Takes that what it asked for was refused. `true`: it begins again, since the tablet that it has come to was joined
    /// with one that it has counted.
    pub fn refused(&mut self, status: Status) -> bool {
        let was_joined = status == Status::NotAllowed && self.first.is_some_and(|first| first > KeyHash(0));
        if was_joined && self.again > 0 {
            (self.first, self.objects) = (Some(KeyHash(0)), 0);
            self.again -= 1;
            return true;
        }
        false
    }

    /// Of the tablets so far.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}
