//! Keeps the coordinator's state.
//!
//! The embedded store serves a cluster whose coordinator lives on one machine: one file, one user, every commit on the
//! device before it is answered.
//!
//! A backup is a file with the records of one moment, which a new store can be made of.
//!
//! Not here: what the keys mean (coordinator), on which thread a store works (runtime).

mod backup;
mod embedded;
mod error;
mod file;

pub use backup::{BackupFile, BadBackup};
pub use embedded::EmbeddedStore;
pub use error::OpenError;
