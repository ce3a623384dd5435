//! Answers without versions are judged too: by the checker where other answers' versions bind them, else by
//! the search.
//!
//! Catalogue: J3.

use super::counters::amount;
use super::search::{Answer, search};
use super::*;
use crate::history::{Condition, ValueId};
use ramhold_base::Version;

fn told(call: u64, ret: u64, key: u32, action: Action, outcome: Outcome) -> Operation {
    Operation { client: 1, session: 1, key, action, call, ret, outcome, commit: None, answered_by: None }
}

fn set(call: u64, ret: u64, value: u64) -> Operation {
    let action = Action::Write { value: ValueId(value), condition: Condition::Free, ttl: None };
    told(call, ret, 7, action, Outcome::Acknowledged)
}

fn write(call: u64, ret: u64, value: u64, version: u64) -> Operation {
    Operation { outcome: Outcome::Done { version: Version(version) }, ..set(call, ret, value) }
}

fn del(call: u64, ret: u64) -> Operation {
    told(call, ret, 7, Action::Remove { condition: Condition::Free }, Outcome::Acknowledged)
}

fn get(call: u64, ret: u64, value: u64) -> Operation {
    told(call, ret, 7, Action::Read, Outcome::Seen { value: ValueId(value) })
}

fn getver(call: u64, ret: u64, value: u64, version: u64) -> Operation {
    let outcome = Outcome::Found { version: Version(version), value: ValueId(value) };
    told(call, ret, 7, Action::Read, outcome)
}

fn nil(call: u64, ret: u64) -> Operation {
    told(call, ret, 7, Action::Read, Outcome::Absent)
}

fn kinds(history: &[Operation]) -> Vec<ViolationKind> {
    version_witness(history, 0).violations.iter().map(|v| v.kind).collect()
}

#[test]
fn what_a_redis_client_was_told_rightly_is_accepted() {
    let history = [
        write(1, 2, 10, 5),
        set(3, 4, 11),
        get(5, 6, 11),
        getver(7, 8, 11, 6),
        set(9, 12, 12),
        set(10, 13, 13),
        get(14, 15, 12),
        del(16, 17),
        nil(18, 19),
    ];
    assert_eq!(kinds(&history), []);
    assert_eq!(search(&history, 0, 100_000), Answer::Linearizable);
}

#[test]
fn what_a_redis_client_was_told_wrongly_is_rejected() {
    use ViolationKind::*;
    let wrong: Vec<(Vec<Operation>, ViolationKind)> = vec![
        // An acknowledged write is lost.
        (vec![write(1, 2, 10, 5), set(3, 4, 11), getver(5, 6, 10, 5)], StaleRead),
        (vec![write(1, 2, 10, 5), set(3, 4, 11), get(5, 6, 10)], StaleRead),
        // An overwritten value is read again.
        (vec![write(1, 2, 10, 5), write(3, 4, 11, 6), get(5, 6, 10)], StaleRead),
        (vec![set(1, 2, 10), getver(3, 4, 10, 5), write(5, 6, 11, 6), get(7, 8, 10)], StaleRead),
        // Read before it was written.
        (vec![get(1, 2, 10), set(3, 4, 10)], FutureRead),
        (vec![get(1, 2, 10), write(3, 4, 10, 5)], FutureRead),
        (vec![get(1, 2, 10)], NeverWritten),
        // The version of the later write is below one that was known.
        (vec![write(1, 2, 10, 5), set(3, 4, 11), getver(5, 6, 11, 4)], VersionWentBack),
    ];
    for (history, kind) in wrong {
        assert!(kinds(&history).contains(&kind), "{history:?}: {:?}", kinds(&history));
        // The search knows no more of a version than which operations saw it.
        assert_eq!(search(&history, 0, 100_000), Answer::Contradiction, "{history:?}");
    }
    // Only the search sees these.
    for history in [
        vec![set(1, 2, 10), set(3, 4, 11), get(5, 6, 10)],
        vec![set(1, 2, 10), del(3, 4), get(5, 6, 10)],
        vec![set(1, 2, 10), del(3, 4), del(5, 6)],
    ] {
        assert_eq!(search(&history, 0, 100_000), Answer::Contradiction, "{history:?}");
        assert!(!second_opinion_of(&history).is_empty());
    }
}

// Seed 346: a write that required absence was refused. The object that was there was of the first of two
// writes, and has been removed since. One operation saw the version of the second write.
#[test]
fn what_was_there_may_have_been_removed_before_a_version_was_told() {
    let refused = |call, ret, condition, version: Option<u64>| {
        let action = Action::Write { value: ValueId(99), condition, ttl: None };
        told(call, ret, 7, action, Outcome::ConditionFailed { version: version.map(Version) })
    };
    let history = [
        write(1, 2, 10, 5),
        set(3, 4, 11),
        refused(5, 6, Condition::Absent, None),
        del(7, 8),
        nil(9, 10),
        set(11, 12, 12),
        refused(13, 14, Condition::VersionIs(Version(5)), Some(9)),
    ];
    assert_eq!(kinds(&history), []);
    assert_eq!(search(&history, 0, 100_000), Answer::Linearizable);
}

fn second_opinion_of(history: &[Operation]) -> Vec<String> {
    search::second_opinion(history, &version_witness(history, 0), 0).disagreements
}

fn incr(call: u64, ret: u64, place: u8, sum: i64) -> Operation {
    let action = Action::Increment { place, condition: Condition::Free };
    told(call, ret, COUNTERS, action, Outcome::Summed { sum })
}

fn append(call: u64, ret: u64, place: u8) -> Operation {
    Operation { outcome: Outcome::Acknowledged, ..incr(call, ret, place, 0) }
}

fn count(call: u64, ret: u64, sum: i64) -> Operation {
    told(call, ret, COUNTERS, Action::Count, Outcome::Summed { sum })
}

fn sum(places: &[u8]) -> i64 {
    places.iter().map(|place| amount(*place)).sum()
}

#[test]
fn sums_without_versions_are_judged() {
    use ViolationKind::*;
    let good = vec![
        incr(1, 2, 0, sum(&[0])),
        incr(3, 6, 1, sum(&[0, 1])),
        append(4, 7, 2),
        count(8, 9, sum(&[0, 1, 2])),
    ];
    assert_eq!(kinds(&good), []);
    let wrong = [
        (0, incr(1, 2, 0, sum(&[1])), WrongValue),
        (1, incr(3, 6, 1, sum(&[1])), IncrementLost),
        (1, incr(3, 6, 1, sum(&[0, 0, 1])), CountedTwice),
        (3, count(8, 9, sum(&[0, 1])), IncrementLost),
        (3, count(8, 9, sum(&[0])), StaleRead),
        (3, count(8, 9, sum(&[0, 1, 2, 5])), NeverWritten),
        (3, Operation { outcome: Outcome::Absent, ..count(8, 9, 0) }, ImpossibleAbsence),
    ];
    for (at, operation, kind) in wrong {
        let mut history = good.clone();
        history[at] = operation;
        assert!(kinds(&history).contains(&kind), "{operation}: {:?}", kinds(&history));
    }
    // Two increments that led to the same sum.
    let history = vec![incr(1, 5, 0, sum(&[0, 1])), incr(2, 6, 1, sum(&[0, 1]))];
    assert!(kinds(&history).contains(&DuplicateVersion));
}
