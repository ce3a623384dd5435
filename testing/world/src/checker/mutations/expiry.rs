//! Falsehoods about objects that expire.

use super::key::{Key, is_found, is_write, ttl, version_done};
use crate::history::{Action, Condition, Operation, Outcome, ValueId};
use ramhold_base::Version;

pub fn ends_early(key: &mut Key<'_>) -> Option<()> {
    if key.has_unknown() {
        return None;
    }
    let spread = key.spread;
    let (_, read) =
        key.settled_where(|m, o| is_found(o) && ttl(m).is_some_and(|ttl| o.ret + spread < m.call + ttl))?;
    key.set(read, Outcome::Absent)
}

pub fn served_when_over(key: &mut Key<'_>) -> Option<()> {
    let spread = key.spread;
    let (write, read) = key.settled_where(|m, o| {
        o.outcome == Outcome::Absent && ttl(m).is_some_and(|ttl| o.call > m.ret + ttl + spread)
    })?;
    key.set(read, key.found(write)?)
}

pub fn back_after_its_end(key: &mut Key<'_>) -> Option<()> {
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

pub fn ends_without_end(key: &mut Key<'_>) -> Option<()> {
    if key.has_unknown() || !key.has_ends() {
        return None;
    }
    let (_, read) = key.settled_where(|m, o| is_write(m) && ttl(m).is_none() && is_found(o))?;
    key.set(read, Outcome::Absent)
}

pub fn condition_met_when_over(key: &mut Key<'_>) -> Option<()> {
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

pub fn refused_for_what_is_over(key: &mut Key<'_>) -> Option<()> {
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
