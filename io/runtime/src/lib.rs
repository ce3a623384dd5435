//! Runs one machine on Linux.
//!
//! A loop on one thread waits for sockets, feeds a `Machine` with inputs, and executes its effects: frames
//! over TCP, work on a backup's files, requests to the coordinator's store, work with passwords, lines for the operator.
//! Helper threads do the work that may take long. The loop shares nothing with them but queues, and the memory of passwords
//! that were right.
//!
//! Not here: the meaning of any frame, file or key (core); the choice of machine and settings (apps).

mod clock;
mod config;
mod connection;
mod disk;
mod error;
mod heap;
mod link;
mod network;
mod observe;
mod pending;
mod poll;
mod polling;
mod receive;
mod report;
mod runtime;
#[cfg(test)]
mod scratch;
mod secrets;
mod send;
mod space;
mod store;
mod usage;

pub use clock::{now, utc, wall_millis};
pub use config::{Poll, RuntimeConfig};
pub use connection::do_not_pace;
pub use disk::{DiskConfig, DiskFiles, open_disk};
pub use error::StartError;
pub use heap::give_back_freed_memory;
pub use network::{NetworkLimits, Stats, Transport};
pub use observe::{AskHandle, LoopSeen};
pub use polling::Polled;
pub use report::{Report, report_to_stderr};
pub use runtime::{ChangeHandle, Exit, Runtime, StopHandle, Turn};
pub use secrets::{SecretFault, is_password, is_stored_password, random_bytes, store_password};
pub use space::{BufferRoom, free_space, memory_available, raise_file_limit, try_reserve_buffers};
pub use store::{Answer, Store};
pub use usage::Usage;
