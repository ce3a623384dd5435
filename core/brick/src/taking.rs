//! Tables and tablets that the coordinator gives this brick, and takes away.
//!
//! A brick keeps what it has, whatever an assignment leaves out: only a table that is named as dropped goes. An old copy of
//! a coordinator's state can so take nothing away.
//!
//! Invariant: an assignment counts as taken when all of it is on the device and is served.
//!
//! Not here: which brick gets which tablet (core/coordinator). Protocol: docs/protocols/quorum.md, rule 17. Catalogue: I1.

use crate::Brick;
use crate::dropping::Dropping;
use crate::phase::Phase;
use crate::state::{BrickState, StreamState, TableState, TabletState};
use crate::tables::{Tablet, check, number};
use ramhold_base::limits::BRICK_TABLET_COUNT_MAX;
use ramhold_base::{Effects, Instant, Level, StreamId};
use ramhold_quorum::Life;
use ramhold_wire::Step;
use ramhold_wire::bricks::{BrickAssignment, BrickTable};
use ramhold_wire::quorum::{BrickPlace, BrickTablet, QuorumOptions};
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
        let state = self.state_file.durable().filter(|_| self.phase == Phase::Serving);
        state.filter(|_| self.entered == self.state_file.durable_count()).map_or(0, |state| state.taken)
    }

    /// The number of tablets that are being rebuilt.
    pub fn rebuilding_count(&self) -> usize {
        self.tables.all().filter(|tablet| !tablet.register.votes()).count()
    }

    /// The number of tablets that do not vote: they are being rebuilt, or too few siblings have told their time.
    pub fn silent_count(&self) -> usize {
        let votes = |tablet: &Tablet| tablet.register.votes() && self.clock.is_known(&tablet.siblings);
        self.tables.all().filter(|tablet| !votes(tablet)).count()
    }

    /// Takes an assignment of the coordinator. It is served when it is on the device (`taken`).
    pub fn assign(&mut self, assignment: &BrickAssignment, effects: &mut Effects) -> Result<(), NotTaken> {
        let Some(before) = self.state_file.newest().filter(|_| self.phase == Phase::Serving) else {
            return Err(NotTaken::NotReady);
        };
        let mut state = before.clone();
        state.tables.retain(|table| !assignment.dropped.contains(&table.table));
        state.tablets.retain(|tablet| !assignment.dropped.contains(&tablet.table));
        add_tables(&mut state, &assignment.tables)?;
        // Nobody knows what the original has acknowledged in tablets that its copy lacks.
        add_tablets(&mut state, &assignment.tablets, !before.was_moved);
        state.was_moved = false;
        check(state.brick, &state.tables, &state.tablets).map_err(NotTaken::Wrong)?;
        if state.tablets.len() > BRICK_TABLET_COUNT_MAX as usize || !state.fits_with_lives() {
            return Err(NotTaken::TooMany);
        }
        for table in &state.tables {
            if state.streams.iter().all(|stream| stream.durability != table.durability) {
                let number = state.streams.len() as u16 + 1;
                state.streams.push(StreamState { stream: StreamId(number), durability: table.durability });
            }
        }
        state.taken = assignment.version;
        if &state != before {
            for table in state.tables.iter().filter(|table| !before.tables.contains(table)) {
                effects.report(Level::Info, format!("table {} is held here", table.name));
            }
            self.state_file.want(state, effects);
        }
        Ok(())
    }

    /// Serves what has been added to the state and is on the device, and stops serving what is gone from it.
    pub(crate) fn enter_new(&mut self, step: &mut Step<'_>) {
        let count = self.state_file.durable_count();
        if self.entered == count {
            return;
        }
        let Brick { state_file, store: Some(store), tables, siblings, droppings, .. } = self else { return };
        let Some(state) = state_file.durable() else { return };
        for range in tables.leave(state) {
            siblings.forget(range);
            droppings.push(Dropping::new(range));
        }
        for stream in &state.streams {
            if store.shard.class_of(stream.stream).is_none() {
                if !store.shard.log.may_roll(1) {
                    // Memory is short now: its tablets wait.
                    store.clean_for_room(step, tables);
                    return;
                }
                store.open_stream(stream);
                store.roll(step, tables, stream.stream).expect("there is room for its opening");
            }
        }
        let new = tables.enter(state);
        if !new.is_empty() {
            siblings.announce_at = step.now;
        }
        for range in new {
            store.shard.log.track(range);
        }
        // A life may have been heard while a tablet was on its way to the device.
        for known in state_file.newest().map_or(&[][..], |state| &state.lives) {
            tables.hear_of(number(known.brick), Life(known.life));
        }
        for tablet in state.tablets.iter().filter(|tablet| tablet.votes) {
            tables.rebuilt(tablet.range());
        }
        self.entered = count;
    }

    /// The table of this name, as an assignment describes it, and its tablets here, with all their bricks.
    pub fn describe(&self, is_meant: impl Fn(&TableState) -> bool) -> Option<(BrickTable, Vec<BrickTablet>)> {
        let state = self.state_file.durable().filter(|_| self.phase == Phase::Serving)?;
        let table = state.tables.iter().find(|table| is_meant(table))?;
        let here = BrickPlace { brick: state.brick, address: self.config.address };
        let mut tablets: Vec<BrickTablet> = state
            .tablets
            .iter()
            .filter(|tablet| tablet.table == table.table)
            .map(|tablet| {
                let others =
                    tablet.siblings.iter().map(|it| BrickPlace { brick: it.brick, address: it.address });
                let mut bricks: Vec<BrickPlace> = others.chain([here]).collect();
                bricks.sort_unstable();
                let TabletState { table, first, last, epoch, .. } = *tablet;
                BrickTablet { table, first, last, epoch, bricks }
            })
            .collect();
        tablets.sort_unstable_by_key(|tablet| tablet.first);
        Some((description(table), tablets))
    }
}

fn description(table: &TableState) -> BrickTable {
    BrickTable {
        table: table.table,
        name: table.name.clone(),
        seed: table.seed,
        slots: table.slots,
        durability: table.durability,
        quorum: QuorumOptions {
            bricks: table.bricks,
            write: table.write_quorum,
            read: table.read_quorum,
            protocol: table.protocol,
        },
    }
}

fn add_tables(state: &mut BrickState, new: &[BrickTable]) -> Result<(), NotTaken> {
    for table in new.iter().map(TableState::of) {
        match state.tables.iter().find(|known| known.table == table.table) {
            Some(known) if known != &table => {
                return Err(NotTaken::Wrong("a table is another one here"));
            }
            Some(_) => {}
            None => state.tables.push(table),
        }
    }
    Ok(())
}

fn add_tablets(state: &mut BrickState, new: &[BrickTablet], votes: bool) {
    for tablet in new {
        let tablet = TabletState { votes, ..TabletState::of(tablet, state.brick) };
        let is_here = |known: &TabletState| (known.range(), known.epoch) == (tablet.range(), tablet.epoch);
        if !state.tablets.iter().any(is_here) {
            state.tablets.push(tablet);
        }
    }
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
                store.shard.log.untrack(range);
                droppings.remove(0);
                if droppings.iter().all(|other| other.range.table != range.table) {
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
