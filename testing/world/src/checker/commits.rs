//! Applies knowledge of a commit from one of its keys to its other keys.
//!
//! Everything that a commit writes or removes has one version. Everything that it writes has one value that
//! no other operation writes. So an operation that saw one of the commit's objects bounds the moment at which
//! the whole commit took effect. The commit took effect no later than the answer to that operation, and on
//! every key with the version that the operation saw. An operation that saw an older version of one of the
//! keys must have begun before the commit took effect. `bind` writes these facts into the history. Then each
//! key is judged by itself, and a commit of which a part is missing shows there as a lost write.
//!
//! Invariant: a history that a correct store can produce stays one.

use super::{Seen, Violation, ViolationKind};
use crate::history::{Action, NEVER, Operation, Outcome, ValueId};
use ramhold_base::Version;
use std::collections::{BTreeMap, BTreeSet};

/// A commit that took effect, as the answers tell it.
#[derive(Clone, Copy)]
struct Told {
    version: Version,
    /// The latest moment at which its effect was there.
    by: u64,
}

/// The history in which every change of a commit carries all that is known of the commit.
pub fn bind(history: &[Operation], found: &mut Vec<Violation>, seen: &mut Seen) -> Vec<Operation> {
    let mut changes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut by_value: BTreeMap<ValueId, u64> = BTreeMap::new();
    for (at, operation) in history.iter().enumerate() {
        let Some(commit) = operation.commit.filter(|_| operation.may_mutate()) else { continue };
        changes.entry(commit).or_default().push(at);
        if let Action::Write { value, .. } = operation.action {
            by_value.insert(value, commit);
        }
    }
    let mut told: BTreeMap<u64, Told> = BTreeMap::new();
    let mut by_key: BTreeMap<u32, Vec<(Version, u64)>> = BTreeMap::new();
    for operation in history {
        let (commit, version) = match operation.outcome {
            Outcome::Found { version, value } => {
                by_key.entry(operation.key).or_default().push((version, operation.call));
                (by_value.get(&value).copied(), version)
            }
            Outcome::Done { version } if operation.may_mutate() => (operation.commit, version),
            _ => continue,
        };
        let Some(commit) = commit else { continue };
        let there = told.entry(commit).or_insert(Told { version, by: NEVER });
        there.by = there.by.min(operation.ret);
    }
    let mut bound = history.to_vec();
    for (commit, places) in changes {
        let keys: BTreeSet<u32> = places.iter().map(|at| history[*at].key).collect();
        let Some(Told { version, by }) = told.get(&commit).copied() else { continue };
        seen.commits += u64::from(keys.len() > 1);
        seen.commits_bound += u64::from(history[places[0]].outcome == Outcome::Unknown);
        let before = keys.iter().filter_map(|key| by_key.get(key)).flatten();
        let before = before.filter(|(theirs, _)| *theirs < version).map(|(_, call)| *call).max();
        let call = history[places[0]].call.max(before.unwrap_or(0));
        if call > by {
            let (kind, key) = (ViolationKind::CommitTorn, history[places[0]].key);
            found.push(Violation { kind, key, operations: places });
            continue;
        }
        for at in places {
            bound[at] = Operation { call, ret: by, outcome: Outcome::Done { version }, ..bound[at] };
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::{Verdict, version_witness};
    use crate::history::Condition;

    fn operation(key: u32, call: u64, ret: u64, action: Action, outcome: Outcome) -> Operation {
        Operation { client: 1, session: 1, key, action, call, ret, outcome, commit: None, answered_by: None }
    }

    fn write(value: u64) -> Action {
        Action::Write { value: ValueId(value), condition: Condition::Free, ttl: None }
    }

    fn done(version: u64) -> Outcome {
        Outcome::Done { version: Version(version) }
    }

    fn found(version: u64, value: u64) -> Outcome {
        Outcome::Found { version: Version(version), value: ValueId(value) }
    }

    /// Keys 1 and 2 are written with value 10 each, then both with 20 by one commit.
    fn story(end: u64, outcome: Outcome, then: &[Operation]) -> Verdict {
        let mut history = vec![
            operation(1, 0, 10, write(10), done(3)),
            operation(2, 0, 10, write(10), done(5)),
            Operation { commit: Some(7), ..operation(1, 20, end, write(20), outcome) },
            Operation { commit: Some(7), ..operation(2, 20, end, write(20), outcome) },
        ];
        history.extend_from_slice(then);
        let mut violations = Vec::new();
        let mut seen = Seen::default();
        let bound = bind(&history, &mut violations, &mut seen);
        let mut verdict = version_witness(&bound, 0);
        verdict.violations.extend(violations);
        verdict.seen.commits = seen.commits;
        verdict.seen.commits_bound = seen.commits_bound;
        verdict
    }

    fn read(key: u32, call: u64, ret: u64, outcome: Outcome) -> Operation {
        operation(key, call, ret, Action::Read, outcome)
    }

    // A10
    #[test]
    fn a_commit_that_is_there_whole_or_not_at_all_is_accepted() {
        let stories: [&[Operation]; 4] = [
            &[read(1, 60, 70, found(6, 20)), read(2, 80, 90, found(6, 20))],
            // Each read sees the state before the commit, while the commit was under way.
            &[read(1, 30, 35, found(3, 10)), read(2, 40, 45, found(5, 10))],
            // Another write has overwritten it on one key.
            &[
                operation(2, 60, 70, write(30), done(9)),
                read(1, 80, 90, found(6, 20)),
                read(2, 80, 90, found(9, 30)),
            ],
            &[read(1, 30, 100, found(6, 20)), read(2, 40, 45, found(5, 10))],
        ];
        for (number, then) in stories.iter().enumerate() {
            assert_eq!(story(50, done(6), then).violations, [], "{number}");
            assert_eq!(story(NEVER, Outcome::Unknown, then).violations, [], "{number}, unknown");
        }
        let unseen = story(NEVER, Outcome::Unknown, &[read(1, 60, 70, found(3, 10))]);
        assert_eq!((unseen.violations, unseen.seen.commits, unseen.seen.commits_bound), (vec![], 0, 0));
        let seen = story(NEVER, Outcome::Unknown, stories[0]).seen;
        assert_eq!((seen.commits, seen.commits_bound), (1, 1));
    }

    // A10
    #[test]
    fn a_part_of_a_commit_is_rejected() {
        let kinds = |verdict: Verdict| verdict.violations.iter().map(|it| it.kind).collect::<Vec<_>>();
        let stories: [&[Operation]; 4] = [
            // One key has the commit, the other has not: later, and for good.
            &[read(1, 60, 70, found(6, 20)), read(2, 80, 90, found(5, 10))],
            &[read(2, 60, 70, found(6, 20)), read(1, 80, 90, found(3, 10))],
            // The other object is absent.
            &[read(1, 60, 70, found(6, 20)), read(2, 80, 90, Outcome::Absent)],
            // The other object has another version.
            &[read(1, 60, 70, found(6, 20)), read(2, 80, 90, found(7, 20))],
        ];
        for (number, then) in stories.iter().enumerate() {
            assert_ne!(kinds(story(50, done(6), then)), [], "{number}");
            assert_ne!(kinds(story(NEVER, Outcome::Unknown, then)), [], "{number}, unknown");
        }
        // While the commit is under way one key is seen with it, and after that the other key without it.
        let torn = [read(1, 30, 35, found(6, 20)), read(2, 40, 45, found(5, 10))];
        assert_eq!(kinds(story(50, done(6), &torn)), [ViolationKind::CommitTorn]);
    }
}
