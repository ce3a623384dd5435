//! The questions of a rebuilding to siblings, and to the brick that stands in.
//!
//! Not here: answers (`rebuild`), what is decided of them (`deciding`). Protocol: docs/protocols/quorum.md, rules 16, 61 and
//! 82. Catalogue: I6.

use super::{Asked, Call, Me, PAGE_TIMEOUT, Phase, Rebuilding};
use crate::pages::first_keys;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, ServerId};
use ramhold_log::HashRange;
use ramhold_wire::Step;
use ramhold_wire::bricks::{PageWanted, TabletPage};

impl Rebuilding {
    pub(super) fn stands_in(&self, brick: ServerId) -> bool {
        self.stand_in.is_some_and(|it| it.giver == brick)
    }

    /// Whether the brick that stands in counts: the one that takes the tablet has never voted.
    pub(super) fn may_stand_in(&self) -> bool {
        let is_new =
            |taker: ServerId| self.pages.get(&taker).is_some_and(|page| !page.votes && page.is_joining);
        let is_new = |taker| is_new(taker) || planted(Defect::QuorumStandInAlways);
        self.stand_in.is_some_and(|it| it.taker.is_none_or(is_new))
    }

    /// The brick that stands in, if too few siblings vote, or are silent.
    fn wanted_stand_in(&self, now: Instant) -> Option<ServerId> {
        let is_for_stamps = matches!(self.phase, Phase::Asking { .. });
        let voteless = self.pages.values().filter(|page| !page.votes).count();
        let is_late = self.moved_at.is_some_and(|moved| moved + PAGE_TIMEOUT <= now);
        let is_short = is_late || self.siblings.len() - voteless.min(self.siblings.len()) < self.reads;
        self.stand_in.filter(|_| is_for_stamps && is_short && self.may_stand_in()).map(|it| it.giver)
    }

    pub(super) fn ask_stamps(&mut self, step: &Step<'_>, from: u64, me: Me, calls: &mut Vec<Call>) {
        let asked: Vec<ServerId> =
            self.siblings.iter().copied().chain(self.wanted_stand_in(step.now)).collect();
        for sibling in asked {
            if !self.asked.contains_key(&sibling) && !self.pages.contains_key(&sibling) {
                self.send(step.now, sibling, PageWanted::Stamps { from, on_device: false }, me, calls);
            }
        }
    }

    pub(super) fn ask_values(&mut self, step: &Step<'_>, me: Me, calls: &mut Vec<Call>) {
        let Phase::Fetching { stretch, .. } = &self.phase else { return };
        let by_holder = stretch.missing();
        for (holder, keys) in by_holder {
            if !self.asked.contains_key(&holder) {
                let keys = first_keys(keys);
                self.send(step.now, holder, PageWanted::Values { keys }, me, calls);
            }
        }
    }

    fn send(&mut self, now: Instant, to: ServerId, wanted: PageWanted, me: Me, calls: &mut Vec<Call>) {
        self.number += 1;
        let is_for_values = matches!(wanted, PageWanted::Values { .. });
        let until = now + self.patience;
        self.asked.insert(to, Asked { number: self.number, until, is_for_values });
        let HashRange { table, first, last } = self.range;
        let epoch = self.epoch;
        let stands_in = self.stands_in(to);
        let ask = TabletPage { table, first, last, epoch, life: me.life, mark: me.mark, wanted, stands_in };
        calls.push(Call { to, number: self.number, ask });
    }
}
