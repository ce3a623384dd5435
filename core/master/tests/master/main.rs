//! A master between scripted backups and a scripted coordinator.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

mod commit;
mod count;
mod dirty;
mod division;
mod expiry;
mod local;
mod multi;
mod once;
mod read_lease;
mod reclassing;
mod recovery;
mod repair;
mod rig;
mod scan;
mod turns;
mod waits;
