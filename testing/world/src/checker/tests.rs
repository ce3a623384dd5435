//! The checker accepts what is right and rejects what is wrong, else a blind one would pass everything. // J3

mod random;

use super::search::{Answer, search};
use super::*;
use crate::history::{Action, Condition, NEVER, ValueId};
use ramhold_base::{Status, Version};
use std::time::Duration;

const FREE: Condition = Condition::Free;

fn operation(call: u64, ret: u64, action: Action, outcome: Outcome) -> Operation {
    Operation { client: 1, session: 1, key: 7, action, call, ret, outcome, commit: None, answered_by: None }
}

fn write_if(call: u64, ret: u64, value: u64, condition: Condition, version: u64) -> Operation {
    let action = Action::Write { value: ValueId(value), condition, ttl: None };
    operation(call, ret, action, Outcome::Done { version: Version(version) })
}

fn write(call: u64, ret: u64, value: u64, version: u64) -> Operation {
    write_if(call, ret, value, FREE, version)
}

fn write_unknown(call: u64, value: u64) -> Operation {
    operation(
        call,
        NEVER,
        Action::Write { value: ValueId(value), condition: FREE, ttl: None },
        Outcome::Unknown,
    )
}

fn write_failed(call: u64, ret: u64, value: u64, condition: Condition, version: u64) -> Operation {
    let action = Action::Write { value: ValueId(value), condition, ttl: None };
    operation(call, ret, action, Outcome::ConditionFailed { version: Some(Version(version)) })
}

fn read(call: u64, ret: u64, value: u64, version: u64) -> Operation {
    let outcome = Outcome::Found { version: Version(version), value: ValueId(value) };
    operation(call, ret, Action::Read, outcome)
}

fn absent(call: u64, ret: u64) -> Operation {
    operation(call, ret, Action::Read, Outcome::Absent)
}

fn remove(call: u64, ret: u64, version: u64) -> Operation {
    let outcome = Outcome::Done { version: Version(version) };
    operation(call, ret, Action::Remove { condition: FREE }, outcome)
}

fn remove_unknown(call: u64) -> Operation {
    operation(call, NEVER, Action::Remove { condition: FREE }, Outcome::Unknown)
}

/// The object of the write has this time to live.
fn with_ttl(ttl: u64, write: Operation) -> Operation {
    let Action::Write { value, condition, .. } = write.action else { panic!("no write") };
    Operation { action: Action::Write { value, condition, ttl: Some(Duration::from_nanos(ttl)) }, ..write }
}

fn is(version: u64) -> Condition {
    Condition::VersionIs(Version(version))
}

/// Whether some order explains a short history.
fn is_linearizable(history: &[Operation], clock_spread: u64) -> bool {
    match search(history, clock_spread, usize::MAX) {
        Answer::Linearizable => true,
        Answer::Contradiction => false,
        Answer::Undecided => unreachable!("no bound was given"),
    }
}

/// The kinds of violations, in order of discovery.
fn kinds(history: &[Operation]) -> Vec<ViolationKind> {
    version_witness(history, 0).violations.iter().map(|v| v.kind).collect()
}

#[test]
fn good_histories_are_accepted() {
    let good: Vec<(&str, Vec<Operation>)> = vec![
        ("nothing", vec![]),
        ("plain", vec![write(1, 2, 10, 1), read(3, 4, 10, 1), write(5, 6, 11, 9), read(7, 8, 11, 9)]),
        (
            "overlap, old or new",
            vec![write(1, 2, 10, 1), write(3, 9, 11, 2), read(4, 5, 10, 1), read(6, 7, 11, 2)],
        ),
        (
            "removed",
            vec![write(1, 2, 10, 1), remove(3, 4, 2), absent(5, 6), remove(7, 8, 0), write(9, 10, 11, 3)],
        ),
        ("unknown write seen", vec![write(1, 2, 10, 1), write_unknown(3, 11), read(90, 91, 11, 5)]),
        ("unknown write unseen", vec![write(1, 2, 10, 1), write_unknown(3, 11), read(90, 91, 10, 1)]),
        ("unknown write overwritten", vec![write_unknown(1, 10), write(2, 3, 11, 5), read(4, 5, 11, 5)]),
        ("unknown write late", vec![write_unknown(1, 10), absent(2, 3), absent(50, 51), read(90, 91, 10, 4)]),
        ("unknown remove seen", vec![write(1, 2, 10, 1), remove_unknown(3), read(4, 5, 10, 1), absent(6, 7)]),
        ("unknown remove unseen", vec![write(1, 2, 10, 1), remove_unknown(3), read(90, 91, 10, 1)]),
        (
            "unknown remove before a conditional write",
            vec![write(1, 2, 10, 1), remove_unknown(3), write_if(4, 5, 11, Condition::Absent, 5)],
        ),
        ("unknown write, then removed unseen", vec![write_unknown(1, 10), remove(2, 3, 4), absent(5, 6)]),
        (
            "failed conditions",
            vec![
                write(1, 2, 10, 3),
                write_failed(3, 4, 11, Condition::Absent, 3),
                write_failed(5, 6, 12, is(9), 3),
                write_if(7, 8, 13, is(3), 4),
            ],
        ),
        ("failed on absence", vec![write_failed(1, 2, 10, is(3), 0), absent(3, 4)]),
        (
            "version of an unknown write told",
            vec![write_unknown(1, 10), write_failed(5, 6, 11, Condition::Absent, 4)],
        ),
        ("absence overlapping the write", vec![write(1, 9, 10, 1), absent(2, 3), read(4, 5, 10, 1)]),
        (
            "one unknown remove explains two absences",
            vec![write(1, 2, 10, 1), remove_unknown(3), absent(4, 9), absent(6, 7), write(10, 11, 12, 8)],
        ),
        (
            "two unknown writes of one value, the unconditional one seen",
            vec![
                write(1, 2, 10, 1),
                operation(
                    3,
                    NEVER,
                    Action::Write { value: ValueId(0), condition: Condition::Absent, ttl: None },
                    Outcome::Unknown,
                ),
                write_unknown(4, 0),
                read(5, 6, 0, 2),
            ],
        ),
        ("an empty value twice", vec![write(1, 2, 0, 1), write(3, 4, 0, 2), read(5, 6, 0, 2)]),
    ];
    for (name, history) in good {
        assert_eq!(kinds(&history), [], "{name}");
        assert!(is_linearizable(&history, 0), "{name}");
    }
}

#[test]
fn bad_histories_are_rejected() {
    use ViolationKind::*;
    let refused = |call, ret, value| {
        let action = Action::Write { value: ValueId(value), condition: FREE, ttl: None };
        operation(call, ret, action, Outcome::Refused { status: Status::OutOfMemory })
    };
    let bad: Vec<(&str, ViolationKind, Vec<Operation>)> = vec![
        ("stale read", StaleRead, vec![write(1, 2, 10, 1), write(3, 4, 11, 2), read(5, 6, 10, 1)]),
        (
            "read goes back",
            StaleRead,
            vec![write(1, 2, 10, 1), write(3, 9, 11, 2), read(4, 5, 11, 2), read(6, 7, 10, 1)],
        ),
        ("lost write", ImpossibleAbsence, vec![write(1, 2, 10, 1), absent(3, 4)]),
        (
            "lost overwrite",
            StaleRead,
            vec![write(1, 2, 10, 1), write(3, 4, 11, 2), read(5, 6, 10, 1), read(7, 8, 10, 1)],
        ),
        (
            "lost unknown write that was seen",
            ImpossibleAbsence,
            vec![write_unknown(1, 10), read(2, 3, 10, 1), absent(4, 5)],
        ),
        ("duplicate version", DuplicateVersion, vec![write(1, 2, 10, 1), write(3, 4, 11, 1)]),
        ("a remove with a write's version", DuplicateVersion, vec![write(1, 2, 10, 1), remove(3, 4, 1)]),
        ("version goes back", VersionWentBack, vec![write(1, 2, 10, 5), write(3, 4, 11, 4)]),
        (
            "version goes back after a remove",
            VersionWentBack,
            vec![write(1, 2, 10, 5), remove(3, 4, 6), write(5, 6, 11, 1)],
        ),
        ("remove below what it removed", VersionWentBack, vec![write(1, 2, 10, 5), remove(3, 4, 4)]),
        ("resurrected", StaleRead, vec![write(1, 2, 10, 1), remove(3, 4, 2), read(5, 6, 10, 1)]),
        ("future read", FutureRead, vec![read(1, 2, 10, 1), write(3, 4, 10, 1)]),
        ("future read of an unknown write", FutureRead, vec![read(1, 2, 10, 1), write_unknown(3, 10)]),
        ("wrong value", WrongValue, vec![write(1, 2, 10, 1), write(3, 4, 11, 2), read(5, 6, 10, 2)]),
        ("value of a removal", WrongValue, vec![write(1, 2, 10, 1), remove(3, 4, 2), read(5, 6, 10, 2)]),
        ("never written", NeverWritten, vec![write(1, 2, 10, 1), read(3, 4, 99, 2)]),
        ("refused write seen", NeverWritten, vec![refused(1, 2, 10), read(3, 4, 10, 1)]),
        (
            "failed conditional write seen",
            NeverWritten,
            vec![write(1, 2, 10, 1), write_failed(3, 4, 11, Condition::Absent, 1), read(5, 6, 11, 2)],
        ),
        ("written twice", NeverWritten, vec![write_unknown(1, 10), read(2, 3, 10, 1), read(4, 5, 10, 2)]),
        ("acked write under another version", NeverWritten, vec![write(1, 2, 10, 1), read(3, 4, 10, 2)]),
        (
            "condition on a version accepted wrongly",
            ConditionIgnored,
            vec![write(1, 2, 10, 1), write(3, 4, 11, 2), write_if(5, 6, 12, is(1), 3)],
        ),
        (
            "two winners of one version",
            ConditionIgnored,
            vec![write(1, 2, 10, 1), write_if(3, 6, 11, is(1), 2), write_if(3, 6, 12, is(1), 3)],
        ),
        (
            "condition on absence accepted wrongly",
            ConditionIgnored,
            vec![write(1, 2, 10, 1), write_if(3, 4, 11, Condition::Absent, 2)],
        ),
        (
            "two creators",
            ConditionIgnored,
            vec![write_if(1, 5, 10, Condition::Absent, 1), write_if(1, 5, 11, Condition::Absent, 2)],
        ),
        ("removed twice", ConditionIgnored, vec![write(1, 2, 10, 1), remove(3, 6, 2), remove(3, 6, 3)]),
        (
            "condition on a version refused wrongly",
            RefusedWrongly,
            vec![write(1, 2, 10, 1), write_failed(3, 4, 11, is(1), 1)],
        ),
        (
            "condition on absence refused wrongly",
            RefusedWrongly,
            vec![write_failed(1, 2, 10, Condition::Absent, 0)],
        ),
        (
            "no condition, refused by one",
            RefusedWrongly,
            vec![write(1, 2, 9, 1), write_failed(3, 4, 10, FREE, 1)],
        ),
        (
            "refused for an old version",
            StaleRead,
            vec![write(1, 2, 10, 1), write(3, 4, 11, 2), write_failed(5, 6, 12, Condition::Absent, 1)],
        ),
        (
            "refused for an absence that is none",
            ImpossibleAbsence,
            vec![write(1, 2, 10, 1), write_failed(3, 4, 12, is(9), 0)],
        ),
        (
            "refused for a version from nowhere",
            NeverWritten,
            vec![write(1, 2, 10, 1), write_failed(3, 4, 12, Condition::Absent, 5)],
        ),
        ("remove that found nothing", ImpossibleAbsence, vec![write(1, 2, 10, 1), remove(3, 4, 0)]),
        (
            "absent after an older unknown remove was spent",
            ImpossibleAbsence,
            vec![write(1, 2, 10, 1), remove_unknown(3), absent(4, 5), write(6, 7, 11, 3), absent(8, 9)],
        ),
        (
            "unknown remove began too late",
            ImpossibleAbsence,
            vec![write(1, 2, 10, 1), absent(3, 4), remove_unknown(5)],
        ),
        (
            "absent between reads of one version",
            ImpossibleAbsence,
            vec![write(1, 2, 10, 1), remove_unknown(3), absent(4, 5), read(6, 7, 10, 1)],
        ),
        ("a write without a version", Nonsense, vec![write(1, 2, 10, 0)]),
        (
            "a read that was done",
            Nonsense,
            vec![operation(1, 2, Action::Read, Outcome::Done { version: Version(1) })],
        ),
    ];
    assert!(bad.len() >= 20);
    for (name, kind, history) in bad {
        assert!(kinds(&history).contains(&kind), "{name}: {:?}", kinds(&history));
        assert!(!is_linearizable(&history, 0), "{name}: the search sees nothing wrong");
    }
}

/// However much the clocks differ: an object written at 50 whose expiry no operation saw explains no absence
/// before 50.
#[test]
fn an_object_does_not_end_before_it_was_written() {
    // A12
    let acknowledged = |operation: Operation| Operation { outcome: Outcome::Acknowledged, ..operation };
    let remove_first = Action::Remove { condition: is(1) };
    let history = vec![
        write(1, 2, 9, 1),
        operation(5, 6, remove_first, Outcome::Acknowledged),
        absent(7, 20),
        write(8, 9, 10, 2),
        read(10, 11, 10, 2),
        acknowledged(with_ttl(10, write(50, 51, 77, 3))),
        absent(70, 71),
    ];
    let verdict = version_witness(&history, 1000);
    assert_eq!(verdict.violations, []);
    assert!(is_linearizable(&history, 1000));
    let verdict = version_witness(&[&history[..6], &[absent(30, 31)]].concat(), 1000);
    assert_eq!(verdict.violations.first().map(|v| v.kind), Some(ViolationKind::ImpossibleAbsence));
}

/// The write of key 7 is carried out between 10 and 12 and has a time to live of 100. Clocks differ by at
/// most 20.
#[test]
fn objects_end_when_their_time_is_over() {
    // A12
    use ViolationKind::*;
    let ends = || with_ttl(100, write(10, 12, 50, 1));
    let both = |later: Vec<Operation>| [vec![ends()], later].concat();
    let good: Vec<(&str, Vec<Operation>)> = vec![
        ("absent as early as may be", both(vec![absent(80, 90)])),
        ("seen as late as may be", both(vec![read(132, 140, 50, 1)])),
        ("seen, then absent", both(vec![read(20, 30, 50, 1), absent(100, 110), absent(500, 501)])),
        (
            "versions jump over it",
            both(vec![absent(110, 111), write(120, 121, 51, 3), read(122, 123, 51, 3)]),
        ),
        ("made anew as an absent one", both(vec![write_if(112, 113, 51, Condition::Absent, 3)])),
        ("a remove finds nothing", both(vec![remove(112, 113, 0)])),
        ("a condition finds nothing", both(vec![write_failed(112, 113, 51, is(1), 0)])),
        ("a plain write keeps it", both(vec![write(20, 21, 51, 2), read(500, 501, 51, 2)])),
        (
            "another time instead",
            both(vec![with_ttl(300, write(20, 21, 51, 2)), read(320, 321, 51, 2), absent(400, 401)]),
        ),
        (
            "unknown, never seen, over",
            vec![write(1, 2, 9, 1), with_ttl(100, write_unknown(10, 50)), absent(90, 91)],
        ),
        (
            "unknown and late",
            vec![with_ttl(100, write_unknown(10, 50)), read(900, 901, 50, 4), absent(1000, 1001)],
        ),
        (
            "unknown, told by its version",
            vec![
                with_ttl(100, write_unknown(10, 50)),
                write_failed(15, 16, 51, Condition::Absent, 4),
                absent(90, 91),
            ],
        ),
    ];
    for (name, history) in good {
        let verdict = version_witness(&history, 20);
        assert_eq!(verdict.violations, [], "{name}");
        assert!(is_linearizable(&history, 20), "{name}");
    }
    let bad: Vec<(&str, ViolationKind, Vec<Operation>)> = vec![
        ("returned after its end", SeenAfterExpiry, both(vec![read(133, 140, 50, 1)])),
        ("absent too early", ImpossibleAbsence, both(vec![absent(80, 89)])),
        (
            "came back after it was seen absent",
            ImpossibleAbsence,
            both(vec![absent(95, 96), read(97, 98, 50, 1)]),
        ),
        (
            "came back later, while it may live",
            ImpossibleAbsence,
            both(vec![absent(91, 92), absent(93, 94), read(130, 131, 50, 1)]),
        ),
        (
            "its version goes back",
            VersionWentBack,
            vec![with_ttl(100, write(10, 12, 50, 5)), absent(200, 201), write(210, 211, 51, 4)],
        ),
        (
            "its version is given again",
            DuplicateVersion,
            both(vec![absent(200, 201), write(210, 211, 51, 1)]),
        ),
        (
            "a condition on it holds after its end",
            SeenAfterExpiry,
            both(vec![write_if(133, 134, 51, is(1), 2)]),
        ),
        (
            "refused for it after its end",
            SeenAfterExpiry,
            both(vec![write_failed(133, 134, 51, Condition::Absent, 1)]),
        ),
        ("removed after its end", ConditionIgnored, both(vec![remove(133, 134, 2)])),
        (
            "made anew before its end",
            ConditionIgnored,
            both(vec![write_if(50, 51, 51, Condition::Absent, 3)]),
        ),
        (
            "the next object goes with it",
            ImpossibleAbsence,
            both(vec![write(20, 21, 51, 2), absent(500, 501)]),
        ),
        (
            "seen long after the first sight",
            SeenAfterExpiry,
            vec![with_ttl(100, write_unknown(10, 50)), read(20, 22, 50, 4), read(143, 144, 50, 4)],
        ),
        (
            "refused with a time to live, and gone",
            ImpossibleAbsence,
            vec![write(1, 2, 9, 1), with_ttl(5, write_failed(10, 11, 50, is(7), 1)), absent(90, 91)],
        ),
    ];
    for (name, kind, history) in bad {
        let verdict = version_witness(&history, 20);
        let kinds: Vec<ViolationKind> = verdict.violations.iter().map(|v| v.kind).collect();
        assert!(kinds.contains(&kind), "{name}: {kinds:?}");
        assert!(!is_linearizable(&history, 20), "{name}: the search sees nothing wrong");
    }
    let verdict = version_witness(&both(vec![absent(91, 92), absent(140, 141)]), 20);
    assert_eq!((verdict.seen.expired, verdict.seen.overdue, verdict.seen.unknown_bound), (1, 1, 0));
}
