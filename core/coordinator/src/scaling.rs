//! Bricks are added to quorum tables and removed from them, one step at a time.
//!
//! An order is a note in its brick's record. The order says what is wanted, and the tablets say what is reached. The next
//! step is decided anew from both (`shares`), so a coordinator that dies goes on where it was. One tablet moves at a time
//! in the whole cluster. Orders are carried out by their numbers; one that waits lets the next one go first.
//!
//! Invariants:
//! - a step begins only when all bricks of its tablet are heard, have taken what they are assigned, and vote;
//! - what moves has arrived when the brick that takes it votes, and goes back when that one was silent for `GIVEN_UP_AFTER`
//!   or an operator has called it back, and nothing would be lost.
//!
//! Not here: the commits (`moving`), orders that are taken back (`calling_back`). Protocol: docs/protocols/quorum.md, rules 56 to 63 and 85. Catalogue: I7.

use crate::bricks::Bricks;
use crate::calling_back::{cancel, forget_order, is_left_on_its_way, moving};
use crate::desk::Desk;
use crate::loads::{has_spare, shares};
use crate::moving::{arrive, go_back, take_step};
use crate::quorum_tables::is_too_early;
use crate::records::{GivingRecord, Key, UpdateResult};
use crate::replacing::hindrance;
use crate::shares::{Next, Step};
use crate::stalls::Reached;
use crate::state::State;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, Level, ServerId, TableId};
use ramhold_wire::obstacle::{Obstacle, ObstacleKind, ScaleWay, Scaling, ScalingEnd};
use ramhold_wire::quorum::{BrickScale, ScaleOrder};
use std::cmp::Reverse;
use std::time::Duration;

/// The pause between two looks at what is under way.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// A brick to which a tablet moves, and which is silent for so long, gets it no more. A supervisor restarts it sooner.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(15);
/// The table of no obstacle in particular.
const NO_TABLE: TableId = TableId(0);

/// Notes an order, or takes one back.
pub(crate) fn order(
    now: Instant,
    desk: &mut Desk,
    bricks: &mut Bricks,
    message: &BrickScale,
) -> UpdateResult {
    let BrickScale { brick, order, table } = *message;
    if let Some(obstacle) = obstacle(now, &desk.state, bricks, message) {
        return UpdateResult::BrickUnscaled(obstacle);
    }
    let way = match order {
        ScaleOrder::Add => ScaleWay::Adding,
        ScaleOrder::Remove => ScaleWay::Removing,
        ScaleOrder::Cancel => return UpdateResult::BrickScaled(cancel(desk, bricks, brick)),
    };
    let before = desk.state.bricks.values().filter(|record| record.scaling.is_some()).count();
    note_order(desk, bricks, brick, (way, table, false));
    UpdateResult::BrickScaled(u32::try_from(before).unwrap_or(u32::MAX))
}

fn note_order(
    desk: &mut Desk,
    bricks: &mut Bricks,
    brick: ServerId,
    (way, table, is_auto): (ScaleWay, Option<TableId>, bool),
) {
    let numbers = desk.state.bricks.values().filter_map(|record| record.scaling).map(|it| it.number);
    let number = numbers.max().unwrap_or(0) + 1;
    let Some(record) = desk.state.bricks.get_mut(&brick) else { return };
    record.scaling = Some(Scaling { number, way, table, moved: 0, is_auto });
    record.ended = None;
    record.is_removed &= way == ScaleWay::Removing;
    record.is_replaced &= way == ScaleWay::Removing;
    desk.outbox.touch(Key::Brick(brick));
    let who = if is_auto { "it holds nothing; the coordinator, --auto-scale" } else { "an operator's order" };
    let what = match way {
        ScaleWay::Adding => "gets a share of the quorum tables",
        ScaleWay::Removing => "gives its tablets to other bricks",
    };
    desk.outbox.report(Level::Info, format!("event: {brick}: {who}; {brick} {what}"));
    bricks.scale_at = Instant::ZERO;
}

/// Why an order is refused.
fn obstacle(now: Instant, state: &State, bricks: &Bricks, message: &BrickScale) -> Option<Obstacle> {
    let BrickScale { brick, order, table } = *message;
    let about = |kind, table| Some(Obstacle { kind, brick, table });
    let Some(record) = state.bricks.get(&brick) else { return about(ObstacleKind::Unknown, NO_TABLE) };
    match (order, record.scaling) {
        // A tablet may be on its way of which the order is gone.
        (ScaleOrder::Cancel, None) if is_left_on_its_way(state, brick) => return None,
        (ScaleOrder::Cancel, None) => return about(ObstacleKind::NotOrdered, NO_TABLE),
        (ScaleOrder::Cancel, Some(_)) => return None,
        (ScaleOrder::Add | ScaleOrder::Remove, Some(_)) => return about(ObstacleKind::Ordered, NO_TABLE),
        (ScaleOrder::Add | ScaleOrder::Remove, None) => {}
    }
    let shares = shares(now, state, bricks);
    match order {
        ScaleOrder::Remove => shares.needed(brick),
        ScaleOrder::Add => {
            let named = table.filter(|table| !state.has_quorum_table(*table));
            if named.is_some() || shares.tablets.is_empty() {
                return about(ObstacleKind::NoTable, table.unwrap_or(NO_TABLE));
            }
            if !bricks.is_heard(now, brick) {
                return about(ObstacleKind::NotHeard, NO_TABLE);
            }
            match shares.adding(brick, table) {
                Next::Hindered(obstacle) => Some(obstacle),
                Next::Step(_) | Next::Done => None,
            }
        }
        ScaleOrder::Cancel => None,
    }
}

/// Takes the next step that is due, if there is one.
pub(crate) fn advance(now: Instant, desk: &mut Desk, bricks: &mut Bricks) {
    if bricks.scale_at > now {
        return;
    }
    let is_auto = desk.config.auto_scale && !desk.state.bricks.is_empty();
    let has_orders = desk.state.bricks.values().any(|record| record.scaling.is_some());
    let moving = moving(&desk.state);
    if !is_auto && !has_orders && moving.is_empty() {
        bricks.scale_at = Instant::FAR;
        return;
    }
    bricks.scale_at = now + LOOK_INTERVAL;
    // Loads, lives and votes come with the first hellos.
    if is_too_early(now, desk, bricks) {
        return;
    }
    if is_auto {
        add_free(now, desk, bricks);
    }
    bricks.moves.keep(|place| moving.iter().any(|(table, first, _)| (*table, *first) == place));
    for (table, first, giving) in &moving {
        settle(now, desk, bricks, (*table, *first), *giving);
    }
    if !moving.is_empty() {
        return;
    }
    for (brick, scaling) in orders(&desk.state) {
        let shares = shares(now, &desk.state, bricks);
        let next = match scaling.way {
            ScaleWay::Adding => shares.adding(brick, scaling.table),
            ScaleWay::Removing => shares.removing(brick),
        };
        match next {
            Next::Done => return end(desk, bricks, brick, scaling),
            Next::Hindered(obstacle) => _ = bricks.waits.insert(brick, obstacle),
            Next::Step(step) => match guard(now, &desk.state, bricks, step) {
                Some(obstacle) => _ = bricks.waits.insert(brick, obstacle),
                None => return begin(desk, bricks, brick, step),
            },
        }
    }
}

/// The orders in their turn.
fn orders(state: &State) -> Vec<(ServerId, Scaling)> {
    let noted = state.bricks.values().filter_map(|record| Some((record.id, record.scaling?)));
    let mut noted: Vec<_> = noted.collect();
    noted.sort_unstable_by_key(|(_, scaling)| scaling.number);
    noted
}

/// Whom a step waits for.
fn guard(now: Instant, state: &State, bricks: &Bricks, step: Step) -> Option<Obstacle> {
    let (table, from, count, new) = match step {
        Step::Cut { table, first } => (table, first, 1, None),
        Step::Move { table, first, new, .. } => (table, first, 1, Some(new)),
        Step::Join { table, first } => (table, first, 2, None),
    };
    let tablets = state.quorum_tables.get(&table)?.tablets.iter();
    let concerned = tablets.skip_while(|tablet| tablet.first != from).take(count);
    let mut all = concerned.flat_map(|tablet| tablet.bricks.iter().copied()).chain(new);
    all.find_map(|brick| {
        let kind = seen_hindrance(now, state, bricks, brick)?;
        Some(Obstacle { kind, brick, table })
    })
}

/// Why a brick does not vote in everything that it is assigned.
fn seen_hindrance(now: Instant, state: &State, bricks: &Bricks, brick: ServerId) -> Option<ObstacleKind> {
    match hindrance(now, state, bricks, brick) {
        Some(ObstacleKind::Rebuilding) if planted(Defect::ScalingUnguarded) => None,
        kind => kind,
    }
}

fn begin(desk: &mut Desk, bricks: &mut Bricks, brick: ServerId, step: Step) {
    if !take_step(desk, step) {
        return;
    }
    bricks.waits.remove(&brick);
    bricks.wake_at = Instant::ZERO;
    let text = match step {
        Step::Cut { table, first } => {
            format!(
                "event: {brick} is added; {table} from {first:?} is cut into two halves, at the same bricks"
            )
        }
        Step::Move { table, first, old, new } => {
            let why = if new == brick { "is added" } else { "is removed" };
            format!("event: {brick} {why}; {table} from {first:?} moves from {old} to {new}")
        }
        Step::Join { table, first } => {
            format!("event: {brick} is removed; {table} from {first:?} is joined with its other half")
        }
    };
    desk.outbox.report(Level::Info, text);
}

/// An order is carried out.
fn end(desk: &mut Desk, bricks: &mut Bricks, brick: ServerId, scaling: Scaling) {
    forget_order(desk, bricks, brick, ScalingEnd::Done);
    if let Some(record) = desk.state.bricks.get_mut(&brick) {
        record.is_removed = scaling.way == ScaleWay::Removing;
    }
    let moved = scaling.moved;
    let text = match scaling.way {
        ScaleWay::Adding => format!("event: {brick} has its share, {moved} tablets have moved; it is added"),
        ScaleWay::Removing => {
            format!(
                "event: {brick} holds nothing any more, {moved} tablets have moved; it is removed, and may be stopped"
            )
        }
    };
    desk.outbox.report(Level::Info, text);
}

/// A tablet on its way arrives, goes back, or is waited for.
fn settle(
    now: Instant,
    desk: &mut Desk,
    bricks: &mut Bricks,
    (table, first): (TableId, KeyHash),
    giving: GivingRecord,
) {
    let GivingRecord { old, new, is_called_back } = giving;
    let Some(kind) = seen_hindrance(now, &desk.state, bricks, new) else {
        arrive(desk, table, first);
        for (brick, way) in [(new, ScaleWay::Adding), (old, ScaleWay::Removing)] {
            if let Some(record) = desk.state.bricks.get_mut(&brick)
                && let Some(scaling) = record.scaling.as_mut().filter(|it| it.way == way)
            {
                scaling.moved += 1;
                desk.outbox.touch(Key::Brick(brick));
            }
        }
        if let Some(record) = desk.state.bricks.get_mut(&new).filter(|record| record.is_removed) {
            // It votes although its order was taken back.
            record.is_removed = false;
            desk.outbox.touch(Key::Brick(new));
        }
        bricks.wake_at = Instant::ZERO;
        let text = format!("event: {new} votes in {table} from {first:?}; {old} is told to drop its part");
        return desk.outbox.report(Level::Info, text);
    };
    let reached = reached(&desk.state, bricks, new);
    let kind = match bricks.moves.note(now, (table, first), new, reached) {
        true if kind == ObstacleKind::Rebuilding && !planted(Defect::ScalingStallUntold) => {
            ObstacleKind::Stalled
        }
        _ => kind,
    };
    for brick in [new, old] {
        if desk.state.bricks.get(&brick).is_some_and(|record| record.scaling.is_some()) {
            bricks.waits.insert(brick, Obstacle { kind, brick: new, table });
        }
    }
    let heard_at = bricks.heard(new).map_or(desk.started, |heard| heard.at);
    if !is_called_back && now < heard_at.max(desk.started) + GIVEN_UP_AFTER {
        return;
    }
    let Some(record) = desk.state.quorum_tables.get(&table) else { return };
    let tablet = record.tablets.iter().find(|tablet| tablet.first == first);
    let others = tablet.into_iter().flat_map(|tablet| &tablet.bricks).filter(|brick| **brick != new);
    // The one that gave it may have forgotten something since: it is rebuilt all the same.
    let is_hindered = others.copied().any(|brick| seen_hindrance(now, &desk.state, bricks, brick).is_some());
    if (is_hindered && !planted(Defect::ScalingBackUnguarded)) || !bricks.is_heard(now, old) {
        return;
    }
    go_back(desk, table, first);
    bricks.wake_at = Instant::ZERO;
    if is_called_back {
        let text = format!(
            "event: an operator has called {table} from {first:?} back from {new}, which does not vote there; {old} takes \
             the tablet again"
        );
        return desk.outbox.report(Level::Warn, text);
    }
    let was_added = desk.state.bricks.get(&new).and_then(|record| record.scaling);
    if was_added.is_some_and(|scaling| scaling.way == ScaleWay::Adding) {
        forget_order(desk, bricks, new, ScalingEnd::Silent);
    }
    let text = format!(
        "event: {new} was silent for {} s before it voted in {table} from {first:?}; {old} takes the tablet again, and \
         {new} is added no more",
        GIVEN_UP_AFTER.as_secs()
    );
    desk.outbox.report(Level::Warn, text);
}

/// How far a brick is with what it is assigned.
fn reached(state: &State, bricks: &Bricks, brick: ServerId) -> Reached {
    let assigned = state.bricks.get(&brick)?.assigned;
    let heard = bricks.heard(brick).filter(|heard| heard.taken >= assigned)?;
    Some((Reverse(heard.rebuilding), heard.rebuilt))
}

/// Bricks that are heard and hold nothing get a share by themselves.
fn add_free(now: Instant, desk: &mut Desk, bricks: &mut Bricks) {
    let state = &desk.state;
    if !state.quorum_tables.values().any(|table| !table.dropping && has_spare(table)) {
        return;
    }
    let is_held =
        |brick| state.quorum_tables.values().any(|table| table.concerned().any(|other| other == brick));
    let free = state.bricks.values().filter(|record| record.takes_tablets() && record.scaling.is_none());
    let free = free.filter(|record| bricks.is_heard(now, record.id) && !is_held(record.id));
    let free: Vec<ServerId> = free.map(|record| record.id).collect();
    for brick in free {
        if matches!(shares(now, &desk.state, bricks).adding(brick, None), Next::Step(_)) {
            note_order(desk, bricks, brick, (ScaleWay::Adding, None, true));
        }
    }
}
