//! Changes of tablets in a brick's state: tablets that come, get other bricks, or are given up.
//!
//! The coordinator tells of them with an assignment, siblings with their announcements. The higher epoch of a
//! range counts, and an epoch that is not above the own one changes nothing.
//!
//! A tablet that was given up is remembered, with its epoch: an old copy of the coordinator's state may assign it again.
//!
//! Invariants:
//! - a brick votes in a tablet only if it has had part in it without a gap since it last was complete;
//! - two descriptions of a range with the same epoch name the same bricks.
//!
//! Not here: who tells (`taking`, `announcing`), what is served of it (`tables`). Protocol: docs/protocols/quorum.md, rules
//! 50, 53, 54. Catalogue: I1, I6.

use crate::state::{BrickState, TableState, TabletState};
use crate::tables::{covers, meets};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, ServerId};
use ramhold_log::HashRange;
use ramhold_wire::bricks::{BrickTable, GivenUp, Shared};
use ramhold_wire::quorum::BrickTablet;

/// The highest epoch that is believed: epochs never run out.
const EPOCH_BELIEVED_MAX: u64 = u64::MAX / 2;

/// Why a change is not taken: it contradicts what is here.
pub(crate) type Wrong = &'static str;

pub(crate) fn add_tables(state: &mut BrickState, new: &[BrickTable]) -> Result<(), Wrong> {
    for table in new.iter().map(TableState::of) {
        match state.tables.iter().find(|known| known.table == table.table) {
            Some(known) if known != &table => return Err("a table is another one here"),
            Some(_) => {}
            None => state.tables.push(table),
        }
    }
    Ok(())
}

/// Takes a tablet as it was told, unless it is older than what is here. `is_fresh`: a tablet of the first epoch is empty
/// everywhere, so this brick lacks nothing of it.
pub(crate) fn take(state: &mut BrickState, told: &BrickTablet, is_fresh: bool) -> Result<(), Wrong> {
    let me = state.brick;
    let range = range_of(told);
    let is_met = |known: &TabletState| meets(known.range(), range);
    let mut left = state.left.iter().filter(|left| meets(left_range(left), range)).peekable();
    let was_left = left.peek().is_some();
    // Whatever has a higher epoch here was told later.
    let is_old = left.any(|left| left.epoch >= told.epoch)
        || state.tablets.iter().any(|known| is_met(known) && known.epoch > told.epoch);
    if is_old {
        return Ok(());
    }
    if let Some(known) = state.tablets.iter().find(|known| is_met(known) && known.epoch == told.epoch) {
        let is_same = told.bricks.iter().all(|place| place.brick == me || known.is_shared_with(place.brick));
        if !is_same || known.range() != range {
            return Err("two changes of a tablet have one epoch");
        }
        if told.giving.is_none() {
            // It has arrived, or the brick that gave it is gone: nobody stands in any more.
            let same = state.tablets.iter_mut().filter(|known| known.range() == range);
            same.for_each(|known| known.giving = None);
        }
        return Ok(());
    }
    let mut pieces = cut_out(state, range);
    pieces.sort_unstable_by_key(|piece| piece.first);
    let mut tablet = TabletState::of(told, me);
    for sibling in &mut tablet.siblings {
        // It was heard since its loss was accepted.
        let is_heard = |piece: &TabletState| {
            let known = piece.siblings.iter().find(|known| known.brick == sibling.brick);
            known.is_some_and(|known| known.joined == sibling.joined && !known.is_missing)
        };
        sibling.is_missing &= !pieces.iter().any(is_heard);
    }
    if pieces.is_empty() {
        let is_first = told.epoch == 1 || planted(Defect::QuorumHalfVotesEmpty);
        tablet.votes = is_first && is_fresh && !was_left;
        tablet.is_joining = told.epoch > 1 || was_left;
    } else {
        let ranges: Vec<HashRange> = pieces.iter().map(TabletState::range).collect();
        // Between its epoch and the one in which it joined, others may have written without it.
        let has_part = |piece: &TabletState| piece.epoch >= told.joined(me);
        let has_all = covers(&ranges, range) && pieces.iter().all(has_part);
        let has_all = has_all || planted(Defect::QuorumJoinedVotes);
        tablet.votes = has_all && pieces.iter().all(|piece| piece.votes);
        tablet.is_joining = !has_all || pieces.iter().any(|piece| piece.is_joining);
    }
    remember_no_more(state, range);
    state.tablets.push(tablet);
    Ok(())
}

fn range_of(told: &BrickTablet) -> HashRange {
    HashRange { table: told.table, first: told.first, last: told.last }
}

fn left_range(left: &GivenUp) -> HashRange {
    HashRange { table: left.table, first: left.first, last: left.last }
}

/// Takes what the tablets of a state have of a range out of it. The rest of them stays, as tablets of its own.
fn cut_out(state: &mut BrickState, range: HashRange) -> Vec<TabletState> {
    let met: Vec<TabletState> = state.tablets.extract_if(.., |it| meets(it.range(), range)).collect();
    let mut pieces = Vec::new();
    for tablet in met {
        if tablet.first < range.first {
            state.tablets.push(TabletState { last: KeyHash(range.first.0 - 1), ..tablet.clone() });
        }
        if tablet.last > range.last {
            state.tablets.push(TabletState { first: KeyHash(range.last.0 + 1), ..tablet.clone() });
        }
        let (first, last) = (tablet.first.max(range.first), tablet.last.min(range.last));
        pieces.push(TabletState { first, last, ..tablet });
    }
    pieces
}

/// Forgets that a range was given up, but not the rest of what was given up with it.
fn remember_no_more(state: &mut BrickState, range: HashRange) {
    let met: Vec<GivenUp> = state.left.extract_if(.., |left| meets(left_range(left), range)).collect();
    for left in met {
        if left.first < range.first {
            state.left.push(GivenUp { last: KeyHash(range.first.0 - 1), ..left });
        }
        if left.last > range.last {
            state.left.push(GivenUp { first: KeyHash(range.last.0 + 1), ..left });
        }
    }
}

/// Gives tablets, or parts of them, up that other bricks have under a higher epoch.
pub(crate) fn give_up(state: &mut BrickState, given_up: &[GivenUp]) {
    for it in given_up {
        let mut pieces = cut_out(state, left_range(it));
        if planted(Defect::QuorumGivenUpAnswers) {
            pieces.iter_mut().for_each(|known| known.epoch = known.epoch.max(it.epoch));
        }
        let (kept, gone): (Vec<TabletState>, Vec<TabletState>) =
            pieces.into_iter().partition(|known| known.epoch >= it.epoch);
        state.tablets.extend(kept);
        if !gone.is_empty() {
            remember_no_more(state, left_range(it));
            state.left.push(*it);
        }
    }
    let BrickState { tables, tablets, .. } = state;
    let is_gone = |table: &TableState| {
        given_up.iter().any(|it| it.table == table.table)
            && tablets.iter().all(|tablet| tablet.table != table.table)
    };
    tables.retain(|table| !is_gone(table));
}

/// Takes what a sibling tells of the tablets that it shares with this brick.
pub(crate) fn take_shared(state: &mut BrickState, from: ServerId, shared: &Shared) -> Result<(), Wrong> {
    for told in &shared.tablets {
        let has = |brick| told.bricks.iter().any(|place| place.brick == brick);
        if !has(from) || !has(state.brick) || told.epoch > EPOCH_BELIEVED_MAX {
            continue;
        }
        let range = range_of(told);
        hears(state, from, range, told.epoch);
        let mut known = state.tablets.iter().filter(|known| meets(known.range(), range)).peekable();
        let is_news = match known.peek() {
            Some(_) => known.all(|known| known.is_shared_with(from) && known.epoch < told.epoch),
            // A tablet that is not above the assignment that was taken may have been dropped since.
            None => told.epoch > state.taken && told.epoch > 1,
        };
        if is_news {
            let table = shared.tables.iter().find(|table| table.table == told.table);
            add_tables(state, table.map_or(&[], std::slice::from_ref))?;
            take(state, told, false)?;
        }
    }
    Ok(())
}

/// A sibling has a tablet under this epoch. If its loss was accepted, others wait for it again.
pub(crate) fn hears(state: &mut BrickState, from: ServerId, range: HashRange, epoch: u64) {
    let same = |known: &&mut TabletState| known.range() == range && known.epoch == epoch;
    let siblings = state.tablets.iter_mut().filter(same).flat_map(|tablet| &mut tablet.siblings);
    siblings.filter(|sibling| sibling.brick == from).for_each(|sibling| sibling.is_missing = false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::hash::PlacementSeed;
    use ramhold_base::{ClusterId, TableId};
    use ramhold_wire::control::Address;
    use ramhold_wire::membership::Durability;
    use ramhold_wire::quorum::{BrickPlace, Joined, QuorumOptions, WriteProtocol};

    const ME: u64 = 1;
    const TABLE: TableId = TableId(4);
    const MIDDLE: u64 = 1000;

    fn state() -> BrickState {
        BrickState {
            cluster: ClusterId(1),
            brick: ServerId(ME),
            index_secret: 0,
            life: 1,
            mark: 1,
            tables: vec![TableState::of(&table())],
            tablets: Vec::new(),
            lives: Vec::new(),
            streams: Vec::new(),
            taken: 3,
            place: 0,
            was_moved: false,
            left: Vec::new(),
            others: Vec::new(),
        }
    }

    fn table() -> BrickTable {
        let quorum = QuorumOptions { bricks: 3, write: 2, read: 2, protocol: WriteProtocol::Adaptive };
        let (name, durability) = ("t".into(), Durability::Buffered);
        BrickTable { table: TABLE, name, seed: PlacementSeed(1), slots: false, durability, quorum }
    }

    /// A tablet of these bricks. One of them may have joined with its epoch.
    fn told((first, last): (u64, u64), epoch: u64, bricks: [u64; 3], joined: Option<u64>) -> BrickTablet {
        let address = Address("127.0.0.1:1".parse().expect("an address"));
        let joined = joined.map(|brick| Joined { brick: ServerId(brick), epoch, is_lost: false });
        BrickTablet {
            table: TABLE,
            first: KeyHash(first),
            last: KeyHash(last),
            epoch,
            bricks: bricks.map(|brick| BrickPlace { brick: ServerId(brick), address }).to_vec(),
            joined: joined.into_iter().collect(),
            giving: None,
        }
    }

    /// First hash, epoch and vote of each tablet, in order.
    fn held(state: &BrickState) -> Vec<(u64, u64, bool)> {
        let mut held: Vec<_> = state.tablets.iter().map(|it| (it.first.0, it.epoch, it.votes)).collect();
        held.sort_unstable();
        held
    }

    const ALL: (u64, u64) = (0, u64::MAX);
    const HIGH: (u64, u64) = (MIDDLE, u64::MAX);

    // I7: the parts of a tablet go on with its vote, and the whole does if all parts voted.
    #[test]
    fn tablets_are_cut_and_joined() {
        let mut state = state();
        take(&mut state, &told(ALL, 1, [1, 2, 3], None), true).expect("it is the first");
        take(&mut state, &told(HIGH, 5, [1, 2, 4], Some(4)), false).expect("a part of it");
        assert_eq!(held(&state), [(0, 1, true), (MIDDLE, 5, true)]);
        take(&mut state, &told(ALL, 1, [1, 2, 3], None), true).expect("it is old");
        assert_eq!(held(&state), [(0, 1, true), (MIDDLE, 5, true)]);
        state.tablets.iter_mut().for_each(|tablet| tablet.votes &= tablet.first.0 == 0);
        let mut whole = state.clone();
        take(&mut whole, &told(ALL, 7, [1, 2, 4], Some(4)), false).expect("both parts are here");
        assert_eq!(held(&whole), [(0, 7, false)], "one part does not vote yet");
        state.tablets.iter_mut().for_each(|tablet| tablet.votes = true);
        take(&mut state, &told(ALL, 7, [1, 2, 4], Some(4)), false).expect("both parts are here");
        assert_eq!(held(&state), [(0, 7, true)]);
        assert!(take(&mut state, &told(ALL, 7, [1, 2, 5], None), false).is_err(), "one epoch, other bricks");
    }

    // I7: who has one half only is rebuilt before it votes for the whole.
    #[test]
    fn a_part_is_given_up_and_comes_back() {
        let mut state = state();
        take(&mut state, &told(ALL, 1, [1, 2, 3], None), true).expect("it is the first");
        let (first, last) = (KeyHash(MIDDLE), KeyHash(u64::MAX));
        give_up(&mut state, &[GivenUp { table: TABLE, first, last, epoch: 6 }]);
        assert_eq!(held(&state), [(0, 1, true)]);
        take(&mut state, &told(HIGH, 1, [1, 2, 3], None), true).expect("of an old copy");
        assert_eq!(held(&state), [(0, 1, true)], "it is not believed");
        let mut whole = state.clone();
        take(&mut whole, &told(ALL, 8, [1, 2, 3], None), false).expect("one part is here");
        assert_eq!(held(&whole), [(0, 8, false)]);
        assert!(whole.tablets[0].is_joining && whole.left.is_empty());
        let quarter = (MIDDLE, 2 * MIDDLE - 1);
        take(&mut state, &told(quarter, 9, [1, 2, 3], Some(ME)), false).expect("a part of it");
        assert_eq!(held(&state), [(0, 1, true), (MIDDLE, 9, false)]);
        assert_eq!(state.left.iter().map(|left| left.first.0).collect::<Vec<_>>(), [2 * MIDDLE]);
        give_up(&mut state, &[GivenUp { table: TABLE, first: KeyHash(0), last, epoch: 10 }]);
        assert_eq!(
            (held(&state), state.tables.len()),
            (Vec::new(), 0),
            "the table goes with its last tablet"
        );
    }

    // I4: only a brick of the tablet is believed, and nothing that may have been dropped since.
    #[test]
    fn words_of_siblings_are_taken_if_they_are_news() {
        let mut state = state();
        take(&mut state, &told(ALL, 1, [1, 2, 3], None), true).expect("it is the first");
        let mut hear = |from, tablet: BrickTablet| {
            let shared = Shared { tables: vec![table()], tablets: vec![tablet] };
            take_shared(&mut state, ServerId(from), &shared).expect("it makes sense");
            held(&state)
        };
        assert_eq!(hear(9, told(ALL, 5, [1, 2, 9], Some(9))), [(0, 1, true)], "a stranger");
        assert_eq!(hear(2, told(ALL, u64::MAX, [1, 2, 4], Some(4))), [(0, 1, true)], "epochs would run out");
        assert_eq!(hear(2, told(ALL, 5, [2, 3, 4], Some(4))), [(0, 1, true)], "it is not for this brick");
        assert_eq!(hear(2, told(ALL, 5, [1, 2, 4], Some(4))), [(0, 5, true)]);
        let other = |epoch| BrickTablet { table: TableId(7), ..told(ALL, epoch, [1, 2, 4], Some(ME)) };
        assert_eq!(hear(2, other(3)).len(), 1, "it was dropped with assignment 3");
    }
}
