//! How far bricks are with their assignments, and which tables are made or dropped because of that.
//!
//! A new table is served when so many bricks of each tablet have it on their devices that puts and gets find their
//! quorums. A dropped table is over for its client when every brick that was heard lately has taken that, and its record
//! goes when all its bricks have. Bricks take what they are assigned when they ask for it (`bricks`), so nothing is sent
//! here. Both sets of tables are made anew at a start of the coordinator.
//!
//! Catalogue: I1, A1.

use crate::bricks::{BRICK_SILENCE, Bricks};
use crate::desk::Desk;
use crate::progress::Progress;
use crate::records::{Key, QuorumTableRecord};
use ramhold_base::{Instant, Level, ServerId, TableId};
use std::collections::BTreeSet;

impl Bricks {
    /// A coordinator that starts does not know how far bricks are: it looks at every table once more.
    pub fn resume(&mut self, desk: &Desk, progress: &mut Progress) {
        for table in desk.state.quorum_tables.values() {
            let set = if table.dropping { &mut progress.undropped } else { &mut progress.untaken };
            set.insert(table.id);
            self.wake_at = Instant::ZERO;
            self.scale_at = Instant::ZERO;
        }
    }

    pub fn advance(&mut self, now: Instant, desk: &mut Desk, progress: &mut Progress) {
        if self.wake_at > now {
            return;
        }
        self.wake_at = Instant::FAR;
        let untaken: Vec<TableId> = progress.untaken.iter().copied().collect();
        for id in untaken {
            let table = desk.state.quorum_tables.get(&id);
            if table.is_none_or(|table| self.is_served(table)) {
                progress.untaken.remove(&id);
                desk.outbox.report(Level::Info, format!("quorum table {id} is served"));
                desk.look_at_tablets();
            }
        }
        self.forget_former(desk);
        let dropping = desk.state.quorum_tables.values().filter(|table| table.dropping);
        let dropping: Vec<TableId> = dropping.map(|table| table.id).collect();
        for id in dropping {
            self.advance_drop(now, desk, progress, id);
        }
    }

    /// Whether enough bricks of each tablet have it, for a put and for a get.
    fn is_served(&self, table: &QuorumTableRecord) -> bool {
        let quorum = table.quorum();
        let enough = usize::from(quorum.write.max(quorum.read));
        let has = |brick: &&ServerId| self.has_taken(**brick, table.version);
        table.tablets.iter().all(|tablet| tablet.bricks.iter().filter(has).count() >= enough)
    }

    /// Bricks that have taken what they gave up need not be told any more, and those that were taken for lost and vote
    /// again are not lost.
    fn forget_former(&self, desk: &mut Desk) {
        for table in desk.state.quorum_tables.values_mut().filter(|table| !table.dropping) {
            let version = table.version;
            let mut has_changed = false;
            for tablet in &mut table.tablets {
                let before = tablet.former.len();
                tablet.former.retain(|brick| !self.has_taken(*brick, version));
                has_changed |= tablet.former.len() < before;
                let is_back = |brick| {
                    self.has_taken(brick, version) && self.heard(brick).is_some_and(|it| it.rebuilding == 0)
                };
                for joined in
                    tablet.joined.iter_mut().filter(|joined| joined.is_lost && is_back(joined.brick))
                {
                    joined.is_lost = false;
                    has_changed = true;
                }
            }
            if has_changed {
                desk.outbox.touch(Key::QuorumTable(table.id));
            }
        }
    }

    fn advance_drop(&mut self, now: Instant, desk: &mut Desk, progress: &mut Progress, id: TableId) {
        let Some(table) = desk.state.quorum_tables.get(&id) else { return };
        // A brick that was replaced, and is destroyed, may never come.
        let is_awaited = |brick: &ServerId| {
            let is_destroyed = desk.state.bricks.get(brick).is_some_and(|record| record.is_destroyed);
            !is_destroyed || self.is_heard(now, *brick) || table.bricks().any(|other| other == *brick)
        };
        let bricks: BTreeSet<ServerId> = table.concerned().filter(is_awaited).collect();
        let mut lagging =
            bricks.into_iter().filter(|brick| !self.has_taken(*brick, table.version)).peekable();
        if lagging.peek().is_none() {
            let text = format!("quorum table {id} '{}' is gone", table.name.escape_debug());
            desk.outbox.report(Level::Info, text);
            desk.state.quorum_tables.remove(&id);
            desk.outbox.touch(Key::QuorumTable(id));
            progress.undropped.remove(&id);
            desk.look_at_tablets();
            return;
        }
        if !progress.undropped.contains(&id) {
            return;
        }
        // A brick that lives may not have been heard yet by a coordinator that has just started.
        let silent_at = |brick| {
            let heard = self.heard(brick).map_or(desk.started, |heard| heard.at);
            heard.max(desk.started) + BRICK_SILENCE
        };
        match lagging.map(silent_at).filter(|at| *at > now).max() {
            Some(at) => self.wake_at = self.wake_at.min(at),
            None => {
                progress.undropped.remove(&id);
                desk.look_at_tablets();
            }
        }
    }
}
