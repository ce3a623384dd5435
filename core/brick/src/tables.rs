//! The tables and tablets of a brick, with the register of each tablet.
//!
//! Not here: their durable description (`state`), changes of a tablet's bricks. Catalogue: I1.

use crate::Value;
use crate::question::{Asker, Key};
use crate::state::{BrickState, TableState, TabletState};
use ramhold_base::hash::PlacementHasher;
use ramhold_base::{KeyHash, ServerId, StreamId, TableId};
use ramhold_log::HashRange;
use ramhold_quorum::{Brick as Register, BrickId, Life};
use ramhold_wire::membership::Durability;
use std::collections::{BTreeMap, BTreeSet};

/// A tablet of this brick.
pub(crate) struct Tablet {
    pub range: HashRange,
    pub stream: StreamId,
    pub siblings: Vec<ServerId>,
    pub register: Register<Key, Value, Asker>,
}

#[derive(Default)]
pub(crate) struct Tables {
    hashers: BTreeMap<TableId, PlacementHasher>,
    tablets: Vec<Tablet>,
}

/// A range as a place in an order.
type Place = (TableId, KeyHash, KeyHash);

fn place(range: HashRange) -> Place {
    (range.table, range.first, range.last)
}

/// A brick's number in the register.
pub(crate) fn number(brick: ServerId) -> BrickId {
    BrickId(brick.raw())
}

impl Tables {
    /// Enters the tablets of a state that is durable. The streams of all durabilities must be in it.
    pub fn of(state: &BrickState) -> Tables {
        let mut tables = Tables::default();
        tables.enter(state);
        tables
    }

    /// Removes the tablets that are not in a state any more. Returns their ranges. Their keys can still be hashed.
    pub fn leave(&mut self, state: &BrickState) -> Vec<HashRange> {
        let here: BTreeSet<Place> = state.tablets.iter().map(|tablet| place(tablet.range())).collect();
        let is_gone = |known: &mut Tablet| !here.contains(&place(known.range));
        self.tablets.extract_if(.., is_gone).map(|tablet| tablet.range).collect()
    }

    /// No key of the table has to be hashed any more, unless it has tablets here.
    pub fn forget(&mut self, table: TableId) {
        if self.tablets.iter().all(|tablet| tablet.range.table != table) {
            self.hashers.remove(&table);
        }
    }

    /// Enters the tablets of a state that are not here yet. Returns their ranges.
    pub fn enter(&mut self, state: &BrickState) -> Vec<HashRange> {
        for table in &state.tables {
            self.hashers.entry(table.table).or_insert_with(|| PlacementHasher::new(table.placement()));
        }
        let here: BTreeSet<Place> = self.tablets.iter().map(|known| place(known.range)).collect();
        let is_new = |tablet: &&TabletState| !here.contains(&place(tablet.range()));
        let new: Vec<&TabletState> = state.tablets.iter().filter(is_new).collect();
        new.iter().for_each(|tablet| self.add(state, tablet));
        new.iter().map(|tablet| tablet.range()).collect()
    }

    fn add(&mut self, state: &BrickState, tablet: &TabletState) {
        let table = state.tables.iter().find(|table| table.table == tablet.table);
        let durability = table.expect("a tablet has a table").durability;
        let stream = state.streams.iter().find(|stream| stream.durability == durability);
        let stream = stream.expect("a durability of a table has a stream").stream;
        let life = Life(state.life - 1);
        let mut register = Register::new(number(state.brick), life, tablet.epoch);
        for sibling in &tablet.siblings {
            let known = state.lives.iter().find(|life| life.brick == sibling.brick);
            register.hear_of(number(sibling.brick), Life(known.map_or(0, |known| known.life)));
        }
        register.begin_life(!tablet.votes);
        let siblings = tablet.siblings.iter().map(|sibling| sibling.brick).collect();
        self.tablets.push(Tablet { range: tablet.range(), stream, siblings, register });
    }

    pub fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash> {
        Some(self.hasher(table)?.hash(key))
    }

    pub fn hasher(&self, table: TableId) -> Option<PlacementHasher> {
        self.hashers.get(&table).copied()
    }

    /// The placement hash of a key that a tablet here holds.
    pub fn held_hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash> {
        let hash = self.hash(table, key)?;
        self.tablets.iter().any(|tablet| tablet.range.contains(table, hash)).then_some(hash)
    }

    /// The tablet that holds a hash of a table.
    pub fn find(&mut self, table: TableId, hash: KeyHash) -> Option<&mut Tablet> {
        self.tablets.iter_mut().find(|tablet| tablet.range.contains(table, hash))
    }

    fn exact(&self, range: HashRange) -> Option<&Tablet> {
        self.tablets.iter().find(|tablet| tablet.range == range)
    }

    pub fn stream(&self, range: HashRange) -> Option<StreamId> {
        self.exact(range).map(|tablet| tablet.stream)
    }

    pub fn siblings(&self, range: HashRange) -> Option<&[ServerId]> {
        self.exact(range).map(|tablet| tablet.siblings.as_slice())
    }

    pub fn votes(&self, range: HashRange) -> bool {
        self.exact(range).is_some_and(|tablet| tablet.register.votes())
    }

    /// A tablet votes, as the state on the device says.
    pub fn rebuilt(&mut self, range: HashRange) {
        let its = self.tablets.iter_mut().filter(|tablet| tablet.range == range);
        its.filter(|tablet| !tablet.register.votes()).for_each(|tablet| tablet.register.is_rebuilt());
    }

    /// A sibling's life, which will be on the device before anything is answered that rests on it.
    pub fn hear_of(&mut self, sibling: BrickId, life: Life) {
        let its =
            self.tablets.iter_mut().filter(|tablet| tablet.siblings.iter().any(|it| number(*it) == sibling));
        its.for_each(|tablet| tablet.register.hear_of(sibling, life));
    }

    pub fn in_stream(&mut self, stream: StreamId) -> impl Iterator<Item = &mut Tablet> {
        self.tablets.iter_mut().filter(move |tablet| tablet.stream == stream)
    }

    pub fn all(&self) -> impl Iterator<Item = &Tablet> {
        self.tablets.iter()
    }
}

/// Whether tables and tablets make sense together: typed, for the answer to who wants them.
pub(crate) fn check(
    me: ServerId,
    tables: &[TableState],
    tablets: &[TabletState],
) -> Result<(), &'static str> {
    for table in tables {
        if table.thresholds().is_err() {
            return Err("the numbers of bricks and quorums are no quorum");
        }
        if table.durability == Durability::None {
            return Err("a quorum table is buffered or synced");
        }
    }
    for (at, tablet) in tablets.iter().enumerate() {
        let Some(table) = tables.iter().find(|table| table.table == tablet.table) else {
            return Err("a tablet's table is not known");
        };
        if tablet.siblings.len() + 1 != usize::from(table.bricks) {
            return Err("a tablet has as many bricks as its table says");
        }
        let mut bricks: Vec<ServerId> =
            tablet.siblings.iter().map(|sibling| sibling.brick).chain([me]).collect();
        bricks.sort_unstable();
        bricks.dedup();
        if bricks.len() != usize::from(table.bricks) {
            return Err("the bricks of a tablet are different ones");
        }
        let meets = |other: &TabletState| {
            other.table == tablet.table && other.first <= tablet.last && tablet.first <= other.last
        };
        if tablet.first > tablet.last || tablets[..at].iter().any(meets) {
            return Err("two tablets overlap");
        }
    }
    Ok(())
}
