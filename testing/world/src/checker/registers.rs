//! Judges objects whose answers tell no versions at all, each by a complete search: the keys of quorum tables.
//!
//! Such a key is one register. Values are unique, so a read names the write that it saw; a removal is not told whether
//! anything was there. The search goes through the ends of operations in their order, and keeps every state that the
//! register may be in by then: its value, and which of the operations under way were taken before. An unknown mutation may
//! be taken at any time after its call, or never. A value with a time to live may end by itself from its end on, however
//! late that is noticed, but nobody may see it when its end is over on all clocks.
//!
//! Two things keep the search small: a read that fits is taken at once, as it changes nothing, and an unknown write whose value
//! nobody saw is left out, as it may have had no effect.
//!
//! Not here: keys whose answers have versions (order, search). Source: Wing and Gong, JPDC 1993. Catalogue: I1, J3.

use super::{COUNTERS, Violation, ViolationKind};
use crate::history::{Action, NEVER, Operation, Outcome, ValueId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Keys from here up to the counters are registers.
pub const REGISTERS: u32 = 1 << 22;

/// States that are looked at for the end of one operation. With more, the key is left undecided.
const STATES_MAX: usize = 20_000;
/// Operations before the contradiction that a violation shows.
const SHOWN_MAX: usize = 40;

pub fn is_register(key: u32) -> bool {
    (REGISTERS..COUNTERS).contains(&key)
}

/// How much was judged. A check that saw nothing proves nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Registers {
    pub keys: u64,
    pub operations: u64,
    /// Keys whose search was cut off.
    pub undecided: u64,
    /// Unknown writes whose value somebody saw.
    pub unknown_seen: u64,
    /// Values that were put with an end.
    pub with_end: u64,
}

/// Judges all registers of a history. Ends may be off by `clock_spread` nanoseconds.
pub fn check(history: &[Operation], clock_spread: u64) -> (Vec<Violation>, Registers) {
    let mut by_key: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, operation) in history.iter().enumerate() {
        if is_register(operation.key) && operation.action != Action::Scan {
            by_key.entry(operation.key).or_default().push(at);
        }
    }
    let (mut violations, mut seen) = (Vec::new(), Registers::default());
    for (key, places) in by_key {
        seen.keys += 1;
        seen.operations += places.len() as u64;
        let register = Register::new(history, &places, clock_spread, &mut seen);
        if let Some(operations) = register.seen_after_end() {
            violations.push(Violation { kind: ViolationKind::SeenAfterExpiry, key, operations });
        }
        match register.search() {
            Answer::Linearizable => {}
            Answer::Undecided => seen.undecided += 1,
            Answer::Contradiction { at, end } => {
                let before = |place: &&usize| history[**place].call <= end && **place != at;
                let mut shown: Vec<usize> = places.iter().filter(before).copied().collect();
                shown.sort_by_key(|place| history[*place].call);
                let shown = shown.split_off(shown.len().saturating_sub(SHOWN_MAX));
                let operations = [at].into_iter().chain(shown).collect();
                violations.push(Violation { kind: ViolationKind::NoOrder, key, operations });
            }
        }
    }
    (violations, seen)
}

enum Answer {
    Linearizable,
    Undecided,
    /// No order of the operations explains the one at this place, which ended then.
    Contradiction {
        at: usize,
        end: u64,
    },
}

#[derive(Clone, Copy)]
enum What {
    Put(Option<ValueId>),
    Get(Option<ValueId>),
}

#[derive(Clone, Copy)]
struct Step {
    place: usize,
    call: u64,
    /// `NEVER`: it may be taken at any time, or never.
    ret: u64,
    what: What,
}

/// A state in which the register may be: its value, and those of the operations under way that were taken, in order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    value: Option<ValueId>,
    taken: Vec<usize>,
}

struct Register {
    /// In order of call.
    steps: Vec<Step>,
    /// When a value may have ended, at the earliest, and until when it may be seen, at the latest.
    ends: BTreeMap<ValueId, (u64, u64)>,
}

impl Register {
    fn new(history: &[Operation], places: &[usize], spread: u64, seen: &mut Registers) -> Register {
        let mut first_seen: BTreeMap<ValueId, u64> = BTreeMap::new();
        for place in places {
            if let Outcome::Seen { value } = history[*place].outcome {
                let first = first_seen.entry(value).or_insert(NEVER);
                *first = history[*place].ret.min(*first);
            }
        }
        let (mut steps, mut ends) = (Vec::new(), BTreeMap::new());
        for place in places.iter().copied() {
            let operation = &history[place];
            let is_unknown = operation.outcome == Outcome::Unknown;
            let (what, ret) = match (operation.action, operation.outcome) {
                (_, Outcome::Refused { .. }) => continue,
                (Action::Write { value, ttl, .. }, _) => {
                    let first = first_seen.get(&value).copied().unwrap_or(NEVER);
                    let nanos = |ttl: Duration| u64::try_from(ttl.as_nanos()).unwrap_or(NEVER);
                    let earliest =
                        ttl.map(|ttl| operation.call.saturating_add(nanos(ttl)).saturating_sub(spread));
                    if is_unknown && first == NEVER {
                        // It may have taken effect, and ended before anybody looked.
                        if let Some(earliest) = earliest {
                            let (call, ret) = (earliest.max(operation.call), NEVER);
                            steps.push(Step { place, call, ret, what: What::Put(None) });
                        }
                        continue;
                    }
                    seen.unknown_seen += u64::from(is_unknown);
                    // It was taken before the first read of its value ended.
                    let ret = operation.ret.min(first);
                    if let (Some(ttl), Some(earliest)) = (ttl, earliest) {
                        let latest = ret.saturating_add(nanos(ttl)).saturating_add(spread);
                        ends.insert(value, (earliest, latest));
                        seen.with_end += 1;
                    }
                    (What::Put(Some(value)), ret)
                }
                (Action::Remove { .. }, _) => {
                    (What::Put(None), if is_unknown { NEVER } else { operation.ret })
                }
                (_, Outcome::Seen { value }) => (What::Get(Some(value)), operation.ret),
                (_, Outcome::Absent) => (What::Get(None), operation.ret),
                // A read without an answer says nothing.
                _ => continue,
            };
            steps.push(Step { place, call: operation.call, ret, what });
        }
        steps.sort_by_key(|step| step.call);
        Register { steps, ends }
    }

    /// A read that began when the end of its value was over on all clocks, and the write of it.
    fn seen_after_end(&self) -> Option<Vec<usize>> {
        let late = self.steps.iter().find(|step| match step.what {
            What::Get(Some(value)) => self.ends.get(&value).is_some_and(|(_, latest)| step.call > *latest),
            _ => false,
        })?;
        let is_write = |step: &&Step| match (step.what, late.what) {
            (What::Put(put), What::Get(got)) => put == got,
            _ => false,
        };
        let write = self.steps.iter().find(is_write).map(|step| step.place);
        Some([late.place].into_iter().chain(write).collect())
    }

    fn search(&self) -> Answer {
        let mut ends: Vec<(u64, usize)> =
            self.steps.iter().enumerate().map(|(at, step)| (step.ret, at)).collect();
        ends.sort_unstable();
        let mut states = vec![State { value: None, taken: Vec::new() }];
        let mut begun = 0;
        // Steps that have begun and not ended, or that never end.
        let mut open: Vec<usize> = Vec::new();
        for (end, ending) in ends.into_iter().take_while(|(end, _)| *end != NEVER) {
            while begun < self.steps.len() && self.steps[begun].call <= end {
                open.push(begun);
                begun += 1;
            }
            let Some(next) = self.go_on(std::mem::take(&mut states), &open, (end, ending)) else {
                return Answer::Undecided;
            };
            open.retain(|step| *step != ending);
            if next.is_empty() {
                return Answer::Contradiction { at: self.steps[ending].place, end };
            }
            states = next;
        }
        Answer::Linearizable
    }

    /// The states after the end of a step. None: there are too many.
    fn go_on(&self, states: Vec<State>, open: &[usize], (end, ending): (u64, usize)) -> Option<Vec<State>> {
        let (mut next, mut tried) = (BTreeSet::new(), BTreeSet::new());
        let mut stack = states;
        while let Some(mut state) = stack.pop() {
            // A read that fits changes nothing, so it is taken as soon as it can be.
            for step in open {
                if let What::Get(value) = self.steps[*step].what
                    && value == state.value
                {
                    state.take(*step);
                }
            }
            if !tried.insert(state.clone()) {
                continue;
            }
            if tried.len() > STATES_MAX {
                return None;
            }
            if state.taken.binary_search(&ending).is_ok() {
                state.taken.retain(|step| *step != ending);
                next.insert(state);
                continue;
            }
            let has_ended =
                |value: &ValueId| self.ends.get(value).is_some_and(|(earliest, _)| *earliest <= end);
            if state.value.as_ref().is_some_and(has_ended) {
                stack.push(State { value: None, taken: state.taken.clone() });
            }
            for step in open {
                if let What::Put(value) = self.steps[*step].what
                    && state.taken.binary_search(step).is_err()
                {
                    let mut after = State { value, taken: state.taken.clone() };
                    after.take(*step);
                    stack.push(after);
                }
            }
        }
        Some(next.into_iter().collect())
    }
}

impl State {
    fn take(&mut self, step: usize) {
        if let Err(at) = self.taken.binary_search(&step) {
            self.taken.insert(at, step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Condition;

    fn told(call: u64, ret: u64, action: Action, outcome: Outcome) -> Operation {
        let (client, session, key) = (1, 1, REGISTERS + 7);
        Operation { client, session, key, action, call, ret, outcome, commit: None, answered_by: None }
    }

    fn put(call: u64, ret: u64, value: u64, ttl: Option<u64>) -> Operation {
        let (value, ttl) = (ValueId(value), ttl.map(Duration::from_nanos));
        let outcome = if ret == NEVER { Outcome::Unknown } else { Outcome::Acknowledged };
        told(call, ret, Action::Write { value, condition: Condition::Free, ttl }, outcome)
    }

    fn del(call: u64, ret: u64) -> Operation {
        let outcome = if ret == NEVER { Outcome::Unknown } else { Outcome::Acknowledged };
        told(call, ret, Action::Remove { condition: Condition::Free }, outcome)
    }

    fn get(call: u64, ret: u64, value: u64) -> Operation {
        let value = ValueId(value);
        let outcome = if value.0 == 0 { Outcome::Absent } else { Outcome::Seen { value } };
        told(call, ret, Action::Read, outcome)
    }

    fn kinds(history: &[Operation], spread: u64) -> Vec<ViolationKind> {
        let (violations, seen) = check(history, spread);
        assert_eq!((seen.undecided, seen.keys), (0, 1));
        violations.into_iter().map(|violation| violation.kind).collect()
    }

    // I1, J3
    #[test]
    fn stale_reads_and_lost_writes_are_known_from_concurrent_ones() {
        let puts = [put(1, 10, 1, None), put(20, 30, 2, None)];
        let with = |more: &[Operation]| kinds(&[&puts[..], more].concat(), 0).is_empty();
        assert!(with(&[get(40, 50, 2)]));
        assert!(!with(&[get(40, 50, 1)]), "a stale read");
        assert!(!with(&[get(40, 50, 0)]), "a lost write");
        assert!(with(&[get(25, 50, 1)]), "the second put was under way");
        assert!(!with(&[get(22, 25, 2), get(26, 29, 1)]), "seen, and not seen again");
        assert!(!with(&[get(11, 12, 2)]), "seen before it was written");
        assert!(with(&[del(40, 50), get(60, 70, 0)]));
        assert!(!with(&[del(40, 50), get(60, 70, 2)]), "a removed value is back");
        assert!(with(&[del(40, 50), del(51, 60), get(60, 70, 0)]), "nobody is told that nothing was there");
        let lost = put(5, NEVER, 3, None);
        assert!(with(&[lost, get(90, 95, 3)]), "an unknown put may take effect late");
        assert!(!with(&[lost, get(90, 95, 3), get(96, 99, 2)]), "and once only");
        assert!(with(&[lost, get(90, 95, 2)]), "or never");
        let gone = del(5, NEVER);
        assert!(with(&[gone, get(90, 95, 2), get(96, 99, 0)]), "an unknown removal, too");
        assert!(!with(&[gone, get(31, 33, 0), get(40, 41, 2)]));
    }

    // A12, J3
    #[test]
    fn a_value_ends_by_itself_and_is_not_seen_for_long_after() {
        let history = |reads: &[Operation]| [&[put(1, 10, 1, Some(100))], reads].concat();
        assert_eq!(kinds(&history(&[get(50, 60, 1), get(102, 105, 0)]), 5), []);
        assert_eq!(kinds(&history(&[get(70, 80, 0)]), 5), [ViolationKind::NoOrder], "too early");
        assert_eq!(kinds(&history(&[get(102, 105, 0), get(106, 107, 1)]), 5), [ViolationKind::NoOrder]);
        assert_eq!(kinds(&history(&[get(130, 140, 1)]), 5), [ViolationKind::SeenAfterExpiry]);
        let short = [put(1, 10, 1, None), put(20, NEVER, 2, Some(30)), get(40, 45, 1)];
        let then = |reads: &[Operation]| kinds(&[&short[..], reads].concat(), 0).is_empty();
        assert!(then(&[get(60, 70, 0)]), "the unknown one came late, and ended");
        assert!(!then(&[get(46, 49, 0)]), "before its end");
        assert!(!then(&[get(60, 70, 0), get(71, 80, 1)]));
    }

    // J3: histories of one register at random, and the same with one answer falsified.
    #[test]
    fn every_history_of_a_register_is_accepted() {
        use ramhold_base::Rng;
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (mut value, mut history) = (0, Vec::new());
            for tag in 1..60 {
                // Each takes effect at ten times its number, and lasts for some time around that.
                let (call, ret) = (tag * 10 - rng.below(40).min(tag * 10 - 1), tag * 10 + 1 + rng.below(40));
                let is_lost = rng.chance(1, 8);
                match rng.below(5) {
                    0 | 1 => {
                        value = tag;
                        history.push(put(call, if is_lost { NEVER } else { ret }, tag, None));
                    }
                    2 => {
                        value = 0;
                        history.push(del(call, if is_lost { NEVER } else { ret }));
                    }
                    _ => history.push(get(call, ret, value)),
                }
            }
            assert_eq!(kinds(&history, 0), [], "seed {seed}");
        }
    }
}
