//! Named scenarios: one script each, with the outcome that it must have.
//!
//! Each test names the rows that it stands for. Rows with letters and numbers are the fault scenarios of
//! docs/scenarios.md. That page also says where the other scenarios are tested, and which wait for a feature.
//! A script that sweeps over moments runs a cluster for each.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

mod audits;
mod backups;
mod commits;
mod coordinator;
mod copysets;
mod heads;
mod kept;
mod leases;
mod masters;
mod neighbourhoods;
mod neighbours;
mod network;
mod once;
mod paths;
mod rebuild;
mod reclassing;
mod recovery;
mod rehoming;
mod resp;
mod scarce;
mod secondary;
mod shards;
mod shortage;
mod shrunk;
mod starts;
mod storage;
mod tablets;
mod twice;
mod updates;
