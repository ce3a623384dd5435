//! All objects of a table, page by page.
//!
//! An object that exists from the beginning of the scan to its end is returned exactly once, even if servers
//! fail and tablets move meanwhile. An object that is created or removed meanwhile is returned once or not at
//! all. Each page is as true as a read, at some moment of its own. The order has no meaning.
//!
//! Catalogue: A6.

use crate::{Client, Error};
use ramhold_base::{Status, TableId};
use ramhold_client_core::{Operation, Page, PageLimits, Reply, ScanCursor, ScannedObject, TableCount};

impl Client {
    /// The next page of a scan. It may be empty although there are more; `next` says where to go on, or that this was
    /// the end. Refused with `Corrupt` where an object without replicas was lost, unless the limits pass it over.
    pub fn scan_page(&mut self, cursor: &ScanCursor, limits: PageLimits) -> Result<Page, Error> {
        match self.complete(Operation::Scan { cursor: cursor.clone(), limits })? {
            Reply::Page(page) => Ok(page),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// How many objects a table has: a question for each tablet, unless objects without replicas were lost; then all keys
    /// are scanned. Numbers of tablets are right one after the other, each as true as a read; an object whose time is
    /// over may count until somebody has asked for it. The keys of a quorum table are always scanned: that takes as long
    /// as a scan without values.
    pub fn count(&mut self, table: TableId) -> Result<u64, Error> {
        let mut count = TableCount::new(table);
        while let Some(operation) = count.ask() {
            match self.complete(operation) {
                Ok(Reply::Counted { last, objects }) => count.take(last, objects),
                Ok(_) => return Err(Error::UnexpectedReply),
                Err(Error::Refused { status: Status::Corrupt | Status::Unsupported, .. }) => {
                    return self.count_keys(table);
                }
                Err(Error::Refused { status, .. }) if count.refused(status) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count.objects())
    }

    fn count_keys(&mut self, table: TableId) -> Result<u64, Error> {
        let limits = PageLimits { keys_only: true, pass_lost: true, ..PageLimits::default() };
        self.scan_from(ScanCursor::new(table), limits).try_fold(0, |count, object| object.map(|_| count + 1))
    }

    /// The objects of a table, one after the other.
    pub fn scan(&mut self, table: TableId) -> Scan<'_> {
        self.scan_from(ScanCursor::new(table), PageLimits::default())
    }

    /// The objects from a cursor on, in pages with these limits.
    pub fn scan_from(&mut self, cursor: ScanCursor, limits: PageLimits) -> Scan<'_> {
        Scan { client: self, limits, next: Some(cursor), objects: Vec::new().into_iter() }
    }
}

/// A scan under way. After an error it may be asked again: it goes on where it was.
pub struct Scan<'a> {
    client: &'a mut Client,
    limits: PageLimits,
    /// Where the next page begins; none: there is none.
    next: Option<ScanCursor>,
    objects: std::vec::IntoIter<ScannedObject>,
}

impl Scan<'_> {
    /// Where the scan goes on when the objects of the present page have been taken; none: at the end.
    pub fn cursor(&self) -> Option<&ScanCursor> {
        self.next.as_ref()
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<ScannedObject, Error>;

    fn next(&mut self) -> Option<Result<ScannedObject, Error>> {
        loop {
            if let Some(object) = self.objects.next() {
                return Some(Ok(object));
            }
            match self.client.scan_page(self.next.as_ref()?, self.limits) {
                Ok(page) => {
                    self.next = page.next;
                    self.objects = page.objects.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
