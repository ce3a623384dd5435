//! The bricks that lead sessions on while the coordinator is away.
//!
//! Servers and bricks name some bricks to a session that asks them for a table. They know these from the coordinator: a
//! server from the server list, a brick from the answers to its hellos.
//!
//! Not here: the siblings of a brick (`assignment`), what a session does with the names (core/client).
//! Protocol: docs/protocols/quorum.md, rule 36. Catalogue: I1, I4.

use crate::state::State;
use ramhold_base::ServerId;
use ramhold_base::limits::BRICKS_TOLD_MAX;
use ramhold_wire::control::Address;
use ramhold_wire::quorum::BrickPlace;
use std::collections::BTreeSet;
use std::ops::Bound;

/// The bricks behind a brick's own id that it is told of.
const NEXT_COUNT: usize = 4;

/// The bricks that the server list names: those with the lowest ids.
pub(crate) fn told_bricks(state: &State) -> Option<Vec<Address>> {
    let named = state.bricks.values().take(BRICKS_TOLD_MAX).map(|brick| brick.address);
    (!state.bricks.is_empty()).then(|| named.collect())
}

/// The bricks that hold the tablet behind each of this brick's. So the bricks of a table make a ring: whoever goes from
/// one to the next comes to all its tablets.
pub(crate) fn next_in_tables(state: &State, brick: ServerId) -> BTreeSet<ServerId> {
    let mut named = BTreeSet::new();
    for table in state.quorum_tables.values().filter(|table| !table.dropping) {
        let count = table.tablets.len();
        let is_held = |at: usize| table.tablets[at % count].bricks.contains(&brick);
        let next = (0..count).filter(|at| is_held(*at) && !is_held(at + 1)).map(|at| (at + 1) % count);
        named.extend(next.flat_map(|at| &table.tablets[at].bricks));
    }
    named.into_iter().take(BRICKS_TOLD_MAX - NEXT_COUNT).collect()
}

/// The bricks that a brick names to sessions beside its siblings: those behind its tablets, and those behind its id, which
/// make a ring of all bricks. Where one ring has a gap, because bricks are away, the other one leads on.
pub(crate) fn others(state: &State, brick: ServerId, in_tables: &[ServerId]) -> Vec<BrickPlace> {
    let behind = (Bound::Excluded(brick), Bound::Unbounded);
    let ring = state.bricks.range(behind).chain(state.bricks.range(..brick));
    let named: BTreeSet<ServerId> =
        ring.take(NEXT_COUNT).map(|(id, _)| *id).chain(in_tables.iter().copied()).collect();
    let place = |brick| Some(BrickPlace { brick, address: state.bricks.get(&brick)?.address });
    named.into_iter().filter_map(place).collect()
}
