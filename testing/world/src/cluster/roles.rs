//! Servers with a role in the recovery of others: clusters that have them, and who has which role.
//!
//! Protocol: docs/protocols/neighbourhoods.md. Catalogue: H2, H3, F4.

use super::process::Process;
use super::session::ClusterSession;
use super::settings::Cluster;
use crate::scenario::Actor;
use crate::system::{Neighbourhood, Recovered, Standing};
use crate::world::World;
use ramhold_base::{Rng, ServerId};
use ramhold_coordinator::State;
use ramhold_placement::{Network, neighbourhoods};
use ramhold_wire::{Neighbouring, ReplicaPlacement};
use std::collections::BTreeMap;

type ClusterWorld = World<Actor<Process, ClusterSession>>;

impl Cluster {
    /// A cluster whose data is kept by neighbourhoods, drawn from a seed: a full BCube(4, 1) or BCube(3, 1), or racks in
    /// one seed of six.
    #[must_use]
    pub fn of_roles(seed: u64) -> Cluster {
        let mut rng = Rng::new(seed ^ 0x801E_5000);
        let by = match rng.below(6) {
            0 => Neighbouring::RackLocal,
            1 => Neighbouring::StrictRing,
            _ => Neighbouring::MultiRing,
        };
        let most = if rng.chance(1, 4) { 2 } else { 64 };
        let radix = if rng.chance(1, 2) { 4 } else { 3 };
        let drawn = Cluster {
            placement: ReplicaPlacement::Neighbourhoods { by, most },
            synced: rng.chance(1, 5),
            limits: rng.chance(1, 4).then_some(seed),
            // With few tablets most masters have one neighbourhood that counts.
            tablets: if rng.chance(1, 4) { 8 } else { 0 },
            ..Cluster::default()
        };
        match by {
            Neighbouring::RackLocal => Cluster { servers: 3 * radix, racks: radix, ..drawn },
            Neighbouring::MultiRing | Neighbouring::StrictRing => {
                let cube = Some((u16::from(radix), seed));
                Cluster { servers: radix * radix, planes: 2, cube, ..drawn }
            }
        }
    }
}

/// The neighbourhoods of the server of a host, by the list of the coordinator in charge.
pub(super) fn standing(world: &ClusterWorld, placement: ReplicaPlacement, node: usize) -> Option<Standing> {
    let state = crate::audit::in_charge(world)?.state();
    let hosts = hosts(world);
    let id = *hosts.iter().find(|(_, host)| **host == node)?.0;
    let (by, most) = placement.neighbouring().filter(|_| state.is_up(id))?;
    let network = Network::new(&state.meta.topology, state.all_up().map(|record| &record.entry));
    let of = |ids: &[ServerId]| ids.iter().filter_map(|id| hosts.get(id).copied()).collect();
    let neighbourhoods = neighbourhoods(&network, by, id, usize::from(most))
        .iter()
        .map(|own| Neighbourhood { recoverers: of(&own.recoverers), feeders: of(&own.feeders) })
        .collect();
    let tablets = state.tables.values().flat_map(|table| &table.tablets);
    let tablets = tablets.filter(|tablet| tablet.owner == id && tablet.taken).count();
    Some(Standing { id, tablets, neighbourhoods })
}

/// The hosts of the servers that run.
fn hosts(world: &ClusterWorld) -> BTreeMap<ServerId, usize> {
    let server = |node: usize| match world.machine(node) {
        Some(Actor::Process(process)) => process.server().map(|server| (server.id(), node)),
        Some(Actor::Client(_)) | None => None,
    };
    (0..world.node_count()).filter_map(server).collect()
}

pub(super) fn is_recovered(state: &State, dead: ServerId, how: Recovered) -> bool {
    let is_served = || state.recoveries.values().any(|record| record.crashed == dead && record.done);
    !state.servers.contains_key(&dead) || (how == Recovered::Served && is_served())
}
