//! The tables and tablets of a brick, with the register of each tablet.
//!
//! Not here: their durable description (`state`), how it changes (`changes`). Catalogue: I1.

use crate::Value;
use crate::question::{Asker, Key};
use crate::state::{BrickState, TableState, TabletState};
use crate::tablet_load::Load;
use ramhold_base::hash::{self, PlacementHasher};
use ramhold_base::{KeyHash, ServerId, StreamId, TableId};
use ramhold_log::HashRange;
use ramhold_quorum::{Brick as Register, BrickId, Life};
use ramhold_wire::membership::Durability;
use std::collections::{BTreeMap, BTreeSet};

/// A tablet of this brick.
pub(crate) struct Tablet {
    pub range: HashRange,
    epoch: u64,
    pub stream: StreamId,
    pub siblings: Vec<ServerId>,
    pub register: Register<Key, Value, Asker>,
    pub load: Load,
}

impl Tablet {
    /// This one and another one become one. It votes if both did.
    fn join(&mut self, other: Tablet) {
        self.epoch = self.epoch.min(other.epoch);
        self.register.join(other.register);
        self.load.add(other.load);
    }
}

/// Whether ranges in order cover another one without a gap; they are within it.
pub(crate) fn covers(pieces: &[HashRange], range: HashRange) -> bool {
    hash::covers(pieces.iter().map(|piece| (piece.first, piece.last)), (range.first, range.last))
}

#[derive(Default)]
pub(crate) struct Tables {
    hashers: BTreeMap<TableId, PlacementHasher>,
    tablets: Vec<Tablet>,
}

/// Whether two ranges have a hash in common.
pub(crate) fn meets(one: HashRange, other: HashRange) -> bool {
    one.table == other.table && one.first <= other.last && other.first <= one.last
}

/// A range as a place in an order.
type Place = (TableId, KeyHash, KeyHash);

fn place(range: HashRange) -> Place {
    (range.table, range.first, range.last)
}

/// Ranges of tablets that have come with a state.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    pub new: Vec<HashRange>,
    /// They have other bricks than before.
    pub changed: Vec<HashRange>,
    /// The number of those that were left out, since their stream is not open.
    pub waiting: usize,
}

fn siblings_of(tablet: &TabletState) -> Vec<ServerId> {
    tablet.siblings.iter().map(|sibling| sibling.brick).collect()
}

fn lives_of(state: &BrickState, tablet: &TabletState) -> BTreeMap<BrickId, Life> {
    let life = |brick| state.lives.iter().find(|known| known.brick == brick).map_or(0, |known| known.life);
    tablet.siblings.iter().map(|it| (number(it.brick), Life(life(it.brick)))).collect()
}

fn register_of(state: &BrickState, tablet: &TabletState) -> Register<Key, Value, Asker> {
    let mut register = Register::new(number(state.brick), Life(state.life - 1), tablet.epoch);
    register.change(tablet.epoch, lives_of(state, tablet));
    register.begin_life(!tablet.votes);
    register
}

/// The stream of a tablet's records.
fn stream_of(state: &BrickState, tablet: &TabletState) -> StreamId {
    let table = state.tables.iter().find(|table| table.table == tablet.table);
    let durability = table.expect("a tablet has a table").durability;
    let stream = state.streams.iter().find(|stream| stream.durability == durability);
    stream.expect("a durability of a table has a stream").stream
}

/// A brick's number in the register.
pub(crate) fn number(brick: ServerId) -> BrickId {
    BrickId(brick.raw())
}

impl Tables {
    /// Enters the tablets of a state that is durable, all of whose streams are open. Those of all durabilities must be in it.
    pub fn of(state: &BrickState) -> Tables {
        let mut tables = Tables::default();
        tables.enter(state, |_| true);
        tables
    }

    /// Cuts and joins tablets as a state has them; what is in none of its tablets is cut off, and goes with `leave`.
    /// Returns the ranges that were cut or joined.
    pub fn align(&mut self, state: &BrickState) -> Vec<HashRange> {
        let mut aligned = Vec::new();
        for range in state.tablets.iter().map(TabletState::range) {
            if self.exact(range).is_some() {
                continue;
            }
            for at in [range.first.0.checked_sub(1), Some(range.last.0)].into_iter().flatten() {
                aligned.extend(self.cut_behind(range.table, KeyHash(at)));
            }
            let within = |known: &Tablet| meets(known.range, range);
            let mut pieces: Vec<HashRange> =
                self.tablets.iter().filter(|it| within(it)).map(|it| it.range).collect();
            pieces.sort_unstable_by_key(|piece| piece.first);
            if pieces.len() > 1 && covers(&pieces, range) {
                let mut joined: Vec<Tablet> = self.tablets.extract_if(.., |it| within(it)).collect();
                let mut first = joined.pop().expect("there are several");
                joined.into_iter().for_each(|other| first.join(other));
                first.range = range;
                self.tablets.push(first);
                aligned.push(range);
            }
        }
        aligned
    }

    /// Cuts the tablet in two that has this hash and the one behind it. Returns its range.
    fn cut_behind(&mut self, table: TableId, hash: KeyHash) -> Option<HashRange> {
        let hasher = self.hasher(table)?;
        let is_cut = |range: HashRange| range.contains(table, hash) && range.last > hash;
        let known = self.tablets.iter_mut().find(|known| is_cut(known.range))?;
        let before = known.range;
        let second = HashRange { first: KeyHash(hash.0 + 1), ..before };
        known.range.last = hash;
        let register = known.register.cut(|key| hasher.hash(key) > hash);
        let Tablet { epoch, stream, .. } = *known;
        let (siblings, load) = (known.siblings.clone(), known.load.halve());
        self.tablets.push(Tablet { range: second, epoch, stream, siblings, register, load });
        Some(before)
    }

    /// Removes the tablets that are not in a state any more. Returns their ranges and streams. Their keys can still be
    /// hashed.
    pub fn leave(&mut self, state: &BrickState) -> Vec<(HashRange, StreamId)> {
        let here: BTreeSet<Place> = state.tablets.iter().map(|tablet| place(tablet.range())).collect();
        let is_gone = |known: &mut Tablet| !here.contains(&place(known.range));
        self.tablets.extract_if(.., is_gone).map(|tablet| (tablet.range, tablet.stream)).collect()
    }

    /// No key of the table has to be hashed any more, unless it has tablets here.
    pub fn forget(&mut self, table: TableId) {
        if self.tablets.iter().all(|tablet| tablet.range.table != table) {
            self.hashers.remove(&table);
        }
    }

    /// Enters the tablets of a state that are not here yet, if their streams are open, and those whose bricks have changed.
    pub fn enter(&mut self, state: &BrickState, is_open: impl Fn(StreamId) -> bool) -> Entered {
        for table in &state.tables {
            self.hashers.entry(table.table).or_insert_with(|| PlacementHasher::new(table.placement()));
        }
        let here: BTreeMap<Place, u64> =
            self.tablets.iter().map(|known| (place(known.range), known.epoch)).collect();
        let mut entered = Entered::default();
        for tablet in &state.tablets {
            match here.get(&place(tablet.range())) {
                None if !is_open(stream_of(state, tablet)) => entered.waiting += 1,
                None => {
                    self.add(state, tablet);
                    entered.new.push(tablet.range());
                }
                Some(epoch) if *epoch < tablet.epoch => {
                    self.change(state, tablet);
                    entered.changed.push(tablet.range());
                }
                Some(_) => {}
            }
        }
        entered
    }

    fn add(&mut self, state: &BrickState, tablet: &TabletState) {
        let stream = stream_of(state, tablet);
        let register = register_of(state, tablet);
        let (range, epoch, siblings) = (tablet.range(), tablet.epoch, siblings_of(tablet));
        self.tablets.push(Tablet { range, epoch, stream, siblings, register, load: Load::default() });
    }

    /// A tablet has other bricks. If this one has joined again, it does not vote any more.
    fn change(&mut self, state: &BrickState, tablet: &TabletState) {
        let range = tablet.range();
        let Some(known) = self.tablets.iter_mut().find(|known| known.range == range) else { return };
        (known.epoch, known.siblings) = (tablet.epoch, siblings_of(tablet));
        if known.register.votes() && !tablet.votes {
            known.register = register_of(state, tablet);
        } else {
            known.register.change(tablet.epoch, lives_of(state, tablet));
        }
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

    /// The epoch under which a tablet is answered.
    pub fn epoch(&self, range: HashRange) -> Option<u64> {
        self.exact(range).map(|tablet| tablet.epoch)
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

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Tablet> {
        self.tablets.iter_mut()
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
        let is_shared = |other: &TabletState| meets(other.range(), tablet.range());
        if tablet.first > tablet.last || tablets[..at].iter().any(is_shared) {
            return Err("two tablets overlap");
        }
    }
    Ok(())
}
