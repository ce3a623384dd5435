//! Which tablet is cut, moves or is joined next, when a brick is added to quorum tables or removed from them.
//!
//! A brick that is added takes load from the brick that has most of it. If that one has a single tablet, the tablet is cut,
//! and the new brick takes the upper half; the other bricks of the tablet keep both halves, which the next bricks that are
//! added take from them. So three more bricks make one tablet of three bricks two of three. A brick that is removed gives
//! its tablets to the bricks that have least. Two halves of one prefix that have the same bricks are joined.
//!
//! The order is decided anew before each step, from the tablets and loads of that moment: nothing of a plan is stored.
//!
//! Invariants:
//! - a step changes one tablet: it is cut, or gets one other brick, or is joined with its other half;
//! - no step puts two bricks of a tablet into one failure domain, or a brick into a tablet that it has;
//! - what is added takes nothing that would load it more than the brick that gives.
//!
//! Not here: the loads (`loads`), what a step waits for (`scaling`), its commit (`moving`). Protocol:
//! docs/protocols/quorum.md, rules 56 to 63. Source: DSTORE04 8. Catalogue: I7.

use crate::weight::{part, part_at_slots};
use ramhold_base::hash::slot_of_hash;
use ramhold_base::limits::{BRICK_TABLET_COUNT_MAX, TABLET_COUNT_MAX};
use ramhold_base::{KeyHash, ServerId, TableId};
use ramhold_wire::bricks::BRICK_WEIGHT;
use ramhold_wire::obstacle::{Obstacle, ObstacleKind};
use std::cmp::Reverse;

/// Loads that differ by less than a fifth are the same: they are averages of some seconds.
const ALIKE: (u128, u128) = (4, 5);

/// A tablet with its load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub table: TableId,
    /// It begins and ends at slots.
    pub slots: bool,
    pub first: KeyHash,
    pub last: KeyHash,
    pub bricks: Vec<ServerId>,
    pub load: u64,
    pub bytes: u64,
    /// Puts and gets find their quorums without one of its bricks.
    pub has_spare: bool,
}

/// A brick as far as it can give and take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub brick: ServerId,
    /// The number of its failure domain.
    pub domain: usize,
    pub weight: u16,
    pub free_bytes: u64,
    /// It was heard lately, and is not leaving.
    pub takes: bool,
}

/// Tablets are named by their table and first hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Cut {
        table: TableId,
        first: KeyHash,
    },
    Move {
        table: TableId,
        first: KeyHash,
        old: ServerId,
        new: ServerId,
    },
    /// The tablet is joined with the next one.
    Join {
        table: TableId,
        first: KeyHash,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Step(Step),
    Done,
    Hindered(Obstacle),
}

/// All tablets, in order, and all bricks.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    pub tablets: Vec<Share>,
    pub holders: Vec<Holder>,
}

impl Share {
    fn has(&self, brick: ServerId) -> bool {
        self.bricks.contains(&brick)
    }

    fn halves(&self) -> Option<[(u64, u64); 2]> {
        halves((self.first.0, self.last.0), self.slots)
    }
}

/// The two halves of a range; none if it cannot be cut.
pub fn halves((first, last): (u64, u64), slots: bool) -> Option<[(u64, u64); 2]> {
    let is_one =
        if slots { slot_of_hash(KeyHash(first)) == slot_of_hash(KeyHash(last)) } else { first == last };
    let part = if slots { part_at_slots } else { part };
    (!is_one).then(|| [part(first, last, 0, 2), part(first, last, 1, 2)])
}

/// Whether two ranges are the halves of one that comes about by halving all hashes again and again.
fn are_halves(one: (u64, u64), other: (u64, u64), slots: bool) -> bool {
    let mut whole = (0, u64::MAX);
    while let Some(parts) = halves(whole, slots) {
        if parts == [one, other] {
            return true;
        }
        let within = parts.into_iter().find(|part| part.0 <= one.0 && other.1 <= part.1);
        let Some(within) = within else { return false };
        whole = within;
    }
    false
}

fn hindered(kind: ObstacleKind, brick: ServerId, table: TableId) -> Next {
    Next::Hindered(Obstacle { kind, brick, table })
}

impl Shares {
    fn holder(&self, brick: ServerId) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.brick == brick)
    }

    fn of(&self, brick: ServerId) -> impl Iterator<Item = &Share> {
        self.tablets.iter().filter(move |share| share.has(brick))
    }

    /// The load of a brick, for a brick of the usual weight; `more` is added, or taken away.
    fn load(&self, holder: &Holder, more: i128) -> u128 {
        let all: i128 = self.of(holder.brick).map(|share| i128::from(share.load)).sum();
        let all = u128::try_from(all + more).unwrap_or(0);
        all * u128::from(BRICK_WEIGHT) * 1000 / u128::from(holder.weight.max(1))
    }

    /// Why a brick cannot take a place in a tablet. `bytes`: what it would have to hold.
    fn misfit(&self, share: &Share, old: ServerId, new: &Holder, bytes: u64) -> Option<Obstacle> {
        let about = |kind, brick| Some(Obstacle { kind, brick, table: share.table });
        if !share.has_spare {
            return about(ObstacleKind::NoneToSpare, old);
        }
        if share.has(new.brick) {
            return about(ObstacleKind::HasTablet, new.brick);
        }
        let others = share.bricks.iter().filter(|brick| **brick != old);
        let mut near = others.filter_map(|brick| self.holder(*brick)).filter(|it| it.domain == new.domain);
        if let Some(near) = near.next() {
            return about(ObstacleKind::SameDomain, near.brick);
        }
        if self.of(new.brick).count() >= BRICK_TABLET_COUNT_MAX as usize {
            return about(ObstacleKind::TooManyTablets, new.brick);
        }
        if new.free_bytes < bytes {
            return about(ObstacleKind::TooSmall, new.brick);
        }
        None
    }

    /// The next step until a brick has its share of one table, or of all.
    pub fn adding(&self, new: ServerId, only: Option<TableId>) -> Next {
        let is_meant = |share: &&Share| only.is_none_or(|table| share.table == table);
        let Some(new) = self.holder(new) else { return hindered(ObstacleKind::Unknown, new, TableId(0)) };
        if self.of(new.brick).any(|share| is_meant(&share)) {
            self.more(new, only)
        } else {
            self.first(new, only)
        }
    }

    /// The tablets that a brick could give to another one.
    fn movable(&self, old: ServerId, new: &Holder, only: Option<TableId>, parts: u64) -> Vec<&Share> {
        let meant = self.of(old).filter(|share| only.is_none_or(|table| share.table == table));
        meant.filter(|share| self.misfit(share, old, new, share.bytes / parts).is_none()).collect()
    }

    /// A brick without a tablet takes one of those of the most loaded brick, or half of its only one.
    fn first(&self, new: &Holder, only: Option<TableId>) -> Next {
        let givers = self.holders.iter().filter(|holder| holder.brick != new.brick);
        let givers =
            givers.map(|holder| (self.load(holder, 0), holder, self.movable(holder.brick, new, only, 2)));
        let givers: Vec<_> = givers.filter(|(.., movable)| !movable.is_empty()).collect();
        let Some(most) = givers.iter().map(|(load, ..)| *load).max() else { return self.why_none(new, only) };
        let alike = givers.iter().filter(|(load, ..)| load * ALIKE.1 >= most * ALIKE.0);
        // A tablet that was cut for another brick is given before a further one is cut.
        let order = |(load, holder, movable): &&(u128, &Holder, Vec<&Share>)| {
            (Reverse(movable.len().min(2)), Reverse(*load), holder.brick)
        };
        let (_, giver, movable) = alike.min_by_key(order).expect("the most loaded one is alike");
        let all: u128 = movable.iter().map(|share| u128::from(share.load)).sum();
        let halved = |share: &&&Share| (all.abs_diff(2 * u128::from(share.load)), Reverse(share.first));
        let share = movable.iter().min_by_key(halved).expect("it has one");
        if movable.len() > 1 {
            if let Some(obstacle) = self.misfit(share, giver.brick, new, share.bytes) {
                return Next::Hindered(obstacle);
            }
            let Share { table, first, .. } = **share;
            return Next::Step(Step::Move { table, first, old: giver.brick, new: new.brick });
        }
        self.cut(share)
    }

    fn cut(&self, share: &Share) -> Next {
        let Share { table, first, .. } = *share;
        let count = self.tablets.iter().filter(|other| other.table == table).count();
        let is_full = |brick: &&ServerId| self.of(**brick).count() >= BRICK_TABLET_COUNT_MAX as usize;
        if share.halves().is_none() {
            return hindered(ObstacleKind::TooNarrow, share.bricks[0], table);
        }
        match share.bricks.iter().find(is_full) {
            Some(brick) => hindered(ObstacleKind::TooManyTablets, *brick, table),
            None if count >= TABLET_COUNT_MAX as usize => {
                hindered(ObstacleKind::TooManyTablets, share.bricks[0], table)
            }
            None => Next::Step(Step::Cut { table, first }),
        }
    }

    /// A brick with tablets takes further ones while that relieves a more loaded brick.
    fn more(&self, new: &Holder, only: Option<TableId>) -> Next {
        let mut givers: Vec<_> = self.holders.iter().filter(|holder| holder.brick != new.brick).collect();
        givers.sort_by_key(|holder| (Reverse(self.load(holder, 0)), holder.brick));
        for giver in givers {
            let relieves = |share: &&&Share| {
                let load = i128::from(share.load);
                load > 0 && self.load(new, load) <= self.load(giver, -load)
            };
            let movable = self.movable(giver.brick, new, only, 1);
            if let Some(share) = movable.iter().filter(relieves).max_by_key(|share| (share.load, share.first))
            {
                let Share { table, first, .. } = **share;
                return Next::Step(Step::Move { table, first, old: giver.brick, new: new.brick });
            }
        }
        Next::Done
    }

    /// Why nobody can give a brick anything.
    fn why_none(&self, new: &Holder, only: Option<TableId>) -> Next {
        let meant = self.tablets.iter().filter(|share| only.is_none_or(|table| share.table == table));
        let mut all = meant.flat_map(|share| share.bricks.iter().map(move |old| (share, *old))).peekable();
        if all.peek().is_none() {
            return Next::Done;
        }
        let obstacle = all.find_map(|(share, old)| self.misfit(share, old, new, share.bytes / 2));
        obstacle.map_or(Next::Done, Next::Hindered)
    }

    /// The next step until a brick has no tablet any more, and no two tablets that could be one are left.
    pub fn removing(&self, old: ServerId) -> Next {
        let joined = self.tablets.windows(2).find(|pair| {
            let range = |share: &Share| (share.first.0, share.last.0);
            let [one, other] = pair else { return false };
            one.table == other.table
                && one.bricks == other.bricks
                && are_halves(range(one), range(other), one.slots)
        });
        if let Some([Share { table, first, .. }, _]) = joined {
            return Next::Step(Step::Join { table: *table, first: *first });
        }
        let Some(share) = self.of(old).next() else { return Next::Done };
        match self.taker(share, old) {
            Ok(new) => Next::Step(Step::Move { table: share.table, first: share.first, old, new }),
            Err(obstacle) => Next::Hindered(obstacle),
        }
    }

    /// The first tablet of a brick that no other brick can take, and why.
    pub fn needed(&self, old: ServerId) -> Option<Obstacle> {
        self.of(old).find_map(|share| self.taker(share, old).err())
    }

    /// The brick that takes a place in a tablet: the one that is loaded least then. Among equals it is one that has the
    /// other half.
    fn taker(&self, share: &Share, old: ServerId) -> Result<ServerId, Obstacle> {
        let others = || self.holders.iter().filter(|holder| holder.takes && holder.brick != old);
        let fits = |holder: &&Holder| self.misfit(share, old, holder, share.bytes).is_none();
        let more = i128::from(share.load);
        let Some(least) = others().filter(fits).map(|holder| self.load(holder, more)).min() else {
            let mut why = others().filter_map(|holder| self.misfit(share, old, holder, share.bytes));
            let is_lasting =
                |it: &Obstacle| matches!(it.kind, ObstacleKind::HasTablet | ObstacleKind::SameDomain);
            let lone = Obstacle { kind: ObstacleKind::LastSibling, brick: old, table: share.table };
            return Err(why.find(|it| !is_lasting(it)).unwrap_or(lone));
        };
        let range = |share: &Share| (share.first.0, share.last.0);
        let is_half = |other: &Share| {
            other.table == share.table
                && (are_halves(range(share), range(other), share.slots)
                    || are_halves(range(other), range(share), share.slots))
        };
        let alike = others().filter(fits).filter(|it| self.load(it, more) * ALIKE.0 <= least * ALIKE.1);
        let order = |holder: &&Holder| {
            let has_half = self.of(holder.brick).any(is_half);
            (!has_half, self.load(holder, more), holder.brick)
        };
        Ok(alike.min_by_key(order).expect("the least loaded one is alike").brick)
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
