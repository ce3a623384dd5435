//! Errors of starting a runtime. Each message names the place and a remedy.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug)]
pub enum StartError {
    /// Nobody can reach us at this address.
    Listen { addr: SocketAddr, error: io::Error },
    /// Nobody can reach us at this path.
    ListenPath { path: PathBuf, error: io::Error },
    /// A directory cannot be made or opened.
    Directory { path: PathBuf, error: io::Error },
    /// Another process works in this directory.
    InUse { path: PathBuf },
    /// The device has no room for the first page of a file.
    Full { path: PathBuf },
    /// A file cannot be made, opened or given its size.
    File { path: PathBuf, error: io::Error },
    /// The kernel refused something that every process needs.
    System { what: &'static str, error: io::Error },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen { addr, error } => write!(
                f,
                "cannot listen on {addr}: {error}; choose another address or end the process that holds this one"
            ),
            StartError::ListenPath { path, error } => write!(
                f,
                "cannot listen at the path {}: {error}; choose another path, or end the process that holds this one",
                path.display()
            ),
            StartError::Directory { path, error } => write!(
                f,
                "cannot use the directory {}: {error}; make it writable for this user or choose another",
                path.display()
            ),
            StartError::InUse { path } => write!(
                f,
                "directory {} is in use by another ramhold process; end that process or choose another directory",
                path.display()
            ),
            StartError::Full { path } => write!(
                f,
                "the device of {} is full: a new server finds no room there; free space or choose another directory",
                path.display()
            ),
            StartError::File { path, error } => write!(
                f,
                "cannot open the file {}: {error}; make it readable and writable for this user or choose another directory",
                path.display()
            ),
            StartError::System { what, error } => write!(
                f,
                "the kernel refuses {what}: {error}; raise the limits of this process (ulimit -a) and start again"
            ),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Listen { error, .. }
            | StartError::ListenPath { error, .. }
            | StartError::Directory { error, .. }
            | StartError::File { error, .. }
            | StartError::System { error, .. } => Some(error),
            StartError::InUse { .. } | StartError::Full { .. } => None,
        }
    }
}
