//! The coordinator against scripted servers, clients and a store that commits when told.

mod harness;

mod accepting;
mod divisions;
mod gone;
mod leases;
mod membership;
mod read_leases;
mod recoveries;
mod restarts;
mod room;
mod tables;
mod updates;
mod watching;
