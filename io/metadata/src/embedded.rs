//! The embedded store: for a coordinator that is its only user.
//!
//! So a watch can only report changes that this user has committed.

use crate::error::OpenError;
use crate::file::{Commit, Entry, StoreFile};
use ramhold_base::{StoreRequest, StoreResult, StoreToken};
use ramhold_runtime::{Answer, Store};
use std::path::{Path, PathBuf};

pub struct EmbeddedStore {
    file: StoreFile,
    directory: PathBuf,
    /// Prefixes, in the order in which they were asked for.
    watches: Vec<(StoreToken, String)>,
}

impl EmbeddedStore {
    /// Makes a store of these records in `directory`, where none may be. They are on the device when this returns.
    pub fn restore(directory: &Path, records: Vec<(String, Vec<u8>)>) -> Result<(), OpenError> {
        let path = directory.join("store");
        let unusable =
            |error: redb::Error| OpenError::Unusable { path: path.clone(), detail: error.to_string() };
        let file = StoreFile::open(directory)?;
        if !file.list("").map_err(unusable)?.is_empty() {
            return Err(OpenError::Occupied { path });
        }
        let puts = records.into_iter().map(|(key, value)| (key, Some(value))).collect();
        file.commit(&[], puts).map_err(unusable)?;
        Ok(())
    }

    /// Opens the store in `directory`, making both when they are missing. Checks the whole file, which takes time in
    /// proportion to its size (a few MiB).
    pub fn open(directory: &Path) -> Result<EmbeddedStore, OpenError> {
        let file = StoreFile::open(directory)?;
        Ok(EmbeddedStore { file, directory: directory.to_owned(), watches: Vec::new() })
    }
}

impl Store for EmbeddedStore {
    fn execute(&mut self, token: StoreToken, request: StoreRequest, answer: &Answer) {
        if matches!(request, StoreRequest::Commit { .. })
            && let Err(lacks) = self.file.reserve()
        {
            let reason = format!("{lacks} in {}", self.directory.display());
            return answer(token, StoreResult::NoRoom { request, reason });
        }
        match request {
            StoreRequest::Get { key } => answer(token, found(self.file.get(&key).map(Vec::from_iter))),
            StoreRequest::List { prefix } => answer(token, found(self.file.list(&prefix))),
            StoreRequest::Watch { prefix } => {
                let present = self.file.list(&prefix);
                if present.is_ok() {
                    self.watches.push((token, prefix));
                }
                answer(token, found(present));
            }
            StoreRequest::Commit { conditions, puts } => match self.file.commit(&conditions, puts) {
                Ok(Commit::Done { changed }) => {
                    answer(token, StoreResult::Committed);
                    // Reserves space for the next commit, while there is room. The result is ignored: the
                    // next commit checks again.
                    let _ = self.file.reserve();
                    for (key, value) in changed {
                        for (watch, prefix) in &self.watches {
                            if key.starts_with(prefix.as_str()) {
                                answer(
                                    *watch,
                                    StoreResult::Changed { key: key.clone(), value: value.clone() },
                                );
                            }
                        }
                    }
                }
                Ok(Commit::Conflict { key }) => answer(token, StoreResult::Conflict { key }),
                Err(error) => answer(token, StoreResult::Failed(error.to_string())),
            },
        }
    }
}

fn found(entries: Result<Vec<Entry>, redb::Error>) -> StoreResult {
    match entries {
        Ok(entries) => StoreResult::Found(entries),
        Err(error) => StoreResult::Failed(error.to_string()),
    }
}
