//! Changing a table's durability or replica count online: its tablets move to other streams of their owners, one
//! stretch after the other.
//!
//! The table's options say what is wanted, and the position of each piece of a tablet says where the piece lies. So
//! nothing else has to be stored: an owner that has a piece in a stream of another class is asked to move it, until
//! there is no such piece. An owner tells of each stretch that is durable in its new stream, and from the commit of
//! that on a recovery takes the stretch from there. Pieces that are recovered meanwhile go to streams of the new class
//! by themselves.
//!
//! Invariants:
//! - a piece's first segment only rises while its owner lives, so a late message changes nothing;
//! - an owner that was answered can rely on its report being stored.
//!
//! Protocol: docs/protocols/reclassing.md. Catalogue: A8, D2, G3.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::home::check_zone;
use crate::progress::Progress;
use crate::records::{Key, StreamRecord, TableRecord, TabletRecord, UpdateResult};
use crate::recoveries::Recoveries;
use crate::retry::Retry;
use crate::shortage;
use crate::state::State;
use crate::streams::{check_durability, sender_of};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, Level, Mark, Peer, ServerId, Status, TableId};
use ramhold_wire::Header;
use ramhold_wire::class::StreamClass;
use ramhold_wire::control::Empty;
use ramhold_wire::membership::Durability;
use ramhold_wire::shortage::Shortage;
use ramhold_wire::table::{TableAlter, TabletReclass, TabletReclassed};
use std::collections::BTreeSet;

pub(crate) fn alter_table(
    desk: &mut Desk,
    progress: &mut Progress,
    message: &TableAlter,
) -> Result<UpdateResult, Status> {
    if desk.state.has_quorum_table(message.table) {
        return Err(Status::Unsupported);
    }
    let table = desk.state.tables.get(&message.table).filter(|t| !t.dropping);
    let table = table.ok_or(Status::UnknownTable)?;
    if message.zone != table.options.zone {
        check_zone(desk, message.zone.as_deref().filter(|zone| !zone.is_empty()))?;
    }
    if message.durability.is_some() || message.replicas.is_some() {
        let durability = message.durability.unwrap_or(table.options.durability);
        let replicas = message.replicas.unwrap_or(table.options.replicas);
        let lacking = alter_class(desk, progress, message.table, StreamClass { durability, replicas })?;
        if let Some(shortage) = lacking {
            return Ok(UpdateResult::Lacking(shortage));
        }
    }
    if let Some(zone) = &message.zone {
        alter_zone(desk, message.table, zone);
    }
    Ok(UpdateResult::TableAltered(message.table))
}

/// Changes the durability and replica count of a table, unless too few failure domains are up.
fn alter_class(
    desk: &mut Desk,
    progress: &mut Progress,
    id: TableId,
    class: StreamClass,
) -> Result<Option<Shortage>, Status> {
    let table = desk.state.tables.get(&id).ok_or(Status::UnknownTable)?;
    let StreamClass { durability, replicas } = class;
    // A table without replicas has no results that could move with its objects, and its versions are given out
    // under a ceiling.
    if table.options.durability == Durability::None || durability == Durability::None {
        return Err(Status::Unsupported);
    }
    check_durability(durability, replicas)?;
    if !table.tablets.iter().all(|t| t.taken && desk.state.is_up(t.owner)) {
        // This refusal is final for its sequence: the client goes on under another one.
        return Err(Status::Retry);
    }
    if table.options.class() == class {
        return Ok(None);
    }
    let left = streams_left(&desk.state, table, class).map(|stream| stream.replicas);
    let lacking = left.chain([replicas]).max().and_then(|replicas| shortage::shortage(desk, replicas));
    if lacking.is_some() {
        return Ok(lacking);
    }
    let record = desk.state.tables.get_mut(&id).expect("found above");
    (record.options.durability, record.options.replicas) = (durability, replicas);
    record.division = record.division.next();
    let name = record.name.escape_debug();
    let text = format!("table {} '{name}' is to be {durability:?} with {replicas} replicas", record.id);
    desk.outbox.report(Level::Info, text);
    desk.outbox.mark(Mark::TableAltered);
    desk.outbox.touch(Key::Table(id));
    progress.want_reclassed(desk, id);
    Ok(None)
}

/// Notes the zone in which a table's tablets are to be from the next choice of an owner on; empty: in any.
fn alter_zone(desk: &mut Desk, id: TableId, zone: &str) {
    let Some(record) = desk.state.tables.get_mut(&id) else { return };
    let zone = Some(zone.to_owned()).filter(|zone| !zone.is_empty());
    if record.options.zone == zone {
        return;
    }
    let told = zone.as_deref().map_or("any zone".into(), |zone| format!("zone '{}'", zone.escape_debug()));
    let text = format!("table {id} '{}' is to be in {told}", record.name.escape_debug());
    record.options.zone = zone;
    desk.outbox.report(Level::Info, text);
    desk.outbox.touch(Key::Table(id));
}

/// The streams that a table leaves when it is to be of this class. A stream that lacks a backup cannot be left:
/// writes to it that are not acknowledged are durable nowhere.
fn streams_left<'a>(
    state: &'a State,
    table: &'a TableRecord,
    class: StreamClass,
) -> impl Iterator<Item = &'a StreamRecord> {
    let streams = table.tablets.iter().filter_map(|piece| stream_of(state, piece));
    streams.filter(move |stream| stream.class() != class)
}

/// The stream of a piece, if it is registered.
fn stream_of<'a>(state: &'a State, piece: &TabletRecord) -> Option<&'a StreamRecord> {
    let mut streams = state.servers.get(&piece.owner)?.streams.iter();
    streams.find(|stream| (stream.shard, stream.stream) == (piece.shard, piece.stream))
}

/// Whether a piece lies in a stream of the class that the table's options want.
fn is_in_class(state: &State, table: &TableRecord, piece: &TabletRecord) -> bool {
    // A stream without replicas is not registered, and never changes. Any other stream is registered before
    // anything is acknowledged in it.
    stream_of(state, piece).is_none_or(|s| s.class() == table.options.class())
}

/// The number of tablets that are not kept as the options say, at least for some of their hashes.
pub(crate) fn reclassing_count(state: &State, table: &TableRecord) -> u32 {
    let tablets = crate::pieces::tablets(&table.tablets);
    let is_moving = |pieces: &&[TabletRecord]| !pieces.iter().all(|piece| is_in_class(state, table, piece));
    tablets.filter(is_moving).count() as u32
}

pub(crate) fn is_reclassing(state: &State, table: &TableRecord) -> bool {
    !table.tablets.iter().all(|piece| is_in_class(state, table, piece))
}

/// The number of owners that have tablets to move.
pub fn reclassings_under_way(state: &State) -> usize {
    let live = state.tables.values().filter(|t| !t.dropping);
    live.map(|table| movers_of(state, table).len()).sum()
}

fn movers_of(state: &State, table: &TableRecord) -> BTreeSet<ServerId> {
    let pieces = table.tablets.iter().filter(|piece| piece.taken && !is_in_class(state, table, piece));
    pieces.map(|piece| piece.owner).collect()
}

impl Progress {
    /// After a start: nobody knows which owners have heard, so all are told.
    pub(crate) fn resume_reclassing(&mut self, desk: &mut Desk) {
        let tables: Vec<TableId> = desk.state.tables.values().filter(|t| !t.dropping).map(|t| t.id).collect();
        tables.into_iter().for_each(|table| self.want_reclassed(desk, table));
    }

    fn want_reclassed(&mut self, desk: &Desk, table: TableId) {
        let Some(record) = desk.state.tables.get(&table) else { return };
        for owner in movers_of(&desk.state, record) {
            self.movers.insert((table, owner), Retry::new(&desk.config));
        }
        self.wake_at = Instant::ZERO;
    }

    /// A stream of this server is registered. Pieces that are live in it since a recovery may be of a table that was
    /// altered meanwhile.
    pub(crate) fn want_reclassed_from(&mut self, desk: &Desk, server: ServerId) {
        let live = desk.state.tables.values().filter(|t| !t.dropping);
        let tables: Vec<TableId> = live
            .filter(|table| movers_of(&desk.state, table).contains(&server))
            .map(|table| table.id)
            .collect();
        for table in tables {
            self.movers.entry((table, server)).or_insert_with(|| Retry::new(&desk.config));
            self.wake_at = Instant::ZERO;
        }
    }

    pub(crate) fn advance_reclassings(&mut self, now: Instant, desk: &mut Desk) {
        let mut wake = Instant::FAR;
        self.movers.retain(|(table, owner), retry| {
            let Some(table) = desk.state.tables.get(table).filter(|t| !t.dropping) else { return false };
            if !desk.state.is_up(*owner) || !movers_of(&desk.state, table).contains(owner) {
                return false;
            }
            if retry.take(now, &desk.config) {
                let (durability, replicas) = (table.options.durability, table.options.replicas);
                let message =
                    TabletReclass { table: table.id, durability, replicas, division: table.division };
                let asked = Asked::Reclass { table: table.id, server: *owner };
                // A message of a few bytes always fits.
                let _ = desk.ask(now, *owner, asked, &message);
            }
            wake = wake.min(retry.next());
            true
        });
        self.wake_at = self.wake_at.min(wake);
    }
}

pub(crate) fn on_reclass_heard(desk: &mut Desk, table: TableId, server: ServerId, status: Status) {
    if status != Status::Ok {
        desk.outbox.report(Level::Debug, format!("{server} does not move {table} yet: {status}"));
    }
}

impl Progress {
    /// A stretch lies in another stream of its owner now.
    pub(crate) fn on_reclassed(
        &mut self,
        desk: &mut Desk,
        recoveries: &mut Recoveries,
        to: Peer,
        header: &Header,
        message: &TabletReclassed,
    ) -> Result<(), Status> {
        let server = sender_of(header)?;
        let TabletReclassed { table: id, first, last, shard, stream, first_segment } = *message;
        let table = desk.state.tables.get(&id).filter(|t| !t.dropping).ok_or(Status::UnknownTable)?;
        if first > last {
            return Err(Status::BadRequest);
        }
        let registered = desk.state.up(server).is_some_and(|s| {
            s.streams.iter().any(|registered| (registered.shard, registered.stream) == (shard, stream))
        });
        let inside: Vec<&TabletRecord> =
            table.tablets.iter().filter(|p| p.first <= last && first <= p.last).collect();
        let is_own = |p: &&TabletRecord| p.owner == server && p.taken && p.shard == shard;
        if !registered || !inside.iter().all(is_own) {
            return Err(Status::NotAllowed);
        }
        let is_there = |p: &&TabletRecord| (p.stream, p.first_segment) == (stream, first_segment);
        if inside.iter().all(is_there) {
            desk.outbox.reply_with(to, header, &Empty {});
            return Ok(());
        }
        let is_older = |p: &&TabletRecord| !is_there(p) && p.first_segment >= first_segment;
        if inside.iter().any(is_older) && !planted(Defect::OldMoveTaken) {
            return Err(Status::NotAllowed);
        }
        let record = desk.state.tables.get_mut(&id).expect("found above");
        move_hashes(&mut record.tablets, (first, last), |piece| TabletRecord {
            stream,
            first_segment,
            // Devices have the copies.
            earlier: None,
            older: Vec::new(),
            ..piece
        });
        desk.outbox.mark(Mark::StretchStored);
        recoveries.look_at_kept();
        desk.outbox.touch(Key::Table(id));
        let table = &desk.state.tables[&id];
        if is_reclassing(&desk.state, table) {
            // The table may have been altered again in the middle of the move, at a time when none of its pieces was to
            // be moved.
            self.movers.entry((id, server)).or_insert_with(|| Retry::new(&desk.config));
        } else {
            let text = format!("table {id} '{}' is kept as it is to be", table.name.escape_debug());
            desk.outbox.report(Level::Info, text);
        }
        self.wake_at = Instant::ZERO;
        desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }
}

/// Gives these hashes another position. They stay parts of their tablets. Neighbours of one tablet with one position
/// become one piece.
fn move_hashes(
    pieces: &mut Vec<TabletRecord>,
    (first, last): (KeyHash, KeyHash),
    place: impl Fn(TabletRecord) -> TabletRecord,
) {
    let mut all: Vec<TabletRecord> = Vec::with_capacity(pieces.len() + 2);
    for piece in pieces.drain(..) {
        if piece.last < first || last < piece.first {
            all.push(piece);
            continue;
        }
        if piece.first < first {
            all.push(TabletRecord { last: KeyHash(first.0 - 1), ..piece.clone() });
        }
        let joined = piece.joined || piece.first < first;
        let (from, to) = (piece.first.max(first), piece.last.min(last));
        all.push(place(TabletRecord { first: from, last: to, joined, ..piece.clone() }));
        if last < piece.last {
            all.push(TabletRecord { first: KeyHash(last.0 + 1), joined: true, ..piece });
        }
    }
    for piece in all {
        match pieces.last_mut() {
            Some(before) if piece.joined && is_one_place(before, &piece) => {
                before.last = piece.last;
                before.version_floor = before.version_floor.max(piece.version_floor);
            }
            _ => pieces.push(piece),
        }
    }
}

fn is_one_place(before: &TabletRecord, piece: &TabletRecord) -> bool {
    let place = |p: &TabletRecord| (p.owner, p.shard, p.stream, p.first_segment, p.earlier);
    place(before) == place(piece) && before.older == piece.older
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::{Rng, SegmentId, ShardId, StreamId, Version};

    fn piece(first: u64, last: u64, segment: u64, joined: bool) -> TabletRecord {
        TabletRecord {
            first: KeyHash(first),
            last: KeyHash(last),
            owner: ServerId(1),
            taken: true,
            shard: ShardId(0),
            stream: StreamId(1),
            first_segment: SegmentId(segment),
            version_floor: Version(segment),
            joined,
            earlier: None,
            older: Vec::new(),
        }
    }

    fn moved(pieces: &mut Vec<TabletRecord>, first: u64, last: u64) {
        let place = |p| TabletRecord { stream: StreamId(2), first_segment: SegmentId(9), ..p };
        move_hashes(pieces, (KeyHash(first), KeyHash(last)), place);
    }

    fn spans(pieces: &[TabletRecord]) -> Vec<(u64, u64, u64, bool)> {
        pieces.iter().map(|p| (p.first.0, p.last.0, p.first_segment.raw(), p.joined)).collect()
    }

    // A8, D2
    #[test]
    fn stretches_that_were_moved_stay_in_their_tablets_and_grow_together() {
        let mut pieces = vec![piece(0, 99, 5, false), piece(100, u64::MAX, 7, true)];
        moved(&mut pieces, 0, 49);
        assert_eq!(
            spans(&pieces),
            [(0, 49, 9, false), (50, 99, 5, true), (100, u64::MAX, 7, true)],
            "one tablet of three pieces"
        );
        moved(&mut pieces, 50, 149);
        assert_eq!(spans(&pieces), [(0, 149, 9, false), (150, u64::MAX, 7, true)]);
        assert_eq!(pieces[0].version_floor, Version(7), "the highest floor");
        moved(&mut pieces, 150, u64::MAX);
        assert_eq!(spans(&pieces), [(0, u64::MAX, 9, false)]);
        // Two tablets stay two.
        let mut pieces = vec![piece(0, 99, 5, false), piece(100, u64::MAX, 7, false)];
        moved(&mut pieces, 0, u64::MAX);
        assert_eq!(spans(&pieces), [(0, 99, 9, false), (100, u64::MAX, 9, false)]);
    }

    // A8
    #[test]
    fn random_stretches_cover_all_hashes() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let mut pieces = vec![piece(0, 999, 5, false), piece(1000, u64::MAX, 7, rng.chance(1, 2))];
            for _ in 0..10 {
                let first = rng.below(1500);
                moved(&mut pieces, first, first + rng.below(500));
                let mut next = Some(0);
                for piece in &pieces {
                    assert_eq!(next, Some(piece.first.0), "seed {seed}");
                    next = piece.last.0.checked_add(1);
                }
                assert_eq!(next, None, "seed {seed}");
                assert!(
                    pieces.windows(2).all(|p| !(p[1].joined && is_one_place(&p[0], &p[1]))),
                    "seed {seed}"
                );
            }
        }
    }
}
