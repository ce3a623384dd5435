//! Errors of opening the embedded store. Each message names the path and a remedy.

use std::fmt;
use std::path::PathBuf;

#[derive(Debug)]
pub enum OpenError {
    /// Another process works with this store.
    InUse { path: PathBuf },
    /// Written by a later Ramhold (or a later engine), which this one could only damage.
    TooNew { path: PathBuf, detail: String },
    /// The file is damaged.
    Corrupt { path: PathBuf, detail: String },
    /// A store is there already, where one was to be made.
    Occupied { path: PathBuf },
    /// Its device has no room for a commit.
    Full { path: PathBuf, detail: String },
    /// The directory or file cannot be made, read or written.
    Unusable { path: PathBuf, detail: String },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse { path } => write!(
                f,
                "the coordinator's store {} is in use by another ramhold process; end that process or choose another directory",
                path.display()
            ),
            OpenError::TooNew { path, detail } => write!(
                f,
                "the coordinator's store {} is of a format that is not known here: {detail}; start the version of ramhold that wrote it",
                path.display()
            ),
            OpenError::Corrupt { path, detail } => write!(
                f,
                "the coordinator's store {} is damaged: {detail}; restore a backup ('--restore FILE') or make the state anew from the servers ('--rebuild-from-servers'), in an empty directory",
                path.display()
            ),
            OpenError::Occupied { path } => write!(
                f,
                "there is a coordinator's store {} already; choose an empty directory, or start without --restore",
                path.display()
            ),
            OpenError::Full { path, detail } => write!(
                f,
                "the coordinator's store {} finds no room: {detail}; free space on its file system, or choose another directory",
                path.display()
            ),
            OpenError::Unusable { path, detail } => write!(
                f,
                "the coordinator's store {} cannot be used: {detail}; make it readable and writable for this user",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}
