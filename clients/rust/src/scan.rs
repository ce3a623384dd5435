//! All objects of a table, page by page.
//!
//! An object that is there from the beginning of the scan to its end is given exactly once, also when servers fail and
//! tablets move meanwhile; one that comes or goes meanwhile is given once or not at all. Each page is as true as a read
//! at some moment of its own. The order means nothing.
//!
//! Catalogue: A6.

use crate::{Client, Error};
use ramhold_base::TableId;
use ramhold_client_core::{Operation, Page, PageLimits, Reply, ScanCursor, ScannedObject};

impl Client {
    /// The next page of a scan. It may be empty although there are more; `next` says where to go on, or that this was
    /// the end. Refused with `Corrupt` where an object without replicas was lost, unless the limits pass it over.
    pub fn scan_page(&mut self, cursor: &ScanCursor, limits: PageLimits) -> Result<Page, Error> {
        match self.complete(Operation::Scan { cursor: cursor.clone(), limits })? {
            Reply::Page(page) => Ok(page),
            _ => Err(Error::UnexpectedReply),
        }
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
