//! Tables and tablets that the coordinator gives this brick, and takes away.
//!
//! A brick keeps what it has, whatever an assignment leaves out: only a table that is named as dropped goes. An old copy of
//! a coordinator's state can so take nothing away.
//!
//! Invariant: an assignment counts as taken when all of it is on the device and is served.
//!
//! Not here: which brick gets which tablet (core/coordinator). Protocol: docs/protocols/quorum.md, rule 17. Catalogue: I1.

use crate::Brick;
use crate::changes::{add_tables, give_up, take, take_shared};
use crate::dropping::Dropping;
use crate::events::{EventKind, counted};
use crate::phase::Phase;
use crate::state::{BrickState, StreamState, TableState, TabletState};
use crate::tables::{Entered, Tablet, check, meets, number};
use ramhold_base::limits::BRICK_TABLET_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Level, ServerId, StreamId};
use ramhold_log::{HashRange, Purpose};
use ramhold_quorum::Life;
use ramhold_wire::Step;
use ramhold_wire::bricks::{BrickAssignment, BrickTable, Shared};
use ramhold_wire::quorum::{BrickPlace, BrickTablet};
use std::collections::BTreeSet;
use std::time::Duration;

/// Index buckets of a step.
const DROP_BUCKETS: u64 = 4096;
const DROP_INTERVAL: Duration = Duration::from_millis(1);

/// Why an assignment is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// The brick has no id, or is busy with its start.
    NotReady,
    /// They are more than a brick takes.
    TooMany,
    /// They contradict each other, or what is here.
    Wrong(&'static str),
}

impl Brick {
    /// The version of the newest assignment that is on the device and is served; 0: none.
    pub fn taken(&self) -> u64 {
        if self.phase == Phase::Serving { self.served } else { 0 }
    }

    /// The number of tablets that are being rebuilt.
    pub fn rebuilding_count(&self) -> usize {
        self.tables.all().filter(|tablet| !tablet.register.votes()).count()
    }

    /// The part of the tablet that is rebuilt just now, of 1,000. `None`: there is none.
    pub fn rebuilt_permille(&self) -> Option<u16> {
        let rebuilding = self.siblings.rebuilding.as_ref();
        rebuilding.map(|rebuilding| u16::try_from(rebuilding.permille()).unwrap_or(u16::MAX))
    }

    /// The number of tablets that do not vote: they are being rebuilt, are loaded, are not served yet, or
    /// too few siblings have told their time.
    pub fn without_vote_count(&self) -> usize {
        if self.is_loading() {
            return self.tables.all().count();
        }
        let Some(state) = self.state_file.durable() else { return 0 };
        if self.entered == self.state_file.durable_count() {
            return self.tables.all().filter(|tablet| !self.is_vote(tablet)).count();
        }
        state.tablets.iter().filter(|tablet| !self.votes_in(tablet)).count()
    }

    fn is_vote(&self, tablet: &Tablet) -> bool {
        tablet.register.votes() && self.clock.is_known(&tablet.siblings)
    }

    /// Whether this brick answers for a tablet of its state. One that has come with an assignment may wait for memory, or
    /// until its keys of before are gone.
    pub(crate) fn votes_in(&self, tablet: &TabletState) -> bool {
        let is_it = |known: &&Tablet| {
            known.range == tablet.range() && self.tables.epoch(known.range) == Some(tablet.epoch)
        };
        let is_whole = self.phase == Phase::Serving && !self.is_loading();
        is_whole && self.tables.all().find(is_it).is_some_and(|known| self.is_vote(known))
    }

    /// Takes an assignment of the coordinator. It is served when it is on the device (`taken`).
    pub fn assign(&mut self, assignment: &BrickAssignment, effects: &mut Effects) -> Result<(), NotTaken> {
        let is_loaded = self.phase == Phase::Serving && !self.is_loading();
        let Some(before) = self.state_file.newest().filter(|_| is_loaded) else {
            return Err(NotTaken::NotReady);
        };
        let mut state = before.clone();
        state.tables.retain(|table| !assignment.dropped.contains(&table.table));
        state.tablets.retain(|tablet| !assignment.dropped.contains(&tablet.table));
        state.left.retain(|left| !assignment.dropped.contains(&left.table));
        give_up(&mut state, &assignment.given_up);
        add_tables(&mut state, &assignment.tables).map_err(NotTaken::Wrong)?;
        for told in &assignment.tablets {
            // Nobody knows what the original has acknowledged in tablets that its copy lacks.
            take(&mut state, told, !before.was_moved).map_err(NotTaken::Wrong)?;
        }
        state.was_moved = false;
        state.taken = assignment.version;
        let state = checked(state)?;
        self.want_changed(state, effects);
        Ok(())
    }

    /// A sibling tells of tablets that both have, and that it knows to have changed.
    pub(crate) fn hear_shared(&mut self, from: ServerId, shared: &Shared, effects: &mut Effects) {
        // Siblings repeat it until both have the same.
        let is_loaded = self.phase == Phase::Serving && !self.is_loading();
        let Some(before) = self.state_file.newest().filter(|_| is_loaded) else { return };
        if shared.tablets.len() > BRICK_TABLET_COUNT_MAX as usize {
            return;
        }
        let mut state = before.clone();
        let taken = take_shared(&mut state, from, shared).map_err(NotTaken::Wrong);
        match taken.and_then(|()| checked(state)) {
            Ok(state) => {
                // A rebuilding may wait for fewer siblings than it should by now.
                let missing =
                    |tablet: &TabletState| tablet.siblings.iter().filter(|it| it.is_missing).count();
                let fewer = state.tablets.iter().filter(|after| {
                    let known = before.tablets.iter().find(|known| known.range() == after.range());
                    known.is_some_and(|known| missing(known) > missing(after))
                });
                let fewer: Vec<HashRange> = fewer.map(TabletState::range).collect();
                fewer.into_iter().for_each(|range| self.siblings.forget(range));
                self.want_changed(state, effects);
            }
            Err(why) if self.siblings.untaken.insert(from) => {
                let text = format!(
                    "{from} tells of tablets that are not taken: {why:?}; the coordinator's word is awaited"
                );
                effects.report(Level::Warn, text);
            }
            Err(_) => {}
        }
    }

    /// Takes a state whose tables or tablets have changed to the device, and says what is new.
    fn want_changed(&mut self, state: BrickState, effects: &mut Effects) {
        let Some(before) = self.state_file.newest().filter(|before| *before != &state) else { return };
        self.siblings.untaken.clear();
        // A rebuilding may wait for a brick that gives the tablet away no more.
        let has_arrived = |tablet: &&TabletState| {
            let known = before.tablets.iter().find(|known| known.range() == tablet.range());
            known.is_some_and(|known| known.giving.is_some() && tablet.giving.is_none())
        };
        let arrived: Vec<HashRange> =
            state.tablets.iter().filter(has_arrived).map(TabletState::range).collect();
        arrived.into_iter().for_each(|range| self.siblings.forget(range));
        for table in state.tables.iter().filter(|table| !before.tables.contains(table)) {
            effects.report(Level::Info, format!("table {} is held here", table.name));
        }
        for tablet in state.tablets.iter().filter(|tablet| !before.tablets.contains(tablet)) {
            let TabletState { table, first, last, epoch, votes, .. } = tablet;
            if before.tables.iter().any(|known| known.table == *table) {
                let votes = if *votes { "votes" } else { "is to be rebuilt" };
                let text = format!("{table} {first:?} to {last:?} has epoch {epoch} here, and {votes}");
                effects.report(Level::Info, text);
            }
        }
        let is_held = |tablet: &TabletState| state.tablets.iter().any(|it| meets(it.range(), tablet.range()));
        for TabletState { table, first, last, .. } in before.tablets.iter().filter(|it| !is_held(it)) {
            effects.report(Level::Info, format!("{table} {first:?} to {last:?} is not held here any more"));
        }
        self.state_file.want(state, effects);
    }

    /// Serves what has been added to the state and is on the device, and stops serving what is gone from it.
    pub(crate) fn enter_new(&mut self, step: &mut Step<'_>) {
        let count = self.state_file.durable_count();
        if self.entered == count || self.unopened.rests(count, step.now) {
            return;
        }
        self.unopened.try_again(step.now);
        let former = self.siblings();
        let Brick {
            state_file, store: Some(store), tables, siblings, droppings, queues, events, clock, ..
        } = self
        else {
            return;
        };
        let Some(state) = state_file.durable() else { return };
        for range in tables.align(state) {
            siblings.forget(range);
        }
        let left = tables.leave(state);
        if !left.is_empty() {
            let are = if left.len() == 1 { "is" } else { "are" };
            let indicator = format!("{} here {are} assigned to it no more", counted(left.len(), "tablet"));
            let text = (indicator, "they are not served any more, and their keys leave the memory");
            events.note(clock.own_millis(step.now), EventKind::TabletsDropped, state.brick, text);
        }
        for (range, stream) in left {
            siblings.forget(range);
            droppings.push(Dropping::new(range, stream));
        }
        // A tablet that comes back waits until its keys of before are gone.
        let is_leaving = |tablet: &TabletState| {
            let range = tablet.range();
            droppings.iter().any(|dropping| meets(dropping.range, range))
        };
        if state.tablets.iter().any(is_leaving) {
            return;
        }
        if !store.open_streams(step, tables, state) && planted(Defect::QuorumUnopenedHoldsAll) {
            store.clean_for_room(step, tables, Purpose::Ordinary);
            return;
        }
        let is_open = |stream| store.shard.class_of(stream).is_some();
        let Entered { new, changed, waiting } = tables.enter(state, is_open);
        clock.keep(|brick| tables.all().any(|tablet| tablet.siblings.contains(&brick)));
        queues.recount(tables.all().flat_map(|tablet| tablet.register.waiting()));
        if !new.is_empty() || !changed.is_empty() {
            siblings.announce_at = step.now;
        }
        // They may have been siblings before: nobody has announced anything since.
        let present: BTreeSet<ServerId> = tables.all().flat_map(|tablet| &tablet.siblings).copied().collect();
        present.difference(&former).for_each(|sibling| siblings.silence.begin(step.now, *sibling));
        let mut note = |kind, ranges: &[HashRange], what: &str| {
            let treatment = match ranges.iter().filter(|range| !tables.votes(**range)).count() {
                0 => "served at once".to_owned(),
                waiting => format!("{waiting} of them to be rebuilt first"),
            };
            let text = (format!("{what} {}", counted(ranges.len(), "tablet")), treatment);
            if !ranges.is_empty() {
                events.note(clock.own_millis(step.now), kind, state.brick, text);
            }
        };
        note(EventKind::TabletsTaken, &new, "it was given");
        note(EventKind::TabletsChanged, &changed, "there are other bricks, or a new epoch, of");
        new.into_iter().for_each(|range| store.track(range.table));
        changed.into_iter().for_each(|range| siblings.forget(range));
        // A life may have been heard while a tablet was on its way to the device.
        for known in state_file.newest().map_or(&[][..], |state| &state.lives) {
            tables.hear_of(number(known.brick), Life(known.life));
        }
        for tablet in state.tablets.iter().filter(|tablet| tablet.votes) {
            tables.rebuilt(tablet.range());
        }
        if waiting == 0 {
            (self.entered, self.served) = (count, state.taken);
        }
        self.note_unopened(step, count, waiting);
    }

    /// The table of this name, as an assignment describes it, and its tablets here, with all their bricks.
    pub fn describe(&self, is_meant: impl Fn(&TableState) -> bool) -> Option<(BrickTable, Vec<BrickTablet>)> {
        let state = self.state_file.durable().filter(|_| self.phase == Phase::Serving)?;
        let table = state.tables.iter().find(|table| is_meant(table))?;
        let here = BrickPlace { brick: state.brick, address: self.config.address };
        let its = state.tablets.iter().filter(|tablet| tablet.table == table.table);
        let mut tablets: Vec<BrickTablet> = its.map(|tablet| tablet.whole(here)).collect();
        tablets.sort_unstable_by_key(|tablet| tablet.first);
        Some((table.description(), tablets))
    }
}

/// A changed state, with streams for all its tables, if it makes sense and fits its place.
fn checked(mut state: BrickState) -> Result<BrickState, NotTaken> {
    check(state.brick, &state.tables, &state.tablets).map_err(NotTaken::Wrong)?;
    for table in &state.tables {
        if state.streams.iter().all(|stream| stream.durability != table.durability) {
            let number = state.streams.len() as u16 + 1;
            state.streams.push(StreamState { stream: StreamId(number), durability: table.durability });
        }
    }
    if state.tablets.len() > BRICK_TABLET_COUNT_MAX as usize || !state.fits_with_lives() {
        return Err(NotTaken::TooMany);
    }
    Ok(state)
}

impl Brick {
    pub(crate) fn dropping_deadline(&self) -> Option<Instant> {
        self.droppings.first().map(|dropping| dropping.next)
    }

    pub(crate) fn advance_dropping(&mut self, step: &mut Step<'_>) {
        let Brick { droppings, store: Some(store), tables, .. } = self else { return };
        let Some(dropping) = droppings.first_mut().filter(|dropping| dropping.next <= step.now) else {
            return;
        };
        dropping.next = step.now + DROP_INTERVAL;
        let (range, cursor) = (dropping.range, dropping.cursor);
        let hash_of = |key: &[u8]| tables.hash(range.table, key).unwrap_or_default();
        match store.shard.log.drop_range_step(range, cursor, DROP_BUCKETS, &hash_of) {
            Ok(Some(next)) => dropping.cursor = next,
            Ok(None) => {
                let stream = droppings.remove(0).stream;
                store.stale.left(range.table, stream, &store.shard.log);
                let is_left = droppings.iter().all(|other| other.range.table != range.table);
                if is_left && tables.all().all(|tablet| tablet.range.table != range.table) {
                    store.untrack(range.table);
                    tables.forget(range.table);
                }
            }
            Err(at) => {
                let (segment, offset) = store.shard.log.place_of(at);
                store.shard.note_damage(step, segment, offset);
                self.advance_repairs(step);
            }
        }
    }
}
