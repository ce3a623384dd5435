//! Changes of tablets in a brick's state: tablets that come, get other bricks, or are given up.
//!
//! The coordinator tells of them with an assignment, siblings with their announcements. Whoever tells, the higher epoch of a
//! range counts, and an epoch that is not above the own one changes nothing.
//!
//! Invariants:
//! - a brick votes in a tablet only if it has had part in it without a gap since it last was complete;
//! - two descriptions of a range with the same epoch name the same bricks.
//!
//! Not here: who tells (`taking`, `announcing`), what is served of it (`tables`). Protocol: docs/protocols/quorum.md, rules
//! 50, 53, 54. Catalogue: I1, I6.

use crate::state::{BrickState, TableState, TabletState};
use ramhold_base::ServerId;
use ramhold_base::planted::{Defect, planted};
use ramhold_wire::bricks::{BrickTable, GivenUp, Shared};
use ramhold_wire::quorum::BrickTablet;

/// Why a change is not taken: it contradicts what is here.
pub(crate) type Wrong = &'static str;

pub(crate) fn add_tables(state: &mut BrickState, new: &[BrickTable]) -> Result<(), Wrong> {
    for table in new.iter().map(TableState::of) {
        match state.tables.iter().find(|known| known.table == table.table) {
            Some(known) if known != &table => return Err("a table is another one here"),
            Some(_) => {}
            None => state.tables.push(table),
        }
    }
    Ok(())
}

/// Takes a tablet as it was told, unless it is older than what is here. `is_fresh`: a tablet of the first epoch is empty
/// everywhere, so this brick lacks nothing of it.
pub(crate) fn take(state: &mut BrickState, told: &BrickTablet, is_fresh: bool) -> Result<(), Wrong> {
    let me = state.brick;
    let fresh = TabletState::of(told, me, told.epoch == 1 && is_fresh);
    let Some(known) = state.tablets.iter_mut().find(|known| known.range() == fresh.range()) else {
        state.tablets.push(fresh);
        return Ok(());
    };
    if known.epoch > told.epoch {
        return Ok(());
    }
    if known.epoch == told.epoch {
        let is_same = told.bricks.iter().all(|place| place.brick == me || known.is_shared_with(place.brick));
        return if is_same { Ok(()) } else { Err("two changes of a tablet have one epoch") };
    }
    // Between its epoch and the one in which it joined, others may have written without it.
    let has_part = known.epoch >= told.joined(me) || planted(Defect::QuorumJoinedVotes);
    *known = TabletState { votes: known.votes && has_part, ..fresh };
    Ok(())
}

/// Gives tablets up that other bricks have under a higher epoch.
pub(crate) fn give_up(state: &mut BrickState, given_up: &[GivenUp]) {
    let is_given_up = |tablet: &TabletState| {
        given_up.iter().any(|it| {
            it.table == tablet.table
                && it.first <= tablet.first
                && tablet.last <= it.last
                && tablet.epoch < it.epoch
        })
    };
    state.tablets.retain(|tablet| !is_given_up(tablet));
    let BrickState { tables, tablets, .. } = state;
    let is_gone = |table: &TableState| {
        given_up.iter().any(|it| it.table == table.table)
            && tablets.iter().all(|tablet| tablet.table != table.table)
    };
    tables.retain(|table| !is_gone(table));
}

/// Takes what a sibling tells of the tablets that it shares with this brick.
pub(crate) fn take_shared(state: &mut BrickState, from: ServerId, shared: &Shared) -> Result<(), Wrong> {
    for told in &shared.tablets {
        let has = |brick| told.bricks.iter().any(|place| place.brick == brick);
        if !has(from) || !has(state.brick) {
            continue;
        }
        let known = state
            .tablets
            .iter()
            .find(|known| (known.table, known.first, known.last) == (told.table, told.first, told.last));
        let is_news = match known {
            Some(known) => known.is_shared_with(from) && known.epoch < told.epoch,
            // What is not above the assignment that was taken may have been dropped since.
            None => told.epoch > state.taken && told.epoch > 1,
        };
        if is_news {
            let table = shared.tables.iter().find(|table| table.table == told.table);
            add_tables(state, table.map_or(&[], std::slice::from_ref))?;
            take(state, told, false)?;
        }
    }
    Ok(())
}
