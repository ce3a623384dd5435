//! One server process as one machine: takes inputs, routes them to its roles, and gathers their effects.
//!
//! A storage server has the roles master and backup, and a detector; they never see each other. They share the server
//! list and the identity, which the node keeps. A coordinator process is a machine of its own.
//!
//! Not here: the decisions of any role. The same wiring runs on Linux (`io/runtime`) and in the simulator
//! (`testing/world`). Protocol: docs/protocols/membership.md. Catalogue: B2, E1, F1, F8.

mod brick;
mod config;
mod copies;
mod doors;
mod enlisting;
mod neighbours;
mod paths;
mod prefetch;
mod reach;
mod requests;
mod resp;
mod seen;
mod server;
mod telling;

pub use brick::{BrickNode, BrickNodeConfig, BrickSeen, EXIT_BRICK_FAILED};
pub use config::ServerConfig;
pub use ramhold_brick::{
    Brick, BrickConfig, BrickState, BrickStatistics, ClassStatistics, NotTaken, RestartLoad, TableState,
    TabletState, is_brick_directory,
};
pub use ramhold_coordinator::{Coordinator, CoordinatorConfig, Rebuild, term_record};
pub use ramhold_resp::{CrossSlot, Process, RespConfig};
pub use seen::{RespSeen, ServerSeen};
pub use server::{Phase, ServerNode};

/// The exit code of a server process when the cluster has declared it dead.
pub const EXIT_DECLARED_DEAD: u8 = 3;
/// The exit code when it cannot serve: wrong cluster, broken superblock.
pub const EXIT_CANNOT_SERVE: u8 = 4;
/// The exit code when its memory is damaged where no backup has the bytes.
pub const EXIT_MEMORY_DAMAGED: u8 = 5;
