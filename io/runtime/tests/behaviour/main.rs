//! The loop with real sockets and real files. No test sleeps to wait for something: loops are turned until a
//! condition holds.

use ramhold_runtime::Transport;

/// How connections are opened; `../over_shared_memory` has these tests with another transport.
const TRANSPORT: Transport = Transport::Tcp;

mod connections;
mod files;
mod first;
mod limits;
mod local;
mod probe;
mod requests;
#[path = "../../src/scratch.rs"]
mod scratch;
mod secrets;
