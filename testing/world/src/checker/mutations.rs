//! Real histories made wrong in many named ways: both checkers must reject each, and accept the history as it was.
//!
//! A kind takes the history of one key of a simulated run under faults and changes or adds one thing that no store
//! could have told; where it finds nothing to change it leaves the key alone. Each kind must find its place somewhere.
//!
//! Catalogue: J3.

use super::search::{Answer, search};
use super::{COUNTERS, version_witness};
use crate::cluster::Cluster;
use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use crate::scenario::{Plan, run};
use ramhold_base::{Rng, Version};
use std::collections::BTreeMap;

/// The history of one key, by call, and how far expiry may be off.
struct Key<'a> {
    operations: Vec<Operation>,
    spread: u64,
    rng: &'a mut Rng,
}

/// Makes the history of a key wrong; none: it offers no place for that.
type Falsify = fn(&mut Key<'_>) -> Option<()>;

const VERSIONS: &[(&str, Falsify)] = &[
    ("a read tells the version before", stale_read),
    ("a read goes back behind an earlier read", read_goes_back),
    ("two reads exchange what they found", reads_exchanged),
    ("two reads exchange their values", values_exchanged),
    ("a value that nobody wrote", value_from_nowhere),
    ("a version that nobody got", version_from_nowhere),
    ("the value of a refused write is read", refused_write_seen),
    ("an acknowledged write leaves no trace", write_lost),
    ("a version is given twice", version_reused),
    ("a remove gets the version of what it removed", version_of_the_removed),
    ("two versions are exchanged", versions_exchanged),
    ("versions fall", versions_fall),
    ("a read before its write was asked for", future_read),
    ("a write that was asked for after it was read", write_after_its_read),
    ("a write that was asked for after the next had returned", write_overtaken),
    ("the version of a remove is read as an object", tombstone_read),
    ("a write without a version", write_without_version),
    ("a read that was carried out", read_that_was_done),
    ("a write that found something", write_that_found),
    ("an unknown write is seen before it was asked for", unknown_write_early),
    ("an unknown write is seen under two versions", unknown_write_twice),
    ("a refusal tells an old version", refusal_tells_old),
];

const PRESENCE: &[(&str, Falsify)] = &[
    ("not found while it is there", absent_while_present),
    ("found after it was removed", resurrected),
    ("an overwritten version meets a condition", old_version_meets_condition),
    ("created over what is there", created_over),
    ("two writes win one version", doubled_conditional),
    ("created twice", doubled_creation),
    ("removed twice", doubled_remove),
    ("a condition that holds is refused", refused_without_cause),
    ("a creation is refused for an absence", creation_refused_for_absence),
    ("a write without a condition is refused by one", refused_without_condition),
    ("a refusal says absent while it is there", refusal_says_absent),
    ("a refusal says there while it is removed", refusal_says_present),
    ("a remove finds nothing where something is", remove_finds_nothing),
    ("an unknown write is seen and then lost", unknown_write_lost),
];

const EXPIRY: &[(&str, Falsify)] = &[
    ("over before its time", ends_early),
    ("served when its time is over", served_when_over),
    ("back after it was over", back_after_its_end),
    ("over though it has no end", ends_without_end),
    ("its version meets a condition when its time is over", condition_met_when_over),
    ("refused for what is over", refused_for_what_is_over),
];

/// Histories of keys from runs under faults that both checkers accept.
fn real_histories() -> Vec<(Vec<Operation>, u64)> {
    let mut keys = Vec::new();
    for seed in 0..24 {
        let report = run(&Cluster::default(), seed, &Plan::seconds(20), None);
        assert!(!report.failed(), "seed {seed}: {:?} {:?}", report.stuck, report.findings);
        let mut by_key: BTreeMap<u32, Vec<Operation>> = BTreeMap::new();
        for operation in report.history.iter().filter(|operation| operation.key < COUNTERS) {
            by_key.entry(operation.key).or_default().push(*operation);
        }
        keys.extend(by_key.into_values().map(|operations| (operations, report.clock_spread)));
    }
    keys
}

/// J3: at least 20 kinds, each rejected by the version witness and by the search.
#[test]
fn every_kind_of_falsehood_in_a_real_history_is_rejected() {
    const PLACES: u32 = 12;
    assert!(VERSIONS.len() + PRESENCE.len() + EXPIRY.len() >= 40);
    let keys = real_histories();
    let mut trouble = Vec::new();
    for (name, falsify) in [VERSIONS, PRESENCE, EXPIRY].concat() {
        let (mut places, mut searched) = (0, 0);
        for (number, (operations, spread)) in keys.iter().enumerate() {
            if places == PLACES {
                break;
            }
            let mut rng = Rng::new(number as u64);
            let mut key = Key { operations: operations.clone(), spread: *spread, rng: &mut rng };
            if falsify(&mut key).is_none() {
                continue;
            }
            places += 1;
            key.operations.sort_by_key(|o| o.call);
            let verdict = version_witness(&key.operations, *spread);
            let lines = || key.operations.iter().map(|o| format!("\n    {o}")).collect::<String>();
            if verdict.violations.is_empty() {
                trouble.push(format!("{name}: the version witness accepts{}", lines()));
            }
            if key.operations.len() > 120 {
                continue;
            }
            match search(&key.operations, *spread, 100_000) {
                Answer::Contradiction => searched += 1,
                Answer::Undecided => {}
                Answer::Linearizable => trouble.push(format!("{name}: an order explains{}", lines())),
            }
        }
        if searched == 0 {
            trouble.push(format!("{name}: {places} places, none of them searched to the end"));
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

/// The same keys as they were: accepted by both, and the search decides nearly all that are small.
#[test]
fn real_histories_are_accepted() {
    let (mut small, mut undecided) = (0, 0);
    for (operations, spread) in real_histories() {
        assert_eq!(version_witness(&operations, spread).violations, []);
        if operations.len() > 120 {
            continue;
        }
        small += 1;
        match search(&operations, spread, 20_000) {
            Answer::Linearizable => {}
            Answer::Undecided => undecided += 1,
            Answer::Contradiction => panic!("key {}: no order explains it", operations[0].key),
        }
    }
    assert!(small > 1000 && undecided * 50 <= small, "{undecided} of {small} undecided");
}

// What the kinds are made of.

impl Key<'_> {
    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        self.rng.pick(from).copied()
    }

    fn has_unknown(&self) -> bool {
        self.operations.iter().any(|o| o.outcome == Outcome::Unknown && o.may_mutate())
    }

    fn has_ends(&self) -> bool {
        self.operations.iter().any(|o| ttl(o).is_some())
    }

    fn has_removes(&self) -> bool {
        self.operations.iter().any(|o| matches!(o.action, Action::Remove { .. }) && o.may_mutate())
    }

    /// Nothing but versions that were told decides what was there: no unknown mutations, no ends.
    fn is_plain(&self) -> Option<()> {
        (!self.has_unknown() && !self.has_ends()).then_some(())
    }

    /// Mutations that were told their version, in its order.
    fn mutations(&self) -> Vec<usize> {
        let mut all: Vec<usize> =
            (0..self.operations.len()).filter(|at| version_done(&self.operations[*at]).is_some()).collect();
        all.sort_by_key(|at| version_done(&self.operations[*at]));
        all
    }

    /// Mutations, each with the one before it.
    fn followed(&self) -> Vec<(usize, usize)> {
        let all = self.mutations();
        all.iter().copied().zip(all.iter().copied().skip(1)).collect()
    }

    fn highest(&self) -> u64 {
        let told = self.operations.iter().filter_map(|o| match o.outcome {
            Outcome::Found { version, .. } | Outcome::Done { version } | Outcome::Counted { version, .. } => {
                Some(version.raw())
            }
            Outcome::ConditionFailed { version } => Some(version?.raw()),
            Outcome::Absent | Outcome::Refused { .. } | Outcome::Unknown => None,
        });
        told.max().unwrap_or(0)
    }

    /// Pairs of a mutation and an operation that is no mutation and can only have seen what that mutation left.
    fn settled(&self) -> Vec<(usize, usize)> {
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

    /// Those whose operation is such a one.
    fn settled_where(&mut self, wanted: impl Fn(&Operation, &Operation) -> bool) -> Option<(usize, usize)> {
        let mut pairs = self.settled();
        pairs.retain(|(m, o)| wanted(&self.operations[*m], &self.operations[*o]));
        self.pick(&pairs)
    }

    /// The mutation before another, in order of version.
    fn before(&self, mutation: usize) -> Option<usize> {
        self.followed().into_iter().find(|(_, next)| *next == mutation).map(|(before, _)| before)
    }

    fn found(&self, mutation: usize) -> Option<Outcome> {
        let operation = &self.operations[mutation];
        let Action::Write { value, .. } = operation.action else { return None };
        Some(Outcome::Found { version: version_done(operation)?, value })
    }

    /// Reads that found something, in pairs that do not overlap.
    fn reads_in_sequence(&self) -> Vec<(usize, usize)> {
        let reads: Vec<usize> =
            (0..self.operations.len()).filter(|at| is_found(&self.operations[*at])).collect();
        let follows = |a: usize, b: usize| self.operations[a].ret < self.operations[b].call;
        let pairs = reads.iter().flat_map(|a| reads.iter().map(|b| (*a, *b)));
        pairs.filter(|(a, b)| follows(*a, *b)).collect()
    }

    /// Forgets what a write was told, as if its answer had been lost: the history is no less right. Answers the write
    /// and those that read its value, in pairs that do not overlap.
    fn lose_an_answer(&mut self) -> Option<(usize, Vec<(usize, usize)>)> {
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

    fn set(&mut self, at: usize, outcome: Outcome) -> Option<()> {
        assert_ne!(self.operations[at].outcome, outcome, "this changes nothing");
        self.operations[at].outcome = outcome;
        Some(())
    }

    fn set_condition(&mut self, at: usize, new: Condition) -> Option<()> {
        match &mut self.operations[at].action {
            Action::Read | Action::Increment { .. } | Action::Count => return None,
            Action::Write { condition, .. } | Action::Remove { condition } => *condition = new,
        }
        Some(())
    }

    /// The same once more by somebody else, with another value and the next version.
    fn double(&mut self, at: usize) -> Option<()> {
        let version = Version(self.highest() + 1);
        let mut copy = Operation { client: 9999, outcome: Outcome::Done { version }, ..self.operations[at] };
        if let Action::Write { value, .. } = &mut copy.action {
            *value = ValueId(u64::MAX);
        }
        self.operations.push(copy);
        Some(())
    }
}

fn version_done(operation: &Operation) -> Option<Version> {
    match operation.outcome {
        Outcome::Done { version } if !version.is_none() => Some(version),
        _ => None,
    }
}

fn ttl(operation: &Operation) -> Option<u64> {
    let Action::Write { ttl, .. } = operation.action else { return None };
    ttl.filter(|_| operation.may_mutate()).map(|ttl| ttl.as_nanos() as u64)
}

fn is_found(operation: &Operation) -> bool {
    matches!(operation.outcome, Outcome::Found { .. })
}

fn is_write(operation: &Operation) -> bool {
    matches!(operation.action, Action::Write { .. })
}

fn version_found(operation: &Operation) -> Option<Version> {
    match operation.outcome {
        Outcome::Found { version, .. } => Some(version),
        _ => None,
    }
}

fn condition(operation: &Operation) -> Option<Condition> {
    match operation.action {
        Action::Read | Action::Increment { .. } | Action::Count => None,
        Action::Write { condition, .. } | Action::Remove { condition } => Some(condition),
    }
}

// Versions.

fn stale_read(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (mutation, read) = key.settled_where(|_, o| o.action == Action::Read)?;
    let before = key.before(mutation)?;
    key.set(read, key.found(before)?)
}

fn read_goes_back(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let pairs = key.reads_in_sequence();
    let (first, second) = key.pick(&pairs)?;
    let seen = version_found(&key.operations[first])?;
    let older = key.mutations().into_iter().rev().find(|m| {
        version_done(&key.operations[*m]).is_some_and(|v| v < seen) && is_write(&key.operations[*m])
    })?;
    key.set(second, key.found(older)?)
}

fn reads_exchanged(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let mut pairs = key.reads_in_sequence();
    pairs.retain(|(a, b)| key.operations[*a].outcome != key.operations[*b].outcome);
    let (first, second) = key.pick(&pairs)?;
    let outcome = key.operations[first].outcome;
    key.operations[first].outcome = key.operations[second].outcome;
    key.set(second, outcome)
}

fn values_exchanged(key: &mut Key<'_>) -> Option<()> {
    let mut pairs = key.reads_in_sequence();
    pairs.retain(|(a, b)| key.operations[*a].outcome != key.operations[*b].outcome);
    let (a, b) = key.pick(&pairs)?;
    let (Outcome::Found { version: first, value: one }, Outcome::Found { version: second, value: two }) =
        (key.operations[a].outcome, key.operations[b].outcome)
    else {
        return None;
    };
    key.operations[a].outcome = Outcome::Found { version: first, value: two };
    key.set(b, Outcome::Found { version: second, value: one })
}

fn value_from_nowhere(key: &mut Key<'_>) -> Option<()> {
    let reads: Vec<usize> = (0..key.operations.len()).filter(|at| is_found(&key.operations[*at])).collect();
    let read = key.pick(&reads)?;
    let version = version_found(&key.operations[read])?;
    key.set(read, Outcome::Found { version, value: ValueId(12345) })
}

fn version_from_nowhere(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (mutation, read) = key.settled_where(|m, o| is_write(m) && is_found(o))?;
    let Action::Write { value, .. } = key.operations[mutation].action else { return None };
    let version = Version(key.highest() + 7);
    key.set(read, Outcome::Found { version, value })
}

fn refused_write_seen(key: &mut Key<'_>) -> Option<()> {
    let refused = key.operations.iter().find_map(|o| match (o.action, o.outcome) {
        (Action::Write { value, .. }, Outcome::ConditionFailed { .. } | Outcome::Refused { .. }) => {
            Some((value, o.ret))
        }
        _ => None,
    });
    let (value, ret) = refused?;
    let mut reads: Vec<usize> = (0..key.operations.len()).collect();
    reads.retain(|at| key.operations[*at].action == Action::Read && key.operations[*at].call > ret);
    reads.retain(|at| key.operations[*at].ret != NEVER);
    let read = key.pick(&reads)?;
    let version = Version(key.highest() + 1);
    key.set(read, Outcome::Found { version, value })
}

fn write_lost(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let last = *key.mutations().last()?;
    let before = key.before(last)?;
    let instead = key.found(before).unwrap_or(Outcome::Absent);
    let found = key.found(last)?;
    let ret = key.operations[last].ret;
    let later = key.operations.iter().any(|o| o.outcome == found && o.call > ret);
    for operation in key.operations.iter_mut().filter(|o| o.outcome == found) {
        operation.outcome = instead;
    }
    later.then_some(())
}

fn version_reused(key: &mut Key<'_>) -> Option<()> {
    let pairs = key.followed();
    let (first, second) = key.pick(&pairs)?;
    let version = version_done(&key.operations[first])?;
    key.set(second, Outcome::Done { version })
}

fn version_of_the_removed(key: &mut Key<'_>) -> Option<()> {
    let mut pairs = key.followed();
    pairs.retain(|(first, second)| is_write(&key.operations[*first]) && !is_write(&key.operations[*second]));
    let (first, second) = key.pick(&pairs)?;
    let version = version_done(&key.operations[first])?;
    key.set(second, Outcome::Done { version })
}

fn versions_exchanged(key: &mut Key<'_>) -> Option<()> {
    let mut pairs = key.followed();
    pairs.retain(|(first, second)| key.operations[*first].ret < key.operations[*second].call);
    let (first, second) = key.pick(&pairs)?;
    let outcome = key.operations[first].outcome;
    key.operations[first].outcome = key.operations[second].outcome;
    key.set(second, outcome)
}

/// As if versions had begun anew: everything that tells of one mutation tells a version above all later ones.
fn versions_fall(key: &mut Key<'_>) -> Option<()> {
    let mut pairs = key.followed();
    pairs.retain(|(first, second)| key.operations[*first].ret < key.operations[*second].call);
    let (first, _) = key.pick(&pairs)?;
    let (old, new) = (version_done(&key.operations[first])?, Version(key.highest() + 1));
    for operation in &mut key.operations {
        match &mut operation.outcome {
            Outcome::Found { version, .. }
            | Outcome::Done { version }
            | Outcome::ConditionFailed { version: Some(version) }
                if *version == old =>
            {
                *version = new;
            }
            _ => {}
        }
        match &mut operation.action {
            Action::Write { condition, .. } | Action::Remove { condition }
                if *condition == Condition::VersionIs(old) =>
            {
                *condition = Condition::VersionIs(new);
            }
            _ => {}
        }
    }
    Some(())
}

/// A write with a version and somebody who read it.
fn write_and_reader(key: &mut Key<'_>) -> Option<(usize, usize)> {
    let mut pairs = Vec::new();
    for mutation in key.mutations() {
        let Some(found) = key.found(mutation) else { continue };
        pairs.extend(
            (0..key.operations.len()).filter(|r| key.operations[*r].outcome == found).map(|r| (mutation, r)),
        );
    }
    key.pick(&pairs)
}

fn future_read(key: &mut Key<'_>) -> Option<()> {
    let (write, read) = write_and_reader(key)?;
    let call = key.operations[write].call;
    key.operations[read].call = call - 2;
    key.operations[read].ret = call - 1;
    Some(())
}

fn write_after_its_read(key: &mut Key<'_>) -> Option<()> {
    let (write, read) = write_and_reader(key)?;
    let ret = key.operations[read].ret;
    key.operations[write].call = ret + 1;
    key.operations[write].ret = ret + 2;
    Some(())
}

fn write_overtaken(key: &mut Key<'_>) -> Option<()> {
    let pairs = key.followed();
    let (first, second) = key.pick(&pairs)?;
    let ret = key.operations[second].ret;
    key.operations[first].call = ret + 1;
    key.operations[first].ret = ret + 2;
    Some(())
}

fn tombstone_read(key: &mut Key<'_>) -> Option<()> {
    let mut pairs = key.settled();
    pairs.retain(|(m, o)| !is_write(&key.operations[*m]) && key.operations[*o].action == Action::Read);
    let (remove, read) = key.pick(&pairs)?;
    let version = version_done(&key.operations[remove])?;
    let value = key.operations.iter().find_map(|o| match (o.action, version_done(o)) {
        (Action::Write { value, .. }, Some(_)) => Some(value),
        _ => None,
    })?;
    key.set(read, Outcome::Found { version, value })
}

fn write_without_version(key: &mut Key<'_>) -> Option<()> {
    let mut writes = key.mutations();
    writes.retain(|at| is_write(&key.operations[*at]));
    let write = key.pick(&writes)?;
    key.set(write, Outcome::Done { version: Version::NONE })
}

fn read_that_was_done(key: &mut Key<'_>) -> Option<()> {
    let reads: Vec<usize> = (0..key.operations.len()).filter(|at| is_found(&key.operations[*at])).collect();
    let read = key.pick(&reads)?;
    let version = version_found(&key.operations[read])?;
    key.set(read, Outcome::Done { version })
}

fn write_that_found(key: &mut Key<'_>) -> Option<()> {
    let mut writes = key.mutations();
    writes.retain(|at| is_write(&key.operations[*at]));
    let write = key.pick(&writes)?;
    key.set(write, key.found(write)?)
}

fn unknown_write_early(key: &mut Key<'_>) -> Option<()> {
    let (write, pairs) = key.lose_an_answer()?;
    let (read, _) = key.pick(&pairs)?;
    let call = key.operations[write].call;
    key.operations[read].call = call - 2;
    key.operations[read].ret = call - 1;
    Some(())
}

fn unknown_write_twice(key: &mut Key<'_>) -> Option<()> {
    let (_, pairs) = key.lose_an_answer()?;
    let (_, last) = key.pick(&pairs)?;
    let Outcome::Found { value, .. } = key.operations[last].outcome else { return None };
    let version = Version(key.highest() + 1);
    key.set(last, Outcome::Found { version, value })
}

fn refusal_tells_old(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (mutation, refused) =
        key.settled_where(|_, o| matches!(o.outcome, Outcome::ConditionFailed { version: Some(_) }))?;
    let before = key.before(mutation)?;
    let version = version_done(&key.operations[before]).filter(|_| is_write(&key.operations[before]))?;
    if condition(&key.operations[refused]) == Some(Condition::VersionIs(version)) {
        return None;
    }
    key.set(refused, Outcome::ConditionFailed { version: Some(version) })
}

// Presence.

fn absent_while_present(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (_, read) = key.settled_where(|m, o| is_write(m) && is_found(o))?;
    key.set(read, Outcome::Absent)
}

fn resurrected(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (remove, read) = key.settled_where(|m, o| !is_write(m) && o.outcome == Outcome::Absent)?;
    let before = key.before(remove)?;
    key.set(read, key.found(before)?)
}

fn old_version_meets_condition(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let triples: Vec<(usize, usize)> = key
        .followed()
        .windows(2)
        .filter(|w| is_write(&key.operations[w[0].0]) && is_write(&key.operations[w[1].1]))
        .map(|w| (w[0].0, w[1].1))
        .collect();
    let (old, write) = key.pick(&triples)?;
    let version = version_done(&key.operations[old])?;
    key.set_condition(write, Condition::VersionIs(version))
}

fn created_over(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let mut pairs = key.followed();
    pairs.retain(|(a, b)| is_write(&key.operations[*a]) && is_write(&key.operations[*b]));
    let (_, write) = key.pick(&pairs)?;
    key.set_condition(write, Condition::Absent)
}

fn doubled_conditional(key: &mut Key<'_>) -> Option<()> {
    let mut all = key.mutations();
    all.retain(|at| matches!(condition(&key.operations[*at]), Some(Condition::VersionIs(_))));
    let write = key.pick(&all)?;
    key.double(write)
}

fn doubled_creation(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    if key.has_removes() {
        return None;
    }
    let mut all = key.mutations();
    all.retain(|at| condition(&key.operations[*at]) == Some(Condition::Absent));
    let write = key.pick(&all)?;
    key.double(write)
}

fn doubled_remove(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let last = *key.mutations().last()?;
    if is_write(&key.operations[last]) {
        return None;
    }
    key.double(last)
}

fn refused_without_cause(key: &mut Key<'_>) -> Option<()> {
    let mut all = key.mutations();
    all.retain(|at| matches!(condition(&key.operations[*at]), Some(Condition::VersionIs(_))));
    let write = key.pick(&all)?;
    let Some(Condition::VersionIs(version)) = condition(&key.operations[write]) else { return None };
    key.set(write, Outcome::ConditionFailed { version: Some(version) })
}

fn creation_refused_for_absence(key: &mut Key<'_>) -> Option<()> {
    let mut all: Vec<usize> = (0..key.operations.len()).collect();
    all.retain(|at| condition(&key.operations[*at]) == Some(Condition::Absent));
    all.retain(|at| key.operations[*at].ret != NEVER);
    let write = key.pick(&all)?;
    key.set(write, Outcome::ConditionFailed { version: Some(Version::NONE) })
}

fn refused_without_condition(key: &mut Key<'_>) -> Option<()> {
    let mut all = key.mutations();
    all.retain(|at| condition(&key.operations[*at]) == Some(Condition::Free));
    let write = key.pick(&all)?;
    key.set(write, Outcome::ConditionFailed { version: Some(Version(1)) })
}

fn refusal_says_absent(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (_, refused) = key.settled_where(|m, o| {
        is_write(m) && matches!(o.outcome, Outcome::ConditionFailed { version: Some(v) } if !v.is_none())
    })?;
    key.set(refused, Outcome::ConditionFailed { version: Some(Version::NONE) })
}

fn refusal_says_present(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (remove, refused) = key.settled_where(|m, o| {
        !is_write(m) && o.outcome == Outcome::ConditionFailed { version: Some(Version::NONE) }
    })?;
    let before = key.before(remove)?;
    let version = version_done(&key.operations[before]).filter(|_| is_write(&key.operations[before]))?;
    if condition(&key.operations[refused]) == Some(Condition::VersionIs(version)) {
        return None;
    }
    key.set(refused, Outcome::ConditionFailed { version: Some(version) })
}

fn remove_finds_nothing(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let mut pairs = key.followed();
    let next_begins = |remove: usize| {
        let next = key.followed().into_iter().find(|(first, _)| *first == remove);
        next.map_or(NEVER, |(_, next)| key.operations[next].call)
    };
    pairs.retain(|(write, remove)| {
        let (w, r) = (&key.operations[*write], &key.operations[*remove]);
        let alone = w.ret < r.call && r.ret < next_begins(*remove);
        is_write(w) && !is_write(r) && condition(r) == Some(Condition::Free) && alone
    });
    let (_, remove) = key.pick(&pairs)?;
    key.set(remove, Outcome::Done { version: Version::NONE })
}

fn unknown_write_lost(key: &mut Key<'_>) -> Option<()> {
    if key.has_removes() {
        return None;
    }
    let (_, pairs) = key.lose_an_answer()?;
    let (_, read) = key.pick(&pairs)?;
    key.set(read, Outcome::Absent)
}

// Expiry.

fn ends_early(key: &mut Key<'_>) -> Option<()> {
    if key.has_unknown() {
        return None;
    }
    let spread = key.spread;
    let (_, read) =
        key.settled_where(|m, o| is_found(o) && ttl(m).is_some_and(|ttl| o.ret + spread < m.call + ttl))?;
    key.set(read, Outcome::Absent)
}

fn served_when_over(key: &mut Key<'_>) -> Option<()> {
    let spread = key.spread;
    let (write, read) = key.settled_where(|m, o| {
        o.outcome == Outcome::Absent && ttl(m).is_some_and(|ttl| o.call > m.ret + ttl + spread)
    })?;
    key.set(read, key.found(write)?)
}

fn back_after_its_end(key: &mut Key<'_>) -> Option<()> {
    if key.has_unknown() {
        return None;
    }
    let pairs = key.settled();
    let gone = |at: usize| key.operations[at].outcome == Outcome::Absent;
    let candidates: Vec<(usize, usize)> = pairs
        .iter()
        .flat_map(|(m, a)| pairs.iter().filter(move |(n, _)| n == m).map(move |(_, b)| (*m, *a, *b)))
        .filter(|(m, a, b)| {
            let follows = key.operations[*a].ret < key.operations[*b].call;
            ttl(&key.operations[*m]).is_some() && gone(*a) && gone(*b) && follows
        })
        .map(|(m, _, b)| (m, b))
        .collect();
    let (write, read) = key.pick(&candidates)?;
    key.set(read, key.found(write)?)
}

fn ends_without_end(key: &mut Key<'_>) -> Option<()> {
    if key.has_unknown() || !key.has_ends() {
        return None;
    }
    let (_, read) = key.settled_where(|m, o| is_write(m) && ttl(m).is_none() && is_found(o))?;
    key.set(read, Outcome::Absent)
}

fn condition_met_when_over(key: &mut Key<'_>) -> Option<()> {
    if key.has_unknown() {
        return None;
    }
    let last = *key.mutations().last()?;
    let write = key.operations[last];
    let over = write.ret + ttl(&write)? + key.spread;
    let action = Action::Write {
        value: ValueId(u64::MAX),
        condition: Condition::VersionIs(version_done(&write)?),
        ttl: None,
    };
    let outcome = Outcome::Done { version: Version(key.highest() + 1) };
    let after = key.operations.iter().map(|o| o.call).max()?.max(over);
    key.operations.push(Operation { action, call: after + 1, ret: after + 2, outcome, ..write });
    Some(())
}

fn refused_for_what_is_over(key: &mut Key<'_>) -> Option<()> {
    if key.has_unknown() {
        return None;
    }
    let last = *key.mutations().last()?;
    let write = key.operations[last];
    let over = write.ret + ttl(&write)? + key.spread;
    let action = Action::Write { value: ValueId(u64::MAX), condition: Condition::Absent, ttl: None };
    let outcome = Outcome::ConditionFailed { version: version_done(&write) };
    let after = key.operations.iter().map(|o| o.call).max()?.max(over);
    key.operations.push(Operation { action, call: after + 1, ret: after + 2, outcome, ..write });
    Some(())
}
