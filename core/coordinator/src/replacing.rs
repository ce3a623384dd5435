//! A brick that does not come back: another one takes its place in all its tablets, or its data is taken for lost.
//!
//! All tablets change in one commit. A hindrance is told as an obstacle, and nothing is changed then.
//!
//! Invariants:
//! - the epoch of a changed tablet is the version that its table takes, which was never given out before;
//! - a change is made only if the brick that joins can be rebuilt without a loss, unless the operator accepts one.
//!
//! Not here: the rebuilding (core/brick), who tells the bricks (`assignment`). Protocol: docs/protocols/quorum.md, rules 50
//! to 55. Catalogue: I6.

use crate::assignment::{reassign, tablets_by_brick};
use crate::bricks::Bricks;
use crate::desk::Desk;
use crate::losses;
use crate::records::{BrickRecord, GivingRecord, Key, QuorumTableRecord, QuorumTabletRecord, UpdateResult};
use crate::state::State;
use ramhold_base::limits::BRICK_TABLET_COUNT_MAX;
use ramhold_base::{Instant, Level, ServerId, Status, TableId};
use ramhold_placement::domain_of;
use ramhold_wire::obstacle::{Obstacle, ObstacleKind, ScalingEnd};
use ramhold_wire::quorum::{BrickReplace, Joined, QuorumOptions};

/// The table of no obstacle in particular.
const NO_TABLE: TableId = TableId(0);

pub(crate) fn replace_brick(
    now: Instant,
    desk: &mut Desk,
    bricks: &mut Bricks,
    message: &BrickReplace,
) -> Result<UpdateResult, Status> {
    if message.new == Some(message.old) {
        return Err(Status::BadRequest);
    }
    let held = held_by(&desk.state, message.old);
    if let Some(obstacle) = obstacle(now, &desk.state, bricks, message, &held) {
        return Ok(UpdateResult::BrickKept(obstacle));
    }
    file_losses(now, desk, bricks, message, &held);
    let mut changed = 0;
    for table in held {
        changed += change(desk, message, table);
    }
    forget_giver(desk, message);
    if let Some(new) = message.new {
        set_replaced(desk, message.old, true);
        set_replaced(desk, new, false);
        set_destroyed(desk, message.old, message.is_destroyed);
        set_destroyed(desk, new, false);
    }
    let text = match message.new {
        Some(new) => format!("{new} takes the place of {} in {changed} tablets", message.old),
        None => format!(
            "{} has lost its data: an operator said so; its {changed} tablets go on without it, and it is rebuilt when \
             it comes",
            message.old
        ),
    };
    desk.outbox.report(Level::Warn, text);
    (bricks.wake_at, bricks.scale_at) = (Instant::ZERO, Instant::ZERO);
    Ok(UpdateResult::BrickReplaced(changed))
}

fn set_replaced(desk: &mut Desk, brick: ServerId, is_replaced: bool) {
    if let Some(record) = desk.state.bricks.get_mut(&brick) {
        record.is_replaced = is_replaced;
        record.is_removed &= is_replaced;
        // A brick that is replaced has nothing to share any more.
        if is_replaced {
            record.end_order(ScalingEnd::Replaced);
        }
        desk.outbox.touch(Key::Brick(brick));
    }
}

fn set_destroyed(desk: &mut Desk, brick: ServerId, is_destroyed: bool) {
    if let Some(record) = desk.state.bricks.get_mut(&brick)
        && record.is_destroyed != is_destroyed
    {
        record.is_destroyed = is_destroyed;
        desk.outbox.touch(Key::Brick(brick));
    }
}

/// Reports what may be lost with the old brick, if an operator accepts that: the tables of which the others may not have
/// everything, and those of which it is the only brick.
fn file_losses(now: Instant, desk: &mut Desk, bricks: &Bricks, message: &BrickReplace, held: &[TableId]) {
    let strict = BrickReplace { accepts_loss: false, is_destroyed: true, ..*message };
    let crash = desk.time(now);
    for table in
        held.iter().filter_map(|table| desk.state.quorum_tables.get(table)).cloned().collect::<Vec<_>>()
    {
        let hindered = hindered(now, &desk.state, bricks, &strict, &table);
        let Some(obstacle) = hindered.filter(|_| message.accepts_loss) else { continue };
        let reason = match obstacle.kind {
            ObstacleKind::OnlyBrick => {
                "it was the only brick of some of its tablets, and is given up: all their keys are lost"
                    .to_owned()
            }
            _ => format!(
                "it is given up, and too few of the other bricks of its tablets have everything ({} among them): the newest \
                 of each key that is left counts",
                obstacle.brick
            ),
        };
        losses::file_brick_loss(desk, message.old, crash, (table.id, table.options.durability), reason);
    }
}

/// The tables of which a brick has tablets.
fn held_by(state: &State, brick: ServerId) -> Vec<TableId> {
    let live = state.quorum_tables.values().filter(|table| !table.dropping);
    live.filter(|table| table.bricks().any(|other| other == brick)).map(|table| table.id).collect()
}

/// Gives the tablets of a table that the old brick has other bricks. Returns their number.
fn change(desk: &mut Desk, message: &BrickReplace, id: TableId) -> u32 {
    let epoch = desk.state.meta.assignments + 1;
    let Some(table) = desk.state.quorum_tables.get_mut(&id) else { return 0 };
    let (old, new) = (message.old, message.new.unwrap_or(message.old));
    let mut count = 0;
    for tablet in table.tablets.iter_mut().filter(|tablet| tablet.bricks.contains(&old)) {
        tablet.epoch = epoch;
        tablet.bricks.iter_mut().filter(|brick| **brick == old).for_each(|brick| *brick = new);
        tablet.bricks.sort_unstable();
        tablet.joined.retain(|joined| joined.brick != old && joined.brick != new);
        tablet.joined.push(Joined { brick: new, epoch, is_lost: old == new });
        tablet.former.retain(|former| *former != new && *former != old);
        // Also one that is destroyed: should that be wrong, it is told to drop its tablets when it comes.
        if old != new {
            tablet.former.push(old);
        }
        keep_on_way(tablet, message);
        count += 1;
    }
    reassign(desk, id);
    count
}

/// A tablet that moves goes on moving, to the new brick if that takes the place of the one that was to get it.
fn keep_on_way(tablet: &mut QuorumTabletRecord, message: &BrickReplace) {
    let (Some(giving), Some(new)) = (tablet.giving, message.new) else { return };
    let GivingRecord { old: from, new: to, .. } = giving;
    if message.old == to && new != from {
        tablet.giving = Some(GivingRecord::begin(from, new));
    } else if new == from {
        tablet.giving = None;
    }
}

/// A brick that does not come back gives nothing away any more: nobody waits for what it has.
fn forget_giver(desk: &mut Desk, message: &BrickReplace) {
    let gives = |tablet: &QuorumTabletRecord| tablet.giving.is_some_and(|giving| giving.old == message.old);
    let live = desk.state.quorum_tables.values().filter(|table| !table.dropping);
    let given: Vec<TableId> =
        live.filter(|table| table.tablets.iter().any(gives)).map(|table| table.id).collect();
    for id in given {
        let Some(table) = desk.state.quorum_tables.get_mut(&id) else { continue };
        for tablet in table.tablets.iter_mut().filter(|tablet| gives(tablet)) {
            tablet.giving = None;
            tablet.former.push(message.old);
        }
        reassign(desk, id);
    }
}

/// The obstacle to a replacement.
fn obstacle(
    now: Instant,
    state: &State,
    bricks: &Bricks,
    message: &BrickReplace,
    held: &[TableId],
) -> Option<Obstacle> {
    let about = |kind, brick, table| Some(Obstacle { kind, brick, table });
    let BrickReplace { old, new, .. } = *message;
    let Some(record) = state.bricks.get(&old) else {
        return about(ObstacleKind::Unknown, old, NO_TABLE);
    };
    // Perhaps old and new are swapped: the old one would never be given anything again.
    if new.is_some() && held.is_empty() && bricks.is_heard(now, old) && !record.is_replaced {
        return about(ObstacleKind::NotLost, old, NO_TABLE);
    }
    match new {
        Some(new) => match state.bricks.get(&new) {
            None => return about(ObstacleKind::Unknown, new, NO_TABLE),
            Some(_) if !bricks.is_heard(now, new) => return about(ObstacleKind::NotHeard, new, NO_TABLE),
            Some(record) => {
                if let Some(obstacle) = misfit(state, bricks, (old, record), held) {
                    return Some(obstacle);
                }
            }
        },
        None if bricks.is_heard(now, old) => return about(ObstacleKind::NotLost, old, NO_TABLE),
        None => {}
    }
    let mut tables = held.iter().filter_map(|table| state.quorum_tables.get(table));
    tables.find_map(|table| hindered(now, state, bricks, message, table))
}

/// The obstacle in one table: too few others have what the old brick has.
fn hindered(
    now: Instant,
    state: &State,
    bricks: &Bricks,
    message: &BrickReplace,
    table: &QuorumTableRecord,
) -> Option<Obstacle> {
    let about = |kind, brick| Some(Obstacle { kind, brick, table: table.id });
    let BrickReplace { old, new, is_destroyed, accepts_loss } = *message;
    let (needed, may_be_read) = needed(table.quorum());
    if may_be_read && !is_destroyed {
        return about(ObstacleKind::MayBeRead, old);
    }
    if table.quorum().bricks == 1 && (new.is_none() || !accepts_loss) {
        return about(ObstacleKind::OnlyBrick, old);
    }
    for tablet in tablets_of(table, old).filter(|_| !accepts_loss) {
        let others = tablet.bricks.iter().copied().filter(|brick| *brick != old);
        let hindered = others.filter_map(|brick| Some((hindrance(now, state, bricks, brick)?, brick)));
        let hindered: Vec<(ObstacleKind, ServerId)> = hindered.collect();
        let is_short = tablet.bricks.len() - 1 - hindered.len() < needed;
        // One that has joined and may not have voted yet was never in the epoch before.
        let has_joined = |brick: ServerId| tablet.joined.iter().any(|joined| joined.brick == brick);
        let mut hindering = hindered.iter().filter(|(_, brick)| is_short || has_joined(*brick));
        if let Some((kind, brick)) = hindering.next() {
            return about(*kind, *brick);
        }
    }
    None
}

fn tablets_of(table: &QuorumTableRecord, brick: ServerId) -> impl Iterator<Item = &QuorumTabletRecord> {
    table.tablets.iter().filter(move |tablet| tablet.bricks.contains(&brick))
}

/// The reason why another brick of a tablet may not be able to tell what it has.
pub(crate) fn hindrance(
    now: Instant,
    state: &State,
    bricks: &Bricks,
    brick: ServerId,
) -> Option<ObstacleKind> {
    match bricks.heard(brick) {
        Some(heard) if bricks.is_heard(now, brick) => {
            // One that has not taken its tablets yet does not tell that it lacks them.
            let assigned = state.bricks.get(&brick).map_or(0, |record| record.assigned);
            let is_behind = heard.taken < assigned;
            (heard.rebuilding > 0 || is_behind).then_some(ObstacleKind::Rebuilding)
        }
        _ => Some(ObstacleKind::Silent),
    }
}

/// How many others must vote, and whether the old brick alone is a quorum that may be read (rule 51).
fn needed(quorum: QuorumOptions) -> (usize, bool) {
    let others = usize::from(quorum.bricks) - 1;
    let (write, read) = (usize::from(quorum.write), usize::from(quorum.read));
    let witnesses = others + 2 - write.min(read);
    (read.max(witnesses).min(others), witnesses > others)
}

/// The reason why the new brick cannot take the old one's place.
fn misfit(
    state: &State,
    bricks: &Bricks,
    (old, new): (ServerId, &BrickRecord),
    held: &[TableId],
) -> Option<Obstacle> {
    let mut count = tablets_by_brick(state).get(&new.id).copied().unwrap_or(0);
    for table in held.iter().filter_map(|table| state.quorum_tables.get(table)) {
        for tablet in tablets_of(table, old) {
            count += 1;
            let about = |kind, brick| Some(Obstacle { kind, brick, table: table.id });
            if tablet.bricks.contains(&new.id) {
                return about(ObstacleKind::HasTablet, new.id);
            }
            let shares = |brick: &&ServerId| {
                let record = state.bricks.get(*brick).filter(|record| record.id != old);
                record.is_some_and(|record| {
                    domain_of(record.id, &record.labels) == domain_of(new.id, &new.labels)
                })
            };
            if let Some(brick) = tablet.bricks.iter().find(shares) {
                return about(ObstacleKind::SameDomain, *brick);
            }
        }
    }
    let used = |brick| bricks.heard(brick).map_or(0, |heard| heard.used_bytes);
    let about = |kind| Some(Obstacle { kind, brick: new.id, table: NO_TABLE });
    if count > BRICK_TABLET_COUNT_MAX {
        return about(ObstacleKind::TooManyTablets);
    }
    if new.log_bytes.saturating_sub(used(new.id)) < used(old) {
        return about(ObstacleKind::TooSmall);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_wire::quorum::WriteProtocol;

    // I6
    #[test]
    fn so_many_others_must_vote() {
        let of = |bricks, write, read| {
            needed(QuorumOptions { bricks, write, read, protocol: WriteProtocol::Adaptive })
        };
        assert_eq!(of(3, 2, 2), (2, false));
        assert_eq!(of(3, 3, 1), (2, true), "the old one alone may be read");
        assert_eq!(of(3, 2, 3), (2, false));
        assert_eq!(of(5, 3, 3), (3, false));
        assert_eq!(of(5, 4, 2), (4, false), "no quorum of two is left in the epoch before");
        assert_eq!(of(1, 1, 1), (0, true));
    }
}
