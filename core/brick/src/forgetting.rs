//! Tablets of which this brick may lack something: they do not vote until they are rebuilt.
//!
//! Not here: what may be missing (`start`), the rebuilding (`rebuild`). Protocol: docs/protocols/quorum.md, rules 10, 14.
//! Catalogue: I6.

use crate::state::{BrickState, TabletState};
use ramhold_base::{Effects, Level, StreamId, TableId};
use ramhold_wire::membership::Durability;
use std::collections::BTreeSet;

/// The streams of a durability.
pub(crate) fn streams_of(state: &BrickState, durability: Durability) -> BTreeSet<StreamId> {
    let own = state.streams.iter().filter(|stream| stream.durability == durability);
    own.map(|stream| stream.stream).collect()
}

/// Notes that the tablets in these streams may lack something: they do not vote. Returns how many did so far.
pub(crate) fn forget(state: &mut BrickState, streams: &BTreeSet<StreamId>, effects: &mut Effects) -> usize {
    let lost = state.streams.iter().filter(|stream| streams.contains(&stream.stream));
    let durabilities: Vec<Durability> = lost.map(|stream| stream.durability).collect();
    let tables = state.tables.iter().filter(|table| durabilities.contains(&table.durability));
    let tables: BTreeSet<TableId> = tables.map(|table| table.table).collect();
    let mut count = 0;
    for tablet in state.tablets.iter_mut().filter(|it| it.votes && tables.contains(&it.table)) {
        tablet.votes = false;
        count += 1;
        let TabletState { table, first, last, .. } = tablet;
        let text = format!(
            "{table} {first:?} to {last:?} may lack acknowledged writes here: no vote until it is rebuilt"
        );
        effects.report(Level::Warn, text);
    }
    count
}
