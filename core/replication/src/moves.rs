//! Moves replicas of segments whose copies are all in one zone or rack to another one, and primaries that are outside
//! their neighbourhood back to it.
//!
//! Backups are chosen so that the copies of a segment spread over zones and racks. While a zone is away, new segments
//! have all copies in the rest: no write waits for a zone. When the zone is back, such a segment is *unspread*. One
//! replica of it moves: a successor is made from DRAM on a backup elsewhere, and takes the place of the replica when it
//! is whole and on its device. The backup of the replaced replica learns from its next question that nobody needs it.
//!
//! A primary is *outside* when it is not on a feeder of its neighbourhood: while a feeder is away, others take what it
//! held. When a feeder has room again, such a primary moves in the same way, so that a recovery crosses no further link.
//!
//! The head of a stream cannot move. The shard is asked to roll the stream instead, so that the head is closed; the next
//! head has its replicas where they spread.
//!
//! Invariants:
//! - R replicas are whole all the time while one moves;
//! - a move begins, and goes on, only while no segment that lacks a replica waits for its turn; moves keep to the number
//!   and the rate of the copies;
//! - a cluster without zones, racks and neighbourhoods pays two comparisons per look at the replication.
//!
//! Not here: the choice of the backup (placement), messages (advance), rates (copies). Catalogue: D3, H1, H3.

use crate::segment::{Place, Segment};
use crate::{Replicator, Segments};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Mark, SegmentId, ServerId, StreamId, time::earliest};
use ramhold_placement::{Neighbourhood, NeighbourhoodCache, SpreadLevels, Wish, choose_backup, is_outside};
use ramhold_wire::{ReplicaPlacement, View};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The interval between two looks at all segments, while there are zones, racks or neighbourhoods.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The same, if nothing was to be moved at the last look.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// The most segments for which no backup was found, before the others wait for the next look.
const FRUITLESS_MAX: usize = 16;
/// The pause before a head that is unspread again is rolled once more, at first and at most.
const ROLL_PAUSE: Duration = Duration::from_secs(4);
const ROLL_PAUSE_MAX: Duration = Duration::from_secs(600);

/// The index of the replica that is to move: the last one of an unspread segment, or a primary that is on none of the
/// feeders of its neighbourhood.
fn misplaced(
    levels: SpreadLevels,
    view: &View,
    own: Option<&Neighbourhood>,
    backups: &[ServerId],
) -> Option<usize> {
    let last = backups.len().checked_sub(1)?;
    if levels.unspread(view, backups).is_some() {
        return Some(last);
    }
    let is_outside = |own: &Neighbourhood| !own.feeders.contains(&backups[0]);
    own.filter(|own| is_outside(own) && !planted(Defect::OutsideStays)).map(|_| 0)
}

impl Replicator {
    /// Looks for segments of which a replica is to move, and lets the next ones move.
    pub(crate) fn advance_spreading(
        &mut self,
        now: Instant,
        log: &dyn Segments,
        view: &View,
        effects: &mut Effects,
    ) {
        if self.spreading.version != Some(view.list.version()) {
            self.spreading.version = Some(view.list.version());
            self.spreading.levels = SpreadLevels::of(view);
            self.spreading.look_at = now;
        }
        if self.copies.has_waiting() {
            // Segments that lack a replica go first.
            for id in self.spreading.moving.iter().copied().collect::<Vec<_>>() {
                self.cancel_move(now, id);
            }
        }
        let is_wanted = !self.spreading.levels.is_empty() || view.placement.neighbouring().is_some();
        if is_wanted && !planted(Defect::NotSpreadAgain) {
            if self.spreading.look_at <= now {
                self.look(now, view);
            }
            self.begin_moves(now, log, view, effects);
            self.retry = earliest(self.retry, Some(self.spreading.look_at));
        }
        if std::mem::take(&mut self.spreading.has_moved) {
            effects.mark(Mark::ReplicaMoved);
        }
        for id in self.spreading.moving.iter().copied().collect::<Vec<_>>() {
            self.probe_segment(now, id, None, view, effects);
        }
    }

    fn look(&mut self, now: Instant, view: &View) {
        let levels = self.spreading.levels;
        let homes = self.neighbourhoods.of(view);
        let is_misplaced = |id: &SegmentId| {
            let segment = &self.segments[id];
            let own =
                homes.and_then(|all| all.named(self.streams[&segment.stream].neighbourhood.as_deref()?));
            misplaced(levels, view, own, &segment.taken()).is_some()
        };
        let closed = self.segments.iter().filter(|(id, s)| s.complete && !s.awaited && is_misplaced(id));
        let waiting: BTreeSet<SegmentId> = closed.map(|(id, _)| *id).collect();
        // A stream with a second head rolls already.
        let heads = self.streams.iter().filter(|(_, s)| s.order.len() == 1 && s.registered);
        let heads = heads.filter_map(|(stream, s)| Some((*stream, *s.order.front()?)));
        let heads = heads.filter(|(_, head)| {
            let segment = &self.segments[head];
            segment.holds(segment.opening.length) && is_misplaced(head)
        });
        let mut to_roll: BTreeMap<StreamId, SegmentId> = heads.collect();
        let rolls = &mut self.spreading.rolls;
        rolls.retain(|stream, (next, _)| *next > now || to_roll.contains_key(stream));
        to_roll.retain(|stream, _| {
            let (next, pause) = rolls.entry(*stream).or_insert((now, ROLL_PAUSE));
            let is_due = *next <= now;
            if is_due {
                (*next, *pause) = (now + *pause, (*pause * 2).min(ROLL_PAUSE_MAX));
            }
            is_due
        });
        let is_any = !BTreeSet::is_empty(&waiting) || !rolls.is_empty() || !self.spreading.moving.is_empty();
        self.spreading.look_at = now + if is_any { LOOK_INTERVAL } else { IDLE_LOOK_INTERVAL };
        (self.spreading.waiting, self.spreading.to_roll) = (waiting, to_roll);
    }

    fn begin_moves(&mut self, now: Instant, log: &dyn Segments, view: &View, effects: &mut Effects) {
        let mut fruitless = 0;
        while !self.spreading.waiting.is_empty() && self.copies.may_move(now, self.config.copies_max) {
            let waiting = &mut self.spreading.waiting;
            // Segments that find no backup do not hold up those behind them.
            let next = self.spreading.behind.and_then(|behind| waiting.range(behind..).next().copied());
            let Some(id) = next.or_else(|| waiting.first().copied()) else { return };
            waiting.remove(&id);
            self.spreading.behind = Some(id);
            if self.segments.get(&id).is_some_and(|s| s.complete)
                && self.may_copy(id, log)
                && self.begin_move(now, id, view)
            {
                effects.mark(Mark::MoveBegun);
            } else {
                fruitless += 1;
            }
            if fruitless == FRUITLESS_MAX {
                self.spreading.waiting.clear();
            }
        }
    }

    /// Adds a place for the successor of a segment's misplaced replica, if some backup would be right for it.
    fn begin_move(&mut self, now: Instant, id: SegmentId, view: &View) -> bool {
        let segment = &self.segments[&id];
        let levels = self.spreading.levels;
        let own = self.streams[&segment.stream].neighbourhood.as_deref();
        let neighbourhood = own.and_then(|name| {
            let all = self.neighbourhoods.of(view)?;
            Some((all, all.named(name)?))
        });
        let own = neighbourhood.map(|(_, own)| own);
        let mut stay = segment.taken();
        let Some(index) = misplaced(levels, view, own, &stay) else { return false };
        let replaced = stay.remove(index);
        // Backups without room would refuse one segment after the other.
        let avoided: Vec<ServerId> =
            segment.avoided(now).into_iter().chain([replaced]).chain(self.full.keys().copied()).collect();
        let replicas = segment.places.len();
        let wish = Wish {
            neighbourhood,
            taken: &stay,
            avoided: &avoided,
            primary: index == 0,
            replicas,
            primaries: &self.primaries,
            local_allowed: self.config.local_allowed,
            copysets: self.copysets.of(view, replicas, self.config.local_allowed),
        };
        let Some(backup) = choose_backup(view, &wish, &mut self.rng) else { return false };
        let mut after = stay.clone();
        after.insert(index, backup);
        if misplaced(levels, view, own.filter(|_| index == 0), &after).is_some() {
            return false;
        }
        let segment = self.segments.get_mut(&id).expect("looked up above");
        // Late answers about earlier replicas of this backup have lower attempts.
        let attempt = segment.places.iter().map(|p| p.attempt).max().unwrap_or(0).max(segment.attempts) + 1;
        segment.places.push(Place { backup: Some(backup), attempt, born: attempt, ..Place::empty() });
        (segment.moves, segment.complete) = (Some(index), false);
        let left = segment.replicas_left();
        if index == 0 {
            *self.primaries.entry(backup).or_insert(0) += 1;
        }
        self.copies.wait(now, id, left);
        self.spreading.moving.insert(id);
        if planted(Defect::MovedEarly) {
            self.end_move(id);
        }
        true
    }

    /// Lets the successor take its place, once it is whole and on its device.
    pub(crate) fn end_move(&mut self, id: SegmentId) {
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        if let Some(index) = segment.moves {
            self.replace(id, index);
            self.spreading.has_moved = true;
        }
    }

    /// A segment of which a replica moves has lost the backup of one of its places. If the place is the successor's,
    /// the move is over, and the segment is as complete as before it. Else the successor takes the lost place, whole or
    /// not.
    pub(crate) fn lose_moving(&mut self, now: Instant, id: SegmentId, lost: usize) {
        self.replace(id, lost);
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        // A closed replica is whole.
        segment.complete = lost == segment.places.len() || segment.is_durably_closed(0);
        let left = segment.replicas_left();
        if segment.complete {
            self.copies.remove(id);
        } else {
            self.copies.wait(now, id, left);
        }
    }

    /// Gives up a move: the segment is as complete as before it.
    pub(crate) fn cancel_move(&mut self, now: Instant, id: SegmentId) {
        let successor = self.segments[&id].places.len() - 1;
        self.lose_moving(now, id, successor);
    }

    /// Ends a move: the successor takes the place at `index`, or goes if the place is its own.
    fn replace(&mut self, id: SegmentId, index: usize) {
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        let primaries = |segment: &Segment| {
            let places = segment.places.iter().enumerate();
            let primaries = places.filter(|(at, _)| segment.is_primary(*at)).filter_map(|(_, p)| p.backup);
            primaries.collect::<Vec<ServerId>>()
        };
        let before = primaries(segment);
        segment.moves = None;
        let mut successor = segment.places.pop().expect("a segment that moves has a successor");
        segment.attempts = segment.attempts.max(successor.attempt);
        // Answers to what was sent so far name the place that it leaves.
        successor.rewind_to(successor.certified);
        if let Some(place) = segment.places.get_mut(index) {
            segment.attempts = segment.attempts.max(place.attempt);
            *place = successor;
        }
        let after = primaries(segment);
        for backup in before {
            self.primary_gone(backup);
        }
        for backup in after {
            *self.primaries.entry(backup).or_insert(0) += 1;
        }
        self.spreading.ended(id);
    }

    /// Streams whose head is misplaced since the last look: they are to be rolled.
    pub fn take_to_roll(&mut self) -> Vec<StreamId> {
        let to_roll = std::mem::take(&mut self.spreading.to_roll).into_iter();
        let is_head = |stream: StreamId, head: SegmentId| self.streams[&stream].order.iter().eq([&head]);
        to_roll.filter(|(stream, head)| is_head(*stream, *head)).map(|(stream, _)| stream).collect()
    }

    /// The number of segments of a stream whose primary is outside, as the placement has it.
    pub fn outside_count(&self, stream: StreamId, view: &View) -> u64 {
        let own = |copies_min: usize| {
            let own = self.segments.values().filter(move |s| s.stream == stream);
            let own = own.filter(move |s| s.own_places().count() >= copies_min);
            own.filter_map(|segment| segment.own_places().next()?.backup)
        };
        if view.placement.neighbouring().is_some() {
            let Some(name) = self.streams[&stream].neighbourhood.as_deref() else { return 0 };
            let mut cache = NeighbourhoodCache::default();
            let feeders = cache.of(view).and_then(|all| all.named(name)).map(|own| own.feeders.clone());
            let feeders = feeders.unwrap_or_default();
            return own(1).filter(|primary| !feeders.contains(primary)).count() as u64;
        }
        if view.placement != ReplicaPlacement::ZoneLocal {
            return 0;
        }
        // The only replica of a segment is elsewhere on purpose.
        let primaries = own(2);
        primaries.filter(|primary| is_outside(view, *primary)).count() as u64
    }

    /// The number of segments of a stream that are unspread.
    pub fn unspread_count(&self, stream: StreamId, view: &View) -> u64 {
        let levels = SpreadLevels::of(view);
        if levels.is_empty() {
            return 0;
        }
        let own = self.segments.values().filter(|s| s.stream == stream && !s.places.is_empty());
        let is_unspread = |segment: &&Segment| {
            let backups: Vec<ServerId> = segment.own_places().filter_map(|p| p.backup).collect();
            levels.unspread(view, &backups).is_some()
        };
        own.filter(is_unspread).count() as u64
    }
}
