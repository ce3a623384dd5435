//! Judges whether a history of one object per key is linearizable, in time O(n log n).
//!
//! Every mutation returns its version and versions only grow, so the versions witness the order. For each
//! key, the mutations in order of version, each followed by the reads that saw it, must not contradict real
//! time. An observation without a version (an absence) is put into the earliest gap that real time allows.
//! Unknown mutations count only where an operation observed them: writes by their unique values, removes by
//! an absence that nothing else explains.
//!
//! Time itself removes an object with a time to live, once, without a version that any client learns. The
//! earliest moment is the call of its write plus the time to live. The latest moment is the return of its
//! write, or of the first read that saw it, plus the time to live. Both bounds are widened by the spread of
//! the clocks. So the object may be seen absent from the first moment on, and must not be seen after the
//! second. Once it was seen absent, it does not come back.
//!
//! Clients of the Redis protocol learn no versions. A value that was read alone belongs to the version that
//! another answer gave for it. An acknowledged write without a version is newer than everything that was over
//! before it began. These two rules leave some histories undecided. They go to the search (`search`), which
//! needs no versions.
//!
//! Keys of quorum tables are judged apart (`registers`): none of their answers has a version.
//!
//! Objects that are only incremented and read are judged by their sums (`counters`). Knowledge of one object
//! of a commit is applied to the others (`commits`).
//!
//! Invariant: when nothing is reported, the order found is a linearization.
//!
//! Not here: exactly-once beyond what duplicate values and versions show; transactions. Catalogue: A4, A11,
//! A12, J2, J3.

mod absence;
mod commits;
mod counters;
mod expiry;
mod order;
pub mod registers;
pub mod search;

pub use commits::bind;
pub use counters::{COUNTERS, PLACE_COUNT, amount};

/// The key number of scans.
pub const SCANS: u32 = u32::MAX;

use crate::history::{Action, Operation, Outcome};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ViolationKind {
    /// Two mutations with one version.
    DuplicateVersion,
    /// A value was read under a version that another value was written with.
    WrongValue,
    /// A value or version was read that no operation can have written.
    NeverWritten,
    /// An old version was observed after a newer one was known.
    StaleRead,
    /// A version was observed before its write began.
    FutureRead,
    /// A mutation got a version below one that was returned before it began.
    VersionWentBack,
    /// A conditional mutation, or a remove, took effect on a state that forbids it.
    ConditionIgnored,
    /// A condition that held was reported as failed.
    RefusedWrongly,
    /// The object was reported absent when it must have been present: a lost write.
    ImpossibleAbsence,
    /// The object was reported present when it must have been absent.
    ImpossiblePresence,
    /// An object was seen when its time to live was over.
    SeenAfterExpiry,
    /// An increment is in a sum more than once.
    CountedTwice,
    /// One object of a commit was seen with it before another one was seen without it.
    CommitTorn,
    /// A scan met an object twice.
    MetTwice,
    /// A sum lacks an increment that an older one has.
    IncrementLost,
    /// No order of the operations of a register explains all answers.
    NoOrder,
    /// An outcome that does not fit its operation.
    Nonsense,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub kind: ViolationKind,
    pub key: u32,
    /// Places in the history, the one to blame first.
    pub operations: Vec<usize>,
}

impl Violation {
    pub fn describe(&self, history: &[Operation]) -> String {
        let mut text = format!("{:?} of key {}:", self.kind, self.key);
        for at in &self.operations {
            text.push_str(&format!("\n    [{at}] {}", history[*at]));
        }
        text
    }
}

/// How much a check saw. A check that saw nothing proves nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Seen {
    pub operations: u64,
    pub keys: u64,
    pub mutations: u64,
    pub observations: u64,
    pub absences: u64,
    /// Increments that were answered, or may have been counted.
    pub increments: u64,
    pub conditions_failed: u64,
    /// Commits of several keys that took effect.
    pub commits: u64,
    /// Commits of unknown outcome that some operation observed.
    pub commits_bound: u64,
    pub unknown: u64,
    /// Unknown mutations that some operation observed.
    pub unknown_bound: u64,
    /// Objects that were seen to be absent because their time was over.
    pub expired: u64,
    /// Absences of objects whose time was over on every clock, so that seeing them would have been a
    /// violation.
    pub overdue: u64,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub seen: Seen,
}

/// Checks a whole history; keys are independent. Expiry may be off by `clock_spread` nanoseconds.
pub fn version_witness(history: &[Operation], clock_spread: u64) -> Verdict {
    let mut by_key: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, operation) in history.iter().enumerate() {
        if operation.action == Action::Scan {
            if operation.outcome == Outcome::MetTwice {
                let kind = ViolationKind::MetTwice;
                found.push(Violation { kind, key: operation.key, operations: vec![at] });
            }
            continue;
        }
        by_key.entry(operation.key).or_default().push(at);
    }
    let mut verdict = Verdict::default();
    verdict.seen.operations = history.len() as u64;
    verdict.seen.keys = by_key.len() as u64;
    verdict.seen.unknown = history.iter().filter(|o| o.outcome == Outcome::Unknown).count() as u64;
    for (key, places) in by_key {
        if registers::is_register(key) {
            continue;
        }
        if key >= COUNTERS {
            counters::check(history, key, &places, &mut found, &mut verdict.seen);
            continue;
        }
        let mut order = order::Order::new(history, key, &places, clock_spread, &mut found, &mut verdict.seen);
        if order.sound {
            order.check_real_time(&mut found);
        }
        if order.sound {
            order.check_expiry(&mut found);
        }
        if order.sound {
            order.check_acknowledged(&mut found);
        }
        if order.sound {
            absence::place(&mut order, &mut found, &mut verdict.seen);
        }
    }
    verdict.violations = found;
    verdict
}

#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod versionless;
