//! A brick that holds nothing and is not heard any more: its record goes, on the operator's word.
//!
//! A brick that was replaced, or whose directory was wiped and is another brick since, leaves a record that nobody needs.
//! Its id is never given out again, so the brick is refused as unknown should it ever come back. Tablets that it had are
//! not told to it any more: its former siblings know that it has none (docs/protocols/quorum.md, rule 54).
//!
//! Invariant: a brick with a tablet of a table that is not dropped is never forgotten, nor is one that still gives such a
//! tablet to another brick. Until that one votes, the giving brick may be the only further copy.
//!
//! Not here: giving its tablets to another one (`replacing`). Protocol: docs/protocols/quorum.md, rule 78. Catalogue: I6.

use crate::bricks::Bricks;
use crate::desk::Desk;
use crate::progress::Progress;
use crate::records::{Key, QuorumTableRecord, UpdateResult};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, ServerId, Status, TableId};
use ramhold_wire::obstacle::{Obstacle, ObstacleKind};
use ramhold_wire::quorum::BrickForget;
use std::collections::BTreeSet;

/// The table of no obstacle in particular.
const NO_TABLE: TableId = TableId(0);

pub(crate) fn forget_brick(
    now: Instant,
    desk: &mut Desk,
    progress: &mut Progress,
    bricks: &mut Bricks,
    message: &BrickForget,
) -> Result<UpdateResult, Status> {
    let brick = message.brick;
    let kept = |kind, table| Ok(UpdateResult::BrickKept(Obstacle { kind, brick, table }));
    let Some(record) = desk.state.bricks.get(&brick) else {
        return kept(ObstacleKind::Unknown, NO_TABLE);
    };
    let address = record.address.0;
    if bricks.is_heard(now, brick) {
        return kept(ObstacleKind::NotLost, NO_TABLE);
    }
    let gives =
        |table: &QuorumTableRecord| table.is_given_by(brick) && !planted(Defect::QuorumGiverForgotten);
    let holds = |table: &&QuorumTableRecord| table.bricks().any(|other| other == brick) || gives(table);
    let held: Vec<&QuorumTableRecord> = desk.state.quorum_tables.values().filter(holds).collect();
    // A dropped table that waits for this brick alone is gone with it.
    let is_last = |table: &QuorumTableRecord| {
        let others: BTreeSet<ServerId> = table.concerned().filter(|other| *other != brick).collect();
        table.dropping && others.into_iter().all(|other| bricks.has_taken(other, table.version))
    };
    if let Some(table) = held.iter().find(|table| !is_last(table)) {
        let has_one = table.dropping || table.bricks().any(|other| other == brick);
        let kind = if has_one { ObstacleKind::HoldsTablets } else { ObstacleKind::GivesTablets };
        return kept(kind, table.id);
    }
    let gone: Vec<TableId> = held.into_iter().map(|table| table.id).collect();
    for table in gone {
        desk.state.quorum_tables.remove(&table);
        desk.outbox.touch(Key::QuorumTable(table));
        progress.undropped.remove(&table);
        desk.look_at_tablets();
    }
    for table in desk.state.quorum_tables.values_mut() {
        let former = table.tablets.iter_mut().map(|tablet| &mut tablet.former);
        if former.fold(false, |had, former| had | former.extract_if(.., |it| *it == brick).next().is_some()) {
            desk.outbox.touch(Key::QuorumTable(table.id));
        }
    }
    let before = crate::leading::told_bricks(&desk.state);
    desk.state.bricks.remove(&brick);
    desk.outbox.touch(Key::Brick(brick));
    desk.bricks_changed(before);
    bricks.forget(brick);
    desk.outbox.report(Level::Warn, format!("{brick} at {address} is forgotten: an operator said so"));
    Ok(UpdateResult::BrickReplaced(0))
}
