//! The order of one key's mutations and of the operations that saw them, as their versions tell it.
//!
//! State 0 is absence before the first mutation. State `i` is the state that mutation `i` left. A fixed
//! observation belongs to the state whose version it carries. Free observations (absences, presences without
//! a version) are placed afterwards.

use super::expiry::{Ends, earliest};
use super::{Seen, Violation, ViolationKind};
use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use ramhold_base::Version;
use std::collections::{BTreeMap, BTreeSet};

/// The state that a mutation required before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Before {
    Anything,
    Nothing,
    Something,
    Version(Version),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mutation {
    /// Its place in the history. For a mutation known only by its version: the place of the operation that
    /// observed it.
    pub at: usize,
    pub version: Version,
    pub call: u64,
    pub ret: u64,
    pub before: Before,
    /// The value it left; none: a removal. A write seen only by its version left some value.
    pub left: Left,
    pub expiry: Option<Ends>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    Nothing,
    Value(ValueId),
    SomeValue,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub at: usize,
    pub call: u64,
    pub ret: u64,
}

/// An observation without a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    pub seen: Observation,
    pub what: FreeKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FreeKind {
    Absent,
    Present,
}

/// A mutation without a version, unknown or acknowledged, that no operation is known to have observed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loose {
    pub at: usize,
    pub call: u64,
    /// The moment of its acknowledgement; never: its fate is unknown.
    pub ret: u64,
    pub condition: Condition,
    /// For a write: the earliest moment at which its object may expire.
    pub expiry: Option<Ends>,
}

pub(super) struct Order {
    pub key: u32,
    pub mutations: Vec<Mutation>,
    /// Per state, by call.
    pub fixed: Vec<Vec<Observation>>,
    pub free: Vec<Free>,
    pub loose_writes: Vec<Loose>,
    /// For each loose write that something proves, without telling which write it is: the moment by which it
    /// must have begun.
    pub writes_spent: Vec<u64>,
    /// Also loose writes whose object expired: they count as removes.
    pub loose_removes: Vec<Loose>,
    /// False after a violation that leaves no usable order.
    pub sound: bool,
}

const VIOLATIONS_PER_KEY_MAX: usize = 10;

impl Order {
    pub fn new(
        history: &[Operation],
        key: u32,
        places: &[usize],
        clock_spread: u64,
        found: &mut Vec<Violation>,
        seen: &mut Seen,
    ) -> Order {
        let mut draft = Draft {
            history,
            key,
            clock_spread,
            found,
            known: BTreeMap::new(),
            unknown_writes: Vec::new(),
            watched: Vec::new(),
            seen: Vec::new(),
            phantoms: BTreeMap::new(),
            order: Order {
                key,
                mutations: Vec::new(),
                fixed: Vec::new(),
                free: Vec::new(),
                loose_writes: Vec::new(),
                writes_spent: Vec::new(),
                loose_removes: Vec::new(),
                sound: true,
            },
        };
        for at in places {
            draft.take_mutation(*at);
        }
        for at in places {
            draft.take_observation(*at, seen);
        }
        draft.finish(seen)
    }

    /// The contents of a state: a version, or nothing.
    pub fn present(&self, state: usize) -> Option<Version> {
        let mutation = self.mutations.get(state.checked_sub(1)?)?;
        (mutation.left != Left::Nothing).then_some(mutation.version)
    }

    /// Counts one more loose write that began by `limit` as having taken effect, if there are enough.
    pub fn spend_write(&mut self, limit: u64) -> bool {
        self.writes_spent.push(limit);
        let enough = suffice(self.loose_writes.iter(), self.writes_spent.clone());
        if !enough {
            self.writes_spent.pop();
        }
        enough
    }

    /// Finds operations whose order contradicts real time: one is put before another that had returned before
    /// it began.
    pub fn check_real_time(&mut self, found: &mut Vec<Violation>) {
        for _ in 0..VIOLATIONS_PER_KEY_MAX {
            let Some((kind, blamed, other)) = self.first_contradiction() else { return };
            found.push(Violation { kind, key: self.key, operations: vec![blamed, other] });
            // Without the operation to blame, the rest may be judged. Without a mutation nothing can.
            if matches!(kind, ViolationKind::VersionWentBack) {
                break;
            }
            for observations in &mut self.fixed {
                observations.retain(|o| o.at != blamed);
            }
        }
        self.sound = false;
    }

    /// An acknowledged write whose version is unknown is newer than everything that was over before it began.
    /// So none of that may be seen after the write.
    pub fn check_acknowledged(&self, found: &mut Vec<Violation>) {
        for write in self.loose_writes.iter().filter(|write| write.ret != NEVER) {
            let is_older = |state: &usize| {
                let mutation = state.checked_sub(1).map(|m| self.mutations[m].ret);
                let over = mutation.into_iter().chain(self.fixed[*state].iter().map(|o| o.ret)).min();
                over.is_some_and(|over| over < write.call)
            };
            let Some(newest) = (0..self.fixed.len()).rev().find(is_older) else { continue };
            let stale = self.fixed[..=newest].iter().flatten().find(|o| o.call > write.ret);
            if let Some(stale) = stale {
                let (kind, operations) = (ViolationKind::StaleRead, vec![stale.at, write.at]);
                found.push(Violation { kind, key: self.key, operations });
            }
        }
    }

    fn first_contradiction(&self) -> Option<(ViolationKind, usize, usize)> {
        // The latest call so far in the order, its operation, whether that was an observation, and its state.
        let mut latest = (0, usize::MAX, false, 0);
        for state in 0..self.fixed.len() {
            let mutation = state
                .checked_sub(1)
                .map(|m| (self.mutations[m].at, self.mutations[m].call, self.mutations[m].ret, false));
            let observations = self.fixed[state].iter().map(|o| (o.at, o.call, o.ret, true));
            for (at, call, ret, observes) in mutation.into_iter().chain(observations) {
                if ret < latest.0 {
                    let (_, other, other_observes, other_state) = latest;
                    return Some(match (other_observes, observes) {
                        (true, _) => (ViolationKind::StaleRead, other, at),
                        (false, true) if other_state == state => (ViolationKind::FutureRead, at, other),
                        (false, _) => (ViolationKind::VersionWentBack, other, at),
                    });
                }
                if call > latest.0 {
                    latest = (call, at, observes, state);
                }
            }
        }
        None
    }
}

/// Whether each limit can have a mutation of its own that began by then. The mutations are in order of call.
pub(super) fn suffice<'a>(mutations: impl Iterator<Item = &'a Loose>, mut limits: Vec<u64>) -> bool {
    limits.sort_unstable();
    let mut calls = mutations.map(|m| m.call);
    limits.into_iter().all(|limit| calls.next().is_some_and(|call| call <= limit))
}

struct Draft<'a> {
    history: &'a [Operation],
    key: u32,
    clock_spread: u64,
    found: &'a mut Vec<Violation>,
    known: BTreeMap<Version, Mutation>,
    unknown_writes: Vec<(Loose, ValueId, bool)>,
    watched: Vec<(Version, Observation)>,
    /// Values that were read without their version.
    seen: Vec<(ValueId, Observation)>,
    /// Versions that were told without a value and that no known mutation has, with the operation that told
    /// them first.
    phantoms: BTreeMap<Version, Observation>,
    order: Order,
}

impl Draft<'_> {
    fn violation(&mut self, kind: ViolationKind, operations: Vec<usize>) {
        self.found.push(Violation { kind, key: self.key, operations });
    }

    fn take_mutation(&mut self, at: usize) {
        let operation = &self.history[at];
        let (condition, left, ttl) = match operation.action {
            Action::Read => return,
            Action::Increment { .. } | Action::Count | Action::Scan => {
                return self.violation(ViolationKind::Nonsense, vec![at]);
            }
            Action::Write { value, condition, ttl } => (condition, Left::Value(value), ttl),
            Action::Remove { condition } => (condition, Left::Nothing, None),
        };
        let expiry = ttl.map(|ttl| Ends::of(operation.call, ttl, self.clock_spread));
        match operation.outcome {
            Outcome::Done { version } if version.is_none() => {
                if left == Left::Nothing && matches!(condition, Condition::Free) {
                    let seen = Observation { at, call: operation.call, ret: operation.ret };
                    self.order.free.push(Free { seen, what: FreeKind::Absent });
                } else {
                    self.violation(ViolationKind::Nonsense, vec![at]);
                }
            }
            Outcome::Done { version } => {
                let (call, ret) = (operation.call, operation.ret);
                let before = before(condition, left == Left::Nothing);
                if let Some(other) = self.known.get(&version) {
                    let other = other.at;
                    self.violation(ViolationKind::DuplicateVersion, vec![at, other]);
                    self.order.sound = false;
                } else {
                    self.known.insert(version, Mutation { at, version, call, ret, before, left, expiry });
                }
            }
            Outcome::Unknown | Outcome::Acknowledged => {
                let loose = Loose { at, call: operation.call, ret: operation.ret, condition, expiry };
                match left {
                    Left::Value(value) => self.unknown_writes.push((loose, value, false)),
                    Left::Nothing | Left::SomeValue => self.order.loose_removes.push(loose),
                }
            }
            Outcome::ConditionFailed { .. } | Outcome::Refused { .. } => {}
            Outcome::Found { .. }
            | Outcome::Seen { .. }
            | Outcome::Absent
            | Outcome::Counted { .. }
            | Outcome::Summed { .. }
            | Outcome::Scanned
            | Outcome::MetTwice => {
                self.violation(ViolationKind::Nonsense, vec![at]);
            }
        }
    }

    fn take_observation(&mut self, at: usize, seen: &mut Seen) {
        let operation = &self.history[at];
        let observation = Observation { at, call: operation.call, ret: operation.ret };
        match (operation.action, operation.outcome) {
            (Action::Read, Outcome::Found { version, value }) => {
                seen.observations += 1;
                if self.knows(version, value, observation) {
                    self.watched.push((version, observation));
                }
            }
            (Action::Read, Outcome::Seen { value }) => {
                seen.observations += 1;
                self.seen.push((value, observation));
            }
            (Action::Read, Outcome::Absent) => {
                self.order.free.push(Free { seen: observation, what: FreeKind::Absent });
            }
            (
                Action::Read,
                Outcome::Done { .. }
                | Outcome::Acknowledged
                | Outcome::Counted { .. }
                | Outcome::Summed { .. }
                | Outcome::ConditionFailed { .. }
                | Outcome::Scanned
                | Outcome::MetTwice,
            ) => {
                self.violation(ViolationKind::Nonsense, vec![at]);
            }
            (
                Action::Write { condition, .. } | Action::Remove { condition },
                Outcome::ConditionFailed { version },
            ) => {
                seen.conditions_failed += 1;
                self.take_refusal(condition, version, observation);
            }
            (_, Outcome::Refused { .. } | Outcome::Unknown) => {}
            (
                Action::Write { condition, .. } | Action::Remove { condition },
                Outcome::Done { .. } | Outcome::Acknowledged,
            ) => {
                seen.mutations += 1;
                // A condition that held tells the version too.
                if let Condition::VersionIs(version) = condition
                    && !self.known.contains_key(&version)
                {
                    self.tell(version, observation);
                }
            }
            // This is already reported as nonsense.
            (
                Action::Write { .. } | Action::Remove { .. },
                Outcome::Found { .. }
                | Outcome::Seen { .. }
                | Outcome::Absent
                | Outcome::Counted { .. }
                | Outcome::Summed { .. }
                | Outcome::Scanned
                | Outcome::MetTwice,
            )
            | (
                Action::Increment { .. } | Action::Count | Action::Scan,
                Outcome::Found { .. }
                | Outcome::Seen { .. }
                | Outcome::Absent
                | Outcome::Acknowledged
                | Outcome::Counted { .. }
                | Outcome::Summed { .. }
                | Outcome::ConditionFailed { .. }
                | Outcome::Scanned
                | Outcome::MetTwice
                | Outcome::Done { .. },
            ) => {}
        }
    }

    fn take_refusal(&mut self, condition: Condition, told: Option<Version>, seen: Observation) {
        let wrongly = match (condition, told) {
            (Condition::Free, _) => true,
            (Condition::Absent, Some(version)) => version.is_none(),
            (Condition::VersionIs(wanted), Some(version)) => version == wanted,
            (_, None) => false,
        };
        if wrongly {
            return self.violation(ViolationKind::RefusedWrongly, vec![seen.at]);
        }
        match (told, condition) {
            (Some(Version::NONE), _) => self.order.free.push(Free { seen, what: FreeKind::Absent }),
            (Some(version), _) => {
                match self.known.get(&version) {
                    Some(mutation) if mutation.left == Left::Nothing => {
                        let other = mutation.at;
                        return self.violation(ViolationKind::WrongValue, vec![seen.at, other]);
                    }
                    Some(_) => {}
                    None => self.tell(version, seen),
                }
                self.watched.push((version, seen));
            }
            // A refused version condition may also mean absence, so only a refused absence says anything.
            (None, Condition::Absent) => {
                self.order.free.push(Free { seen, what: FreeKind::Present });
            }
            (None, Condition::VersionIs(_) | Condition::Free) => {}
        }
    }

    fn tell(&mut self, version: Version, seen: Observation) {
        let first = self.phantoms.entry(version).or_insert(seen);
        if seen.ret < first.ret {
            *first = seen;
        }
    }

    /// Whether some write can have written this value with this version. Binds an unknown write to it.
    fn knows(&mut self, version: Version, value: ValueId, seen: Observation) -> bool {
        if let Some(mutation) = self.known.get(&version) {
            if mutation.left != Left::Value(value) {
                let other = mutation.at;
                self.violation(ViolationKind::WrongValue, vec![seen.at, other]);
                return false;
            }
            return true;
        }
        let candidate = self
            .unknown_writes
            .iter_mut()
            .filter(|(_, left, bound)| *left == value && !*bound)
            .min_by_key(|(loose, _, _)| loose.call);
        let Some((loose, _, bound)) = candidate else {
            let mut blamed = vec![seen.at];
            blamed.extend(self.writer_of(value));
            self.violation(ViolationKind::NeverWritten, blamed);
            return false;
        };
        *bound = true;
        let mut loose = *loose;
        // When several unknown writes left the same value, it is open which one this is. The weakest bound
        // that holds for all counts.
        let alike = self.unknown_writes.iter().filter(|(_, left, _)| *left == value);
        if alike.clone().count() > 1 {
            loose.ret = NEVER;
            loose.call = alike.map(|(loose, _, _)| loose.call).min().unwrap_or(loose.call);
            loose.condition = Condition::Free;
            loose.expiry =
                earliest(self.unknown_writes.iter().filter(|(_, left, _)| *left == value).map(|(l, _, _)| l));
        }
        if let Condition::VersionIs(version) = loose.condition
            && !self.known.contains_key(&version)
        {
            self.tell(version, Observation { at: loose.at, call: loose.call, ret: NEVER });
        }
        let before = before(loose.condition, false);
        let mutation = Mutation {
            at: loose.at,
            version,
            call: loose.call,
            ret: loose.ret,
            before,
            left: Left::Value(value),
            expiry: loose.expiry,
        };
        self.known.insert(version, mutation);
        true
    }

    /// A write has taken effect when it has returned, and when an operation has read its value.
    fn close_expiries(&mut self) {
        let mut read_by: BTreeMap<Version, u64> = BTreeMap::new();
        for (version, seen) in &self.watched {
            if matches!(self.history[seen.at].outcome, Outcome::Found { .. }) {
                let by = read_by.entry(*version).or_insert(NEVER);
                *by = seen.ret.min(*by);
            }
        }
        for (version, mutation) in &mut self.known {
            let by = read_by.get(version).copied().unwrap_or(NEVER).min(mutation.ret);
            if let Some(expiry) = &mut mutation.expiry {
                expiry.close(by, self.clock_spread);
            }
        }
    }

    /// An unknown write that replaced an object, and whose own object then expired, looks like a remove. Such
    /// a write for an absent object leaves everything as it was.
    fn count_unseen_ends(&mut self) {
        for write in &self.order.loose_writes {
            let Some(expiry) = write.expiry else { continue };
            let condition = match write.condition {
                Condition::Absent => continue,
                Condition::VersionIs(version) if self.known.contains_key(&version) => write.condition,
                // No operation saw the object that it replaced, either.
                Condition::VersionIs(_) | Condition::Free => Condition::Free,
            };
            let remove = Loose { call: expiry.earliest, condition, expiry: None, ..*write };
            self.order.loose_removes.push(remove);
        }
        self.order.loose_removes.sort_by_key(|l| l.call);
    }

    /// A value that was read without a version counts for the one version that the value is known to have
    /// had. If the value had several versions, or one that no answer told, the read proves only that the
    /// value was written by then.
    fn place_seen(&mut self) {
        for (value, seen) in std::mem::take(&mut self.seen) {
            let mut versions = self.known.values().filter(|m| m.left == Left::Value(value));
            let (first, second) = (versions.next().map(|m| m.version), versions.next());
            let loose = self.unknown_writes.iter().find(|(_, left, bound)| *left == value && !*bound);
            match (first, loose) {
                (Some(version), None) if second.is_none() => self.watched.push((version, seen)),
                (Some(_), _) => {}
                (None, Some((loose, ..))) if loose.call <= seen.ret => {}
                (None, Some((loose, ..))) => {
                    let at = loose.at;
                    self.violation(ViolationKind::FutureRead, vec![seen.at, at]);
                }
                (None, None) => self.violation(ViolationKind::NeverWritten, vec![seen.at]),
            }
        }
    }

    fn writer_of(&self, value: ValueId) -> Option<usize> {
        let known = self.known.values().find(|m| m.left == Left::Value(value)).map(|m| m.at);
        known.or_else(|| {
            self.unknown_writes.iter().find(|(_, left, _)| *left == value).map(|(loose, _, _)| loose.at)
        })
    }

    fn finish(mut self, seen: &mut Seen) -> Order {
        self.place_seen();
        let mut loose: Vec<Loose> =
            self.unknown_writes.iter().filter(|(_, _, bound)| !*bound).map(|(loose, _, _)| *loose).collect();
        loose.sort_by_key(|l| l.call);
        seen.unknown_bound += (self.unknown_writes.len() - loose.len()) as u64;
        self.order.loose_writes = loose;
        // Assigns versions that were told without a value: lower versions to earlier writes, which constrains
        // least.
        let mut unheard = BTreeSet::new();
        for (version, told) in std::mem::take(&mut self.phantoms) {
            if self.known.contains_key(&version) {
                continue;
            }
            if !self.order.spend_write(told.ret) {
                self.violation(ViolationKind::NeverWritten, vec![told.at]);
                unheard.insert(version);
                continue;
            }
            let Loose { at, call, .. } = self.order.loose_writes[self.order.writes_spent.len() - 1];
            let (before, left) = (Before::Anything, Left::SomeValue);
            // It is open which write this is, and so whether its object expires at all.
            let expiry = earliest(self.order.loose_writes.iter());
            self.known.insert(version, Mutation { at, version, call, ret: NEVER, before, left, expiry });
        }
        self.close_expiries();
        self.count_unseen_ends();
        let mut order = self.order;
        order.fixed = vec![Vec::new(); self.known.len() + 1];
        let states: BTreeMap<Version, usize> = self.known.keys().copied().zip(1..).collect();
        order.mutations = self.known.into_values().collect();
        for (version, observation) in self.watched {
            if !unheard.contains(&version) {
                order.fixed[states[&version]].push(observation);
            }
        }
        for observations in &mut order.fixed {
            observations.sort_by_key(|o| o.call);
        }
        order
    }
}

fn before(condition: Condition, removes: bool) -> Before {
    match condition {
        Condition::Free if removes => Before::Something,
        Condition::Free => Before::Anything,
        Condition::Absent => Before::Nothing,
        Condition::VersionIs(version) => Before::Version(version),
    }
}
