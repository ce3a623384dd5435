//! The coordinator against scripted servers, clients and a store that commits when told.

mod harness;

mod accepting;
mod copies;
mod divisions;
mod full;
mod gone;
mod leases;
mod membership;
mod neighbours;
mod read_leases;
mod rebuilding;
mod recoveries;
mod restarts;
mod room;
mod shortage;
mod tables;
mod topology;
mod updates;
mod watching;
mod zones;
