//! The door for those who operate a process: `/metrics` for Prometheus, `/health` for whoever routes and restarts.
//!
//! HTTP on a thread of its own. Each request asks the loop to show itself, waits a moment, and answers from what was
//! shown: the loop makes plain values, and writing them as text is this thread's work. A loop that is stuck shows
//! nothing; then `/health` says so, and `/metrics` tells the last figures with their age.
//!
//! Invariants:
//! - nothing that comes in over HTTP reaches the loop, except that somebody asks;
//! - connections, their time and the size of a request are bounded.
//!
//! Not here: what is counted, and where (core, runtime). Catalogue: J5. The metrics: docs/metrics.md.

mod answers;
mod door;
mod page;
mod roles;

pub use door::Door;
pub use page::Page;
pub use roles::{Role, write_page};
