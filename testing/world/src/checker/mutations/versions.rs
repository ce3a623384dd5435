//! Falsehoods about versions and values, and about the moments at which they were seen.

use super::key::{Key, condition, is_found, is_write, version_done, version_found};
use crate::history::{Action, Condition, NEVER, Outcome, ValueId};
use ramhold_base::Version;

pub fn stale_read(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (mutation, read) = key.settled_where(|_, o| o.action == Action::Read)?;
    let before = key.before(mutation)?;
    key.set(read, key.found(before)?)
}

pub fn read_goes_back(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let pairs = key.reads_in_sequence();
    let (first, second) = key.pick(&pairs)?;
    let seen = version_found(&key.operations[first])?;
    let older = key.mutations().into_iter().rev().find(|m| {
        version_done(&key.operations[*m]).is_some_and(|v| v < seen) && is_write(&key.operations[*m])
    })?;
    key.set(second, key.found(older)?)
}

pub fn reads_exchanged(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let mut pairs = key.reads_in_sequence();
    pairs.retain(|(a, b)| key.operations[*a].outcome != key.operations[*b].outcome);
    let (first, second) = key.pick(&pairs)?;
    let outcome = key.operations[first].outcome;
    key.operations[first].outcome = key.operations[second].outcome;
    key.set(second, outcome)
}

pub fn values_exchanged(key: &mut Key<'_>) -> Option<()> {
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

pub fn value_from_nowhere(key: &mut Key<'_>) -> Option<()> {
    let reads: Vec<usize> = (0..key.operations.len()).filter(|at| is_found(&key.operations[*at])).collect();
    let read = key.pick(&reads)?;
    let version = version_found(&key.operations[read])?;
    key.set(read, Outcome::Found { version, value: ValueId(12345) })
}

pub fn version_from_nowhere(key: &mut Key<'_>) -> Option<()> {
    key.is_plain()?;
    let (mutation, read) = key.settled_where(|m, o| is_write(m) && is_found(o))?;
    let Action::Write { value, .. } = key.operations[mutation].action else { return None };
    let version = Version(key.highest() + 7);
    key.set(read, Outcome::Found { version, value })
}

pub fn refused_write_seen(key: &mut Key<'_>) -> Option<()> {
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

pub fn write_lost(key: &mut Key<'_>) -> Option<()> {
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

pub fn version_reused(key: &mut Key<'_>) -> Option<()> {
    let pairs = key.followed();
    let (first, second) = key.pick(&pairs)?;
    let version = version_done(&key.operations[first])?;
    key.set(second, Outcome::Done { version })
}

pub fn version_of_the_removed(key: &mut Key<'_>) -> Option<()> {
    let mut pairs = key.followed();
    pairs.retain(|(first, second)| is_write(&key.operations[*first]) && !is_write(&key.operations[*second]));
    let (first, second) = key.pick(&pairs)?;
    let version = version_done(&key.operations[first])?;
    key.set(second, Outcome::Done { version })
}

pub fn versions_exchanged(key: &mut Key<'_>) -> Option<()> {
    let mut pairs = key.followed();
    pairs.retain(|(first, second)| key.operations[*first].ret < key.operations[*second].call);
    let (first, second) = key.pick(&pairs)?;
    let outcome = key.operations[first].outcome;
    key.operations[first].outcome = key.operations[second].outcome;
    key.set(second, outcome)
}

/// Makes it look as if versions had begun anew: everything that tells of one mutation tells a version above
/// all later ones.
pub fn versions_fall(key: &mut Key<'_>) -> Option<()> {
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

/// A write with a version, and a read of it.
pub fn write_and_reader(key: &mut Key<'_>) -> Option<(usize, usize)> {
    let mut pairs = Vec::new();
    for mutation in key.mutations() {
        let Some(found) = key.found(mutation) else { continue };
        pairs.extend(
            (0..key.operations.len()).filter(|r| key.operations[*r].outcome == found).map(|r| (mutation, r)),
        );
    }
    key.pick(&pairs)
}

pub fn future_read(key: &mut Key<'_>) -> Option<()> {
    let (write, read) = write_and_reader(key)?;
    let call = key.operations[write].call;
    key.operations[read].call = call - 2;
    key.operations[read].ret = call - 1;
    Some(())
}

pub fn write_after_its_read(key: &mut Key<'_>) -> Option<()> {
    let (write, read) = write_and_reader(key)?;
    let ret = key.operations[read].ret;
    key.operations[write].call = ret + 1;
    key.operations[write].ret = ret + 2;
    Some(())
}

pub fn write_overtaken(key: &mut Key<'_>) -> Option<()> {
    let pairs = key.followed();
    let (first, second) = key.pick(&pairs)?;
    let ret = key.operations[second].ret;
    key.operations[first].call = ret + 1;
    key.operations[first].ret = ret + 2;
    Some(())
}

pub fn tombstone_read(key: &mut Key<'_>) -> Option<()> {
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

pub fn write_without_version(key: &mut Key<'_>) -> Option<()> {
    let mut writes = key.mutations();
    writes.retain(|at| is_write(&key.operations[*at]));
    let write = key.pick(&writes)?;
    key.set(write, Outcome::Done { version: Version::NONE })
}

pub fn read_that_was_done(key: &mut Key<'_>) -> Option<()> {
    let reads: Vec<usize> = (0..key.operations.len()).filter(|at| is_found(&key.operations[*at])).collect();
    let read = key.pick(&reads)?;
    let version = version_found(&key.operations[read])?;
    key.set(read, Outcome::Done { version })
}

pub fn write_that_found(key: &mut Key<'_>) -> Option<()> {
    let mut writes = key.mutations();
    writes.retain(|at| is_write(&key.operations[*at]));
    let write = key.pick(&writes)?;
    key.set(write, key.found(write)?)
}

pub fn unknown_write_early(key: &mut Key<'_>) -> Option<()> {
    let (write, pairs) = key.lose_an_answer()?;
    let (read, _) = key.pick(&pairs)?;
    let call = key.operations[write].call;
    key.operations[read].call = call - 2;
    key.operations[read].ret = call - 1;
    Some(())
}

pub fn unknown_write_twice(key: &mut Key<'_>) -> Option<()> {
    let (_, pairs) = key.lose_an_answer()?;
    let (_, last) = key.pick(&pairs)?;
    let Outcome::Found { value, .. } = key.operations[last].outcome else { return None };
    let version = Version(key.highest() + 1);
    key.set(last, Outcome::Found { version, value })
}

pub fn refusal_tells_old(key: &mut Key<'_>) -> Option<()> {
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
