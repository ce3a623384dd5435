//! Requests about objects, and their answers, between the roles of one process. None of this is sent over the
//! network.

use crate::commit::CommitRequest;
use crate::data::{IncrementRequest, KeyRequest, WriteRequest};
use ramhold_base::Status;
use std::ops::Range;

/// One request, about one object or several. Keys and values are within the limits of the wire.
#[derive(Clone, Copy, Debug)]
pub enum LocalRequest<'a> {
    Read(KeyRequest<'a>),
    Write(WriteRequest<'a>),
    Remove(KeyRequest<'a>),
    Increment(IncrementRequest<'a>),
    Commit(&'a CommitRequest<'a>),
}

/// Answers that have not been fetched, in the order in which they were given.
#[derive(Debug, Default)]
pub struct LocalAnswers {
    bytes: Vec<u8>,
    list: Vec<(u64, Status, Range<usize>)>,
}

impl LocalAnswers {
    pub fn push(&mut self, ticket: u64, status: Status, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        body(&mut self.bytes);
        self.list.push((ticket, status, start..self.bytes.len()));
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Ticket, status, and the body that the wire would have brought.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Status, &[u8])> {
        self.list.iter().map(|(ticket, status, body)| (*ticket, *status, &self.bytes[body.clone()]))
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }
}
