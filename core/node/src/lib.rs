//! One process as one machine: takes inputs, routes them to its roles, gathers their effects.
//!
//! A storage server has the roles master and backup, and a detector; they never see each other. What they share is the
//! server list and the identity, which the node keeps. A coordinator process is a machine of its own.
//!
//! Not here: what any role decides. The same wiring runs on Linux (`io/runtime`) and in the simulator (`testing/world`).
//! Protocol: docs/protocols/membership.md. Catalogue: B2, E1, F1, F8.

mod config;
mod copies;
mod enlisting;
mod prefetch;
mod reach;
mod requests;
mod resp;
mod seen;
mod server;
mod telling;

pub use config::ServerConfig;
pub use ramhold_coordinator::{Coordinator, CoordinatorConfig, Rebuild, term_record};
pub use ramhold_resp::{CrossSlot, Process, RespConfig};
pub use seen::{RespSeen, ServerSeen};
pub use server::{Phase, ServerNode};

/// How a server process ends when the cluster has declared it dead.
pub const EXIT_DECLARED_DEAD: u8 = 3;
/// How it ends when it cannot serve: wrong cluster, broken superblock.
pub const EXIT_CANNOT_SERVE: u8 = 4;
/// How it ends when its memory is damaged where nobody else has what stood there.
pub const EXIT_MEMORY_DAMAGED: u8 = 5;
