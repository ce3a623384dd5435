//! The admin port, for those who operate a process: `/metrics` for Prometheus, `/health` for programs
//! that restart processes, `/ready` for those that route to them.
//!
//! HTTP is served on a thread of its own. Each request asks the loop for a snapshot of its state, waits up to
//! `PATIENCE`, and is answered from that snapshot. The loop only produces plain values; this thread formats
//! them as text. A loop that is stuck produces no snapshot: then `/health` and `/ready` say so, and `/metrics` shows the
//! last figures with their age.
//!
//! Invariants:
//! - nothing that arrives over HTTP reaches the loop, except the fact that somebody asks;
//! - the number of connections, their duration and the size of a request are bounded.
//!
//! Not here: what is counted, and where (core, runtime). Catalogue: J5. The metrics: docs/metrics.md.

mod answers;
mod door;
mod page;
mod roles;

pub use door::Door;
pub use page::Page;
pub use roles::{Role, write_page};
