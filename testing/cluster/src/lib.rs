//! Clusters of real processes, for tests that no simulation replaces: signals, files, sockets, time as it is.
//!
//! ```text
//!   Process   one ramhold process, found by its number, killed when dropped
//!   Cluster   a coordinator and servers in a directory of their own, with waits for what they should be
//!   Load      clients that read and write all the time, and the journal of what was acknowledged
//!   rounds    kill, recover, compare, again
//! ```
//!
//! They run the built program: `RAMHOLD_BIN`, or `target/release/ramhold`. Nothing waits by sleeping for long enough; each
//! wait looks for a condition and has a deadline.
//!
//! Not here: faults of networks and disks, and thousands of schedules (testing/world).

mod cluster;
mod journal;
mod load;
mod process;
pub mod rounds;
mod scratch;
mod waiting;

pub use cluster::{COORDINATOR, Cluster, Frames, Options, free_ports};
pub use journal::{Finding, Journal};
pub use load::Load;
pub use process::{Process, program};
pub use scratch::Scratch;
pub use waiting::{Failure, wait_for};
