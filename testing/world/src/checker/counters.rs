//! Judges counters: objects that are only incremented and read.
//!
//! Each increment of a counter adds another power of four. So a sum tells which increments are in it, and an
//! increment that was counted twice shows as a digit above 1. The versions order the sums: each sum holds all
//! that the sum before it holds. Clients that learn no versions learn sums that have their place in the same
//! order, or only that an increment was carried out.
//!
//! Catalogue: A7, A11.

use super::{Seen, Violation, ViolationKind};
use crate::history::{Action, Condition, Operation, Outcome};
use ramhold_base::Version;
use std::collections::BTreeMap;

/// Keys from here on are counters.
pub const COUNTERS: u32 = 1 << 24;
/// Increments of one counter: so few that a 64-bit float holds each sum exactly, and twice each sum.
pub const PLACE_COUNT: u32 = 26;

/// The amount of the increment at a place.
pub fn amount(place: u8) -> i64 {
    1 << (2 * place)
}

struct Counter<'a> {
    history: &'a [Operation],
    key: u32,
    /// The increments that may have been counted, by their places in sums.
    increments: BTreeMap<u8, usize>,
    /// The sums by version, each with the operation that told it first.
    states: BTreeMap<Version, (i64, usize)>,
    /// Sums that were told without a version.
    sums: Vec<(i64, usize)>,
    found: &'a mut Vec<Violation>,
}

/// Checks all operations on one counter.
pub(super) fn check(
    history: &[Operation],
    key: u32,
    places: &[usize],
    found: &mut Vec<Violation>,
    seen: &mut Seen,
) {
    let (increments, states, sums) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut counter = Counter { history, key, increments, states, sums, found };
    for at in places {
        if let Action::Increment { place, .. } = history[*at].action
            && history[*at].may_mutate()
        {
            counter.increments.insert(place, *at);
        }
    }
    let told: Vec<usize> = places.iter().copied().filter(|at| counter.take(*at, seen)).collect();
    counter.check_states();
    counter.check_sums();
    counter.check_real_time(&told, places);
    seen.increments += counter.increments.len() as u64;
    let newest = counter.states.last_key_value().map_or(0, |(_, (sum, _))| *sum);
    let is_unknown = |at: &usize| history[*at].outcome == Outcome::Unknown;
    let unknown = counter.increments.iter().filter(|(place, at)| is_unknown(at) && holds(newest, **place));
    seen.unknown_bound += unknown.count() as u64;
}

fn holds(sum: i64, place: u8) -> bool {
    sum >> (2 * place) & 3 != 0
}

fn digits(sum: i64) -> impl Iterator<Item = (u8, i64)> {
    (0..31).map(move |place| (place, sum >> (2 * place) & 3)).filter(|(_, digit)| *digit > 0)
}

impl Counter<'_> {
    fn violation(&mut self, kind: ViolationKind, operations: Vec<usize>) {
        self.found.push(Violation { kind, key: self.key, operations });
    }

    /// Notes the answer of an operation. `true`: the answer has a sum that can be judged further.
    fn take(&mut self, at: usize, seen: &mut Seen) -> bool {
        let operation = &self.history[at];
        let (version, sum) = match (operation.action, operation.outcome) {
            (Action::Increment { .. } | Action::Count, Outcome::Counted { version, sum }) => {
                (Some(version), sum)
            }
            (Action::Increment { .. } | Action::Count, Outcome::Summed { sum }) => (None, sum),
            (Action::Increment { .. }, Outcome::Acknowledged) => return false,
            (Action::Increment { condition, .. }, Outcome::ConditionFailed { version }) => {
                seen.conditions_failed += 1;
                let wrongly = match condition {
                    Condition::Free => true,
                    Condition::Absent => version == Some(Version::NONE),
                    Condition::VersionIs(wanted) => version == Some(wanted),
                };
                if wrongly {
                    self.violation(ViolationKind::RefusedWrongly, vec![at]);
                }
                return false;
            }
            (Action::Increment { .. } | Action::Count, Outcome::Refused { .. } | Outcome::Unknown)
            | (Action::Count, Outcome::Absent) => return false,
            _ => {
                self.violation(ViolationKind::Nonsense, vec![at]);
                return false;
            }
        };
        seen.observations += 1;
        if sum <= 0 || version == Some(Version::NONE) {
            self.violation(ViolationKind::Nonsense, vec![at]);
            return false;
        }
        if digits(sum).any(|(_, digit)| digit > 1) {
            self.violation(ViolationKind::CountedTwice, vec![at]);
            return false;
        }
        if digits(sum).any(|(place, _)| !self.increments.contains_key(&place)) {
            self.violation(ViolationKind::NeverWritten, vec![at]);
            return false;
        }
        if let Action::Increment { place, .. } = operation.action
            && !holds(sum, place)
        {
            self.violation(ViolationKind::WrongValue, vec![at]);
            return false;
        }
        let Some(version) = version else {
            self.sums.push((sum, at));
            return true;
        };
        if let Some((there, other)) = self.states.get(&version).copied() {
            let both_increment = [at, other].iter().all(|at| self.history[*at].may_mutate());
            if there != sum {
                self.violation(ViolationKind::WrongValue, vec![at, other]);
            } else if both_increment {
                self.violation(ViolationKind::DuplicateVersion, vec![at, other]);
            }
            if self.history[at].may_mutate() {
                self.states.insert(version, (there, at));
            }
            return there == sum;
        }
        self.states.insert(version, (sum, at));
        true
    }

    /// In the order of versions each sum holds the one before it; an answered increment is counted at its version.
    fn check_states(&mut self) {
        let states: Vec<(Version, i64, usize)> =
            self.states.iter().map(|(version, (sum, at))| (*version, *sum, *at)).collect();
        let before = std::iter::once((Version::NONE, 0, usize::MAX)).chain(states.iter().copied());
        for ((_, less, other), (version, sum, at)) in before.zip(&states) {
            let blamed: Vec<usize> =
                [*at].into_iter().chain((other != usize::MAX).then_some(other)).collect();
            let lost = digits(less).any(|(place, _)| !holds(*sum, place));
            if lost || less == *sum {
                self.violation(ViolationKind::IncrementLost, blamed);
                continue;
            }
            let added: Vec<u8> =
                digits(*sum).map(|(place, _)| place).filter(|place| !holds(less, *place)).collect();
            for place in &added {
                let increment = self.increments[place];
                if let Outcome::Counted { version: counted, .. } = self.history[increment].outcome
                    && counted != *version
                {
                    self.violation(ViolationKind::VersionWentBack, vec![*at, increment]);
                }
            }
            if let Action::Increment { place, condition } = self.history[*at].action {
                let is_right = match condition {
                    Condition::Free => true,
                    Condition::Absent => *sum == amount(place),
                    Condition::VersionIs(wanted) => {
                        let there = self.states.get(&wanted);
                        there.is_none_or(|(there, _)| there + amount(place) == *sum)
                    }
                };
                if !is_right {
                    self.violation(ViolationKind::ConditionIgnored, vec![*at]);
                }
            }
        }
    }

    /// All sums have one order, and each holds the sums below it, whether versions were told with them or
    /// not. Two increments never lead to the same sum.
    fn check_sums(&mut self) {
        if self.sums.is_empty() {
            return;
        }
        let mut all: Vec<(i64, usize)> =
            self.states.values().copied().chain(self.sums.iter().copied()).collect();
        all.sort_unstable();
        let mut violations = Vec::new();
        for pair in all.windows(2) {
            let ((less, other), (sum, at)) = (pair[0], pair[1]);
            if digits(less).any(|(place, _)| !holds(sum, place)) {
                violations.push((ViolationKind::IncrementLost, vec![at, other]));
            }
            let both_increment = [at, other].iter().all(|at| self.history[*at].may_mutate());
            if less == sum && both_increment {
                violations.push((ViolationKind::DuplicateVersion, vec![at, other]));
            }
        }
        for (sum, at) in all.iter().copied() {
            let Action::Increment { place, condition } = self.history[at].action else { continue };
            let early = all.iter().find(|(less, _)| *less < sum && holds(*less, place));
            if let Some((_, other)) = early {
                violations.push((ViolationKind::VersionWentBack, vec![at, *other]));
            }
            if condition == Condition::Absent && sum != amount(place) {
                violations.push((ViolationKind::ConditionIgnored, vec![at]));
            }
        }
        for (kind, operations) in violations {
            self.violation(kind, operations);
        }
    }

    fn check_real_time(&mut self, told: &[usize], places: &[usize]) {
        let sum_of = |at: usize| match self.history[at].outcome {
            Outcome::Counted { sum, .. } | Outcome::Summed { sum } => sum,
            _ => 0,
        };
        let mut violations = Vec::new();
        for at in told.iter().copied() {
            let (operation, sum) = (&self.history[at], sum_of(at));
            let early = digits(sum).map(|(place, _)| self.increments[&place]);
            let early = early.filter(|other| self.history[*other].call > operation.ret);
            violations.extend(early.map(|other| (ViolationKind::FutureRead, at, other)));
            for other in told.iter().copied().filter(|other| self.history[*other].ret < operation.call) {
                if sum_of(other) > sum {
                    violations.push((ViolationKind::StaleRead, at, other));
                }
            }
        }
        for (place, at) in &self.increments {
            let after = |other: &&usize| self.history[**other].call > self.history[*at].ret;
            let lacks = told.iter().filter(after).find(|other| !holds(sum_of(**other), *place));
            violations.extend(lacks.map(|other| (ViolationKind::IncrementLost, *other, *at)));
        }
        for at in places.iter().copied().filter(|at| self.history[*at].outcome == Outcome::Absent) {
            let before = told.iter().find(|other| self.history[**other].ret < self.history[at].call);
            violations.extend(before.map(|other| (ViolationKind::ImpossibleAbsence, at, *other)));
        }
        for (kind, at, other) in violations {
            self.violation(kind, vec![at, other]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::version_witness;
    use crate::history::NEVER;

    fn told(call: u64, ret: u64, action: Action, places: &[u8], version: u64) -> Operation {
        let sum = places.iter().map(|place| amount(*place)).sum();
        let outcome = Outcome::Counted { version: Version(version), sum };
        Operation {
            client: 1,
            session: 1,
            key: COUNTERS,
            action,
            call,
            ret,
            outcome,
            commit: None,
            answered_by: None,
        }
    }

    fn if_is(place: u8, condition: Condition) -> Action {
        Action::Increment { place, condition }
    }

    fn increment(place: u8) -> Action {
        if_is(place, Condition::Free)
    }

    fn with(operation: Operation, outcome: Outcome) -> Operation {
        Operation {
            outcome,
            ret: if outcome == Outcome::Unknown { NEVER } else { operation.ret },
            ..operation
        }
    }

    fn kinds(history: &[Operation]) -> Vec<ViolationKind> {
        version_witness(history, 0).violations.iter().map(|v| v.kind).collect()
    }

    /// Two increments that overlap, one of unknown outcome, a refused one, and reads.
    fn good() -> Vec<Operation> {
        let refused = Outcome::ConditionFailed { version: Some(Version(5)) };
        vec![
            with(told(1, 2, Action::Count, &[], 0), Outcome::Absent),
            told(3, 6, increment(0), &[0], 5),
            told(4, 8, increment(1), &[0, 1], 7),
            with(told(9, 9, increment(2), &[], 0), Outcome::Unknown),
            told(10, 11, Action::Count, &[0, 1], 7),
            told(12, 13, if_is(3, Condition::VersionIs(Version(9))), &[0, 1, 2, 3], 10),
            with(told(14, 15, if_is(4, Condition::Absent), &[], 0), refused),
            told(16, 17, Action::Count, &[0, 1, 2, 3], 10),
        ]
    }

    // J3, A7
    #[test]
    fn a_counter_that_was_counted_right_is_accepted() {
        assert_eq!(kinds(&good()), []);
        let seen = version_witness(&good(), 0).seen;
        assert_eq!((seen.increments, seen.unknown_bound, seen.conditions_failed), (4, 1, 1));
        // The unknown one may as well have had no effect.
        let mut without = good();
        without[5] = told(12, 13, increment(3), &[0, 1, 3], 10);
        without[7] = told(16, 17, Action::Count, &[0, 1, 3], 10);
        assert_eq!(kinds(&without), []);
    }

    /// Each line changes one answer to a client.
    // J3, A7, A11
    #[test]
    fn a_counter_that_was_counted_wrong_is_rejected() {
        use ViolationKind::*;
        let read = |places: &[u8], version| told(16, 17, Action::Count, places, version);
        let refused = |condition, version| {
            let outcome = Outcome::ConditionFailed { version };
            with(told(14, 15, if_is(4, condition), &[], 0), outcome)
        };
        let wrong: Vec<(usize, Operation, ViolationKind)> = vec![
            (7, read(&[0, 1, 2, 2, 3], 12), CountedTwice),
            (7, read(&[0, 1, 2, 3, 9], 12), NeverWritten),
            (7, read(&[0, 1, 2, 3, 4], 12), NeverWritten),
            (7, read(&[0, 1, 2], 10), WrongValue),
            (7, read(&[0, 1, 3], 12), IncrementLost),
            (7, read(&[0, 1, 2, 3], 12), IncrementLost),
            (7, read(&[0, 1], 7), StaleRead),
            (7, read(&[], 12), Nonsense),
            (7, with(read(&[0], 5), Outcome::Absent), ImpossibleAbsence),
            (7, with(read(&[0], 5), Outcome::Done { version: Version(3) }), Nonsense),
            (0, told(1, 2, Action::Count, &[0], 5), FutureRead),
            (4, told(10, 11, Action::Count, &[0, 1, 2, 3], 10), FutureRead),
            (4, told(10, 11, Action::Count, &[1], 7), WrongValue),
            (2, told(4, 8, increment(1), &[0], 7), WrongValue),
            (2, told(4, 8, increment(1), &[1], 7), IncrementLost),
            (2, told(4, 8, increment(1), &[0, 1], 5), WrongValue),
            (2, told(4, 8, increment(1), &[0, 1], 11), VersionWentBack),
            (1, told(3, 6, increment(0), &[0], 0), Nonsense),
            (
                5,
                told(12, 13, if_is(3, Condition::VersionIs(Version(5))), &[0, 1, 2, 3], 10),
                ConditionIgnored,
            ),
            (5, told(12, 13, if_is(3, Condition::Absent), &[0, 1, 2, 3], 10), ConditionIgnored),
            (6, refused(Condition::Free, Some(Version(5))), RefusedWrongly),
            (6, refused(Condition::Absent, Some(Version::NONE)), RefusedWrongly),
            (6, refused(Condition::VersionIs(Version(10)), Some(Version(10))), RefusedWrongly),
        ];
        for (at, operation, kind) in wrong {
            let mut history = good();
            history[at] = operation;
            assert!(kinds(&history).contains(&kind), "{operation}: {:?}", kinds(&history));
        }
        // An increment that was reported as without effect has one.
        let mut history = good();
        history[3] = with(history[3], Outcome::Refused { status: ramhold_base::Status::Retry });
        assert!(kinds(&history).contains(&NeverWritten));
        // One version for two increments.
        let mut history = good();
        history[2] = told(4, 8, increment(1), &[0], 5);
        assert!(!kinds(&history).is_empty());
    }
}
