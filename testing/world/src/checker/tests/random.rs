//! Random histories of a correct store, and the same with false answers: the checker accepts all of the first, and
//! agrees about the others with a search through all orders. // J3

use super::{FREE, is, is_linearizable, operation};
use crate::checker::version_witness;
use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use ramhold_base::{Rng, Version};
use std::time::Duration;

/// The share of 100 writes that have a time to live, and the greatest difference of the clocks that decide.
#[derive(Clone, Copy)]
struct Ending {
    percent: u64,
    clock_spread: u64,
}

const ENDLESS: Ending = Ending { percent: 0, clock_spread: 0 };

/// A history of a correct store: each operation takes effect at one instant of its interval.
fn honest(rng: &mut Rng, count: u64, clients: u64, span: u64, ending: Ending) -> Vec<Operation> {
    let mut free_at = vec![0; clients as usize];
    let mut plan = Vec::new();
    for number in 0..count {
        let client = rng.below(clients) as usize;
        let call = free_at[client] + 1 + rng.below(span);
        let ret = call + 1 + rng.below(span);
        free_at[client] = ret;
        let unknown = rng.chance(1, 6);
        let effect = if unknown { call + rng.below(4 * span) } else { rng.between(call, ret) };
        let takes_place = !unknown || rng.chance(1, 2);
        plan.push((effect, number, client as u32, call, ret, unknown, takes_place));
    }
    plan.sort_unstable();
    let (mut version, mut present): (u64, Option<(u64, ValueId)>) = (0, None);
    let mut versions = vec![1];
    let mut history = Vec::new();
    // The moment at which the present object expires.
    let mut end = NEVER;
    for (effect, number, client, call, ret, unknown, takes_place) in plan {
        if end < effect {
            present = None;
            version += 1;
            end = NEVER;
        }
        let condition = match rng.below(4) {
            0 => Condition::Absent,
            1 => is(*rng.pick(&versions).unwrap()),
            _ => FREE,
        };
        let action = match rng.below(7) {
            0 | 1 => Action::Read,
            2 => Action::Remove { condition: if condition == Condition::Absent { FREE } else { condition } },
            _ => {
                let ttl = rng.chance(ending.percent, 100).then(|| rng.between(1, 3 * span));
                Action::Write { value: ValueId(1000 + number), condition, ttl: ttl.map(Duration::from_nanos) }
            }
        };
        let there = present.map_or(0, |(v, _)| v);
        let met = |condition| match condition {
            Condition::Free => true,
            Condition::Absent => present.is_none(),
            Condition::VersionIs(wanted) => wanted.raw() == there && there != 0,
        };
        let mut next = present;
        let outcome = match action {
            Action::Read => {
                present.map_or(Outcome::Absent, |(v, value)| Outcome::Found { version: Version(v), value })
            }
            Action::Write { condition, .. } | Action::Remove { condition } if !met(condition) => {
                let hidden = condition == Condition::Absent && rng.chance(1, 5);
                Outcome::ConditionFailed { version: (!hidden).then_some(Version(there)) }
            }
            Action::Write { value, .. } => {
                version += rng.between(1, 3);
                next = Some((version, value));
                Outcome::Done { version: Version(version) }
            }
            Action::Increment { .. } | Action::Count | Action::Scan => {
                unreachable!("counters have tests of their own")
            }
            Action::Remove { .. } if present.is_none() => Outcome::Done { version: Version(0) },
            Action::Remove { .. } => {
                version += rng.between(1, 3);
                next = None;
                Outcome::Done { version: Version(version) }
            }
        };
        if takes_place {
            if next != present {
                let ttl = match action {
                    Action::Write { ttl, .. } => ttl,
                    Action::Read
                    | Action::Remove { .. }
                    | Action::Increment { .. }
                    | Action::Count
                    | Action::Scan => None,
                };
                end = ttl.map_or(NEVER, |ttl| {
                    let drift = rng.below(2 * ending.clock_spread + 1);
                    (effect + ttl.as_nanos() as u64 + drift).saturating_sub(ending.clock_spread).max(effect)
                });
            }
            present = next;
            versions.push(present.map_or(1, |(v, _)| v));
        }
        let (outcome, ret) = if unknown { (Outcome::Unknown, NEVER) } else { (outcome, ret) };
        history.push(Operation { client, ..operation(call, ret, action, outcome) });
    }
    history.sort_by_key(|o| o.call);
    history
}

#[test]
fn long_honest_histories_are_accepted() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let span = rng.between(2, 60);
        let clients = rng.between(1, 8);
        let clock_spread = rng.below(2 * span);
        let ending = Ending { percent: 50 * (seed % 2), clock_spread };
        let history = honest(&mut rng, 400, clients, span, ending);
        let verdict = version_witness(&history, clock_spread);
        let found: Vec<String> = verdict.violations.iter().map(|v| v.describe(&history)).collect();
        assert!(found.is_empty(), "seed {seed}: {}", found.join("\n"));
        assert!(verdict.seen.mutations > 50 && verdict.seen.absences > 0);
        assert_eq!(verdict.seen.expired > 0, seed % 2 == 1, "seed {seed}");
    }
}

/// Changes one answer to a client.
fn falsify(rng: &mut Rng, history: &mut [Operation]) {
    let at = rng.below(history.len() as u64) as usize;
    let version = Version(rng.between(1, 12));
    let value = match history[rng.below(history.len() as u64) as usize].action {
        Action::Write { value, .. } => value,
        Action::Read | Action::Remove { .. } | Action::Increment { .. } | Action::Count | Action::Scan => {
            ValueId(1)
        }
    };
    let blamed = &mut history[at];
    match (blamed.outcome, rng.below(5)) {
        (Outcome::Found { .. }, 0) => blamed.outcome = Outcome::Absent,
        (Outcome::Found { value, .. }, 1) => blamed.outcome = Outcome::Found { version, value },
        (Outcome::Found { version, .. }, 2) => blamed.outcome = Outcome::Found { version, value },
        (Outcome::Absent, _) => blamed.outcome = Outcome::Found { version, value },
        (Outcome::Done { .. }, 0) => blamed.outcome = Outcome::Done { version },
        (Outcome::ConditionFailed { .. }, 0) => {
            blamed.outcome = Outcome::ConditionFailed { version: Some(version) }
        }
        (Outcome::ConditionFailed { .. }, 1) => blamed.outcome = Outcome::Done { version },
        _ => {
            let length = blamed.ret.min(1000) - blamed.call.min(1000);
            blamed.call = rng.below(60);
            blamed.ret = if blamed.ret == NEVER { NEVER } else { blamed.call + 1 + length.min(8) };
        }
    }
}

/// On short histories, honest and falsified, the checker agrees with trying all orders. It never accuses
/// wrongly. It may be lenient only about a version that was told and whose write is unknown, or about a
/// presence without a version.
#[test]
fn the_checker_agrees_with_the_search() {
    let (good, bad, lenient) = agree(0..100_000, |_| ENDLESS);
    assert!(good > 10_000 && bad > 10_000, "{good} good, {bad} bad");
    assert!(lenient * 200 < bad, "{lenient} of {bad} bad histories passed");
}

/// The same where half of the objects expire. The checker may also be lenient about unknown writes of such
/// objects, which may count both as seen and as expired.
#[test]
fn the_checker_agrees_with_the_search_where_objects_end() {
    // A12
    let ending = |rng: &mut Rng| Ending { percent: 50, clock_spread: rng.below(6) };
    let (good, bad, lenient) = agree(0..100_000, ending);
    assert!(good > 10_000 && bad > 10_000, "{good} good, {bad} bad");
    assert!(lenient * 50 < bad, "{lenient} of {bad} bad histories passed");
}

/// The numbers of good and of bad histories, and of bad ones that the checker accepts.
fn agree(seeds: std::ops::Range<u64>, ending: fn(&mut Rng) -> Ending) -> (u64, u64, u64) {
    let (mut good, mut bad, mut lenient) = (0, 0, 0);
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let clients = rng.between(1, 4);
        let count = rng.between(2, 9);
        let span = rng.between(2, 12);
        let ending = ending(&mut rng);
        let mut history = honest(&mut rng, count, clients, span, ending);
        for _ in 0..rng.below(3) {
            falsify(&mut rng, &mut history);
        }
        let expected = is_linearizable(&history, ending.clock_spread);
        let verdict = version_witness(&history, ending.clock_spread);
        *(if expected { &mut good } else { &mut bad }) += 1;
        if expected == verdict.violations.is_empty() {
            continue;
        }
        let tells = |o: &Operation| {
            let conditional = matches!(
                o.action,
                Action::Write { condition: Condition::VersionIs(_), .. }
                    | Action::Remove { condition: Condition::VersionIs(_) }
            );
            conditional || matches!(o.outcome, Outcome::ConditionFailed { .. })
        };
        let hidden = |o: &Operation| matches!(o.outcome, Outcome::ConditionFailed { version: None });
        let ends = |o: &Operation| matches!(o.action, Action::Write { ttl: Some(_), .. });
        let unknown = |o: &Operation| o.outcome == Outcome::Unknown && o.may_mutate();
        let unclear = history.iter().any(tells) && history.iter().any(unknown)
            || history.iter().any(hidden) && history.iter().any(ends)
            || history.iter().any(|o| unknown(o) && ends(o));
        if !expected && unclear {
            lenient += 1;
            continue;
        }
        let lines: Vec<String> = history.iter().map(ToString::to_string).collect();
        let found: Vec<String> = verdict.violations.iter().map(|v| v.describe(&history)).collect();
        panic!("seed {seed}: search {expected}\n{}\nfound:\n{}", lines.join("\n"), found.join("\n"));
    }
    (good, bad, lenient)
}
