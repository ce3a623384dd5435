//! Bricks that are silent, and those that are asked in their place.
//!
//! Invariants:
//! - a brick that is silent is asked again, but only when its patience is over, and its question is not under way;
//! - with each one that is missing, one more brick is asked, until all are.

use super::{Get, Phase};
use crate::message::{BrickId, Out, Said};
use ramhold_base::Instant;

impl<V: Clone + PartialEq> Get<V> {
    /// A brick has refused to answer, or its connection is gone. Another one is asked at once, instead of when its
    /// patience is over. The brick itself is asked again then.
    pub fn on_silent(&mut self, now: Instant, brick: BrickId, outs: &mut Vec<Out<V>>) {
        self.under_way.ended(brick);
        if self.asked.contains(&brick) {
            self.refused.insert(brick);
        }
        match &self.phase {
            Phase::Asking => {
                let owes = self.value_from == Some(brick) && !self.has_value(brick);
                let is_silent = self.asked.contains(&brick) && !self.stamps.has(&self.lives, brick);
                if !owes && !is_silent {
                    return;
                }
                let fresh = self.bricks.iter().copied().find(|it| !self.asked.contains(it));
                let value_from = if owes { self.other_for_value(brick, fresh) } else { self.value_from };
                let is_new = |it: &BrickId| Some(*it) == fresh || (owes && *it != brick);
                let mut to_ask: Vec<BrickId> = value_from.filter(is_new).into_iter().collect();
                if is_silent && fresh.is_some() && fresh != value_from {
                    to_ask.extend(fresh);
                }
                self.asked.extend(to_ask.iter().filter(|it| Some(**it) == fresh));
                // All that refuse are asked again in time, and not at the pace of their refusals.
                to_ask.retain(|it| !self.refused.contains(it));
                self.value_from = value_from;
                self.ask(now, to_ask, outs);
            }
            Phase::Repairing { to_all, .. } if !*to_all => {
                let before = self.to_repair();
                if !before.contains(&brick) {
                    return;
                }
                if let Phase::Repairing { to_all, .. } = &mut self.phase {
                    *to_all = true;
                }
                self.repair_those(outs, |to| !before.contains(&to));
            }
            Phase::Repairing { .. } | Phase::Ended => {}
        }
    }

    /// Asks those again that are silent, and for each of them one more brick: also for one that does not hold the key, and
    /// for one that owes a value.
    pub(super) fn ask_on(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        self.refused.clear();
        let is_silent = |brick: BrickId| !self.stamps.has(&self.lives, brick);
        let owes = self.owes();
        let replaced = self.asked.len() - self.reads.min(self.asked.len());
        let more = self.awaited().len().saturating_sub(replaced);
        let silent: Vec<BrickId> = self.asked.iter().copied().filter(|brick| is_silent(*brick)).collect();
        let fresh: Vec<BrickId> =
            self.bricks.iter().copied().filter(|it| !self.asked.contains(it)).take(more).collect();
        let mut value_from = self.value_from;
        if let Some(from) = owes {
            value_from = self.other_for_value(from, fresh.first().copied());
        }
        let mut to_ask: Vec<BrickId> = silent.into_iter().chain(fresh.iter().copied()).collect();
        to_ask.extend(value_from.filter(|from| !to_ask.contains(from) && !self.has_value(*from)));
        self.value_from = value_from;
        self.asked.extend(fresh);
        self.ask(now, to_ask, outs);
    }

    /// The brick that is to tell the value, and has not.
    fn owes(&self) -> Option<BrickId> {
        self.value_from.filter(|from| !self.has_value(*from))
    }

    /// The bricks that were asked and have not told what they are to tell, or do not hold the key.
    pub(super) fn awaited(&self) -> Vec<BrickId> {
        let is_stranger = |brick: BrickId| self.has_told(brick, |said| *said == Said::WrongOwner);
        let is_silent = |brick: BrickId| !self.stamps.has(&self.lives, brick);
        let owes = self.owes();
        let asked = self.asked.iter().copied();
        asked.filter(|it| is_silent(*it) || is_stranger(*it) || owes == Some(*it)).collect()
    }

    /// The brick that is asked for a value which `from` does not tell: one that has the newest, or one that was not
    /// asked.
    fn other_for_value(&self, from: BrickId, fresh: Option<BrickId>) -> Option<BrickId> {
        let is_stranger = |brick: BrickId| self.has_told(brick, |said| *said == Said::WrongOwner);
        let newest = self.newest().1;
        let holds =
            |brick: BrickId| !newest.is_none() && self.has_told(brick, |said| Self::is_holder(said, newest));
        let after = self.bricks.iter().position(|brick| *brick == from).map_or(0, |at| at + 1);
        let around: Vec<BrickId> =
            self.bricks[after..].iter().chain(&self.bricks[..after]).copied().collect();
        let others = || around.iter().copied().filter(|brick| *brick != from);
        let other = others().find(|brick| holds(*brick)).or(fresh);
        other.or_else(|| others().find(|brick| !is_stranger(*brick))).or(Some(from))
    }
}
