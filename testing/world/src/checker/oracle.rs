//! A second opinion for the checker's tests: tries every order of a short history of one key.
//!
//! That an object ends by itself is an operation of its own, after that which wrote it.

use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use ramhold_base::Version;
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// The next version is greater.
    floor: u64,
    /// The value there and its version, where somebody knows it.
    present: Option<(ValueId, Option<u64>)>,
}

/// An operation of the history, or the end of what one of them wrote.
#[derive(Clone, Copy)]
enum What {
    Operation(usize),
    EndOf(usize),
}

struct Step {
    call: u64,
    ret: u64,
    what: What,
}

/// Whether some order of the operations explains all outcomes. Exponential: for a dozen operations at most.
pub(super) fn is_linearizable(history: &[Operation], clock_spread: u64) -> bool {
    let mut steps: Vec<Step> = history
        .iter()
        .enumerate()
        .map(|(at, o)| Step { call: o.call, ret: o.ret, what: What::Operation(at) })
        .collect();
    for (at, operation) in history.iter().enumerate() {
        let Action::Write { value, ttl: Some(ttl), .. } = operation.action else { continue };
        if !operation.may_mutate() {
            continue;
        }
        let ttl = ttl.as_nanos() as u64;
        let reads = history
            .iter()
            .filter(|o| matches!(o.outcome, Outcome::Found { value: read, .. } if read == value));
        let written = reads.map(|o| o.ret).min().unwrap_or(NEVER).min(operation.ret);
        steps.push(Step {
            call: (operation.call + ttl).saturating_sub(clock_spread),
            ret: written.saturating_add(ttl).saturating_add(clock_spread),
            what: What::EndOf(at),
        });
    }
    search(history, &steps, 0, State { floor: 0, present: None }, &mut BTreeSet::new())
}

fn search(
    history: &[Operation],
    steps: &[Step],
    done: u32,
    state: State,
    visited: &mut BTreeSet<(u32, State)>,
) -> bool {
    let waiting = |at: usize| done & (1 << at) == 0;
    let first_end = (0..steps.len()).filter(|at| waiting(*at)).map(|at| steps[at].ret).min().unwrap_or(NEVER);
    if first_end == NEVER {
        return true;
    }
    if !visited.insert((done, state)) {
        return false;
    }
    for at in (0..steps.len()).filter(|at| waiting(*at)) {
        if steps[at].call > first_end {
            continue;
        }
        let next = match steps[at].what {
            What::Operation(operation) => apply(&history[operation], state),
            What::EndOf(write) => (!waiting(write)).then(|| end(&history[write], state)),
        };
        if next.is_some_and(|next| search(history, steps, done | 1 << at, next, visited)) {
            return true;
        }
    }
    false
}

/// What is there when the time of what a write left is over. Values are unique.
fn end(write: &Operation, state: State) -> State {
    let is_it = |value| matches!(write.action, Action::Write { value: left, .. } if left == value);
    State { present: state.present.filter(|(value, _)| !is_it(*value)), ..state }
}

/// The state with the version that somebody tells of what is there, if it can be that.
fn told(state: State, version: u64) -> Option<State> {
    let (value, known) = state.present?;
    match known {
        Some(known) => (known == version).then_some(state),
        None => {
            (version > state.floor).then_some(State { floor: version, present: Some((value, Some(version))) })
        }
    }
}

fn meets(state: State, condition: Condition) -> Option<State> {
    match condition {
        Condition::Free => Some(state),
        Condition::Absent => state.present.is_none().then_some(state),
        Condition::VersionIs(version) => told(state, version.raw()),
    }
}

fn apply(operation: &Operation, state: State) -> Option<State> {
    let (condition, left) = match operation.action {
        Action::Read => {
            return match operation.outcome {
                Outcome::Found { version, value } => {
                    told(state, version.raw()).filter(|s| s.present.is_some_and(|(v, _)| v == value))
                }
                Outcome::Absent => state.present.is_none().then_some(state),
                Outcome::Refused { .. } | Outcome::Unknown => Some(state),
                Outcome::Done { .. }
                | Outcome::Counted { .. }
                | Outcome::ConditionFailed { .. }
                | Outcome::Scanned
                | Outcome::MetTwice => None,
            };
        }
        Action::Increment { .. } | Action::Count | Action::Scan => return None,
        Action::Write { value, condition, .. } => (condition, Some(value)),
        Action::Remove { condition } => (condition, None),
    };
    match operation.outcome {
        Outcome::Found { .. }
        | Outcome::Absent
        | Outcome::Counted { .. }
        | Outcome::Scanned
        | Outcome::MetTwice => None,
        Outcome::Refused { .. } => Some(state),
        Outcome::ConditionFailed { version } => match (condition, version) {
            (Condition::Free, _) => None,
            (Condition::Absent, Some(Version(0))) => None,
            (Condition::Absent, None) => state.present.is_some().then_some(state),
            (Condition::VersionIs(_), Some(Version(0))) => state.present.is_none().then_some(state),
            (Condition::VersionIs(wanted), Some(version)) if wanted == version => None,
            (_, Some(version)) => told(state, version.raw()),
            (Condition::VersionIs(_), None) => Some(state),
        },
        Outcome::Done { version: Version(0) } => {
            (left.is_none() && condition == Condition::Free && state.present.is_none()).then_some(state)
        }
        Outcome::Done { version } => {
            let state = meets(state, condition)?;
            if left.is_none() {
                state.present?;
            }
            let version = version.raw();
            let next = State { floor: version, present: left.map(|value| (value, Some(version))) };
            (version > state.floor).then_some(next)
        }
        Outcome::Unknown => {
            let state = meets(state, condition)?;
            Some(State { floor: state.floor, present: left.map(|value| (value, None)) })
        }
    }
}
