//! Places the observations without a version, and checks what each mutation demanded of the state before it.
//!
//! A position is `2 * state`, or `2 * state + 1` for an absence that an unknown remove made within a state.
//!
//! A free observation goes to the earliest position that real time allows. That is right because all its
//! constraints are lower bounds, so the earliest choice never forbids a later one.
//!
//! An unknown remove is spent only on an absence that nothing else explains. It is placed as late as
//! possible, so that neighbours can share it. An object that ended by itself explains absences without an
//! unknown remove: its state has such a position from the beginning, and the position counts from the end of
//! the object on.
//!
//! The checker does not decide which remove serves which state. It is enough that enough removes began in
//! time.

use super::order::{Before, FreeKind, Order, suffice};
use super::{Seen, Violation, ViolationKind};
use crate::history::{Condition, NEVER};
use std::collections::{BTreeMap, BTreeSet};

struct Places<'a> {
    order: &'a mut Order,
    /// Per state: the latest call up to it, and the operation of that call.
    latest_call: Vec<(u64, usize)>,
    /// Per state: the earliest return after it.
    earliest_ret: Vec<u64>,
    /// Positions where the object is absent.
    absent: BTreeSet<usize>,
    /// The latest possible begin of the unknown remove, for each state that one ended.
    gaps: BTreeMap<usize, u64>,
}

/// Checks conditions, then places all free observations.
pub(super) fn place(order: &mut Order, found: &mut Vec<Violation>, seen: &mut Seen) {
    let key = order.key;
    let mut places = Places::new(order);
    places.check_conditions(found);
    let mut free = std::mem::take(&mut places.order.free);
    seen.absences += free.len() as u64;
    free.sort_by_key(|f| (f.seen.ret, f.seen.call));
    // The greatest position among the operations that had returned, in order of their return.
    let mut returned: Vec<(u64, usize)> = Vec::new();
    for f in free {
        let before = returned.partition_point(|(ret, _)| *ret < f.seen.call);
        let bound = before.checked_sub(1).map_or(0, |i| returned[i].1);
        let position = match f.what {
            FreeKind::Absent => places.place_absence(f.seen.call, f.seen.ret, bound),
            FreeKind::Present => {
                // A write that no operation observed may have been there in any state, and binds nothing.
                let unseen = places.order.loose_writes.iter().any(|w| w.call <= f.seen.ret);
                if unseen { Some(0) } else { places.place_presence(f.seen.call, f.seen.ret) }
            }
        };
        let Some(position) = position else {
            let state = places.first_state(f.seen.call).max(bound / 2);
            let mut operations = vec![f.seen.at];
            operations.extend(Some(places.latest_call[state].1).filter(|at| *at != usize::MAX));
            let kind = match f.what {
                FreeKind::Absent => ViolationKind::ImpossibleAbsence,
                FreeKind::Present => ViolationKind::ImpossiblePresence,
            };
            found.push(Violation { kind, key, operations });
            continue;
        };
        if position % 2 == 1 && places.order.is_over(position / 2, f.seen.call) {
            seen.overdue += 1;
        }
        let greatest = returned.last().map_or(position, |(_, last)| position.max(*last));
        returned.push((f.seen.ret, greatest));
    }
    let expired =
        places.gaps.iter().filter(|(state, limit)| places.has_ended(**state, **limit)).count() as u64;
    seen.expired += expired;
    seen.unknown_bound += places.gaps.len() as u64 - expired;
}

impl Places<'_> {
    fn new(order: &mut Order) -> Places<'_> {
        let states = order.fixed.len();
        let mut latest_call = Vec::with_capacity(states);
        let mut latest = (0, usize::MAX);
        for state in 0..states {
            let mutation = state.checked_sub(1).map(|m| (order.mutations[m].call, order.mutations[m].at));
            let observations = order.fixed[state].iter().map(|o| (o.call, o.at));
            latest =
                mutation.into_iter().chain(observations).fold(latest, |a, b| if b.0 > a.0 { b } else { a });
            latest_call.push(latest);
        }
        let mut earliest_ret = vec![NEVER; states];
        for state in (0..states - 1).rev() {
            let observations = order.fixed[state + 1].iter().map(|o| o.ret).min().unwrap_or(NEVER);
            earliest_ret[state] = earliest_ret[state + 1].min(observations).min(order.mutations[state].ret);
        }
        let absent = (0..states).filter(|s| order.present(*s).is_none()).map(|s| 2 * s);
        // An expiry in a state before a remove that found something has a cost.
        let costly = |s: usize| order.mutations.get(s).is_some_and(|m| m.before == Before::Something);
        let ended = (1..states).filter(|s| order.expiry(*s).is_some() && !costly(*s)).map(|s| 2 * s + 1);
        let absent = absent.chain(ended).collect();
        Places { order, latest_call, earliest_ret, absent, gaps: BTreeMap::new() }
    }

    fn check_conditions(&mut self, found: &mut Vec<Violation>) {
        for state in 0..self.order.mutations.len() {
            let mutation = self.order.mutations[state];
            let there = self.order.present(state).filter(|_| !self.order.is_over(state, mutation.call));
            let holds = match (mutation.before, there) {
                (Before::Anything, _) | (Before::Nothing, None) | (Before::Something, Some(_)) => true,
                (Before::Nothing, Some(_)) => self.open_gap(state, NEVER),
                // The mutation removed the object of an unknown write that no operation observed.
                (Before::Something, None) => self.order.spend_write(self.earliest_ret[state]),
                // Whether that object was over has been checked elsewhere.
                (Before::Version(wanted), _) => self.order.present(state) == Some(wanted),
            };
            if !holds {
                let mut operations = vec![mutation.at];
                operations.extend(state.checked_sub(1).map(|m| self.order.mutations[m].at));
                found.push(Violation {
                    kind: ViolationKind::ConditionIgnored,
                    key: self.order.key,
                    operations,
                });
            }
        }
    }

    /// The first state that an operation with this beginning may belong to.
    fn first_state(&self, call: u64) -> usize {
        self.earliest_ret.partition_point(|ret| *ret < call)
    }

    fn place_absence(&mut self, call: u64, ret: u64, bound: usize) -> Option<usize> {
        let start = bound.max(2 * self.first_state(call));
        let last = self.latest_call.partition_point(|(call, _)| *call <= ret).checked_sub(1)?;
        if start / 2 > last {
            return None;
        }
        let reachable: Vec<usize> = self.absent.range(start..=2 * last + 1).copied().collect();
        for position in reachable {
            let state = position / 2;
            let is_open = position % 2 == 0
                || ((self.gaps.contains_key(&state) || self.may_end(state, ret))
                    && self.open_gap(state, ret));
            if is_open {
                return Some(position);
            }
        }
        (start / 2..=last)
            .rev()
            .find(|state| {
                let fresh = self.order.present(*state).is_some() && !self.gaps.contains_key(state);
                fresh && self.gap_allowed(*state) && self.open_gap(*state, ret)
            })
            .map(|state| 2 * state + 1)
    }

    /// A presence without a version is compared with versions only, not with absences.
    fn place_presence(&self, call: u64, ret: u64) -> Option<usize> {
        (self.first_state(call)..self.latest_call.len())
            .take_while(|state| self.entered(*state) <= ret)
            .find(|state| self.order.present(*state).is_some() && !self.order.is_over(*state, call))
            .map(|state| 2 * state)
    }

    /// Whether the object of a state can have expired by `limit`.
    fn has_ended(&self, state: usize, limit: u64) -> bool {
        self.order.expiry(state).is_some_and(|expiry| expiry.earliest <= limit)
    }

    /// Whether an expiry can explain an absence that ends at `ret`. Everything after the state must allow it
    /// too.
    fn may_end(&self, state: usize, ret: u64) -> bool {
        self.has_ended(state, ret.min(self.earliest_ret[state])) && self.gap_allowed(state)
    }

    /// The latest call of everything before the observations of a state. The observations themselves are in
    /// any order.
    fn entered(&self, state: usize) -> u64 {
        let Some(before) = state.checked_sub(1) else { return 0 };
        self.latest_call[before].0.max(self.order.mutations[before].call)
    }

    /// Whether the object may have vanished at the end of this state, judged by the next mutation. If that is
    /// a remove, it then removed the object of an unknown write in between that no operation saw.
    fn gap_allowed(&self, state: usize) -> bool {
        match self.order.mutations.get(state).map(|m| m.before) {
            None | Some(Before::Anything | Before::Nothing) => true,
            Some(Before::Something) => {
                self.order.loose_writes.iter().any(|w| w.call <= self.earliest_ret[state])
            }
            Some(Before::Version(_)) => false,
        }
    }

    /// Lets an unknown remove that began by `limit` end this state, if there are enough of them for all such states.
    fn open_gap(&mut self, state: usize, limit: u64) -> bool {
        let old = self.gaps.get(&state).copied();
        let limit = limit.min(self.earliest_ret[state]).min(old.unwrap_or(NEVER));
        self.gaps.insert(state, limit);
        if !self.removes_suffice() {
            match old {
                Some(old) => self.gaps.insert(state, old),
                None => self.gaps.remove(&state),
            };
            return false;
        }
        if old.is_none() {
            self.absent.insert(2 * state + 1);
            if self.order.mutations.get(state).is_some_and(|m| m.before == Before::Something) {
                self.order.spend_write(self.earliest_ret[state]);
            }
        }
        true
    }

    /// Whether each gap can have an unknown remove of its own. One with a condition serves its version only.
    fn removes_suffice(&self) -> bool {
        let removes = &self.order.loose_removes;
        let own = |state: usize, limit: u64| {
            if self.has_ended(state, limit) {
                return true;
            }
            let there = self.order.present(state);
            removes.iter().any(|r| {
                matches!(r.condition, Condition::VersionIs(v) if Some(v) == there) && r.call <= limit
            })
        };
        let limits =
            self.gaps.iter().filter(|(state, limit)| !own(**state, **limit)).map(|(_, limit)| *limit);
        suffice(removes.iter().filter(|r| r.condition == Condition::Free), limits.collect())
    }
}
