//! The history of one key, and the places in it where a falsehood fits.

use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use ramhold_base::{Rng, Version};

/// The history of one key, in order of call, and the greatest error of expiry.
pub struct Key<'a> {
    pub operations: Vec<Operation>,
    pub spread: u64,
    pub rng: &'a mut Rng,
}

impl Key<'_> {
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        self.rng.pick(from).copied()
    }

    pub fn has_unknown(&self) -> bool {
        self.operations.iter().any(|o| o.outcome == Outcome::Unknown && o.may_mutate())
    }

    pub fn has_ends(&self) -> bool {
        self.operations.iter().any(|o| ttl(o).is_some())
    }

    pub fn has_removes(&self) -> bool {
        self.operations.iter().any(|o| matches!(o.action, Action::Remove { .. }) && o.may_mutate())
    }

    /// Only versions that were told decide the state: there are no unknown mutations and no expiries.
    pub fn is_plain(&self) -> Option<()> {
        (!self.has_unknown() && !self.has_ends()).then_some(())
    }

    /// Mutations whose answer has a version, in order of version.
    pub fn mutations(&self) -> Vec<usize> {
        let mut all: Vec<usize> =
            (0..self.operations.len()).filter(|at| version_done(&self.operations[*at]).is_some()).collect();
        all.sort_by_key(|at| version_done(&self.operations[*at]));
        all
    }

    /// Mutations, each with the one before it.
    pub fn followed(&self) -> Vec<(usize, usize)> {
        let all = self.mutations();
        all.iter().copied().zip(all.iter().copied().skip(1)).collect()
    }

    pub fn highest(&self) -> u64 {
        let told = self.operations.iter().filter_map(|o| match o.outcome {
            Outcome::Found { version, .. } | Outcome::Done { version } | Outcome::Counted { version, .. } => {
                Some(version.raw())
            }
            Outcome::ConditionFailed { version } => Some(version?.raw()),
            Outcome::Absent
            | Outcome::Seen { .. }
            | Outcome::Acknowledged
            | Outcome::Summed { .. }
            | Outcome::Scanned
            | Outcome::MetTwice
            | Outcome::Refused { .. }
            | Outcome::Unknown => None,
        });
        told.max().unwrap_or(0)
    }

    /// Pairs of a mutation and an operation that is no mutation and can only have seen the state that the
    /// mutation left.
    pub fn settled(&self) -> Vec<(usize, usize)> {
        let mutations = self.mutations();
        let mut pairs = Vec::new();
        for (at, o) in self.operations.iter().enumerate() {
            if o.ret == NEVER || version_done(o).is_some() {
                continue;
            }
            for (place, mutation) in mutations.iter().enumerate() {
                let next = mutations.get(place + 1);
                let begun = next.is_none_or(|_| {
                    mutations[place + 1..].iter().all(|later| o.ret < self.operations[*later].call)
                });
                if self.operations[*mutation].ret < o.call && begun {
                    pairs.push((*mutation, at));
                }
            }
        }
        pairs
    }

    /// The pairs whose operation fulfils a condition.
    pub fn settled_where(
        &mut self,
        wanted: impl Fn(&Operation, &Operation) -> bool,
    ) -> Option<(usize, usize)> {
        let mut pairs = self.settled();
        pairs.retain(|(m, o)| wanted(&self.operations[*m], &self.operations[*o]));
        self.pick(&pairs)
    }

    /// The mutation before another, in order of version.
    pub fn before(&self, mutation: usize) -> Option<usize> {
        self.followed().into_iter().find(|(_, next)| *next == mutation).map(|(before, _)| before)
    }

    pub fn found(&self, mutation: usize) -> Option<Outcome> {
        let operation = &self.operations[mutation];
        let Action::Write { value, .. } = operation.action else { return None };
        Some(Outcome::Found { version: version_done(operation)?, value })
    }

    /// Reads that found something, in pairs that do not overlap.
    pub fn reads_in_sequence(&self) -> Vec<(usize, usize)> {
        let reads: Vec<usize> =
            (0..self.operations.len()).filter(|at| is_found(&self.operations[*at])).collect();
        let follows = |a: usize, b: usize| self.operations[a].ret < self.operations[b].call;
        let pairs = reads.iter().flat_map(|a| reads.iter().map(|b| (*a, *b)));
        pairs.filter(|(a, b)| follows(*a, *b)).collect()
    }

    /// Removes the answer to a write, as if it had been lost. The history stays right. Returns the write and
    /// the reads of its value, in pairs that do not overlap.
    pub fn lose_an_answer(&mut self) -> Option<(usize, Vec<(usize, usize)>)> {
        self.is_plain()?;
        let mut found = Vec::new();
        for mutation in self.mutations() {
            let Some(outcome) = self.found(mutation) else { continue };
            let mut pairs = self.reads_in_sequence();
            pairs.retain(|(a, b)| {
                self.operations[*a].outcome == outcome && self.operations[*b].outcome == outcome
            });
            if !pairs.is_empty() {
                found.push((mutation, pairs));
            }
        }
        let which = self.rng.below(found.len().max(1) as u64) as usize;
        let (write, pairs) = found.into_iter().nth(which)?;
        self.operations[write].outcome = Outcome::Unknown;
        self.operations[write].ret = NEVER;
        Some((write, pairs))
    }

    pub fn set(&mut self, at: usize, outcome: Outcome) -> Option<()> {
        assert_ne!(self.operations[at].outcome, outcome, "this changes nothing");
        self.operations[at].outcome = outcome;
        Some(())
    }

    pub fn set_condition(&mut self, at: usize, new: Condition) -> Option<()> {
        match &mut self.operations[at].action {
            Action::Read | Action::Increment { .. } | Action::Count | Action::Scan => return None,
            Action::Write { condition, .. } | Action::Remove { condition } => *condition = new,
        }
        Some(())
    }

    /// Repeats the operation for another client, with another value and the next version.
    pub fn double(&mut self, at: usize) -> Option<()> {
        let version = Version(self.highest() + 1);
        let mut copy = Operation { client: 9999, outcome: Outcome::Done { version }, ..self.operations[at] };
        if let Action::Write { value, .. } = &mut copy.action {
            *value = ValueId(u64::MAX);
        }
        self.operations.push(copy);
        Some(())
    }
}

pub fn version_done(operation: &Operation) -> Option<Version> {
    match operation.outcome {
        Outcome::Done { version } if !version.is_none() => Some(version),
        _ => None,
    }
}

pub fn ttl(operation: &Operation) -> Option<u64> {
    let Action::Write { ttl, .. } = operation.action else { return None };
    ttl.filter(|_| operation.may_mutate()).map(|ttl| ttl.as_nanos() as u64)
}

pub fn is_found(operation: &Operation) -> bool {
    matches!(operation.outcome, Outcome::Found { .. })
}

pub fn is_write(operation: &Operation) -> bool {
    matches!(operation.action, Action::Write { .. })
}

pub fn version_found(operation: &Operation) -> Option<Version> {
    match operation.outcome {
        Outcome::Found { version, .. } => Some(version),
        _ => None,
    }
}

pub fn condition(operation: &Operation) -> Option<Condition> {
    match operation.action {
        Action::Read | Action::Increment { .. } | Action::Count | Action::Scan => None,
        Action::Write { condition, .. } | Action::Remove { condition } => Some(condition),
    }
}
