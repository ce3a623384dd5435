//! The coordinator against scripted servers, clients and a store that commits when told.

mod harness;

mod accepting;
mod account_records;
mod accounts;
mod brick_records;
mod brick_rig;
mod bricks;
mod copies;
mod divisions;
mod forgetting;
mod full;
mod gone;
mod leases;
mod membership;
mod neighbours;
mod quorum_tables;
mod read_leases;
mod rebuilding;
mod recoveries;
mod replacing;
mod restarts;
mod room;
mod scaling;
mod shortage;
mod tables;
mod topology;
mod updates;
mod watching;
mod zones;
