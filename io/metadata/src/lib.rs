//! Keeps the coordinator's state.
//!
//! The embedded store serves a cluster whose coordinator lives on one machine: one file, one user, every commit on the
//! device before it is answered.
//!
//! Not here: what the keys mean (coordinator), on which thread a store works (runtime).

mod embedded;
mod error;
mod file;

pub use embedded::EmbeddedStore;
pub use error::OpenError;
