//! Orders that are taken back, and the tablets that are called back because of that.
//!
//! A tablet that moves does not say for which order. It moves because of the order to add the brick that takes it, or else
//! because of the one to remove the brick that gives it. So an order that is taken back leaves alone what moves for another
//! one.
//!
//! Invariant: a tablet is called back only with the order that it moves for, or when there is none.
//!
//! Not here: whether and when a tablet that is called back goes back (`scaling`). Protocol: docs/protocols/quorum.md, rules
//! 56 and 85. Catalogue: I7.

use crate::bricks::Bricks;
use crate::desk::Desk;
use crate::records::{GivingRecord, Key, QuorumTabletRecord};
use crate::state::State;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, Level, ServerId, TableId};
use ramhold_wire::obstacle::{ScaleWay, ScalingEnd};

/// Takes an order back, and calls back what moves because of it. Returns the number of tablets that are called back.
pub(crate) fn cancel(desk: &mut Desk, bricks: &mut Bricks, brick: ServerId) -> u32 {
    let scaling = desk.state.bricks.get(&brick).and_then(|record| record.scaling);
    let is_meant = |giving: &GivingRecord| match cause(&desk.state, giving) {
        Some(cause) => cause == brick,
        None => giving.is_of(brick) && scaling.is_none(),
    };
    let mut moves = moving(&desk.state);
    moves.retain(|(.., giving)| is_meant(giving));
    for (table, first, giving) in &moves {
        call_back(desk, *table, *first);
        if scaling.is_none() {
            keep_out(desk, giving.new);
        }
    }
    if scaling.is_some_and(|scaling| scaling.way == ScaleWay::Adding) {
        keep_out(desk, brick);
    }
    let called = u32::try_from(moves.len()).unwrap_or(u32::MAX);
    forget_order(desk, bricks, brick, ScalingEnd::Cancelled);
    bricks.scale_at = Instant::ZERO;
    let then = if called > 0 { "; the tablet on its way goes back, unless it arrives first" } else { "" };
    let text = format!(
        "event: an operator takes back the order to add or remove {brick}; no further tablet moves{then}"
    );
    desk.outbox.report(Level::Info, text);
    called
}

fn call_back(desk: &mut Desk, table: TableId, first: KeyHash) {
    let Some(record) = desk.state.quorum_tables.get_mut(&table) else { return };
    let tablet = record.tablets.iter_mut().find(|tablet| tablet.first == first);
    let giving = tablet.and_then(|tablet| tablet.giving.as_mut());
    if let Some(giving) = giving.filter(|_| !planted(Defect::ScalingCancelLeavesMove)) {
        giving.is_called_back = true;
        desk.outbox.touch(Key::QuorumTable(table));
    }
}

/// A brick that gets no share now, because an operator says so, would get one by itself again at once.
fn keep_out(desk: &mut Desk, brick: ServerId) {
    let live = desk.state.quorum_tables.values().filter(|table| !table.dropping);
    let stays = |tablet: &QuorumTabletRecord| {
        let goes_back = tablet.giving.is_some_and(|giving| giving.new == brick && giving.is_called_back);
        tablet.bricks.contains(&brick) && !goes_back
    };
    // One that holds something gets nothing by itself.
    let is_free = !live.flat_map(|table| &table.tablets).any(stays);
    let is_auto = desk.config.auto_scale;
    if let Some(record) = desk.state.bricks.get_mut(&brick).filter(|_| is_auto && is_free) {
        record.is_removed = true;
        desk.outbox.touch(Key::Brick(brick));
    }
}

pub(crate) fn forget_order(desk: &mut Desk, bricks: &mut Bricks, brick: ServerId, end: ScalingEnd) {
    bricks.waits.remove(&brick);
    if let Some(record) = desk.state.bricks.get_mut(&brick)
        && record.end_order(end)
    {
        desk.outbox.touch(Key::Brick(brick));
    }
}

/// The tablets that are on their way.
pub(crate) fn moving(state: &State) -> Vec<(TableId, KeyHash, GivingRecord)> {
    let live = state.quorum_tables.values().filter(|table| !table.dropping);
    let tablets = live.flat_map(|table| table.tablets.iter().map(move |tablet| (table.id, tablet)));
    tablets.filter_map(|(table, tablet)| Some((table, tablet.first, tablet.giving?))).collect()
}

/// The brick because of whose order a tablet moves: the one that takes it, if it is added, else the one that gives it, if
/// it is removed. The order may be gone, with a brick that was replaced.
fn cause(state: &State, giving: &GivingRecord) -> Option<ServerId> {
    let has = |brick: &ServerId, way| {
        let scaling = state.bricks.get(brick).and_then(|record| record.scaling);
        scaling.is_some_and(|scaling| scaling.way == way)
    };
    let added = Some(giving.new).filter(|new| has(new, ScaleWay::Adding));
    added.or_else(|| Some(giving.old).filter(|old| has(old, ScaleWay::Removing)))
}

/// Whether a tablet moves from or to this brick, and neither of the two has an order that would end it.
pub(crate) fn is_left_on_its_way(state: &State, brick: ServerId) -> bool {
    moving(state).iter().any(|(.., giving)| giving.is_of(brick) && cause(state, giving).is_none())
}
