//! Falsehoods about the presence of objects, and about conditions on it.

use super::key::{Key, condition, is_found, is_write, version_done};
use crate::history::{Condition, NEVER, Outcome};
use ramhold_base::Version;

pub fn absent_while_present(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (_, read) = key.settled_where(|m, o| is_write(m) && is_found(o))?;
    key.set(read, Outcome::Absent)
}

pub fn resurrected(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (remove, read) = key.settled_where(|m, o| !is_write(m) && o.outcome == Outcome::Absent)?;
    let before = key.before(remove)?;
    key.set(read, key.found(before)?)
}

pub fn old_version_meets_condition(key: &mut Key<'_>) -> Option<()> {
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

pub fn created_over(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let mut pairs = key.followed();
    pairs.retain(|(a, b)| is_write(&key.operations[*a]) && is_write(&key.operations[*b]));
    let (_, write) = key.pick(&pairs)?;
    key.set_condition(write, Condition::Absent)
}

pub fn doubled_conditional(key: &mut Key<'_>) -> Option<()> {
    let mut all = key.mutations();
    all.retain(|at| matches!(condition(&key.operations[*at]), Some(Condition::VersionIs(_))));
    let write = key.pick(&all)?;
    key.double(write)
}

pub fn doubled_creation(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    if key.has_removes() {
        return None;
    }
    let mut all = key.mutations();
    all.retain(|at| condition(&key.operations[*at]) == Some(Condition::Absent));
    let write = key.pick(&all)?;
    key.double(write)
}

pub fn doubled_remove(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let last = *key.mutations().last()?;
    if is_write(&key.operations[last]) {
        return None;
    }
    key.double(last)
}

pub fn refused_without_cause(key: &mut Key<'_>) -> Option<()> {
    let mut all = key.mutations();
    all.retain(|at| matches!(condition(&key.operations[*at]), Some(Condition::VersionIs(_))));
    let write = key.pick(&all)?;
    let Some(Condition::VersionIs(version)) = condition(&key.operations[write]) else { return None };
    key.set(write, Outcome::ConditionFailed { version: Some(version) })
}

pub fn creation_refused_for_absence(key: &mut Key<'_>) -> Option<()> {
    let mut all: Vec<usize> = (0..key.operations.len()).collect();
    all.retain(|at| condition(&key.operations[*at]) == Some(Condition::Absent));
    all.retain(|at| key.operations[*at].ret != NEVER);
    let write = key.pick(&all)?;
    key.set(write, Outcome::ConditionFailed { version: Some(Version::NONE) })
}

pub fn refused_without_condition(key: &mut Key<'_>) -> Option<()> {
    let mut all = key.mutations();
    all.retain(|at| condition(&key.operations[*at]) == Some(Condition::Free));
    let write = key.pick(&all)?;
    key.set(write, Outcome::ConditionFailed { version: Some(Version(1)) })
}

pub fn refusal_says_absent(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (_, refused) = key.settled_where(|m, o| {
        is_write(m) && matches!(o.outcome, Outcome::ConditionFailed { version: Some(v) } if !v.is_none())
    })?;
    key.set(refused, Outcome::ConditionFailed { version: Some(Version::NONE) })
}

pub fn refusal_says_present(key: &mut Key<'_>) -> Option<()> {
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

pub fn remove_finds_nothing(key: &mut Key<'_>) -> Option<()> {
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

pub fn unknown_write_lost(key: &mut Key<'_>) -> Option<()> {
    if key.has_removes() {
        return None;
    }
    let (_, pairs) = key.lose_an_answer()?;
    let (_, read) = key.pick(&pairs)?;
    key.set(read, Outcome::Absent)
}
