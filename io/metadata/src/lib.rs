//! Keeps the coordinator's state.
//!
//! The embedded store serves a cluster whose coordinator lives on one machine. It is one file with one user,
//! and every commit is on the device before it is answered.
//!
//! A backup is a file with the records of one moment. A new store can be made from it.
//!
//! Not here: the meaning of the keys (coordinator), the thread on which a store works (runtime).

mod backup;
mod embedded;
mod error;
mod file;

pub use backup::{BackupFile, BadBackup};
pub use embedded::EmbeddedStore;
pub use error::OpenError;
