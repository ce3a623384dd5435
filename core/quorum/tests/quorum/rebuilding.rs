//! Bricks of the model that are rebuilt: after they have forgotten something, or because they take the place of another.
//!
//! A change of bricks has one moment, at which the coordinator stores it. The bricks that stay hear of it one after the
//! other, the one that goes late or never, and the new one at some time. It asks which of the others have the new epoch,
//! and is rebuilt when so many have it that the rest is no quorum (rule 51).

use crate::model::{DATE, Event, Host, MILLI, Model, Power, Time};
use crate::shelf::{KEY, Memory};
use ramhold_base::planted::{Defect, planted};
use ramhold_quorum::{Brick, BrickId, Life, REBUILT_BOUND, Rebuild, Shelf, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// A brick that is rebuilt.
pub(crate) struct Rebuilding {
    /// Answers to the questions of an earlier stage do not count.
    stage: u32,
    /// Others that have the new epoch; none: they need not be counted any more.
    witnesses: Option<BTreeSet<usize>>,
    rebuild: Rebuild<u64>,
}

/// One brick takes the place of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub old: usize,
    pub new: usize,
    pub at: Time,
}

/// The epoch after the change.
const EPOCH: u64 = 2;

impl Move {
    /// The bricks after the change, in the place of these.
    pub fn after(&self, bricks: &[BrickId]) -> Vec<BrickId> {
        let of = |brick: &BrickId| if brick.0 == self.old as u64 { BrickId(self.new as u64) } else { *brick };
        bricks.iter().map(of).collect()
    }
}

impl Model {
    pub(crate) fn plan_move(&mut self) {
        if !self.setting.moves {
            return;
        }
        let (new, at) = (self.hosts.len(), self.rng.between(20 * MILLI, 120 * MILLI));
        let old = self.rng.below(new as u64) as usize;
        self.moving = Some(Move { old, new, at });
        let mut brick = Brick::new(BrickId(new as u64), Life(0), EPOCH);
        brick.begin_life(true);
        let memory = Memory::new(self.setting.power == Power::AllSynced);
        let (away, stands_aside) = (vec![(0, at)], false);
        self.hosts.push(Host { brick, memory, away, rebuilding: None, stands_aside });
        // It alone would be a read quorum: it is destroyed before anybody may take its place (rule 52).
        let is_destroyed = self.setting.read == 1;
        if is_destroyed {
            self.hosts[old].away.push((at, Time::MAX));
        }
        for brick in 0..=new {
            let after = match brick == old {
                // It may never hear.
                true if is_destroyed || self.rng.chance(1, 3) => continue,
                true => self.rng.between(MILLI, 400 * MILLI),
                false => self.rng.between(MILLI, 60 * MILLI),
            };
            self.at(at + after, Event::Change { brick });
        }
    }

    /// The others of a brick, in the epoch that it has.
    fn others(&self, brick: usize) -> Vec<usize> {
        let all: Vec<BrickId> = (0..self.setting.bricks).map(|id| BrickId(u64::from(id))).collect();
        let is_new = self.moving.is_some_and(|it| it.new == brick || self.has_changed(brick));
        let all = match self.moving {
            Some(it) if is_new => it.after(&all),
            _ => all,
        };
        all.into_iter().map(|id| id.0 as usize).filter(|id| *id != brick).collect()
    }

    fn has_changed(&self, brick: usize) -> bool {
        self.hosts[brick].brick.told(0, ()).epoch == EPOCH
    }

    /// A brick hears of the change. One that is away hears when it is back.
    pub(crate) fn change(&mut self, brick: usize) {
        let Some(it) = self.moving else { return };
        if self.is_away(brick) {
            let again = self.now + 10 * MILLI;
            return self.at(again, Event::Change { brick });
        }
        if brick == it.old {
            self.hosts[brick].stands_aside = true;
            return;
        }
        if brick == it.new {
            let life = self.hosts[brick].brick.life();
            let witnesses = Some(BTreeSet::new()).filter(|_| !planted(Defect::QuorumJoinedUnwitnessed));
            return self.begin_rebuilding(brick, life, witnesses);
        }
        let new = BrickId(it.new as u64);
        let host = &mut self.hosts[brick];
        let known = host.brick.told(0, ()).siblings;
        let kept = known.into_iter().filter(|(sibling, _)| sibling.0 != it.old as u64);
        let siblings: BTreeMap<BrickId, Life> = kept.chain([(new, Life(1))]).collect();
        host.brick.change(EPOCH, siblings);
    }

    pub(crate) fn boot(&mut self, brick: usize) {
        let has_forgotten = matches!(self.setting.power, Power::OneForgets | Power::InTurn);
        let host = &mut self.hosts[brick];
        host.brick.begin_life(has_forgotten);
        if !host.brick.votes() {
            let life = host.brick.life();
            self.begin_rebuilding(brick, life, None);
            // Its power may go again before it is rebuilt.
            if self.setting.power == Power::InTurn && life == Life(2) && self.rng.chance(1, 3) {
                let at = self.now + self.rng.between(MILLI, 20 * MILLI);
                self.lose_power(brick, at);
            }
        }
    }

    fn lose_power(&mut self, brick: usize, at: Time) {
        let back = at + self.rng.between(MILLI / 2, 15 * MILLI);
        self.hosts[brick].away.push((at, back));
        self.at(at, Event::PowerCut { brick });
        self.at(back, Event::Boot { brick });
    }

    fn begin_rebuilding(&mut self, brick: usize, life: Life, witnesses: Option<BTreeSet<usize>>) {
        let rebuild = Rebuild::new(self.thresholds.read().min(self.thresholds.bricks() - 1));
        self.hosts[brick].rebuilding = Some(Rebuilding { stage: 1, witnesses, rebuild });
        self.rebuild_ask(brick, life);
    }

    pub(crate) fn rebuild_ask(&mut self, brick: usize, life: Life) {
        let host = &self.hosts[brick];
        let Some(stage) = host.rebuilding.as_ref().map(|it| it.stage).filter(|_| host.brick.life() == life)
        else {
            return;
        };
        for to in self.others(brick) {
            let at = self.now + self.delay();
            self.at(at, Event::RebuildAsk { from: brick, to, life, stage });
        }
        self.at(self.now + 40 * MILLI, Event::RebuildAgain { brick, life });
    }

    pub(crate) fn rebuild_asked(&mut self, from: usize, to: usize, life: Life, stage: u32) {
        let host = &self.hosts[to];
        if self.is_away(to) || !host.brick.votes() || host.stands_aside {
            return;
        }
        let asker = self.hosts[from].brick.id();
        let host = &mut self.hosts[to];
        host.brick.hear_of(asker, life);
        let newest = (host.memory.newest(&KEY), host.memory.value(&KEY));
        let epoch = host.brick.told(0, ()).epoch;
        let at = self.now + self.delay();
        self.at(at, Event::RebuildTold { to: from, from: to, life, stage, epoch, newest });
    }

    pub(crate) fn rebuild_told(
        &mut self,
        to: usize,
        (from, epoch): (usize, u64),
        (life, stage): (Life, u32),
        newest: (Stamp, Option<u64>),
    ) {
        let sender = self.hosts[from].brick.id();
        let (now, needed) = (self.now, self.thresholds.refusals().min(self.thresholds.bricks() - 1));
        let own_epoch = self.hosts[to].brick.told(0, ()).epoch;
        let host = &mut self.hosts[to];
        let is_current = host.brick.life() == life;
        let Some(it) = host.rebuilding.as_mut().filter(|it| is_current && it.stage == stage) else { return };
        if epoch < own_epoch && !planted(Defect::QuorumJoinedUnwitnessed) {
            return;
        }
        if let Some(witnesses) = &mut it.witnesses {
            witnesses.insert(from);
            if witnesses.len() >= needed {
                (it.witnesses, it.stage) = (None, it.stage + 1);
                self.rebuild_ask(to, life);
            }
            return;
        }
        it.rebuild.hear(sender, newest.0, newest.1);
        let own = (host.memory.newest(&KEY), host.memory.value(&KEY));
        let Some(newest) = it.rebuild.newest(own) else { return };
        host.memory.now = now;
        let bound = DATE + now + REBUILT_BOUND.as_micros() as Time;
        let bound = if planted(Defect::QuorumRebuiltRefuses) { 0 } else { bound };
        host.memory.become_rebuilt(newest, bound);
        host.rebuilding = None;
        host.brick.is_rebuilt();
        // Now another one forgets.
        if self.setting.power == Power::InTurn && self.others(to).iter().all(|it| self.is_first(*it)) {
            let others = self.others(to);
            if let Some(other) = self.rng.pick(&others).copied() {
                let at = self.now + self.rng.between(MILLI, 40 * MILLI);
                self.lose_power(other, at);
            }
        }
    }

    fn is_first(&self, brick: usize) -> bool {
        self.hosts[brick].brick.life() == Life(1)
    }
}
