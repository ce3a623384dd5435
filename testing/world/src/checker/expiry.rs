//! When objects with a time to live end, as far as a history tells, and which operations saw them after that.
//!
//! The server's clock decides. This module knows only the earliest and the latest world time of that moment.

use super::order::{Before, Loose, Observation, Order};
use super::{Violation, ViolationKind};
use crate::history::NEVER;
use std::time::Duration;

/// The expiry of an object: between these two world times, whichever clock decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    pub earliest: u64,
    /// `NEVER` while the history gives no bound on when the write took effect.
    pub latest: u64,
    ttl: u64,
}

impl Ends {
    pub fn of(call: u64, ttl: Duration, clock_spread: u64) -> Ends {
        let ttl = u64::try_from(ttl.as_nanos()).unwrap_or(NEVER);
        // However far a clock was ahead, the object cannot have ended before the call of its write.
        let earliest = call.saturating_add(ttl).saturating_sub(clock_spread).max(call);
        Ends { earliest, latest: NEVER, ttl }
    }

    /// The write had taken effect by this time.
    pub fn close(&mut self, by: u64, clock_spread: u64) {
        self.latest = by.saturating_add(self.ttl).saturating_add(clock_spread);
    }
}

/// The weakest bound that holds for all of these writes: one may end this early, and need never end.
pub(super) fn earliest<'a>(writes: impl Iterator<Item = &'a Loose>) -> Option<Ends> {
    let first = writes.filter_map(|w| w.expiry).min_by_key(|expiry| expiry.earliest)?;
    Some(Ends { ttl: NEVER, ..first })
}

impl Order {
    /// The expiry of a state's object, if it has one.
    pub fn expiry(&self, state: usize) -> Option<Ends> {
        self.mutations.get(state.checked_sub(1)?)?.expiry
    }

    /// Whether the object of a state is surely over for an operation that begins at `call`.
    pub fn is_over(&self, state: usize, call: u64) -> bool {
        self.expiry(state).is_some_and(|expiry| expiry.latest < call)
    }

    /// Finds operations that saw an object whose time was over.
    pub fn check_expiry(&mut self, found: &mut Vec<Violation>) {
        for state in 1..self.fixed.len() {
            let Some(expiry) = self.expiry(state) else { continue };
            let written_at = self.mutations[state - 1].at;
            let over: Vec<Observation> =
                self.fixed[state].extract_if(.., |o| o.call > expiry.latest).collect();
            let blamed = over.iter().map(|o| o.at);
            let depends = self.mutations.get(state).filter(|m| matches!(m.before, Before::Version(_)));
            let blamed = blamed.chain(depends.filter(|m| m.call > expiry.latest).map(|m| m.at));
            found.extend(blamed.map(|at| Violation {
                kind: ViolationKind::SeenAfterExpiry,
                key: self.key,
                operations: vec![at, written_at],
            }));
        }
    }
}
