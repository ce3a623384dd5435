//! The replicator against backups and networks that do what they like.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

mod batches;
mod bench;
mod copies;
mod flushed;
mod grants;
mod lossy_backups;
mod spreading;
