//! The answers of one operation, and those of them that count.
//!
//! An answer of a brick's former life does not count once another answer knows the next life: in between the brick may
//! have forgotten what it said. Answers of different epochs do not count together, because the bricks of the tablet have
//! changed.

use crate::message::{BrickId, Heard, Life};
use ramhold_base::planted::{Defect, planted};
use std::collections::BTreeMap;

/// The lives and epochs that all answers of an operation tell. It goes on through all attempts of the operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lives {
    newest: BTreeMap<BrickId, Life>,
    epoch: u64,
}

impl Lives {
    fn hear<S>(&mut self, answer: &Heard<S>) {
        self.epoch = self.epoch.max(answer.epoch);
        for (brick, life) in answer.siblings.iter().copied().chain([(answer.from, answer.life)]) {
            let newest = self.newest.entry(brick).or_default();
            *newest = life.max(*newest);
        }
    }

    /// The newest epoch that was told; 0: none.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    fn counts<S>(&self, answer: &Heard<S>) -> bool {
        let is_current = self.newest.get(&answer.from).is_none_or(|newest| *newest <= answer.life);
        (is_current || planted(Defect::QuorumOldLifeCounts)) && answer.epoch == self.epoch
    }
}

/// The answers to one attempt: the last one of each brick.
#[derive(Clone, Debug)]
pub(crate) struct Tally<S> {
    answers: BTreeMap<BrickId, Heard<S>>,
}

impl<S> Default for Tally<S> {
    fn default() -> Tally<S> {
        Tally { answers: BTreeMap::new() }
    }
}

impl<S> Tally<S> {
    pub fn add(&mut self, answer: Heard<S>, lives: &mut Lives) {
        lives.hear(&answer);
        let rank = |answer: &Heard<S>| (answer.epoch, answer.life);
        let is_late = self.answers.get(&answer.from).is_some_and(|known| rank(known) > rank(&answer));
        if !is_late {
            self.answers.insert(answer.from, answer);
        }
    }

    /// The last answer of a brick, whether it counts or not.
    pub fn last(&self, brick: BrickId) -> Option<&Heard<S>> {
        self.answers.get(&brick)
    }

    /// The answers that count.
    pub fn counted<'a>(&'a self, lives: &'a Lives) -> impl Iterator<Item = (BrickId, &'a S)> {
        let counted = self.answers.values().filter(|answer| lives.counts(answer));
        counted.map(|answer| (answer.from, &answer.said))
    }

    pub fn count(&self, lives: &Lives, is_it: impl Fn(&S) -> bool) -> usize {
        self.counted(lives).filter(|(_, said)| is_it(said)).count()
    }

    /// Whether a brick has given an answer that counts.
    pub fn has(&self, lives: &Lives, brick: BrickId) -> bool {
        self.answers.get(&brick).is_some_and(|answer| lives.counts(answer))
    }
}
