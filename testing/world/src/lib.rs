//! Whole clusters, simulated: one thread, one seed, virtual time, faults, and checkers of the clients'
//! answers.
//!
//! `world` runs machines without knowing their kind. `system` is the seam to a real system. `scenario` lets
//! clients work on a system while `fault` strikes, and `checker` judges the history. Every run is a function
//! of its seed.
//!
//! Not here: real processes (`testing/cluster`). Catalogue: J3, E1.

pub mod world;

pub mod disk;
pub mod network;
pub mod secrets;
pub mod store;
pub mod trace;

pub mod client;
pub mod fault;
pub mod resp;
pub mod scenario;
pub mod stage;
pub mod system;
pub mod workload;

pub mod audit;
pub mod cables;
pub mod checker;
pub mod cluster;
pub mod history;
pub mod watch;

pub mod specimen;
pub mod tally;
