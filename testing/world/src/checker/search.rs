//! Searches for an order of one key's operations that explains every outcome: a second opinion on versions.
//!
//! The search goes depth first over all operations that may come next. These are the operations that began
//! before the first end among those still waiting. A combination tried before (the same operations done, the
//! same object left) is not tried again. An unknown operation may come at any time after its call, or never.
//! The expiry of an object is a step of its own, after the operation that wrote it.
//!
//! The cost grows with the number of overlapping and unknown operations. So a search is cut off at a limit,
//! and then says that it is undecided.
//!
//! Not here: anything that a version tells beyond what its operation saw (order).
//! Source: Wing and Gong, JPDC 1993; Lowe, "Testing for linearizability", 2017, for the memory of what was
//! tried.

use super::registers::is_register;
use super::{COUNTERS, Verdict, Violation};
use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use ramhold_base::Version;
use std::collections::{BTreeMap, BTreeSet};

/// Keys with more operations and expiries than this are left to the other checker: the set of done steps has
/// one bit for each.
pub const STEPS_MAX: usize = 256;
/// The limit of tries for one key in a run, after which the search is cut off. It bounds the search to some
/// milliseconds.
const TRIED_MAX: usize = 20_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Linearizable,
    /// No order explains the answers.
    Contradiction,
    /// The search was cut off before the answer was clear.
    Undecided,
}

/// The results of searching the small keys of a history.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Searched {
    pub keys: u64,
    pub operations: u64,
    /// Keys whose search was cut off.
    pub undecided: u64,
    /// Keys with too many operations to start a search.
    pub too_large: u64,
    /// Keys for which the version witness disagrees, in words.
    pub disagreements: Vec<String>,
}

/// Searches each key that is small enough, and compares the answer with the version witness's.
pub fn second_opinion(history: &[Operation], verdict: &Verdict, clock_spread: u64) -> Searched {
    let mut by_key: BTreeMap<u32, Vec<Operation>> = BTreeMap::new();
    for operation in
        history.iter().filter(|operation| operation.key < COUNTERS && !is_register(operation.key))
    {
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

/// The object, as far as answers told it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// The next version is greater.
    floor: u64,
    /// The present value, and its version where an answer told it.
    present: Option<(ValueId, Option<u64>)>,
}

/// An operation of the history, or the expiry of an object that one of the steps wrote.
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
    /// In order of call. An expiry also has a place among the calls.
    steps: Vec<Step>,
    tried: BTreeSet<(Done, State)>,
}

impl Steps {
    /// None: there are too many steps.
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

    /// Whether the steps that are not done can be explained from this state. All steps before `first` are
    /// done.
    fn explain(&mut self, done: Done, mut first: usize, state: State, tried_max: usize) -> bool {
        while first < self.steps.len() && done.has(first) {
            first += 1;
        }
        // The steps that began before the first return among all that wait. That return also bounds how far
        // to look.
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
        // Operations of known outcome come first: most unknown operations are never needed.
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

/// The state when the time to live of a write's object is over. Values are unique.
fn end(write: &Operation, state: State) -> State {
    let is_it = |value| matches!(write.action, Action::Write { value: left, .. } if left == value);
    State { present: state.present.filter(|(value, _)| !is_it(*value)), ..state }
}

/// The state with the version that an answer told for the present object, if the state allows that version.
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

/// The state after an operation, if the operation can have this outcome in the given state.
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
