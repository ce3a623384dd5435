//! Several objects checked and changed as one.
//!
//! Catalogue: A4, A10.

use crate::{Client, Error};
use ramhold_base::Version;
use ramhold_client_core::{CommitItem, Operation, Reply};

impl Client {
    /// Carries out all items, or none if a rule of one refuses, and tells the version of everything that was written or
    /// removed; 0 when that is nothing. Nobody ever sees a part of it. 1 to 256 items of different keys, together at
    /// most 4 MiB.
    ///
    /// Refused with `NotTogether` when they are not on one server: keys with the same `{tag}` in a table by slots always
    /// are. Which item a rule refused is in [`crate::Outcome::Refused`], for who uses [`Client::submit`].
    pub fn commit(&mut self, items: Vec<CommitItem>) -> Result<Version, Error> {
        match self.complete(Operation::Commit { items })? {
            Reply::Committed { version } => Ok(version),
            _ => Err(Error::UnexpectedReply),
        }
    }
}
