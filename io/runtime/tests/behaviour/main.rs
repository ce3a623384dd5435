//! The loop with real sockets and real files. No test sleeps to wait for something: loops are turned until a
//! condition holds.

mod connections;
mod files;
mod limits;
mod probe;
mod requests;
#[path = "../../src/scratch.rs"]
mod scratch;
