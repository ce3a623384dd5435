//! Cutting and joining tablets where they are, when an operator asks for it.
//!
//! The new division is stored under a higher number. Then each owner is told its tablets until it has answered. Nothing
//! depends on when an owner hears of the division: every key keeps its owner. The client is answered when each owner
//! has answered or is dead. The servers that recover a dead owner's tablets get them as they are stored. A new
//! coordinator does not know which owners have heard, so it tells all of them.
//!
//! Not here: how pieces are cut (`pieces`), what they weigh (`weighing`), the cutting for a recovery (`divide`).
//! Protocol: docs/protocols/tablets.md. Catalogue: A8, B3, G3.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::pieces::{Pieces, tablets, whole};
use crate::progress::{Progress, Telling};
use crate::reclassing;
use crate::records::{Key, TableRecord, TabletRecord, UpdateResult};
use crate::retry::Retry;
use ramhold_base::limits::TABLET_COUNT_MAX;
use ramhold_base::{DivisionId, Instant, KeyHash, Level, Mark, ServerId, Status, TableId};
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::TabletStat;
use ramhold_wire::table::{Division, HashSpan, TableDivide, TabletDivide};
use std::collections::BTreeSet;

/// The bytes of a tablet's statistics in a head (docs/formats/log.md), and the share of a head that all of them may
/// fill.
const STAT_BYTES: u32 = 36;
const STATS_SHARE: u32 = 8;

/// `weights`: where the table's bytes lie, as far as its owners have told; only a cut into equal parts asks for them.
pub(crate) fn divide_table(
    desk: &mut Desk,
    progress: &mut Progress,
    message: &TableDivide,
    weights: &[TabletStat],
) -> Result<UpdateResult, Status> {
    if desk.state.has_quorum_table(message.table) {
        return Err(Status::Unsupported);
    }
    let table = desk.state.tables.get(&message.table).filter(|t| !t.dropping);
    let table = table.ok_or(Status::UnknownTable)?;
    if !concerned(&table.tablets, message.division).all(|t| t.taken && desk.state.is_up(t.owner)) {
        // This refusal is final for its sequence: the client goes on under another one.
        return Err(Status::Retry);
    }
    if reclassing::is_reclassing(&desk.state, table) {
        // The update is refused until each of the table's tablets is in one stream.
        return Err(Status::Retry);
    }
    let unreplicated = table.options.durability == Durability::None;
    let mut pieces = Pieces::new(&table.tablets, table.options.slots, unreplicated);
    match message.division {
        Division::Parts { count } if count == 0 || count > TABLET_COUNT_MAX => {
            return Err(Status::BadRequest);
        }
        Division::Parts { count } => {
            if table.whole_tablets().count() as u64 * u64::from(count) > u64::from(TABLET_COUNT_MAX) {
                return Err(Status::TooManyTablets);
            }
            pieces.split_each(count, weights)?;
        }
        Division::Split { at } => pieces.split(at)?,
        Division::Join { at: Some(at) } => pieces.join(at)?,
        Division::Join { at: None } => pieces.join_all(),
    }
    let changed = owners_of_changed(&table.tablets, &pieces);
    let (count_before, division) = (table.tablets.len(), table.division);
    if changed.iter().any(|owner| has_too_many(desk, table, &pieces, *owner)) {
        return Err(Status::TooManyTablets);
    }
    let now = pieces.into_inner();
    if now.len() > count_before && now.len() > TABLET_COUNT_MAX as usize {
        return Err(Status::TooManyTablets);
    }
    let count = u32::try_from(tablets(&now).count()).expect("bounded above, or not more than before");
    if now == table.tablets {
        return Ok(UpdateResult::TableDivided(message.table, division, count));
    }
    let division = division.next();
    let record = desk.state.tables.get_mut(&message.table).expect("found above");
    (record.tablets, record.division) = (now, division);
    let text = format!("table {} '{}' has {count} tablets now", record.id, record.name.escape_debug());
    let has_two_positions = tablets(&record.tablets).any(|tablet| tablet.len() > 1);
    desk.outbox.report(Level::Info, text);
    desk.outbox.mark(Mark::TableDivided);
    if has_two_positions {
        desk.outbox.mark(Mark::TabletOfPieces);
    }
    desk.outbox.touch(Key::Table(message.table));
    progress.want_told(desk, message.table, changed);
    Ok(UpdateResult::TableDivided(message.table, division, count))
}

/// Whether this owner would have more tablets than before, and more than its heads have room for.
fn has_too_many(desk: &Desk, table: &TableRecord, after: &Pieces, owner: ServerId) -> bool {
    let before = table.whole_tablets().filter(|t| t.owner == owner).count();
    let more = after.of(owner).saturating_sub(before) as u64;
    let present = desk.state.tablets_by_master().get(&owner).copied().unwrap_or(0);
    let most = u64::from(desk.config.segment_bytes / STATS_SHARE / STAT_BYTES).max(1);
    more > 0 && u64::from(present) + more > most
}

impl Progress {
    /// After a start: the owners of a table that was ever divided may not know of it, so all are told.
    pub(crate) fn resume_divisions(&mut self, desk: &mut Desk) {
        let divided = desk.state.tables.values().filter(|t| !t.dropping && !t.division.is_none());
        let owners = divided.map(|t| (t.id, t.tablets.iter().filter(|t| t.taken).map(|t| t.owner).collect()));
        for (table, owners) in owners.collect::<Vec<(TableId, BTreeSet<ServerId>)>>() {
            desk.outbox.mark(Mark::DivisionToldAgain);
            self.want_told(desk, table, owners);
        }
    }

    fn want_told(&mut self, desk: &Desk, table: TableId, owners: BTreeSet<ServerId>) {
        let Some(division) = desk.state.tables.get(&table).map(|t| t.division) else { return };
        for owner in owners {
            let telling = Telling { retry: Retry::new(&desk.config), division };
            self.telling.insert((table, owner), telling);
        }
        self.wake_at = Instant::ZERO;
    }

    pub(crate) fn advance_divisions(&mut self, now: Instant, desk: &mut Desk) {
        let mut wake = Instant::FAR;
        self.telling.retain(|(table, owner), telling| {
            let table = desk.state.tables.get(table).filter(|t| !t.dropping);
            let (Some(table), true) = (table, desk.state.is_up(*owner)) else { return false };
            if telling.retry.take(now, &desk.config) {
                let message = told(table, *owner);
                let asked =
                    Asked::Divide { table: message.table, division: message.division, server: *owner };
                // There are at most `TABLET_COUNT_MAX` ranges by cuts, and a few by recoveries: they always fit.
                let _ = desk.ask(now, *owner, asked, &message);
            }
            wake = wake.min(telling.retry.next());
            true
        });
        self.wake_at = self.wake_at.min(wake);
    }

    pub(crate) fn on_divided(
        &mut self,
        desk: &mut Desk,
        table: TableId,
        division: DivisionId,
        server: ServerId,
        status: Status,
    ) {
        if status != Status::Ok {
            let text = format!("{server} does not divide {table} yet: {status}");
            return desk.outbox.report(Level::Debug, text);
        }
        let heard = self.telling.get(&(table, server)).is_some_and(|t| t.division <= division);
        if heard {
            self.telling.remove(&(table, server));
            self.wake_at = Instant::ZERO;
        }
    }

    /// Whether an owner has still to answer for this division, or for an earlier one.
    pub(crate) fn is_being_told(&self, table: TableId, division: DivisionId) -> bool {
        let mut owners = self.telling.range((table, ServerId::NONE)..=(table, ServerId(u64::MAX)));
        owners.any(|(_, telling)| telling.division <= division)
    }

    /// The number of owners that have not heard of a table's division.
    pub fn divisions_under_way(&self) -> usize {
        self.telling.len()
    }
}

/// The pieces that a change concerns.
fn concerned(pieces: &[TabletRecord], division: Division) -> impl Iterator<Item = &TabletRecord> {
    let touches = move |piece: &TabletRecord| match division {
        Division::Parts { .. } | Division::Join { at: None } => true,
        Division::Split { at } => piece.first <= at && at <= piece.last,
        Division::Join { at: Some(at) } => {
            let before = KeyHash(at.0.saturating_sub(1));
            piece.first <= at && before <= piece.last
        }
    };
    pieces.iter().filter(move |piece| touches(piece))
}

fn owners_of_changed(before: &[TabletRecord], after: &Pieces) -> BTreeSet<ServerId> {
    let spans = |pieces: &[TabletRecord]| -> BTreeSet<(ServerId, KeyHash, KeyHash)> {
        tablets(pieces).map(|t| (t[0].owner, t[0].first, whole(t).last)).collect()
    };
    let (before, after) = (spans(before), spans(after.as_slice()));
    before.symmetric_difference(&after).map(|(owner, ..)| *owner).collect()
}

/// The message for one owner: all its tablets of the table.
fn told(table: &TableRecord, owner: ServerId) -> TabletDivide {
    let own = table.whole_tablets().filter(|t| t.owner == owner && t.taken);
    let spans = own.map(|t| HashSpan { first: t.first, last: t.last });
    TabletDivide { table: table.id, division: table.division, tablets: spans.collect() }
}
