//! A server at each place of a grid.
//!
//! Not here: what follows from where they are (network).

use ramhold_base::{DirectoryId, ServerId};
use ramhold_placement::Grid;
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Label, ServerEntry, ServerState};
use ramhold_wire::topology::Topology;
use std::net::SocketAddr;

/// A plan asks for the neighbourhoods of every server: with more places that takes minutes.
pub const PLACES_MAX: u64 = 4096;

/// Servers at all places of a grid, with the ids 1, 2, ... in the order of places.
pub fn servers(topology: &Topology, grid: &Grid) -> Vec<ServerEntry> {
    let name = topology.label_name().unwrap_or_default();
    let server = |(id, value): (u64, String)| ServerEntry {
        id: ServerId(id),
        address: Address(SocketAddr::from(([0, 0, 0, 0], 0))),
        labels: vec![Label { name: name.to_owned(), value }],
        state: ServerState::Up,
        master: true,
        backup: true,
        read_speed: 1,
        directory: DirectoryId(id),
        kept: false,
        replicates: false,
        replicates_only: None,
        redis_cluster_port: None,
        links: None,
    };
    (1..).zip(grid.labels().map(|label| grid.name(&label))).map(server).collect()
}
