//! A simulated client: one session, one operation at a time, everything written down.
//!
//! The shared history gets an operation when it begins, as unknown; its end is filled in when it is known. So whatever
//! happens to the client, what it left open counts as unknown. After an unknown outcome a new session takes over.

use crate::history::{Action, NEVER, Operation, Outcome, ValueId};
use crate::network::MILLI;
use crate::system::{Ask, MakeSession, Request, Session};
use crate::workload::{Memory, Workload, key_bytes};
use ramhold_base::{Effects, Input, Instant, Machine, Rng};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// The history of all clients of one world.
pub type SharedHistory = Rc<RefCell<Vec<Operation>>>;

/// How long a client waits after a refusal.
const REFUSAL_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Task {
    /// Operations of the workload, without end.
    Work,
    /// Nothing new.
    Rest,
    /// Reads each key until it has an answer, then rests.
    ReadBack(VecDeque<u32>),
}

pub struct Client<S: Session> {
    number: u32,
    workload: Workload,
    make_session: MakeSession<S>,
    session: S,
    session_number: u64,
    wall_millis: u64,
    rng: Rng,
    history: SharedHistory,
    memory: Memory,
    task: Task,
    /// The place of the open operation in the history.
    open: Option<usize>,
    next: Option<Instant>,
    counter: u64,
}

impl<S: Session> Client<S> {
    /// `number` must never have been used before in this history.
    pub fn new(
        number: u32,
        seed: u64,
        workload: Workload,
        mut make_session: MakeSession<S>,
        history: SharedHistory,
    ) -> Client<S> {
        let mut rng = Rng::new(seed);
        let session = make_session(rng.u64());
        Client {
            number,
            workload,
            make_session,
            session,
            session_number: 1,
            wall_millis: 0,
            rng,
            history,
            memory: Memory::default(),
            task: Task::Work,
            open: None,
            next: None,
            counter: 0,
        }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Takes effect at the next step.
    pub fn set_task(&mut self, task: Task) {
        self.task = task;
    }

    /// Nothing open and nothing to do.
    pub fn is_at_rest(&self) -> bool {
        self.open.is_none() && self.task == Task::Rest
    }

    fn begin(&mut self, now: Instant, effects: &mut Effects) {
        let key = match &self.task {
            Task::Work => self.workload.key(&mut self.rng),
            Task::Rest => return,
            Task::ReadBack(keys) => match keys.front() {
                Some(key) => *key,
                None => {
                    self.task = Task::Rest;
                    return;
                }
            },
        };
        self.counter += 1;
        let tag = u64::from(self.number) << 40 | self.counter;
        let (action, value) = match self.task {
            Task::Work => {
                let empty = ValueId::of(&[]);
                let writes_it = |o: &Operation| {
                    o.key == key && matches!(o.action, Action::Write { value, .. } if value == empty)
                };
                let empty_written = || self.history.borrow().iter().any(writes_it);
                self.workload.action(&mut self.rng, tag, self.memory.version(key), empty_written)
            }
            Task::Rest | Task::ReadBack(_) => (Action::Read, Vec::new()),
        };
        let ask = match action {
            Action::Read => Ask::Read,
            Action::Write { condition, ttl, .. } => Ask::Write { value: &value, condition, ttl },
            Action::Remove { condition } => Ask::Remove { condition },
        };
        let operation = Operation {
            client: self.number,
            session: self.session_number,
            key,
            action,
            call: now.0,
            ret: NEVER,
            outcome: Outcome::Unknown,
            answered_by: None,
        };
        let mut history = self.history.borrow_mut();
        self.open = Some(history.len());
        history.push(operation);
        drop(history);
        self.session.begin(now, &Request { key: &key_bytes(key), ask }, effects);
    }

    fn finish(&mut self, now: Instant, effects: &mut Effects) {
        let (Some(open), Some(end)) = (self.open, self.session.take_end()) else { return };
        self.open = None;
        let mut history = self.history.borrow_mut();
        let operation = &mut history[open];
        operation.outcome = end.outcome;
        operation.answered_by = end.answered_by;
        if end.outcome != Outcome::Unknown {
            operation.ret = now.0;
        }
        let key = operation.key;
        drop(history);
        let mut pause = Duration::from_nanos(self.rng.below(self.workload.think_max.max(MILLI)));
        let answered = match end.outcome {
            Outcome::Found { version, .. } | Outcome::Done { version } => {
                self.memory.learn(key, version);
                true
            }
            Outcome::ConditionFailed { version } => {
                self.memory.learn(key, version.unwrap_or_default());
                true
            }
            Outcome::Absent => true,
            Outcome::Refused { .. } => {
                pause = pause.max(REFUSAL_PAUSE);
                false
            }
            Outcome::Unknown => {
                self.session = (self.make_session)(self.rng.u64());
                self.session_number += 1;
                self.session.step(now, Input::Start { wall_millis: self.wall_millis }, effects);
                false
            }
        };
        if let Task::ReadBack(keys) = &mut self.task {
            pause = pause.min(Duration::from_millis(1)).max(if answered {
                Duration::ZERO
            } else {
                REFUSAL_PAUSE
            });
            if answered && keys.front() == Some(&key) {
                keys.pop_front();
            }
        }
        self.next = Some(now + pause);
    }
}

impl<S: Session> Machine for Client<S> {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        if let Input::Start { wall_millis } = input {
            self.wall_millis = wall_millis;
            self.next = Some(now + Duration::from_nanos(self.rng.below(self.workload.think_max.max(1))));
        }
        self.session.step(now, input, effects);
        self.finish(now, effects);
        if self.open.is_none() && (self.next.is_some_and(|next| next <= now)) {
            self.next = None;
            self.begin(now, effects);
            // A session may know the end at once.
            self.finish(now, effects);
        }
        if self.open.is_none() && self.next.is_none() && self.task != Task::Rest {
            self.next = Some(now + Duration::from_millis(1));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        ramhold_base::time::earliest(self.session.deadline(), self.next)
    }
}
