//! The operations of a session that have not ended, each with its timer.
//!
//! A step changes an operation several times: it is ready, then posted, then called. Its timer is set once, when somebody
//! looks at the timers. So an operation that is answered at once costs one timer.
//!
//! Invariants:
//! - after `set_timers` every operation has exactly one timer, at its `wake`;
//! - lists of operations are in the order in which they were started.
//!
//! Not here: the states of an operation (`running`). Catalogue: B5, E1.

use super::running::{Running, State};
use crate::operation::OperationId;
use ramhold_base::Instant;
use ramhold_base::map::FastMap;
use std::collections::BTreeSet;
use std::ops::Index;

#[derive(Default)]
pub struct Underway {
    operations: FastMap<OperationId, Timed>,
    timers: BTreeSet<(Instant, OperationId)>,
    /// Operations that were changed since the timers were set. Some of them may have ended.
    changed: Vec<OperationId>,
}

struct Timed {
    running: Running,
    /// The place of its timer. None: it has none yet.
    timer: Option<Instant>,
    is_changed: bool,
}

impl Underway {
    pub fn insert(&mut self, id: OperationId, running: Running) {
        let before = self.operations.insert(id, Timed { running, timer: None, is_changed: true });
        assert!(before.is_none(), "an id is never used again");
        self.changed.push(id);
    }

    pub fn get(&self, id: &OperationId) -> Option<&Running> {
        self.operations.get(id).map(|timed| &timed.running)
    }

    /// For everything but its state and its `wake`: see `change`.
    pub fn get_mut(&mut self, id: &OperationId) -> Option<&mut Running> {
        self.operations.get_mut(id).map(|timed| &mut timed.running)
    }

    /// Puts an operation into a state. Its timer rings at `wake` or at its deadline.
    pub fn change(&mut self, id: OperationId, state: State, wake: Instant) -> &mut Running {
        let timed = self.operations.get_mut(&id).expect("only running operations change");
        timed.running.state = state;
        timed.running.wake = wake.min(timed.running.deadline);
        if !timed.is_changed {
            timed.is_changed = true;
            self.changed.push(id);
        }
        &mut timed.running
    }

    pub fn remove(&mut self, id: &OperationId) -> Option<Running> {
        let timed = self.operations.remove(id)?;
        if let Some(at) = timed.timer {
            self.timers.remove(&(at, *id));
        }
        Some(timed.running)
    }

    /// Sets the timers of all operations that were changed.
    pub fn set_timers(&mut self) {
        for id in self.changed.drain(..) {
            let Some(timed) = self.operations.get_mut(&id) else { continue };
            timed.is_changed = false;
            let wake = timed.running.wake;
            if timed.timer == Some(wake) {
                continue;
            }
            if let Some(at) = timed.timer.replace(wake) {
                self.timers.remove(&(at, id));
            }
            self.timers.insert((wake, id));
        }
    }

    /// The operation whose timer rings next, if it rings by now.
    pub fn due(&mut self, now: Instant) -> Option<OperationId> {
        self.set_timers();
        self.timers.first().filter(|(wake, _)| *wake <= now).map(|(_, id)| *id)
    }

    /// When the next timer rings, as of the last `set_timers`.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(wake, _)| *wake)
    }

    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Those of which this is true.
    pub fn those(&self, is_one: impl Fn(&Running) -> bool) -> Vec<OperationId> {
        let all = self.operations.iter();
        let mut ids: Vec<OperationId> =
            all.filter(|(_, timed)| is_one(&timed.running)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    pub fn check_invariants(&self) {
        assert!(self.changed.is_empty());
        assert_eq!(self.timers.len(), self.operations.len());
        if cfg!(debug_assertions) {
            for (id, timed) in &self.operations {
                assert!(self.timers.contains(&(timed.running.wake, *id)));
                assert!(timed.running.wake <= timed.running.deadline);
            }
        }
    }
}

impl Index<&OperationId> for Underway {
    type Output = Running;

    fn index(&self, id: &OperationId) -> &Running {
        self.get(id).expect("the operation has not ended")
    }
}
