//! Clusters of real processes, for tests that no simulation replaces: signals, files, sockets, real time.
//!
//! ```text
//!   Process   one ramhold process, found by its number, killed when dropped
//!   Cluster   a coordinator and servers in a directory of their own, with waits for what they should be
//!   Bricks    bricks beside a cluster's coordinator
//!   Load      clients that read and write all the time, and the journal of what was acknowledged
//!   rounds    kill, recover, compare, again
//!
//!   Network   members in network namespaces of their own, to be cut apart
//!   episodes  one fault at a time: killed, stopped, cut off; and what the coordinator has on record of it
//!   Clients   client processes; in each of them sessions (Workload) that write down a history (Recorder)
//!   Checker   the independent program that judges histories
//!   Recording sessions in this process that record a history beside a measurement
//!   redis_clients  sessions of Redis clients, and servers killed under their load
//!   histories all of that together, with figures
//! ```
//!
//! The tests run the built program: `RAMHOLD_BIN`, or `target/release/ramhold`. No test sleeps for a fixed
//! time. Every wait polls for a condition and has a deadline.
//!
//! Not here: slow networks and faults of disks, and thousands of schedules (testing/world).

mod ballast;
mod bricks;
mod checker;
mod clients;
mod cluster;
mod cube;
mod episodes;
pub mod histories;
mod history;
mod journal;
mod load;
mod loop_disk;
mod namespace;
mod network;
mod process;
mod processor_limit;
mod recording;
pub mod redis_clients;
pub mod rounds;
mod scratch;
mod sessions;
mod small_disk;
mod sums;
mod waiting;
mod zone_faults;

pub use ballast::{VALUE_BYTES, fill, verify};
pub use bricks::{BRICK_MEMORY_MIN, Bricks};
pub use checker::Checker;
pub use cluster::{Cluster, Frames, Options, free_ports};
pub use cube::Cube;
pub use history::{FILE_BYTES_MAX, Recorder, RunName};
pub use journal::{Finding, Journal};
pub use load::{Load, Pace};
pub use loop_disk::{Frozen, LoopDisk};
pub use namespace::{COORDINATOR, End};
pub use network::{Cut, Network, between, is_network_possible};
pub use process::{CpuTime, Process, cpu_of, program};
pub use processor_limit::ProcessorLimit;
pub use recording::{Judged, Recording, Recordings};
pub use scratch::Scratch;
pub use sessions::{KeyCounts, Operations, Workload};
pub use small_disk::SmallDisk;
pub use sums::Sums;
pub use waiting::{Failure, check_interrupted, interrupted, pass, wait_for};
