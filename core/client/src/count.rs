//! Where a count of a table's objects stands: tablet after tablet, from the lowest hash on.

use crate::operation::Operation;
use ramhold_base::{KeyHash, TableId};

/// A count under way. Do what it asks for until that is nothing, and give each answer to `take`.
///
/// The sum is of numbers that were right one after the other, as a scan's pages are. A tablet that has lost objects
/// refuses with `Corrupt`: then only a scan can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableCount {
    table: TableId,
    /// Where the next tablet begins; none: it is done.
    first: Option<KeyHash>,
    objects: u64,
}

impl TableCount {
    pub fn new(table: TableId) -> TableCount {
        TableCount { table, first: Some(KeyHash(0)), objects: 0 }
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

    /// Of the tablets so far.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}
