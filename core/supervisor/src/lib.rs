//! Restarts bricks that have ended or hang, and no others.
//!
//! A hung loop cannot restart itself, so each brick has a supervisor: another process, which does nothing else. Siblings order
//! restarts; the supervisor looks for itself before it ends anything. It owns no data, and its own end costs nothing but
//! restarts.
//!
//! ```text
//!   sibling ── RestartOrder ──▶ Supervisor ── BrickProbe ──▶ its brick, over loopback
//!   operator ── BrickRestart ─▶   │  ▲
//!                                 ▼  │ started, ended
//!                               Act: start, stop, kill ── the owner of the processes (apps)
//! ```
//!
//! Invariants:
//! - an order for a life that is over ends nothing;
//! - a process that answers over loopback is ended by an order only if all its siblings consent;
//! - a process is started when the one before it is reaped;
//! - a process that is no brick is never ended.
//!
//! Not here: processes and signals (apps), who orders (core/brick). Protocol: docs/protocols/quorum.md, rules 42 to 46.
//! Source: DSTORE04 5.3. Catalogue: I6.

mod charge;
mod limit;
mod process;
mod supervisor;
mod verdict;

pub use limit::RestartLimit;
pub use process::{Act, ChargeConfig, Ended};
pub use supervisor::Supervisor;
