//! Whether some order of one key's operations explains every outcome, found by trying: a second opinion on versions.
//!
//! Depth first over what may come next: whatever began before the first of those still waiting ended. What was tried
//! before (the same operations done, the same object left) is not tried again. An unknown operation may come at any
//! time after its call, or never. That an object ends by itself is a step of its own, after that which wrote it.
//!
//! The cost grows with what overlaps and what is unknown, so a search is cut off and then says that it is undecided.
//!
//! Not here: anything that a version tells beyond what its operation saw (order). Source: Wing and Gong, JPDC 1993;
//! Lowe, "Testing for linearizability", 2017, for the memory of what was tried.

use super::{COUNTERS, Verdict, Violation};
use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use ramhold_base::Version;
use std::collections::{BTreeMap, BTreeSet};

/// Keys with more operations and ends than this are left to the other checker: what is done is kept in as many bits.
pub const STEPS_MAX: usize = 256;
/// Tried for one key in a run before its search is cut off; bounds it to some milliseconds.
const TRIED_MAX: usize = 20_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Linearizable,
    /// No order explains what was told.
    Contradiction,
    /// Cut off before either was clear.
    Undecided,
}

/// What searching the small keys of a history showed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Searched {
    pub keys: u64,
    pub operations: u64,
    /// Keys whose search was cut off.
    pub undecided: u64,
    /// Keys with too many operations to begin with.
    pub too_large: u64,
    /// Keys of which the version witness said something else, in words.
    pub disagreements: Vec<String>,
}

/// Searches each key that is small enough and holds the answer against what the version witness found.
pub fn second_opinion(history: &[Operation], verdict: &Verdict, clock_spread: u64) -> Searched {
    let mut by_key: BTreeMap<u32, Vec<Operation>> = BTreeMap::new();
    for operation in history.iter().filter(|operation| operation.key < COUNTERS) {
        by_key.entry(operation.key).or_default().push(*operation);
    }
    let accused: BTreeMap<u32, &Violation> = verdict.violations.iter().map(|v| (v.key, v)).collect();
    let mut searched = Searched::default();
    for (key, operations) in by_key {
        let Some(steps) = Steps::new(&operations, clock_spread) else {
            searched.too_large += 1;
            continue;
        };
        searched.keys += 1;
        searched.operations += operations.len() as u64;
        match (steps.search(TRIED_MAX), accused.get(&key)) {
            (Answer::Undecided, _) => searched.undecided += 1,
            (Answer::Linearizable, None) | (Answer::Contradiction, Some(_)) => {}
            (Answer::Linearizable, Some(violation)) => searched.disagreements.push(format!(
                "an order explains key {key}, of which the version witness says {}; all of it:{}",
                violation.describe(history),
                lines(&operations)
            )),
            (Answer::Contradiction, None) => searched.disagreements.push(format!(
                "no order explains key {key}, which the version witness accepts:{}",
                lines(&operations)
            )),
        }
    }
    searched
}

fn lines(operations: &[Operation]) -> String {
    operations.iter().map(|operation| format!("\n    {operation}")).collect()
}

/// Searches the history of one key; it must have at most `STEPS_MAX` operations and ends.
#[cfg(test)]
pub(super) fn search(history: &[Operation], clock_spread: u64, tried_max: usize) -> Answer {
    Steps::new(history, clock_spread).expect("a small history").search(tried_max)
}

/// What is there, as far as it was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// The next version is greater.
    floor: u64,
    /// The value there and its version, where somebody knows it.
    present: Option<(ValueId, Option<u64>)>,
}

/// An operation of the history, or the end of what one of the steps wrote.
#[derive(Clone, Copy)]
enum What {
    Operation(Operation),
    EndOf { step: usize, of: Operation },
}

#[derive(Clone, Copy)]
struct Step {
    call: u64,
    ret: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Done([u64; STEPS_MAX / 64]);

impl Done {
    fn has(&self, step: usize) -> bool {
        self.0[step / 64] & (1 << (step % 64)) != 0
    }

    fn with(mut self, step: usize) -> Done {
        self.0[step / 64] |= 1 << (step % 64);
        self
    }
}

struct Steps {
    /// In order of call, but that an end comes at its place among the calls too.
    steps: Vec<Step>,
    tried: BTreeSet<(Done, State)>,
}

impl Steps {
    /// None: there are too many.
    fn new(history: &[Operation], clock_spread: u64) -> Option<Steps> {
        let says_nothing = |o: &&Operation| match (o.action, o.outcome) {
            (_, Outcome::Refused { .. }) | (Action::Read, Outcome::Unknown) => false,
            (_, _) => true,
        };
        let mut operations: Vec<&Operation> = history.iter().filter(says_nothing).collect();
        operations.sort_by_key(|o| o.call);
        let step = |o: &&Operation| Step { call: o.call, ret: o.ret, what: What::Operation(**o) };
        let mut steps: Vec<Step> = operations.iter().map(step).collect();
        for operation in &operations {
            let Action::Write { value, ttl: Some(ttl), .. } = operation.action else { continue };
            if !operation.may_mutate() {
                continue;
            }
            let ttl = u64::try_from(ttl.as_nanos()).unwrap_or(NEVER);
            let saw_it = |o: &&&Operation| {
                let read = |read: ValueId| read == value;
                matches!(o.outcome, Outcome::Found { value, .. } | Outcome::Seen { value } if read(value))
            };
            let written = operations.iter().filter(saw_it).map(|o| o.ret).min().unwrap_or(NEVER);
            let written = written.min(operation.ret);
            steps.push(Step {
                call: operation.call.saturating_add(ttl).saturating_sub(clock_spread),
                ret: written.saturating_add(ttl).saturating_add(clock_spread),
                what: What::EndOf { step: usize::MAX, of: **operation },
            });
        }
        if steps.len() > STEPS_MAX {
            return None;
        }
        steps.sort_by_key(|s| s.call);
        for end in 0..steps.len() {
            if let What::EndOf { of, .. } = steps[end].what {
                let is_it = |s: &Step| matches!(s.what, What::Operation(operation) if operation == of);
                let step = steps.iter().position(is_it).expect("an end is of a write");
                steps[end].what = What::EndOf { step, of };
            }
        }
        Some(Steps { steps, tried: BTreeSet::new() })
    }

    fn search(mut self, tried_max: usize) -> Answer {
        let nothing = Done([0; STEPS_MAX / 64]);
        match self.explain(nothing, 0, State { floor: 0, present: None }, tried_max) {
            true => Answer::Linearizable,
            false if self.tried.len() >= tried_max => Answer::Undecided,
            false => Answer::Contradiction,
        }
    }

    /// Whether what is not done can be explained from this state; all steps before `first` are done.
    fn explain(&mut self, done: Done, mut first: usize, state: State, tried_max: usize) -> bool {
        while first < self.steps.len() && done.has(first) {
            first += 1;
        }
        // Those that began before the first end among all that wait; that end bounds how far to look, too.
        let mut first_end = NEVER;
        let mut last = first;
        for (at, step) in self.steps.iter().enumerate().skip(first) {
            if step.call > first_end {
                break;
            }
            if !done.has(at) {
                first_end = first_end.min(step.ret);
            }
            last = at + 1;
        }
        if first_end == NEVER {
            return true;
        }
        if self.tried.len() >= tried_max || !self.tried.insert((done, state)) {
            return false;
        }
        // What is known to have happened comes first: most unknown operations are never needed.
        for unknown in [false, true] {
            for at in first..last {
                let Step { call, ret, what } = self.steps[at];
                if done.has(at) || call > first_end || (ret == NEVER) != unknown {
                    continue;
                }
                let next = match what {
                    What::Operation(operation) => apply(&operation, state),
                    What::EndOf { step, of } => done.has(step).then(|| end(&of, state)),
                };
                // An unknown operation that changes nothing need not have happened.
                let next = next.filter(|next| !unknown || *next != state);
                if next.is_some_and(|next| self.explain(done.with(at), first, next, tried_max)) {
                    return true;
                }
            }
        }
        false
    }
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

/// The state after an operation, if it can have ended so in this one.
fn apply(operation: &Operation, state: State) -> Option<State> {
    let (condition, left) = match operation.action {
        Action::Read => {
            return match operation.outcome {
                Outcome::Found { version, value } => {
                    told(state, version.raw()).filter(|s| s.present.is_some_and(|(v, _)| v == value))
                }
                Outcome::Seen { value } => state.present.is_some_and(|(v, _)| v == value).then_some(state),
                Outcome::Absent => state.present.is_none().then_some(state),
                Outcome::Refused { .. } | Outcome::Unknown => Some(state),
                Outcome::Done { .. }
                | Outcome::Acknowledged
                | Outcome::Counted { .. }
                | Outcome::Summed { .. }
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
        | Outcome::Seen { .. }
        | Outcome::Absent
        | Outcome::Counted { .. }
        | Outcome::Summed { .. }
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
        Outcome::Acknowledged if left.is_none() && state.present.is_none() => None,
        Outcome::Unknown | Outcome::Acknowledged => {
            let state = meets(state, condition)?;
            Some(State { floor: state.floor, present: left.map(|value| (value, None)) })
        }
    }
}
